"""Streams of Gemini: chunks, each of which is a small reply."""

from typing import Any

from lhaw_record.runners.models.failures import in_band_error
from lhaw_record.runners.models.streams.joining import Body, ReplyStream, StreamStep, fields, object_in


class GeminiStream(ReplyStream):
    """One streamed reply. A function call comes whole, in one chunk, so its chunk is decisive."""

    def __init__(self) -> None:
        super().__init__()
        self._head: Body = {}
        self._candidates: dict[int, Body] = {}

    def add(self, name: str, data: Body) -> StreamStep:
        if data.get("error"):
            raise in_band_error(data["error"])
        self._head |= {key: value for key, value in data.items() if key != "candidates"}
        calls = []
        has_token = False
        for candidate in data.get("candidates") or ():
            parts = self._candidate(object_in(candidate, "a candidate"))
            has_token = has_token or any(value for part in parts for name, value in part.items() if name != "thought")
            calls += [part["functionCall"] for part in parts if isinstance(part.get("functionCall"), dict)]
        self.calls += [[(call, "id")] for call in calls]
        if fields(data.get("promptFeedback")).get("blockReason"):
            self.is_whole = True
        return StreamStep(
            is_decisive=bool(calls) or self.is_whole,
            begins_call=str(calls[0].get("id") or "") if calls else None,
            has_token=has_token,
        )

    def body(self) -> Body:
        return {**self._head, "candidates": [candidate for _, candidate in sorted(self._candidates.items())]}

    def _candidate(self, wire: Body) -> list[Body]:
        """Add a piece of a candidate, and return its parts."""
        index = int(wire.get("index") or 0)
        own = self._candidates.setdefault(index, {"content": {"role": "model", "parts": []}, "index": index})
        parts = [object_in(part, "a part") for part in parts_of(wire)]
        for part in parts:
            _append(own["content"]["parts"], part)
        own |= {name: value for name, value in wire.items() if name != "content" and value is not None}
        if index == 0 and wire.get("finishReason"):
            self.is_whole = True
        return parts


def _append(parts: list[Body], part: Body) -> None:
    """Add a part. A text is appended to the preceding text if both are thoughts or neither is.

    Signed parts stay unchanged: "Don't merge a Part containing a signature with one that does not"
    (ai.google.dev/gemini-api/docs/function-calling, "Manually managing thought signatures").
    """
    last: dict[str, Any] = parts[-1] if parts else {}
    is_signed = "thoughtSignature" in part or "thoughtSignature" in last
    if "text" in part and "text" in last and part.get("thought") == last.get("thought") and not is_signed:
        parts[-1] = {**last, **part, "text": str(last["text"]) + str(part["text"])}
    else:
        parts.append(dict(part))


def parts_of(candidate: Body) -> list[Any]:
    parts = fields(candidate.get("content")).get("parts")
    return parts if isinstance(parts, list) else []
