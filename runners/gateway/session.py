"""One trial at the gateway: every request is classified, recorded and forwarded, every reply recorded, then served.

Decisions are made by the pure parts beside this file, from the request and from what the trial has served so far. Here
they become events, and what has been decided counts only once it is durable.
"""

import time
from collections.abc import Callable, Iterable
from typing import Literal

import anyio
import msgspec

from recorder.events import ModelFailed
from recorder.values import Usage
from runners.agent import PlannedInjection, injected
from runners.gateway.counting import Counted
from runners.gateway.deciding import decide, events_of
from runners.gateway.errors import Refusal, refusal_of
from runners.gateway.injecting import Injection
from runners.gateway.markers import markers_of
from runners.gateway.state import Decision, TrialState
from runners.gateway.upstream import Answer, Outgoing, Upstream
from runners.gateway.wires.protocol import Body, Wire, WireRequest
from runners.models.calls import add_usage, failed, responded
from runners.models.protocol import ModelError
from runners.recording import Recording
from runners.trial_clock import Stretch, TrialClock
from runners.unknown_costs import limit_not_kept

CLIENT_GONE = "client_gone"
"""The error kind of a call whose client did not wait for the reply."""


class PendingCall(msgspec.Struct, frozen=True, kw_only=True):
    """An action that was served and whose result no request has shown yet; ``action_index`` as it will be counted.

    A tool call, or a text: that has no ``call_id`` and the name ``message``, and an agent without tools executes it.
    """

    call_id: str | None
    name: str
    arguments_json: str
    action_index: int


class SessionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """What a trial may use: replies to its main thread, its actions, and USD for all of its calls; None is no limit.

    The agent executes the actions of a reply itself, so that a batch can pass the limit before a request shows it.
    """

    max_turns: int | None = None
    max_actions: int | None = None
    max_cost_usd: float | None = None


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """A reply on its way to the agent, and the call that it answers."""

    body: Body
    thread_id: str
    call_id: str


class _Call(msgspec.Struct, frozen=True, kw_only=True):
    """A call that waits for its reply."""

    decision: Decision
    outgoing: Outgoing
    began_ns: int
    asked: Stretch


class TrialSession:
    """The gateway's side of one trial attempt.

    Args:
        recording: The trial's stream.
        upstream: What answers.
        prompt: The task as the agent was given it; it helps to know a conversation that begins anew.
        injection: The message to inject, if the condition has one.
        limits: What the agent may use; a request beyond that is refused for good and not recorded.
        on_over: Called when the trial cannot go on: a limit is reached, or we have failed.
        trial_clock: Charges the agent for the replies that it gets.
        clock_ns: Monotonic nanoseconds.
        wall_s: Seconds since the epoch.
    """

    def __init__(
        self,
        *,
        recording: Recording,
        upstream: Upstream,
        prompt: str | None = None,
        injection: PlannedInjection | None = None,
        limits: SessionLimits | None = None,
        on_over: Callable[[], None] = lambda: None,
        trial_clock: TrialClock | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self.upstream = upstream
        self.total_usage = Usage(cost_usd=0.0)
        """Tokens and price of all replies so far; the price is None as soon as one is unknown."""
        self.failure: Exception | None = None
        """The first error of ours, of the recorder above all: the trial cannot go on."""
        self.last_failure: ModelFailed | None = None
        """The failure of the main thread's last call, of any call as long as there is no main thread; None once one was
        answered."""
        self.limit_reached: Literal["turn_limit", "action_limit", "cost_limit"] | None = None
        """The limit for which a request was refused."""
        self.reply_count = 0
        """The replies served so far, to all threads."""
        self.wires: set[str] = set()
        """The names of the wires on which replies were served."""
        self._recording = recording
        self._state = TrialState(prompt, Injection(planned=injection) if injection else None)
        self._limits = limits or SessionLimits()
        self._on_over = on_over
        self._trial_clock = trial_clock or TrialClock()
        self._clock_ns = clock_ns
        self._wall_s = wall_s
        self._lock = anyio.Lock()
        self._scopes: set[anyio.CancelScope] = set()
        self._is_idle = anyio.Event()
        self._is_closed = False

    @property
    def action_count(self) -> int:
        """Actions so far."""
        return self._state.actions.count

    @property
    def final_text(self) -> str:
        """The text of the main thread's last reply, empty before the first."""
        main = self._state.threads.main
        return main.last_reply.message.content if main and main.last_reply else ""

    def pending_calls(self) -> tuple[PendingCall, ...]:
        """Return the main thread's actions that are being executed, as far as the gateway can tell."""
        main = self._state.threads.main_so_far
        reply = main.last_reply if main else None
        if reply is None or self._state.actions.is_counted(reply):
            return ()
        if not reply.message.tool_calls:
            index = self.action_count + 1
            return (PendingCall(call_id=None, name="message", arguments_json="{}", action_index=index),)
        return tuple(
            PendingCall(
                call_id=call.call_id,
                name=call.name,
                arguments_json=call.arguments_json,
                action_index=self.action_count + position,
            )
            for position, call in enumerate(reply.message.tool_calls, start=1)
        )

    async def respond(self, wire: Wire, request: WireRequest, headers: Iterable[tuple[str, str]] = ()) -> Served:
        """Return the reply to a request; both are durable.

        Being cancelled means that the client went away.

        Raises:
            Refusal: There is no reply; the failure is recorded where a model was asked.
            RecorderError: The recorder failed.
        """
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await self._respond(wire, request, headers)
            except Refusal:
                raise
            except Exception as error:
                self.failure = self.failure or error
                self._on_over()
                raise
            finally:
                self._scopes.discard(scope)
                if not self._scopes:
                    self._is_idle.set()
        raise _over()

    def not_delivered(self, served: Served) -> None:
        """Take note that a reply did not reach the agent whole: the same request again is another attempt."""
        thread = self._state.threads[served.thread_id]
        if thread.last_call_id == served.call_id:
            thread.last_state = "failed"

    async def close(self, reason: str) -> None:
        """End the trial: nothing more is answered, and what is still open is recorded as it was left.

        Args:
            reason: How the trial ended, for an injection that never came.
        """
        self._is_closed = True
        while self._scopes:
            self._is_idle = anyio.Event()
            for scope in self._scopes:
                scope.cancel()
            await self._is_idle.wait()
        async with self._lock:
            await self._record_counted(self._state.actions_at_the_end())
            await self._record_counted(self._state.actions.unfinished(self._clock_ns()))
            injection, self._state.injection = self._state.injection, None
            if injection is not None and injection.anchor is None:
                skipped = f"the trial ended first ({reason})"
                await self._recording.append(injected(injection.planned, status="skipped", reason=skipped))

    async def _respond(self, wire: Wire, request: WireRequest, headers: Iterable[tuple[str, str]]) -> Served:
        async with self._lock:
            if self._is_closed:
                raise _over()
            with anyio.CancelScope(shield=True):  # what is appended must also be taken over
                decision = self._decided(wire, request, headers)
                await self._check_limits(decision)
                call = await self._begun(wire, decision)
        try:
            answer = await self.upstream.send(call.outgoing)
        except ModelError as error:
            await self._record_failure(call, error)
            raise refusal_of(error) from error
        except anyio.get_cancelled_exc_class():
            gone = ModelError("nobody waited for the reply any more", kind=CLIENT_GONE, is_retryable=True)
            await self._record_failure(call, gone)
            raise
        except BaseException:
            self._trial_clock.failed(call.asked, "crash", "its model", holds_up=False)
            raise
        self._trial_clock.answered(call.asked)
        with anyio.CancelScope(shield=True):
            async with self._lock:
                body = await self._record_reply(call, answer)
        return Served(body=body, thread_id=call.decision.thread.thread_id, call_id=call.decision.call_id)

    async def _check_limits(self, decision: Decision) -> None:
        """Refuse a request beyond a limit, with a status after which agents do not ask again; what it tells counts."""
        main, limits, cost_usd = self._state.threads.main, self._limits, self.total_usage.cost_usd
        action_count = self.action_count + len(decision.counted.started)
        if limits.max_turns is not None and main is not None and len(main.replies) >= limits.max_turns:
            self.limit_reached, what = "turn_limit", f"its {limits.max_turns} replies"
        elif limits.max_actions is not None and action_count >= limits.max_actions:
            self.limit_reached, what = "action_limit", f"its {limits.max_actions} actions"
        elif limits.max_cost_usd is not None and cost_usd is None:
            self.failure = self.failure or limit_not_kept(limits.max_cost_usd)
            self._on_over()
            raise Refusal(str(self.failure), status=403, kind="unknown_cost")
        elif limits.max_cost_usd is not None and cost_usd is not None and cost_usd >= limits.max_cost_usd:
            self.limit_reached, what = "cost_limit", f"what it may cost, {limits.max_cost_usd:g} USD"
        if self.limit_reached is not None:
            await self._record_counted(decision.counted)
            self._on_over()
            raise Refusal(f"the trial has used {what}; it takes no more requests", status=403, kind="limit_reached")

    async def _begun(self, wire: Wire, decision: Decision) -> _Call:
        """Record what a request means."""
        to_send = msgspec.structs.replace(decision.request, body=decision.body)
        outgoing = await self.upstream.prepare(wire, to_send, decision.messages)
        events, history = events_of(self._state, decision, outgoing, self.upstream.name)
        await self._recording.append(*events)
        self._state.call_begun(decision, history)
        return _Call(decision=decision, outgoing=outgoing, began_ns=self._clock_ns(), asked=self._trial_clock.asked())

    def _decided(self, wire: Wire, request: WireRequest, headers: Iterable[tuple[str, str]]) -> Decision:
        """Decide what a request means."""
        whole = wire.requests.whole(request, self._state.memory)
        return decide(self._state, wire, whole, markers_of(headers, whole.body), self._clock_ns())

    async def _record_failure(self, call: _Call, error: ModelError) -> None:
        decision = call.decision
        is_main = decision.thread.kind == "main" or self._state.threads.main is None
        self._trial_clock.failed(call.asked, error.kind, str(error), holds_up=is_main)
        event = failed(decision.call_id, "agent", error, latency_ms=self._took_ms(call), is_retried=False)
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._recording.append(event)
                self._state.call_failed(decision)
                if decision.thread.kind == "main" or self._state.threads.main is None:
                    self.last_failure = event

    async def _record_reply(self, call: _Call, answer: Answer) -> Body:
        """Make a reply durable, then part of the trial; returns its body in the wire's dialect."""
        decision, outgoing, replies = call.decision, call.outgoing, call.outgoing.wire.replies
        reply = self._state.distinct(decision, answer.reply)
        reply_id = f"{decision.call_id}-{self._clock_ns():x}"
        if answer.body is None:
            body = replies.written(reply, outgoing.request, reply_id, int(self._wall_s()))
        else:
            is_renamed = reply is not answer.reply
            ids = [call.call_id for call in reply.message.tool_calls]
            body = replies.with_call_ids(answer.body, ids) if is_renamed else answer.body
            body = replies.presented(body, outgoing.request, reply_id)
        await self._recording.append(responded(decision.call_id, "agent", reply, latency_ms=self._took_ms(call)))
        self._state.call_answered(decision, reply, self._clock_ns())
        outgoing.wire.requests.keep(decision.request, body, self._state.memory)
        self.total_usage = add_usage(self.total_usage, reply.usage)
        self.reply_count += 1
        self.wires.add(outgoing.wire.name)
        if decision.thread.kind == "main" or self._state.threads.main is None:
            self.last_failure = None
        return body

    async def _record_counted(self, counted: Counted) -> None:
        await self._recording.append(*counted.events)
        self._state.actions.commit(counted)

    def _took_ms(self, call: _Call) -> float:
        return round((self._clock_ns() - call.began_ns) / 1e6, 3)


def _over() -> Refusal:
    return Refusal("the trial is over; its address takes no more requests", status=404, kind="not_found")
