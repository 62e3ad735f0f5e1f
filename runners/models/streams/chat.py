"""Streams of OpenAI's chat completions: chunks of deltas, joined into a whole reply."""

from typing import Any

from lhaw_record.runners.models.failures import in_band_error
from lhaw_record.runners.models.streams.joining import DONE, Body, StreamStep, fields, object_in

_TEXTS = frozenset({"content", "refusal", "reasoning", "reasoning_content"})
_PASS, _TOKEN = StreamStep(), StreamStep(has_token=True)


class ChatStream:
    """One streamed chat completion. A call is complete when the next one begins, or when the choice ends."""

    def __init__(self) -> None:
        self.is_whole = False
        self.calls: list[list[tuple[Body, str]]] = []
        self._head: Body = {}
        self._choices: dict[int, Body] = {}
        self._call_numbers: dict[tuple[int, int], int] = {}
        self._usage: Any = None

    def add(self, name: str, data: Body) -> StreamStep:
        """Add one chunk. The final ``[DONE]`` ends a reply whose server gave no ``finish_reason``."""
        if name == DONE:
            self.is_whole |= _has_answer(fields(self._choices.get(0, {}).get("message")))
        if data.get("error"):
            raise in_band_error(data["error"])
        for key, value in data.items():
            if key not in ("choices", "usage", "object") and value is not None:
                self._head.setdefault(key, value)
        self._usage = data.get("usage") or self._usage
        steps = [self._choice(object_in(choice, "a choice")) for choice in data.get("choices") or ()]
        if len(steps) == 1:
            return steps[0]
        begun = [step.begins_call for step in steps if step.begins_call is not None]
        return StreamStep(
            is_decisive=any(step.is_decisive for step in steps),
            begins_call=begun[0] if begun else None,
            has_token=any(step.has_token for step in steps),
        )

    def body(self) -> Body:
        choices = [
            {
                **{name: value for name, value in choice.items() if name != "message"},
                "message": _message(choice["message"]),
            }
            for _, choice in sorted(self._choices.items())
        ]
        usage = {"usage": self._usage} if self._usage is not None else {}
        return {**self._head, "object": "chat.completion", "choices": choices, **usage}

    def _choice(self, wire: Body) -> StreamStep:
        index = int(wire.get("index") or 0)
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = {"index": index, "message": {"role": "assistant", "content": None}}
        step = self._delta(index, choice["message"], fields(wire.get("delta")))
        for name, value in wire.items():
            if value is None or name in ("delta", "index"):
                continue
            if name == "logprobs" and isinstance(value, dict):
                _extend(choice.setdefault("logprobs", {}), value)
            else:
                choice[name] = value
        if wire.get("error"):
            raise in_band_error(wire["error"])
        if not wire.get("finish_reason"):
            return step
        if index == 0:
            self.is_whole = True
        return StreamStep(is_decisive=True, begins_call=step.begins_call, has_token=step.has_token)

    def _delta(self, index: int, message: Body, delta: Body) -> StreamStep:
        has_token, begun, is_decisive = False, None, False
        for name, value in delta.items():
            if value is None:
                continue
            if name == "tool_calls":
                for call in value:
                    began = self._call(index, message, object_in(call, "a tool call"))
                    is_decisive |= began is not None and len(message["tool_calls"]) > 1
                    begun = began if begun is None else begun
                    has_token |= began is not None or _has_arguments(call)
            elif name in _TEXTS and isinstance(value, str):
                message.setdefault(f"+{name}", []).append(value)
                has_token |= bool(value)
            elif isinstance(value, list):
                message[name] = [*(message.get(name) or ()), *value]
                has_token |= bool(value)
            else:
                message[name] = value
        if begun is None and not is_decisive:
            return _TOKEN if has_token else _PASS
        return StreamStep(is_decisive=is_decisive, begins_call=begun, has_token=has_token)

    def _call(self, index: int, message: Body, wire: Body) -> str | None:
        """Add a part of a tool call, and return the call's id if the call begins here."""
        calls = message.setdefault("tool_calls", [])
        place = int(wire["index"]) if isinstance(wire.get("index"), int) else max(len(calls) - 1, 0)
        number = self._call_numbers.get((index, place))
        is_new = number is None
        if number is None:
            number = self._call_numbers[index, place] = len(calls)
            calls.append({"id": "", "type": "function"})
            if index == 0:
                self.calls.append([(wire, "id")])
        elif index == 0 and wire.get("id"):
            self.calls[number].append((wire, "id"))
        _join(calls[number], {name: value for name, value in wire.items() if name != "index"})
        return str(wire.get("id") or "") if is_new and index == 0 else None


def _message(joined: Body) -> Body:
    """Return a message with its text pieces joined. Missing text beside tool calls is null, as in a whole reply."""
    message = {name: value for name, value in joined.items() if not name.startswith("+")}
    message |= {name[1:]: "".join(value) for name, value in joined.items() if name.startswith("+")}
    return {**message, "content": message["content"] or None} if message.get("tool_calls") else message


def _has_answer(joined: Body) -> bool:
    """Return whether a partial message has text or a tool call, not only reasoning."""
    return bool(joined.get("tool_calls")) or any("".join(joined.get(name, ())) for name in ("+content", "+refusal"))


def _has_arguments(part: Body) -> bool:
    """Return whether a part of a tool call contains arguments."""
    return any(fields(holder).get(name) for holder in (part, *part.values()) for name in ("arguments", "input"))


def _join(call: Body, part: Body) -> None:
    """Merge a part into a call: arguments are appended, all other fields are set once."""
    for name, value in part.items():
        if value is None:
            continue
        if name in ("arguments", "input") and isinstance(value, str):
            call[name] = call.get(name, "") + value
        elif isinstance(value, dict):
            _join(call.setdefault(name, {}), value)
        elif value != "" or name not in call:
            call[name] = value


def _extend(into: Body, more: Body) -> None:
    for name, value in more.items():
        if isinstance(value, list):
            into[name] = [*(into.get(name) or ()), *value]
