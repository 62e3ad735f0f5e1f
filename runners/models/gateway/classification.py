"""Classifies each request of a trial by thread: the main thread, a sub-agent, or a side call.

The first rule that applies decides:

1. Declared: a declaration names the thread.
2. Retry: the request repeats a conversation that got no reply, or has a header that counts attempts. Exception: if the
   agent was just started again for another request, rule 7 applies as if there were no main thread yet.
3. Sub-agent by header: a name that ends in ``-subagent``, ``parent-...-id``, or an ``agent-id`` that is not the main
   thread's.
4. Side call (a summary, title or plan): the request contains a thread's reply but offers no tools; if the thread has no
   tools either, the request must keep less than half of the thread's system texts. Also, before rule 2, a request for
   one token, which keeps a cache alive.
5. Forked sub-agent: the request contains a reply that a waiting call already continues.
6. Continuation of the latest thread whose replies the request contains, as turns, folded into one text, or summarised.
7. New conversation. Before there is a main thread, a conversation with tools becomes the main thread; one without tools
   is a side call, and the first of these that continues becomes the main thread. Later, it is the main thread restarted
   if it has its ``thread-id``, or its task or opening and the same tools. Otherwise it is a sub-agent if it has tools,
   else a side call.

The reason is recorded with every call, because some histories are ambiguous.
"""

from collections.abc import Iterable

import msgspec

from lhaw_record.recorder.events.model import CallKind, ThreadChange
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.experiment.tables import LIMITS
from lhaw_record.runners.models.costs import token_count
from lhaw_record.runners.models.gateway.declarations import ClientIds, Declared
from lhaw_record.runners.models.gateway.equality import (
    SHORTEST_SUMMARY,
    is_prefix,
    is_same,
    keeps_half,
    quotes_text,
    shared_letters,
    steady_system,
)
from lhaw_record.runners.models.gateway.served_replies import ReplyOccurrence, ServedReply
from lhaw_record.runners.models.gateway.threads import Thread, ThreadKind, Threads
from lhaw_record.runners.models.gateway.wires.protocol import WireRequest
from lhaw_record.runners.models.streams.joining import fields

_LENGTH_LIMITS = (*LIMITS, "max_output_tokens")
_TAKEN_OVER = 3
"""Number of replies after which a conversation with the main thread's history replaces the main thread."""


class Classification(msgspec.Struct, frozen=True, kw_only=True):
    """The thread that a request belongs to, and why. ``thread_id`` is None for a new thread.

    ``kind`` is the thread's kind from now on. ``is_restart`` is true if the thread begins again without its history.
    ``replaces`` names a thread that was mistaken for the main one. ``change`` is recorded as ``thread_change``.
    ``summary`` is the reply that a compacted history begins with or quotes.
    """

    thread_id: str | None
    kind: ThreadKind
    reason: str
    is_retry: bool = False
    is_restart: bool = False
    forked_from: str | None = None
    replaces: str | None = None
    change: ThreadChange | None = None
    summary: ServedReply | None = None

    @property
    def call_kind(self) -> CallKind:
        """The call's kind as it is recorded."""
        return "retry" if self.is_retry else self.kind


class Evidence(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its evidence: client ids, declarations, and the served replies that it contains."""

    request: WireRequest
    client_ids: ClientIds
    declared: Declared
    found: dict[str, ReplyOccurrence]

    @property
    def messages(self) -> list[Message]:
        return [turn.message for turn in self.request.turns]

    @property
    def has_tools(self) -> bool:
        return bool(self.request.tools)

    @property
    def latest(self) -> ReplyOccurrence | None:
        """The most recently served reply that the request contains."""
        return max(self.found.values(), key=lambda each: each.reply.number, default=None)

    def latest_of(self, threads: Iterable[Thread]) -> ReplyOccurrence | None:
        """Return the most recently served reply of some threads that the request contains."""
        wanted = {thread.thread_id for thread in threads}
        mine = (each for each in self.found.values() if each.reply.thread_id in wanted)
        return max(mine, key=lambda each: each.reply.number, default=None)


def classify(threads: Threads, shown: Evidence) -> Classification:
    """Classify a request by thread."""
    latest = shown.latest
    decided = (
        _declared(threads, shown)
        or _ping(shown)
        or _retried(threads.all, shown)
        or _reopened(threads, shown)
        or _by_header(threads, shown)
        or (_continuation(threads, shown, latest) if latest else _new_conversation(threads, shown))
    )
    if decided.thread_id is None or decided.is_retry or decided.change is not None:
        return decided
    thread = threads[decided.thread_id]
    change = _change(thread, shown, decided)
    summary = _summary(threads, thread, shown) if change == "compacted" else None
    return msgspec.structs.replace(decided, change=change, summary=summary)


def _change(thread: Thread, shown: Evidence, decided: Classification) -> ThreadChange | None:
    """Return how a request shortens its thread's history, judged by the replies in the thread's previous request."""
    if decided.is_restart:
        return "restarted"
    lost = [reply.number for reply in thread.replies if reply.call_id in thread.held - shown.found.keys()]
    kept = [each.reply.number for each in shown.found.values() if each.reply.thread_id == thread.thread_id]
    if not lost:
        return None
    return "compacted" if min(lost) < max(kept, default=0) else "rewound"


def _summary(threads: Threads, thread: Thread, shown: Evidence) -> ServedReply | None:
    """Return the reply that summarises a compacted history which begins with it or quotes it, or None."""
    told = threads.held_summary(_told(shown))
    if told is not None and told.call_id not in shown.found:
        return told
    first = min(shown.found.values(), key=lambda each: each.turn, default=None)
    if first is None or first.reply.message.tool_calls:
        return None
    is_aside = threads[first.reply.thread_id].kind == "side"
    return first.reply if is_aside or first.reply is thread.last_reply else None


def _declared(threads: Threads, shown: Evidence) -> Classification | None:
    """Classify a request by its declaration, if it has one."""
    declared, main = shown.declared, threads.main
    if not declared.how:
        return None
    thread = threads.named(declared.thread, has_tools=shown.has_tools) if declared.thread else None
    if declared.is_main and thread is None:
        thread = main
    elif declared.is_main is False and declared.thread is None and not declared.is_side:
        held = shown.latest_of(each for each in threads.all if each is not main)
        thread = threads[held.reply.thread_id] if held else None
    retried = _retried([thread] if thread else [], shown)
    if retried is not None:
        return retried
    kind = _declared_kind(shown, main, thread)
    is_restart = thread is not None and shown.latest_of([thread]) is None and not declared.is_step
    return Classification(
        thread_id=thread.thread_id if thread else None,
        kind=kind,
        reason=declared.how,
        is_restart=is_restart,
        forked_from=shown.latest.reply.thread_id if thread is None and shown.latest is not None else None,
        replaces=main.thread_id if main is not None and kind == "main" and main is not thread else None,
        change="promoted" if thread is not None and thread.kind != kind else None,
    )


def _declared_kind(shown: Evidence, main: Thread | None, thread: Thread | None) -> ThreadKind:
    """Return the kind of a declared thread. If only names are declared, the first thread is the main thread."""
    declared = shown.declared
    if declared.is_side:
        return "side"
    if declared.is_main is not None:
        is_agent = shown.has_tools or declared.thread is not None
        return "main" if declared.is_main else "sub_agent" if is_agent else "side"
    if main is None:
        return "main" if shown.has_tools or thread is not None else "side"
    if thread is not None:
        return thread.kind
    return "sub_agent" if shown.has_tools or not main.has_tools else "side"


def _ping(shown: Evidence) -> Classification | None:
    """Classify a one-token request, which only keeps the provider's cache alive. None for other requests."""
    parameters = shown.request.parameters
    limits = [parameters.get(name) for name in _LENGTH_LIMITS]
    limits.append(fields(parameters.get("generationConfig")).get("maxOutputTokens"))
    if not any(count is not None and count <= 1 for count in map(token_count, limits)):
        return None
    held_by = shown.latest.reply.thread_id if shown.latest is not None else None
    return Classification(thread_id=None, kind="side", reason="asks for one token at most", forked_from=held_by)


def _retried(threads: Iterable[Thread], shown: Evidence) -> Classification | None:
    """Classify a retry, that is, a repeated call whose reply never arrived. None for other requests."""
    messages = shown.messages
    for thread in reversed(list(threads)):
        if len(thread.sent) != len(messages) or shown.has_tools != thread.has_tools:
            continue
        if not is_prefix(thread.sent, steady_system(messages, thread.sent)[0]):
            continue
        is_same_step = shown.declared.step is not None and shown.declared.step == thread.last_step
        why = {
            "failed": f"the same conversation as call {thread.last_call_id}, which got no reply",
            "waiting": f"the same conversation as call {thread.last_call_id}, which is still waiting",
            "served": f"a header counts it as another attempt of call {thread.last_call_id}",
        }[thread.last_state]
        if thread.last_state != "served" or shown.client_ids.is_retry or is_same_step:
            return Classification(thread_id=thread.thread_id, kind=thread.kind, reason=why, is_retry=True)
    return None


def _reopened(threads: Threads, shown: Evidence) -> Classification | None:
    """Assign the first conversation after a restart of the agent to the main thread; its ids may have changed."""
    main = threads.main
    if not threads.is_reopened or main is None or shown.client_ids.names_sub_agent or shown.found:
        return None
    if shown.has_tools != main.has_tools:
        return None
    if not main.has_tools and not (threads.states_task(shown.request) and _begins_as(main, shown)):
        return None
    reason = f"thread {main.thread_id} of the agent that was started again for another request"
    return Classification(thread_id=main.thread_id, kind="main", reason=reason, is_restart=True)


def _by_header(threads: Threads, shown: Evidence) -> Classification | None:
    main, client_ids, latest = threads.main, shown.client_ids, shown.latest
    is_other_agent = client_ids.agent is not None and main is not None and main.client_ids.agent != client_ids.agent
    if not (client_ids.parent or client_ids.sub_agent or is_other_agent):
        return None
    what = "parent" if client_ids.parent else "sub-agent" if client_ids.sub_agent else "agent id"
    reason = f"a header names its {what}"
    of_main = main.client_ids if main is not None else ClientIds()
    key, held_by = client_ids.key_beside(of_main), latest.reply.thread_id if latest else None
    for thread in reversed(threads.all):
        has_its_key = key is not None and thread.client_ids.key_beside(of_main) == key
        if thread.kind == "sub_agent" and (has_its_key or thread.thread_id == held_by):
            return Classification(thread_id=thread.thread_id, kind="sub_agent", reason=reason)
    return Classification(thread_id=None, kind="sub_agent", reason=reason, forked_from=held_by)


def _continuation(threads: Threads, shown: Evidence, latest: ReplyOccurrence) -> Classification:
    """Assign a request with served replies to the thread of the latest one, with five exceptions.

    A request without tools is a side call if the thread has tools, or if its system texts differ from the thread's. A
    request that competes with a waiting call is a fork. A request that begins with a side call's output belongs to the
    thread that was compacted. A side call that continues may become the main thread or a sub-agent.
    """
    thread = threads[latest.reply.thread_id]
    reply = f"reply {latest.reply.call_id}"
    if thread.has_tools and not shown.has_tools:
        reason = f"contains {reply} but offers no tools: a summary or a title"
        return Classification(thread_id=None, kind="side", reason=reason, forked_from=thread.thread_id)
    if thread.kind != "side" and not (thread.has_tools or shown.has_tools or _has_role_of(thread, shown)):
        reason = f"contains {reply} below other system texts: a summary, a plan or a critique"
        return Classification(thread_id=None, kind="side", reason=reason, forked_from=thread.thread_id)
    rival = next((call for call, after in thread.waiting.items() if after == latest.reply.call_id), None)
    if rival is not None:
        reason = f"contains {reply}, which call {rival}, still waiting, also continues: a fork"
        return Classification(thread_id=None, kind="sub_agent", reason=reason, forked_from=thread.thread_id)
    if thread.kind == "side" and not is_prefix(thread.sent, steady_system(shown.messages, thread.sent)[0]):
        owner = _compacted(threads, shown, thread)
        if owner is not None:
            is_whole = bool(owner.held) and owner.held <= shown.found.keys()
            how = "continues with" if is_whole else "compacted: it continues from"
            return Classification(
                thread_id=owner.thread_id,
                kind=owner.kind,
                reason=f"thread {owner.thread_id} {how} {reply}, which a side call wrote",
                change=None if is_whole else "compacted",
                summary=None if is_whole else latest.reply,
            )
    return _going_on(threads, shown, thread, f"contains {reply}, found by its {latest.evidence}")


def _compacted(threads: Threads, shown: Evidence, side: Thread) -> Thread | None:
    """Return the thread whose history a side call has summarised, or None if the request belongs to no other thread.

    It is the thread whose replies the request still contains, or else one with the same system texts and the same kind
    of tools: the main thread, or the one called last.
    """
    others = [each for each in threads.all if each is not side and each.kind != "side"]
    likely = [each for each in others if each.has_tools == shown.has_tools and not each.waiting]
    held = shown.latest_of(likely)
    if held is not None:
        return threads[held.reply.thread_id]
    systems = _systems(shown.messages)
    same = [
        each
        for each in likely
        if (systems or shown.has_tools or _is_same_list(opening_of(shown.request), each.opening))
        and _has_systems_of(each, shown)
        and (not shown.has_tools or _names(shown.request) & each.tool_names)
    ]
    return next((each for each in same if each.kind == "main"), same[-1] if same else None)


def _going_on(threads: Threads, shown: Evidence, thread: Thread, reason: str) -> Classification:
    """Assign a request to the thread that it continues, and decide whether the thread's kind changes."""
    main, kind = threads.main, thread.kind
    is_promoted, replaces = False, None
    if kind == "side" and main is None:
        kind, reason, is_promoted = "main", f"{reason}; the first conversation that is continued", shown.has_tools
    elif kind == "side" and main is not None and shown.has_tools and _was_a_probe(main):
        kind, replaces, is_promoted = "main", main.thread_id, True
        reason = f"{reason}; it continues with tools, and thread {main.thread_id} never did"
    elif main is not None and _has_taken_over(main, thread, shown):
        kind, replaces, is_promoted = "main", main.thread_id, True
        reason = f"{reason}; it took over the history of thread {main.thread_id} and continues it"
    elif kind == "side" and main is not None and (shown.has_tools or not (main.has_tools or _is_aside(thread, shown))):
        kind, is_promoted = "sub_agent", shown.has_tools
        reason = f"{reason}; a conversation beside thread {main.thread_id}"
    elif kind == "sub_agent" and main is not None and _was_a_router(main, thread):
        kind, replaces, is_promoted = "main", main.thread_id, True
        reason = f"{reason}; it works on the task, and thread {main.thread_id} only chose it"
    return Classification(
        thread_id=thread.thread_id,
        kind=kind,
        reason=reason,
        replaces=replaces,
        change="promoted" if is_promoted else None,
    )


def _is_aside(thread: Thread, shown: Evidence) -> bool:
    """Return whether a conversation without tools continues like a summary: with the agent's history, or quoting it."""
    return thread.forked_from is not None or (shown.latest is not None and shown.latest.evidence == "quotation")


def _has_taken_over(main: Thread, thread: Thread, shown: Evidence) -> bool:
    """Return whether an agent without tools continues with different system texts, as some do after a mode switch.

    One or two replies are not enough: an agent may check a summary once or twice and then continue its old
    conversation.
    """
    if main.has_tools or thread.forked_from != main.thread_id or main.last_reply is None:
        return False
    own = [each.reply for each in shown.found.values() if each.reply.thread_id == thread.thread_id]
    return len(own) >= _TAKEN_OVER and main.last_reply.number < thread.replies[0].number


def _was_a_probe(main: Thread) -> bool:
    return not main.has_gone_on and not main.waiting and not main.is_named


def _was_a_router(main: Thread, worker: Thread) -> bool:
    """Return whether the main thread so far only chose which worker handles the task.

    It never continued, and the worker states the task itself. If the main thread's calls had passed the task on, the
    worker would be a sub-agent.
    """
    if not _was_a_probe(main) or worker.is_named or not worker.states_task or main.last_reply is None:
        return False
    opening = next((each.content for each in worker.opening if each.role == "user"), "")
    arguments = [call.arguments_json for call in main.last_reply.message.tool_calls]
    return not quotes_text(arguments, opening)


def _new_conversation(threads: Threads, shown: Evidence) -> Classification:
    """Assign a new conversation to a new thread, or to an earlier one that restarts without its history."""
    main, has_tools = threads.main, shown.has_tools
    if main is None:
        kind: ThreadKind = "main" if has_tools else "side"
        reason = "the first conversation that offers tools" if has_tools else "offers no tools, not continued yet"
        return Classification(thread_id=None, kind=kind, reason=reason)
    if not has_tools and not main.has_tools and _begins_as_a_side_call(threads, shown, main):
        return Classification(thread_id=None, kind="side", reason="offers no tools, and begins as an earlier side call")
    restarted = _from_summary(threads, shown, main)
    if restarted is not None:
        return restarted
    why = _restart(threads, shown, main) if has_tools == main.has_tools else None
    if why is not None:
        reason = f"thread {main.thread_id} without its history: {why}"
        return Classification(thread_id=main.thread_id, kind="main", reason=reason, is_restart=True)
    if has_tools and threads.states_task(shown.request) and not main.states_task and main.call_count == 1:
        reason = f"it offers tools and states the task, and thread {main.thread_id} did not"
        return Classification(thread_id=None, kind="main", reason=reason, replaces=main.thread_id)
    if has_tools:
        reason = f"a separate conversation with tools, beside thread {main.thread_id}"
        return Classification(thread_id=None, kind="sub_agent", reason=reason)
    reason = "offers no tools" if main.has_tools else "offers no tools, not continued yet"
    return Classification(thread_id=None, kind="side", reason=reason)


def _begins_as_a_side_call(threads: Threads, shown: Evidence, main: Thread) -> bool:
    """Return whether a new conversation begins like an earlier side call and unlike the main thread."""
    begun = _text(opening_of(shown.request))
    length = max((shared_letters(_text(each.opening), begun) for each in threads.all if each.kind == "side"), default=0)
    return length >= SHORTEST_SUMMARY and length > shared_letters(_text(main.opening), begun)


def _from_summary(threads: Threads, shown: Evidence, main: Thread) -> Classification | None:
    """Classify a conversation that begins with a summary. None for others.

    The summary is a reply of the main thread, or of a side call about the continuing thread. A sub-agent's output does
    not count: it is a result, which other threads may be given. A side call that contained no replies is about the main
    thread only if it has the main thread's system texts.
    """
    summary = threads.held_summary(_told(shown))
    if summary is None:
        return None
    writer = threads[summary.thread_id]
    thread = writer if writer.kind != "side" else threads[writer.forked_from] if writer.forked_from else main
    if thread.kind == "side" or writer.kind == "sub_agent" or thread.has_tools != shown.has_tools:
        return None
    if not thread.has_tools and not _has_role_of(thread, shown):
        return None
    if writer is not thread and writer.forked_from is None and not _has_systems_of(thread, shown):
        return None
    reason = f"thread {thread.thread_id} without its history: it begins with a summary that this trial's model wrote"
    return Classification(
        thread_id=thread.thread_id,
        kind=thread.kind,
        reason=reason,
        is_restart=True,
        change="compacted",
        summary=summary,
    )


def _restart(threads: Threads, shown: Evidence, main: Thread) -> str | None:
    """Return why a new conversation is a restart of the main thread, or None if it is not."""
    if shown.client_ids.thread is not None and shown.client_ids.thread == main.client_ids.thread:
        return "it has the same thread id in its headers"
    if main.waiting or _names(shown.request) != main.tool_names:
        return None
    if not main.has_tools and not _begins_as(main, shown):
        return None
    if threads.states_task(shown.request):
        return "it states the task, with the same tools"
    opening = opening_of(shown.request)
    return "it has the same opening and the same tools" if opening and _is_same_list(opening, main.opening) else None


def _begins_as(main: Thread, shown: Evidence) -> bool:
    """Return whether a new conversation may be a restart of an agent without tools, rather than a question about it.

    It has the agent's system texts. If there are none, it does not quote the agent's replies.
    """
    quotes = (quotes_text(_told(shown), reply.message.content) for reply in main.replies)
    return _has_role_of(main, shown) and (bool(_systems(shown.messages)) or not any(quotes))


def _has_role_of(thread: Thread, shown: Evidence) -> bool:
    """Return whether a request keeps at least half of a thread's system texts."""
    old, new = (_text(_systems(messages)) for messages in (thread.sent, shown.messages))
    return old.strip() == new.strip() or bool(old.strip() and new.strip() and keeps_half(old, new))


def _has_systems_of(thread: Thread, shown: Evidence) -> bool:
    return _is_same_list(_systems(shown.messages), _systems(steady_system(thread.sent, shown.messages)[0]))


def _text(messages: Iterable[Message]) -> str:
    return "\n".join(message.content for message in messages)


def _told(shown: Evidence) -> list[str]:
    """Return all texts of a request except the model's own turns."""
    return [message.content for message in shown.messages if message.role != "assistant"]


def _names(request: WireRequest) -> set[str]:
    return {tool.definition.name for tool in request.tools}


def _systems(messages: Iterable[Message]) -> list[Message]:
    return [message for message in messages if message.role == "system"]


def _is_same_list(left: Iterable[Message], right: Iterable[Message]) -> bool:
    one, other = list(left), list(right)
    return len(one) == len(other) and all(map(is_same, one, other))


def opening_of(request: WireRequest) -> tuple[Message, ...]:
    """Return a conversation's system texts (without the first if there are several) and its first user turn."""
    messages = [turn.message for turn in request.turns]
    first_user = next((message for message in messages if message.role == "user"), None)
    systems = _systems(messages)
    opening = [*(systems[1:] if len(systems) > 1 else systems), first_user]
    return tuple(message for message in opening if message is not None)
