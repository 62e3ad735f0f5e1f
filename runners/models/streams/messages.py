"""Streams of Anthropic's Messages: events that begin, fill and close blocks, joined into the message."""

import msgspec

from lhaw_record.runners.base.text.fields import shallow_json
from lhaw_record.runners.models.failures import in_band_error
from lhaw_record.runners.models.streams.joining import Body, ReplyStream, StreamStep, fields, malformed, object_in

_PASS, _TOKEN, _DECISIVE = StreamStep(), StreamStep(has_token=True), StreamStep(is_decisive=True)
_APPENDED = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


class MessagesStream(ReplyStream):
    """One streamed message. A call is complete when its block closes."""

    def __init__(self) -> None:
        super().__init__()
        self._message: Body = {}
        self._blocks: list[Body] = []
        self._numbers: dict[int, int] = {}  # by index, the block begun last: some servers number all blocks 0
        self._pieces: dict[tuple[int, str], list[str]] = {}

    def add(self, name: str, data: Body) -> StreamStep:
        kind = str(data.get("type") or name)
        if kind == "content_block_delta":
            return self._delta(_index(data), object_in(data.get("delta"), "a delta"))
        if kind == "message_start":
            self._message = dict(object_in(data.get("message"), "the message"))
        elif kind == "content_block_start":
            block = object_in(data.get("content_block"), "a block")
            is_repeated = _index(data) in self._numbers
            self._numbers[_index(data)] = len(self._blocks)
            self._blocks.append(dict(block))
            if block.get("type") == "tool_use":
                self.calls_split_by = "id" if is_repeated and self.calls else self.calls_split_by
                self.calls.append([(block, "id")])
                return StreamStep(begins_call=str(block.get("id") or ""), has_token=True)
        elif kind == "content_block_stop":
            number = self._numbers.get(_index(data))
            return _DECISIVE if number is not None and self._blocks[number].get("type") == "tool_use" else _PASS
        elif kind == "message_delta":
            self._message |= fields(data.get("delta"))
            self._message["usage"] = {**fields(self._message.get("usage")), **fields(data.get("usage"))}
            self._message |= {key: value for key, value in data.items() if key not in ("type", "delta", "usage")}
            return _DECISIVE
        elif kind == "message_stop":
            self.is_whole = True
            return _DECISIVE
        elif kind == "error":
            raise in_band_error(data.get("error"))
        return _PASS

    def body(self) -> Body:
        for (number, field), pieces in self._pieces.items():
            block = self._blocks[number]
            joined = "".join(pieces)
            if field == "input":
                block["input"] = _input(joined)
            else:
                block[field] = str(block.get(field) or "") + joined
        self._pieces.clear()
        return {**self._message, "content": [*self._blocks]}

    def _delta(self, index: int, delta: Body) -> StreamStep:
        number = self._numbers.get(index)
        if number is None:
            raise malformed("a delta belongs to no block")
        kind = str(delta.get("type"))
        has_token = any(value for name, value in delta.items() if name != "type")
        if kind in _APPENDED:
            field = _APPENDED[kind]
            self._pieces.setdefault((number, field), []).append(str(delta.get(field) or ""))
        elif kind == "input_json_delta":
            self._pieces.setdefault((number, "input"), []).append(str(delta.get("partial_json") or ""))
        elif kind == "citations_delta":
            block = self._blocks[number]
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
        else:  # an unknown, newer kind: its fields belong to the block
            self._blocks[number] |= {name: value for name, value in delta.items() if name != "type"}
        return _TOKEN if has_token else _PASS


def _index(data: Body) -> int:
    index = data.get("index")
    if not isinstance(index, int):
        raise malformed("an event names no block")
    return index


def _input(written: str) -> object:
    """Return a call's input. Malformed JSON, as in a truncated reply, is kept as text."""
    try:
        return msgspec.json.decode(shallow_json(written.encode()) or b"{}")
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return {"malformed_arguments": written}
