"""A store can be opened wherever it lies, whatever is sealed or open, and closed in silence."""

import subprocess
import sys
from pathlib import Path

import duckdb
import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lhaw_record.analytics.tables.tables import TABLES, comparable, tables
from lhaw_record.analytics.views.build_order import all_views
from lhaw_record.analytics.views.store import connect, read_for
from lhaw_record.recorder.events.arrow_schema import event_schema, to_table
from lhaw_record.recorder.reading.trial_index import load_trial_index
from tests.analytics.make_store import Store
from tests.analytics.reference import trials_of
from tests.analytics.views.test_views import busy_store
from tests.support.depth import IS_QUICK

ROOT = Path(__file__).parents[3]


NAMES = sorted(TABLES)[:: 9 if IS_QUICK else 1]


def rows_of(snapshot):
    """All tables of a store; for a quick look every ninth."""
    connection = connect(snapshot, only=read_for(NAMES))
    try:
        return [comparable(each) for each in tables(connection, NAMES)]
    finally:
        connection.close()


@pytest.fixture(scope="module")
def busy_rows():
    """All tables of the busy store, read from open rows alone."""
    return rows_of(busy_store().snapshot())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("folder", ["plain", "it's a [b]est* store?", 'a "quoted" one'])
def test_sealed_and_open_rows_are_one_stream(tmp_path, busy_rows, folder):
    """Segments with few columns in any folder, with or without open rows, give the same tables."""
    store = busy_store()
    root = tmp_path / folder
    root.mkdir()
    half = len(store.envelopes) // 2
    paths = (root / "one.parquet", root / "two.parquet")
    for path, part in zip(paths, (store.envelopes[:half], store.envelopes[half:]), strict=True):
        pq.write_table(to_table(part, only_present=True), path)
    whole = store.snapshot()
    sealed = msgspec.structs.replace(whole, segments=paths, open_rows=event_schema().empty_table())
    mixed = msgspec.structs.replace(whole, segments=paths[:1], open_rows=to_table(store.envelopes[half:]))
    assert rows_of(sealed) == busy_rows == rows_of(mixed)


def test_a_large_store_is_read_while_it_is_written(tmp_path, monkeypatch):
    """Every staging view reads sealed and open rows apart, and of decisions in both parts the last one stands."""
    store = Store(trials=2)
    store.task("t", (1.0,))
    streams = [f"{store.trial('t', 'full', index)}-1" for index in range(2)]
    store.discard(streams)
    sealed = len(store.envelopes)
    store.discard(streams[:1], is_undone=True)
    path = tmp_path / "one.parquet"
    pq.write_table(to_table(store.envelopes[:sealed], only_present=True), path)
    monkeypatch.setattr("lhaw_record.analytics.views.database._SMALL_BYTES", 1)
    mixed = msgspec.structs.replace(store.snapshot(), segments=(path,), open_rows=to_table(store.envelopes[sealed:]))
    staging = {view.name for view in all_views() if view.layer == "staging"}
    connection = connect(mixed, only={*staging, "discarded_attempts"})
    try:
        assert connection.execute("select stream_id from discarded_attempts").fetchall() == [(streams[1],)]
    finally:
        connection.close()


@pytest.mark.thorough
@pytest.mark.parametrize(("copies", "kind"), [(1, "BASE TABLE"), (1000, "VIEW")])
def test_only_a_small_store_is_loaded_into_memory(copies, kind):
    """Open rows count as sealed ones do: many of them are not copied, and all threads read them."""
    store = Store()
    for place in range(20):
        store.task(f"t{place}")
    snapshot = store.snapshot()
    many = msgspec.structs.replace(snapshot, open_rows=pa.concat_tables([snapshot.open_rows] * copies).combine_chunks())
    assert (many.open_rows.num_rows > 20_000) == (kind == "VIEW")
    connection = connect(many, only=set())
    try:
        found = connection.execute("select table_type from information_schema.tables where table_name = 'events'")
        assert found.fetchall() == [(kind,)]
        ((count,),) = connection.execute("select count(*) from events").fetchall()
        assert count == many.open_rows.num_rows
        ((threads,),) = connection.execute("select current_setting('threads')").fetchall()
        ((usual,),) = duckdb.sql("select current_setting('threads')").fetchall()
        assert threads == (usual if kind == "VIEW" else 1)
    finally:
        connection.close()


@pytest.mark.thorough
def test_a_segment_of_an_older_version_is_read(tmp_path, busy_rows):
    """A segment that lacks a field which was added later reads it as null."""
    store = busy_store()
    sealed = to_table(store.envelopes, only_present=True)
    place = sealed.schema.get_field_index("trial_finished")
    old = sealed.column(place).combine_chunks()
    fields = [field.name for field in old.type if field.name != "final_score"]
    kept = [old.field(name) for name in fields]
    older = type(old).from_arrays(kept, names=fields, mask=old.is_null())
    path = tmp_path / "old.parquet"
    pq.write_table(sealed.set_column(place, "trial_finished", older), path)
    snapshot = msgspec.structs.replace(store.snapshot(), segments=(path,), open_rows=event_schema().empty_table())
    assert rows_of(snapshot) == busy_rows


@pytest.mark.thorough
def test_an_empty_store_has_empty_tables():
    """Nothing recorded: every table is there, without rows."""
    snapshot = msgspec.structs.replace(Store().snapshot(), open_rows=event_schema().empty_table())
    assert all(not each.rows and each.columns for each in rows_of(snapshot))


@pytest.mark.thorough
def test_an_interrupted_run_ends_in_the_same_tables():
    """Failed and interrupted attempts change only the columns of time, attempts and failed work."""
    tables = []
    for is_interrupted in (False, True):
        store = Store(trials=2)
        store.task("t", (1.0,))
        store.variant("t", "v")
        for index in range(2):
            if is_interrupted and index == 0:
                store.trial("v", "underspecified", 0, attempt=1, ends="interrupted")
                store.trial("v", "underspecified", 0, attempt=2, ends="failed", actions=["read a", "read b"])
                store.start_run(trials=2)
            store.trial("v", "underspecified", index, attempt=3 if is_interrupted else 1, actions=["read a"])
        tables.append(rows_of(store.snapshot()))
    assert tables[0] == tables[1]


def test_of_two_attempts_of_one_number_the_one_that_began_last_counts():
    """Two hosts of a shared store may both run attempt 1; readers, the runner and the reference take the same one."""
    store = Store(trials=1)
    store.task("t", (1.0,))
    for host, score, actions in (("-w2", 0.0, ["read a"]), ("-w1", 1.0, ["read a", "read b"])):
        trial_id = store.trial("t", "full", 0, host=host, scores=[score], actions=actions)
    connection = connect(store.snapshot(), only={"trials"})
    counted = connection.execute("select stream_id, is_success, action_count from trials").fetchall()
    connection.close()
    assert counted == [(f"{trial_id}-1-w1", True, 2)]
    assert load_trial_index(store.snapshot(), "e").finished[trial_id].action_count == 2
    assert len(trials_of(store.envelopes, store.live)[trial_id].actions) == 2


def test_no_extension_is_fetched():
    """Neither autoinstall nor autoload is on."""
    connection = connect(Store().snapshot(), only=set())
    try:
        query = "select current_setting('autoinstall_known_extensions'), current_setting('autoload_known_extensions')"
        assert connection.execute(query).fetchall() == [(False, False)]
    finally:
        connection.close()


@pytest.mark.thorough
def test_a_closed_connection_leaves_no_noise():
    """A program that opens a store, uses the functions and closes it prints nothing at its end."""
    program = (
        "from tests.analytics.views.test_views import busy_store\n"
        "from lhaw_record.analytics.views.store import connect\n"
        "connection = connect(busy_store().snapshot())\n"
        "connection.execute('select * from overall').fetchall()\n"
        "connection.close()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT, timeout=1800
    )
    assert (done.stdout, done.stderr) == ("", "")
