"""Scripted models and the exact simulator understand each other: every missing value can be had by asking."""

import pytest

from runners.benchmarks.desk.registry import desk_tasks
from runners.benchmarks.desk.variants import read_variants, variant_of
from runners.models.scripted.knowledge import read_stated
from runners.models.scripted.model import recipe_for
from runners.models.scripted.transcript import Statement, Transcript
from runners.users.exact import ExactSimulator
from runners.users.protocol import UserKnowledge

CASES = [(task, variant_of(task, entry)) for task in desk_tasks() for entry in read_variants(task)]


@pytest.mark.parametrize(("task", "variant"), CASES, ids=[variant.variant_id for _, variant in CASES])
async def test_asking_for_what_is_missing_gives_the_full_task(task, variant):
    """One question for each missing parameter brings back exactly the values of the full prompt."""
    recipe = recipe_for(variant.prompt)
    knowledge = UserKnowledge(full_prompt=task.prompt(), sent_prompt=variant.prompt, removed=variant.segments)

    def stated(prompt, statements=()):
        transcript = Transcript(system="", prompt=prompt, statements=tuple(statements), calls=(), text_turns=0)
        return read_stated(recipe.parameters, transcript).values

    missing = [parameter for parameter in recipe.parameters if parameter.name not in stated(variant.prompt)]
    replies = []
    for parameter in missing:
        answer = await ExactSimulator().answer(parameter.question, "", knowledge)
        replies.append(Statement(text=answer.text, question=parameter.question))
    assert stated(variant.prompt, replies) == stated(task.prompt()), [reply.text for reply in replies]
