"""All threads (conversations with the model) of one trial, and the data by which later requests are matched to them."""

from collections.abc import Container
from typing import Literal

from lhaw_record.runners.base.conversation.deltas import History
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition
from lhaw_record.runners.models.gateway.declarations import ClientIds
from lhaw_record.runners.models.gateway.equality import folded_result, holds_summary, is_folded_sequel, told_text
from lhaw_record.runners.models.gateway.served_replies import (
    ReplyOccurrence,
    ServedReplies,
    ServedReply,
    occurrence_by_place,
    occurrence_in_fold,
)
from lhaw_record.runners.models.gateway.wires.protocol import WireRequest

_SUMMARIES = 8  # a choice: a restart begins with the latest summary
ThreadKind = Literal["main", "sub_agent", "side"]
CallState = Literal["waiting", "served", "failed"]


class Thread:
    """One conversation with the model, in its state after the last call.

    ``offered`` are the names of the tools of all its calls. ``held`` are the calls whose replies its last request
    contained; ``summaries`` are the calls whose replies were summaries. ``is_folded`` is true if its whole history is
    in one message. ``name`` is its declared name, and ``is_named`` says whether a header or declaration identifies it.
    ``forked_from`` is the thread whose history its first request contained.
    """

    def __init__(self, thread_id: str, kind: ThreadKind) -> None:
        self.thread_id = thread_id
        self.kind: ThreadKind = kind
        self.name: str | None = None
        self.forked_from: str | None = None
        self.is_named = False
        self.client_ids = ClientIds()
        self.tools: tuple[ToolDefinition, ...] | None = None
        self.offered: set[str] = set()
        self.opening: tuple[Message, ...] = ()
        self.states_task = False
        self.call_count = 0
        self.last_call_id: str | None = None
        self.last_state: CallState = "served"
        self.last_step: str | None = None
        self.waiting: dict[str, str | None] = {}
        self.sent: tuple[Message, ...] = ()
        self.held: frozenset[str] = frozenset()
        self.summaries: frozenset[str] = frozenset()
        self.is_folded = False
        self.history = History()
        self.replies: list[ServedReply] = []

    @property
    def has_tools(self) -> bool:
        """Whether the thread's last call offered tools."""
        return bool(self.tools)

    @property
    def tool_names(self) -> set[str]:
        """The names of the tools that the thread's last call offered."""
        return {tool.name for tool in self.tools or ()}

    @property
    def last_reply(self) -> ServedReply | None:
        """The reply that was served last, or None before the first."""
        return self.replies[-1] if self.replies else None

    @property
    def has_gone_on(self) -> bool:
        """Whether a request of the thread ever contained one of its replies."""
        return bool(self.held)


class Threads:
    """All threads of one trial.

    Args:
        prompt: The task as given to the agent, or None if unknown.
    """

    def __init__(self, prompt: str | None = None) -> None:
        self.replies = ServedReplies()
        self._summaries: list[ServedReply] = []
        self.is_reopened = False
        """Whether the agent was restarted for another request and its main thread has not called since."""
        self._prompt = " ".join(prompt.split()) if prompt else None
        self._threads: dict[str, Thread] = {}

    def reopen(self, prompt: str) -> None:
        """Expect a new conversation of the main thread, because the agent is restarted with another prompt."""
        self.is_reopened, self._prompt = True, " ".join(prompt.split())

    def __getitem__(self, thread_id: str) -> Thread:
        return self._threads[thread_id]

    def get(self, thread_id: str) -> Thread | None:
        """Return a thread, or None if the calls under this id do not form a conversation."""
        return self._threads.get(thread_id)

    @property
    def all(self) -> list[Thread]:
        """The threads in the order of their first calls."""
        return list(self._threads.values())

    @property
    def main(self) -> Thread | None:
        """The main thread, or None while it is unknown."""
        return next((thread for thread in self._threads.values() if thread.kind == "main"), None)

    @property
    def main_so_far(self) -> Thread | None:
        """The main thread, or else the only conversation without tools that may become the main thread.

        If there are several, those that state the task take precedence. None if this leaves more than one, or none.
        """
        if self.main is not None:
            return self.main
        answered = [thread for thread in self._threads.values() if thread.kind == "side" and thread.replies]
        likely = [thread for thread in answered if thread.states_task] or answered
        return likely[0] if len(likely) == 1 else None

    def new(self, kind: ThreadKind) -> Thread:
        """Return a new thread without adding it to the trial."""
        return Thread(f"t{len(self._threads) + 1}", kind)

    def add(self, thread: Thread) -> None:
        self._threads[thread.thread_id] = thread

    def named(self, name: str, *, has_tools: bool) -> Thread | None:
        """Return the thread with a declared name, or None. A title call has its thread's name, but no tools."""
        found = (each for each in self._threads.values() if each.name == name and each.has_tools == has_tools)
        return next(found, None)

    def find(self, request: WireRequest) -> dict[str, ReplyOccurrence]:
        """Return the served replies that a request contains or quotes."""
        found = self.replies.find(request.turns)
        for thread in self._threads.values():
            reply = thread.last_reply
            if reply is not None and reply.call_id not in found:
                place = occurrence_by_place(request.turns, reply, thread.sent)
                if place is not None and place.turn not in {each.turn for each in found.values()}:
                    found[reply.call_id] = place
        if not found:
            found = self._folded(request)
        return found

    def _folded(self, request: WireRequest) -> dict[str, ReplyOccurrence]:
        """Return the replies that a request quotes in one message, if it continues a thread in folded form."""
        messages = [turn.message for turn in request.turns]
        for thread in reversed(self._threads.values()):
            reply = thread.last_reply
            is_candidate = (
                reply is not None and thread.last_state == "served" and bool(request.tools) == thread.has_tools
            )
            if not is_candidate or (thread.has_gone_on and not thread.is_folded):
                continue
            assert reply is not None
            if is_folded_sequel(thread.sent, reply.message, messages):
                return self.shown_at_end(request, thread, folded_result(reply.message, told_text(messages)))
        return {}

    @staticmethod
    def shown_at_end(request: WireRequest, thread: Thread, result: str | None = None) -> dict[str, ReplyOccurrence]:
        """Return a thread's last reply and its last request's replies, as shown by a request's last message."""
        last = thread.last_reply
        assert last is not None
        shown = [each for each in thread.replies if each is last or each.call_id in thread.held]
        places = [occurrence_in_fold(request.turns, each, result if each is last else None) for each in shown]
        return {place.reply.call_id: place for place in places if place is not None}

    def held_summary(self, texts: list[str]) -> ServedReply | None:
        """Return the latest reply whose summary the texts contain, or None."""
        held = (reply for reply in reversed(self._summaries) if holds_summary(texts, reply.message.content))
        return next(held, None)

    def remember_summary(self, reply: ServedReply) -> None:
        """Store a reply's text, because the main thread may later restart from it as a summary."""
        self._summaries = [*self._summaries, reply][-_SUMMARIES:]

    def forget_summaries(self, continued: Container[str]) -> None:
        """Discard summaries that a request contains as assistant turns, because they were ordinary replies."""
        self._summaries = [reply for reply in self._summaries if reply.call_id not in continued]

    def states_task(self, request: WireRequest) -> bool:
        """Return whether a request contains the task's prompt; false if the prompt is unknown."""
        texts = (turn.message.content for turn in request.turns if turn.message.role != "assistant")
        return self._prompt is not None and any(self._prompt in " ".join(text.split()) for text in texts)
