"""One trial's questions: recorded before and after, counted, and a failure that reaches the trial."""

import contextlib
import itertools
import threading
from functools import partial

import anyio
import pytest

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import ExchangeReading, QuestionAnswered, QuestionAsked, RevealedSegment
from lhaw_record.runners.base.errors import UserSimulatorError
from lhaw_record.runners.experiment.prompts import ResponseWords
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser, Response
from lhaw_record.runners.users.simulated_user import answers, llm
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator, answer_with, deferral
from lhaw_record.runners.users.simulated_user.llm import LlmSimulator
from lhaw_record.runners.users.simulated_user.matcher import judge_of
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

RULES = judge_of(None)


class BrokenSimulator:
    """A simulator with a bug of its own."""

    name = "broken"
    is_person = False

    async def answer(self, question, context, knowledge):
        """Fail in an unforeseen way."""
        raise ZeroDivisionError("division by zero")


async def test_question_and_answer_are_two_facts():
    """A question is recorded with its call and action, its answer with latency and what it revealed."""
    stream = MemoryStream()
    ticks = itertools.count()
    ask_user = RecordedUser(ExactSimulator(), knowing(NAME), stream, clock=lambda: next(ticks))
    reading = partial(ExchangeReading, judge=RULES, withheld=(), verdict="right")
    assert await ask_user(NAME_QUESTION, "Nearly done.", "call-1", 7) == answer_with([NAME])
    assert await ask_user(OTHER_QUESTION, "", None, 8) == deferral()
    assert stream.events == [
        QuestionAsked(
            question_id="q1", question=NAME_QUESTION, context="Nearly done.", call_id="call-1", action_index=7
        ),
        QuestionAnswered(
            question_id="q1",
            answer=answer_with([NAME]),
            simulator="exact",
            latency_ms=1000.0,
            revealed=(RevealedSegment(segment_id="S1", is_requested=True),),
            withheld=(),
            readings=(reading(request="segments", asks_for=("S1",), gives=("S1",)),),
        ),
        QuestionAsked(question_id="q2", question=OTHER_QUESTION, action_index=8),
        QuestionAnswered(
            question_id="q2",
            answer=deferral(),
            simulator="exact",
            latency_ms=1000.0,
            withheld=(),
            readings=(reading(request="something_else", asks_for=(), gives=()),),
        ),
    ]


async def test_the_question_is_durable_before_it_is_answered():
    """The simulator is not asked until the question is in the stream."""
    stream = MemoryStream()
    seen = []

    async def look(system, user, form):
        seen.append([type(event) for event in stream.events])
        return said("Overview.xlsx.", "S1", "S1")

    await RecordedUser(LlmSimulator(look, "told"), knowing(NAME), stream)(NAME_QUESTION, "", None, None)
    assert seen == [[QuestionAsked]]


async def test_a_simulator_error_is_kept_and_leaves_the_question_unanswered():
    """The first failure stays; a lone question is what a failed answer looks like."""
    stream = MemoryStream()
    first, second = (UserSimulatorError(text, kind="connection") for text in ("first", "second"))
    ask_user = RecordedUser(LlmSimulator(ToldModel(first, second), "told"), knowing(NAME), stream)
    for expected in (first, second):
        with pytest.raises(UserSimulatorError) as caught:
            await ask_user(NAME_QUESTION, "", None, 1)
        assert caught.value is expected
    assert ask_user.failure is first
    assert ask_user.failed.is_set()
    assert [type(event) for event in stream.events] == [QuestionAsked, QuestionAsked]


async def test_questions_at_the_same_time_are_answered_one_after_another():
    """Each is recorded at once; the next is answered with the knowledge of what the last one gave away."""
    stream = MemoryStream()
    may_speak = anyio.Event()
    told = []

    class SlowSimulator(ExactSimulator):
        async def answer(self, question, context, knowledge):
            told.append((question, sorted(knowledge.revealed)))
            await may_speak.wait()
            return await super().answer(question, context, knowledge)

    ask_user = RecordedUser(SlowSimulator(), knowing(NAME, BOUND), stream)
    async with anyio.create_task_group() as group:
        group.start_soon(ask_user, NAME_QUESTION, "", None, 1)
        group.start_soon(ask_user, BOUND_QUESTION, "", None, 2)
        await anyio.wait_all_tasks_blocked()
        assert [event.question_id for event in stream.events] == ["q1", "q2"]
        assert told == [(NAME_QUESTION, [])]
        may_speak.set()
    assert told[1] == (BOUND_QUESTION, ["S1"])
    assert [event.question_id for event in stream.events] == ["q1", "q2", "q1", "q2"]


async def test_a_bug_in_a_simulator_is_its_own_boundary():
    """Whatever a simulator raises is attributed to it."""
    ask_user = RecordedUser(BrokenSimulator(), knowing(NAME), MemoryStream())
    with pytest.raises(UserSimulatorError, match="broken failed: ZeroDivisionError"):
        await ask_user(NAME_QUESTION, "", None, 1)
    assert isinstance(ask_user.failure, UserSimulatorError)


async def test_a_failing_recorder_is_kept_too():
    """A question that cannot be recorded is not answered."""

    def fail(events):
        raise RecordingFailed("disk full")

    model = ToldModel("never given")
    ask_user = RecordedUser(LlmSimulator(model, "told"), knowing(NAME), MemoryStream(fail))
    with pytest.raises(RecordingFailed):
        await ask_user(NAME_QUESTION, "", None, 1)
    assert isinstance(ask_user.failure, RecordingFailed)
    assert model.prompts == []


@pytest.mark.parametrize("length", [10, 20_000])
async def test_a_long_question_without_an_answer_is_read_beside_the_event_loop(length, monkeypatch):
    """An agent chooses what that costs, with a user who does not answer and with one whom a model plays."""
    threads = []
    for module in (answers, llm):
        monkeypatch.setattr(module, "asked_segments", lambda *_: threads.append(threading.get_ident()) or frozenset())
    question = "a" * length
    words = ResponseWords(None)
    silent = RecordedUser(
        ExactSimulator(), knowing(NAME), MemoryStream(), response=Response(state="timed_out", words=words)
    )
    await silent(question, "", None, None)
    played = LlmSimulator(ToldModel("Ask me later.", "Ask me later."), "told")
    with contextlib.suppress(UserSimulatorError):
        await played.answer(question, "", knowing(NAME))
    assert len(threads) > 2
    assert (threading.get_ident() in threads) == (length == 10)
