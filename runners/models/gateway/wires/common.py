"""Helpers shared by the four wires: text and image content, shape checks, and server-sent events."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.models.chat_completions import named
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.wires.protocol import Body, Memory, RequestTurn, TurnPosition, WireRequest
from lhaw_record.runners.models.streams.joining import fields, malformed, object_in

_DICT = frozenset({dict})
_ERROR_TYPES = {401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error"}


def typed(part: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a part with its type; in Gemini's format, the part's first key is the type."""
    return part if "type" in part else {"type": next(iter(part), "part"), **part}


def input_of(arguments: str) -> str:
    """Return the text input for a custom tool.

    This is the inverse of :func:`input_json`; other arguments stay unchanged.
    """
    try:
        decoded = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        return arguments
    text = decoded.get("input") if isinstance(decoded, dict) and len(decoded) == 1 else None
    return text if isinstance(text, str) else arguments


def object_of(arguments: str) -> dict[str, Any]:
    """Return the arguments as an object, for a wire that requires one. Arguments that are not an object are wrapped."""
    try:
        decoded = msgspec.json.decode(arguments or "{}")
    except msgspec.DecodeError:
        decoded = None
    return decoded if isinstance(decoded, dict) else {"malformed_arguments": arguments}


def listed(body: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    """Return a list of objects from a body. A missing or null field counts as an empty list."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not {*map(type, value)} <= _DICT:
        raise GatewayRefusal(f"'{name}' must be a list of objects")
    return value


def rest(body: Mapping[str, Any], taken: frozenset[str]) -> dict[str, Any]:
    """Return the fields of a body that are not in ``taken``."""
    return {name: value for name, value in body.items() if name not in taken}


def whole_already(request: WireRequest, memory: Memory) -> WireRequest:
    """Return the request unchanged, because every request of this wire is complete."""
    return request


def keep_nothing(request: WireRequest, reply: Body, memory: Memory) -> None:
    """Do nothing, because requests of this wire never refer to earlier ones."""


def with_model(body: Body, model: str) -> Body:
    """Return the body for a model of this name."""
    return {**body, "model": model}


def translated(parameters: Mapping[str, Any], names: Mapping[str, str]) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Rename parameters, and return those renamed and the names of the rest. Null counts as not set."""
    found = {names[name]: value for name, value in parameters.items() if name in names and value is not None}
    return found, tuple(name for name, value in parameters.items() if name not in names and value is not None)


def end_texts(texts: list[str], turns: list[RequestTurn], place: TurnPosition) -> None:
    """Append the collected texts as a user turn that ends at ``place``, and clear them."""
    if texts:
        turns.append(RequestTurn(message=Message(role="user", content="\n".join(texts)), place=place))
        texts.clear()


def said_in(items: Any, what: str, read: Callable[[list[Body]], Message]) -> Message:
    """Return the message formed by a reply's items; raise ModelError if they are malformed."""
    if not isinstance(items, list):
        raise malformed(f"it has no {what}")
    message = read([object_in(item, f"an item of the {what}") for item in items])
    if not all(call.name for call in message.tool_calls):
        raise malformed("a tool call has no name")
    return message


def event(data: Any, name: str | None = None) -> bytes:
    """Return one server-sent event."""
    head = f"event: {name}\n".encode() if name is not None else b""
    return head + b"data: " + msgspec.json.encode(data) + b"\n\n"


def openai_error(status: int, kind: str, message: str) -> Body:
    """Return a refusal in the error format of OpenAI's wires."""
    code = {
        "context_window": "context_length_exceeded",
        "content_filter": "content_filter",
        "rate_limit": "rate_limit_exceeded",
    }.get(kind)
    type_ = _ERROR_TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": type_, "param": None, "code": code}}


_CONVERSATIONS = ("messages", "input", "contents")
_STANDARD = str.maketrans("-_", "+/")  # Google's SDK uses URL-safe base64


def pictures_in(body: Body) -> dict[str, Body]:
    """Return the images of a request's conversation as chat completions parts, keyed by their placeholder names.

    Images stored at the provider (``file_id``) are omitted.
    """
    return dict(_found([body.get(name) for name in _CONVERSATIONS]))


def _found(value: Any) -> Iterator[tuple[str, Body]]:
    if isinstance(value, list):
        for each in value:
            yield from _found(each)
    elif isinstance(value, dict):
        url = _url(value)
        if url is None:
            yield from _found(list(value.values()))
        else:
            shown = {"url": url, **({"detail": value["detail"]} if isinstance(value.get("detail"), str) else {})}
            yield named(typed(value)), {"type": "image_url", "image_url": shown}


def _url(part: Mapping[str, Any]) -> str | None:
    """Return an image's URL, which may be a data URL, or None for other parts."""
    if part.get("type") == "input_image":
        return _text(part.get("image_url"))
    if part.get("type") == "image":
        source = fields(part.get("source"))
        return _text(source.get("url")) or _data(source.get("media_type"), source.get("data"))
    inline = fields(part.get("inlineData") or part.get("inline_data"))
    file = fields(part.get("fileData") or part.get("file_data"))
    kind = str(_either(inline or file, "mimeType", "mime_type"))
    if not kind.startswith("image/"):
        return None
    return _data(kind, inline.get("data")) or _text(_either(file, "fileUri", "file_uri"))


def _data(kind: Any, data: Any) -> str | None:
    return f"data:{kind};base64,{data.translate(_STANDARD)}" if isinstance(data, str) and data else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _either(value: Mapping[str, Any], *names: str) -> Any:
    return next((value[name] for name in names if name in value), None)
