"""What is measured, as data: a value beside its baseline of the same run and its budget, and how that is printed."""

import os
import platform
import statistics
import subprocess
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec


def circumstances() -> str:
    """Return when, at which commit and on what machine something is measured."""
    command = ["git", "-C", str(Path(__file__).parent), "describe", "--always", "--dirty", "--abbrev=12"]
    commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or "unknown"
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit}, {os.cpu_count()} CPUs, {platform.platform()}"


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the report: medians over the runs. ``ratio`` is value / baseline, run by run."""

    name: str
    unit: str
    value: float
    baseline: float | None = None
    baseline_name: str = ""
    ratio: float | None = None
    budget: str = ""
    is_within: bool | None = None
    spread: tuple[float, float] = (0.0, 0.0)


class Limit(msgspec.Struct, frozen=True, kw_only=True):
    """A budget: the value, or the value's ratio to its baseline, at most or at least some number."""

    number: float
    of: Literal["value", "ratio"] = "value"
    is_lowest: bool = False
    unit: str = ""

    def __str__(self) -> str:
        sign, unit = "≥" if self.is_lowest else "≤", " x baseline" if self.of == "ratio" else f" {self.unit}"
        return f"{sign} {self.number:,g}{unit}".rstrip()

    def holds(self, value: float, ratio: float | None) -> bool:
        """Return whether the measured value, or its ratio, keeps the limit."""
        measured = value if self.of == "value" or ratio is None else ratio
        return measured >= self.number if self.is_lowest else measured <= self.number


def figure(
    name: str,
    unit: str,
    values: Sequence[float],
    *,
    baselines: Sequence[float] = (),
    baseline_name: str = "",
    limits: Sequence[Limit] = (),
) -> Figure:
    """Return the medians of one quantity over some runs, judged by its limits.

    Args:
        name: What was measured.
        unit: Its unit.
        values: One value per run.
        baselines: The baseline's value in the same runs, or nothing.
        baseline_name: What the baseline is.
        limits: All must hold.
    """
    ratio = statistics.median(one / base for one, base in zip(values, baselines, strict=True)) if baselines else None
    value = statistics.median(values)
    return Figure(
        name=name,
        unit=unit,
        value=value,
        baseline=statistics.median(baselines) if baselines else None,
        baseline_name=baseline_name,
        ratio=ratio,
        budget=" and ".join(str(limit) for limit in limits),
        is_within=all(limit.holds(value, ratio) for limit in limits) if limits else None,
        spread=(min(values), max(values)),
    )


def lines(figures: Sequence[Figure]) -> list[str]:
    """Return the report as a table in Markdown, which is readable as it is."""
    header = ("what", "median", "lowest - highest", "baseline", "ratio", "budget", "")
    rows = [header, tuple("---" for _ in header), *(_row(one) for one in figures)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(header))]
    return ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]


def write(page: Path, section: str, table: Sequence[str]) -> None:
    """Put the lines of a section's table between its two marks in a page, with when and where they were measured.

    Raises:
        ValueError: The page has no such marks.
    """
    first, last = f"<!-- measured: {section} -->", "<!-- end -->"
    text = page.read_text(encoding="utf-8")
    before, found_first, rest = text.partition(f"{first}\n")
    _, found_last, after = rest.partition(f"{last}\n")
    if not (found_first and found_last):
        raise ValueError(f"{page} has no place for the section {section}: a line {first}, and {last} after it")
    measured = "\n".join(["", f"Measured {circumstances()}:", "", *table, "", ""])
    page.write_text(f"{before}{first}\n{measured}{last}\n{after}", encoding="utf-8")


def _row(one: Figure) -> tuple[str, ...]:
    baseline = "" if one.baseline is None else f"{_number(one.baseline)} {one.unit}, {one.baseline_name}"
    return (
        one.name,
        f"{_number(one.value)} {one.unit}",
        f"{_number(one.spread[0])} - {_number(one.spread[1])}",
        baseline,
        "" if one.ratio is None else f"{one.ratio:.2f}",
        one.budget,
        {None: "", True: "within", False: "OVER"}[one.is_within],
    )


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
