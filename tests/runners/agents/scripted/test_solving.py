"""Given all parameters, with any values, a scripted model solves every desk task."""

import random

import msgspec
import pytest

from lhaw_record.runners.agents.scripted.model import recipe_for
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks
from tests.runners.agents.scripted.trials import run_trial
from tests.runners.environments.benchmarks.desk.solutions import solutions_of

TASKS = desk_tasks()
IDS = [task.task_id for task in TASKS]
ARCHETYPES = ("over_clarifier", "balanced", "never")


@pytest.mark.sampled(13)
@pytest.mark.parametrize("archetype", ARCHETYPES)
@pytest.mark.parametrize("task", TASKS, ids=IDS)
async def test_full_prompt_is_solved(task, archetype):
    """Under ``full`` every archetype reaches every checkpoint, one action for each step at least."""
    trial = await run_trial(task, archetype)
    assert trial.unmet == []
    assert len(trial.actions) >= _least_actions(task)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("draw", range(4))
@pytest.mark.parametrize("task", TASKS, ids=IDS)
async def test_changed_parameters_are_solved(task, draw):
    """With parameters changed at random (names, thresholds, formats, dates) the model still solves the task."""
    chance = random.Random(f"{task.task_id} {draw}")
    alternatives = solutions_of(task).ALTERNATIVES
    names = chance.sample(sorted(alternatives), chance.randint(1, len(alternatives)))
    changes = {name: chance.choice(alternatives[name]) for name in names}
    instance = msgspec.structs.replace(task, parameters=msgspec.structs.replace(task.parameters, **changes))
    trial = await run_trial(instance, chance.choice(ARCHETYPES))
    assert trial.unmet == [], changes


def test_most_tasks_are_long():
    """Three of four tasks take every archetype ten actions or more, so that the five injection points differ."""
    is_long = [_least_actions(task) >= 10 for task in TASKS]
    assert 4 * sum(is_long) >= 3 * len(is_long)


def _least_actions(task):
    """Every step that even the hasty model takes, and submitting."""
    return 1 + sum(not step.is_extra for step in recipe_for(task.prompt()).steps)
