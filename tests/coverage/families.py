"""How often ``findings`` claims something in studies in which nothing differs, and how often it sees what does.

Run ``python -m tests.coverage.families``. The studies are drawn here and tested by the function of the table ``claims``
(:func:`inference.family_p_values`); a test holds this emulation against real stores.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
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
from lhaw_record.analytics.statistics.randomization import Columns, step_down
from lhaw_record.recorder.cli.output import print_rows, say
from tests.coverage.page import read_section, write_section

SETTINGS = InferenceSettings(permutations=1_000)
TIMINGS = tuple(f"inject_{percent}" for percent in (10, 30, 50, 70, 90))
DIMENSIONS = ("goal", "constraint", "input", "context")
LEADS = {"gain": 1.25, "loss": 0.9, "timing": 0.8}
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
    """A claim of a study with its corrected p-value, and as it was corrected before; infinite without one."""

    kind: str
    is_true: bool
    p_family: float
    p_before: float


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
    """Values of the agents (rows) and their variants (columns), NaN without a valid trial, and their valid trials."""

    values: np.ndarray
    trials: np.ndarray


class _Drawn(NamedTuple):
    """Claims of one kind (rows) about the same units (columns), which are sorted by cluster.

    A difference is NaN where the claim lacks the unit. ``starts`` are the first units of the clusters.
    """

    kind: str
    is_true: np.ndarray
    differences: np.ndarray
    weights: np.ndarray
    clusters: np.ndarray
    starts: np.ndarray
    shared: tuple[_Cells, _Cells] | None = None

    def sums(self, n_clusters: int) -> np.ndarray:
        """Return the sums of the clusters (rows) of each claim (columns)."""
        found = np.zeros((n_clusters, len(self.differences)))
        products = np.nan_to_num(self.weights * self.differences)
        found[self.clusters[self.starts]] = np.add.reduceat(products, self.starts, axis=1).T
        return found

    def claim(self, row: int) -> Claim:
        """Return a claim as the product states it."""
        kept = ~np.isnan(self.differences[row])
        weights = self.weights[row, kept]
        arm = None
        if self.shared is not None:
            full, own = self.shared
            arm = SharedArm(full.values[row, kept], full.trials[row, kept], own.trials[row, kept])
        units = Units(weights * self.differences[row, kept], weights, self.clusters[kept], arm)
        return Claim(units, self.kind == "timing", LEADS.get(self.kind, 0.0))


def tested(study: Study, rng: np.random.Generator) -> list[Tested]:
    """Draw one study and test everything that ``findings`` may claim about it, unless nothing can be claimed."""
    parts: list[_Drawn] = []
    timings: list[_Drawn] = []
    for benchmark in range(study.benchmarks):
        *of_agents, of_timings = _benchmark(study, rng, benchmark * study.tasks)
        parts += of_agents
        timings.append(of_timings)
    parts.append(_pooled(timings))
    n_clusters, has_effect = study.benchmarks * study.tasks, bool(study.affected or study.timing_gain)
    if not has_effect and not _may_claim(parts, n_clusters):
        return []
    claims = [[part.claim(row) for row in range(len(part.differences))] for part in parts]
    p_values = iter(family_p_values(list(chain.from_iterable(claims)), SETTINGS))
    found = []
    for part, own in zip(parts, claims, strict=True):
        p_family = np.array([_with_own(claim, next(p_values)) for claim in own])
        if part.kind == "timing":  # helps up to a time if it helps at all times before
            p_family = np.maximum.accumulate(p_family.reshape(-1, len(TIMINGS)), axis=1).ravel()
        p_before = _before(part, own, n_clusters)
        found += map(Tested, [part.kind] * len(own), part.is_true.tolist(), p_family.tolist(), p_before.tolist())
    return found


def _may_claim(parts: Sequence[_Drawn], n_clusters: int) -> bool:
    """Return whether the first step rejects anything, before losses are capped, which makes none more extreme."""
    counts = [len(part.differences) for part in parts]
    columns = Columns(
        sums=np.hstack([part.sums(n_clusters) for part in parts]),
        lead=np.repeat([LEADS.get(part.kind, 0.0) for part in parts], counts),
        most=np.full(sum(counts), np.inf),
        is_one_sided=np.repeat([part.kind == "timing" for part in parts], counts),
    )
    return bool(step_down(columns, SETTINGS.exchanges).min() < LEVEL)


def _with_own(claim: Claim, p_value: float | None) -> float:
    """Return the larger of a corrected p-value and the claim's own, which is needed only where the former is low."""
    if p_value is None or p_value >= LEVEL:
        return np.inf if p_value is None else p_value
    own = estimate("gain" if claim.units.shared is None else "loss", claim.units, SETTINGS).p_value
    return max(p_value, own or 0.0)


def _benchmark(study: Study, rng: np.random.Generator, first: int) -> Iterator[_Drawn]:
    """Yield the claims about the agents of a benchmark, whose clusters have numbers from ``first``; last the timings'.

    Those about an agent are its gain, its losses, and the effect of being able to ask.
    """
    sizes = rng.integers(1, 8, study.tasks) if study.is_unbalanced else np.full(study.tasks, study.variants)
    starts, task = np.cumsum(sizes) - sizes, np.repeat(np.arange(study.tasks), sizes)
    rates = rng.beta(_SPREAD, _SPREAD, study.tasks)
    is_affected = (np.arange(study.agents) < study.affected)[:, None]
    met = rng.random((study.agents, len(task))) < (0.75 if study.is_unbalanced else 1.0)
    low_rates = rates * (1 - study.loss * is_affected / _BASE)
    ask_rates = low_rates + study.gain * is_affected / (1 - _BASE) * (1 - low_rates)
    told_rates = low_rates + study.timing_gain / (1 - _BASE) * (1 - low_rates)
    of_tasks = np.broadcast_to(rates, low_rates.shape)
    own_full, channel = _drawn(study, rng, of_tasks), _drawn(study, rng, of_tasks)
    full = _Cells(*(column[:, task] for column in own_full))
    low, asked = _drawn(study, rng, low_rates[:, task]), _drawn(study, rng, ask_rates[:, task])
    told = [_drawn(study, rng, told_rates[:, task]) for _ in TIMINGS]
    has_gain, has_loss = (is_affected[:, 0] & bool(effect) for effect in (study.gain, study.loss))
    ones = np.ones(met.shape)

    gains = np.where(met, asked.values - low.values, np.nan)
    yield _Drawn("gain", has_gain, gains, ones, first + task, starts)
    for kind, is_true, own in (
        ("loss", has_loss, low),
        ("rest", has_gain | has_loss, asked),
        ("rest", has_loss | bool(study.timing_gain), told[-1]),
    ):
        lost = np.where(met, full.values - own.values, np.nan)
        yield _Drawn(kind, is_true, lost, ones, first + task, starts, (full, own))
    tasks = np.arange(study.tasks)
    yield _Drawn(
        "difference",
        np.zeros(study.agents, bool),
        channel.values - own_full.values,
        np.ones(own_full.values.shape),
        first + tasks,
        tasks,
    )
    yield _timings(study, rng, [np.where(met, each.values - low.values, np.nan) for each in told], first + task, starts)


def _timings(
    study: Study, rng: np.random.Generator, gains: Sequence[np.ndarray], clusters: np.ndarray, starts: np.ndarray
) -> _Drawn:
    """Return the claims about all agents, over all variants and for each dimension: agents count within tasks."""
    count, task = len(clusters), clusters - clusters[0]
    dimensions = rng.random((count, len(DIMENSIONS))) < 0.4
    dimensions[np.arange(count), rng.integers(0, len(DIMENSIONS), count)] = True
    counted = np.hstack([np.ones((count, 1), bool), dimensions]).T[:, None, :, None]
    differences = np.where(counted, np.stack(gains).transpose(0, 2, 1), np.nan)  # dimension, timing, variant, agent
    is_kept = ~np.isnan(differences)
    own = np.add.reduceat(is_kept, starts, axis=2, dtype=float)
    agents = (own > 0).sum(axis=3, keepdims=True)
    with np.errstate(divide="ignore"):
        weights = np.where(is_kept, (1 / (own * agents))[:, :, task], 0.0)
    n_claims = len(differences) * len(TIMINGS)
    return _Drawn(
        "timing",
        np.full(n_claims, bool(study.timing_gain)),
        differences.reshape(n_claims, -1),
        weights.reshape(n_claims, -1),
        np.repeat(clusters, study.agents),
        starts * study.agents,
    )


def _pooled(timings: Sequence[_Drawn]) -> _Drawn:
    """Return the claims about timings over all benchmarks."""
    ends = np.cumsum([0, *(len(each.clusters) for each in timings)])
    return timings[0]._replace(
        differences=np.hstack([each.differences for each in timings]),
        weights=np.hstack([each.weights for each in timings]),
        clusters=np.concatenate([each.clusters for each in timings]),
        starts=np.concatenate([each.starts + end for each, end in zip(timings, ends[:-1], strict=True)]),
    )


def _drawn(study: Study, rng: np.random.Generator, rates: np.ndarray) -> _Cells:
    trials = rng.binomial(TRIALS, 1 - study.missing, rates.shape)
    values = np.where(trials > 0, rng.binomial(trials, rates) / np.maximum(trials, 1), np.nan)
    return _Cells(values, trials.astype(float))


def _before(part: _Drawn, claims: Sequence[Claim], n_clusters: int) -> np.ndarray:
    """Return p-values as they were corrected within a question: Holm over the agents, or over the times of a dimension.

    Losses had room for one more task.
    """
    if part.kind not in ("gain", "loss", "timing") or not any(part.is_true):
        return np.full(len(claims), np.inf)
    if part.kind == "loss":
        found = [estimate("loss", claim.units._replace(shared=None), SETTINGS).p_value for claim in claims]
        p_values = np.array([np.inf if p is None else p for p in found])
    else:
        each = part.sums(n_clusters).T[:, :, None]
        columns = Columns(each, np.zeros(1), np.full(1, np.inf), np.array([part.kind == "timing"]))
        p_values = np.array([step_down(columns._replace(sums=one), SETTINGS.exchanges)[0] for one in each])
    together = p_values.reshape(-1, len(TIMINGS) if part.kind == "timing" else len(claims))
    order, held = np.argsort(together, axis=1), np.empty(together.shape)
    steps = np.take_along_axis(together, order, axis=1) * np.arange(together.shape[1], 0, -1)
    np.put_along_axis(held, order, np.maximum.accumulate(steps, axis=1), axis=1)
    return (np.maximum.accumulate(held, axis=1) if part.kind == "timing" else held).ravel()


def _is_false(found: Sequence[Tested]) -> bool:
    return any(not each.is_true and each.p_family < LEVEL for each in found)


def _power(found: Sequence[Tested], kind: str) -> tuple[int, int, int]:
    """Count the true claims of a kind, those that are claimed, and those that were claimed before."""
    true = [each for each in found if each.kind == kind and each.is_true]
    return len(true), sum(each.p_family < LEVEL for each in true), sum(each.p_before < LEVEL for each in true)


def simulated(study: Study, studies: int) -> dict[str, object]:
    """Simulate a design: the share of studies with a false claim, its standard error, and the power."""
    row: dict[str, object] = {name: value for name, value in study._asdict().items() if name != "affected"}
    rng = np.random.default_rng([studies, *(int(100 * value) for value in study)])
    found = [tested(study, rng) for _ in range(studies)]
    share = sum(map(_is_false, found)) / studies
    row |= {"studies": studies, "false_claims": round(share, 4)}
    row["error"] = round((share * (1 - share) / studies) ** 0.5, 4)
    for kind in ("gain", "loss", "timing"):
        true, claimed, before = (sum(column) for column in zip(*(_power(each, kind) for each in found), strict=True))
        row[f"{kind}_power"] = round(claimed / true, 3) if true else None
        row[f"{kind}_power_before"] = round(before / true, 3) if true else None
    return row


def section() -> tuple[str, str]:
    """Return the heading of the table and the text above it."""
    return "Sentences", (
        "`false_claims` is the share of studies in which `findings` claims anything false in any of its sentences (at "
        "most 0.05). `..._power` is the share of true gains, losses and timings that it claims. `..._power_before` is "
        "this share with Holm's correction within each question: over the agents, or over the times of a dimension. "
        "`python -m tests.coverage.families` prints the table. Each cell has 3 trials, and 0 variants means 1 to 7."
    )


def is_above(row: Mapping[str, object]) -> bool:
    """Return whether a share of false claims is above the level by over 2 standard errors."""
    return float(str(row["false_claims"])) > LEVEL + 2 * (LEVEL * (1 - LEVEL) / int(str(row["studies"]))) ** 0.5


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the share of every design. Return exit code 1 if one is above the level by over 2 standard errors."""
    parser = argparse.ArgumentParser(prog="python -m tests.coverage.families", description=__doc__)
    parser.add_argument("--studies", type=int, default=1_000, metavar="N", help="of each design (default: 1000)")
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write the table into this page")
    parser.add_argument(
        "--designs",
        type=int,
        nargs="+",
        metavar="N",
        help="rows of the table from 1 on (default: all); the page keeps the others",
    )
    options = parser.parse_args(arguments)
    designs, rows = (*NULL, *EFFECTS), {}
    for number in options.designs or range(1, len(designs) + 1):
        study = designs[number - 1]
        rows[number] = simulated(study, options.studies if study in NULL else -(-options.studies // 2))
        say(f"{number}: {rows[number]}")
    print_rows(list(rows.values()), tuple(next(iter(rows.values()))), "table")
    if options.page is not None:
        write_rows(options.page, rows)
    return int(any(map(is_above, rows.values())))


def write_rows(path: Path, rows: Mapping[int, Mapping[str, object]]) -> None:
    """Put rows into the table of the page, by their number from 1 on, and keep the others."""
    columns = tuple(next(iter(rows.values())))
    kept = read_section(path, section()[0])
    merged = [rows.get(number) or kept[number - 1] for number in range(1, 1 + len(NULL) + len(EFFECTS))]
    write_section(path, *section(), [{name: row.get(name) for name in columns} for row in merged])


if __name__ == "__main__":
    sys.exit(main())
