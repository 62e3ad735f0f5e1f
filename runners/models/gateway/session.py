"""One trial at the gateway: records each request before sending it, and each reply before serving it.

A request is read by ``app.py``. ``decision.py`` determines its thread (``classification.py``), the actions it shows
(``action_ledger.py``) and where the injected message goes (``insertion.py``). This module turns the decision into
events, ``upstream.py`` gets the reply, this module records it, and ``delivery.py`` sends it. A decision takes effect
only once its events are durable.
"""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from typing import Literal

import anyio
import msgspec

from lhaw_record.recorder.events import ModelFailed, TrialFlagged
from lhaw_record.runners.base.clock import TrialClock, beside_loop
from lhaw_record.runners.base.conversation.ending import ENDLESS_REPLY
from lhaw_record.runners.base.conversation.injection import PlannedInjection, injected
from lhaw_record.runners.base.conversation.messages import ToolDefinition, ToolResult
from lhaw_record.runners.base.errors import CostLimitNotKept, EndpointDown, RunBudgetSpent
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.experiment.values import ThreadRules
from lhaw_record.runners.models.call_outcomes import failed, responded
from lhaw_record.runners.models.costs import NO_USAGE, add_usage
from lhaw_record.runners.models.exchanges import WireRecord, watching
from lhaw_record.runners.models.gateway import embeddings
from lhaw_record.runners.models.gateway.action_ledger import ActionChanges
from lhaw_record.runners.models.gateway.calls import (
    CLIENT_GONE,
    HUNG_UP,
    PATIENCE_S,
    PendingCall,
    PendingReply,
    SessionLimits,
    SessionReply,
    at_least,
)
from lhaw_record.runners.models.gateway.decision import decide, events_of, offers_asking
from lhaw_record.runners.models.gateway.errors import GatewayRefusal, refusal_of
from lhaw_record.runners.models.gateway.flags import flags_of
from lhaw_record.runners.models.gateway.insertion import InjectionState
from lhaw_record.runners.models.gateway.relay import OPEN, Outlet, StreamRelay
from lhaw_record.runners.models.gateway.trial_state import RequestDecision, TrialState
from lhaw_record.runners.models.gateway.upstream import OutgoingRequest, RoutingTable, Upstream, UpstreamAnswer
from lhaw_record.runners.models.gateway.wires.protocol import WireFormat, WireRequest
from lhaw_record.runners.models.protocol import ModelError, ModelReply

_OWN_ENDINGS = ("submitted", "gave_up")


class TrialSession:
    """The gateway's side of one trial attempt.

    Args:
        upstream: The model behind the gateway.
        trial_id: Under which pages find what the model is writing.
        prompt: The task as given to the agent, used to recognise a restarted conversation.
        ask_user_tool: The name of the tool that asks the user, if the condition has one.
        injection: The message to inject, if the condition has one.
        rules: The thread declarations of the agent's entry.
        limits: The trial's limits. A request beyond a limit is refused permanently and not recorded as a call.
        on_over: Called when the trial cannot continue, because a limit is reached or the gateway has failed.
        trial_clock: Charges reply times to the agent.
        routing: Maps a requested model name to a model. None if the upstream answers every request.
        wire_record: Stores the bodies of requests and replies, if the run asks for that.
        patience_s: How long a client waits that does not hang up on purpose. 0 if its network may fail.
    """

    def __init__(
        self,
        *,
        recording: Recording,
        upstream: Upstream,
        trial_id: str = "",
        prompt: str | None = None,
        ask_user_tool: str | None = None,
        injection: PlannedInjection | None = None,
        rules: ThreadRules | None = None,
        limits: SessionLimits | None = None,
        on_over: Callable[[], None] = lambda: None,
        trial_clock: TrialClock | None = None,
        routing: RoutingTable | None = None,
        wire_record: WireRecord | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        wall_s: Callable[[], float] = time.time,
        patience_s: float = PATIENCE_S,
    ) -> None:
        self.upstream = upstream
        self.routing = routing or RoutingTable(upstream)
        """Maps the model name in a request to the model that answers."""
        self.total_usage = NO_USAGE
        """Tokens and price of all replies so far. The price is None once the price of any reply is unknown."""
        self.failure: Exception | None = None
        """The first error on our side, such as a recorder error, after which the trial cannot continue."""
        self.last_failure: ModelFailed | None = None
        """The failure of the main thread's last call, or None if that call got a reply.

        Until there is a main thread, the last call of any thread counts.
        """
        self.last_finish_reason: str | None = None
        """The finish reason of the reply to that call. None if the reply has tool calls, and the agent can thus
        continue."""
        self.limit_reached: Literal["turn_limit", "action_limit", "cost_limit", "time_limit"] | None = None
        """The limit that a refused request would have exceeded. ``time_limit`` is set from outside."""
        self.reply_count = 0
        """The number of replies that have arrived so far, for all threads."""
        self.flags: tuple[TrialFlagged, ...] = ()
        """Flags of doubtful recordings, set once the trial has ended."""
        self.lacks_asking = ask_user_tool is not None
        """Whether the condition has a user to ask and no request so far offered the model a way to ask."""
        self.wires: set[str] = set()
        """The names of the wires whose requests got replies."""
        self._prompt, self._ask_user_tool = prompt or "", ask_user_tool or ""
        self._recording, self._trial_id = recording, trial_id
        self._state = TrialState(prompt, InjectionState(planned=injection) if injection else None, rules)
        self._limits = limits or SessionLimits()
        self._on_over = on_over
        self.trial_clock = trial_clock or TrialClock()
        self._wire_record = wire_record or WireRecord()
        self._clock_ns = clock_ns
        self._wall_s = wall_s
        self._patience_s = patience_s
        self._lock = anyio.Lock(fast_acquire=True)
        self._scopes: set[anyio.CancelScope] = set()
        self._is_idle = anyio.Event()
        self._is_closed = False
        self.is_stopping = False
        """Whether the agent is being ended from outside. A call that it leaves then is no decision of its own."""
        self._embedding_count = 0

    @property
    def action_count(self) -> int:
        return self._state.actions.count

    @property
    def final_text(self) -> str:
        """The text of the main thread's last reply, or an empty string before the first."""
        main = self._state.threads.main
        return main.last_reply.message.content if main and main.last_reply else ""

    def executed(self, action_index: int, result: ToolResult, took_ms: float) -> None:
        """Store the result and duration of an action that the gateway executed."""
        self._state.actions.executed(action_index, result, took_ms)

    def pending_calls(self) -> tuple[PendingCall, ...]:
        """Return the main thread's actions that the agent is executing, as far as the gateway knows."""
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

    async def respond(
        self,
        wire: WireFormat,
        request: WireRequest,
        headers: Iterable[tuple[str, str]] = (),
        stream: Outlet | None = None,
    ) -> SessionReply:
        """Return the reply to a request. Both have been recorded durably when this returns.

        If the provider streams, chunks that the agent cannot act on yet go to ``stream`` as they arrive. Cancellation
        means that the client has disconnected.
        """
        return await self._guarded(partial(self._respond, wire, request, headers, stream))

    async def embed(self, wire: WireFormat, request: WireRequest) -> SessionReply:
        """Return the answer to an embedding request. Both have been recorded durably when this returns."""
        return await self._guarded(partial(self._embed, wire, request))

    def not_delivered(self, served: SessionReply) -> None:
        """Record that the agent did not receive the whole reply, so that a repeat of the request counts as a retry."""
        thread = self._state.threads.get(served.thread_id)
        if thread is not None and thread.last_call_id == served.call_id:
            thread.last_state = "failed"

    async def close(self, reason: str) -> None:
        """End the trial. Later requests are refused, and open actions are recorded as unfinished."""
        self._is_closed = True
        await self.end_requests()
        async with self._lock:
            await self._count_what_is_left()
            has_ended_itself = reason in _OWN_ENDINGS
            self.flags = flags_of(self._state, has_ended_itself=has_ended_itself, ask_user_tool=self._ask_user_tool)
            await self._recording.append(*self.flags)
            injection, self._state.injection = self._state.injection, None
            if injection is not None and injection.anchor is None:
                skipped = f"the trial ended first ({reason})"
                await self._recording.append(injected(injection.planned, status="skipped", reason=skipped))

    async def begin_again(self, prompt: str) -> None:
        """Complete the recorded actions and drop pending requests, because the agent restarts with a new prompt."""
        await self.end_requests()
        await self.end_turn()
        async with self._lock:
            self._state.threads.reopen(prompt)
            self._prompt = prompt

    async def end_turn(self) -> None:
        """Complete the recorded actions, because the agent has ended its turn."""
        async with self._lock:
            await self._count_what_is_left()

    async def end_requests(self, patience_s: float = 0.0) -> None:
        """End the open requests, after this time in which they may see for themselves that their client is gone."""
        self._is_idle = anyio.Event()
        if self._scopes:
            with anyio.move_on_after(patience_s):
                await self._is_idle.wait()
        while self._scopes:
            self._is_idle = anyio.Event()
            for scope in self._scopes:
                scope.cancel()
            await self._is_idle.wait()

    async def _count_what_is_left(self) -> None:
        """Record the actions of the last reply, which no later request can show, and end the open ones."""
        await self._record_changes(self._state.changes_at_end())
        await self._record_changes(self._state.actions.unfinished(self._clock_ns()))

    async def _guarded(self, answer: Callable[[], Awaitable[SessionReply]]) -> SessionReply:
        """Answer a request unless the trial ends meanwhile. An error on our side ends the trial."""
        with anyio.CancelScope() as scope:
            self._scopes.add(scope)
            try:
                return await answer()
            except GatewayRefusal:
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

    async def _respond(
        self, wire: WireFormat, request: WireRequest, headers: Iterable[tuple[str, str]], stream: Outlet | None
    ) -> SessionReply:
        async with self._next_request():
            decision = await beside_loop(request.effort, self._decide, wire, request, headers)
            await self._check_limits(decision)
            with self._within_run_budget(decision):
                call, outgoing = await self._begin(wire, decision, stream)
        answer = await self._asked(call, stream)
        self.reply_count += 1  # before charging the clock, which may end the program at once
        self.wires.add(outgoing.wire.name)
        self.trial_clock.answered(call.interval)
        with anyio.CancelScope(shield=True):
            async with self._lock:
                served = await self._record_reply(call, decision, outgoing, answer)
        return served

    async def _embed(self, wire: WireFormat, request: WireRequest) -> SessionReply:
        async with self._next_request():
            await self._check_limits(None)
            upstream, is_routed = self.routing(request.model), self.routing.has(request.model)
            send = await upstream.embedding(wire, request, is_routed=is_routed)
            routed_to = upstream.name if is_routed else None
            event = embeddings.called(request, self._embedding_count + 1, routed_to=routed_to)
            with self._within_run_budget(None):
                await self._recording.append(event)
            self._embedding_count += 1
            began_ns, interval = self._clock_ns(), self.trial_clock.asked()
            call = PendingReply(
                call_id=event.call_id,
                send=send,
                began_ns=began_ns,
                interval=interval,
                failed_usage=partial(upstream.failed_usage, embeddings_of=routed_to or request.model),
            )
        answer = await self._asked(call)
        self.trial_clock.answered(call.interval)
        with anyio.CancelScope(shield=True):
            async with self._lock:
                await self._record_answer(call, answer.reply, answer)
        return SessionReply(
            body=answer.body or {}, thread_id=embeddings.EMBEDDINGS, call_id=call.call_id, headers=answer.headers
        )

    @asynccontextmanager
    async def _next_request(self) -> AsyncIterator[None]:
        """Serialize requests: enter the block after earlier requests. Events appended in the block also take effect."""
        async with self._lock:
            if self._is_closed:
                raise _over()
            with anyio.CancelScope(shield=True):
                yield

    async def _asked(self, call: PendingReply, outlet: Outlet | None = None) -> UpstreamAnswer:
        """Return the upstream's answer to a call. A failure is recorded and timed."""
        try:
            with watching() as exchanges, self.trial_clock.current(call.interval):
                return await call.send()
        except ModelError as error:
            await self._record_failure(call, error)
            if error.outlook == "down":
                self.failure = self.failure or EndpointDown(str(error))
                self._on_over()
            raise refusal_of(error) from error
        except anyio.get_cancelled_exc_class():
            took_s = call.took_ms(self._clock_ns(), 0.0) / 1e3
            is_working = call.relay is not None and call.relay.is_generating(self._patience_s * 10)
            is_early = outlet is not None and outlet.is_abandoned and (is_working or took_s < self._patience_s)
            is_early = is_early and not self.is_stopping
            message = f"the client left after {took_s:.1f} s, before the reply" + is_working * ", which had begun"
            gone = ModelError(message, kind=HUNG_UP if is_early else CLIENT_GONE, is_retryable=True)
            gone.held_s = call.interval.held_s
            gone.exchange = exchanges[-1] if exchanges else None
            await self._record_failure(call, gone)
            raise
        except BaseException:
            self.trial_clock.failed(call.interval, "crash", "its model", holds_up=False)
            raise

    async def _check_limits(self, decision: RequestDecision | None) -> None:
        """Refuse a request beyond a limit, with a status that agents do not retry.

        Actions shown by the request count towards the limit. An embedding request has no decision. Because an action
        may need it, it is still sent after the last turn and action, until another request is refused.
        """
        main, limits, cost_usd = self._state.threads.main, self._limits, self.total_usage.cost_usd
        changes = decision.changes if decision is not None else ActionChanges()
        turn_count = len(main.replies) if main is not None else 0
        action_count = self.action_count + len(changes.started)
        is_turn = decision is not None or self.limit_reached is not None
        what = ""
        if self.limit_reached == "time_limit":
            what = "its time"
        elif is_turn and limits.max_turns is not None and turn_count >= limits.max_turns:
            self.limit_reached, what = "turn_limit", f"its {limits.max_turns} replies"
        elif is_turn and limits.max_actions is not None and action_count >= limits.max_actions:
            self.limit_reached, what = "action_limit", f"its {limits.max_actions} actions"
        elif limits.max_cost_usd is not None and cost_usd is None:
            self.failure = self.failure or CostLimitNotKept(limits.max_cost_usd)
            self._on_over()
            raise GatewayRefusal(str(self.failure), status=403, kind="unknown_cost")
        elif limits.max_cost_usd is not None and cost_usd is not None and cost_usd >= limits.max_cost_usd:
            self.limit_reached, what = "cost_limit", f"its cost limit of {limits.max_cost_usd:g} USD"
        if self.limit_reached is not None:
            await self._record_changes(changes)
            self._on_over()
            raise GatewayRefusal(
                f"the trial has used {what}; it accepts no more requests", status=403, kind="limit_reached"
            )

    @contextmanager
    def _within_run_budget(self, decision: RequestDecision | None) -> Iterator[None]:
        """Refuse a request that the run has no budget for. The trial is then missing data, unless its work was already
        done.

        Its work was done if the main thread's last reply was an answer: only side calls and embeddings follow.
        """
        try:
            yield
        except RunBudgetSpent as error:
            is_aside = decision is None or decision.classification.kind == "side"
            if self._state.threads.main is None or self.last_finish_reason is None or not is_aside:
                self.failure = self.failure or error
                self._on_over()
            raise GatewayRefusal(str(error), status=403, kind="limit_reached") from error

    async def _begin(
        self, wire: WireFormat, decision: RequestDecision, stream: Outlet | None
    ) -> tuple[PendingReply, OutgoingRequest]:
        """Record a decision, then apply it to the trial's state."""
        to_send = msgspec.structs.replace(decision.request, body=decision.body)
        upstream = self.routing(to_send.model)
        outgoing = await upstream.prepare(wire, to_send, decision.messages)
        effort = decision.request.effort
        events, history = await beside_loop(effort, events_of, self._state, decision, outgoing, upstream.name)
        await self._recording.append(*events)
        self._state.call_begun(decision, history)
        if self.lacks_asking:
            asking = self._ask_user_tool, self._prompt
            self.lacks_asking = not await beside_loop(effort, offers_asking, decision.request, *asking)
        began_ns = self._clock_ns()
        reply_id, relay = f"{decision.call_id}-{began_ns:x}", None
        if outgoing.request.is_streamed:  # possibly only by us: a broken stream's usage is also known
            outlet = stream if to_send.is_streamed else None
            is_free = partial(self._state.announce, decision) if outlet is not None else lambda _: True
            relay = OPEN[self._trial_id, decision.call_id] = StreamRelay(
                outlet, decision.request, reply_id, is_free, self._clock_ns
            )
        call = PendingReply(
            call_id=decision.call_id,
            reply_id=reply_id,
            send=partial(upstream.send, outgoing, relay),
            began_ns=began_ns,
            interval=self.trial_clock.asked(),
            failed_usage=upstream.failed_usage,
            decision=decision,
            relay=relay,
        )
        return call, outgoing

    def _decide(self, wire: WireFormat, request: WireRequest, headers: Iterable[tuple[str, str]]) -> RequestDecision:
        """Expand a request from the wire's memory, and decide what it means."""
        whole = wire.requests.whole(request, self._state.memory)
        return decide(self._state, wire, whole, headers, self._clock_ns())

    async def _record_failure(self, call: PendingReply, error: ModelError) -> None:
        if error.kind in (ENDLESS_REPLY, HUNG_UP):
            self.trial_clock.answered(call.interval)  # the model was working, or the agent did not let it
        else:
            self.trial_clock.failed(call.interval, error.kind, str(error), holds_up=self._is_main(call))
        latency_ms = call.took_ms(self._clock_ns(), error.held_s)
        token_ms = call.first_token_ms(error.held_s)
        event = failed(call.call_id, "agent", error, latency_ms=latency_ms, is_retried=False, first_token_ms=token_ms)
        spent = (call.relay.partial_usage() if call.relay is not None else None) or call.failed_usage(error)
        event = msgspec.structs.replace(event, usage=spent)
        with anyio.CancelScope(shield=True):
            kept = await self._wire_record.kept(call.call_id, error.exchange)
            async with self._lock:
                await self._recording.append(*kept, event)
                if call.decision is not None:
                    self._state.call_failed(call.decision)
                if spent is not None:
                    self.total_usage = add_usage(self.total_usage, at_least(spent))
                if self._is_main(call):
                    self.last_failure = event

    async def _record_reply(
        self, call: PendingReply, decision: RequestDecision, outgoing: OutgoingRequest, answer: UpstreamAnswer
    ) -> SessionReply:
        """Record a reply and add it to the trial."""
        replies, relay = outgoing.wire.replies, call.relay
        reply = self._state.distinct(decision, answer.reply)
        ids = [each.call_id for each in reply.message.tool_calls]
        if answer.body is None:
            body = replies.written(reply, outgoing.request, call.reply_id, int(self._wall_s()))
        else:
            is_renamed = reply is not answer.reply
            body = replies.with_call_ids(answer.body, ids) if is_renamed else answer.body
            body = replies.presented(body, outgoing.request, call.reply_id)
        await self._record_answer(call, reply, answer, [tool.definition for tool in outgoing.request.tools])
        self._state.call_answered(decision, reply, self._clock_ns())
        outgoing.wire.requests.keep(decision.request, body, self._state.memory)
        return SessionReply(
            body=body,
            thread_id=decision.thread.thread_id,
            call_id=call.call_id,
            rest=relay.rest(ids) if relay is not None and relay.has_begun else None,
            headers=answer.headers,
        )

    async def _record_answer(
        self, call: PendingReply, reply: ModelReply, answer: UpstreamAnswer, tools: Sequence[ToolDefinition] = ()
    ) -> None:
        """Record an answer; its reply may have new ids for its tool calls."""
        event = responded(
            call.call_id,
            "agent",
            reply,
            tools,
            latency_ms=call.took_ms(self._clock_ns(), reply.held_s),
            changes=answer.changes,
            first_token_ms=call.first_token_ms(reply.held_s),
        )
        kept = await self._wire_record.kept(call.call_id, reply.exchange)
        await self._recording.append(*kept, event)
        self.total_usage = add_usage(self.total_usage, reply.usage)
        if self._is_main(call):
            self.last_failure = None
            self.last_finish_reason = None if reply.message.tool_calls else reply.finish_reason

    def _is_main(self, call: PendingReply) -> bool:
        """Return whether a call belongs to the main thread. Until there is a main thread, every call counts."""
        is_main = call.decision is not None and call.decision.thread.kind == "main"
        return is_main or self._state.threads.main is None

    async def _record_changes(self, changes: ActionChanges) -> None:
        await self._recording.append(*changes.events)
        self._state.actions.commit(changes)


def _over() -> GatewayRefusal:
    return GatewayRefusal("the trial is over; its address accepts no more requests", status=404, kind="not_found")
