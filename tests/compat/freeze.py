"""Freeze a small store as files: ``python -m tests.compat.freeze`` writes tests/compat/store-2 anew, always the same.

Every event type is in it, once with every field set and once with every field unknown that may be; events lie in a
merged segment, in a segment sealed from one journal, and in the journal of a writer that died; one stream is open; one
artifact has its bytes.
"""

import hashlib
import lzma
import random
import shutil
import tempfile
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints
from unittest import mock

import anyio
import msgspec

from lhaw_record.recorder.events import EVENT_TYPES, AnyEvent, ArtifactStored, Envelope, RunStarted, Usage
from lhaw_record.recorder.events.closing import CLOSING
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.blobs import store_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.transfer.export import event_line
from lhaw_record.recorder.writing.recorder import Clock
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.synthetic.design import Design
from tests.synthetic.making import make_store

HERE = Path(__file__).resolve().parent
STORE = HERE / "store-2"
LISTING = HERE / "store-2.jsonl.xz"
_SEED = 1
_EVENTS = 200
_TRIALS = 6
_BEGAN_US = 1_750_000_000_000_000


def freeze() -> None:
    """Write the store and the listing of its events."""
    shutil.rmtree(STORE, ignore_errors=True)
    trials = _synthetic_trials()
    with _nothing_of_this_machine():
        anyio.run(_record, trials)
    lines = sorted(event_line(envelope) for envelope in read_envelopes(STORE))
    LISTING.write_bytes(lzma.compress(b"\n".join(lines) + b"\n"))


async def _record(trials: list[tuple[str, list[AnyEvent]]]) -> None:
    store = create_store(STORE)
    for part in (trials[:3], trials[3:]):
        await _append(store, "trials", part)
    compact(store, grace_s=0.0)
    sha256 = store_blob(store, b"--- a/report.md\n+++ b/report.md\n")
    events = [_example(cls) for cls in EVENT_TYPES]
    opening = [
        msgspec.structs.replace(each, sha256=sha256) if isinstance(each, ArtifactStored) else each
        for each in events
        if not isinstance(each, CLOSING)
    ]
    endings = [each for each in events if isinstance(each, CLOSING)]
    await _append(
        store,
        "every-type",
        [
            ("every", [*opening, endings[0]]),
            *((f"end{n}", [each]) for n, each in enumerate(endings[1:])),
            *((f"unknown{n}", [*map(_unknown, opening), _unknown(each)]) for n, each in enumerate(endings)),
        ],
    )
    await _append(
        store, "interrupted", [("ended", [*opening[-2:], endings[-1]]), ("open", opening[-3:])], is_killed=True
    )


async def _append(
    store: Store, experiment_id: str, streams: list[tuple[str, list[AnyEvent]]], *, is_killed: bool = False
) -> None:
    """Record streams in one journal, and seal it unless its writer is to look killed."""
    ticks = iter(range(10**9))
    clock = Clock(wall_us=lambda: _BEGAN_US + 1000 * next(ticks), monotonic_ns=lambda: 1000 * next(ticks))
    async with StoreRecorder(store, experiment_id, clock=clock, start_sealing=InProcess) as recorder:
        for trial_id, events in streams:
            stream = recorder.stream(f"{trial_id}-1", trial_id=trial_id, attempt=1)
            for event in events:
                await stream.append(event)
        ((_, journal),) = store.journals().items()
        content = journal.read_bytes()
    if is_killed:
        for path in (
            *store.events_dir.glob(f"experiment={experiment_id}/*"),
            *store.index_dir.glob(f"{journal.stem}*"),
        ):
            path.unlink()
        (store.events_dir / f"experiment={experiment_id}").rmdir()
        journal.write_bytes(content)


def _synthetic_trials() -> list[tuple[str, list[AnyEvent]]]:
    """The run and some trials of a small synthetic experiment, without what depends on the machine."""
    with tempfile.TemporaryDirectory() as folder:
        make_store(Path(folder) / "made", Design(_SEED, _EVENTS))
        streams: dict[str, list[Envelope]] = {}
        for envelope in sorted(read_envelopes(Path(folder) / "made"), key=lambda each: (each.stream_id, each.sequence)):
            streams.setdefault(envelope.stream_id, []).append(envelope)
    run = next(found for found in streams.values() if found[0].trial_id is None)
    trials = [found for stream_id, found in sorted(streams.items()) if stream_id.endswith("-1")][:_TRIALS]
    return [(found[0].trial_id or "run", [_neutral(each.event) for each in found]) for found in (run, *trials)]


def _neutral(event: AnyEvent) -> AnyEvent:
    if isinstance(event, CLOSING):
        return msgspec.structs.replace(event, stream_digest="")
    if isinstance(event, RunStarted):
        machine = {"code_version": "0.1.0", "packages": (), "python_version": "3.11", "platform": "p", "cpu_count": 2}
        return msgspec.structs.replace(event, **machine)
    return event


def _example(annotation: Any, name: str = "value") -> Any:
    """A value of a type in which every field is set."""
    if isinstance(annotation, type) and issubclass(annotation, msgspec.Struct):
        hints = get_type_hints(annotation)
        fields = {field: _example(hints[field], field) for field in annotation.__struct_fields__}
        return annotation(**fields | ({"stream_digest": ""} if "stream_digest" in fields else {}))
    if get_origin(annotation) is Literal:
        return get_args(annotation)[0]
    if get_origin(annotation) in (Union, types.UnionType):
        return _example(next(each for each in get_args(annotation) if each is not type(None)), name)
    if get_origin(annotation) is tuple:
        return (_example(get_args(annotation)[0], name), _example(get_args(annotation)[0], name))
    if name.endswith("_sha256"):
        return hashlib.sha256(name.encode()).hexdigest()
    scalars = {str: f"{name}, Größe ≤ 5 \U0001f40c", int: 7, float: 2.5, bool: True}
    return "{}" if name.endswith("_json") else scalars[annotation]


def _unknown(event: Any) -> Any:
    """The same event with None wherever a value may be unknown."""
    hints = get_type_hints(type(event))
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    unknown = {name: None for name in fields if type(None) in get_args(hints[name])}
    usage = {"usage": _unknown(fields["usage"])} if isinstance(fields.get("usage"), Usage) else {}
    return msgspec.structs.replace(event, **usage | unknown)


@contextmanager
def _nothing_of_this_machine() -> Iterator[None]:
    """Names of writers from a seed; no host, no process."""
    chance = random.Random(_SEED)
    with (
        mock.patch(
            "lhaw_record.recorder.writing.recorder.secrets.token_hex", lambda size: chance.randbytes(size).hex()
        ),
        mock.patch("lhaw_record.recorder.storage.journal.socket.gethostname", return_value="host"),
        mock.patch("lhaw_record.recorder.storage.journal.os.getpid", return_value=1),
    ):
        yield


if __name__ == "__main__":
    freeze()
