"""How often ``findings`` claims something in studies in which nothing differs, and how often it sees what does.

Run ``python -m tests.coverage.families``. The studies are drawn here and tested by the function of the table ``claims``
(:func:`inference.family_p_values`); a test holds this emulation against real stores.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np

from lhaw_record.analytics.statistics.inference import (
    Claim,
    InferenceSettings,
    SharedArm,
    Units,
    estimate,
    family_p_values,
)
from lhaw_record.recorder.cli.output import print_rows
from tests.coverage.page import write_section

SETTINGS = InferenceSettings(permutations=1_000)
TIMINGS = tuple(f"inject_{percent}" for percent in (10, 30, 50, 70, 90))
DIMENSIONS = ("goal", "constraint", "input", "context")
LEADS = {"gain": 1.25, "loss": 1.0, "timing": 0.6}
"""What is added to the t of a claim in the table ``claims``."""

LEVEL, TRIALS = 0.05, 3
_SPREAD, _BASE = 1.5, 0.5
"""A task's rate of success is a beta draw with these parameters, so its mean is a half and its intraclass correlation
0.25."""


class Study(NamedTuple):
    """The design of a study, and what really differs in it.

    ``missing`` is the chance of a trial to be missing. Of an unbalanced study tasks have one to seven variants, and an
    agent met three quarters of them. The effects are those of the first ``affected`` agents; timings are pooled, and
    have their gain in all agents.
    """

    benchmarks: int
    tasks: int
    variants: int
    agents: int
    missing: float = 0.0
    is_unbalanced: bool = False
    affected: int = 0
    gain: float = 0.0
    loss: float = 0.0
    timing_gain: float = 0.0


class Tested(NamedTuple):
    """A claim of a study with its corrected p-value, and its p-value by itself as it was tested before."""

    kind: str
    is_true: bool
    p_family: float | None
    p_before: float | None


NULL = (
    *(Study(1, 12, 4, 3), Study(1, 24, 4, 3), Study(1, 40, 4, 6), Study(1, 75, 4, 6), Study(3, 25, 4, 5)),
    *(Study(3, 75, 2, 8), Study(1, 40, 4, 6, missing=0.15), Study(1, 40, 0, 6, is_unbalanced=True)),
    *(Study(3, 25, 0, 5, missing=0.15, is_unbalanced=True), Study(1, 40, 4, 6, affected=3, gain=0.15)),
)
EFFECTS = (
    *(Study(1, 40, 4, 6, affected=6, gain=gain) for gain in (0.1, 0.15)),
    *(Study(1, 40, 4, 6, affected=6, loss=loss) for loss in (0.1, 0.15)),
    *(Study(1, 40, 4, 6, timing_gain=gain) for gain in (0.1, 0.15)),
    *(Study(1, tasks, 4, 3, affected=3, gain=0.15) for tasks in (12, 24)),
    Study(1, 7, 4, 1, affected=1, loss=0.19),
    Study(1, 7, 4, 1, affected=1, loss=0.38),
)


class _Cells(NamedTuple):
    """The values of one agent's variants under one condition, NaN without a valid trial, and their valid trials."""

    values: np.ndarray
    trials: np.ndarray


def tested(study: Study, rng: np.random.Generator) -> list[Tested]:
    """Draw one study and test everything that ``findings`` may claim about it."""
    found: list[tuple[str, bool, Claim]] = []
    pooled: dict[str, list[tuple[np.ndarray, ...]]] = {timing: [] for timing in TIMINGS}
    for benchmark in range(study.benchmarks):
        sizes = rng.integers(1, 8, study.tasks) if study.is_unbalanced else np.full(study.tasks, study.variants)
        task = np.repeat(np.arange(study.tasks), sizes)
        rates = rng.beta(_SPREAD, _SPREAD, study.tasks)
        dimensions = rng.random((len(task), len(DIMENSIONS))) < 0.4
        dimensions[np.arange(len(task)), rng.integers(0, len(DIMENSIONS), len(task))] = True
        cluster = task + benchmark * study.tasks
        for agent in range(study.agents):
            is_affected = agent < study.affected
            met = rng.random(len(task)) < (0.75 if study.is_unbalanced else 1.0)
            cells = dict(_cells(study, rng, rates, task, is_affected=is_affected))
            for timing in TIMINGS:
                gains = np.where(met, cells[timing].values - cells["underspecified"].values, np.nan)
                pooled[timing].append((gains, cluster, np.full(len(task), agent), dimensions))
            found += _of_agent(study, cells, cluster, met, is_affected=is_affected)
    found += _timings(study, pooled)
    claims = [claim._replace(lead=LEADS.get(kind, 0.0)) for kind, _, claim in found]
    p_values = [_with_own(claim, p) for claim, p in zip(claims, family_p_values(claims, SETTINGS), strict=True)]
    for place, each in enumerate(found):  # helps up to a time if it helps at all times before
        if each[0] == "timing" and found[place - 1][0] == "timing" and (place - _first_timing(found)) % len(TIMINGS):
            earlier, own = p_values[place - 1], p_values[place]
            p_values[place] = None if earlier is None or own is None else max(earlier, own)
    return [
        Tested(kind, is_true, p, _before(kind, claim))
        for (kind, is_true, claim), p in zip(found, p_values, strict=True)
    ]


def _with_own(claim: Claim, p_value: float | None) -> float | None:
    """Return the larger of a corrected p-value and the claim's own, which is needed only where the former is low."""
    if p_value is None or p_value >= LEVEL:
        return p_value
    own = estimate("gain" if claim.units.shared is None else "loss", claim.units, SETTINGS).p_value
    return max(p_value, own or 0.0)


def _cells(
    study: Study, rng: np.random.Generator, rates: np.ndarray, task: np.ndarray, *, is_affected: bool
) -> Iterator[tuple[str, _Cells]]:
    low = rates * (1 - study.loss * is_affected / _BASE)
    asked = low + study.gain * is_affected / (1 - _BASE) * (1 - low)
    informed = low + study.timing_gain / (1 - _BASE) * (1 - low)
    full = _drawn(study, rng, rates)
    yield "full", _Cells(*(column[task] for column in full))
    yield "full_ask_user", _Cells(*(column[task] for column in _drawn(study, rng, rates)))
    yield "underspecified", _drawn(study, rng, low[task])
    yield "ask_user", _drawn(study, rng, asked[task])
    for timing in TIMINGS:
        yield timing, _drawn(study, rng, informed[task])


def _drawn(study: Study, rng: np.random.Generator, rates: np.ndarray) -> _Cells:
    trials = rng.binomial(TRIALS, 1 - study.missing, len(rates))
    values = np.where(trials > 0, rng.binomial(trials, rates) / np.maximum(trials, 1), np.nan)
    return _Cells(values, trials.astype(float))


def _of_agent(
    study: Study, cells: dict[str, _Cells], cluster: np.ndarray, met: np.ndarray, *, is_affected: bool
) -> Iterator[tuple[str, bool, Claim]]:
    """Yield the claims about one agent: its gain, its losses, and the effect of being able to ask."""
    full, low, asked = (cells[name] for name in ("full", "underspecified", "ask_user"))
    has_gain, has_loss = (bool(effect) and is_affected for effect in (study.gain, study.loss))
    yield "gain", has_gain, Claim(_units(np.where(met, asked.values - low.values, np.nan), cluster), False)
    for name, is_true in (
        ("underspecified", has_loss),
        ("ask_user", has_gain or has_loss),
        (TIMINGS[-1], has_loss or bool(study.timing_gain)),
    ):
        own = cells[name]
        lost = np.where(met, full.values - own.values, np.nan)
        claim = Claim(_units(lost, cluster, shared=(full, own)), False)
        yield "loss" if name == "underspecified" else "rest", is_true, claim
    first = np.unique(cluster, return_index=True)[1]
    difference = (cells["full_ask_user"].values - full.values)[first]
    yield "difference", False, Claim(_units(difference, cluster[first]), False)


def _timings(study: Study, pooled: dict[str, list[tuple[np.ndarray, ...]]]) -> Iterator[tuple[str, bool, Claim]]:
    """Yield the claims about all agents and benchmarks, over all variants and for each dimension."""
    for place, timing in product(range(-1, len(DIMENSIONS)), TIMINGS):
        gains, cluster, agent, dimensions = (np.concatenate(column) for column in zip(*pooled[timing], strict=True))
        kept = ~np.isnan(gains) & (dimensions[:, place] if place >= 0 else True)
        gains, cluster, agent = gains[kept], cluster[kept], agent[kept]
        member = cluster * study.agents + agent
        own = np.bincount(member, minlength=member.max() + 1) if len(member) else np.zeros(1)
        agents = np.zeros(cluster.max() + 1 if len(cluster) else 1)
        np.add.at(agents, np.unique(member) // study.agents, 1)
        weights = 1 / (own[member] * agents[cluster])
        claim = Claim(Units(weights * gains, weights, cluster), True)
        yield "timing", bool(study.timing_gain), claim


def _units(values: np.ndarray, cluster: np.ndarray, shared: tuple[_Cells, _Cells] | None = None) -> Units:
    kept = ~np.isnan(values)
    arm = shared and SharedArm(shared[0].values[kept], shared[0].trials[kept], shared[1].trials[kept])
    return Units(values[kept], np.ones(int(kept.sum())), cluster[kept], arm)


def _before(kind: str, claim: Claim) -> float | None:
    """Return the p-value that was corrected by Holm over the agents: of a loss, with room for one more task."""
    if kind not in ("gain", "loss"):
        return None
    return estimate(kind, claim.units._replace(shared=None), SETTINGS).p_value


def _first_timing(found: Sequence[tuple[str, bool, Claim]]) -> int:
    return next(place for place, each in enumerate(found) if each[0] == "timing")


def _is_false(found: Sequence[Tested]) -> bool:
    return any(not each.is_true and each.p_family is not None and each.p_family < LEVEL for each in found)


def _power(found: Sequence[Tested], kind: str) -> tuple[int, int, int]:
    """Count the true claims of a kind, those that are claimed, and those that Holm over the agents would claim."""
    true = [each for each in found if each.kind == kind and each.is_true]
    before = sorted(each.p_before for each in found if each.kind == kind and each.p_before is not None)
    steps = [p * (len(before) - rank) for rank, p in enumerate(before)]
    held = next((p for p, step in zip(before, steps, strict=True) if step >= LEVEL), 2.0)
    claimed = sum(each.p_family is not None and each.p_family < LEVEL for each in true)
    return len(true), claimed, sum(each.p_before is not None and each.p_before < held for each in true)


def simulated(study: Study, studies: int) -> dict[str, object]:
    """Simulate a design: the share of studies with a false claim, its standard error, and the power."""
    row: dict[str, object] = {name: value for name, value in study._asdict().items() if name != "affected"}
    rng = np.random.default_rng([studies, *(int(100 * value) for value in study)])
    found = [tested(study, rng) for _ in range(studies)]
    share = sum(map(_is_false, found)) / studies
    row |= {"false_claims": round(share, 4), "error": round((share * (1 - share) / studies) ** 0.5, 4)}
    for kind in ("gain", "loss", "timing"):
        true, claimed, before = (sum(column) for column in zip(*(_power(each, kind) for each in found), strict=True))
        row[f"{kind}_power"] = round(claimed / true, 3) if true else None
        if kind != "timing":
            row[f"{kind}_power_before"] = round(before / true, 3) if true else None
    return row


def section(studies: int) -> tuple[str, str]:
    """Return the heading of the table and the text above it."""
    return "Sentences", (
        f"The share of {studies:,} studies in which `findings` claims anything false, over all of its sentences (at "
        "most 0.05), and what it sees of true gains and losses; `before` is Holm over the agents of one question. By "
        "`python -m tests.coverage.families`; of 3 trials a cell; 0 variants: 1 to 7."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the share of every design. Return exit code 1 if one is above the level by over 2 standard errors."""
    parser = argparse.ArgumentParser(prog="python -m tests.coverage.families", description=__doc__)
    parser.add_argument("--studies", type=int, default=1_000, metavar="N", help="of each design (default: 1000)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the table into this page")
    options = parser.parse_args(arguments)
    rows = [simulated(study, options.studies) for study in (*NULL, *EFFECTS)]
    print_rows(rows, tuple(rows[0]), "table")
    if options.page is not None:
        write_section(options.page, *section(options.studies), rows)
    limit = LEVEL + 2 * (LEVEL * (1 - LEVEL) / options.studies) ** 0.5
    return int(any(float(str(row["false_claims"])) > limit for row in rows))


if __name__ == "__main__":
    sys.exit(main())
