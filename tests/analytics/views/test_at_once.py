"""Queries of one database at once: in order, with the caller's parameters, and with the first error as the caller's."""

import threading

import duckdb
import pytest

from lhaw_record.analytics.views.at_once import at_once
from lhaw_record.analytics.views.parameters import set_parameters


@pytest.fixture
def connection(monkeypatch):
    """A database with parameters, on a machine of three processors."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0, 1, 2})
    monkeypatch.setattr("lhaw_record.analytics.views.at_once._WORTH", 1)
    with duckdb.connect() as opened:
        set_parameters(opened, {"k": 7})
        yield opened


def test_a_job_begins_after_those_that_it_needs_and_sees_what_they_made(connection):
    """Four jobs: one waits for two, which wait for the first."""
    jobs = {"d": ("b", "c"), "b": ("a",), "c": ("a",), "a": ()}

    def create(own, name):
        counted = " + ".join(["1", *(f"(select n from {needed})" for needed in jobs[name])])
        own.execute(f"create table {name} as select {counted} as n")
        return name.upper()

    assert at_once(connection, jobs, create) == {name: name.upper() for name in jobs}
    assert connection.execute("select n from d").fetchall() == [(5,)]


def test_jobs_run_together_each_on_a_connection_with_the_parameters(connection):
    """Each job waits for the two others, so all three have a connection."""
    together = threading.Barrier(3, timeout=10)

    def work(own, _):
        together.wait()
        return own.execute("select getvariable('k'), current_setting('threads')").fetchall()

    assert at_once(connection, dict.fromkeys("abc", ()), work) == {name: [(7, 1)] for name in "abc"}


def test_the_first_error_is_raised_after_the_jobs_that_run_and_the_rest_is_left(connection):
    """What needs a job that failed never begins, and the connection stays usable."""
    begun = []
    together = threading.Barrier(2, timeout=10)

    def work(own, name):
        begun.append(name)
        together.wait()
        own.execute("select no_such_column" if name == "broken" else "select 1")

    with pytest.raises(duckdb.BinderException, match="no_such_column"):
        at_once(connection, {"broken": (), "well": (), "after": ("broken",)}, work)
    assert sorted(begun) == ["broken", "well"]
    assert connection.execute("select 1").fetchall() == [(1,)]


def test_no_jobs_are_no_work_and_threads_stay_as_they_were(connection):
    """A store without a view that others read has none to make."""
    connection.execute("set threads = 2")
    assert at_once(connection, {}, lambda *_: 1 / 0) == {}
    assert connection.execute("select current_setting('threads')").fetchall() == [(2,)]
