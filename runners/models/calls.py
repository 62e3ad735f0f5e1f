"""The recorded call: every request durable before it is sent, repeated where that can help, every reply counted."""

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any, Protocol, TypeVar, runtime_checkable

import anyio

from recorder.canonical import canonical_json
from recorder.events import ModelCalled, ModelFailed, ModelResponded, RepliedToolCall
from recorder.events.model import CallKind, Role
from recorder.values import Usage
from runners.conversation import Message, ToolDefinition, new_messages_json
from runners.errors import ModelBoundaryError
from runners.models.history import History
from runners.models.protocol import Model, ModelError, ModelReply, ModelRequest
from runners.models.recorded_replies import RecordedReplies, ThreadMemory
from runners.models.retry import RetryPolicy, delay_before_retry_s
from runners.models.wire import tool_to_wire
from runners.recording import Recording
from runners.trial_clock import TrialClock

Number = TypeVar("Number", int, float)
CUT = "length"
"""The finish reason of a reply that ended for want of room: what stands in it is not the whole."""
_ROOM = ("max_tokens", "max_completion_tokens")
REFUSED_KINDS = frozenset({"bad_request", "context_window"})
"""The model refuses what the trial sends: every later attempt would pay for the same way to the same end."""
FINAL_KINDS = REFUSED_KINDS | {"authentication"}
"""Nothing that the run itself could change; another key may be there in the next one."""


@runtime_checkable
class DropsParameters(Protocol):
    """A model that leaves out generation parameters which its provider does not accept."""

    async def dropped_parameters(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the parameters that are not sent."""
        ...


class ModelCaller:
    """The calls of one thread of one role in one trial.

    A call is recorded as a delta against the thread's call before it, whether that was answered or failed.

    Args:
        model: The model that answers.
        recording: The trial's stream.
        role: On whose behalf the model is called.
        thread_id: The thread's name, unique in the trial; call ids begin with it.
        parameters: Generation parameters by their OpenAI names, sent with every call.
        retry: When to repeat a failed call.
        request_timeout_s: Seconds that one request may take.
        recorded: Replies of earlier runs; what they hold is not asked for again.
        trial_clock: Charges the agent for its model's replies; None for other roles.
        clock: Monotonic seconds.
        sleep: Waits a number of seconds.
        random_unit: Gives random numbers in [0, 1) that spread the waiting times.
    """

    def __init__(
        self,
        *,
        model: Model,
        recording: Recording,
        role: Role,
        thread_id: str,
        parameters: Mapping[str, Any],
        retry: RetryPolicy | None = None,
        request_timeout_s: float = 600.0,
        recorded: RecordedReplies | None = None,
        trial_clock: TrialClock | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = anyio.sleep,
        random_unit: Callable[[], float] = random.random,
    ) -> None:
        self._model = model
        self.recording = recording
        self.role: Role = role
        self._thread_id = thread_id
        self._parameters = dict(parameters)
        self._retry = retry or RetryPolicy()
        self._request_timeout_s = request_timeout_s
        self._memory = ThreadMemory(recorded or RecordedReplies(), role, thread_id, model.name)
        self._trial_clock = trial_clock or TrialClock()
        self._clock = clock
        self._sleep = sleep
        self._random_unit = random_unit
        self._parameters_json: str | None = None
        self._tools: tuple[ToolDefinition, ...] | None = None
        self._parent_call_id: str | None = None
        self._history = History()
        self._call_count = 0
        self.total_usage = Usage(cost_usd=0.0)
        """Tokens and price of all replies so far; the price is None as soon as one is unknown."""

    @property
    def usage_with_recalled(self) -> Usage:
        """Tokens and price of all replies, also of those that earlier runs paid for."""
        return reduce(add_usage, (reply.usage for reply in self._memory.replies), self.total_usage)

    async def call(self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> ModelReply:
        """Return the model's reply; request, failures and reply are durable when this returns.

        Raises:
            ModelBoundaryError: No usable reply within the bounds of the retry policy.
        """
        recalled = await self.recall(messages) if not tools else None
        if recalled is not None:
            return recalled
        reply, responded = await self.request(messages, tools)
        await self.recording.append(responded)
        return reply

    async def whole_reply(self, messages: Sequence[Message]) -> ModelReply:
        """Return the model's reply like :meth:`call`, asked for once more with more room where it was cut.

        Raises:
            ModelBoundaryError: No usable reply, or none that was not cut.
        """
        reply = await self.call(messages)
        if reply.finish_reason != CUT:
            return reply
        with self.more_room():
            reply = await self.call(messages)
            if reply.finish_reason == CUT:
                raise ModelBoundaryError(f"{self._model.name}: {self.cut_words}", kind="cut_reply", is_retry_owed=False)
        return reply

    @contextmanager
    def more_room(self) -> Iterator[None]:
        """Allow replies of twice the length while the block runs; without a limit of ours there is none to raise."""
        before = self._parameters
        self._parameters = {
            name: value * 2 if name in _ROOM and isinstance(value, int) else value for name, value in before.items()
        }
        self._parameters_json = None
        try:
            yield
        finally:
            self._parameters, self._parameters_json = before, None

    @property
    def cut_words(self) -> str:
        """What is wrong with a reply that was cut, and the remedy."""
        limits = [f"{name} = {self._parameters[name]}" for name in _ROOM if name in self._parameters]
        return f"the reply was cut at {' and '.join(limits) or 'its limit'}; allow more in the model's parameters"

    async def recall(self, messages: Sequence[Message]) -> ModelReply | None:
        """Return the reply to a request without tools that an earlier run recorded, or None.

        Nothing is recorded, and no later request is a delta against this one: its events are in another stream.
        """
        return self._memory.reply(messages, await self._sent_parameters()) if self._memory else None

    async def request(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()
    ) -> tuple[ModelReply, ModelResponded]:
        """Return the reply together with its event, which the caller must append before it acts on the reply.

        Appending it in one batch with the ``action_started`` that follows saves a disk sync per turn.

        Raises:
            ModelBoundaryError: No usable reply within the bounds of the retry policy.
        """
        request = ModelRequest(
            messages=tuple(messages),
            tools=tuple(tools),
            parameters=self._parameters,
            timeout_s=self._request_timeout_s,
        )
        began_s = self._clock()
        attempt = 1
        while True:
            call_id = await self._record_called(request, "main" if attempt == 1 else "retry")
            sent_s = self._clock()
            try:
                reply = await self._answered(request)
            except ModelError as error:
                await self._wait_or_give_up(call_id, error, attempt=attempt, began_s=began_s, sent_s=sent_s)
                attempt += 1
            else:
                return reply, self._responded(call_id, reply, latency_ms=round((self._clock() - sent_s) * 1000.0, 3))

    async def _answered(self, request: ModelRequest) -> ModelReply:
        """Ask the model once, on the trial's clock."""
        asked = self._trial_clock.asked()
        try:
            reply = await self._model.respond(request)
        except ModelError as error:
            self._trial_clock.failed(asked, error.kind, str(error))
            raise
        except BaseException:
            self._trial_clock.failed(asked, "interrupted", "its model", holds_up=False)
            raise
        self._trial_clock.answered(asked)
        return reply

    async def _sent_parameters(self) -> str:
        """The generation parameters as they are recorded."""
        if self._parameters_json is None:
            self._parameters_json = await _parameters_json(self._model, self._parameters)
        return self._parameters_json

    async def _record_called(self, request: ModelRequest, call_kind: CallKind) -> str:
        """Append ``model_called`` and return its call id."""
        parameters_json = await self._sent_parameters()
        shared_count, history = self._history.followed_by(request.messages)
        has_new_tools = request.tools != self._tools
        self._call_count += 1
        call_id = f"{self._thread_id}.{self._call_count}"
        await self.recording.append(
            ModelCalled(
                call_id=call_id,
                role=self.role,
                thread_id=self._thread_id,
                call_kind=call_kind,
                model=self._model.name,
                parameters_json=parameters_json,
                request_digest=history.digest,
                shared_count=shared_count,
                message_count=len(request.messages),
                new_messages_json=new_messages_json(request.messages, shared_count),
                parent_call_id=self._parent_call_id,
                tools_json=tools_json(request.tools) if has_new_tools else None,
            )
        )
        self._parent_call_id, self._history, self._tools = call_id, history, request.tools
        return call_id

    async def _wait_or_give_up(
        self, call_id: str, error: ModelError, *, attempt: int, began_s: float, sent_s: float
    ) -> None:
        """Append ``model_failed``, then wait for the next attempt.

        Raises:
            ModelBoundaryError: The failure cannot be retried, or the attempts or the time are used up.
        """
        now_s = self._clock()
        delay_s = delay_before_retry_s(
            self._retry, attempt=attempt, elapsed_s=now_s - began_s, error=error, random_unit=self._random_unit()
        )
        if delay_s is not None and delay_s >= self._trial_clock.patience_left_s:
            delay_s = None  # the trial would end before it
        latency_ms = round((now_s - sent_s) * 1000.0, 3)
        await self.recording.append(
            failed(call_id, self.role, error, latency_ms=latency_ms, is_retried=delay_s is not None)
        )
        if delay_s is None:
            tries = "1 attempt" if attempt == 1 else f"{attempt} attempts"
            raise ModelBoundaryError(
                f"{error} (model call {call_id}, {tries})",
                kind=error.kind,
                is_retry_owed=error.kind not in FINAL_KINDS,
            ) from error
        await self._sleep(delay_s)

    def _responded(self, call_id: str, reply: ModelReply, *, latency_ms: float) -> ModelResponded:
        """Count the reply, make it part of the history and return its event."""
        self._history = self._history.extended([reply.message])
        self.total_usage = add_usage(self.total_usage, reply.usage)
        return responded(call_id, self.role, reply, latency_ms=latency_ms)


def responded(call_id: str, role: Role, reply: ModelReply, *, latency_ms: float) -> ModelResponded:
    """Return the event of a reply."""
    return ModelResponded(
        call_id=call_id,
        role=role,
        text=reply.message.content,
        finish_reason=reply.finish_reason,
        latency_ms=latency_ms,
        tool_calls=tuple(
            RepliedToolCall(call_id=call.call_id, name=call.name, arguments_json=call.arguments_json)
            for call in reply.message.tool_calls
        ),
        input_tokens=reply.usage.input_tokens,
        output_tokens=reply.usage.output_tokens,
        cached_input_tokens=reply.usage.cached_input_tokens,
        cost_usd=reply.usage.cost_usd,
        served_model=reply.served_model,
    )


def failed(call_id: str, role: Role, error: ModelError, *, latency_ms: float, is_retried: bool) -> ModelFailed:
    """Return the event of a failure."""
    return ModelFailed(
        call_id=call_id,
        role=role,
        error_kind=error.kind,
        message=str(error),
        is_retried=is_retried,
        latency_ms=latency_ms,
        http_status=error.http_status,
        retry_after_s=error.retry_after_s,
    )


def add_usage(left: Usage, right: Usage) -> Usage:
    """Return the sum of two usages; a part that is unknown makes its sum unknown."""
    return Usage(
        input_tokens=_sum(left.input_tokens, right.input_tokens),
        output_tokens=_sum(left.output_tokens, right.output_tokens),
        cached_input_tokens=_sum(left.cached_input_tokens, right.cached_input_tokens),
        cost_usd=_sum(left.cost_usd, right.cost_usd),
    )


def _sum(left: Number | None, right: Number | None) -> Number | None:
    return None if left is None or right is None else left + right


async def _parameters_json(model: Model, parameters: Mapping[str, Any]) -> str:
    """Return the parameters as sent; what the model leaves out stands under ``dropped_parameters``."""
    dropped = await model.dropped_parameters(parameters) if isinstance(model, DropsParameters) else ()
    sent = {name: value for name, value in parameters.items() if name not in dropped}
    if dropped:
        sent["dropped_parameters"] = {name: parameters[name] for name in dropped}
    return canonical_json(sent).decode()


def tools_json(tools: Sequence[ToolDefinition]) -> str:
    """Return the tools of a call as they are recorded."""
    return canonical_json([tool_to_wire(tool) for tool in tools]).decode()
