"""``log verify``: what was changed is found where it is, and what is whole is called whole."""

import json
import zlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.errors import NewerData
from lhaw_record.recorder.events import ArtifactStored
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.blobs import store_blob
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.manifest_check import create_manifest
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import failed, record_streams


@pytest.fixture
async def store(tmp_path):
    """Two experiments with streams of the same names, in several segments each."""
    store = create_store(tmp_path / "store")
    for experiment in ("a", "b"):
        async with StoreRecorder(store, experiment, rotate_bytes=6000, start_sealing=InProcess) as recorder:
            await record_streams(recorder, 4, 10)
    return store


def _rewrite(path, change):
    """Write a segment anew with other rows, under its name."""
    rows = change(pq.read_table(path, partitioning=None))
    pq.write_table(rows, path, store_schema=False, write_page_checksum=True)


async def test_streams_of_one_name_in_two_experiments_are_two(store):
    """Two experiments of a store may run the same trial; also after each was compacted."""
    report = verify(store.root)
    assert (report.findings, report.events, report.streams) == ((), 2 * 84, 8)
    compact(store)
    report = verify(store.root)
    assert (report.findings, report.events, report.streams, report.segments) == ((), 2 * 84, 8, 2)


async def test_a_removed_row_is_found_once(store):
    """A gap is one finding with its stream, not one for every later event; the digest does not fit either."""
    path = store.segment_paths()[0]
    _rewrite(path, lambda rows: pa.concat_tables([rows.slice(0, 3), rows.slice(4)]))
    (store.index_dir / f"{path.stem}.arrow").unlink()
    problems = [found.problem for found in verify(store.root).findings]
    assert sum("is where" in problem for problem in problems) == 1
    assert any("ends after" in problem for problem in problems)
    assert any("the digest in the closing event" in problem for problem in problems)


async def test_a_changed_value_with_good_checksums_is_found(store):
    """Rows that were written anew with another text fail the digest of their stream."""

    def change(rows):
        place = rows.schema.get_field_index("elapsed_ns")
        return rows.set_column(place, rows.schema.field(place), pa.array([7] * rows.num_rows, pa.int64()))

    _rewrite(store.segment_paths()[0], change)
    assert any("digest" in found.problem for found in verify(store.root).findings)


async def test_a_segment_in_the_wrong_folder_is_found(store):
    """Events say of which experiment they are."""
    path = store.segment_paths()[0]
    path.rename(path.parent.with_name("experiment=b") / path.name)
    assert any(
        "its event is of experiment a, but the file is for b" in each.problem for each in verify(store.root).findings
    )


@pytest.mark.thorough
async def test_an_index_is_compared_with_its_segment(store):
    """An index with good checksum and other contents, or with a flipped bit, is named; a missing one is fine."""
    path = store.index_dir / f"{store.segment_paths()[0].stem}.arrow"
    data = bytearray(path.read_bytes())
    data[-20] ^= 1
    path.write_bytes(data)
    (finding,) = verify(store.root).findings
    assert finding.file == str(path)
    assert "fails its checksum; remove this file" in finding.problem
    table = pa.table({"stream_id": ["s0"], "first_row": [1]})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)
    content = sink.getvalue().to_pybytes()
    path.write_bytes(zlib.crc32(content).to_bytes(8, "little") + content)
    assert "does not match its rows; remove" in verify(store.root).findings[0].problem
    path.unlink()
    assert verify(store.root).findings == ()


@pytest.mark.thorough
async def test_what_a_newer_version_added_is_told_from_damage(store):
    """Nothing is advised that moves it out of the way: a column that this version does not know is named as such."""
    path = store.segment_paths()[0]
    _rewrite(path, lambda rows: rows.append_column("robot_waved", pa.array([{"hands": 2}] * rows.num_rows)))
    store.manifest_path.unlink()
    create_manifest(store)
    with pytest.raises(NewerData, match=r"newer version \(robot_waved\).* use the newest lhaw-record"):
        verify(store.root)


async def test_a_missing_and_a_changed_artifact_are_found(tmp_path):
    """An artifact is checked by its content, whichever event names it."""
    store = create_store(tmp_path / "store")
    sha256 = store_blob(store, b"a patch")
    artifact = ArtifactStored(sha256=sha256, media_type="text/plain", size_bytes=7, role="patch", name="a")
    async with StoreRecorder(store, "exp", start_sealing=InProcess) as recorder:
        await recorder.stream("s", trial_id="t", attempt=1).append(artifact, artifact, failed())
    assert verify(store.root).findings == ()
    path = store.blobs_dir / sha256[:2] / sha256
    path.write_bytes(b"another")
    assert "does not have the SHA-256 that is its name" in verify(store.root).findings[0].problem
    path.unlink()
    assert "is not in" in verify(store.root).findings[0].problem


async def test_the_command_reports_progress_and_exits_3(store, capsys, monkeypatch):
    """Findings are data on standard output, also as JSON; the verdict is on standard error."""
    monkeypatch.setattr("lhaw_record.recorder.cli.terminal.SECONDS_BETWEEN_LINES", 0.0)
    monkeypatch.setattr("lhaw_record.recorder.inspection.verify._ROWS_AT_ONCE", 20)
    assert main(["log", "verify", str(store.root), "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["findings"] == []
    assert "of 168 (" in err
    assert "events checked" in err
    path = store.segment_paths()[0]
    path.write_bytes(path.read_bytes()[:-1])
    assert main(["log", "verify", str(store.root), "--format", "json"]) == 3
    assert json.loads(capsys.readouterr().out)["findings"][0]["file"] == str(path)
