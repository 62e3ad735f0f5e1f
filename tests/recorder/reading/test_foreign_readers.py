"""Others read a store without this program, following only docs/log-format.md: polars, and thirty lines of Python."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path
from unittest import mock

import anyio
import anyio.to_thread
import msgspec
import pytest

from lhaw_record.analytics.views import store as stores
from lhaw_record.recorder.events import TrialFailed, type_name
from lhaw_record.recorder.reading.reader import read_envelopes, read_snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.sealing.compaction import compact
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.segments import list_segments
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.crash.workload import InProcess
from tests.recorder.stores import record_streams, started
from tests.synthetic.design import Design
from tests.synthetic.making import make_store

FROZEN = Path(__file__).resolve().parents[2] / "compat" / "store-2"

FORBID = """
import sys
class Forbidden:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "lhaw_record":
            raise ImportError(name + " is not for a foreign reader")
sys.meta_path.insert(0, Forbidden())
"""

POLARS = """
import glob, json, sys
import polars
sealed = [path for path in glob.glob(sys.argv[1] + "/events/experiment=*/*.parquet") if "_schema" not in path]
events = polars.concat([polars.read_parquet(path, hive_partitioning=False) for path in sealed], how="diagonal_relaxed")
counts = {row["type"]: row["len"] for row in events.group_by("type").len().to_dicts()}
values = {}
for name in counts:
    first = events.filter(polars.col("type") == name).sort("experiment_id", "stream_id", "sequence").row(0, named=True)
    others = [other for other in counts if other != name and first[other] is not None]
    values[name] = {key: first[key] for key in ("stream_id", "sequence")} | {"event": first[name], "others": others}
json.dump({"counts": counts, "values": values}, sys.stdout)
"""

JOURNAL = """
import json, struct, sys, zlib
import msgspec

def commits(data):
    assert data[:8] == b"LHAWJRN\\x01"
    offset, seed = 8, 0
    while offset + 12 <= len(data):
        mark, n, crc = struct.unpack_from("<4sII", data, offset)
        body = data[offset + 12 : offset + 12 + n]
        sum = zlib.crc32(body, zlib.crc32(struct.pack("<QI", offset, n), seed))
        if mark != b"\\xc1LHW" or len(body) < n or sum != crc:
            return
        seed = seed or crc
        offset += 12 + n
        yield body

def records(body):
    while body:
        n = int.from_bytes(body[:4], "little")
        yield msgspec.msgpack.decode(body[4 : 4 + n])
        body = body[4 + n :]

found = [record for body in commits(open(sys.argv[1], "rb").read()) for record in records(body)]
header, envelopes = found[0], [record for record in found if "event" in record]
json.dump({"header": header, "envelopes": envelopes}, sys.stdout)
"""

INDEX = """
import json, sys, zlib
import pyarrow
import pyarrow.parquet
data = open(sys.argv[1], "rb").read()
assert int.from_bytes(data[:4], "little") == zlib.crc32(data[8:]) and data[4:8] == bytes(4)
index = pyarrow.ipc.open_file(data[8:]).read_all()
with pyarrow.parquet.ParquetFile(sys.argv[2]) as file:
    covers = json.loads(file.metadata.metadata[b"lhaw_record.covers"])
    keys = [key.decode() for key in file.metadata.metadata]
    streams = file.read(["stream_id"])["stream_id"].to_pylist()
json.dump({"index": index.to_pydict(), "covers": covers, "keys": keys, "streams": streams}, sys.stdout)
"""

AT_REST = """
import json, sys
import duckdb, polars, pyarrow.dataset
root = sys.argv[1]
def counted(rows):
    rows = list(rows)
    return len(rows), len(set(rows))
found = {}
query = f"select stream_id, sequence from read_parquet('{root}/events/**/*.parquet', union_by_name = true)"
found["duckdb"] = counted(duckdb.sql(query).fetchall())
events = polars.scan_parquet(root + "/events/**/*.parquet", missing_columns="insert", extra_columns="ignore",
                             hive_partitioning=False)
found["polars"] = counted(events.select("stream_id", "sequence").collect().rows())
events = pyarrow.dataset.dataset(root + "/events", format="parquet", partitioning="hive")
table = events.to_table(columns=["stream_id", "sequence"])
found["pyarrow"] = counted(zip(table["stream_id"].to_pylist(), table["sequence"].to_pylist()))
everywhere = f"select count(*) from read_parquet('{root}/**/*.parquet', union_by_name = true)"
found["everywhere"] = duckdb.sql(everywhere).fetchall()[0]
json.dump(found, sys.stdout)
"""


def _foreign(program, *arguments):
    """Run a program that cannot import this package; return what it printed as JSON."""
    command = [sys.executable, "-I", "-c", FORBID + textwrap.dedent(program), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={"PATH": os.environ["PATH"]})
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory):
    """A sealed store with whole trials."""
    root = tmp_path_factory.mktemp("foreign") / "store"
    make_store(root, Design(3, 1_000))
    return root


@pytest.mark.thorough
def test_polars_reads_the_segments(synthetic):
    """Counts of every type agree, and of each type the first event has the same values; other columns are null."""
    for root, is_sealed in ((synthetic, lambda each: True), (FROZEN, lambda each: each.experiment_id != "interrupted")):
        envelopes = [each for each in read_envelopes(root) if is_sealed(each)]
        envelopes.sort(key=lambda each: (each.experiment_id, each.stream_id, each.sequence))
        found = _foreign(POLARS, root)
        assert found["counts"] == Counter(type_name(type(each.event)) for each in envelopes)
        for name, first in found["values"].items():
            ours = next(each for each in envelopes if type_name(type(each.event)) == name)
            assert (first["stream_id"], first["sequence"], first["others"]) == (ours.stream_id, ours.sequence, [])
            assert msgspec.convert({"type": name, **_without_nulls(first["event"])}, type(ours.event)) == ours.event


async def _store_at_rest(root, history):
    """A store that has been through something, and in which nobody writes."""
    store, dead = create_store(root), root.with_name("dead")
    for run in range(2):
        async with StoreRecorder(store, "exp", rotate_bytes=6_000, start_sealing=InProcess) as recorder:
            await record_streams(recorder, 4, 8, prefix=f"run{run}-")
            if history == "killed" and run == 1:
                await recorder.stream("open", trial_id="t", attempt=2).append(started(1))
                shutil.copytree(root, dead)
        compact(store)
    if history != "killed":
        return store
    with mock.patch(
        "lhaw_record.recorder.sealing.compaction.retire"
    ):  # the death came when the merged segment had its name
        compact(Store(dead))
    assert list_segments(Store(dead)).superseded
    recover(create_store(dead))
    return Store(dead)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("history", ["resumed", "killed"])
async def test_a_store_at_rest_is_exactly_once_for_any_engine(tmp_path, history):
    """DuckDB by the pattern on the page, polars and pyarrow count each event once, after two runs or a kill."""
    store = await _store_at_rest(tmp_path / "store", history)
    events = len(read_envelopes(store.root))
    found = await anyio.to_thread.run_sync(_foreign, AT_REST, store.root)
    assert found == {**{name: [events, events] for name in ("duckdb", "polars", "pyarrow")}, "everywhere": [events]}
    assert any(store.retired_dir.iterdir())


@pytest.mark.thorough
async def test_a_listing_from_before_a_merge_still_reads(tmp_path):
    """Our own readers hold paths: queries on a snapshot give every event once after its files were retired, or gone."""
    store = create_store(tmp_path / "store")
    async with StoreRecorder(store, "exp", rotate_bytes=6_000, start_sealing=InProcess) as recorder:
        await record_streams(recorder, 4, 8)
    snapshot = read_snapshot(store.root)
    count = "select count(*), count(distinct (stream_id, sequence)) from events"
    with stores.connect(snapshot, only={"trials"}) as connection:
        compact(store)
        assert not any(path.exists() for path in snapshot.segments)
        assert connection.execute(count).fetchall() == [(68, 68)]
        with stores.connect(snapshot, only={"trials"}) as late:
            assert late.execute(count).fetchall() == [(68, 68)]
        assert len(list(events_of_types(snapshot, [TrialFailed]))) == 4
        compact(store, grace_s=0.0)
        assert connection.execute(count).fetchall() == [(68, 68)]


def _without_nulls(value):
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value


def test_a_journal_is_decoded_by_the_page_alone():
    """Marks, checksums and records as docs/log-format.md describes them: the events that this program reads."""
    ((_, path),) = Store(FROZEN).journals().items()
    found = _foreign(JOURNAL, path)
    ours = [each for each in read_envelopes(FROZEN) if each.experiment_id == "interrupted"]
    assert found["header"]["experiment_id"] == "interrupted"
    assert [msgspec.convert(each, type(ours[0])) for each in found["envelopes"]] == ours


@pytest.mark.thorough
def test_an_index_and_the_metadata_are_as_the_page_says(synthetic):
    """The index says where streams stand, and the only key of the metadata says which journals a segment covers."""
    for root in (synthetic, FROZEN):
        for path in Store(root).segment_paths():
            found = _foreign(INDEX, root / "index" / f"{path.stem}.arrow", path)
            index = found["index"]
            assert list(index) == ["stream_id", "first_row", "rows", "is_closed"]
            runs = zip(index["stream_id"], index["rows"], strict=True)
            assert [stream for stream, rows in runs for _ in range(rows)] == found["streams"]
            assert found["keys"] == ["lhaw_record.covers"]
            if path.name.startswith("w"):
                assert found["covers"] == [path.stem.rpartition("-")[0]]


def _rebuilt(events):
    """The requests of one stream, by the steps on the page; events as plain dictionaries, in order."""
    results, replies, requests = {}, {}, {}
    for event in events:
        if event["type"] == "action_finished":
            results[event["action_index"]] = event["result"]
        elif event["type"] == "model_responded":
            calls = [
                {"id": each["call_id"], "type": "function",
                 "function": {"name": each["name"], "arguments": each["arguments_json"]}}
                for each in event.get("tool_calls", ())
            ]  # fmt: skip
            reply = {"role": "assistant", "content": event["text"]} | ({"tool_calls": calls} if calls else {})
            replies[event["call_id"]] = reply
        elif event["type"] == "model_called":
            parent = event.get("parent_call_id")
            before = [*requests[parent], replies[parent]] if parent in replies else requests.get(parent, [])
            added = json.loads(event["new_messages_json"])
            for message in added:
                if "result_of_action" in message:
                    message["content"] = results[message.pop("result_of_action")]
            requests[event["call_id"]] = before[: event["shared_count"]] + added
            yield event, requests[event["call_id"]]


@pytest.mark.thorough
def test_requests_are_rebuilt_by_the_page_alone(synthetic):
    """Every request of every trial has the number of messages and the digest that were recorded."""
    streams = {}
    for envelope in read_envelopes(synthetic):
        streams.setdefault(envelope.stream_id, []).append(msgspec.to_builtins(envelope.event))
    rebuilt = [pair for events in streams.values() for pair in _rebuilt(events)]
    assert any("result_of_action" in event["new_messages_json"] for event, _ in rebuilt)
    for event, messages in rebuilt:
        text = json.dumps(messages, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        assert len(messages) == event["message_count"]
        assert hashlib.sha256(text.encode()).hexdigest()[:32] == event["request_digest"]
