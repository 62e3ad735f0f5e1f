"""Batches of whole tasks, after each of which a study looks whether its gain is shown, and stops if it is."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from lhaw_record.recorder.events import LookTaken
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.tables import Experiment, StopSpec
from lhaw_record.runners.runs.planning.plan import Plan


class StoppingRule(Protocol):
    """Equal looks that together hold a level."""

    def levels(self, looks: int) -> Sequence[float]:
        """Return the nominal level of each look."""
        ...

    def p_value(self, store: Path, experiment: str, agent: str, measure: str, tasks: Sequence[str]) -> float | None:
        """Test the gain of an agent on the first tasks of an experiment. None if they are too few."""
        ...


class Looks(msgspec.Struct, frozen=True, kw_only=True):
    """The looks that a study plans: at whose gain, and at which tasks each of them."""

    experiment: str
    stop: StopSpec
    agent: str
    tasks: tuple[tuple[str, ...], ...]

    def due(self, taken: Sequence[LookTaken]) -> int:
        """Return the number of the next look, or 0 if the study is over.

        Raises:
            ExperimentError: The store has looks of another plan, whose level is spent otherwise.
        """
        for each in taken:
            is_planned = (each.looks, each.agent, each.measure) == (self.stop.looks, self.agent, self.stop.measure)
            if not is_planned or each.tasks != len(self.tasks[each.look - 1]):
                raise ExperimentError(
                    f"key 'stop_when_shown': the store has look {each.look} of {each.looks} at {each.tasks} tasks "
                    f"({each.agent}, {each.measure}); the plan changed after a look, so no level holds; undo that"
                )
        is_over = any(each.is_shown for each in taken) or len(taken) == self.stop.looks
        return 0 if is_over else len(taken) + 1

    def batch(self, plan: Plan, look: int) -> Plan:
        """Return the trials of the tasks that a look is at."""
        tasks = frozenset(self.tasks[look - 1])
        return Plan(trials=tuple(trial for trial in plan.trials if trial.task.task_id in tasks))

    def take(self, look: int, store: Path, rule: StoppingRule) -> LookTaken:
        """Test the gain on the tasks of a look, whose trials are finished."""
        tasks, level = self.tasks[look - 1], rule.levels(self.stop.looks)[look - 1]
        p_value = rule.p_value(store, self.experiment, self.agent, self.stop.measure, tasks)
        return LookTaken(
            look=look,
            looks=self.stop.looks,
            tasks=len(tasks),
            agent=self.agent,
            measure=self.stop.measure,
            p_value=p_value,
            level=level,
            is_shown=p_value is not None and p_value < level,
        )

    def notes(self, taken: Sequence[LookTaken], rule: StoppingRule) -> Iterator[str]:
        """Yield what is planned, and a line for each look that was taken."""
        levels = zip(self.tasks, rule.levels(self.stop.looks), strict=True)
        yield f"stops when the {self.stop.measure} gain of {self.agent} from asking is shown; looks at " + ", ".join(
            f"{len(tasks)} tasks (p < {level:.4f})" for tasks, level in levels
        )
        yield from map(look_words, taken)


def planned_looks(experiment: Experiment, plan: Plan) -> Looks | None:
    """Return the looks of an experiment that has some, its tasks in a random order that depends on ``deal_seed``."""
    stop = experiment.stop_when_shown
    if stop is None:
        return None
    names = {trial.task.task_id for trial in plan.trials}
    order = sorted(names, key=lambda name: digest([experiment.deal_seed, name]))
    most = stop.max_tasks or len(order)
    if not stop.looks <= most <= len(order):
        raise ExperimentError(f"key 'stop_when_shown': {stop.looks} looks at {most} tasks; {len(order)} are planned")
    return Looks(
        experiment=experiment.name,
        stop=stop,
        agent=stop.agent or experiment.agents[0].name,
        tasks=tuple(tuple(order[: round(most * look / stop.looks)]) for look in range(1, stop.looks + 1)),
    )


def look_words(taken: LookTaken) -> str:
    """Say what a look found, and whether the study goes on."""
    found = "too few tasks for a test" if taken.p_value is None else f"p = {taken.p_value:.4g}"
    end = "shown, so the study stops" if taken.is_shown else "not shown"
    last = ", and this was the last look" if taken.look == taken.looks and not taken.is_shown else ""
    return f"look {taken.look} of {taken.looks}, {taken.tasks} tasks: {found}, level {taken.level:.4f}: {end}{last}"
