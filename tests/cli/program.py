"""The real program as a child process, the same in this process, and what its tests ask of a store from outside."""

import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest import mock

import pyarrow.parquet as pq

from lhaw_record.analytics.tables.tables import TABLES, Table, comparable, tables
from lhaw_record.analytics.views import store as stores
from lhaw_record.analytics.views.build_order import named_in
from lhaw_record.analytics.views.store import read_for
from lhaw_record.command_line import main
from lhaw_record.recorder.inspection.verify import verify as verified
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.storage.segments import where_now

PROGRAM = str(Path(sys.executable).with_name("lhaw-record"))
PATIENCE_SECONDS = 600.0
"""For a machine that has much else to do."""
LOOK_SECONDS = 0.02
NO_KEYS = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY")

Done = subprocess.CompletedProcess[str]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: ours without provider keys, so that no test can reach a paid model."""
    kept = {name: value for name, value in os.environ.items() if name not in NO_KEYS}
    return {**kept, "PYTHONWARNINGS": "", **(extra or {})}


def lhaw_record(
    *arguments: object, extra: Mapping[str, str] | None = None, timeout: float = PATIENCE_SECONDS, **options: Any
) -> Done:
    """Run the program to its end and return its exit code and what it printed."""
    command = [PROGRAM, *map(str, arguments)]
    return subprocess.run(
        command,
        env=environment(extra),
        text=True,
        capture_output=True,
        timeout=timeout,
        check=False,
        **options,
    )


def called(*arguments: object, extra: Mapping[str, str] | None = None) -> Done:
    """Run the program in this process: for what it says and does wherever it runs, at a fraction of the cost."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    here = mock.patch.dict(os.environ, environment(extra), clear=True)
    with here, redirect_stdout(out), redirect_stderr(err):
        try:
            exit_code = main([str(argument) for argument in arguments])
        except SystemExit as done:
            exit_code = int(done.code or 0)
    printed, said = (each.buffer.getvalue().decode() for each in (out, err))
    return subprocess.CompletedProcess(arguments, exit_code, printed, said)


def start(*arguments: object, extra: Mapping[str, str] | None = None) -> "subprocess.Popen[str]":
    """Start the program as the leader of its own process group, as a shell does, and return at once."""
    return subprocess.Popen(
        [PROGRAM, *map(str, arguments)],
        env=environment(extra),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def interrupt(process: "subprocess.Popen[str]") -> None:
    """Press Ctrl-C: the terminal sends SIGINT to the whole process group, children included."""
    os.killpg(process.pid, signal.SIGINT)


def end(process: "subprocess.Popen[str]") -> Done:
    """Wait for a started program."""
    out, err = process.communicate(timeout=PATIENCE_SECONDS)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def wait_until(is_true: Callable[[], bool], what: str, process: "subprocess.Popen[str] | None" = None) -> None:
    """Poll until something is true.

    Args:
        is_true: Is it?
        what: It, in words.
        process: What is to make it true, so that nobody waits for one that has ended.

    Raises:
        AssertionError: It never was.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_true():
        if process is not None and process.poll() is not None and not is_true():
            raise AssertionError(f"it ended with {process.returncode} before {what}: {process.communicate()[1]}")
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(LOOK_SECONDS)


def query(store: Path, sql: str) -> list[tuple[Any, ...]]:
    """Ask a store from this process, through the same views."""
    connection = stores.open(store, only=named_in(sql))
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def count_events(store: Path, event_type: str) -> int:
    """Count the events of a type, also before the store or its first event is there, and while segments are merged."""
    if not (store / "store.json").exists():
        return 0
    while True:
        snapshot = read_snapshot(store)
        try:
            sealed = [pq.read_table(where_now(path), columns=["type"]) for path in snapshot.segments]
        except FileNotFoundError:
            continue  # it moved between the look and the reading
        return sum(rows["type"].to_pylist().count(event_type) for rows in (snapshot.open_rows, *sealed))


def all_tables(store: Path) -> dict[str, Table]:
    """Every table without what depends on the machine and on interruptions."""
    return named_tables(store, TABLES)


def named_tables(store: Path, names: Iterable[str]) -> dict[str, Table]:
    """Some tables in the same way."""
    names = tuple(names)
    connection = stores.open(store, only=read_for(names))
    try:
        return {each.name: comparable(each) for each in tables(connection, names)}
    finally:
        connection.close()


def assert_same_tables(found: Mapping[str, Table], expected: Mapping[str, Table]) -> None:
    """Compare every value of every table; the reference must be large enough to say something."""
    assert all(
        expected[name].rows for name in ("overall", "by_dimension_pass", "voi", "wasted", "trial_counts_and_cost")
    )
    assert_same_rows(found, expected)


def assert_same_rows(found: Mapping[str, Table], expected: Mapping[str, Table]) -> None:
    """Compare every value of the tables that are expected."""
    for name, table_expected in expected.items():
        assert found[name].columns == table_expected.columns
        assert found[name].rows == table_expected.rows, f"table {name} differs"


def verify(store: Path) -> None:
    """Insist that what ``log verify`` looks for is not there, and that no stream is open."""
    report = verified(store)
    assert (report.findings, report.open_streams) == ((), 0)


def descendants(pid: int) -> set[int]:
    """Return the process ids below a process, as the kernel knows them now."""
    parents: dict[int, int] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            parents[int(folder.name)] = int(fields[1])
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found} - found
        if not more:
            return found - {pid}
        found |= more


def is_alive(pid: int) -> bool:
    """Whether a process runs; one that ended and waits to be collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
