"""Simulated studies of tasks, by kind of estimand, each judged against its known truth.

The studies are drawn here. Nothing of the engine that is judged (:mod:`statistics.inference`) is used to draw
them or to know the truth. A task has its own rate of success, from a beta distribution with the mean p and the
intraclass correlation; variants and agents of the task draw their trials from it, or all variants of an agent copy one
value, as they do under ``full``. Every study is a sample of new tasks.
"""

import math
from collections.abc import Callable
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lhaw_record.analytics.statistics.agreement import f1, rank_correlation, weighted_kappa
from lhaw_record.analytics.statistics.effects import Trial, effect_rows
from lhaw_record.analytics.statistics.inference import Estimate, InferenceSettings, Units, contrast, estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

SETTINGS = InferenceSettings(draws=1_000, permutations=1_000)
"""Fewer draws than the tables take, which makes every interval slightly worse."""

_MENDED = 0.4
"""The share of the failures that succeed with an answer."""

_RARE = 0.1
_RARE_GAIN = 0.8
"""Where few tasks gain much and the others lose as much together: the share of the few, and their gain."""

_TIMINGS = 5
_TRIALS = 3


SIZES = {0: "1 to 7", -1: "half in one task"}
"""What numbers of variants that are none mean."""


class Design(NamedTuple):
    """One cell of the grid.

    ``variants`` is 1, 7, 0 for one to seven of each task, or -1 for one task that has half of them. ``mean`` is p.
    """

    kind: str
    tasks: int
    variants: int
    correlation: float
    agents: int
    is_copied: bool
    mean: float


class Kind(NamedTuple):
    """What is estimated, how a study of it is judged, and for which designs.

    ``judge`` draws and estimates one study; it returns whether it is a hit, or None without an interval or with a
    doubt beside it. A kind that is
    not ``is_promised`` shows where a method ends.
    """

    title: str
    method: str
    judge: "Callable[[Design, Generator], bool | None]"
    tasks: tuple[int, ...]
    means: tuple[float, ...]
    variants: tuple[int, ...] = (7, 1, 0)
    is_test: bool = False
    has_agents: bool = False
    has_copies: bool = False
    is_promised: bool = True


def _sizes(design: Design, rng: "Generator", tasks: int | None = None) -> "NDArray[np.int64]":
    """Return the task of every (variant, agent), each variant's agents one after the other."""
    import numpy as np

    count = tasks or design.tasks
    sizes = rng.integers(1, 8, count) if design.variants == 0 else np.full(count, abs(design.variants))
    if design.variants < 0:
        sizes[0] = count - 1
    return np.repeat(np.arange(count), sizes * design.agents)


def _rates(design: Design, rng: "Generator", tasks: int | None = None) -> "Floats":
    import numpy as np

    count = tasks or design.tasks
    if design.correlation == 0:
        return np.full(count, design.mean)
    weight = (1 - design.correlation) / design.correlation
    return rng.beta(design.mean * weight, (1 - design.mean) * weight, count)


def _shares(
    design: Design, rng: "Generator", rates: "Floats", members: "NDArray[np.int64]", trials: int = 1
) -> "Floats":
    """Draw the value of every unit, the share of its trials that succeed."""
    import numpy as np

    if design.is_copied:
        own = rng.binomial(trials, rates[:, None], size=(len(rates), design.agents)) / trials
        return own[members, np.arange(len(members)) % design.agents]
    return rng.binomial(trials, rates[members]) / trials


def _estimated(kind: str, values: "Floats", members: "NDArray[np.int64]") -> Estimate:
    import numpy as np

    return estimate(kind, Units(values, np.ones(len(values)), members), SETTINGS)


def _holds(found: Estimate, truth: float) -> bool | None:
    if found.low is None or found.high is None or found.reason is not None:
        return None
    return found.low - 1e-6 <= truth <= found.high + 1e-6


def _level(design: Design, rng: "Generator", trials: int) -> bool | None:
    members = _sizes(design, rng)
    return _holds(_estimated("level", _shares(design, rng, _rates(design, rng), members, trials), members), design.mean)


def _uneven_level(design: Design, rng: "Generator") -> bool | None:
    members = _sizes(design, rng)
    found = _estimated("level", _shares(design, rng, _rates(design, rng), members), members)
    return _holds(found._replace(reason=None), design.mean)  # every row carries the doubt, and holds all the same


def _gain(design: Design, rng: "Generator", mended: float) -> bool | None:
    members, rates = _sizes(design, rng), _rates(design, rng)
    gains = _shares(design, rng, rates + mended * (1 - rates), members) - _shares(design, rng, rates, members)
    found = _estimated("gain", gains, members)
    if mended:
        return _holds(found, mended * (1 - design.mean))
    return found.p_value is not None and found.p_value < 0.05


def _rare_gain(design: Design, rng: "Generator") -> bool:
    """A tenth of the tasks gain much, the others lose a little, and the mean gain is 0: gains are not symmetric."""
    members, rates = _sizes(design, rng), _rates(design, rng)
    gains = rng.random(design.tasks) < _RARE
    loss = _RARE * _RARE_GAIN / (1 - _RARE)
    before = (1 - _RARE_GAIN) * rates * gains + (loss + (1 - loss) * rates) * ~gains
    after = before + _RARE_GAIN * gains - loss * ~gains
    values = _shares(design, rng, after, members, _TRIALS) - _shares(design, rng, before, members, _TRIALS)
    found = _estimated("gain", values, members)
    return found.p_value is not None and found.p_value < 0.05


def _gain_of_few(design: Design, rng: "Generator") -> bool | None:
    """A tenth of the tasks have all of the effect, of nearly 1; the others never succeed."""
    members, gains = _sizes(design, rng), rng.random(design.tasks) < _RARE
    values = _shares(design, rng, design.mean * gains, members, _TRIALS)
    return _holds(_estimated("gain", values, members), _RARE * design.mean)


def _loss(design: Design, rng: "Generator", lost: float) -> bool | None:
    """The variants of a task share an agent's value under the full prompt, of as many trials as each has itself."""
    members, rates = _sizes(design, rng), _rates(design, rng)
    complete = _shares(design._replace(is_copied=True), rng, rates, members, _TRIALS)
    found = _estimated("loss", complete - _shares(design, rng, rates * (1 - lost), members, _TRIALS), members)
    if lost:
        return _holds(found, lost * design.mean)
    return found.p_value is not None and found.p_value < 0.05


def _contrast(design: Design, rng: "Generator", mended: float, *, is_uneven: bool = False) -> bool | None:
    """Two arms of different tasks, two fifths of them in the first, which is the better one.

    If they are uneven, the first has a seventh of the tasks, and only there do tasks differ.
    """
    import numpy as np

    arms = []
    first = design.tasks // 7 if is_uneven else max(2, 2 * design.tasks // 5)
    other = design._replace(correlation=0.0) if is_uneven else design
    for drawn, tasks, share in ((design, first, mended), (other, design.tasks - first, 0.0)):
        members, rates = _sizes(drawn, rng, tasks), _rates(drawn, rng, tasks)
        values = _shares(drawn, rng, rates + share * (1 - rates), members)
        arms.append(Units(values, np.ones(len(values)), members))
    found = contrast("level", arms[0], arms[1], SETTINGS)
    if mended:
        return _holds(found, mended * (1 - design.mean))
    return found.p_value is not None and found.p_value < 0.05


def _amount_contrast(design: Design, rng: "Generator", *, is_uneven: bool = False) -> bool | None:
    """Questions per trial in two arms of different tasks, each task with a number of its own, mean p.

    The first arm has two fifths of the tasks and twice as many questions. If the arms are uneven, the first has a
    seventh of the tasks, only there do tasks differ, and both means are p.
    """
    import numpy as np

    arms = []
    first = design.tasks // 7 if is_uneven else 2 * design.tasks // 5
    for tasks, times, spread in (
        (first, 1 if is_uneven else 2, design.correlation),
        (design.tasks - first, 1, 0.0 if is_uneven else design.correlation),
    ):
        members, mean = _sizes(design, rng, tasks), times * design.mean
        often = mean * rng.gamma(1 / spread, spread, tasks) if spread else np.full(tasks, mean)
        values = rng.poisson(_TRIALS * often[members]) / _TRIALS
        arms.append(Units(values, np.ones(len(values)), members))
    found = contrast("amount", arms[0], arms[1], SETTINGS)
    if is_uneven:
        return None if found.p_value is None else found.p_value < 0.05
    return _holds(found, design.mean)


def _ratio(design: Design, rng: "Generator") -> bool | None:
    """Questions per asking trial: a task has its own chance of being asked about and its own number of questions."""
    import numpy as np

    members = _sizes(design, rng)
    asking = rng.binomial(_TRIALS, _rates(design, rng)[members])
    spread = design.correlation
    often = rng.gamma(1 / spread, spread, design.tasks) if spread else np.ones(design.tasks)
    questions = asking + rng.poisson(asking * often[members])
    if not asking.any():
        return None
    return _holds(estimate("ratio", Units(questions.astype(float), asking.astype(float), members), SETTINGS), 2.0)


def _median(design: Design, rng: "Generator") -> bool | None:
    """A skewed time of the first question, with a part of its task."""
    import numpy as np

    members = _sizes(design, rng)
    shared = rng.standard_normal(design.tasks)[members]
    own = rng.standard_normal(len(members))
    values = np.exp(design.correlation**0.5 * shared + (1 - design.correlation) ** 0.5 * own)
    return _holds(_estimated("median", values, members), 1.0)


def _tau(design: Design, rng: "Generator") -> bool | None:
    """Two agents over the five timings of each variant; where one succeeds more often, so does the other."""
    import numpy as np

    members = np.repeat(_sizes(design, rng), _TIMINGS)
    rates = _rates(design, rng)
    one, other = (rng.binomial(_TRIALS, chance[members]) / _TRIALS for chance in (rates, _easier(rates)))
    return _holds(rank_correlation(one, other, members, SETTINGS), _true_tau(design.mean, design.correlation))


def _easier(rates: "Floats") -> "Floats":
    return rates + 0.3 * (1 - rates)


@cache
def _true_tau(mean: float, correlation: float) -> float:
    """Compute tau-b of two cells of different tasks, from the joint chances of both agents' values."""
    import numpy as np
    from scipy.stats import beta, binom

    if correlation == 0:
        rates, weights = np.array([mean]), np.array([1.0])
    else:
        weight = (1 - correlation) / correlation
        places = (np.arange(20_000) + 0.5) / 20_000
        rates = beta.ppf(places, mean * weight, (1 - mean) * weight)
        weights = np.full(len(rates), 1 / len(rates))
    values = np.arange(_TRIALS + 1)[:, None]
    table = np.einsum(
        "ir,jr,r->ij", binom.pmf(values, _TRIALS, rates), binom.pmf(values, _TRIALS, _easier(rates)), weights
    )
    sign = np.sign(np.subtract.outer(np.arange(_TRIALS + 1), np.arange(_TRIALS + 1)))
    agreeing = float(np.einsum("ij,kl,ik,jl->", table, table, sign, sign))
    tied = [1 - float(np.sum(table.sum(axis=axis) ** 2)) for axis in (0, 1)]
    return agreeing / math.sqrt(tied[0] * tied[1])


def _pooled(design: Design, rng: "Generator") -> bool | None:
    """Three agents that met some of the variants each: the mean of agents within a task, then over tasks."""
    import numpy as np

    members = np.repeat(_sizes(design, rng), 3)
    agents = np.arange(len(members)) % 3
    met = rng.random(len(members)) < 0.7
    members, agents = members[met], agents[met]
    if not len(members):
        return None
    values = rng.binomial(_TRIALS, _rates(design, rng)[members]) / _TRIALS
    units = np.bincount(3 * members + agents, minlength=3 * design.tasks)
    present = (units.reshape(-1, 3) > 0).sum(axis=1)
    weights = 1 / (units[3 * members + agents] * present[members])
    return _holds(estimate("level", Units(weights * values, weights, members), SETTINGS), design.mean)


def _precision(design: Design, rng: "Generator") -> bool | None:
    """Questions that target a segment, of all: trials differ in how many they ask."""
    members = _sizes(design, rng)
    asked = 1 + rng.poisson(_numbers(design, rng)[members])
    hits = rng.binomial(asked, _rates(design, rng)[members])
    return _holds(estimate("level", Units(hits.astype(float), asked.astype(float), members), SETTINGS), design.mean)


def _decay(design: Design, rng: "Generator") -> bool | None:
    """A difference of two gains, (v10 - v50) - (v50 - v90), where 60, 40 and 10 % of the failures are mended."""
    members, rates = _sizes(design, rng), _rates(design, rng)
    early, middle, late = (_shares(design, rng, rates + m * (1 - rates), members, _TRIALS) for m in (0.6, 0.4, 0.1))
    return _holds(_estimated("double_gain", early - 2 * middle + late, members), -0.1 * (1 - design.mean))


def _asked_gain(design: Design, rng: "Generator") -> "tuple[Floats, Floats, NDArray[np.int64]]":
    """Draw gains in points and questions per trial, mean 1, of variants; a task has its own rate of asking."""
    members, rates = _sizes(design, rng), _rates(design, rng)
    asking = rng.binomial(_TRIALS, _rates(design._replace(mean=0.5), rng)[members])
    questions = (asking + rng.poisson(asking * _numbers(design, rng)[members])) / _TRIALS
    answered = _shares(design, rng, rates + _MENDED * (1 - rates), members, _TRIALS)
    return 100 * (answered - _shares(design, rng, rates, members, _TRIALS)), questions, members


def _net_value(design: Design, rng: "Generator") -> bool | None:
    gains, questions, members = _asked_gain(design, rng)
    truth = 100 * _MENDED * (1 - design.mean) - 5
    return _holds(_estimated("free_gain", gains - 5 * questions, members), truth)


def _per_question(design: Design, rng: "Generator") -> bool | None:
    gains, questions, members = _asked_gain(design, rng)
    if not questions.any():
        return None
    truth = 100 * _MENDED * (1 - design.mean)
    return _holds(estimate("ratio", Units(gains, questions, members), SETTINGS), truth)


def _amount(design: Design, rng: "Generator", absent: float = 0.0) -> bool | None:
    """A cost per trial, log-normal: its logarithm has the standard deviation p. A share of the trials has none."""
    import numpy as np

    members, part = _sizes(design, rng), design.correlation
    shared, own = rng.standard_normal(design.tasks)[members], rng.standard_normal(len(members))
    values = np.exp(design.mean * (part**0.5 * shared + (1 - part) ** 0.5 * own))
    values *= rng.random(len(members)) >= absent
    return _holds(_estimated("amount", values, members), (1 - absent) * math.exp(design.mean**2 / 2))


def _no_timing(design: Design, rng: "Generator") -> bool | None:
    """Five timings that share their baseline and change nothing: Holm finds one of them."""
    members, rates = _sizes(design, rng), _rates(design, rng)
    base = _shares(design, rng, rates, members, _TRIALS)
    gains = (_shares(design, rng, rates, members, _TRIALS) - base for _ in range(_TIMINGS))
    greater = [_estimated("gain", each, members).p_greater for each in gains]
    return min(1.0 if each is None else each for each in greater) * _TIMINGS < 0.05  # Holm's first step


def _kappa(design: Design, rng: "Generator") -> bool | None:
    """Two graders give the true score, 0, 0.5 or 1, in 80 % of the claims, else that of a claim of any task."""
    import numpy as np

    members = np.repeat(_sizes(design, rng), 4)
    true = rng.binomial(2, _rates(design, rng)[members]) / 2
    one, other = (
        np.where(rng.random(len(members)) < 0.8, true, rng.binomial(2, _rates(design, rng, len(members))) / 2)
        for _ in range(2)
    )
    return _holds(weighted_kappa(one, other, members, SETTINGS), 0.8**2)


def _f1(design: Design, rng: "Generator") -> bool | None:
    """Precision p over the questions of trials, recall (1 + p) / 2 over their two segments, from one rate."""
    import numpy as np

    members, rates = _sizes(design, rng), _rates(design, rng)
    asked = 1.0 + rng.poisson(_numbers(design, rng)[members])
    hits = rng.binomial(asked.astype(int), rates[members]).astype(float)
    found = rng.binomial(2, (1 + rates[members]) / 2).astype(float)
    recall = (1 + design.mean) / 2
    estimated = f1(
        Units(hits, np.asarray(asked, dtype=np.float64), members),
        Units(found, np.full(len(found), 2.0), members),
        SETTINGS,
    )
    return _holds(estimated, 2 * design.mean * recall / (design.mean + recall))


def _no_tau(design: Design, rng: "Generator") -> bool | None:
    """Two agents with rates of their own in every task."""
    import numpy as np

    members = np.repeat(_sizes(design, rng), _TIMINGS)
    one, other = (rng.binomial(_TRIALS, _rates(design, rng)[members]) / _TRIALS for _ in range(2))
    found = rank_correlation(one, other, members, SETTINGS)
    return None if found.p_value is None else found.p_value < 0.05


def _effect(design: Design, rng: "Generator", mended: float) -> bool | None:
    """The log odds ratio of ask_user in one dimension; every second variant of a task belongs to another one."""
    row = _effect_rows(design, rng, mended, by_task=False).get(("goal", "ask_user"), {})
    if mended:
        asked = design.mean + mended * (1 - design.mean)
        truth = math.log(asked / (1 - asked)) - math.log(design.mean / (1 - design.mean))
        return None if row.get("low") is None else row["low"] <= truth <= row["high"]
    return None if row.get("p_value") is None else row["p_value"] < 0.05


def _same_effect(design: Design, rng: "Generator") -> bool | None:
    """The chi-squared of one effect for all dimensions, which is true; the first variants of tasks alternate."""
    row = _effect_rows(design, rng, _MENDED, by_task=True)["all", "ask_user"]
    return None if row.get("p_value") is None else row["p_value"] < 0.05


def _effect_rows(
    design: Design, rng: "Generator", mended: float, *, by_task: bool
) -> dict[tuple[str, str], dict[str, Any]]:
    members, rates = _sizes(design, rng), _rates(design, rng)
    arms = {
        name: rng.binomial(_TRIALS, (rates + share * (1 - rates))[members])
        for name, share in (("underspecified", 0.0), ("ask_user", mended))
    }
    places: dict[int, int] = {}
    trials = []
    for variant, task in enumerate(members.tolist()):
        place = places[task] = places.get(task, task if by_task else -1) + 1
        for name, counts in arms.items():
            cell = (("goal", "input")[place % 2], name)
            trials += [Trial(cell, str(variant), str(task), index < counts[variant]) for index in range(_TRIALS)]
    rows = effect_rows(trials, {trial.cell: (0, 0) for trial in trials}, SETTINGS)
    return {(row["dimension"], row["condition"]): row for row in rows}


def _numbers(design: Design, rng: "Generator") -> "Floats":
    """Draw a task's mean number of further questions, mean 1."""
    import numpy as np

    spread = design.correlation
    return rng.gamma(1 / spread, spread, design.tasks) if spread else np.ones(design.tasks)


_FEW, _TESTED, _OF_RATIOS = (5, 8, 13, 30, 100), (6, 8, 13, 30, 100), (7, 8, 13, 30, 100)
KINDS: dict[str, Kind] = {
    "level": Kind(
        title="Levels: values 0 and 1",
        method="wilson_effective",
        judge=partial(_level, trials=1),
        tasks=_FEW,
        means=(0.05, 0.2, 0.5),
        has_agents=True,
        has_copies=True,
    ),
    "share": Kind(
        title="Levels: shares of three trials",
        method="wilson_effective",
        judge=partial(_level, trials=_TRIALS),
        tasks=_FEW,
        means=(0.05, 0.5),
        has_agents=True,
        has_copies=True,
    ),
    "gain": Kind(
        title="Gains: an answer mends 40 % of the failures",
        method="sign_flips",
        judge=partial(_gain, mended=_MENDED),
        tasks=_TESTED,
        means=(0.05, 0.5, 0.95),
        has_agents=True,
    ),
    "no_gain": Kind(
        title="Gains of nothing",
        method="sign_flips",
        judge=partial(_gain, mended=0.0),
        tasks=_TESTED,
        means=(0.05, 0.5),
        is_test=True,
        has_agents=True,
    ),
    "loss": Kind(
        title="Losses: 40 % of the successes, beside a full prompt that variants share",
        method="sign_flips",
        judge=partial(_loss, lost=_MENDED),
        tasks=_TESTED,
        means=(0.05, 0.5, 0.95),
        has_agents=True,
    ),
    "no_loss": Kind(
        title="Losses of nothing",
        method="sign_flips",
        judge=partial(_loss, lost=0.0),
        tasks=_TESTED,
        means=(0.05, 0.5, 0.95),
        is_test=True,
        has_agents=True,
    ),
    "contrast": Kind(
        title="Contrasts: two arms of different tasks; in one, answers mend 40 % of the failures",
        method="permutation",
        judge=partial(_contrast, mended=_MENDED),
        tasks=_TESTED[2:],
        means=(0.05, 0.5, 0.95),
        variants=(1, 0),
    ),
    "no_contrast": Kind(
        title="Contrasts of nothing",
        method="permutation",
        judge=partial(_contrast, mended=0.0),
        tasks=_TESTED[1:],
        means=(0.05, 0.5),
        variants=(1, 0),
        is_test=True,
    ),
    "amount_contrast": Kind(
        title="Contrasts of amounts: questions per trial, twice as many in one arm",
        method="permutation",
        judge=_amount_contrast,
        tasks=(20, 30, 100),
        means=(0.2, 0.5),
        variants=(1, 0),
    ),
    "ratio": Kind(
        title="Ratios: questions per asking trial",
        method="bootstrap_t",
        judge=_ratio,
        tasks=_OF_RATIOS,
        means=(0.2, 0.5),
    ),
    "median": Kind(
        title="Medians: a skewed time",
        method="expanded_percentile",
        judge=_median,
        tasks=_TESTED[1:],
        means=(0.5,),
    ),
    "tau": Kind(
        title="Kendall's tau of two agents, five timings of each variant",
        method="expanded_percentile",
        judge=_tau,
        tasks=(15, 30, 100),
        means=(0.2, 0.5),
        variants=(1, 0),
    ),
    "pooled": Kind(
        title="Levels: agents within tasks, each on some of the variants",
        method="wilson_effective",
        judge=_pooled,
        tasks=_FEW,
        means=(0.05, 0.5),
        variants=(1, 0),
    ),
    "precision": Kind(
        title="Levels: questions that target a segment, of all",
        method="wilson_effective",
        judge=_precision,
        tasks=_FEW,
        means=(0.05, 0.5),
        variants=(1, 0),
    ),
    "decay": Kind(
        title="Differences of two gains",
        method="sign_flips",
        judge=_decay,
        tasks=_TESTED,
        means=(0.05, 0.5, 0.95),
        variants=(1, 0),
    ),
    "net_value": Kind(
        title="Unbounded gains: net value at 5 points per question",
        method="sign_flips",
        judge=_net_value,
        tasks=_TESTED,
        means=(0.2, 0.5),
        variants=(1, 0),
    ),
    "no_timing": Kind(
        title="Five timings that change nothing, one-sided, by Holm",
        method="sign_flips",
        judge=_no_timing,
        tasks=_TESTED,
        means=(0.05, 0.5),
        variants=(1, 0),
        is_test=True,
    ),
    "per_question": Kind(
        title="Ratios: gain per question, break-even cost",
        method="bootstrap_t",
        judge=_per_question,
        tasks=_OF_RATIOS,
        means=(0.2, 0.5),
        variants=(1, 0),
    ),
    "amount": Kind(
        title="Amounts: a log-normal cost per trial, p its standard deviation",
        method="bootstrap_t",
        judge=_amount,
        tasks=_OF_RATIOS,
        means=(0.5, 1.0),
        variants=(1, 0),
    ),
    "kappa": Kind(
        title="Weighted kappa of two graders, four claims of each variant",
        method="expanded_percentile",
        judge=_kappa,
        tasks=_TESTED[1:],
        means=(0.2, 0.5),
        variants=(1, 0),
    ),
    "f1": Kind(
        title="F1 of precision and recall",
        method="expanded_percentile",
        judge=_f1,
        tasks=_TESTED[1:],
        means=(0.2, 0.5),
        variants=(1, 0),
    ),
    "no_tau": Kind(
        title="Kendall's tau of two agents that have nothing in common",
        method="expanded_percentile",
        judge=_no_tau,
        tasks=(15, 30, 100),
        means=(0.2, 0.5),
        variants=(1, 0),
        is_test=True,
    ),
    "effect": Kind(
        title="Effects: log odds ratios",
        method="gee",
        judge=partial(_effect, mended=_MENDED),
        tasks=(8, 30),
        means=(0.2,),
        variants=(1, 0),
    ),
    "no_effect": Kind(
        title="Effects of nothing",
        method="gee",
        judge=partial(_effect, mended=0.0),
        tasks=(8, 30),
        means=(0.2,),
        variants=(1, 0),
        is_test=True,
    ),
    "same_effect": Kind(
        title="One effect in two dimensions: its chi-squared",
        method="gee",
        judge=_same_effect,
        tasks=(13, 30),
        means=(0.2,),
        variants=(1, 0),
        is_test=True,
    ),
    "uneven_contrast": Kind(
        title="Contrasts of nothing: a seventh of the tasks, which differ, beside tasks that are alike",
        method="permutation",
        judge=partial(_contrast, mended=0.0, is_uneven=True),
        tasks=(35, 100),
        means=(0.05, 0.1, 0.5),
        variants=(7, 1),
        is_test=True,
    ),
    "uneven_amounts": Kind(
        title="Contrasts of nothing in amounts: a seventh of the tasks, which differ, beside tasks that are alike",
        method="permutation",
        judge=partial(_amount_contrast, is_uneven=True),
        tasks=(50, 100),
        means=(0.2, 0.5),
        variants=(7, 1),
        is_test=True,
    ),
    "rare_gain": Kind(
        title="Gains of mean 0: a tenth of the tasks gain 0.8 each, the others lose as much together",
        method="sign_flips",
        judge=_rare_gain,
        tasks=_TESTED,
        means=(0.5,),
        is_test=True,
        is_promised=False,
    ),
    "uneven_level": Kind(
        title="Levels: one task has half of the variants",
        method="wilson_effective",
        judge=_uneven_level,
        tasks=(6, 13, 30),
        means=(0.05, 0.2, 0.5),
        variants=(-1,),
        has_copies=True,
    ),
    "gain_of_few": Kind(
        title="Gains: a tenth of the tasks have all of the effect",
        method="sign_flips",
        judge=_gain_of_few,
        tasks=(*_TESTED, 40, 60),
        means=(0.5, 0.95),
        variants=(1, 0),
    ),
    "heavy_amount": Kind(
        title="Amounts with heavy tails: half are 0, the others log-normal",
        method="bootstrap_t",
        judge=partial(_amount, absent=0.5),
        tasks=_OF_RATIOS,
        means=(1.0, 1.5),
        variants=(1, 7),
    ),
    "few_ask": Kind(
        title="Ratios: questions per asking trial, of which there are few",
        method="bootstrap_t",
        judge=_ratio,
        tasks=_OF_RATIOS,
        means=(0.1,),
    ),
}
