"""The native agent: asks the model, executes its actions and returns the results, until the trial ends.

This file records the actions. The model caller records the calls, and the ask_user server records the questions. Limits
and endings are data, not exceptions.
"""

import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import anyio
import msgspec

from lhaw_record.recorder.events import ActionFinished, ModelResponded
from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.actions import TEXT_ACTION, Action, finished_text, tool_action
from lhaw_record.runners.base.conversation.ending import Ending, ended_by_failure, ended_by_reply
from lhaw_record.runners.base.conversation.injection import PlannedInjection, injected
from lhaw_record.runners.base.conversation.messages import (
    Message,
    Toolbox,
    ToolCall,
    ToolDefinition,
    ToolResult,
    insert_user_turn,
)
from lhaw_record.runners.base.errors import CostLimitNotKept, ModelBoundaryError, SandboxBoundaryError
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.models.protocol import ModelReply

Result = TypeVar("Result")

MAX_IDLE_TURNS = 3
SUBMIT = ToolDefinition(
    name="submit",
    description="Finish the task. Call this once, when everything is done.",
    input_schema={
        "type": "object",
        "properties": {"answer": {"type": "string", "description": "The final answer, or a one-line summary."}},
        "required": ["answer"],
    },
)


class RecordedModel(Protocol):
    """The agent's model. Its calls are recorded."""

    @property
    def total_usage(self) -> Usage:
        """Tokens and price of all calls so far."""
        ...

    async def request(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()
    ) -> tuple[ModelReply, ModelResponded]:
        """Send a request, and return the reply and its event, which the agent appends before it acts on the reply.

        Raises:
            ModelBoundaryError: There is no reply.
        """
        ...


class TrialUser(Protocol):
    """The user, who may respond late to what the agent has asked, and reacts to the end of its turns."""

    async def react(self, ending: str, action_index: int, *, is_handed_in: bool) -> tuple[bool, str | None]:
        """Return whether the end of a turn asks, and what the user says next, or None if they say nothing."""
        ...

    async def told_after(self, action_count: int) -> str | None:
        """Return what the user says by now about earlier questions, after so many actions, or None."""
        ...

    async def close(self) -> None:
        """Record that no open question gets an answer any more."""
        ...


class AgentClock(Protocol):
    """Measures the agent's own time."""

    @property
    def is_used_up(self) -> bool:
        """Whether the agent has used up its own time."""
        ...

    async def bound(self, work: Callable[[], Awaitable[Result]]) -> Result | None:
        """Do the work. Return None if the agent's own time ran out first."""
        ...


@dataclass(kw_only=True, eq=False)
class NativeAgent:
    """The native agent in one trial.

    Args:
        caller: The agent's recorded model.
        toolbox: The tools that the agent may use.
        recording: The trial's event stream.
        opening: The first messages: the system prompt, if there is one, and the task.
        ends_on_text: Whether a reply without tool calls is the final answer. Otherwise, the agent must call ``submit``.
        nudge: The user turn sent after a text that is not a final answer.
        max_turns: The maximum number of model replies.
        max_actions: The maximum number of actions. Further calls in a reply are neither executed nor counted. None for
            no limit.
        max_cost_usd: The maximum cost of the agent's own calls, in USD. None for no limit.
        injection: The message to inject, or None if the condition has none.
        trial_clock: Bounds the agent's own time. None for no limit.
        user: Responds to questions, and makes a second request. None if there is no such user.
    """

    caller: RecordedModel
    toolbox: Toolbox
    recording: Recording
    opening: tuple[Message, ...]
    ends_on_text: bool
    nudge: str
    max_turns: int
    max_actions: int | None = None
    max_cost_usd: float | None = None
    injection: PlannedInjection | None = None
    trial_clock: AgentClock | None = None
    user: TrialUser | None = None

    def __post_init__(self) -> None:
        self._messages = list(self.opening)
        self._tools = self.toolbox.tools if self.ends_on_text else (*self.toolbox.tools, SUBMIT)
        self._idle_turns = 0
        self._model_call_id = ""
        self.action_count = 0

    async def run(self) -> Ending:
        """Run until the agent submits, gives up or reaches a limit."""
        try:
            ending = await (self._turns() if self.trial_clock is None else self.trial_clock.bound(self._turns))
        except SandboxBoundaryError as error:
            if error.is_abuse:
                await self.skip_injection("the trial ended first (resource_abuse)")
            raise
        if ending is None:
            ending = Ending(ended_by="time_limit", final_answer="")
            await self.skip_injection("the trial ended first (time_limit)")
        return ending

    async def _turns(self) -> Ending:
        ending, turns = None, 0
        while ending is None:
            ending = self._limit_reached(turns) or await self._turn()
            turns += 1
        with anyio.CancelScope(shield=True):
            await self.skip_injection(f"the trial ended first ({ending.ended_by})")
        return ending

    async def skip_injection(self, reason: str) -> None:
        """Record what the agent is no longer told: the planned injection, if there is one left, and late answers."""
        if self.user is not None:
            await self.user.close()
        planned, self.injection = self.injection, None
        if planned is not None:
            self.recording.defer(injected(planned, status="skipped", reason=reason))
        await self.recording.append()

    def _limit_reached(self, turns: int) -> Ending | None:
        if turns >= self.max_turns:
            return Ending(ended_by="turn_limit", final_answer="")
        if self._has_no_action_left():
            return Ending(ended_by="action_limit", final_answer="")
        if self.max_cost_usd is not None:
            cost = self.caller.total_usage.cost_usd
            if cost is None:
                raise CostLimitNotKept(self.max_cost_usd)
            if cost >= self.max_cost_usd:
                return Ending(ended_by="cost_limit", final_answer="")
        return None

    def _has_no_action_left(self) -> bool:
        return self.max_actions is not None and self.action_count >= self.max_actions

    async def _turn(self) -> Ending | None:
        """Request one reply and execute its actions. Then, between turns, inject the message if it is due."""
        try:
            answered, responded = await self.caller.request(self._messages, self._tools)
        except ModelBoundaryError as error:
            if (ended_by := ended_by_failure(error.kind)) is None:
                raise
            return Ending(ended_by=ended_by, final_answer="")
        self.recording.defer(responded)  # until the first of its actions
        self._model_call_id = responded.call_id
        reply = answered.message
        if self.trial_clock and self.trial_clock.is_used_up:  # by this reply: it was paid for, but comes too late
            return Ending(ended_by="time_limit", final_answer="")
        self._messages.append(reply)
        if not reply.tool_calls:
            return await self._text_turn(reply, ended_by_reply(answered.finish_reason))
        self._idle_turns, ending = 0, None
        for call in reply.tool_calls:
            if self._has_no_action_left():
                return ending or Ending(ended_by="action_limit", final_answer="")
            ending = await self._act(call, ending)
        if ending is None:
            await self._inject_if_due()
            return None
        return await self._unless_asked_for_more(ending, reply.content)

    async def _unless_asked_for_more(self, ending: Ending, text: str = "") -> Ending | None:
        """Return the ending, or None if the agent handed in and the user now answers, or makes another request."""
        if ending.ended_by != "submitted":
            return ending
        await self.recording.append()  # the end of its last action, before anything waits
        has_asked, request = await self._reaction(f"{text}\n{ending.final_answer}", is_handed_in=True)
        if request is None and not has_asked:
            request = await self.toolbox.next_step()
        if request is None:
            return ending
        self._messages = insert_user_turn(self._messages, request)
        await self._inject_if_due()
        return None

    async def _reaction(self, words: str, *, is_handed_in: bool) -> tuple[bool, str | None]:
        """Return whether the end of a turn asks, and what the user says next, if they say anything."""
        if self.user is None:
            return False, None
        return await self.user.react(words, self.action_count, is_handed_in=is_handed_in)

    async def _text_turn(self, reply: Message, limit: EndedBy | None) -> Ending | None:
        """Take a reply without tool calls: a final answer, a model that cannot go on, or a turn that did nothing.

        A cut reply is no reason to stop: the next one may be shorter. What refuses or is full stays so.
        """
        index = await self._start_action(TEXT_ACTION)
        await self.recording.append(finished_text(index))
        if self.ends_on_text:
            return await self._unless_asked_for_more(Ending(ended_by=limit or "submitted", final_answer=reply.content))
        has_asked, says = (False, None) if limit else await self._reaction(reply.content, is_handed_in=False)
        if has_asked and says is None:
            return Ending(ended_by="submitted", final_answer=reply.content)
        self._idle_turns = 0 if has_asked else self._idle_turns + 1
        if self._idle_turns >= MAX_IDLE_TURNS or limit in ("refused", "context_limit"):
            return Ending(ended_by=limit or "gave_up", final_answer=reply.content)
        if not await self._inject_if_due():
            self._messages = insert_user_turn(self._messages, says or self.nudge)
        return None

    async def _act(self, call: ToolCall, ending: Ending | None) -> Ending | None:
        """Perform one tool call as an action: record its start, execute it, record its end, and add its result."""
        action = tool_action(call)
        arguments = action.arguments
        index = await self._start_action(action)
        began_ns = time.monotonic_ns()
        if ending is not None:
            result = ToolResult(text="Not executed: the task was already submitted.", is_error=True)
        elif arguments is None:
            result = ToolResult(text="The arguments are not a JSON object. Call the tool again.", is_error=True)
        elif call.name == SUBMIT.name and not self.ends_on_text:
            result = ToolResult(text="Submitted.")
            ending = Ending(ended_by="submitted", final_answer=str(arguments.get("answer", "")))
        else:
            result = await self._executed(call, arguments, index, began_ns)
        self.recording.defer(_finished(index, result, began_ns))  # until the next call or action
        self._messages.append(
            Message(role="tool", content=result.text, tool_call_id=call.call_id, result_of_action=index)
        )
        return ending

    async def _executed(self, call: ToolCall, arguments: dict[str, Any], index: int, began_ns: int) -> ToolResult:
        """Execute a call. If it is cut off, for example by the time limit, record that it finished with an error."""
        try:
            return await self.toolbox.call(call.name, arguments, call.call_id)
        except anyio.get_cancelled_exc_class():
            self._cut_off("the trial ended first", index, began_ns)
            raise
        except SandboxBoundaryError as error:
            if error.is_abuse:  # the trial is graded, so its last action needs an end
                self._cut_off(str(error), index, began_ns)
            raise

    def _cut_off(self, why: str, index: int, began_ns: int) -> None:
        self.recording.defer(_finished(index, ToolResult(text=f"Not finished: {why}.", is_error=True), began_ns))

    async def _inject_if_due(self) -> bool:
        """Insert what the user says by themselves, if that is due: an injection, or a response to an earlier question.

        No condition has both.
        """
        told = None if self.user is None else await self.user.told_after(self.action_count)
        planned = self.injection
        if told is None and planned is not None and planned.is_due(self.action_count):
            told, self.injection = planned.message, None
            await self.recording.append(injected(planned, status="injected", after_action=self.action_count))
        if told is not None:
            self._messages = insert_user_turn(self._messages, told)
        return told is not None

    async def _start_action(self, action: Action) -> int:
        """Count an action and make it durable before it is executed."""
        self.action_count += 1
        await self.recording.append(action.started(self.action_count, self._model_call_id))
        return self.action_count


def _finished(index: int, result: ToolResult, began_ns: int) -> ActionFinished:
    facts = msgspec.structs.asdict(result)
    duration_ms = round((time.monotonic_ns() - began_ns) / 1e6, 3)
    return ActionFinished(action_index=index, result=facts.pop("text"), duration_ms=duration_ms, **facts)
