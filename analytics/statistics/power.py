"""Power by simulation: how often the real test would detect an effect, by tasks x variants x trials.

Whole studies are simulated and tested with the engine that the tables use (:mod:`statistics.inference`). The
tasks of a study are new draws, because the test generalizes over tasks: more trials do not compensate for few tasks.

On the log odds scale, each task has a level (standard deviation ``spread`` between tasks) and a gain from asking
(``gain_spread`` between tasks); its variants share both. Two agents share the levels, and their gains are independent.
The loss of a task is larger where its gain is. With a pilot these are estimated from its tasks, corrected for
the noise of its trials; without one they are assumed.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lhaw_record.analytics.statistics.inference import InferenceSettings, SharedArm, Units, estimate

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

_NODES = 24
_SEED = 20260210


class SuccessRates(NamedTuple):
    """Assumptions about success: its mean without asking, the mean gain, and the spread of both between tasks.

    ``other_gain`` is the mean gain of the agent that another one leads, ``loss`` what the full prompt is better by.
    """

    base: float
    gain: float
    spread: float = 1.5
    gain_spread: float = 0.7
    other_gain: float = 0.0
    loss: float = 0.3


class Effect(NamedTuple):
    """What a study is to show: its kind of estimand, its conditions, and the rate that nothing else needs.

    ``variant_arms`` have trials of every variant; ``task_arms``, of ``full``, have trials that a task's variants share.
    """

    kind: str
    conditions: tuple[str, ...]
    variant_arms: int
    task_arms: int = 0
    own_rate: str | None = None


EFFECTS = {
    "gain": Effect("gain", ("underspecified", "ask_user"), 2),
    "loss": Effect("loss", ("full", "underspecified"), 1, 1),
    "lead": Effect("double_gain", ("underspecified", "ask_user"), 4, own_rate="other_gain"),
    "recovered": Effect("recovered", ("full", "underspecified", "ask_user"), 2, 1, "loss"),
}


class StudyDesign(NamedTuple):
    """The size of a study: tasks, variants per task, and trials per variant in each arm; and what it is to show."""

    tasks: int
    variants: int
    trials: int
    of: str = "gain"

    @property
    def total(self) -> int:
        """The number of trials of all arms."""
        effect = EFFECTS[self.of]
        return self.tasks * self.trials * (self.variants * effect.variant_arms + effect.task_arms)


class PilotUnit(NamedTuple):
    """One variant in an agent's pilot: its task, and successes and trials without and with asking."""

    agent: str
    task: str
    base_successes: int
    base_trials: int
    asked_successes: int
    asked_trials: int


def rates_of(units: Sequence[PilotUnit]) -> SuccessRates:
    """Estimate the rates from a pilot, with equal weight for each agent and for each task of an agent.

    The spreads reproduce the observed variance between the tasks of an agent beyond the noise of the trials. They
    exclude differences between agents, because a study tests one agent, or its agents within tasks.
    """
    agents: dict[str, dict[str, list[PilotUnit]]] = {}
    for unit in units:
        agents.setdefault(unit.agent, {}).setdefault(unit.task, []).append(unit)
    found = [_moments(list(tasks.values())) for tasks in agents.values()]
    base, gain = (sum(each[place] for each in found) / len(found) for place in (0, 1))
    varied = [each for each in found if not math.isnan(each[2])]
    if not varied:
        return SuccessRates(base, gain)
    wanted = [sum(each[place] for each in varied) / len(varied) for place in (2, 3)]
    rates = SuccessRates(base, gain, 0.0, 0.0)
    for place, name in enumerate(("spread", "gain_spread")):
        variance = partial(_variance_at, rates, name, place)
        rates = rates._replace(**{name: _bisected(variance, wanted[place], 0.0, 6.0, 40)})
    return rates


def _moments(tasks: Sequence[Sequence[PilotUnit]]) -> tuple[float, float, float, float]:
    """Return an agent's success without asking, its gain, and the variance of both between tasks (NaN with one task).

    The noise of the trials is subtracted from the variances.
    """
    import numpy as np

    base, gain, base_noise, gain_noise = (np.empty(len(tasks)) for _ in range(4))
    for place, members in enumerate(tasks):
        below, above = (
            _share(sum(successes for successes, _ in arm), sum(trials for _, trials in arm))
            for arm in (
                [(unit.base_successes, unit.base_trials) for unit in members],
                [(unit.asked_successes, unit.asked_trials) for unit in members],
            )
        )
        base[place], gain[place] = below[0], above[0] - below[0]
        base_noise[place], gain_noise[place] = below[1], below[1] + above[1]
    if len(tasks) < 2:
        return float(base.mean()), float(gain.mean()), math.nan, math.nan
    varied = float(base.var(ddof=1) - base_noise.mean()), float(gain.var(ddof=1) - gain_noise.mean())
    return float(base.mean()), float(gain.mean()), *varied


def power(
    rates: SuccessRates, design: StudyDesign, *, level: float, studies: int, above: float = 0.0, seed: int = _SEED
) -> float:
    """Simulate studies and return the share that detects the effect at a two-sided level.

    A recovered share is detected if Fieller's set has bounds and lies above ``above``; any other effect if it is above
    0 and its test says so.
    """
    settings = InferenceSettings(confidence=1 - level)
    seen = 0
    for units in _studies(rates, design, studies, seed):
        found = estimate(EFFECTS[design.of].kind, units, settings)
        if design.of == "recovered":
            seen += found.low is not None and found.low > above
        else:
            seen += found.p_value is not None and found.p_value < level and (found.value or 0) > 0
    return seen / studies


def _studies(rates: SuccessRates, design: StudyDesign, studies: int, seed: int) -> Iterator[Units]:
    """Yield the units of the estimand, one for each variant."""
    import numpy as np

    rng = np.random.default_rng([seed, *design[:3]])
    low, shift = _intercepts(rates)
    other_shift, full_shift = (_intercepts(rates._replace(gain=gain))[1] for gain in (rates.other_gain, rates.loss))
    clusters = np.repeat(np.arange(design.tasks), design.variants)
    ones, counts = np.ones(len(clusters)), np.full(len(clusters), float(design.trials))

    def drawn(odds: "Floats") -> "Floats":
        shares: Floats = rng.binomial(design.trials, 1 / (1 + _exp(-odds))) / design.trials
        return shares

    for _ in range(studies):
        level = low + rates.spread * rng.standard_normal(design.tasks)
        effect = rates.gain_spread * rng.standard_normal(design.tasks)
        gained = level + shift + effect
        if design.of == "loss":
            full, under = drawn(gained)[clusters], drawn(level[clusters])
            yield Units(full - under, ones, clusters, SharedArm(full, counts, counts))
            continue
        asked, under = drawn(gained[clusters]), drawn(level[clusters])
        gain, below = asked - under, ones
        if design.of == "lead":
            other = level + other_shift + rates.gain_spread * rng.standard_normal(design.tasks)
            gain = gain - (drawn(other[clusters]) - drawn(level[clusters]))
        elif design.of == "recovered":
            below = drawn(level + full_shift + effect)[clusters] - under
        yield Units(gain, below, clusters)


def _share(successes: int, trials: int) -> tuple[float, float]:
    """Return a share and the unbiased variance of its noise, which is unknown for a single trial."""
    share = successes / trials
    return share, share * (1 - share) / max(1, trials - 1)


def _intercepts(rates: SuccessRates) -> tuple[float, float]:
    """Return the log odds and the gain of a median task for which the means over tasks match the rates."""
    low = _odds_for(_inside(rates.base), rates.spread)
    return low, _odds_for(_inside(rates.base + rates.gain), math.hypot(rates.spread, rates.gain_spread)) - low


def _inside(share: float) -> float:
    return min(0.995, max(0.005, share))


def _odds_for(share: float, spread: float) -> float:
    nodes, weights = _normal()
    return _bisected(lambda odds: float(weights @ (1 / (1 + _exp(-(odds + spread * nodes))))), share, -40.0, 40.0, 60)


def _variance_at(rates: SuccessRates, name: str, place: int, spread: float) -> float:
    return _variances(rates._replace(**{name: spread}))[place]


def _variances(rates: SuccessRates) -> tuple[float, float]:
    """Return the variance between tasks of the success without asking, and of the gain."""
    nodes, weights = _normal()
    low, shift = _intercepts(rates)
    level = low + rates.spread * nodes[:, None]
    without = 1 / (1 + _exp(-level))
    gain = 1 / (1 + _exp(-(level + shift + rates.gain_spread * nodes[None, :]))) - without
    joint = weights[:, None] * weights[None, :]
    mean, mean_gain = float(weights @ without[:, 0]), float((joint * gain).sum())
    return float(weights @ (without[:, 0] - mean) ** 2), float((joint * (gain - mean_gain) ** 2).sum())


def _bisected(function: Callable[[float], float], wanted: float, low: float, high: float, steps: int) -> float:
    """Return the argument at which an increasing function has the wanted value."""
    for _ in range(steps):
        middle = (low + high) / 2
        if function(middle) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _normal() -> tuple["Floats", "Floats"]:
    import numpy as np

    nodes, weights = np.polynomial.hermite_e.hermegauss(_NODES)
    return nodes, weights / weights.sum()


def _exp(values: "Floats") -> "Floats":
    import numpy as np

    found: Floats = np.exp(np.minimum(values, 700.0))
    return found
