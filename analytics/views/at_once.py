"""Run many queries of one database in parallel, on as many threads as there are processors.

Most of a table query's milliseconds go into planning, which DuckDB does on one thread. So each processor gets whole
queries instead of parts of one.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from graphlib import TopologicalSorter
from typing import TYPE_CHECKING, TypeVar

from lhaw_record.recorder.processes import processor_count

if TYPE_CHECKING:
    import duckdb

T = TypeVar("T")
_MOST = 4
"""With more connections, most would wait for the views that all others read."""

_WORTH = 16
"""How many jobs justify another connection: preparing one takes as long as a few jobs."""


def at_once(
    connection: "duckdb.DuckDBPyConnection",
    jobs: Mapping[str, Collection[str]],
    work: "Callable[[duckdb.DuckDBPyConnection, str], T]",
) -> dict[str, T]:
    """Run every job once, each after its dependencies, and return the results by name."""
    order = TopologicalSorter(jobs)
    with _connections(connection, len(jobs)) as free:
        if len(free) == 1:
            return {name: work(connection, name) for name in order.static_order()}
        return _shared_out(order, free, work)


def _shared_out(
    order: TopologicalSorter[str],
    free: "list[duckdb.DuckDBPyConnection]",
    work: "Callable[[duckdb.DuckDBPyConnection, str], T]",
) -> dict[str, T]:
    order.prepare()
    done: dict[str, T] = {}
    with ThreadPoolExecutor(len(free)) as pool:
        waiting: list[str] = []
        running: dict[Future[T], tuple[str, duckdb.DuckDBPyConnection]] = {}
        while order.is_active():
            waiting += order.get_ready()
            while waiting and free:
                name, own = waiting.pop(0), free.pop()
                running[pool.submit(work, own, name)] = name, own
            for each in wait(running, return_when=FIRST_COMPLETED).done:
                name, own = running.pop(each)
                free.append(own)
                done[name] = each.result()
                order.done(name)
    return done


@contextmanager
def _connections(connection: "duckdb.DuckDBPyConnection", n_jobs: int) -> "Iterator[list[duckdb.DuckDBPyConnection]]":
    """Yield this and further connections to one database. DuckDB's own threads get the remaining processors."""
    processors = processor_count()
    others = [connection.cursor() for _ in range(min(processors - 1, _MOST - 1, n_jobs // _WORTH))]
    ((threads,),) = connection.execute("select current_setting('threads')").fetchall()
    try:
        connection.execute(f"set threads = {min(threads, max(1, processors - len(others)))}").fetchall()
        for other in others:
            _copy_variables(connection, other)
        yield [connection, *others]
    finally:
        for other in others:
            other.close()
        connection.execute(f"set threads = {threads}").fetchall()


def _copy_variables(connection: "duckdb.DuckDBPyConnection", other: "duckdb.DuckDBPyConnection") -> None:
    """Copy the variables of a connection to another one."""
    kinds = dict(connection.execute("select name, type from duckdb_variables()").fetchall())
    columns = ", ".join(["null", *(f"getvariable('{name}')" for name in kinds)])
    (values,) = connection.execute(f"select {columns}").fetchall()
    for (name, kind), value in zip(kinds.items(), values[1:], strict=True):
        other.execute(f"set variable {name} = ?::{kind}", [value]).fetchall()
