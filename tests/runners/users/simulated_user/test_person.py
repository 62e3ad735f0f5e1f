"""A person as the user: their answer reaches the agent, and who gave it, and how long it took, is on record."""

import itertools

import anyio
import pytest

from lhaw_record.recorder.events import QuestionAnswered, QuestionOption
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.users.ask_user.recorded_user import Question, RecordedUser
from lhaw_record.runners.users.simulated_user.person import GivenAnswer, PersonUser, give, open_questions
from tests.runners.users.simulated_user.people import (
    FULL_PROMPT,
    NAME,
    NAME_QUESTION,
    SENT_PROMPT,
    MemoryStream,
    knowing,
)

ASKER = {"question_id": "t1", "experiment": "e", "task": "payments", "agent": "a"}
DECLINED = "The user has declined to answer."


async def answered(folder, given, question, clock=None):
    """Return the reply to one question that a person answers, and the event, once the question is closed."""
    stream, ticks, replies = MemoryStream(), itertools.count(), []
    person = PersonUser(folder, ASKER, DECLINED)
    user = RecordedUser(person, knowing(NAME), stream, clock, clock=lambda: float(next(ticks)))

    async def ask():
        replies.extend(await user.ask([question], "c1", 3, "built_in"))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(ask)
        while not (shown := open_questions(folder)):  # noqa: ASYNC110  files give no event
            await anyio.sleep(0.01)
        assert (shown[0].question, shown[0].sent_prompt, shown[0].full_prompt) == (
            NAME_QUESTION,
            SENT_PROMPT,
            FULL_PROMPT,
        )
        assert give(folder, shown[0].question_id, given)
        assert not give(folder, shown[0].question_id, given)
    assert open_questions(folder) == []
    assert list(folder.iterdir()) == []
    (event,) = (each for each in stream.events if isinstance(each, QuestionAnswered))
    return replies[0], event


@pytest.mark.parametrize(
    ("text", "gives", "verdict"),
    [
        ("Call it overview.xlsx, please.", ["S1"], "right"),
        ("As you like.", [], "withheld"),
    ],
)
async def test_the_answer_is_recorded_with_its_person(tmp_path, text, gives, verdict):
    """The agent gets the person's words; what they give away is read by the rules."""
    folder = tmp_path / "questions"
    reply, event = await answered(
        folder, GivenAnswer(text=text, by="anna", saw_values=True), Question(text=NAME_QUESTION)
    )
    assert reply.text == event.answer == text
    assert (event.simulator, event.answered_by, event.saw_values) == ("person", "anna", True)
    assert [each.segment_id for each in event.revealed] == gives
    assert event.readings[0].verdict == verdict
    assert event.latency_ms == 1000.0


async def test_a_person_may_decline(tmp_path):
    """The agent is told so, and no answer is on record."""
    given = GivenAnswer(text=None, by="anna", saw_values=False)
    reply, event = await answered(tmp_path / "questions", given, Question(text=NAME_QUESTION))
    assert reply.text == DECLINED
    assert (event.answer, event.response_state, event.answered_by) == (None, "declined", "anna")


async def test_an_option_is_picked_by_its_label(tmp_path):
    """Who answers with a label has picked that option, and has said what it says."""
    options = (QuestionOption(label="First", description="overview.xlsx"), QuestionOption(label="Second"))
    question = Question(text=NAME_QUESTION, context="- First: overview.xlsx\n- Second", options=options)
    given = GivenAnswer(text="First", by="anna", saw_values=False)
    reply, event = await answered(tmp_path / "questions", given, question)
    assert reply.picked == event.picked == ("First",)
    assert [each.segment_id for each in event.revealed] == ["S1"]


async def test_the_time_of_a_person_is_not_the_agents(tmp_path):
    """A person may take longer than all limits of the trial: neither the agent's time nor patience runs out."""
    clock = TrialClock(max_seconds=0.3, patience_s=0.3)
    done = []

    async def work():
        stream = MemoryStream()
        user = RecordedUser(PersonUser(tmp_path / "q", ASKER, DECLINED), knowing(NAME), stream, clock)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(user.ask, [Question(text=NAME_QUESTION)], "c1", 3, "mcp")
            while clock.waited_s < 0.7:  # noqa: ASYNC110  time passes
                await anyio.sleep(0.05)
            (shown,) = open_questions(tmp_path / "q")
            give(tmp_path / "q", shown.question_id, GivenAnswer(text="x", by="anna", saw_values=False))
        done.append(stream.events[-1].answer)

    await clock.bound(work)
    assert done == ["x"]


async def test_the_question_of_a_dead_trial_is_not_shown(tmp_path):
    """A process that is killed leaves its file behind; nobody is asked to answer it."""
    folder = tmp_path / "questions"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(PersonUser(folder, ASKER, DECLINED).answer, NAME_QUESTION, "", knowing(NAME))
        while not open_questions(folder):  # noqa: ASYNC110  files give no event
            await anyio.sleep(0.01)
        (path,) = folder.glob("*.json")
        left = path.read_bytes()
        tasks.cancel_scope.cancel()
    path.write_bytes(left)
    assert open_questions(folder) == []
    assert not give(folder, "t1-1", GivenAnswer(text="x", by="anna", saw_values=False))
