"""Export and import: a round trip loses nothing, whatever way it takes."""

import json

import anyio
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.command_line import main
from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.events import ArtifactStored
from lhaw_record.recorder.events.closing import CLOSING
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.transfer.export import contents
from lhaw_record.recorder.transfer.import_file import read_export
from lhaw_record.recorder.transfer.import_streams import import_streams
from lhaw_record.recorder.transfer.whole_streams import StreamSelection
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.events_strategy import open_events
from tests.recorder.stores import failed, finished
from tests.recorder.transfer.stores import all_events, export_lines_of, export_to, import_from, make_source
from tests.support.depth import at_depth


def _closing_events():
    made = st.one_of([st.from_type(cls) for cls in CLOSING])
    return made.map(lambda event: msgspec.structs.replace(event, stream_digest=""))  # the recorder puts it in


@given(st.lists(st.tuples(st.lists(open_events(), max_size=4), _closing_events()), max_size=4))
@settings(max_examples=at_depth(40, 200))
def test_a_round_trip_loses_nothing(tmp_path_factory, streams):
    """Whatever is in the events comes back: equal records, good digests, and an equal export again."""

    async def record(store):
        async with StoreRecorder(store, "exp", start_sealing=InProcess) as recorder:
            for number, (events, closing) in enumerate(streams):
                kept = [each for each in events if not isinstance(each, ArtifactStored)]
                await recorder.stream(f"s{number}", trial_id=f"t{number}", attempt=1).append(*kept, closing)

    folder = tmp_path_factory.mktemp("trip")
    store = create_store(folder / "from")
    anyio.run(record, store)
    lines = export_lines_of(store)
    target = create_store(folder / "to")
    import_streams(target, read_export(lines, "test"))
    assert all_events(target.root) == all_events(store.root)
    assert verify(target.root).findings == ()
    assert export_lines_of(target) == lines


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["all.jsonl", "all.jsonl.zst", "all.jsonl.gz"])
async def test_a_file_carries_events_and_artifacts(tmp_path, name):
    """Plain or compressed, two experiments with streams of the same names included."""
    store = await make_source(tmp_path / "from", "a", "b")
    path = export_to(store, tmp_path / name)
    assert import_from(path, tmp_path / "to") == 0
    target = Store(tmp_path / "to")
    assert all_events(target.root) == all_events(store.root)
    assert verify(target.root).findings == ()
    assert target.journals() == {}
    assert len(target.segment_paths()) == 2
    assert not path.with_name(f"{name}.tmp").exists()


async def test_importing_twice_equals_once(tmp_path, capsys):
    """What is there already is skipped, also from another store's directory."""
    store = await make_source(tmp_path / "from", "a")
    path = export_to(store, tmp_path / "all.jsonl")
    assert import_from(path, tmp_path / "to") == 0
    files = sorted((tmp_path / "to").rglob("*"))
    for source in (path, store.root):
        capsys.readouterr()
        assert import_from(source, tmp_path / "to", "--format", "csv") == 0
        assert capsys.readouterr().out.splitlines()[1] == "a,0,0,5,0,0"
    assert sorted((tmp_path / "to").rglob("*")) == files


@pytest.mark.thorough
async def test_two_stores_become_one(tmp_path):
    """Streams of two machines come together; what both have is there once."""
    for name, experiments in (("one", ("a", "b")), ("two", ("c",))):
        store = await make_source(tmp_path / name, *experiments)
        assert import_from(store.root, tmp_path / "to") == 0
    assert import_from(tmp_path / "one", tmp_path / "two") == 0
    assert all_events(tmp_path / "to") == all_events(tmp_path / "two")
    assert verify(tmp_path / "two").findings == ()


async def test_a_dry_run_writes_nothing(tmp_path, capsys):
    """It counts what would be imported, into a store that is there and into one that is not."""
    store = await make_source(tmp_path / "from", "a")
    assert import_from(store.root, tmp_path / "to", "--dry-run", "--format", "csv") == 0
    assert not (tmp_path / "to").exists()
    create_store(tmp_path / "to")
    before = sorted((tmp_path / "to").rglob("*"))
    assert import_from(store.root, tmp_path / "to", "--dry-run", "--format", "csv") == 0
    assert sorted((tmp_path / "to").rglob("*")) == before
    assert capsys.readouterr().out.count("a,5,87,0,0,0") == 2


@pytest.mark.thorough
async def test_a_part_can_be_exported(tmp_path, capsys):
    """By experiment, trial and stream, alone or together; a selection of nothing is an error that leaves no file."""
    store = await make_source(tmp_path / "from", "a", "b")
    chosen = {
        (): 10, ("--experiment", "a"): 5, ("--stream", "s1"): 2, ("--trial", "t1"): 2, ("--trial", "t"): 10,
        ("--experiment", "b", "--stream", "s1"): 1,
    }  # fmt: skip
    for arguments, streams in chosen.items():
        export_to(store, tmp_path / "part.jsonl", *arguments)
        end = json.loads((tmp_path / "part.jsonl").read_text().splitlines()[-1])["end"]
        assert end["streams"] == streams, arguments
    path = tmp_path / "none.jsonl"
    assert main(["log", "export", str(store.root), "-o", str(path), "--trial", "nobody"]) == 1
    assert "has no such events" in capsys.readouterr().err
    assert not path.exists()


@pytest.mark.thorough
async def test_artifacts_can_be_left_out(tmp_path, capsys):
    """Without them the import says how many are missing; with them their bytes are there."""
    store = await make_source(tmp_path / "from", "a")
    path = export_to(store, tmp_path / "small.jsonl", "--no-blobs")
    assert import_from(path, tmp_path / "to") == 0
    assert "1 artifacts are neither in the import nor in the store" in capsys.readouterr().err
    (sha256,) = {e.event.sha256 for e in read_envelopes(store.root) if isinstance(e.event, ArtifactStored)}
    assert import_from(export_to(store, tmp_path / "all.jsonl"), tmp_path / "other") == 0
    assert load_blob(Store(tmp_path / "other"), sha256) == b"a patch\n"


async def test_a_number_that_json_cannot_write_stops_the_export(tmp_path):
    """Nothing is lost silently: a value that is not finite would come back as null."""
    store = create_store(tmp_path / "from")
    async with StoreRecorder(store, "exp", start_sealing=InProcess) as recorder:
        bad = msgspec.structs.replace(finished(1), duration_ms=float("nan"))
        await recorder.stream("s", trial_id="t", attempt=1).append(bad, failed())
    with pytest.raises(DamagedStore, match="not finite"):
        export_lines_of(store)


async def test_few_streams_are_found_without_reading_all(tmp_path, monkeypatch):
    """One stream comes from the row groups that the index names, also when it lies in several segments."""
    store = await make_source(tmp_path / "from", "a")
    monkeypatch.setattr("lhaw_record.recorder.transfer.whole_streams._all_rows", None)
    (stream,) = contents(store, StreamSelection(stream_id="s2"))
    assert stream == read_envelopes(store.root, "s2")
