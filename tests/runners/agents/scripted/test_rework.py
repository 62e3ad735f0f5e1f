"""Late information has a price: whatever depended on it is done again, within the model's patience."""

import pytest

from lhaw_record.runners.base.conversation.injection import injection_action
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, prompt_variants
from lhaw_record.runners.experiment.prompts import InjectionTemplates
from tests.runners.agents.scripted.trials import run_trial

CASES = [(task, variant) for task in desk_tasks() for variant in prompt_variants(task)]
IDS = [variant.variant_id for _, variant in CASES]
TASK, INPUT_VARIANT = next(case for case in CASES if case[1].variant_id == "expense-audit/which-ledger")


@pytest.fixture(scope="module")
def budgets():
    """The actions that an archetype takes for a task when nothing is missing, counted once."""
    return {}


async def _budget(budgets, task, archetype):
    key = task.task_id, archetype
    if key not in budgets:
        budgets[key] = len((await run_trial(task, archetype)).actions)
    return budgets[key]


async def _injected(budgets, task, variant, archetype, percent):
    budget = await _budget(budgets, task, archetype)
    message = InjectionTemplates().message(variant.segments)
    place = injection_action(budget, percent)
    return await run_trial(task, archetype, prompt=variant.prompt, injection=(place, message)), budget


@pytest.mark.sampled(57)
@pytest.mark.parametrize(("task", "variant"), CASES, ids=IDS)
async def test_early_injection_restores_the_oracle(budgets, task, variant):
    """Informed at 10 %, the model solves every variant."""
    trial, _ = await _injected(budgets, task, variant, "balanced", 10)
    assert trial.unmet == []


@pytest.mark.thorough
@pytest.mark.parametrize(("task", "variant"), CASES, ids=IDS)
async def test_patient_model_repairs_everything_at_half_time(budgets, task, variant):
    """Informed at 50 %, the patient over-clarifier still solves every variant, by redoing what used the value."""
    trial, _ = await _injected(budgets, task, variant, "over_clarifier", 50)
    assert trial.unmet == []


@pytest.mark.thorough
async def test_rework_costs_actions_and_more_the_later(budgets):
    """A value that the first steps use costs more actions the later it comes."""
    lengths = []
    for percent in (10, 50, 90):
        trial, budget = await _injected(budgets, TASK, INPUT_VARIANT, "over_clarifier", percent)
        assert trial.grade.is_success
        lengths.append(len(trial.actions) - budget)
    assert lengths == sorted(set(lengths))


@pytest.mark.thorough
async def test_hasty_model_runs_out_of_patience(budgets):
    """Informed at 90 % that it used the wrong input, the hasty model hands in before the repair is done."""
    trial, _ = await _injected(budgets, TASK, INPUT_VARIANT, "never", 90)
    assert not trial.grade.is_success
    assert trial.actions[-1][0] == "submit"


@pytest.mark.thorough
async def test_late_news_that_changes_nothing_costs_nothing():
    """A message that confirms the value in use redoes nothing."""
    plain = await run_trial(TASK, "balanced")
    told = await run_trial(TASK, "balanced", injection=(9, f"One more thing: {TASK.parameters.ledger_file}."))
    assert told.actions == plain.actions
