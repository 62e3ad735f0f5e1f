"""All tables of a store in a cold process, as a user asks for them, beside one full scan of the same rows."""

import statistics
import subprocess
import sys
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

TIMED = """
import resource, subprocess, sys, time
began_s = time.perf_counter()
code = subprocess.run(sys.argv[1:]).returncode
peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
print(time.perf_counter() - began_s, peak_kib, file=sys.stderr)
sys.exit(code)
"""


def measure(root: Path, small_root: Path, *, runs: int) -> tuple[list[Figure], str]:
    """Measure ``lhaw-record tables`` over a store at rest.

    Args:
        root: The store.
        small_root: Another with hardly any events: what it takes does not grow.
        runs: Repetitions; the medians are reported.

    Returns:
        The figures, and a sentence that relates them to the budget, which is stated for another size.
    """
    files = [str(path) for path in Store(root).segment_paths()]
    scanned = [_cold([sys.executable, "-c", SCAN, *files]) for _ in range(runs)]
    computed = [_cold(_tables(root)) for _ in range(runs)]
    fixed_s = statistics.median(_cold(_tables(small_root))[0] for _ in range(runs))
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
    return [seconds, memory], _in_proportion(fixed_s, seconds.value, events)


def _in_proportion(fixed_s: float, measured_s: float, events: int) -> str:
    """Say what follows for the size of the budget, if anything does."""
    if measured_s <= fixed_s:
        return (
            f"all tables: a store with hardly any events takes {fixed_s:.2f} s too, so these {events:,} events tell "
            f"nothing about the budget, which is 3 s for {BUDGET_EVENTS:,}."
        )
    marginal_s = (measured_s - fixed_s) / events
    return (
        f"all tables: {fixed_s:.2f} s with hardly any events, then {marginal_s * 1e6:.1f} µs per event, which would be "
        f"{fixed_s + marginal_s * BUDGET_EVENTS:.1f} s for {BUDGET_EVENTS:,} events (in proportion, not measured; "
        "the budget is 3 s)."
    )


def _tables(root: Path) -> list[str]:
    return [sys.executable, str(PROGRAM), "tables", str(root), "--format", "json"]


def _cold(command: list[str]) -> tuple[float, float, str]:
    """Run a program; its seconds, peak memory in GiB and output.

    A small process starts it: one that this process started would be charged with this one's memory.

    Raises:
        RuntimeError: It failed.
    """
    done = subprocess.run([sys.executable, "-c", TIMED, *command], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command[:4])} ... failed: {done.stderr[-500:]}")
    wall_s, peak_kib = done.stderr.splitlines()[-1].split()
    return float(wall_s), int(peak_kib) / (1 << 20), done.stdout
