"""Recorded model calls: makes each request durable before sending it, retries failures, and sums usage."""

import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import reduce
from typing import Any

import anyio
import msgspec

from lhaw_record.recorder.events import ModelCalled, ModelResponded
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.model import CallKind, Role
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.conversation.deltas import History
from lhaw_record.runners.base.conversation.ending import CUT, ENDLESS_REPLY
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition, new_messages_json
from lhaw_record.runners.base.errors import EndpointDown, ModelBoundaryError
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.experiment.tables import LIMITS
from lhaw_record.runners.models.call_outcomes import (
    FINAL_KINDS,
    RetryPolicy,
    delay_before_retry_s,
    failed,
    responded,
    tools_json,
)
from lhaw_record.runners.models.costs import NO_USAGE, add_usage
from lhaw_record.runners.models.exchanges import WireRecord, changed_parameters
from lhaw_record.runners.models.protocol import HostedModel, Model, ModelError, ModelReply, ModelRequest
from lhaw_record.runners.models.recorded_replies import RecordedReplies, ThreadMemory


class ModelCaller:
    """Makes and records the model calls of one thread of a trial, for one role.

    A call is recorded as a delta against the thread's previous call, whether that call succeeded or failed.

    Args:
        role: The role of the model: agent, simulated user, judge and others.
        thread_id: The thread's name, unique in the trial and the prefix of call ids.
        parameters: Generation parameters by their OpenAI names, sent with every call. The model may add what it needs.
        retry: Decides when to retry a failed call.
        request_timeout_s: Timeout of one request, in seconds.
        recorded: Replies of earlier runs. Requests that have one are not sent again.
        wire_record: Stores the bodies of requests and replies, if the run asks for that.
        trial_clock: Charges reply times to the agent. None for other roles.
        random_unit: Returns random numbers in [0, 1) for retry jitter.
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
        wire_record: WireRecord | None = None,
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
        self._limited = [name for name in LIMITS if isinstance(parameters.get(name), int)]
        self._retry = retry or RetryPolicy()
        self._request_timeout_s = request_timeout_s
        self._memory = ThreadMemory(recorded or {}, role, thread_id, model.name)
        self._wire_record = wire_record or WireRecord()
        self._trial_clock = trial_clock or TrialClock()
        self._clock = clock
        self._sleep = sleep
        self._random_unit = random_unit
        self._parameters_json: str | None = None
        self._form_known_by: str | None = None
        self._tools: tuple[ToolDefinition, ...] | None = None
        self._parent_call_id: str | None = None
        self._history = History()
        self._call_count = 0
        self.total_usage = NO_USAGE
        """The tokens and cost of all replies so far. The cost is None once any cost is unknown."""
        self.unknown_cost_calls = 0
        """The number of failed requests that may have been charged; the cost does not include them."""

    @property
    def usage_with_recalled(self) -> Usage:
        """The tokens and cost of all replies, including replies that earlier runs paid for."""
        return reduce(add_usage, (reply.usage for reply in self._memory.replies), self.total_usage)

    async def call(self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()) -> ModelReply:
        """Return the model's reply. The request, failures and reply are durable when this returns."""
        recalled = await self.recall(messages) if not tools else None
        if recalled is not None:
            return recalled
        reply, responded = await self.request(messages, tools)
        await self.recording.append(responded)
        return reply

    @property
    def model(self) -> Model:
        return self._model

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The generation parameters of the next call."""
        return self._parameters

    @contextmanager
    def more_room(self) -> Iterator[None]:
        """Double the length limit of replies during the block, up to the model's own limit."""
        with self.asking({name: self._parameters[name] * 2 for name in self._limited}, self._form_known_by):
            yield

    @contextmanager
    def asking(self, parameters: Mapping[str, Any], form_known_by: str | None) -> Iterator[None]:
        """Send additional parameters during the block, and record how JSON schema support is known."""
        before = self._parameters, self._form_known_by
        self._parameters, self._form_known_by, self._parameters_json = {**before[0], **parameters}, form_known_by, None
        try:
            yield
        finally:
            (self._parameters, self._form_known_by), self._parameters_json = before, None

    def is_cut(self, reply: ModelReply) -> bool:
        """Return whether a reply reached its length limit, by its finish reason or its token count.

        Some servers end a truncated reply with "stop".
        """
        limits = [self._parameters[name] for name in LIMITS if isinstance(self._parameters.get(name), int)]
        used = reply.usage.output_tokens
        return reply.finish_reason == CUT or (used is not None and bool(limits) and used >= min(limits))

    @property
    def cut_words(self) -> str:
        """Describe the problem of a truncated reply and its remedy."""
        limits = [f"{name} = {self._parameters[name]}" for name in LIMITS if name in self._parameters]
        return f"the reply was cut at {' and '.join(limits) or 'its limit'}; allow more in the model's parameters"

    async def recall(self, messages: Sequence[Message]) -> ModelReply | None:
        """Return the reply that an earlier run recorded for a request without tools, or None.

        Nothing is recorded. Later requests are not deltas against this one, because its events are in another stream.
        """
        return self._memory.reply(messages, await self._sent_parameters()) if self._memory else None

    async def request(
        self, messages: Sequence[Message], tools: Sequence[ToolDefinition] = ()
    ) -> tuple[ModelReply, ModelResponded]:
        """Send a request, and return the reply and its event.

        The caller must append the event before it acts on the reply. Appending it in one batch with the following
        ``action_started`` saves a disk sync per turn.
        """
        await self._sent_parameters()
        request = ModelRequest(
            messages=tuple(messages),
            tools=tuple(tools),
            parameters=self._parameters,
            timeout_s=self._request_timeout_s,
            cache_marks=self._model.cache_marks(messages, tools) if isinstance(self._model, HostedModel) else (),
        )
        began_s = self._clock()
        attempt, refusals = 1, 0
        answer_count: int | None = None
        call_kind: CallKind = "main"
        while True:
            call_id = await self._record_called(request, call_kind)
            asked_s = self._clock()
            try:
                reply = await self._answered(request)
            except ModelError as error:
                began_s += error.held_s
                sent_s = asked_s + error.held_s
                refusals += answer_count is not None and error.answer_count > answer_count
                answer_count = error.answer_count
                await self._wait_or_give_up(
                    call_id, error, attempt=attempt, refusals=refusals, began_s=began_s, sent_s=sent_s
                )
                attempt += error.outlook != "held"
                call_kind = "retry"
            else:
                latency_ms = round((self._clock() - asked_s - reply.held_s) * 1000.0, 3)
                if kept := await self._wire_record.kept(call_id, reply.exchange):
                    await self.recording.append(*kept)
                return reply, self._responded(call_id, reply, request.tools, latency_ms=latency_ms)

    async def _answered(self, request: ModelRequest) -> ModelReply:
        """Send one request to the model, and time it with the trial's clock."""
        asked = self._trial_clock.asked()
        try:
            reply = await self._model.respond(request)
        except ModelError as error:
            if error.kind == ENDLESS_REPLY and self.role != "agent":
                error.kind, error.is_retryable = "timeout", True  # only agents are measured; retry for other roles
            if error.kind == ENDLESS_REPLY:
                self._trial_clock.answered(asked)  # the model was working the whole time
            else:
                self._trial_clock.failed(asked, error.kind, str(error))
            raise
        except BaseException:
            self._trial_clock.failed(asked, "interrupted", "its model", holds_up=False)
            raise
        self._trial_clock.answered(asked)
        return reply

    async def _sent_parameters(self) -> str:
        if self._parameters_json is None:
            dropped: dict[str, Any] = {}
            if isinstance(self._model, HostedModel):
                self._parameters = await self._model.completed_parameters(self._parameters)
                names = await self._model.dropped_parameters(self._parameters)
                dropped = {name: self._parameters[name] for name in names}
            sent = {name: value for name, value in self._parameters.items() if name not in dropped}
            recorded = {**sent, **({"dropped_parameters": dropped} if dropped else {})}
            self._parameters_json = canonical_json(recorded).decode()
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
                form_known_by=self._form_known_by,
                cache_marks=request.cache_marks,
            )
        )
        self._parent_call_id, self._history, self._tools = call_id, history, request.tools
        return call_id

    async def _wait_or_give_up(
        self, call_id: str, error: ModelError, *, attempt: int, refusals: int, began_s: float, sent_s: float
    ) -> None:
        """Append ``model_failed``, then wait for the next attempt, unless the request gate does the waiting."""
        now_s = self._clock()
        delay_s = delay_before_retry_s(
            self._retry,
            attempt=attempt,
            refusals=refusals,
            elapsed_s=now_s - began_s,
            error=error,
            random_unit=self._random_unit(),
        )
        if delay_s is not None and delay_s >= self._trial_clock.patience_left_s:
            delay_s = None  # the trial would end first
        latency_ms = round((now_s - sent_s) * 1000.0, 3)
        event = failed(call_id, self.role, error, latency_ms=latency_ms, is_retried=delay_s is not None)
        self.unknown_cost_calls += event.has_unknown_cost
        with anyio.CancelScope(shield=True):  # this request may have used up the agent's time
            await self.recording.append(*await self._wire_record.kept(call_id, error.exchange), event)
        if delay_s is None:
            if error.outlook == "down":
                raise EndpointDown(f"{error} (model call {call_id})") from error
            tries = "1 attempt" if attempt == 1 else f"{attempt} attempts"
            if error.outlook == "held":
                tries = f"given up after {now_s - began_s:.0f} s, not counting the wait for the endpoint"
                if refusals >= self._retry.max_refusals:
                    tries = f"failed {refusals} times while other requests were answered"
                    if error.kind == "rate_limit":
                        tries = f"refused {refusals} times while others were answered; it may be too large for a limit"
            raise ModelBoundaryError(
                f"{error} (model call {call_id}, {tries})",
                kind=error.kind,
                is_retry_owed=error.kind not in FINAL_KINDS,
            ) from error
        await self._sleep(delay_s)

    def _responded(
        self, call_id: str, reply: ModelReply, tools: Sequence[ToolDefinition], *, latency_ms: float
    ) -> ModelResponded:
        """Count the reply, add it to the history and return its event."""
        self._history = self._history.extended([reply.message])
        self.total_usage = add_usage(self.total_usage, reply.usage)
        changes = None
        if reply.exchange is not None:
            changes = changed_parameters(msgspec.json.decode(self._parameters_json or "{}"), reply.exchange.sent)
        return responded(call_id, self.role, reply, tools, latency_ms=latency_ms, changes=changes)
