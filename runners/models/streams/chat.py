"""Streams of OpenAI's chat completions: chunks of deltas, joined into a whole reply.

By the documentation, a tool call's index tells its parts from those of other calls. Some servers send no index, or 0
for all calls. Then an unknown id or a further name begins a call, as in the AI SDK and in LangChain (``_call_of``).
Clients that know only the index, such as openai-python, join such calls to one or refuse them.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from lhaw_record.runners.models.failures import in_band_error
from lhaw_record.runners.models.streams.joining import DONE, Body, ReplyStream, StreamStep, fields, object_in

_TEXTS = frozenset({"content", "refusal", "reasoning", "reasoning_content"})
_PASS, _TOKEN = StreamStep(), StreamStep(has_token=True)


class ChatStream(ReplyStream):
    """One streamed chat completion. A call is complete when the next one begins, or when the choice ends."""

    def __init__(self) -> None:
        super().__init__()
        self._head: Body = {}
        self._choices: dict[int, Body] = {}
        self._indexes: dict[int, list[int | None]] = {}
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
                    has_token |= began is not None or bool(_head_of(call)[1])
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
        calls, indexes = message.setdefault("tool_calls", []), self._indexes.setdefault(index, [])
        place = wire["index"] if isinstance(wire.get("index"), int) else None
        number = _call_of(calls, indexes, wire, place)
        is_new = number is None
        if number is None:
            if calls and (place is None or place in indexes):
                self.calls_split_by = self.calls_split_by or ("id" if wire.get("id") else "name")
            number = len(calls)
            calls.append({"id": "", "type": "function"})
            indexes.append(place)
            if index == 0:
                self.calls.append([(wire, "id")])
        elif index == 0 and wire.get("id"):
            self.calls[number].append((wire, "id"))
        _join(calls[number], {name: value for name, value in wire.items() if name != "index"})
        return str(wire.get("id") or "") if is_new and index == 0 else None


def _call_of(calls: Sequence[Body], indexes: Sequence[int | None], part: Body, index: int | None) -> int | None:
    """Return the number of the call that a part continues, or None if the part begins a call."""
    call_id, (name, written) = part.get("id"), _head_of(part)
    with_id = [number for number, call in enumerate(calls) if call_id and call["id"] == call_id]
    at_index = [number for number, each in enumerate(indexes) if index is not None and each == index]
    known = [number for number in at_index if number in with_id] or at_index
    if not known and (index is None or not name):
        known = with_id
    if not known and calls and not call_id and indexes[-1] is None:
        known = [len(calls) - 1]
    if not known or not name:
        return known[-1] if known else None
    begun = calls[known[-1]]
    begun_name, so_far = _head_of(begun)
    if (call_id and begun["id"] and call_id != begun["id"]) or (begun_name and begun_name != name):
        return None
    is_head_repeated = (call_id or index is not None) and not (so_far and written)
    return known[-1] if not begun_name or is_head_repeated or _is_unfinished(so_far) else None


def _head_of(call: Body) -> tuple[Any, Any]:
    """Return the name and the arguments in a call or in a part of one."""
    written = fields(call.get("function") or call.get("custom"))
    return written.get("name"), written.get("arguments") or written.get("input")


def _is_unfinished(arguments: Any) -> bool:
    """Return whether arguments have begun and are not yet JSON."""
    try:
        msgspec.json.decode(arguments if isinstance(arguments, str) else "{}")
    except (msgspec.DecodeError, RecursionError):
        return bool(arguments)
    return False


def _message(joined: Body) -> Body:
    """Return a message with its text pieces joined. Missing text beside tool calls is null, as in a whole reply."""
    message = {name: value for name, value in joined.items() if not name.startswith("+")}
    message |= {name[1:]: "".join(value) for name, value in joined.items() if name.startswith("+")}
    return {**message, "content": message["content"] or None} if message.get("tool_calls") else message


def _has_answer(joined: Body) -> bool:
    """Return whether a partial message has text or a tool call, not only reasoning."""
    return bool(joined.get("tool_calls")) or any("".join(joined.get(name, ())) for name in ("+content", "+refusal"))


def _join(call: Body, part: Body) -> None:
    """Merge a part into a call: arguments are appended, all other fields are set once."""
    for name, value in part.items():
        if value is None:
            continue
        if name in ("arguments", "input") and isinstance(value, str):
            call[name] = call.get(name, "") + value
        elif name == "id" and call.get("id"):
            continue  # some servers make up an id for each part; clients keep the first
        elif isinstance(value, dict):
            _join(call.setdefault(name, {}), value)
        elif value != "" or name not in call:
            call[name] = value


def _extend(into: Body, more: Body) -> None:
    for name, value in more.items():
        if isinstance(value, list):
            into[name] = [*(into.get(name) or ()), *value]
