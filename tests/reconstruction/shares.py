"""Trials behind printed means: scores that give a progress, and questions that give the asking of table 3."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from lhaw_record.recorder.events.values import Task, Variant
from tests.reconstruction.printed_values import count, is_printed, nearest, places_of
from tests.reconstruction.told import TRIALS, Told, asking_first


class Levels(NamedTuple):
    """Successes among the three trials of a passing unit, and the scores of trials that succeed and that fail."""

    successes: int
    reached: float
    missed: float

    @property
    def mean(self) -> float:
        """The mean score of a passing unit."""
        return (self.successes * self.reached + (TRIALS - self.successes) * self.missed) / TRIALS


def levels(share: float, progress: float, lowest: float) -> Levels:
    """Return scores whose mean is ``progress`` where ``share`` of the units pass.

    Args:
        share: Passing units / units.
        progress: The wanted mean of all scores.
        lowest: The lowest score that is a success: below it a trial fails. 0 where success is told apart from points.
    """
    highest_miss = lowest - 0.01 if lowest else 1.0
    for successes in range(TRIALS, 0, -1):
        weight = share * successes / TRIALS
        reached = 1.0 if weight == 0 else min(1.0, progress / weight)
        missed = 0.0 if weight == 1 else max(0.0, (progress - weight * reached) / (1 - weight))
        if reached >= lowest and missed <= highest_miss:
            return Levels(successes, reached, missed)
    raise AssertionError(f"no scores give {progress} with {share} passing")


class Asking(NamedTuple):
    """Variants and trials with questions, and all questions; of each variant the first trials ask."""

    variants: int
    trials: int
    questions: int

    def of(self, variant: int) -> list[int]:
        """Return how many questions each trial of a variant asks."""
        if variant >= self.variants:
            return [0] * TRIALS
        each, more = divmod(self.questions, self.trials)
        places = (index * self.variants + variant for index in range(TRIALS))
        return [each + (place < more) if place < self.trials else 0 for place in places]


NOBODY = Asking(0, 0, 0)


def trials_of(
    agent: str, unit: Task | Variant, condition: str, plan: Levels, *, is_passing: bool, asks: Sequence[int]
) -> Iterator[Told]:
    """Yield the three trials of a unit; the first ones succeed if it passes."""
    for index, n_asks in enumerate(asks):
        is_success = is_passing and index < plan.successes
        score = plan.reached if is_success else plan.missed
        yield asking_first(agent, unit, condition, index, score, is_success, n_asks)


def asking(printed: dict[str, str], size: int, trials: int | None = None) -> Asking:
    """Return the asking that gives the most of what is printed of one model.

    Args:
        printed: Its texts of table 3 by metric.
        size: Variants in the ask_user arm.
        trials: How many trials asked, where another table tells.
    """
    if float(printed["ask_pct"]) == 0:
        return NOBODY
    of_variants, of_trials = count(printed["ask_pct"], size), count(printed["ask_pct"], TRIALS * size)
    if of_variants is None and of_trials is None:
        of_trials = nearest(printed["ask_pct"], TRIALS * size)
    found = (
        [Asking(of_variants, trials, 0) for trials in range(of_variants, TRIALS * of_variants + 1)]
        if of_variants
        else []
    )
    if of_trials:
        found += [
            Asking(variants, of_trials, 0) for variants in range(-(-of_trials // TRIALS), min(of_trials, size) + 1)
        ]
    average = float(printed["questions_per_asking_trial"])
    near = 10.0 ** -places_of(printed["questions_per_asking_trial"])
    tried = [
        each._replace(questions=questions)
        for each in found
        for questions in range(int(each.trials * (average - near)), int(each.trials * (average + near)) + 2)
        if questions >= each.trials
    ]
    return max(tried, key=lambda each: (_fits(each, printed, size), each.trials == trials))


def _fits(asked: Asking, printed: dict[str, str], size: int) -> int:
    """How many printed texts an asking gives; both readings of the share count."""
    ratios = {
        "questions_per_asking_trial": [asked.questions / asked.trials],
        "ask_pct": [100 * asked.variants / size, 100 * asked.trials / (TRIALS * size)],
        "pass3_gain_per_question": [float(printed["pass3_gain_pp"]) / asked.questions],
        "ckpt_gain_per_question": [float(printed["ckpt_gain_pp"]) / asked.questions],
    }
    return sum(
        is_printed(value, printed[metric]) for metric, found in ratios.items() for value in found if metric in printed
    )
