"""Scripted models and the exact simulator understand each other: asking returns every missing value."""

import msgspec
import pytest

from lhaw_record.runners.agents.scripted.beliefs import read_stated
from lhaw_record.runners.agents.scripted.model import recipe_for
from lhaw_record.runners.agents.scripted.transcript import Statement, Transcript
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, prompt_variants
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator, deferral
from lhaw_record.runners.users.simulated_user.matcher import matching_segments
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

CASES = [(task, variant) for task in desk_tasks() for variant in prompt_variants(task)]


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("task", "variant"), CASES, ids=[variant.variant_id for _, variant in CASES])
async def test_asking_for_what_is_missing_gives_the_full_task(task, variant):
    """One question for each missing parameter brings back exactly the values of the full prompt."""
    recipe = recipe_for(variant.prompt)
    knowledge = UserKnowledge(full_prompt=task.prompt(), sent_prompt=variant.prompt, removed=variant.segments)

    def stated(prompt, statements=()):
        transcript = Transcript(system="", prompt=prompt, statements=tuple(statements), calls=(), text_turns=0)
        return read_stated(recipe.parameters, transcript).values

    told = stated(variant.prompt)
    missing = [each for each in recipe.parameters if each.name not in told and each.usual is None]
    replies = []
    for parameter in missing:
        answer = await ExactSimulator().answer(parameter.question, "", knowledge)
        revealed = knowledge.revealed.union(each.segment_id for each in answer.revealed)
        knowledge = msgspec.structs.replace(knowledge, revealed=revealed)
        replies.append(Statement(text=answer.text, question=parameter.question))
    assert stated(variant.prompt, replies) == stated(task.prompt()), [reply.text for reply in replies]


CHAINED = [(task, variant) for task, variant in CASES if any(each.revealed_after for each in variant.segments)]


@pytest.mark.parametrize(("task", "variant"), CHAINED, ids=[variant.variant_id for _, variant in CHAINED])
async def test_a_chained_value_comes_only_after_its_parent(task, variant):
    """The simulated user answers the second question only once the first value is known."""
    parent, child = variant.segments
    recipe = recipe_for(variant.prompt)
    knowledge = UserKnowledge(full_prompt=task.prompt(), sent_prompt=variant.prompt, removed=variant.segments)
    question = next(
        each.question
        for each in recipe.parameters
        if child.segment_id in matching_segments(each.question, "", variant.segments)
    )
    early = await ExactSimulator().answer(question, "", knowledge)
    assert early.text == deferral()
    assert early.revealed == ()
    later = msgspec.structs.replace(knowledge, revealed=frozenset({parent.segment_id}))
    assert [each.segment_id for each in (await ExactSimulator().answer(question, "", later)).revealed] == ["S2"]


def test_three_tasks_have_a_chain():
    """Three tasks have a chain of two segments, of which the second needs the first."""
    assert len({task.task_id for task, _ in CHAINED}) >= 3
    for _, variant in CHAINED:
        assert [each.revealed_after for each in variant.segments] == [None, "S1"]
