"""Changed workspaces that contradict the prompt: which models notice, ask or guess, and whether they recover."""

import pytest

from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, environment_variants
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge
from tests.runners.agents.scripted.trials import run_trial

CASES = [(task, variant) for task in desk_tasks() for variant in environment_variants(task)]
IDS = [variant.variant_id for _, variant in CASES]


async def played(task, variant, archetype, seed=0, *, may_ask=True):
    """Run one trial in the changed workspace, with the exact simulator if the model may ask."""
    knowledge = UserKnowledge(full_prompt=variant.prompt, sent_prompt=variant.prompt, removed=variant.segments)

    async def reply(question):
        return (await ExactSimulator().answer(question, "", knowledge)).text

    return await run_trial(task, archetype, variant=variant, seed=seed, reply=reply if may_ask else None)


@pytest.mark.sampled(15)
@pytest.mark.parametrize("archetype", ["over_clarifier", "balanced"])
@pytest.mark.parametrize(("task", "variant"), CASES, ids=IDS)
async def test_who_asks_recovers(task, variant, archetype):
    """Both models that ask notice the contradiction, ask about it, and reach every checkpoint."""
    trial = await played(task, variant, archetype)
    assert trial.unmet == []
    assert trial.questions


@pytest.mark.thorough
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("task", "variant"), CASES, ids=IDS)
async def test_who_never_asks_does_not_always_succeed(task, variant):
    """Without asking, at least one of three trials fails: the variant is not benign."""
    grades = [(await played(task, variant, "never", seed, may_ask=False)).grade for seed in range(3)]
    assert not all(grade.is_success for grade in grades)
