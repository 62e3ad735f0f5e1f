"""Streams of OpenAI's Responses: events about items; the last event repeats the whole response."""

from lhaw_record.runners.models.failures import in_band_error
from lhaw_record.runners.models.streams.joining import Body, ReplyStream, StreamStep, fields

OWN_TOOLS = {  # calls of tools that the provider defines and the client runs
    "apply_patch_call": "operation",
    "computer_call": "action",
    "local_shell_call": "action",
    "shell_call": "action",
}

_PASS, _TOKEN, _DECISIVE = StreamStep(), StreamStep(has_token=True), StreamStep(is_decisive=True)
_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.cancelled"})
_CALLS = frozenset({"function_call", "custom_tool_call", *OWN_TOOLS})
_CALL_ENDS = ("function_call_arguments.done", "_call_input.done", "_call.done", "_call_code.done")


class ResponsesStream(ReplyStream):
    """One streamed response. A call is complete when its arguments or its item are done."""

    def __init__(self) -> None:
        super().__init__()
        self._response: Body = {}
        self._items: dict[tuple[int, str], Body] = {}
        self._call_numbers: dict[tuple[int, str], int] = {}

    def add(self, name: str, data: Body) -> StreamStep:
        kind = str(data.get("type") or name)
        if kind.endswith(".delta"):
            return _TOKEN if data.get("delta") else _PASS
        if kind == "error":
            raise in_band_error(data.get("error") or data)
        if isinstance(data.get("response"), dict):
            self._response = data["response"]
        if kind in _ENDS:
            self._end(kind)
            return _DECISIVE
        if kind in ("response.output_item.added", "response.output_item.done"):
            return self._item(data, is_done=kind.endswith("done"))
        return _DECISIVE if kind.endswith(_CALL_ENDS) else _PASS

    def body(self) -> Body:
        in_order = sorted(self._items.items(), key=lambda each: each[0][0])
        return {**self._response, "output": self._response.get("output") or [item for _, item in in_order]}

    def _end(self, kind: str) -> None:
        if kind in ("response.failed", "response.cancelled"):
            raise in_band_error(self._response.get("error") or {"message": f"the response ended as {kind}"})
        self.is_whole = True
        calls = [item for item in self._response.get("output") or () if _is_call(item)]
        for number, item in enumerate(calls[: len(self.calls)]):
            self.calls[number].append((item, "call_id"))

    def _item(self, data: Body, *, is_done: bool) -> StreamStep:
        item, index = fields(data.get("item")), int(data.get("output_index") or 0)
        call_id = str(item.get("call_id") or "") if _is_call(item) else ""
        place = index, "" if (index, "") in self._call_numbers else call_id
        self._items[place] = item
        if not _is_call(item):
            return _PASS
        number = self._call_numbers.get(place)
        if number is None:
            if any(index == begun for begun, _ in self._call_numbers):
                self.calls_split_by = "id"
            number = self._call_numbers[place] = len(self.calls)
            self.calls.append([(item, "call_id")])
            return StreamStep(is_decisive=is_done, begins_call=str(item.get("call_id") or ""), has_token=True)
        self.calls[number].append((item, "call_id"))
        return _DECISIVE if is_done else _PASS


def _is_call(item: Body) -> bool:
    return isinstance(item, dict) and item.get("type") in _CALLS
