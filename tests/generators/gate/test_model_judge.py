"""The model as the gate's judge: what it is asked, what counts as a right guess, and what is found and recorded."""

import json

import pytest

from lhaw_record.generators.gate import UNJUDGED, ModelJudge, unjudged_by
from lhaw_record.generators.gate.recoverability import is_told
from lhaw_record.generators.llm import PromptTemplates
from lhaw_record.generators.prompts.occurrences import SearchablePrompt
from lhaw_record.generators.protocol import Removal, Rewriting
from lhaw_record.recorder.events import ModelCalled
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment
from lhaw_record.runners.base.errors import NothingUsable
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.recorded_replies import load_recorded_replies
from tests.support.canned_model import MemoryRecording, snapshot_of
from tests.support.generation_model import HandlerModel, assessment_reply, guess_reply, is_guess

ORIGINAL = "Read members.csv and keep everybody who joined before 14 March 2019."
DAY = Segment(segment_id="S1", value="14 March 2019", dimension="constraint", subdimension="temporal")
REMOVAL = Removal(segments=(DAY,), severity="vaguify")
REWRITTEN = Rewriting(
    prompt="Read members.csv and keep everybody who joined before some day.",
    expected_questions=(ExpectedQuestions(segment_id="S1", questions=("Before which day?",)),),
    failure_mode="",
)
FILES = {"members.csv": "name,joined\nAda,2019-03-13\n"}


async def judged(handler, *, files=None, removal=REMOVAL, recorded=None, guesses=2):
    """Return the judgement of a model that is this function, its requests and what was recorded."""
    model, recording = HandlerModel(handler), MemoryRecording()
    templates, parameters = PromptTemplates(), {"temperature": 0}
    judge = ModelJudge("m", parameters, templates, guesses)

    def caller_of(question):
        return ModelCaller(
            model=model,
            recording=recording,
            role="judge",
            thread_id=f"gate-{question}",
            parameters=parameters,
            recorded=recorded,
        )

    return await judge.judge(ORIGINAL, REWRITTEN, removal, files or {}, caller_of), model, recording


def answering(guess, *faults, **rubric):
    """Return a model that guesses this and finds these faults."""
    return lambda body: guess_reply(S1=guess(body)) if is_guess(body) else assessment_reply(*faults, **rubric)


def fault(point, quote="some day", reason="Which one?"):
    """Return a fault as the editor gives it."""
    return {"point": point, "quote": quote, "reason": reason}


async def test_a_good_rewriting_is_judged_and_passes():
    """The editor has no fault and no guess is right: nothing is found, and every question is recorded."""
    said, model, _ = await judged(answering(lambda _: ""), files=FILES)
    assert said.findings == ()
    assert (said.record.judge, said.record.guesses, said.record.hits) == ("m", 4, 0)
    assert {*said.record.judged, "adds_nothing"} == set(UNJUDGED)
    assert unjudged_by(said.record, "vaguify", ORIGINAL) == ()
    assert len(model.bodies) == 5


async def test_the_adversary_sees_neither_the_original_nor_the_value():
    """It gets the rewritten prompt, the question and, the second time, the files; its tries are sampled."""
    _, model, _ = await judged(answering(lambda _: ""), files=FILES)
    guesses = [body for body in model.bodies if is_guess(body)]
    texts = [body["messages"][1]["content"] for body in guesses]
    assert all(REWRITTEN.prompt in text and "Before which day?" in text for text in texts)
    assert not any("14 March" in text for text in texts)
    assert ["2019-03-13" in text for text in texts] == [False, False, True, True]
    assert {body["temperature"] for body in guesses} == {1.0}
    assert model.bodies[0]["temperature"] == 0


async def test_one_right_guess_is_enough():
    """Whatever notation it has; what the prompt tells is not asked again with the files."""
    tries = iter(["2019", "2019-03-14"])
    said, model, _ = await judged(answering(lambda _: next(tries)), files=FILES)
    (found,) = said.findings
    assert found.check == "recoverable_by_paraphrase"
    assert "1 of 2 readers got S1 back" in found.message
    assert (said.record.guesses, said.record.hits) == (2, 1)
    assert unjudged_by(said.record, "vaguify", ORIGINAL) == ("recoverable_from_files",)
    assert len(model.bodies) == 3


async def test_what_only_the_files_tell_is_named_so():
    """A right guess that needs the files is another finding."""
    said, _, _ = await judged(answering(lambda body: "March 14" if "2019-03-13" in str(body) else ""), files=FILES)
    assert [each.check for each in said.findings] == ["recoverable_from_files"]


@pytest.mark.thorough
def test_a_number_that_python_cannot_convert_is_a_wrong_guess():
    """Python converts no text of more than 4,300 digits; a model that runs on stops no judge."""
    nines = "9" * 5000
    value = Segment(segment_id="S1", value="30 days", dimension="constraint", subdimension="numeric_bound")
    for guess in (nines, f"{nines} days", f"{nines}%", f"more than {nines}", ",".join(["999"] * 3000)):
        assert not is_told(value, guess, SearchablePrompt("Wait 30 days for it."))
    assert is_told(value, "30 days", SearchablePrompt("Wait 30 days for it."))


async def test_what_the_editor_refuses_is_not_guessed():
    """Each fault is a finding, with the words that it quotes and the reason, which the rewriter is told."""
    faults = fault("reads_naturally"), fault("several_readings", "", "Any day will do.")
    said, model, _ = await judged(answering(lambda _: DAY.value, *faults), files=FILES)
    assert [(each.check, each.message) for each in said.findings] == [
        ("reads_naturally", "'some day': Which one?"),
        ("several_readings", "Any day will do."),
    ]
    assert unjudged_by(said.record, "vaguify", ORIGINAL) == UNJUDGED[:2]
    (body,) = model.bodies
    shown = body["messages"][1]["content"]
    assert all(text in shown for text in (ORIGINAL, REWRITTEN.prompt, '"value":"14 March 2019"'))


async def test_of_a_decoy_only_the_text_is_judged():
    """Its value is there, and wrong: nobody has to guess it, and one reading is what it is meant to have."""
    removal = Removal(segments=(DAY,), severity="decoy")
    faults = fault("several_readings"), fault("adds_nothing"), fault("is_still_a_task")
    said, model, _ = await judged(answering(lambda _: DAY.value, *faults), removal=removal)
    assert [each.check for each in said.findings] == ["is_still_a_task"]
    assert unjudged_by(said.record, "decoy", ORIGINAL) == ()
    assert len(model.bodies) == 1


async def test_replies_of_an_earlier_run_are_used_again():
    """The same judgement without a request."""
    first, _, recording = await judged(answering(lambda _: "14 March"), files=FILES)
    assert {event.role for event in recording.events if isinstance(event, ModelCalled)} == {"judge"}
    recorded = load_recorded_replies(snapshot_of(recording))
    again, model, silent = await judged(answering(lambda _: ""), files=FILES, recorded=recorded)
    assert again == first
    assert (model.bodies, silent.events) == ([], [])


async def test_prose_is_no_judgement():
    """A judge that does not answer what it is asked neither passes nor refuses anything."""
    with pytest.raises(NothingUsable, match="the judge gave no assessment in 2 replies"):
        await judged(lambda _: "I would say so.")


@pytest.mark.parametrize(
    "faults",
    [None, {}, ["reads_naturally"], [fault("style")], [fault("reads_naturally", reason="")], [fault(None)]],
)
async def test_a_fault_has_a_point_and_a_reason(faults):
    """An assessment with another one is asked for again, and two of them judge nothing."""
    with pytest.raises(NothingUsable, match="the judge gave no assessment in 2 replies"):
        await judged(answering(lambda _: "", faults=faults))


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ([], "S1 has no value"),
        (["14 March 2019"], "an item of 'values' is not an object"),
        ([{"segment_id": "S1"}], "an item of 'values' is not an object"),
        ([{"value": "14 March 2019"}], "an item of 'values' is not an object"),
        ([{"segment_id": "S9", "value": "14 March 2019"}], "there is no id 'S9'"),
        ([{"segment_id": "S1", "value": ["13 March 2019", "14 March 2019"]}], "the value of S1 is not one text"),
    ],
)
async def test_a_malformed_guess_is_no_miss(values, problem):
    """It is asked for once more and told what was wrong; then nothing is judged. None of it counts as not recovered."""
    with pytest.raises(NothingUsable) as raised:
        await judged(lambda body: json.dumps({"values": values}) if is_guess(body) else assessment_reply())
    assert problem in str(raised.value).replace('"', "'")
    replies = iter([json.dumps({"values": values}), guess_reply(s1="14 March 2019")])
    said, model, _ = await judged(lambda body: next(replies) if is_guess(body) else assessment_reply(), guesses=1)
    assert (said.record.guesses, said.record.hits) == (1, 1)
    assert problem in model.bodies[2]["messages"][-1]["content"].replace('"', "'")


async def test_of_two_values_for_one_id_a_right_one_is_a_hit():
    """The second neither hides the first nor counts as a second try; null is an answer, like an empty value."""
    values = [{"segment_id": "S1", "value": value} for value in ("14 March 2019", None)]
    twice = json.dumps({"values": values})
    said, _, _ = await judged(lambda body: twice if is_guess(body) else assessment_reply(), guesses=1)
    assert (said.record.guesses, said.record.hits) == (1, 1)
    nothing = json.dumps({"values": values[1:]})
    said, _, _ = await judged(lambda body: nothing if is_guess(body) else assessment_reply(), guesses=1)
    assert (said.record.guesses, said.record.hits) == (1, 0)


def test_without_a_judge_nothing_is_taken_as_passed():
    """Each point stays unjudged."""
    assert unjudged_by(None, "delete", ORIGINAL) == UNJUDGED
    assert unjudged_by(None, "decoy", ORIGINAL) == ("reads_naturally",)


@pytest.mark.parametrize(
    ("value", "guess", "is_right"),
    [
        ("six people", "6", True),
        ("21 July to 12 September 2025", "2025-07-21 to 2025-09-12", True),
        ("21 July 2025", "July 2025", False),
        ("14 March 2019", "March 14th, 2019", True),
        ("17 days", "18 days", False),
        ("5", "5 or 10", False),
        ("1,000 EUR", "1000 euros", True),
        ("`data/orders.csv`", "orders.csv", True),
        ("Dana Whitfield", "Dana", False),
        ("leave out peanuts", "leaving out peanuts", True),
        ("Friday", "Monday", False),
        ("out.csv", "", False),
        ("1.5 million", "1500000", True),
        ("1,500,000 EUR", "1.5M euros", True),
        ("1.5 million", "1.5 billion", False),
        ("50%", "0.5", True),
        ("0.5", "50 per cent", True),
        ("50%", "5%", False),
        ("9 am", "09:00", True),
        ("17:30", "5:30 p.m.", True),
        ("9 am", "9 pm", False),
        ("12 am", "00:00", True),
        ("14 March 2019", "2019-03-14T00:00:00", True),
        ("14 March 2019", "2019-03-15T00:00:00Z", False),
        ("17 days", "17 days (about 2 weeks)", True),
        ("17 days", "16 days (or 17)", False),
        ("weeks 36 to 39", "36, 37, 38 and 39", True),
        ("36, 37, 38 and 39", "weeks 36-39", True),
        ("weeks 36 to 39", "weeks 36 to 40", False),
        ("the department Cold Store", "Cold Store", True),
        ("the department Cold Store", "the department", False),
        ("only open invoices", "open invoices", True),
        ("only open invoices", "invoices", False),
        ("30 days", "30 minutes", False),
        ("30 days", "a 30-day limit", True),
        ("30 days", "30 files", False),
        ("5 MB", "5 GB", False),
        ("5 MB", "5,000 kilobytes", True),
        ("1 GB", "1024 MB", True),
        ("90 minutes", "an hour and a half", True),
        ("24 hours", "one day", True),
        ("7 days", "seven weeks", False),
        ("$10", "10 euros", False),
        ("20 \u00b0C", "20 \u00b0F", False),
        ("10k rows", "10 rows", False),
        ("9:00", "nine o'clock", True),
        ("17:30", "half past five in the morning", False),
        ("at least 5", "more than four", True),
        ("12/01/2024", "1 December 2024", True),
        ("9:00", "nine", True),
        ("9:00", "half", False),
        ("9:00", "\u00b2", False),
        ("9:00", "\u2460", False),
        ("more than 1,000 rows", "more than 1000 rows", True),
        ("more than 1,000 rows", "at least 1,001 rows", True),
        ("more than 1,000 rows", "at least 2,000 rows", False),
        ("more than 1.5", "at least 2.5", False),
        ("2 per hour", "120 per minute", False),
        ("2 whole days", "48 hours", True),
        ("a second reviewer", "1 second", False),
        ("a second and a half", "1500 ms", True),
        ("9:00", "5 \u017fec", False),
        ("no decimals", "0 decimals", True),
        ("no decimals", "2 decimals", False),
    ],
)
def test_a_guess_is_compared_in_any_notation(value, guess, is_right):
    """Numbers and days by their value, names as a whole, other values by every word that says something."""
    segment = Segment(segment_id="S1", value=value, dimension="goal", subdimension="any")
    assert is_told(segment, guess, SearchablePrompt(f"Please use {value} now.")) is is_right


def test_the_digest_covers_what_decides():
    """Another number of guesses, or other parameters, are another judge."""
    templates = PromptTemplates()
    made = [
        ModelJudge("m", parameters, templates, guesses).digest
        for parameters, guesses in (({}, 3), ({}, 4), ({"temperature": 0}, 3))
    ]
    assert len(set(made)) == 3
