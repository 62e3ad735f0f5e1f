"""Kept tables equal fresh ones to the byte, and are used exactly while nothing that they depend on has changed."""

import asyncio
import io
import math
import os
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import pytest

from lhaw_record.analytics.cli import table_output
from lhaw_record.analytics.tables import kept
from lhaw_record.analytics.tables.kept import KEPT, kept_or_computed
from lhaw_record.analytics.tables.tables import Table
from lhaw_record.analytics.views import store as stores
from lhaw_record.analytics.views.rows import BrokenClaim
from lhaw_record.command_line import main
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.analytics.make_store import write_events
from tests.analytics.random_stores import random_store
from tests.support.depth import at_depth


@pytest.fixture
def root(tmp_path, monkeypatch):
    """The directory of a store without events; the user's cache folder is beside it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return create_store(tmp_path / "store").root


def made(name, value=0.1):
    """A table of one row."""
    return Table(name=name, title="t", keys=("k",), columns=("k", "v"), rows=({"k": None, "v": value},), notes=("n",))


def asked(root, names=("a", "b"), parameters=None, broken=(), value=0.1, **options):
    """Ask for tables; what was computed for it, and what came."""
    computed = []

    def compute(missing):
        computed.extend(missing)
        return [made(name, value) for name in missing], broken

    found = kept_or_computed(root, names, parameters or {}, compute, **options)
    return computed, found


def test_what_is_kept_is_not_computed_and_equals_it(root):
    """Only tables that no earlier call had are computed; they come in the order that they were asked for."""
    assert asked(root) == (["a", "b"], ([made("a"), made("b")], ()))
    assert asked(root) == ([], ([made("a"), made("b")], ()))
    assert asked(root, ("c", "b")) == (["c"], ([made("c"), made("b")], ()))
    assert asked(root, ("b", "a"), is_fresh=True) == (["b", "a"], ([made("b"), made("a")], ()))
    assert asked(root, ("c", "a"))[0] == []


CHANGES = {
    "a manifest with another line": lambda root: (root / "manifest.jsonl").write_text("{}\n", encoding="utf-8"),
    "one more segment": lambda root: (root / "events" / "w.parquet").write_bytes(b"1"),
    "a byte of a segment": lambda root: (root / "events/experiment=_schema/schema.parquet").write_bytes(b"2"),
    "a journal": lambda root: (root / "journal" / "w.mark").write_bytes(b""),
    "no file": lambda root: (root / KEPT).unlink(),
    "a damaged file": lambda root: (root / KEPT).write_bytes((root / KEPT).read_bytes()[:-9]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_has_changed_is_computed(root, change):
    """A file that was made in another state of the store is never read, and a lost or damaged one is made again."""
    asked(root)
    CHANGES[change](root)
    assert asked(root)[0] == ["a", "b"]
    assert asked(root)[0] == []


def test_times_of_a_file_tell_a_change_that_its_length_does_not(root):
    """Other bytes of equal length, with the old time of modification: the time of the inode tells."""
    path = root / "events/experiment=_schema/schema.parquet"
    asked(root)
    before = path.stat()
    path.write_bytes(b"\0" * before.st_size)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert asked(root)[0] == ["a", "b"]


def test_other_parameters_and_another_program_compute(root, monkeypatch):
    """Tables are kept by the values of all parameters, and by the code."""
    asked(root)
    assert asked(root, parameters={"k": 2})[0] == ["a", "b"]
    assert asked(root, parameters={"k": 3})[0] == []  # the default, said
    monkeypatch.setattr(kept, "_program", lambda: ["another"])
    assert asked(root)[0] == ["a", "b"]


def test_a_broken_claim_is_said_again(root):
    """The rows that break a claim are kept beside the tables that were computed with it."""
    claim = BrokenClaim(claim="c", columns=("n", "all"), rows=((1, ["x"]), (None, [])))
    assert asked(root, broken=(claim,)) == (["a", "b"], ([made("a"), made("b")], (claim,)))
    assert asked(root) == ([], ([made("a"), made("b")], (claim,)))


def test_what_is_unsure_is_not_kept(root):
    """A store that changes meanwhile, and values that come back as others."""

    def changes(missing):
        (root / "journal" / "w.mark").write_bytes(b"1")
        return [made(name) for name in missing], ()

    kept_or_computed(root, ["a"], {}, changes)
    for value in (Decimal(1), 1 << 70, (1,), math.nan):
        asked(root, value=value)
    asked(root, broken=(BrokenClaim(claim="c", columns=("n",), rows=((Decimal(1),),)),))
    assert asked(root) == (["a", "b"], ([made("a"), made("b")], ()))


def test_a_store_that_cannot_be_written_is_kept_in_the_cache_folder(root, tmp_path):
    """Nothing is written into it, and it is computed once all the same; without a cache folder, each time."""
    (root / KEPT).mkdir()  # refuses root, too
    assert asked(root)[0] == ["a", "b"]
    assert asked(root)[0] == []
    (file,) = (tmp_path / "cache").rglob("*.msgpack")
    file.unlink()
    file.mkdir()
    assert asked(root)[0] == asked(root)[0] == ["a", "b"]


async def test_a_store_with_a_living_writer_is_kept_in_the_cache_folder(root, tmp_path):
    """The writer's directory stays its own; when it has gone, the state is another one."""
    (event, *_) = random_store(0, "task").envelopes
    async with StoreRecorder(create_store(root), event.experiment_id) as recorder:
        await recorder.stream(event.stream_id).append(event.event)
        assert asked(root)[0] == ["a", "b"]
        assert asked(root)[0] == []
        assert not (root / KEPT).exists()
        assert list((tmp_path / "cache").rglob("*.msgpack"))
    assert asked(root)[0] == ["a", "b"]
    assert (root / KEPT).exists()


def test_readers_at_once_leave_one_whole_file(root):
    """Eight readers, each with a table of its own, all get theirs; what is kept afterwards can be read."""
    names = [f"t{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda name: asked(root, (name, "all"))[1][0], names))
    assert found == [[made(name), made("all")] for name in names]
    assert asked(root, ("all",))[0] == []
    assert [path.name for path in root.iterdir() if path.name.startswith(KEPT)] == [KEPT]


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(at_depth(2, 6)))
def test_kept_equals_fresh(root, seed, monkeypatch, capsys):
    """On random stores, what a second command prints is what the first did and what --fresh prints, byte for byte."""
    asyncio.run(write_events(root.parent / "random", random_store(seed, "task").envelopes))

    def printed(**options):
        out = io.StringIO()
        table_output.print_tables(root.parent / "random", [], settings=[], form="json", out=out, **options)
        return out.getvalue(), capsys.readouterr().err

    first = printed()
    fresh = printed(is_fresh=True)
    monkeypatch.setattr(stores, "open", lambda *_, **__: pytest.fail("the store was analysed again"))
    assert printed() == first == fresh


@pytest.mark.thorough
def test_a_store_with_kept_tables_is_verified_and_written_as_before(root, capsys):
    """The file is no damage, and what is recorded later counts."""
    assert main(["tables", str(root), "overall"]) == 0
    assert (root / KEPT).exists()
    assert main(["log", "verify", str(root)]) == 0
    capsys.readouterr()
