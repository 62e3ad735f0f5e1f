"""The threads of a trial, and to which of them a request belongs: its main thread, a sub-agent, or a call beside them.

What decides, in this order: the conversation of a call that got no reply comes again; a header of a sub-agent; served
replies that the request contains; and for a conversation that begins, whether it offers tools and what it has in common
with the main thread. The reason is recorded with every call, because some histories cannot be told apart for certain.
"""

from collections.abc import Container, Sequence

from runners.gateway.canon import is_prefix, is_same, steady_system
from runners.gateway.markers import Markers
from runners.gateway.replies import Found, ServedReplies, ServedReply, found_by_place
from runners.gateway.thread import Classification, Thread, ThreadKind, opening_of
from runners.gateway.wires.protocol import WireRequest

_SUMMARIES = 4
_LONG_LINE = 40


class Threads:
    """All threads of one trial.

    Args:
        prompt: The task as the agent was given it, if it is known.
    """

    def __init__(self, prompt: str | None = None) -> None:
        self.replies = ServedReplies()
        self._summaries: list[ServedReply] = []
        self._prompt = " ".join(prompt.split()) if prompt else None
        self._threads: dict[str, Thread] = {}

    def __getitem__(self, thread_id: str) -> Thread:
        return self._threads[thread_id]

    @property
    def all(self) -> list[Thread]:
        """The threads in the order of their first calls."""
        return list(self._threads.values())

    @property
    def main(self) -> Thread | None:
        """The main thread; None as long as no thread is known to be it."""
        return next((thread for thread in self._threads.values() if thread.kind == "main"), None)

    @property
    def main_so_far(self) -> Thread | None:
        """The main thread, or the one conversation without tools that may become it: its first reply is at work.

        Where several may, those that state the task go before the others; None where it is still not known.
        """
        if self.main is not None:
            return self.main
        answered = [thread for thread in self._threads.values() if thread.kind == "side" and thread.replies]
        likely = [thread for thread in answered if thread.states_task] or answered
        return likely[0] if len(likely) == 1 else None

    def new(self, kind: ThreadKind) -> Thread:
        """Return a thread that is not one of these yet."""
        return Thread(f"t{len(self._threads) + 1}", kind)

    def add(self, thread: Thread) -> None:
        """Take a thread up."""
        self._threads[thread.thread_id] = thread

    def find(self, request: WireRequest) -> dict[str, Found]:
        """Return the served replies that a request contains."""
        found = self.replies.find(request.turns)
        for thread in self._threads.values():
            reply = thread.last_reply
            if reply is not None and reply.call_id not in found:
                place = found_by_place(request.turns, reply, thread.sent)
                if place is not None and place.turn not in {each.turn for each in found.values()}:
                    found[reply.call_id] = place
        return found

    def classify(self, request: WireRequest, markers: Markers, found: dict[str, Found]) -> Classification:
        """Return where a request belongs."""
        latest = max(found.values(), key=lambda each: each.reply.number, default=None)
        return (
            self._repeated(request, markers)
            or self._by_header(markers, latest)
            or (self._continued(request, latest) if latest else self._fresh(request, markers))
        )

    def remember_summary(self, reply: ServedReply) -> None:
        """Remember a text with which the main thread may begin anew."""
        self._summaries = [*self._summaries, reply][-_SUMMARIES:]

    def forget_summaries(self, taken_up: Container[str]) -> None:
        """Forget the texts that were replies like any other: a request holds them as turns of the assistant."""
        self._summaries = [reply for reply in self._summaries if reply.call_id not in taken_up]

    def states_task(self, request: WireRequest) -> bool:
        """Return whether a request holds the task, as far as that is known."""
        texts = (turn.message.content for turn in request.turns if turn.message.role != "assistant")
        return self._prompt is not None and any(self._prompt in " ".join(text.split()) for text in texts)

    def _repeated(self, request: WireRequest, markers: Markers) -> Classification | None:
        """Another attempt of a call whose reply never came back."""
        messages = [turn.message for turn in request.turns]
        for thread in reversed(self._threads.values()):
            if len(thread.sent) != len(messages) or bool(request.tools) != thread.has_tools:
                continue
            if not is_prefix(thread.sent, steady_system(messages, thread.sent)[0]):
                continue
            why = {
                "failed": f"the same conversation as call {thread.last_call_id}, which got no reply",
                "waiting": f"the same conversation as call {thread.last_call_id}, which is still waiting",
                "served": f"a header counts it as another attempt of call {thread.last_call_id}",
            }[thread.last_state]
            if thread.last_state != "served" or markers.is_retry:
                return Classification(thread_id=thread.thread_id, kind=thread.kind, reason=why, is_retry=True)
        return None

    def _by_header(self, markers: Markers, latest: Found | None) -> Classification | None:
        main = self.main
        is_other_agent = markers.agent is not None and main is not None and main.markers.agent != markers.agent
        if not (markers.parent or markers.sub_agent or is_other_agent):
            return None
        what = "parent" if markers.parent else "sub-agent" if markers.sub_agent else "agent id"
        reason = f"a header names its {what}"
        of_main = main.markers if main is not None else Markers()
        key, held_by = markers.key_beside(of_main), latest.reply.thread_id if latest else None
        for thread in reversed(self._threads.values()):
            has_its_key = key is not None and thread.markers.key_beside(of_main) == key
            if thread.kind == "sub_agent" and (has_its_key or thread.thread_id == held_by):
                return Classification(thread_id=thread.thread_id, kind="sub_agent", reason=reason)
        return Classification(thread_id=None, kind="sub_agent", reason=reason, forked_from=held_by)

    def _continued(self, request: WireRequest, latest: Found) -> Classification:
        """A request with served replies belongs to the thread of the latest of them, with three exceptions."""
        thread = self._threads[latest.reply.thread_id]
        reply = f"reply {latest.reply.call_id}"
        if thread.has_tools and not request.tools:
            reason = f"holds {reply} but offers no tools: a summary or a title"
            return Classification(thread_id=None, kind="side", reason=reason, forked_from=thread.thread_id)
        rival = next((call for call, after in thread.waiting.items() if after == latest.reply.call_id), None)
        if rival is not None:
            reason = f"holds {reply}, which call {rival} continues and still waits: a fork"
            return Classification(thread_id=None, kind="sub_agent", reason=reason, forked_from=thread.thread_id)
        reason = f"holds {reply}, found by its {latest.evidence}"
        kind = thread.kind
        if kind == "side":
            main = self.main
            if main is None:
                kind, reason = "main", f"{reason}; the first conversation that is continued"
            elif not main.has_tools:
                kind, reason = "sub_agent", f"{reason}; a conversation beside thread {main.thread_id}"
        return Classification(thread_id=thread.thread_id, kind=kind, reason=reason)

    def _fresh(self, request: WireRequest, markers: Markers) -> Classification:
        """A conversation that begins, or the main thread without its history."""
        main = self.main
        has_tools = bool(request.tools)
        if main is None:
            kind: ThreadKind = "main" if has_tools else "side"
            reason = "the first conversation that offers tools" if has_tools else "offers no tools, not continued yet"
            return Classification(thread_id=None, kind=kind, reason=reason)
        if has_tools == main.has_tools:
            why = self._restart(main, request, markers)
            if why is not None:
                reason = f"thread {main.thread_id} without its history: {why}"
                return Classification(thread_id=main.thread_id, kind="main", reason=reason, is_restart=True)
        if has_tools and self.states_task(request) and not main.states_task and main.call_count == 1:
            reason = f"it offers tools and states the task, and thread {main.thread_id} did not"
            return Classification(thread_id=None, kind="main", reason=reason, replaces=main.thread_id)
        if has_tools:
            reason = f"a conversation of its own with tools, beside thread {main.thread_id}"
            return Classification(thread_id=None, kind="sub_agent", reason=reason)
        reason = "offers no tools" if main.has_tools else "offers no tools, not continued yet"
        return Classification(thread_id=None, kind="side", reason=reason)

    def _restart(self, main: Thread, request: WireRequest, markers: Markers) -> str | None:
        """Why a conversation that begins is the main thread after all; None where nothing says so."""
        texts = [turn.message.content for turn in request.turns if turn.message.role != "assistant"]
        if any(_holds_summary(texts, reply.message.content) for reply in self._summaries):
            return "it begins with a summary that this trial's model wrote"
        if markers.thread is not None and markers.thread == main.markers.thread:
            return "it has the same thread id in its headers"
        has_same_tools = _names(request) == {tool.name for tool in main.tools or ()}
        if main.waiting or not has_same_tools:
            return None
        if self.states_task(request):
            return "it states the task, with the same tools"
        opening = opening_of(request)
        is_same_opening = len(opening) == len(main.opening) and all(map(is_same, opening, main.opening))
        return "it has the same opening and the same tools" if is_same_opening and opening else None


def _names(request: WireRequest) -> set[str]:
    return {tool.definition.name for tool in request.tools}


def _holds_summary(texts: Sequence[str], summary: str) -> bool:
    """Whether most long lines of a summary stand in the texts; agents cut tags from it and add words of their own."""
    lines = [line.strip() for line in summary.splitlines() if len(line.strip()) >= _LONG_LINE]
    return bool(lines) and 2 * sum(any(line in text for text in texts) for line in lines) >= len(lines)
