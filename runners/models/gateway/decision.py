"""Decides what a request means for its trial: its thread, its actions, and where to insert the message.

The functions are pure: they depend only on the request and on the trial's state. ``session.py`` records the result.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from lhaw_record.recorder.events import AnyEvent, ModelCalled
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.deltas import History
from lhaw_record.runners.base.conversation.messages import Message, new_messages_json
from lhaw_record.runners.models.call_outcomes import tools_json
from lhaw_record.runners.models.gateway.action_ledger import ActionChanges, ActionLedger
from lhaw_record.runners.models.gateway.classification import Classification, Evidence, classify
from lhaw_record.runners.models.gateway.declarations import client_ids_of, declared_in
from lhaw_record.runners.models.gateway.equality import is_same, steady_system
from lhaw_record.runners.models.gateway.insertion import Placement
from lhaw_record.runners.models.gateway.served_replies import ReplyOccurrence, occurrence_in_fold
from lhaw_record.runners.models.gateway.threads import Thread
from lhaw_record.runners.models.gateway.trial_state import RequestDecision, TrialState
from lhaw_record.runners.models.gateway.upstream import OutgoingRequest
from lhaw_record.runners.models.gateway.wires.protocol import WireFormat, WireRequest


def decide(
    state: TrialState, wire: WireFormat, request: WireRequest, headers: Iterable[tuple[str, str]], now_ns: int
) -> RequestDecision:
    """Decide what a request means for its trial."""
    threads, headers = state.threads, list(headers)
    shown = Evidence(
        request=request,
        client_ids=client_ids_of(headers, request.body),
        declared=declared_in(state.rules, request, headers),
        found=threads.find(request),
    )
    classification = classify(threads, shown)
    known = classification.thread_id
    thread = threads[known] if known is not None else threads.new(classification.kind)
    found = {**_unshown(state, shown, classification, thread), **shown.found}
    call_id = f"{thread.thread_id}.{thread.call_count + 1}"
    summaries = _summaries(state, classification, thread)
    changes = _changes(state, request, classification, thread, found, summaries, now_ns)
    placement = _placement(state, request, found, classification, changes, (thread, call_id))
    sent, replaced = steady_system([turn.message for turn in request.turns], thread.sent)
    messages = _canonical_messages(state.actions, sent, found, changes)
    body = request.body
    if placement is not None and state.injection is not None:
        text = state.injection.planned.message
        place = request.turns[placement.after_turn].place
        assert place is not None, "the message is only placed after turns of the body's list"
        body = wire.requests.inserted(body, place, text)
        messages.insert(placement.after_turn + 1, Message(role="user", content=text))
    return RequestDecision(
        request=request,
        thread=thread,
        classification=classification,
        call_id=call_id,
        client_ids=shown.client_ids,
        declared=shown.declared,
        found=found,
        held=frozenset(shown.found if not shown.declared.is_step else found),
        summaries=summaries,
        changes=changes,
        placement=placement,
        sent=tuple(sent),
        messages=tuple(messages),
        replaced_system=replaced,
        body=body,
    )


def events_of(
    state: TrialState, decision: RequestDecision, outgoing: OutgoingRequest, model: str
) -> tuple[list[AnyEvent], History]:
    """Return the events that record a decision, in order, and the message history of its model call."""
    thread, parent = decision.thread, _parent(state, decision)
    shared_count, history = (parent.history if parent else History()).followed_by(decision.messages)
    tools = tuple(tool.definition for tool in outgoing.request.tools)
    parameters = dict(outgoing.recorded)
    if decision.replaced_system is not None:
        parameters["first_system_text"] = decision.replaced_system
    if outgoing.request.model and outgoing.request.model != model:
        parameters["requested_model"] = outgoing.request.model
    called = ModelCalled(
        call_id=decision.call_id,
        role="agent",
        thread_id=thread.thread_id,
        call_kind=decision.classification.call_kind,
        model=model,
        parameters_json=canonical_json(parameters).decode(),
        request_digest=history.digest,
        shared_count=shared_count,
        message_count=len(decision.messages),
        new_messages_json=new_messages_json(decision.messages, shared_count),
        parent_call_id=parent.last_call_id if parent else None,
        tools_json=tools_json(tools) if tools != thread.tools else None,
        kind_reason=decision.classification.reason,
        thread_change=decision.classification.change,
    )
    insertion = decision.placement.events if decision.placement else ()
    return [*decision.changes.events, *insertion, called], history


def offers_asking(request: WireRequest, tool: str, prompt: str) -> bool:
    """Return whether a request offers the model a way to ask its user.

    That is a tool of this name with any prefix, a tool or system text that speaks of it, as agents whose actions are
    code describe their tools, or a user turn that names it more often than the trial's prompt does.
    """
    named = re.compile(rf"{re.escape(tool)}\b")  # Qwen Code speaks of another one, ask_user_question
    texts = [text for each in request.tools for text in (each.definition.name, each.definition.description)]
    texts += [turn.message.content for turn in request.turns if turn.message.role == "system"]
    most = len(named.findall(prompt))
    said = (turn.message.content for turn in request.turns if turn.message.role == "user")
    return any(map(named.search, texts)) or any(len(named.findall(text)) > most for text in said)


def _parent(state: TrialState, decision: RequestDecision) -> Thread | None:
    """Return the thread that this call's delta is based on: its own, the one it was forked from, or None."""
    if decision.thread.last_call_id is not None:
        return decision.thread
    forked_from = decision.classification.forked_from
    return state.threads[forked_from] if forked_from is not None else None


def _unshown(
    state: TrialState, shown: Evidence, classification: Classification, thread: Thread
) -> dict[str, ReplyOccurrence]:
    """Return the thread's last reply if it was executed although the request does not show it.

    A declaration says so, or the history was compacted: agents compact between two steps.
    """
    last = thread.last_reply
    if last is None or classification.is_retry or classification.kind == "side" or last.call_id in shown.found:
        return {}
    if shown.declared.is_step and (shown.declared.step or "") != thread.last_step:
        return state.threads.shown_at_end(shown.request, thread)
    is_step = last.message.tool_calls or not thread.has_tools
    is_carried_out = classification.change == "compacted" and is_step and last is not classification.summary
    place = occurrence_in_fold(shown.request.turns, last, None) if is_carried_out else None
    return {last.call_id: place} if place is not None and not state.actions.is_counted(last) else {}


def _summaries(state: TrialState, classification: Classification, thread: Thread) -> frozenset[str]:
    """Return the thread's calls whose replies were summaries rather than actions."""
    new = [reply for reply in thread.replies if reply is classification.summary]
    return thread.summaries | {reply.call_id for reply in new if not state.actions.is_counted(reply)}


def _changes(
    state: TrialState,
    request: WireRequest,
    classification: Classification,
    thread: Thread,
    found: Mapping[str, ReplyOccurrence],
    summaries: frozenset[str],
    now_ns: int,
) -> ActionChanges:
    """Return the action changes shown by a request of the main thread, or of a side call that contains its history."""
    forked_from = classification.forked_from
    if classification.kind == "side" and forked_from is not None:
        thread = state.threads[forked_from]
    is_counted = thread.kind == "main" or classification.kind == "main"
    is_counted = is_counted or (
        state.rules.sub_agents == "counted" and "sub_agent" in (thread.kind, classification.kind)
    )
    if not is_counted:
        return ActionChanges()
    replies = [reply for reply in thread.replies if reply.call_id not in summaries]
    has_tools = bool(request.tools) or thread.has_tools
    return state.actions.changes_in(replies, found, request.turns, now_ns=now_ns, has_tools=has_tools)


def _placement(
    state: TrialState,
    request: WireRequest,
    found: dict[str, ReplyOccurrence],
    classification: Classification,
    changes: ActionChanges,
    call: tuple[Thread, str],
) -> Placement | None:
    if state.injection is None:
        return None
    thread, call_id = call
    newly_started = {reply.call_id for _, reply, _ in changes.started}
    started = [reply for reply in thread.replies if reply.call_id in newly_started or state.actions.is_counted(reply)]
    return state.injection.placement_in(
        request.turns,
        found,
        kind=classification.kind,
        thread_id=thread.thread_id,
        model_call_id=call_id,
        last_started=started[-1] if started else None,
        action_count=state.actions.count + len(changes.started),
        reason=classification.reason,
        is_reopened=state.threads.is_reopened,
    )


def _canonical_messages(
    actions: ActionLedger, sent: Sequence[Message], found: Mapping[str, ReplyOccurrence], changes: ActionChanges
) -> list[Message]:
    """Return the agent's messages, with replies as they were served and results that reference their actions."""
    messages = list(sent)
    index_of = {key: start.action_index for key, _, start in changes.started}
    results = {end.action_index: end.result for _, end in changes.finished}
    for place in found.values():
        if is_same(messages[place.turn], place.reply.message):
            messages[place.turn] = place.reply.message
        for position, at in enumerate(place.results):
            index = index_of.get((place.reply.call_id, position)) or actions.index_of(place.reply.call_id, position)
            if at is not None and index is not None:
                messages[at] = actions.with_recorded_result(messages[at], index, results.get(index))
    return messages
