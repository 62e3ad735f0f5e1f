"""The printed values, read straight from data/published: what the trials have to give."""

import csv
import math
import tomllib
from pathlib import Path

PUBLISHED = Path(__file__).resolve().parents[2] / "data" / "published"


def rows(name: str, **wanted: str) -> list[dict[str, str]]:
    """Return the rows of a file that have some values."""
    with (PUBLISHED / f"{name}.csv").open(encoding="utf-8", newline="") as lines:
        return [row for row in csv.DictReader(lines) if wanted.items() <= row.items()]


def values(name: str, *keys: str, **wanted: str) -> dict[tuple[str, ...], str]:
    """Return the printed texts by some columns, blank ones left out."""
    return {tuple(row[key] for key in keys): row["value"] for row in rows(name, **wanted) if row["value"]}


def labels(name: str, column: str) -> dict[str, list[str]]:
    """Return what the printed labels of a column stand for, where they are spelled otherwise."""
    index = tomllib.loads((PUBLISHED / "index.toml").read_text(encoding="utf-8"))
    found: dict[str, list[str]] = index["files"][name]["values"][column]
    return found


def count(text: str, size: int, unit: float = 100.0) -> int | None:
    """Return which count of ``size`` is printed so, None if none is; ``unit`` is what one whole is printed as."""
    nearest = math.floor(float(text) * size / unit + 0.5)
    near = [nearest, *((nearest - 1, nearest + 1))]
    fits = [each for each in near if is_printed(unit * each / size, text)]
    return fits[0] if fits else None


def nearest(text: str, size: int, unit: float = 100.0) -> int:
    """Return the count of ``size`` that is printed so, or else the one that comes nearest to it."""
    found = count(text, size, unit)
    return math.floor(float(text) * size / unit + 0.5) if found is None else found


def is_printed(value: float, text: str) -> bool:
    """Whether a value, rounded to the digits of a text, is that text; a half may go either way."""
    return abs(value - float(text)) <= 0.5 * 10.0 ** -places_of(text) + 1e-9


def places_of(text: str) -> int:
    """Return how many digits a printed number has after the point."""
    return len(text.partition(".")[2])
