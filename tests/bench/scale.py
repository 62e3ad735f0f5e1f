"""``python -m tests.bench.scale``: time and memory of reading against the number of events, up to 10 million.

Writes ``scale.json``, ``scale.md``, ``scale.svg`` and ``scale.png``. What is measured now replaces the same
operation at the same size in a ``scale.json`` that is there already, so that it can be repeated at a quiet moment.
"""

import argparse
import os
import platform
import shutil
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import msgspec

from tests.bench import figures
from tests.bench.scale_chart import draw
from tests.bench.scale_figures import OPERATIONS, Scale, Size
from tests.bench.scale_report import described, growth, markdown
from tests.bench.scale_runs import measure
from tests.bench.stores import KEPT, kept_store

SIZES = (10_000, 50_000, 100_000, 500_000, 1_000_000, 2_000_000, 5_000_000, 10_000_000)
QUICK_SIZES = (2_000, 20_000)
STORED = "scale.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the report and print its tables; 0 also over a budget: a shared machine decides nothing."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.scale", description="Measure against size.")
    parser.add_argument("--quick", action="store_true", help="two small sizes, one run of each, to see that it works")
    parser.add_argument("--sizes", type=int, nargs="*", help="numbers of events (default: 10,000 to 10 million)")
    parser.add_argument("--operations", choices=OPERATIONS, nargs="*", default=list(OPERATIONS), help="default: all")
    parser.add_argument("--kept", type=Path, default=KEPT, help="where stores are kept (default: .bench)")
    parser.add_argument("--out", type=Path, help="where the report goes (default: 'results' among the stores)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the growth into this page, and its chart")
    parser.add_argument(
        "--patience",
        type=float,
        default=0,
        metavar="SECONDS",
        help="wait and repeat so long, for each run, until it has the machine to itself",
    )
    options = parser.parse_args(arguments)
    out = options.out or options.kept / "results"
    out.mkdir(parents=True, exist_ok=True)
    wanted = options.sizes if options.sizes is not None else QUICK_SIZES if options.quick else SIZES
    for events in wanted:
        store = kept_store(options.kept, events)
        for size in measure(store, events, options.operations, is_quick=options.quick, patience_s=options.patience):
            add(out, size)
            sys.stderr.write(f"{size.events:,} events: {described(size.measured[0])}\n")
    scale = msgspec.json.decode((out / STORED).read_bytes(), type=Scale)
    (out / "scale.md").write_text(markdown(scale), encoding="utf-8")
    draw(scale, out)
    if options.page is not None:
        figures.write(options.page, "scale", growth(scale))
        shutil.copy(out / "scale.svg", options.page.parent / "images")
    sys.stdout.write(markdown(scale))
    return 0


def add(out: Path, size: Size) -> None:
    """Put what was measured at one size into the file, in place of earlier measurements of the same."""
    path = out / STORED
    sizes = msgspec.json.decode(path.read_bytes(), type=Scale).sizes if path.exists() else ()
    by_events = {one.wanted_events: one for one in sizes}
    earlier = by_events.get(size.wanted_events)
    if earlier is not None and earlier.store_bytes == size.store_bytes:
        kept = [one for one in earlier.measured if size.find(one.operation, one.page_cache) is None]
        size = msgspec.structs.replace(size, measured=(*kept, *size.measured))
    by_events[size.wanted_events] = size
    scale = Scale(machine=_machine(), sizes=tuple(by_events[events] for events in sorted(by_events)))
    path.write_bytes(msgspec.json.format(msgspec.json.encode(scale)) + b"\n")


def _machine() -> str:
    """Say what a reader must know of this machine to compare."""
    memory_gb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9
    packages = ", ".join(f"{name} {version(name)}" for name in ("duckdb", "pyarrow"))
    return (
        f"{_processor()}, {os.cpu_count()} CPUs, {memory_gb:.0f} GB of memory, {platform.system()}, "
        f"Python {platform.python_version()}, {packages}"
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
