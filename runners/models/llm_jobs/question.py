"""Asks a model one question, reads the reply strictly, asks once more if it is unusable, and records the result."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from itertools import count
from typing import Protocol, TypeVar

from lhaw_record.recorder.events import AnyEvent, ModelFailed, ModelResponded
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.errors import NothingUsable, UnusableReply
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.protocol import ModelReply
from lhaw_record.runners.models.reply_forms import ReplyForm, recall_or_request, request_formed

Found = TypeVar("Found")

_ATTEMPTS = 2  # plus one if a truncated reply can be given a higher length limit
_SHOWN_CHARACTERS = 2_000  # of the reply in a failure event; a choice: a screenful


class Wording(Protocol):
    """The wording of a question: the system prompt and the request for a better reply. Implemented by
    PromptTemplate.
    """

    @property
    def system(self) -> str: ...

    def repair(self, problem: str) -> str | None:
        """Return the request for a better reply, or None to ask again as before."""
        ...


async def ask(
    caller: ModelCaller,
    wording: Wording,
    user: str,
    read: Callable[[str], Found],
    *,
    wanted: str,
    form: ReplyForm | None = None,
    events: Callable[[Found], Sequence[AnyEvent]] = lambda _: (),
) -> Found:
    """Ask a model a question, and return the result read from its reply.

    The reply and the events made from its result are recorded in one commit. A reply recalled from an earlier run is
    read like any other, but not recorded again. A truncated reply is never read, even if it looks complete. The
    question is then asked again with twice the length, and once more with four times.
    """
    messages = [Message(role="system", content=wording.system), Message(role="user", content=user)]
    with ExitStack() as room:
        return await _asked(caller, wording, messages, read, wanted, form, events, room)


async def _asked(
    caller: ModelCaller,
    wording: Wording,
    messages: list[Message],
    read: Callable[[str], Found],
    wanted: str,
    form: ReplyForm | None,
    events: Callable[[Found], Sequence[AnyEvent]],
    room: ExitStack,
) -> Found:
    """Do the work of :func:`ask`. After a truncated reply, ``room`` holds the context with a higher length limit."""
    attempts = _ATTEMPTS
    for attempt in count(1):
        is_last = attempt == attempts
        reply, responded = await recall_or_request(caller, messages, form)
        found, problem = _read(read, reply, caller)
        if responded is None and found is None and is_last:
            reply, responded = await request_formed(caller, messages, form)
            found, problem = _read(read, reply, caller)
        if found is not None:
            await caller.recording.append(*([responded] if responded else []), *events(found))
            return found
        if is_last:
            break
        if responded is not None:
            await caller.recording.append(responded)
        if caller.is_cut(reply):
            before = caller.parameters
            room.enter_context(caller.more_room())
            attempts += attempts == _ATTEMPTS and caller.parameters != before
            continue
        text, repair = reply.message.content, wording.repair(problem)
        if repair is not None and text.strip():  # some providers refuse an empty turn
            messages = [*messages, Message(role="assistant", content=text), Message(role="user", content=repair)]
    assert responded is not None, "an unusable recalled reply is asked for again"
    await caller.recording.append(_failed(responded, wanted, problem))
    raise NothingUsable(
        f"the {caller.role} gave no {wanted} in {attempts} replies: {problem} (model call {responded.call_id})",
        kind=f"malformed_{wanted}",
    )


def _read(read: Callable[[str], Found], reply: ModelReply, caller: ModelCaller) -> tuple[Found | None, str]:
    """Return the result parsed from a reply, or None and the problem."""
    if caller.is_cut(reply):
        return None, caller.cut_words
    try:
        return read(reply.message.content), ""
    except UnusableReply as error:
        return None, str(error)


def _failed(responded: ModelResponded, wanted: str, problem: str) -> ModelFailed:
    """Return the event for a call whose reply was unusable, with its usage."""
    assert responded.latency_ms is not None, "our own caller takes the time of every call"
    price = "unknown" if responded.usage.cost_usd is None else f"{responded.usage.cost_usd:.6f} USD"
    used = f"{responded.usage.input_tokens} input and {responded.usage.output_tokens} output tokens, price {price}"
    return ModelFailed(
        call_id=responded.call_id,
        role=responded.role,
        error_kind=f"malformed_{wanted}",
        message=f"no {wanted}: {problem}; {used}; the reply: {responded.text[:_SHOWN_CHARACTERS]}",
        is_retried=False,
        latency_ms=responded.latency_ms,
        usage=responded.usage,
    )
