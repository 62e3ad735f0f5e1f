""".views tells what there is: every view with grain, columns, types, meaning and source, as the SQL headers say."""

import csv
import gc
import io
import json
from pathlib import Path

import pytest

from lhaw_record import analytics
from lhaw_record.analytics.cli.table_output import run_queries
from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.views.build_order import all_views, empty_database
from lhaw_record.analytics.views.headers import COLUMNS, headers, print_views
from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.storage.creation import create_store
from tests.analytics.views.test_views import busy_store, header_of


@pytest.fixture(scope="module")
def connection():
    """A connection to the busy store, with a view of somebody's own."""
    opened = connect(busy_store().snapshot())
    opened.execute("create view my_view as select 1 as one")
    yield opened
    opened.close()


def shown(connection, wanted, form):
    """What is printed."""
    out = io.StringIO()
    print_views(connection, wanted, form, out)
    return out.getvalue()


def test_headers_say_what_the_files_say():
    """Every view has grain, source and columns; each column has a type and a meaning."""
    found = {each.view: each for each in headers()}
    assert set(found) == {view.name for view in all_views()}
    for view in all_views():
        header, expected = found[view.name], header_of(view)
        assert [(column.name, column.sql_type) for column in header.columns] == expected["outputs"]
        assert (header.grain, header.source) == (expected["grain"], expected["source"])
        assert all(column.meaning for column in header.columns), view.name


@pytest.mark.thorough
def test_as_text_a_paragraph_each(connection):
    """All views are a line each, tables first; one view names the grain, equation, source, notes and its columns."""
    _, _, *lines = shown(connection, "", "table").splitlines()
    names = [line.split(" ")[0] for line in lines]
    assert names[: len(headers())] == [each.view for each in headers()]
    assert {"events", "my_view"} <= {*names}
    one = shown(connection, "trials", "table")
    assert one.startswith("trials (marts): a row per trial_id\n")
    assert "docs/metrics.md" in one
    assert any(line.split()[:2] == ["checkpoint_progress", "double"] for line in one.splitlines())
    assert max(map(len, one.splitlines())) <= 120


@pytest.mark.thorough
def test_as_data_a_row_per_column(connection):
    """CSV and JSON have one row per column of a view."""
    rows = list(csv.DictReader(io.StringIO(shown(connection, "voi", "csv"))))
    assert tuple(rows[0]) == COLUMNS
    described = [row[:2] for row in connection.execute("describe voi").fetchall()]
    assert [(row["column"], row["type"]) for row in rows] == [(name, kind.lower()) for name, kind in described]
    assert {row["layer"] for row in json.loads(shown(connection, "marts", "json"))} == {"marts"}


@pytest.mark.thorough
def test_what_is_no_view_is_named(connection):
    """An unknown name is an error that names the layers."""
    with pytest.raises(UnknownName, match=r"no view or layer 'trails'.*marts"):
        shown(connection, "trails", "table")


def test_a_query_option_takes_it_too(tmp_path):
    """-c '.views NAME' prints what a view is."""
    root = create_store(tmp_path / "store").root
    out = io.StringIO()
    run_queries(root, " .views by_class ", "table", out)
    assert out.getvalue().startswith("by_class (tables)")


def test_a_store_opens_in_python(tmp_path):
    """analytics.open gives a DuckDB connection with every view, for Arrow, Polars and pandas."""
    root = create_store(tmp_path / "store").root
    with analytics.open(root, {"k": 1}) as store:
        assert store.sql("select getvariable('k')").fetchall() == [(1,)]
        assert store.sql("select * from overall").pl().columns[:3] == ["benchmark", "agent", "medium"]
        assert len(store.sql("select * from trials").df()) == 0
        assert store.sql("select * from actions").to_arrow_table().num_rows == 0


def test_an_instant_with_a_time_zone_is_printed(tmp_path):
    """DuckDB gives Python such a value alone and inside lists and structs."""
    root = create_store(tmp_path / "store").root
    out = io.StringIO()
    run_queries(root, "select '2026-02-10 12:00:00+00'::timestamptz as at, [now()] as nested", "json", out)
    (row,) = json.loads(out.getvalue())
    assert "2026-02-10" in str(row["at"])


@pytest.mark.thorough
def test_what_does_not_fit_into_memory_leaves_nothing_here(tmp_path, monkeypatch):
    """DuckDB spills into a folder that disappears with the connection, not into the current one."""
    monkeypatch.chdir(tmp_path)
    connection = empty_database()
    (folder,) = connection.execute("select current_setting('temp_directory')").fetchone()
    connection.execute("set memory_limit = '60MB'; set threads = 1")
    connection.execute("create table t as select range as a, random()::varchar as b from range(3000000)")
    assert list(Path(folder).iterdir())
    connection.close()
    del connection
    gc.collect()
    assert not Path(folder).exists()
    assert list(tmp_path.iterdir()) == []
