"""Questions with options: the user picks the one that holds the value, else writes; a form gets what it takes."""

import pytest

from lhaw_record.recorder.events import QuestionAnswered, QuestionAsked, QuestionOption
from lhaw_record.runners.users.ask_user.forms import fields_of, fill_in, filled
from lhaw_record.runners.users.ask_user.recorded_user import Question, RecordedUser, Reply
from lhaw_record.runners.users.simulated_user.answers import DumpSimulator, ExactSimulator, answer_with, offered
from lhaw_record.runners.users.simulated_user.encoder import installed_encoder
from lhaw_record.runners.users.simulated_user.llm import LlmSimulator
from tests.runners.users.simulated_user.people import (
    BOUND,
    BOUND_QUESTION,
    NAME,
    NAME_QUESTION,
    OTHER_QUESTION,
    MemoryStream,
    ToldModel,
    knowing,
    said,
)

WORDS = {"type": "string"}


def options(*labels, **described):
    """Options with labels alone, and with descriptions by label."""
    shown = [(label, "") for label in labels] + list(described.items())
    return tuple(QuestionOption(label=label, description=text) for label, text in shown)


def form(message="", required=(), **properties):
    """The parameters of an elicitation."""
    return {
        "message": message,
        "requestedSchema": {"type": "object", "properties": properties, "required": list(required)},
    }


async def asked(questions, *removed, simulator=None):
    """Return the replies to the questions of one call, and what was recorded."""
    stream = MemoryStream()
    user = RecordedUser(simulator or ExactSimulator(), knowing(*removed), stream)
    replies = await user.ask(questions, "c1", 3, "built_in")
    kinds = (QuestionAsked, QuestionAnswered)
    return replies, *([event for event in stream.events if isinstance(event, kind)] for kind in kinds)


async def answered(params, *removed):
    """Return the result of a form and the recorded answers."""
    stream = MemoryStream()
    user = RecordedUser(ExactSimulator(), knowing(*removed), stream)
    result = await fill_in(user, fields_of(params, None), None, None, "elicitation")
    return result, [event for event in stream.events if isinstance(event, QuestionAnswered)]


SIMULATORS = {
    "rules": ExactSimulator,
    "dump": DumpSimulator,
    "llm": lambda: LlmSimulator(ToldModel(said(answer_with([NAME]), "S1", "S1")), "m"),
}


@pytest.mark.parametrize("simulator", SIMULATORS.values(), ids=SIMULATORS)
async def test_every_user_picks_the_option_that_holds_the_value(simulator):
    """The agent gets the option as it wrote it, and the events say what it held and that it was picked."""
    question = Question(text=NAME_QUESTION, options=options("report.xlsx", "Overview.xlsx (Recommended)", "You choose"))
    (reply,), (event,), (answer,) = await asked([question], NAME, simulator=simulator())
    assert reply == Reply(state="answered", text="Overview.xlsx (Recommended)", picked=("Overview.xlsx (Recommended)",))
    assert [each.holds for each in event.options] == [(), ("S1",), ()]
    assert (answer.answer, answer.picked) == (reply.text, reply.picked)
    assert [each.segment_id for each in answer.revealed] == ["S1"]


@pytest.mark.thorough
@pytest.mark.skipif(installed_encoder() is None, reason="the sentence encoder is not installed")
async def test_the_matcher_by_meaning_picks_too():
    """Which matcher reads the question decides nothing about the option."""
    question = Question(text=NAME_QUESTION, options=options("overview.xlsx", "report.xlsx"))
    replies, *_ = await asked([question], NAME, simulator=ExactSimulator(encoder=installed_encoder()))
    assert replies[0].picked == ("overview.xlsx",)


@pytest.mark.parametrize(
    ("text", "offers", "picks"),
    [
        (NAME_QUESTION, options("report.xlsx", "data.csv"), ()),
        (NAME_QUESTION, options("A", B="Writes overview.xlsx", C="Writes report.xlsx"), ("B",)),
        (NAME_QUESTION, options(*(f"report_{n}.xlsx" for n in range(29)), "overview.xlsx"), ("overview.xlsx",)),
        ("Which one do you mean?", options("overview.xlsx", "report.xlsx"), ("overview.xlsx",)),
        (OTHER_QUESTION, options("The first", "The second"), ()),
        (NAME_QUESTION, options("overview.xlsx", Both="overview.xlsx and report.xlsx"), ("overview.xlsx",)),
        (NAME_QUESTION, options(A="overview.xlsx", B="not overview.xlsx"), ()),
        (NAME_QUESTION, options("overview.xlsx, from 1,000 EUR on", "Another"), ("overview.xlsx, from 1,000 EUR on",)),
        (f"{NAME_QUESTION} {BOUND_QUESTION}", options("overview.xlsx", "report.xlsx"), ()),
        (NAME_QUESTION, (), ()),
    ],
    ids=[
        *("none holds it", "only in a description", "one of thirty", "asked by the options alone", "about nothing"),
        *("two hold it, one by name", "two hold it", "the option asks for more", "one of two asked for", "no options"),
    ],
)
async def test_an_option_is_picked_if_it_says_what_was_asked_for_and_no_more(text, offers, picks):
    """Else the user writes, in the words of an answer without options; two values in one option are both asked for."""
    (reply,), _, (answer,) = await asked([Question(text=text, options=offers)], NAME, BOUND)
    assert reply.picked == picks
    if not picks:
        plain, *_ = await asked([Question(text=text)], NAME, BOUND)
        assert reply.text == plain[0].text
    assert answer.response_state == "answered"
    assert answer.readings[0].verdict == "right"


def test_what_all_options_say_is_no_choice():
    """A value that every option repeats is not what the question is about."""
    both = tuple(QuestionOption(label=str(n), holds=("S1", *((f"S{n}",) if n else ()))) for n in (0, 2))
    assert offered(both) == {"S2"}
    assert offered(both[:1]) == {"S1"}
    assert offered(()) == frozenset()


async def test_several_options_of_a_list_are_picked_together():
    """Two values in two options are two picks where the form takes several, else words."""
    text, offers = f"{NAME_QUESTION} {BOUND_QUESTION}", options("overview.xlsx", "1,000 EUR", "5 EUR")
    (several,), *_ = await asked([Question(text=text, options=offers, is_list=True)], NAME, BOUND)
    assert several.picked == ("overview.xlsx", "1,000 EUR")
    (one,), *_ = await asked([Question(text=text, options=offers)], NAME, BOUND)
    assert one.picked == ()


async def test_the_questions_of_a_call_are_one_batch():
    """All are recorded before the first answer, and a later answer knows what the earlier ones revealed."""
    stream = MemoryStream()
    user = RecordedUser(ExactSimulator(), knowing(NAME, BOUND), stream)
    await user.ask([Question(text=NAME_QUESTION), Question(text=BOUND_QUESTION)], "c1", 3, "built_in")
    await user.ask([Question(text=OTHER_QUESTION)], "c2", 4, "built_in")
    kinds = " ".join(type(event).__name__[8:] for event in stream.events)
    assert kinds == "Asked Asked Answered Answered Asked Answered"
    assert [e.batch_id for e in stream.events if isinstance(e, QuestionAsked)] == ["q1", "q1", None]


NAMES, AMOUNTS = {"enum": ["report.xlsx", "data.csv"]}, {"enum": ["1,000 EUR", "5 EUR"]}


@pytest.mark.parametrize(
    ("required", "result", "states"),
    [
        ((), {"action": "accept", "content": {"amount": "1,000 EUR"}}, ["dismissed", "answered"]),
        (("amount",), {"action": "accept", "content": {"amount": "1,000 EUR"}}, ["dismissed", "answered"]),
        (("name",), {"action": "cancel"}, ["dismissed", "dismissed"]),
    ],
)
async def test_a_form_answered_in_part(required, result, states):
    """What no option and no words can say stays out; if the form demands it, nothing of the form is answered."""
    params = form(
        required=required,
        name={"type": "string", "title": NAME_QUESTION, **NAMES},
        amount={"type": "string", "title": BOUND_QUESTION, **AMOUNTS},
    )
    got, answers = await answered(params, NAME, BOUND)
    assert got == result
    assert [each.response_state for each in answers] == states
    assert all((each.answer is None) == (each.response_state == "dismissed") for each in answers)


@pytest.mark.parametrize(
    ("field", "content"),
    [
        ({"type": "string"}, answer_with([NAME])),
        ({}, answer_with([NAME])),
        ({"type": "string", "enum": ["overview.xlsx", "b"]}, "overview.xlsx"),
        ({"type": "string", "enum": ["o", "b"], "enumNames": ["overview.xlsx", "B"]}, "o"),
        ({"type": "string", "oneOf": [{"const": 1, "title": "overview.xlsx"}, {"const": 2, "title": "B"}]}, 1),
        ({"type": "array", "items": {"type": "string", "enum": ["overview.xlsx", "b"]}}, ["overview.xlsx"]),
        ({"type": "array", "items": {"anyOf": [{"const": "o", "title": "overview.xlsx"}]}}, ["o"]),
    ],
)
async def test_what_is_filled_in_is_what_the_schema_names(field, content):
    """Titles are what a person reads, constants are what the form takes."""
    result, _ = await answered(form(NAME_QUESTION, answer=field), NAME)
    assert result == {"action": "accept", "content": {"answer": content}}


@pytest.mark.parametrize(("kind", "value"), [("number", 1000), ("integer", 1000)])
async def test_a_field_for_a_number_gets_the_number_of_the_answer(kind, value):
    """Words in a field of numbers would be refused."""
    result, _ = await answered(form(BOUND_QUESTION, least={"type": kind}), BOUND)
    assert result == {"action": "accept", "content": {"least": value}}


@pytest.mark.parametrize(
    "schema",
    [
        None,
        [],
        {"properties": []},
        {"properties": {}},
        {"properties": {f"f{n}": {} for n in range(51)}},
        {"properties": {"a": {"title": "x" * 20_001}}},
    ],
)
async def test_a_form_that_no_person_reads_is_declined(schema):
    """It asks nothing, so there is no question either."""
    result, answers = await answered({"message": "Hm", "requestedSchema": schema}, NAME)
    assert (result, answers) == ({"action": "decline"}, [])


@pytest.mark.parametrize(
    "field",
    [
        {"type": "object"},
        {"type": "array"},
        {"oneOf": "x", "enum": 3, "type": "array"},
        {"type": ["string"]},
        {"type": "string", "enum": [None, 3]},
    ],
)
async def test_a_field_of_a_strange_kind_is_left_open(field):
    """It is a question without an answer, and no crash."""
    result, (answer,) = await answered(form(NAME_QUESTION, strange=field), NAME)
    assert (result, answer.response_state) == ({"action": "cancel"}, "dismissed")


async def test_where_nobody_is_reached_the_question_stays_without_an_answer():
    """It is recorded with its state, and the form is declined."""
    stream = MemoryStream()
    user = RecordedUser(ExactSimulator(), knowing(NAME), stream)
    params = form(NAME_QUESTION, name=WORDS)
    assert await fill_in(user, fields_of(params, None), "c", 2, "elicitation", "declined") == {"action": "decline"}
    question, answer = stream.events
    assert (question.medium, question.action_index, answer.response_state) == ("elicitation", 2, "declined")
    assert answer.readings[0].asks_for == ("S1",)


def test_a_form_without_a_known_call_is_read_from_its_own_words():
    """A tool server's form has its question in its message and fields; an answer goes into the field."""
    (field,) = fields_of(form("Who are you?", name={"type": "string", "title": "Name"}), None)
    assert field.question.text == "Who are you?\nName"
    reply = Reply(state="answered", text="Ada")
    assert filled([field], [reply]) == {"action": "accept", "content": {"name": "Ada"}}


@pytest.mark.parametrize(
    ("field", "recommended"),
    [
        ({"type": "string", "enum": ["Red (Recommended)", "Blue"]}, "Red (Recommended)"),
        ({"type": "string", "enum": ["r", "b"], "enumNames": ["Red", "Blue"], "default": "b"}, "Blue"),
        ({"type": "boolean", "default": False}, "No"),
        ({"type": "string", "enum": ["Red", "Blue"]}, None),
        ({"type": "string", "default": "Red"}, None),
    ],
)
def test_what_a_form_recommends(field, recommended):
    """Agents write it behind the label, schemas have a default."""
    (read,) = fields_of(form("Which?", q=field), None)
    assert read.question.recommended == recommended


def test_words_that_go_with_a_pick():
    """Where a field demands a pick, words go with the one that says so, which is no option."""
    params = form(
        "Which?",
        ["q"],
        q={"type": "string", "enum": ["Red", "None of the above"]},
        q_note={"type": "string"},
    )
    (field,) = fields_of(params, None)
    assert [each.label for each in field.question.options] == ["Red"]
    content = {"q": "None of the above", "q_note": "Green."}
    assert filled([field], [Reply(state="answered", text="Green.")]) == {"action": "accept", "content": content}
    assert filled([field], [Reply(state="timed_out", text="")]) == {"action": "cancel"}
