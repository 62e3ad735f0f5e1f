"""The native agent's loop: what counts as an action, when the injection lands, how a trial ends."""

import msgspec
import pytest

from lhaw_record.recorder.events import ActionFinished, ActionStarted, ClarificationInjected, ModelResponded
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.agents.agent_loop import MAX_IDLE_TURNS, NativeAgent
from lhaw_record.runners.base.conversation.injection import PlannedInjection
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition, ToolResult, is_clean_boundary
from lhaw_record.runners.base.errors import ModelBoundaryError
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.users.ask_user.prose import TurnUser
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge
from tests.support.canned_model import CannedModel, MemoryRecording, text_reply, tool_reply


class EchoToolbox:
    """One tool that returns its text."""

    tools = (ToolDefinition(name="echo", description="Echo.", input_schema={"type": "object"}),)

    def __init__(self, recording):
        self.recording = recording
        self.seen_at_execution = []
        self.steps = []

    async def next_step(self):
        """Return the next request of the task."""
        return self.steps.pop(0) if self.steps else None

    async def call(self, name, arguments, call_id):
        """Remember what was recorded when the tool ran."""
        self.seen_at_execution.append(list(self.recording.events))
        if name != "echo":
            return ToolResult(text=f"There is no tool {name!r}.", is_error=True)
        return ToolResult(text=str(arguments.get("text")))


def agent_of(answers, **options):
    """An agent over a canned model, its recording, model and toolbox."""
    recording, model = MemoryRecording(), CannedModel(answers)
    toolbox = EchoToolbox(recording)
    caller = ModelCaller(model=model, recording=recording, role="agent", thread_id="main", parameters={})
    settings = {"ends_on_text": False, "nudge": "Go on.", "max_turns": 10, **options}
    opening = (Message(role="user", content="Do it."),)
    agent = NativeAgent(caller=caller, toolbox=toolbox, recording=recording, opening=opening, **settings)
    return agent, recording, model, toolbox


def echo(number, text="x"):
    """One call of the echo tool."""
    return (f"call_{number}", "echo", f'{{"text":"{text}"}}')


def submit(number, answer="done"):
    """One call of submit."""
    return (f"call_{number}", "submit", f'{{"answer":"{answer}"}}')


def of(recording, kind):
    """The recorded events of one type."""
    return [event for event in recording.events if isinstance(event, kind)]


def injection(target):
    """An injection due after some action."""
    return PlannedInjection(percent=50, target_action=target, message="By the way: blue.", segment_ids=("S1",))


async def test_every_tool_call_is_an_action_durable_before_it_runs():
    """Two calls in one reply are two actions; when a tool runs, its start and the paid reply are already recorded.

    When the next request leaves or the next tool runs, so are the results before, in the same commits.
    """
    agent, recording, _, toolbox = agent_of([tool_reply(echo(1), echo(2, "y")), tool_reply(submit(3, "42"))])
    ending = await agent.run()
    assert [[type(event).__name__ for event in batch] for batch in recording.batches] == [
        ["ModelCalled"],
        ["ModelResponded", "ActionStarted"],
        ["ActionFinished", "ActionStarted"],
        ["ActionFinished", "ModelCalled"],
        ["ModelResponded", "ActionStarted"],
        ["ActionFinished"],
    ]
    assert (ending.ended_by, ending.final_answer, agent.action_count) == ("submitted", "42", 3)
    assert [event.action_index for event in of(recording, ActionStarted)] == [1, 2, 3]
    assert [event.result for event in of(recording, ActionFinished)] == ["x", "y", "Submitted."]
    first = toolbox.seen_at_execution[0]
    assert isinstance(first[-2], ModelResponded)
    assert isinstance(first[-1], ActionStarted)


@pytest.mark.parametrize("ends_on_text", [False, True])
async def test_a_follow_up_comes_once_when_the_work_is_handed_in(ends_on_text):
    """The second request is a user turn after a clean boundary, the user is told of it, and the next answer counts."""
    hand_in = (
        [text_reply("first"), text_reply("second")]
        if ends_on_text
        else [tool_reply(submit(1, "first"), echo(2)), tool_reply(submit(3, "second"))]
    )
    known = UserKnowledge(full_prompt="Do it in green.", sent_prompt="Do it.", removed=())
    user = RecordedUser(
        ExactSimulator(), msgspec.structs.replace(known, after_follow_up=known), recording := MemoryRecording()
    )
    agent, _, model, _ = agent_of(
        hand_in, ends_on_text=ends_on_text, user=TurnUser(user, recording, None, "Now in green.")
    )
    ending = await agent.run()
    assert (ending.ended_by, ending.final_answer) == ("submitted", "second")
    last = model.requests[-1].messages
    assert [message.content for message in last if message.role == "user"] == ["Do it.", "Now in green."]
    assert is_clean_boundary(last)


@pytest.mark.thorough
async def test_a_message_that_is_due_when_a_step_is_handed_in_comes_after_the_next_request():
    """Both are user turns of one conversation, and the actions count on."""
    hand_in = [tool_reply(submit(number)) for number in (1, 2, 3)]
    agent, recording, model, toolbox = agent_of(hand_in, injection=injection(2))
    toolbox.steps = ["Now test it.", "Now document it."]
    assert (await agent.run()).ended_by == "submitted"
    users = [message.content for message in model.requests[-1].messages if message.role == "user"]
    assert users == ["Do it.", "Now test it.", "Now document it.", "By the way: blue."]
    (event,) = of(recording, ClarificationInjected)
    assert (event.status, event.after_action, agent.action_count) == ("injected", 2, 3)


async def test_no_follow_up_comes_after_a_limit():
    """An agent that did not hand in gets no second request."""
    user = TurnUser(None, MemoryRecording(), None, "Now in green.")
    agent, _, model, _ = agent_of([tool_reply(echo(1))], max_turns=1, user=user)
    assert (await agent.run()).ended_by == "turn_limit"
    assert user.may_go_on
    assert len(model.requests) == 1


async def test_the_injection_waits_for_the_whole_batch():
    """Due after action 1, inside a parallel batch of two, it lands after action 2, when every call has its result."""
    agent, recording, model, _ = agent_of(
        [tool_reply(echo(1), echo(2)), tool_reply(echo(3)), tool_reply(submit(4))], injection=injection(1)
    )
    await agent.run()
    (event,) = of(recording, ClarificationInjected)
    assert (event.status, event.target_action, event.after_action) == ("injected", 1, 2)
    second = model.requests[1].messages
    assert second[-1] == Message(role="user", content="By the way: blue.")
    assert [message.role for message in second] == ["user", "assistant", "tool", "tool", "user"]
    assert is_clean_boundary(second)
    assert model.requests[2].messages[: len(second)] == second


async def test_an_injection_that_never_came_is_recorded_with_its_reason():
    """A trial that ends before the action leaves a skipped injection, never silence."""
    agent, recording, _, _ = agent_of([tool_reply(submit(1))], injection=injection(5))
    await agent.run()
    (event,) = of(recording, ClarificationInjected)
    assert (event.status, event.after_action) == ("skipped", None)
    assert "submitted" in event.reason


async def test_an_injection_replaces_the_nudge_after_a_text_turn():
    """Text alone is one action and a clean boundary; the injected turn stands where the nudge would."""
    agent, _, model, _ = agent_of([text_reply("Thinking."), tool_reply(submit(1))], injection=injection(1))
    await agent.run()
    assert [message.content for message in model.requests[1].messages] == ["Do it.", "Thinking.", "By the way: blue."]


async def test_an_agent_that_only_talks_gives_up():
    """After some turns of text alone the trial ends as gave_up, with the last text as its answer."""
    agent, recording, model, _ = agent_of([text_reply("Hm.")])
    ending = await agent.run()
    assert (ending.ended_by, ending.final_answer) == ("gave_up", "Hm.")
    assert len(model.requests) == agent.action_count == MAX_IDLE_TURNS
    assert {event.kind for event in of(recording, ActionStarted)} == {"text"}
    assert model.requests[1].messages[-1].content == "Go on."


async def test_text_is_the_answer_where_the_benchmark_says_so():
    """With ends_on_text there is no submit tool, and the first text ends the trial."""
    agent, _, model, _ = agent_of([tool_reply(echo(1)), text_reply("It is 42.")], ends_on_text=True)
    ending = await agent.run()
    assert (ending.ended_by, ending.final_answer) == ("submitted", "It is 42.")
    assert [tool.name for tool in model.requests[0].tools] == ["echo"]


@pytest.mark.parametrize("arguments", ["{not json", "[1, 2]", '"text"', '{"text": "\\ud800"}'])
async def test_broken_arguments_are_an_action_with_an_error(arguments):
    """Malformed arguments count as one action, reach no tool, and the agent is told; raw text is recorded."""
    agent, recording, _, toolbox = agent_of([tool_reply(("c1", "echo", arguments)), tool_reply(submit(2))])
    await agent.run()
    started, finished = of(recording, ActionStarted)[0], of(recording, ActionFinished)[0]
    assert (started.kind, started.arguments_json) == ("malformed", arguments)
    assert finished.is_error
    assert toolbox.seen_at_execution == []


async def test_an_unknown_tool_is_a_result_not_a_failure():
    """The agent sees an error and may go on."""
    agent, recording, _, _ = agent_of([tool_reply(("c1", "fly", "{}")), tool_reply(submit(2))])
    assert (await agent.run()).ended_by == "submitted"
    assert of(recording, ActionFinished)[0].is_error


async def test_calls_after_submit_in_the_same_reply_are_counted_but_not_executed():
    """Submitting ends the work; what stands behind it in the batch is an action without effect."""
    agent, recording, _, toolbox = agent_of([tool_reply(submit(1), echo(2))])
    ending = await agent.run()
    assert (ending.ended_by, agent.action_count, toolbox.seen_at_execution) == ("submitted", 2, [])
    assert of(recording, ActionFinished)[1].is_error


async def test_a_model_that_never_submits_meets_the_turn_limit():
    """The trial ends as turn_limit with no answer, and is graded on what it left."""
    agent, _, model, _ = agent_of([tool_reply(echo(1))], max_turns=4)
    ending = await agent.run()
    assert (ending.ended_by, ending.final_answer, len(model.requests)) == ("turn_limit", "", 4)


async def test_the_action_limit_ends_a_trial_before_the_next_call_of_the_model():
    """With all actions used nothing more is asked; the trial ends as action_limit with no answer."""
    agent, _, model, toolbox = agent_of([tool_reply(echo(1), echo(2))], max_actions=4)
    ending = await agent.run()
    assert (ending.ended_by, ending.final_answer, agent.action_count) == ("action_limit", "", 4)
    assert (len(model.requests), len(toolbox.seen_at_execution)) == (2, 4)


async def test_calls_beyond_the_action_limit_are_neither_executed_nor_counted():
    """The limit holds inside of a batch too; what the reply called beyond it stands in the reply only."""
    agent, recording, model, toolbox = agent_of([tool_reply(echo(1), echo(2), echo(3))], max_actions=2)
    assert (await agent.run()).ended_by == "action_limit"
    assert (agent.action_count, len(toolbox.seen_at_execution), len(model.requests)) == (2, 2, 1)
    assert [event.action_index for event in of(recording, ActionFinished)] == [1, 2]
    assert len(of(recording, ModelResponded)[0].tool_calls) == 3


async def test_the_last_action_may_be_the_answer():
    """Submitting as the last action that there is, also in front of more calls, is a submission."""
    agent, _, _, _ = agent_of([tool_reply(echo(1)), tool_reply(submit(2, "42"), echo(3))], max_actions=2)
    ending = await agent.run()
    assert (ending.ended_by, ending.final_answer, agent.action_count) == ("submitted", "42", 2)


async def test_a_trial_that_costs_too_much_ends():
    """The next call is not made once the trial's own limit is reached."""
    priced = msgspec.structs.replace(tool_reply(echo(1)), usage=Usage(cost_usd=0.5))
    agent, _, model, _ = agent_of([priced], max_cost_usd=1.0)
    assert (await agent.run()).ended_by == "cost_limit"
    assert len(model.requests) == 2


async def test_a_limit_that_nobody_can_keep_ends_the_trial_as_missing_data():
    """After a reply of unknown cost the next call is not made: the trial failed, and no attempt would go better."""
    agent, _, model, _ = agent_of([tool_reply(echo(1))], max_cost_usd=1.0)
    with pytest.raises(ModelBoundaryError, match=r"max_cost_usd_per_trial = 1 cannot be enforced") as caught:
        await agent.run()
    assert (caught.value.kind, caught.value.is_retry_owed, len(model.requests)) == ("unknown_cost", False, 1)
