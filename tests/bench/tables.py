"""All tables of a store in a cold process, as a user asks for them, beside one full scan of the same rows."""

import sys
from pathlib import Path

from lhaw_record.recorder.storage.store import Store
from tests.bench.cold import PROGRAM, run
from tests.bench.figures import Figure, Limit, figure
from tests.bench.scale_figures import BUDGETS

_AGAIN = Limit(number=0.35, unit="s")
SCAN = """
import sys, duckdb
connection = duckdb.connect()
rows = connection.read_parquet(sys.argv[1:], union_by_name=True)
print(connection.sql("select count(*), bit_xor(hash(columns(*))) from rows").fetchall()[0][0])
"""


def measure(root: Path, wanted_events: int, *, runs: int) -> list[Figure]:
    """Measure ``lhaw-record tables`` over a store at rest.

    Args:
        root: The store.
        wanted_events: The number of events that it was made with; a budget is judged if it is for this number.
        runs: Repetitions; the medians are reported.
    """
    files = [str(path) for path in Store(root).segment_paths()]
    scanned = [run([sys.executable, "-c", SCAN, *files]) for _ in range(runs)]
    computed = [run(tables_command(root))[0] for _ in range(runs)]
    kept = [run(tables_command(root, is_fresh=False))[0] for _ in range(runs)]
    budgets = [one for one in BUDGETS if (one.operation, one.events) == ("tables", wanted_events)]
    scan = "DuckDB full scan, cold process"
    return [
        figure(
            f"all tables, cold process, {int(scanned[0][1]):,} events",
            "s",
            [taken.wall_s for taken in computed],
            baselines=[taken.wall_s for taken, _ in scanned],
            baseline_name=scan,
            limits=[Limit(number=one.wall_s, unit="s") for one in budgets],
        ),
        figure(
            "all tables, processor time",
            "s",
            [taken.cpu_s for taken in computed],
            baselines=[taken.cpu_s for taken, _ in scanned],
            baseline_name=scan,
        ),
        figure(
            "all tables, peak memory",
            "GiB",
            [taken.peak_bytes / (1 << 30) for taken in computed],
            baselines=[taken.peak_bytes / (1 << 30) for taken, _ in scanned],
            baseline_name=scan,
            limits=[Limit(number=one.peak_bytes / (1 << 30), unit="GiB") for one in budgets if one.peak_bytes],
        ),
        figure("the same again, unchanged store", "s", [taken.wall_s for taken in kept], limits=[_AGAIN]),
    ]


def tables_command(root: Path, *, is_fresh: bool = True) -> list[str]:
    """Return the program that prints all tables of a store, with default draws: computed, or those that are kept."""
    return [*PROGRAM, "tables", str(root), "--format", "json", *(["--fresh"] if is_fresh else [])]
