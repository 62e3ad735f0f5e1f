"""How often a study that stops when its gain is shown stops at a gain of nothing, what it sees, and what it saves.

Run ``python -m tests.coverage.looks``. The studies are drawn here, and tested at the product's levels with the test of
the tables, as at every look of ``run``.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lhaw_record.analytics.comparison.looks import GroupSequentialRule
from lhaw_record.analytics.statistics.inference import InferenceSettings, Units, estimate
from lhaw_record.recorder.cli.output import print_rows
from tests.coverage.page import write_section

LEVEL, LOOKS = 0.05, 4
_SETTINGS = InferenceSettings(permutations=2_000)
_SPREAD, _TRIALS = 1.5, 3


class Study(NamedTuple):
    """The design of a study with one agent, and its gain from asking."""

    tasks: int
    variants: int
    gain: float


STUDIES = tuple(
    Study(tasks, variants, gain) for tasks, variants in ((40, 4), (40, 1), (24, 4)) for gain in (0.0, 0.1, 0.2, 0.3)
)


def looked_at(study: Study, rng: np.random.Generator) -> list[float | None]:
    """Draw one study and return its p-value at every look. The last one is that of a study without looks."""
    task = np.repeat(np.arange(study.tasks), study.variants)
    low = rng.beta(_SPREAD, _SPREAD, study.tasks)[task]
    high = low + 2 * study.gain * (1 - low)
    gains = (rng.binomial(_TRIALS, high) - rng.binomial(_TRIALS, low)) / _TRIALS
    found = []
    for look in range(1, LOOKS + 1):
        seen = task < round(study.tasks * look / LOOKS)
        found.append(estimate("gain", Units(gains[seen], np.ones(seen.sum()), task[seen]), _SETTINGS).p_value)
    return found


def simulated(study: Study, studies: int) -> dict[str, object]:
    """Return the shares of studies that claim a gain: with the levels of the rule, with one look, and naively."""
    rng = np.random.default_rng([studies, *(int(100 * value) for value in study)])
    levels = GroupSequentialRule().levels(LOOKS)
    found = [[2.0 if p is None else p for p in looked_at(study, rng)] for _ in range(studies)]
    stops = [next((look for look in range(LOOKS) if each[look] < levels[look]), None) for each in found]
    saved = [study.tasks - round(study.tasks * (LOOKS if at is None else at + 1) / LOOKS) for at in stops]
    return {
        **study._asdict(),
        "planned_looks": round(sum(at is not None for at in stops) / studies, 4),
        "one_look": round(sum(each[-1] < LEVEL for each in found) / studies, 4),
        "naive_looks": round(sum(min(each) < LEVEL for each in found) / studies, 4),
        "tasks_saved": round(sum(saved) / studies, 1),
    }


def section(studies: int) -> tuple[str, str]:
    """Return the heading of the table and the text above it."""
    return "Looks", (
        f"The table shows the share of {studies:,} studies that claim a gain from asking: with {LOOKS} planned looks, "
        "with one look at the end, and with uncorrected looks at 0.05. `python -m tests.coverage.looks` prints it. "
        "Each cell has 3 trials."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print every design. Return exit code 1 if one without a gain is above the level by over 2 standard errors."""
    parser = argparse.ArgumentParser(prog="python -m tests.coverage.looks", description=__doc__)
    parser.add_argument("--studies", type=int, default=2_000, metavar="N", help="of each design (default: 2000)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the table into this page")
    options = parser.parse_args(arguments)
    rows = [simulated(study, options.studies) for study in STUDIES]
    print_rows(rows, tuple(rows[0]), "table")
    if options.page is not None:
        write_section(options.page, *section(options.studies), rows)
    limit = LEVEL + 2 * (LEVEL * (1 - LEVEL) / options.studies) ** 0.5
    return int(any(row["gain"] == 0 and float(str(row["planned_looks"])) > limit for row in rows))


if __name__ == "__main__":
    sys.exit(main())
