"""The state of a trial at the gateway: served replies, action counts, injection. Only durable events change it."""

import msgspec

from lhaw_record.runners.base.conversation.deltas import History
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.experiment.values import ThreadRules
from lhaw_record.runners.models.gateway.action_ledger import ActionChanges, ActionLedger
from lhaw_record.runners.models.gateway.classification import Classification, opening_of
from lhaw_record.runners.models.gateway.declarations import ClientIds, Declared
from lhaw_record.runners.models.gateway.insertion import InjectionState, Placement
from lhaw_record.runners.models.gateway.served_replies import ReplyOccurrence, ServedReply
from lhaw_record.runners.models.gateway.threads import Thread, Threads
from lhaw_record.runners.models.gateway.wires.protocol import Body, Memory, WireRequest
from lhaw_record.runners.models.litellm_model import with_distinct_ids
from lhaw_record.runners.models.protocol import ModelReply


class RequestDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What one request means for its trial.

    ``sent`` holds the agent's messages and ``messages`` those for the model, both in canonical form. ``body`` holds the
    messages for the model in the wire's format. ``replaced_system`` is the request's first system text if it was
    replaced by the thread's earlier one.
    """

    request: WireRequest
    thread: Thread
    classification: Classification
    call_id: str
    client_ids: ClientIds
    declared: Declared
    found: dict[str, ReplyOccurrence]
    held: frozenset[str]
    summaries: frozenset[str]
    changes: ActionChanges
    placement: Placement | None
    sent: tuple[Message, ...]
    messages: tuple[Message, ...]
    replaced_system: str | None
    body: Body


class TrialState:
    """The state of one trial.

    Args:
        prompt: The task as given to the agent, or None if unknown.
        injection: The message to inject, if the condition has one.
        rules: The thread declarations of the agent's entry.
    """

    def __init__(self, prompt: str | None, injection: InjectionState | None, rules: ThreadRules | None = None) -> None:
        self.threads = Threads(prompt)
        self.rules = rules or ThreadRules()
        self.actions = ActionLedger()
        self.injection = injection
        self.memory: Memory = {}
        self._announced: dict[str, str] = {}
        self.calls_without_message = 0
        """The number of main-thread calls with no place for the message, although it had been inserted before."""
        self.is_main_guessed = False
        """Whether the trial ended with several conversations and no recognised main thread."""

    def call_begun(self, decision: RequestDecision, history: History) -> None:
        """Apply a recorded decision."""
        thread, request = decision.thread, decision.request
        if decision.classification.thread_id is None:
            self.threads.add(thread)
            thread.client_ids = decision.client_ids
            thread.forked_from = decision.classification.forked_from
            thread.name = decision.declared.thread
            thread.is_named = bool(decision.declared.how or decision.client_ids.names_sub_agent)
        if decision.classification.thread_id is None or decision.classification.is_restart:
            thread.opening = opening_of(request)
            thread.states_task = self.threads.states_task(request)
        if decision.classification.replaces is not None:
            self.threads[decision.classification.replaces].kind = "side"
        thread.kind = decision.classification.kind
        thread.call_count += 1
        held = (decision.found[call_id] for call_id in decision.held)
        mine = [each for each in held if each.reply.thread_id == thread.thread_id]
        thread.held = frozenset(each.reply.call_id for each in mine)
        thread.is_folded = any(each.evidence == "quotation" for each in mine)
        thread.summaries = decision.summaries
        summary = decision.classification.summary
        if summary is not None and summary.thread_id != thread.thread_id:
            self.threads[summary.thread_id].summaries |= {summary.call_id}
        thread.last_step = decision.declared.step
        thread.tools = tuple(tool.definition for tool in request.tools)
        thread.offered |= thread.tool_names
        thread.sent, thread.history = decision.sent, history
        thread.last_call_id, thread.last_state = decision.call_id, "waiting"
        latest = max(decision.found.values(), key=lambda found: found.reply.number, default=None)
        thread.waiting[decision.call_id] = latest.reply.call_id if latest else None
        for place in decision.found.values():
            if place.evidence == "place":
                self.threads.replies.add_text(place.reply, decision.sent[place.turn].content)
        if decision.classification.kind == "main":
            self._main_called(decision)
        self.actions.commit(decision.changes)
        if decision.placement is not None:
            self.injection = decision.placement.after
        elif thread.kind == "main" and self.injection is not None and self.injection.anchor is not None:
            self.calls_without_message += 1

    def _main_called(self, decision: RequestDecision) -> None:
        self.threads.forget_summaries(decision.found)
        if self.threads.is_reopened:
            self.threads.is_reopened, decision.thread.client_ids = False, decision.client_ids

    def call_failed(self, decision: RequestDecision) -> None:
        """Record that a call got no reply."""
        thread = decision.thread
        thread.waiting.pop(decision.call_id, None)
        self._announced = {name: by for name, by in self._announced.items() if by != decision.call_id}
        if thread.last_call_id == decision.call_id:
            thread.last_state = "failed"

    def call_answered(self, decision: RequestDecision, reply: ModelReply, served_ns: int) -> None:
        """Add a recorded reply to its thread."""
        thread = decision.thread
        thread.waiting.pop(decision.call_id, None)
        if thread.last_call_id == decision.call_id:
            thread.last_state = "served"
            thread.history = thread.history.extended([reply.message])
        served = ServedReply(
            number=len(self.threads.replies.all) + 1,
            call_id=decision.call_id,
            thread_id=thread.thread_id,
            message=reply.message,
            served_ns=served_ns,
            request_end=decision.sent[-1] if decision.sent else None,
        )
        self.threads.replies.add(served)
        thread.replies.append(served)
        if not reply.message.tool_calls:
            self.threads.remember_summary(served)

    def announce(self, decision: RequestDecision, call_id: str) -> bool:
        """Return whether a streamed tool call can keep its id; if so, reserve the id for this reply."""
        is_free = bool(call_id) and not self._is_taken(decision, call_id)
        is_free = is_free and all(call.call_id != call_id for each in decision.messages for call in each.tool_calls)
        if is_free:
            self._announced[call_id] = decision.call_id
        return is_free

    def _is_taken(self, decision: RequestDecision, call_id: str) -> bool:
        by = self._announced.get(call_id, decision.call_id)
        return by != decision.call_id or self.threads.replies.has_call(call_id)

    def distinct(self, decision: RequestDecision, reply: ModelReply) -> ModelReply:
        """Return the reply with new ids for tool calls whose ids were already served in this trial."""
        calls = with_distinct_ids(reply.message.tool_calls, decision.messages)
        if any(self._is_taken(decision, call.call_id) for call in calls):
            calls = with_distinct_ids(calls, [served.message for served in self.threads.replies.all])
        pairs = zip(reply.message.tool_calls, calls, strict=True)  # the agent has seen the announced ids
        calls = tuple(own if self._announced.get(own.call_id) == decision.call_id else new for own, new in pairs)
        if calls == reply.message.tool_calls:
            return reply
        return msgspec.structs.replace(reply, message=msgspec.structs.replace(reply.message, tool_calls=calls))

    @property
    def answered(self) -> int:
        """The number of conversations that got a reply."""
        return sum(bool(thread.replies) for thread in self.threads.all)

    def changes_at_end(self) -> ActionChanges:
        """Return the changes for the actions of the last reply, which no later request can show."""
        main = self._main_at_the_end()
        counted = [main] if main is not None else []
        if self.rules.sub_agents == "counted":
            counted += [thread for thread in self.threads.all if thread.kind == "sub_agent"]
        last = [
            thread.last_reply
            for thread in counted
            if thread.last_reply is not None
            and thread.last_call_id == thread.last_reply.call_id
            and thread.last_state == "served"
        ]
        return self.actions.changes_at_end(last)

    def _main_at_the_end(self) -> Thread | None:
        """Return the main thread, or the longest thread with a reply if no conversation was ever continued."""
        if self.threads.main is None:
            likely = self.threads.main_so_far
            answered = [thread for thread in self.threads.all if thread.replies]
            self.is_main_guessed = likely is None and bool(answered)
            longest = max(answered, key=lambda thread: len(thread.history.messages), default=None)
            chosen = likely or longest
            if chosen is not None:
                chosen.kind = "main"
        return self.threads.main
