"""A question is counted once, whatever the client calls it and however often; each has an answer of its own."""

import anyio
import pytest

from lhaw_record.runners.base.errors import UserSimulatorError
from lhaw_record.runners.users.ask_user.calls import Questions
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.server import AnswerDelivery, AskUserCall
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator, answer_with
from lhaw_record.runners.users.simulated_user.llm import LlmSimulator
from tests.runners.users.simulated_user.people import NAME, NAME_QUESTION, MemoryStream, ToldModel, knowing, said
from tests.runners.users.simulated_user.trials import pending_call

ANSWER = answer_with([NAME])
WORDS = {"question": NAME_QUESTION}


class Desk:
    """The questions of one trial, and what was recorded of them."""

    def __init__(self, group, simulator=None):
        self.stream = MemoryStream()
        self.pending = []
        self.handler = RecordedUser(simulator or ExactSimulator(), knowing(NAME), self.stream)
        self.questions = Questions(self.handler, lambda: self.pending, ("ask_user",))
        self.questions.group = group

    async def ask(self, state="done", **known):
        """Ask over a connection that ends in this state."""
        delivery = AnswerDelivery()
        text = await self.questions.answer(AskUserCall(question=NAME_QUESTION, delivery=delivery, **known))
        delivery.end(state)
        return text

    def joined(self):
        """Call and action of each recorded question."""
        return [(event.call_id, event.action_index) for event in self.stream.events if hasattr(event, "question")]


@pytest.fixture
async def desk():
    """A trial without pending calls."""
    async with anyio.create_task_group() as group:
        yield Desk(group)


async def test_a_question_is_joined_to_its_call_and_action(desk):
    """As the native agent has it: the call that asks, and the number of that action."""
    desk.pending = [pending_call("c1", WORDS, action_index=4)]
    assert await desk.ask() == ANSWER
    assert await desk.ask(call_id="c9") == ANSWER
    desk.pending = [pending_call("c2", WORDS, action_index=5)]
    assert await desk.ask(call_id="c2") == ANSWER
    assert desk.joined() == [("c1", 4), ("c9", None), ("c2", 5)]


async def test_the_same_tool_call_is_the_same_question(desk):
    """With the id of the model's call a repetition is known in any session, also when the answer had arrived."""
    for known in ({"request_id": 1}, {"request_id": 2, "session_id": "s"}, {"request_id": 9}):
        assert await desk.ask(call_id="c1", **known) == ANSWER
    assert await desk.ask(call_id="c2", request_id=1) == ANSWER
    assert desk.joined() == [("c1", None), ("c2", None)]


@pytest.mark.parametrize("session_id", [None, "s"])
async def test_the_same_request_after_a_lost_connection_is_the_same_question(desk, session_id):
    """The answer that did not arrive is given again."""
    for state in ("lost", "lost", "done"):
        assert await desk.ask(state, request_id=1, session_id=session_id) == ANSWER
    assert len(desk.joined()) == 1


async def test_a_number_that_comes_again_is_not_the_same_request(desk):
    """Clients that open a session for each call begin to count anew, some never count; what was answered is over."""
    await desk.ask(request_id=1, session_id="a")
    await desk.ask(request_id=1, session_id="a")
    await desk.ask(request_id=1, session_id="b")
    await desk.ask(request_id=1)
    await desk.ask("lost", request_id=2)
    await desk.ask(request_id="2")
    assert len(desk.joined()) == 6


async def test_other_words_are_another_question(desk):
    """Also under the same numbers."""
    await desk.ask("lost", request_id=1, session_id="s", call_id="c1")
    await desk.ask("lost", request_id=1, session_id="s", call_id="c1", context="I mean the file.")
    assert len(desk.joined()) == 2


async def test_a_call_that_is_sent_anew_is_the_same_question(desk):
    """A program that repeats a call under a new number, because no answer came, is known by the model's one call."""
    desk.pending = [pending_call("c1", WORDS)]
    await desk.ask("lost", request_id=1)
    await desk.ask(request_id=2)
    desk.pending = [pending_call("c2", WORDS, action_index=7)]
    await desk.ask(request_id=1)
    assert desk.joined() == [("c1", 3), ("c2", 7)]


async def test_a_later_call_with_the_same_words_is_another_question(desk):
    """Although the number is the same and the answer to the first was lost: the model asked twice."""
    desk.pending = [pending_call("c1", WORDS)]
    await desk.ask("lost", request_id=1)
    desk.pending = [pending_call("c2", WORDS, action_index=7)]
    await desk.ask(request_id=1)
    assert desk.joined() == [("c1", 3), ("c2", 7)]


async def test_two_equal_calls_of_one_batch_are_two_questions(desk):
    """Each takes a call of its own."""
    desk.pending = [pending_call("c1", WORDS, action_index=3), pending_call("c2", WORDS, action_index=4)]
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: desk.ask(request_id=1))
        group.start_soon(lambda: desk.ask(request_id=2))
    assert desk.joined() == [("c1", 3), ("c2", 4)]


async def test_a_repetition_waits_for_the_question_that_is_under_way():
    """The simulator is asked once, and everybody gets its answer."""
    model = ToldModel(said("Call it overview.xlsx.", "S1", "S1"))
    is_slow = anyio.Event()

    async def slowly(system, user, form):
        await is_slow.wait()
        return await model(system, user, form)

    answers = []
    async with anyio.create_task_group() as group:
        desk = Desk(group, LlmSimulator(slowly, "told"))

        async def ask():
            answers.append(await desk.ask(request_id=1, session_id="s"))

        for _ in range(3):
            group.start_soon(ask)
        await anyio.wait_all_tasks_blocked()
        is_slow.set()
    assert answers == ["Call it overview.xlsx."] * 3
    assert len(model.prompts) == len(desk.joined()) == 1


async def test_a_question_outlives_whoever_asked_it():
    """A client that leaves does not take the question back: it is answered, recorded, and given when it returns."""
    is_slow = anyio.Event()

    async def slowly(system, user, form):
        await is_slow.wait()
        return "Call it overview.xlsx."

    async with anyio.create_task_group() as group:
        desk = Desk(group, LlmSimulator(slowly, "told"))
        with anyio.move_on_after(0.01):
            await desk.ask(call_id="c1")
        is_slow.set()
        assert await desk.ask(call_id="c1") == "Call it overview.xlsx."
    assert [type(event).__name__ for event in desk.stream.events] == ["QuestionAsked", "QuestionAnswered"]


async def test_a_failed_answer_fails_the_trial_and_is_not_tried_again():
    """Every repetition gets the same failure, and whoever runs the trial is told."""
    async with anyio.create_task_group() as group:
        desk = Desk(group, LlmSimulator(ToldModel(UserSimulatorError("no connection", kind="connection")), "told"))
        for _ in range(2):
            with pytest.raises(UserSimulatorError, match="no connection"):
                await desk.ask(call_id="c1")
        await desk.handler.failed.wait()
        assert desk.handler.failure.boundary == "user_simulator"
    assert len(desk.joined()) == 1


async def test_nothing_is_asked_after_the_end(desk):
    """A trial that is over records nothing more, and that is no failure of the simulator."""
    desk.questions.close()
    with pytest.raises(UserSimulatorError, match="the trial is over"):
        await desk.ask()
    assert desk.stream.events == []
    assert desk.handler.failure is None
