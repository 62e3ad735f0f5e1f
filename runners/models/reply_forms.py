"""Requests replies in a given form, by JSON schema if the model supports it, else by the prompt alone."""

from collections.abc import Sequence
from typing import Any

import msgspec

from lhaw_record.recorder.events import ModelResponded
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.base.errors import ModelBoundaryError
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.protocol import FormSupport, HostedModel, ModelReply

PARAMETER = "response_format"
"""The parameter that carries the schema. A user who sets it decides instead of us."""


class ReplyForm(msgspec.Struct, frozen=True):
    """The form of a reply: a name, and the JSON schema of an object."""

    name: str
    schema: dict[str, Any]

    @property
    def parameter(self) -> dict[str, Any]:
        """The value of ``response_format``, as OpenAI documents it."""
        return {"type": "json_schema", "json_schema": {"name": self.name, "strict": True, "schema": self.schema}}


def object_schema(properties: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties. Strict servers want all of them to be required."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


async def request_formed(
    caller: ModelCaller, messages: Sequence[Message], form: ReplyForm | None
) -> tuple[ModelReply, ModelResponded]:
    """Send a request for a reply in a form, and return the reply and its event as :meth:`ModelCaller.request` does.

    If the server rejects the request, it is sent again without the schema. If that succeeds, the rejection is
    remembered.
    """
    support = await _support(caller, form)
    if form is None or support is None:
        return await caller.request(messages)
    if PARAMETER in caller.parameters:
        with caller.asking({}, "parameter"):
            return await caller.request(messages)
    if support.is_asked:
        try:
            with caller.asking({PARAMETER: form.parameter}, support.knowledge):
                return await caller.request(messages)
        except ModelBoundaryError as error:
            if error.kind != "bad_request":
                raise
    with caller.asking({}, "refused" if support.is_asked else support.knowledge):
        answered = await caller.request(messages)
    if support.is_asked:
        support.refused()
    return answered


async def whole_reply(caller: ModelCaller, messages: Sequence[Message], form: ReplyForm | None) -> ModelReply:
    """Return the reply to a recorded request. If it was truncated, ask once more with twice the length limit."""
    reply = await _recorded(caller, messages, form)
    if not caller.is_cut(reply):
        return reply
    with caller.more_room():
        reply = await _recorded(caller, messages, form)
        if caller.is_cut(reply):
            raise ModelBoundaryError(f"{caller.model.name}: {caller.cut_words}", kind="cut_reply", is_retry_owed=False)
    return reply


async def _recorded(caller: ModelCaller, messages: Sequence[Message], form: ReplyForm | None) -> ModelReply:
    reply, responded = await recall_or_request(caller, messages, form)
    if responded is not None:
        await caller.recording.append(responded)
    return reply


async def recall_or_request(
    caller: ModelCaller, messages: Sequence[Message], form: ReplyForm | None
) -> tuple[ModelReply, ModelResponded | None]:
    """Return an earlier run's reply without an event, or else a new request's reply with its event."""
    recalled = await recall_formed(caller, messages, form)
    return (recalled, None) if recalled is not None else await request_formed(caller, messages, form)


async def recall_formed(caller: ModelCaller, messages: Sequence[Message], form: ReplyForm | None) -> ModelReply | None:
    """Return the reply that an earlier run recorded for a request, with the schema or without it, or None."""
    support = await _support(caller, form)
    if form is not None and support is not None and support.is_asked:
        with caller.asking({PARAMETER: form.parameter}, support.knowledge):
            recalled = await caller.recall(messages)
        if recalled is not None:
            return recalled
    return await caller.recall(messages)


async def _support(caller: ModelCaller, form: ReplyForm | None) -> FormSupport | None:
    return await caller.model.form_support() if form is not None and isinstance(caller.model, HostedModel) else None
