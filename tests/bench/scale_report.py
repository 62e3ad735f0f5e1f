"""The report of a series of sizes as Markdown: times, memory and budgets, one row for each size."""

from collections.abc import Callable, Sequence
from math import log

from tests.bench.scale_figures import BUDGETS, OPERATIONS, Budget, Measured, Scale, Size, verdict

PROGRAMS = tuple(name for name in OPERATIONS if not name.startswith("fetch"))
FETCHES = ("fetch", "fetch_first")


def markdown(scale: Scale) -> str:
    """Return the whole report."""
    return "\n".join(
        [
            f"{scale.machine}.",
            "",
            "Wall time of whole programs in seconds, with the store's files dropped from the page cache / in it:",
            "",
            *_table(scale, PROGRAMS, lambda one: _seconds(one.wall_s)),
            "",
            "CPU time of the same programs in seconds, which other programs on the machine change least:",
            "",
            *_table(scale, PROGRAMS, lambda one: _seconds(one.cpu_s or 0)),
            "",
            "One trial, fetched by `read_envelopes` within a process, in milliseconds, dropped / in the page cache:",
            "",
            *_table(scale, FETCHES, lambda one: f"{one.wall_s * 1e3:.0f}"),
            "",
            "Peak memory of the same programs in MiB:",
            "",
            *_table(scale, PROGRAMS, lambda one: f"{(one.peak_bytes or 0) / (1 << 20):.0f}"),
            "",
            "The stores, and how quiet the machine was:",
            "",
            *_rows(
                ("events", "trials", "segments", "MB", "bytes per event", "runs", "CPUs used by others"),
                map(_store, scale.sizes),
            ),
            "",
            *_budgets(scale),
            "",
        ]
    )


def growth(scale: Scale) -> list[str]:
    """Return a row for each size: wall time of each program, then memory and bytes, and the exponents between sizes.

    An exponent is the slope of the logarithms of time and events since the size before: 1 is linear.
    """
    header = ("events", *(f"{OPERATIONS[name]} (exponent)" for name in (*PROGRAMS, "fetch")), "peak memory of tables")
    rows = []
    for before, size in zip((None, *scale.sizes), scale.sizes, strict=False):
        cells = [_grown(before, size, name) for name in (*PROGRAMS, "fetch")]
        found = size.find("tables", "dropped")
        peak = "-" if found is None else f"{(found.peak_bytes or 0) / (1 << 20):,.0f} MiB"
        rows.append((f"{size.events:,}", *cells, peak))
    return _rows(header, rows)


def _grown(before: Size | None, size: Size, operation: str) -> str:
    found, earlier = size.find(operation, "dropped"), before and before.find(operation, "dropped")
    if found is None:
        return "-"
    seconds = f"{found.wall_s:.2g} s" if found.wall_s >= 0.1 else f"{found.wall_s * 1e3:.0f} ms"
    if before is None or not earlier:
        return seconds
    return f"{seconds} ({log(found.wall_s / earlier.wall_s) / log(size.events / before.events):.2f})"


def described(one: Measured) -> str:
    """Return one measurement as a line to follow the progress by."""
    others = "" if one.others_cpus is None else f", others used {one.others_cpus} CPUs"
    return f"{OPERATIONS[one.operation]}, page cache {one.page_cache}: {one.wall_s:.3g} s{others}"


def _table(scale: Scale, operations: Sequence[str], shown: Callable[[Measured], str]) -> list[str]:
    def cell(size: Size, operation: str) -> str:
        found = (size.find(operation, "dropped"), size.find(operation, "warm"))
        return " / ".join(shown(one) for one in found if one) or "-"

    rows = [(f"{size.events:,}", *(cell(size, name) for name in operations)) for size in scale.sizes]
    return _rows(("events", *(OPERATIONS[name] for name in operations)), rows)


def _seconds(seconds: float) -> str:
    return f"{seconds:.{1 if seconds >= 10 else 2}f}"


def _store(size: Size) -> tuple[str, ...]:
    runs = sorted({one.runs for one in size.measured if one.operation in PROGRAMS})
    others = [one.others_cpus for one in size.measured if one.others_cpus is not None]
    return (
        f"{size.events:,}",
        f"{size.trials:,}",
        str(size.segments),
        f"{size.store_bytes / 1e6:,.1f}",
        f"{size.store_bytes / size.events:.0f}",
        " or ".join(map(str, runs)),
        f"{min(others):.2f} - {max(others):.2f}" if others else "not known",
    )


def _budgets(scale: Scale) -> list[str]:
    """One line for each budget and each size that it speaks of."""
    lines = []
    for budget in BUDGETS:
        judged = [(size, is_within) for size in scale.sizes if (is_within := verdict(budget, size)) is not None]
        lines += [f"- {_limit(budget)} at {size.events:,} events: {'within' if ok else 'OVER'}" for size, ok in judged]
    return lines


def _limit(budget: Budget) -> str:
    time = f"{budget.wall_s:g} s" if budget.wall_s >= 1 else f"{budget.wall_s * 1e3:g} ms"
    memory = f" and {budget.peak_bytes / (1 << 30):g} GiB" if budget.peak_bytes else ""
    return f"{OPERATIONS[budget.operation]}, at most {time}{memory}"


def _rows(header: Sequence[str], rows: "map[tuple[str, ...]] | Sequence[tuple[str, ...]]") -> list[str]:
    lines = [tuple(header), ("---:",) * len(header), *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header))]
    return ["| " + " | ".join(map(str.rjust, line, widths)) + " |" for line in lines]
