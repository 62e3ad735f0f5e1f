"""Answer-contingent chains: a segment that specifies another one is kept back until that one is known."""

import msgspec

from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator, answer_with, deferral
from lhaw_record.runners.users.simulated_user.llm import LlmSimulator
from tests.runners.users.simulated_user.people import (
    BOUND,
    BOUND_QUESTION,
    NAME,
    NAME_QUESTION,
    MemoryStream,
    ToldModel,
    knowing,
    said,
)

CHAINED = msgspec.structs.replace(BOUND, revealed_after="S1")
REVEALED = "revealed"


async def test_a_chained_segment_is_deferred_until_its_parent_was_revealed():
    """The same question gets the deferral before the parent's answer and the value after it; nobody else's state."""
    stream = MemoryStream()
    ask_user = RecordedUser(ExactSimulator(), knowing(NAME, CHAINED), stream)
    replies = [await ask_user(question, "", None, None) for question in (BOUND_QUESTION, NAME_QUESTION, BOUND_QUESTION)]
    assert replies == [deferral(), answer_with([NAME]), answer_with([CHAINED])]
    revealed = [[each.segment_id for each in event.revealed] for event in stream.events if hasattr(event, REVEALED)]
    assert revealed == [[], ["S1"], ["S2"]]


async def test_both_can_be_had_by_one_question():
    """A question about parent and child reveals both."""
    answer = await ExactSimulator().answer(f"{NAME_QUESTION} {BOUND_QUESTION}", "", knowing(NAME, CHAINED))
    assert [each.segment_id for each in answer.revealed] == ["S1", "S2"]


async def test_a_chain_of_three_opens_link_by_link():
    """A grandchild needs both before it."""
    third = msgspec.structs.replace(NAME, segment_id="S3", revealed_after="S2")
    knowledge = knowing(NAME, CHAINED, third)
    assert not knowledge.is_open(third, ["S2", "S3"])
    assert knowledge.is_open(third, ["S1", "S2", "S3"])
    assert msgspec.structs.replace(knowledge, revealed=frozenset({"S2"})).is_open(third, ["S3"])


def test_a_parent_that_was_not_removed_is_known():
    """A child alone is asked for like any other segment: its parent stands in the prompt."""
    assert knowing(CHAINED).is_open(CHAINED, ["S2"])


async def test_the_model_is_not_told_too_early():
    """The prompt of the llm simulator lacks a chained value until its parent is revealed; then it is asked anew."""
    model = ToldModel(
        said("Please decide."), said(f"Call it {NAME.value}.", "S1", "S1"), said(f"Below {BOUND.value}.", "S2", "S2")
    )
    simulator = LlmSimulator(model, "told")
    ask_user = RecordedUser(simulator, knowing(NAME, CHAINED), MemoryStream())
    for question in (BOUND_QUESTION, NAME_QUESTION, BOUND_QUESTION):
        await ask_user(question, "", None, None)
    listed = [f"- S2: {CHAINED.value} (in:" in user for _, user in model.prompts]
    assert listed == [False, False, True]


async def test_a_chained_value_that_comes_too_early_leaks():
    """The model may take it from the full prompt; it is told once, and then the event says so."""
    model = ToldModel(*[said(f"Skip payments below {BOUND.value}.", "", "")] * 2)
    answer = await LlmSimulator(model, "told").answer(BOUND_QUESTION, "", knowing(NAME, CHAINED))
    own, rules = answer.readings
    assert (own.verdict, own.gives, rules.verdict) == ("leaked", ("S2",), "leaked")
    assert [each.problem for each in answer.rejected] == ["leaked"]
