"""Embedding requests: recorded, paid calls outside of conversations that do not count as actions."""

from lhaw_record.recorder.events import ModelCalled
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message, conversation_digest, new_messages_json
from lhaw_record.runners.models.chat_completions import text_of
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.wires.common import listed
from lhaw_record.runners.models.gateway.wires.protocol import Body, RequestTurn, WireRequest
from lhaw_record.runners.models.streams.joining import fields

EMBEDDINGS = "embeddings"
"""The last part of OpenAI's URL path for embeddings, and the thread under which they are recorded."""

GEMINI_METHODS = ("embedContent", "batchEmbedContents")
"""Gemini's API methods for embeddings."""


def read(body: Body) -> WireRequest:
    """Parse a body. Its input becomes the text of a user message."""
    message = Message(role="user", content=text_of(body.get("input")))
    parameters = {name: value for name, value in body.items() if name not in ("input", "model")}
    model = str(body.get("model") or "")
    return WireRequest(body=body, model=model, turns=(RequestTurn(message=message),), parameters=parameters)


def read_gemini(method: str, model: str, body: Body) -> WireRequest:
    """Parse a body in Gemini's format. A batch becomes one text."""
    asked = listed(body, "requests") if method == "batchEmbedContents" else [body]
    contents = [each.get("content") for each in asked]
    if not contents or not all(isinstance(each, dict) for each in contents):
        raise GatewayRefusal(
            f"{method} needs the content to embed" + (", one for each of its 'requests'" * ("batch" in method))
        )
    text = "\n".join(text_of(fields(content).get("parts")) for content in contents)
    parameters = [{name: value for name, value in each.items() if name not in ("content", "model")} for each in asked]
    return WireRequest(
        body=body,
        model=model,
        turns=(RequestTurn(message=Message(role="user", content=text)),),
        parameters={"requests": parameters} if method == "batchEmbedContents" and any(parameters) else parameters[0],
    )


def addressed(body: Body, model: str, *, is_gemini: bool) -> Body:
    """Return the body with another model name; in Gemini's format, each request of a batch has the name."""
    if not is_gemini:
        return {**body, "model": model}
    if "requests" in body:
        return {**body, "requests": [{**each, "model": f"models/{model}"} for each in body["requests"]]}
    return {**body, "model": f"models/{model}"}


def called(request: WireRequest, number: int, *, routed_to: str | None) -> ModelCalled:
    """Return the event for the trial's embedding request with this number."""
    requested = {"requested_model": request.model} if routed_to not in (None, request.model) else {}
    messages = [turn.message for turn in request.turns]
    return ModelCalled(
        call_id=f"{EMBEDDINGS}.{number}",
        role="agent",
        thread_id=EMBEDDINGS,
        call_kind="side",
        model=routed_to or request.model,
        parameters_json=canonical_json({**request.parameters, **requested}).decode(),
        request_digest=conversation_digest(messages),
        shared_count=0,
        message_count=len(messages),
        new_messages_json=new_messages_json(messages, 0),
        kind_reason=EMBEDDINGS,
    )
