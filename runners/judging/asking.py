"""One judgement: ask, read strictly, ask once more where the reply has no verdict, record what came of it."""

from typing import Any

from recorder.events import ModelFailed, ModelResponded
from runners.conversation import Message
from runners.errors import ModelBoundaryError
from runners.judging.protocol import Judging, Subject
from runners.judging.verdicts import MalformedVerdict
from runners.models.calls import ModelCaller
from runners.recording import Recording

_ATTEMPTS = 2
_SHOWN_CHARACTERS = 2_000


async def judge(judging: Judging, subject: Subject, question: str, caller: ModelCaller, recording: Recording) -> None:
    """Record one judgement: the usable reply and the verdict in it are durable together, or neither is.

    Raises:
        ModelBoundaryError: The judge could not be reached, or gave no verdict twice; the last such reply is recorded as
            a failed call, with its text and what it used in the message.
    """
    system = Message(role="system", content=judging.template.system)
    messages = [system, Message(role="user", content=question)]
    for attempt in range(1, _ATTEMPTS + 1):
        reply, responded = await caller.request(messages)
        verdict, problem = _read(judging, reply.message.content)
        if verdict is not None:
            await recording.append(responded, judging.event(subject, verdict))
            return
        if attempt < _ATTEMPTS:
            await recording.append(responded)
            if reply.message.content.strip():  # some providers refuse an empty turn
                messages = [*messages, Message(role="assistant", content=reply.message.content)]
                messages.append(Message(role="user", content=judging.template.repair(problem)))
    await recording.append(_failed(responded, problem))
    raise ModelBoundaryError(
        f"the judge gave no verdict in {_ATTEMPTS} replies: {problem} (model call {responded.call_id})",
        kind="malformed_verdict",
    )


def _read(judging: Judging, reply: str) -> tuple[Any, str]:
    """The verdict of a reply, or None and what is wrong."""
    try:
        return judging.read(reply), ""
    except MalformedVerdict as error:
        return None, str(error)


def _failed(responded: ModelResponded, problem: str) -> ModelFailed:
    """The call as one that brought no usable reply, with what was paid for it."""
    price = "unknown" if responded.cost_usd is None else f"{responded.cost_usd:.6f} USD"
    used = f"{responded.input_tokens} input and {responded.output_tokens} output tokens, price {price}"
    return ModelFailed(
        call_id=responded.call_id,
        role=responded.role,
        error_kind="malformed_verdict",
        message=f"no verdict: {problem}; {used}; the reply: {responded.text[:_SHOWN_CHARACTERS]}",
        is_retried=False,
        latency_ms=responded.latency_ms,
    )
