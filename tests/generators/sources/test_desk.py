"""The desk benchmark: what is removed there can be had back by asking, since that is what its trials measure."""

import pytest

from lhaw_record.generators.prompts.occurrences import SearchablePrompt
from lhaw_record.generators.sources.desk import DeskSource
from lhaw_record.runners.agents.scripted import beliefs
from lhaw_record.runners.agents.scripted.transcript import Statement
from lhaw_record.runners.environments.benchmarks.desk.recipe import desk_recipes, match_value
from lhaw_record.runners.users.simulated_user.answers import answer_with
from lhaw_record.runners.users.simulated_user.matcher import matching_segments

SOURCES = {each.task.task_id: each for each in DeskSource().tasks()}
LEAST_REVEALED, LEAST_UNDERSTOOD = 1.0, 0.95


def stated(recipe, prompt):
    """Parameter -> value of what a prompt says, as the scripted agents read it."""
    one_line = " ".join(prompt.split())
    return {
        parameter.name: match_value(match)
        for parameter in recipe.parameters
        if (match := beliefs._matches((parameter,), one_line).get(parameter.name))
    }


def regained(recipe, prompt, segment):
    """For each parameter that a prompt lost with a segment: whether asking revealed it, and gave the value back."""
    blanked = prompt
    for start, end in reversed(SearchablePrompt(prompt).occurrences(segment)):
        blanked = blanked[:start] + "___" + blanked[end:]
    truth, left = stated(recipe, prompt), stated(recipe, blanked)
    for parameter in recipe.parameters:
        if left.get(parameter.name) == truth.get(parameter.name):
            continue
        asked = matching_segments(parameter.question, "", [segment])
        reply = Statement(text=answer_with([segment] if asked else []), question=parameter.question)
        news = beliefs._news(recipe.parameters, reply, left)
        yield parameter.name, bool(asked), news.get(parameter.name) == truth[parameter.name]


@pytest.mark.thorough
def test_what_the_scripted_agents_need_is_a_segment_and_can_be_asked_back():
    """Every parameter of a recipe is a written segment that its question reveals; nearly all answers restore it."""
    recipes = {recipe.name: recipe for recipe in desk_recipes()}
    needed, revealed, understood = set(), set(), set()
    for task_id, source in SOURCES.items():
        recipe = recipes[task_id]
        needed |= {(task_id, parameter) for parameter in stated(recipe, source.task.prompt)}
        for written in source.written:
            segment = written.segment
            for parameter, is_revealed, is_understood in regained(recipe, source.task.prompt, segment):
                revealed |= {(task_id, parameter)} if is_revealed else set()
                understood |= {(task_id, parameter)} if is_understood else set()
    assert len(revealed) >= LEAST_REVEALED * len(needed), sorted(needed - revealed)
    assert len(understood) >= LEAST_UNDERSTOOD * len(needed), sorted(needed - understood)
