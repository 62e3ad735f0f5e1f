"""Keep computed tables in one file beside the store, so that a store that has not changed is analysed once.

The file is never a second truth. It holds tables with their notes, no prompt and no transcript. It may be deleted at
any time. Only the program that wrote it reads it, and only while the store and the libraries are unchanged.
"""

import hashlib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import msgspec

from lhaw_record.analytics.tables.tables import Table
from lhaw_record.analytics.views.build_order import sql_root
from lhaw_record.analytics.views.parameters import Setting, values_of
from lhaw_record.analytics.views.rows import BrokenClaim
from lhaw_record.recorder.files.disk import publish
from lhaw_record.recorder.files.layout import MARKER
from lhaw_record.recorder.resources import user_folder
from lhaw_record.recorder.storage.journal import is_live
from lhaw_record.recorder.storage.store import Store

T = TypeVar("T")
Analysis = tuple[list[Table], tuple[BrokenClaim, ...]]

KEPT = "analysis.msgpack"
_MOST_TABLES = 400
_LIBRARIES = ("duckdb", "lhaw-record", "numpy", "pyarrow", "scipy")
_CODE = Path(__file__).resolve().parents[1]


class _Kept(msgspec.Struct, frozen=True):
    """What was computed in one state of a store: encoded tables by name and parameters, broken claims by parameters."""

    state: str
    tables: dict[str, msgspec.Raw] = {}
    claims: dict[str, tuple[BrokenClaim, ...]] = {}


def kept_or_computed(
    path: Path,
    names: Sequence[str],
    parameters: Mapping[str, Setting],
    compute: Callable[[list[str]], Analysis],
    *,
    is_fresh: bool = False,
) -> Analysis:
    """Return tables and the claims that do not hold. Only tables that are not kept are computed, and then kept.

    Nothing is kept if the store changes meanwhile, nor what MessagePack cannot hold unchanged. ``is_fresh`` computes
    every table again.
    """
    store = Store(path)
    if store.remote is not None:
        from lhaw_record.recorder.reading.reader import consistent_read  # only shared stores need it

        consistent_read(store, lambda: None)  # updates the working copy
    state, choices = _state(store), repr(sorted(values_of(parameters).items()))
    kept = _Kept(state) if is_fresh else _read(store, state)
    raw = {name: kept.tables.get(f"{name} {choices}") for name in names}
    found = {name: msgspec.msgpack.decode(each, type=Table) for name, each in raw.items() if each is not None}
    missing = [name for name in names if name not in found]
    if not missing:
        return [found[name] for name in names], kept.claims[choices]
    computed, broken = compute(missing)
    if state and _is_unchanged(broken, tuple[BrokenClaim, ...]) and _state(store) == state:
        encode, before = msgspec.msgpack.encode, _read(store, state)
        new = {f"{each.name} {choices}": msgspec.Raw(encode(each)) for each in computed if _is_unchanged(each, Table)}
        tables = list(({key: each for key, each in before.tables.items() if key not in new} | new).items())
        _write(store, _Kept(state, dict(tables[-_MOST_TABLES:]), before.claims | {choices: broken}))
    found |= {each.name: each for each in computed}
    return [found[name] for name in names], broken


def _is_unchanged(value: T, kind: type[T]) -> bool:
    """Return whether a value is the same after it was encoded and decoded."""
    try:
        return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind) == value
    except (OverflowError, TypeError):  # MessagePack has no such value
        return False


def _state(store: Store) -> str:
    """Return a digest of all that numbers depend on except parameters, or nothing while files vanish.

    Files are known by length, times and inode, as make and git know them, because reading them takes too long.
    """
    try:
        files = [store.manifest_path, *_files(store.root / MARKER, store.journal_dir, store.events_dir)]
        seen = [(str(path), *_stamp(path)) for path in files]
        live = [is_live(path) for path in store.journals().values()]
    except FileNotFoundError:
        return ""
    return hashlib.sha256(repr((_program(), seen, live)).encode()).hexdigest()


@cache
def _program() -> list[object]:
    """Return what tells this program from others: its files, and the versions of what it computes with."""
    files = [path for path in _files(_CODE, _CODE.parent / "recorder", sql_root()) if path.suffix != ".pyc"]
    return [sys.version, *map(version, _LIBRARIES), *((str(path), *_stamp(path)) for path in files)]


def _files(*places: Path) -> list[Path]:
    """Return the files in some folders, sorted. A place that is a file is returned itself."""
    found = [Path(folder, name) for place in places for folder, _, names in os.walk(place) for name in names]
    return sorted([*found, *(place for place in places if place.is_file())])


def _stamp(path: Path) -> tuple[int, ...]:
    known = path.stat()
    return known.st_size, known.st_mtime_ns, known.st_ctime_ns, known.st_ino


def _places(store: Store) -> tuple[Path, Path]:
    """Return the file beside the store, and that in the user's cache folder for a store that others write."""
    name = hashlib.sha256(str(store.root.resolve()).encode()).hexdigest()[:32]
    return store.root / KEPT, user_folder("cache") / "analysis" / f"{name}.msgpack"


def _read(store: Store, state: str) -> _Kept:
    for place in _places(store):
        try:
            kept = msgspec.msgpack.decode(place.read_bytes(), type=_Kept)
        except (OSError, msgspec.DecodeError):
            continue
        if state and kept.state == state:
            return kept
    return _Kept(state)


def _write(store: Store, kept: _Kept) -> None:
    """Write the file atomically. A place that cannot be written is left out."""
    beside, cached = _places(store)
    is_ours = store.address is None and not any(map(is_live, store.journals().values()))
    for place in (beside, cached) if is_ours else (cached,):
        with suppress(OSError):
            place.parent.mkdir(parents=True, exist_ok=True)
            publish(store.disk, place, msgspec.msgpack.encode(kept))
            return
