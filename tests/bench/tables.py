"""All tables of a store in a cold process, as a user asks for them, beside one full scan of the same rows."""

import os
import subprocess
import sys
import time
from pathlib import Path

from recorder.store import Store
from tests.bench.figures import Figure, Limit, figure

BUDGET_EVENTS = 500_000
PROGRAM = Path(__file__).parents[2] / "lhaw_record.py"
SCAN = """
import sys, duckdb
connection = duckdb.connect()
rows = connection.read_parquet(sys.argv[1:], union_by_name=True)
print(connection.sql("select count(*), bit_xor(hash(columns(*))) from rows").fetchall()[0][0])
"""


def measure(root: Path, *, runs: int) -> tuple[list[Figure], str]:
    """Measure ``lhaw-record tables`` over a store at rest.

    Returns:
        The figures, and a sentence that relates them to the budget, which is stated for another size.
    """
    files = [str(path) for path in Store(root).segments().values()]
    scanned = [_cold([sys.executable, "-c", SCAN, *files]) for _ in range(runs)]
    computed = [_cold([sys.executable, str(PROGRAM), "tables", str(root), "--format", "json"]) for _ in range(runs)]
    events = int(scanned[0][2])
    seconds = figure(
        f"all tables, cold process, {events:,} events",
        "s",
        [wall_s for wall_s, _, _ in computed],
        baselines=[wall_s for wall_s, _, _ in scanned],
        baseline_name="DuckDB full scan, cold process",
    )
    memory = figure(
        "all tables, peak memory",
        "GiB",
        [peak_gib for _, peak_gib, _ in computed],
        baselines=[peak_gib for _, peak_gib, _ in scanned],
        baseline_name="DuckDB full scan, cold process",
        limits=[Limit(number=1, unit="GiB")],
    )
    return [seconds, memory], (
        f"all tables: {events / seconds.value:,.0f} events/s. The budget is 3 s for {BUDGET_EVENTS:,} events; in "
        f"proportion this store would take {seconds.value * BUDGET_EVENTS / events:.1f} s at that size (not measured; the "
        "start of the process is in it as if it grew too)."
    )


def _cold(command: list[str]) -> tuple[float, float, str]:
    """Run a program; its seconds, peak memory in GiB and output.

    Raises:
        RuntimeError: It failed.
    """
    began_s = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    wall_s = time.perf_counter() - began_s
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stdout.close()
    if process.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} ... ended with {process.returncode}")
    return wall_s, usage.ru_maxrss / (1 << 20), output
