"""Workspaces that are not as the prompt says: who notices, who asks, who guesses, and what comes of it."""

import pytest

from runners.benchmarks.desk.registry import desk_tasks
from runners.benchmarks.desk.surroundings import environment_variants
from runners.users.exact import ExactSimulator
from runners.users.protocol import UserKnowledge
from tests.runners.scripted.trials import run_trial

CASES = [(task, variant) for task in desk_tasks() for variant in environment_variants(task)]
IDS = [variant.variant_id for _, variant in CASES]


async def played(task, variant, archetype, seed=0, *, may_ask=True):
    """One trial in the changed workspace, with the exact user where asking is possible."""
    knowledge = UserKnowledge(full_prompt=variant.prompt, sent_prompt=variant.prompt, removed=variant.segments)

    async def reply(question):
        return (await ExactSimulator().answer(question, "", knowledge)).text

    return await run_trial(task, archetype, variant=variant, seed=seed, reply=reply if may_ask else None)


@pytest.mark.sampled(5)
@pytest.mark.parametrize("archetype", ["over_clarifier", "balanced"])
@pytest.mark.parametrize(("task", "variant"), CASES, ids=IDS)
async def test_who_asks_recovers(task, variant, archetype):
    """Both askers notice that something is not as the prompt says, ask about it, and reach everything."""
    trial = await played(task, variant, archetype)
    assert trial.unmet == []
    assert trial.questions


@pytest.mark.sampled(4)
@pytest.mark.parametrize(("task", "variant"), CASES, ids=IDS)
async def test_who_never_asks_does_not_always_succeed(task, variant):
    """Without the user's word at least one of three trials goes wrong: the variant is no benign one."""
    grades = [(await played(task, variant, "never", seed, may_ask=False)).grade for seed in range(3)]
    assert not all(grade.is_success for grade in grades)
