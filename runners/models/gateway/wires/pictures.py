"""Pictures of a request for a model that is asked in chat completions, whatever the agent's own wire."""

from collections.abc import Iterator, Mapping
from typing import Any

from lhaw_record.runners.models.gateway.wires.common import named, typed
from lhaw_record.runners.models.gateway.wires.protocol import Body
from lhaw_record.runners.models.streams.bodies import fields

_CONVERSATIONS = ("messages", "input", "contents")
_STANDARD = str.maketrans("-_", "+/")  # Google's SDK writes the other alphabet of base64


def pictures_in(body: Body) -> dict[str, Body]:
    """Return the pictures of a request's conversation, as parts of chat completions, by their names in its texts.

    A picture that only its own provider has (``file_id``) is no such part.
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
    """Return the address of a picture, which may hold its data, or None if the part is no picture or has no address."""
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
