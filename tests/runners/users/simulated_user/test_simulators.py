"""The three simulated users: what they say, what counts as revealed, and that they never invent an answer."""

import msgspec
import pytest

from lhaw_record.recorder.events import RevealedSegment
from lhaw_record.runners.base.errors import ExperimentError, UserSimulatorError
from lhaw_record.runners.users.simulated_user.answers import DumpSimulator, ExactSimulator, answer_with, deferral
from lhaw_record.runners.users.simulated_user.llm import LlmSimulator, is_echo
from tests.runners.users.simulated_user.people import (
    BOUND,
    BOUND_QUESTION,
    FULL_PROMPT,
    NAME,
    NAME_QUESTION,
    OTHER_QUESTION,
    SENT_PROMPT,
    ToldModel,
    knowing,
)

REQUESTED_NAME = RevealedSegment(segment_id="S1", is_requested=True)
REQUESTED_BOUND = RevealedSegment(segment_id="S2", is_requested=True)
VOLUNTEERED_NAME = RevealedSegment(segment_id="S1", is_requested=False)
VOLUNTEERED_BOUND = RevealedSegment(segment_id="S2", is_requested=False)


async def test_exact_gives_only_what_is_asked_for():
    """Two segments were removed; each question reveals its own and keeps the other."""
    exact, knowledge = ExactSimulator(), knowing(NAME, BOUND)
    first = await exact.answer(NAME_QUESTION, "", knowledge)
    second = await exact.answer(BOUND_QUESTION, "", knowledge)
    assert first.revealed == (REQUESTED_NAME,)
    assert NAME.value in first.text
    assert BOUND.value not in first.text
    assert second.revealed == (REQUESTED_BOUND,)
    assert BOUND.value in second.text
    assert NAME.value not in second.text


async def test_exact_answers_a_compound_question_in_full():
    """One question about both segments reveals both, apart from each other."""
    answer = await ExactSimulator().answer(f"{NAME_QUESTION} {BOUND_QUESTION}", "", knowing(NAME, BOUND))
    assert answer.revealed == (REQUESTED_NAME, REQUESTED_BOUND)
    assert answer.text == answer_with([NAME, BOUND])


async def test_exact_defers_when_the_question_is_about_something_else():
    """The deferral is one fixed text and reveals nothing."""
    answer = await ExactSimulator().answer(OTHER_QUESTION, "", knowing(NAME, BOUND))
    assert answer.text == deferral()
    assert answer.revealed == ()


async def test_dump_gives_everything_and_says_what_was_asked_for():
    """Every question gets all values; what the matcher did not see asked is volunteered."""
    about_name = await DumpSimulator().answer(NAME_QUESTION, "", knowing(NAME, BOUND))
    about_nothing = await DumpSimulator().answer(OTHER_QUESTION, "", knowing(NAME, BOUND))
    assert about_name.text == about_nothing.text == answer_with([NAME, BOUND])
    assert about_name.revealed == (REQUESTED_NAME, VOLUNTEERED_BOUND)
    assert about_nothing.revealed == (VOLUNTEERED_NAME, VOLUNTEERED_BOUND)


@pytest.mark.parametrize("simulator", [ExactSimulator(), DumpSimulator()])
async def test_nothing_removed_means_the_deferral(simulator):
    """Under full_ask_user there is nothing to reveal."""
    answer = await simulator.answer(NAME_QUESTION, "", knowing())
    assert answer.text == deferral()
    assert answer.revealed == ()


@pytest.mark.parametrize("simulator", [ExactSimulator(), DumpSimulator()])
async def test_a_repeated_question_gets_the_same_answer(simulator):
    """A deterministic user does not tire."""
    first = await simulator.answer(NAME_QUESTION, "", knowing(NAME))
    assert await simulator.answer(NAME_QUESTION, "", knowing(NAME)) == first


async def test_llm_knows_both_prompts_and_the_removed_values():
    """The template's placeholders are filled, also when a value looks like a placeholder."""
    model = ToldModel("Use your best judgment.")
    await LlmSimulator(model).answer("What about {removed}?", "I am done.", knowing(NAME, BOUND))
    ((system, user),) = model.prompts
    assert "{" not in system
    for part in (FULL_PROMPT, SENT_PROMPT, NAME.value, BOUND.value, "I am done.", "What about {removed}?"):
        assert part in user


@pytest.mark.parametrize(
    ("subdimension", "how"), [("authority", "on purpose, but you have no approval for it"), ("policy", "by mistake")]
)
async def test_llm_knows_a_slip_from_an_order_without_approval(subdimension, how):
    """What stands in the prompt in place of a segment was meant or not: only a missing approval is no slip."""
    model = ToldModel(*["I have no approval for it."] * 2)
    wrong = msgspec.structs.replace(NAME, dimension="context", subdimension=subdimension, decoy="the other one")
    await LlmSimulator(model).answer(NAME_QUESTION, "", knowing(wrong))
    assert f'(the prompt says "the other one", {how})' in model.prompts[0][1]


async def test_llm_answer_is_searched_for_values():
    """What the answer holds is revealed: on request if the question is about it, else volunteered."""
    model = ToldModel(*["Call it Overview.xlsx, and skip everything below 1000 EUR."] * 2)
    answer = await LlmSimulator(model).answer(NAME_QUESTION, "", knowing(NAME, BOUND))
    assert answer.revealed == (REQUESTED_NAME, VOLUNTEERED_BOUND)


async def test_llm_repeats_itself_without_a_second_call():
    """The same question in one trial gets the same answer and costs nothing."""
    model = ToldModel("Call it overview.xlsx.", "Something else.")
    simulator = LlmSimulator(model)
    first = await simulator.answer(NAME_QUESTION, "", knowing(NAME))
    assert await simulator.answer(NAME_QUESTION, "", knowing(NAME)) == first
    assert len(model.prompts) == 1


@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        (["", " \n"], "empty_reply"),
        ([NAME_QUESTION, f'"{NAME_QUESTION.lower()}"'], "echo_reply"),
        (["You ask: what should I name the output file?", ""], "echo_reply"),
        ([UserSimulatorError("no connection", kind="connection")], "connection"),
    ],
)
async def test_llm_never_invents_an_answer(replies, kind):
    """Two empty replies, two echoes of the question or a failing model are an error of the user simulator."""
    with pytest.raises(UserSimulatorError) as raised:
        await LlmSimulator(ToldModel(*replies)).answer(NAME_QUESTION, "", knowing(NAME))
    assert raised.value.kind == kind


GOOD, BOTH = "Call it overview.xlsx.", "Call it overview.xlsx, and skip below 1,000 EUR."


@pytest.mark.parametrize(
    ("replies", "text", "withheld", "rejected"),
    [
        ([GOOD], GOOD, (), ()),
        (['{"answer": "Call it overview.xlsx."}'], GOOD, (), ()),
        ([NAME_QUESTION, GOOD], GOOD, (), ((NAME_QUESTION, "echo"),)),
        (["", GOOD], GOOD, (), (("", "empty"),)),
        (["As you like.", GOOD], GOOD, (), (("As you like.", "withheld"),)),
        ([BOTH, GOOD], GOOD, (), ((BOTH, "volunteered"),)),
        ([BOTH, NAME_QUESTION], BOTH, (), ((NAME_QUESTION, "echo"),)),
        (["As you like.", "Really."], "As you like.", ("S1",), (("Really.", "withheld"),)),
    ],
)
async def test_llm_replies_are_checked_and_asked_for_once_more(replies, text, withheld, rejected):
    """An echo, an empty reply, a withheld and a volunteered detail are told to the model; the better reply counts."""
    model = ToldModel(*replies)
    answer = await LlmSimulator(model).answer(NAME_QUESTION, "", knowing(NAME, BOUND))
    assert (answer.text, answer.withheld) == (text, withheld)
    assert tuple((each.text, each.problem) for each in answer.rejected) == rejected
    assert len(model.prompts) == len(replies)
    if len(replies) == 2:
        assert replies[0] in model.prompts[1][1]


@pytest.mark.parametrize(
    ("answer", "question", "is_repeated"),
    [
        ("Which ledger should I use?", "Which ledger should I use?", True),
        ("which ledger, should I use", "Hello! Which ledger should I use?", True),
        ("Which ledger should I use now?", "Which ledger should I use?", True),
        ("The report should be in EUR, that is right.", "The report should be in EUR, is that right?", False),
        ("Use ledger A.", "Should I use ledger A or ledger B?", False),
        ("Which ledger? The one of the third quarter, as every year.", "Which ledger?", False),
        ("Yes.", "Is it in EUR?", False),
    ],
)
def test_what_an_echo_is(answer, question, is_repeated):
    """Repeating the question is an echo; confirming or choosing in its words is an answer."""
    assert is_echo(answer, question) is is_repeated


async def test_llm_takes_a_template_of_the_users_own(tmp_path):
    """A file given by the user replaces the bundled one."""
    template = tmp_path / "own.md"
    template.write_text("Be brief.\n---\nQ: {question}\n")
    model = ToldModel("Yes.")
    await LlmSimulator(model, template_path=template).answer("Really?", "", knowing(NAME))
    assert model.prompts == [("Be brief.", "Q: Really?")]


def test_a_broken_template_is_named(tmp_path):
    """A template without its divider is refused before any trial, with its path."""
    template = tmp_path / "own.md"
    template.write_text("Q: {question}\n")
    with pytest.raises(ExperimentError, match=r"own\.md"):
        LlmSimulator(ToldModel(), template_path=template)


def test_a_value_that_is_a_sentence_gets_one_full_stop():
    """The removed value is quoted exactly, without a doubled full stop."""
    whole = NAME.__class__(segment_id="S9", dimension="context", subdimension="unheard of", value="Ask Ada first.")
    assert answer_with([whole]).endswith("Ask Ada first.")
