"""Replies already in a store, so that a repeated job does not pay for them again.

A reply belongs to one request of one thread. The thread's name identifies a job, so it must be the same in every run.
When a thread sends the same request for the n-th time, it gets the n-th recorded reply. A recalled reply is not
recorded again: it is in the events of the run that paid for it, and its cost counts once.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
import pyarrow.dataset as ds

from lhaw_record.recorder.events import ModelCalled, ModelResponded, type_name
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.typed_rows import from_each
from lhaw_record.runners.base.conversation.deltas import reply_message
from lhaw_record.runners.base.conversation.messages import Message, conversation_digest
from lhaw_record.runners.models.protocol import ModelReply

_CALLED = type_name(ModelCalled)
_RESPONDED = type_name(ModelResponded)
_ENVELOPE = ("stream_id", "sequence", "recorded_at_us")
_REQUEST = ("call_id", "role", "thread_id", "model", "parameters_json", "request_digest")  # not the messages


class RequestKey(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies a request. ``parameters_json`` is as recorded, and ``request_digest`` covers all messages."""

    role: str
    thread_id: str
    model: str
    parameters_json: str
    request_digest: str


RecordedReplies = Mapping[RequestKey, Sequence[ModelResponded]]
"""The replies in a store by request, in the order in which they were recorded."""


class ThreadMemory:
    """The replies that earlier runs recorded for one thread.

    Args:
        recorded: The replies in a store.
        thread_id: The thread's name, the same as in those runs.
    """

    def __init__(self, recorded: RecordedReplies, role: str, thread_id: str, model: str) -> None:
        self._recorded = recorded
        self._key = RequestKey(role=role, thread_id=thread_id, model=model, parameters_json="", request_digest="")
        self._given: Counter[str] = Counter()
        self.replies: list[ModelReply] = []
        """The replies recalled so far."""

    def __bool__(self) -> bool:
        return bool(self._recorded)

    def reply(self, messages: Sequence[Message], parameters_json: str) -> ModelReply | None:
        """Return the next recorded reply to a request without tools, each only once, or None if there are no more."""
        digest = conversation_digest(messages)
        replace = msgspec.structs.replace
        found = self._recorded.get(replace(self._key, parameters_json=parameters_json, request_digest=digest), ())
        if self._given[digest] >= len(found):
            return None
        responded = found[self._given[digest]]
        self._given[digest] += 1
        reply = ModelReply(
            message=reply_message(responded),
            finish_reason=responded.finish_reason or "stop",
            usage=responded.usage,
            served_model=responded.served_model,
            reasoning_text=responded.reasoning.text if responded.reasoning else None,
        )
        self.replies.append(reply)
        return reply


def load_recorded_replies(
    snapshot: Snapshot, experiment_id: str | None = None, roles: Iterable[str] = ("extractor", "rewriter", "judge")
) -> RecordedReplies:
    """Load a store's replies for some roles, from segments and unsealed journals.

    Only row groups with these roles are read, without messages: a store with 500,000 agent events takes 0.03 s.
    """
    wanted = list(roles)
    requests: dict[tuple[str, str], RequestKey] = {}
    replies: list[tuple[int, str, int, ModelResponded]] = []

    def read(table: ds.Dataset) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        return (
            _rows(table, _CALLED, _REQUEST, experiment_id, wanted),
            _rows(table, _RESPONDED, ModelResponded.__struct_fields__, experiment_id, wanted),
        )

    for called, answered in from_each(snapshot, read):
        for row in called:
            if row["parameters_json"] is not None:
                requests[row["stream_id"], row["call_id"]] = RequestKey(**{name: row[name] for name in _FIELDS})
        for row in answered:
            place = row["recorded_at_us"], row["stream_id"], row["sequence"]
            said = {name: value for name, value in row.items() if name not in _ENVELOPE and value is not None}
            replies.append((*place, msgspec.convert({**_UNKNOWN, **said}, ModelResponded)))
    found: dict[RequestKey, list[ModelResponded]] = defaultdict(list)
    for _, stream_id, _, responded in sorted(replies, key=lambda each: each[:3]):
        key = requests.get((stream_id, responded.call_id))
        if key is not None:
            found[key].append(responded)
    return found


_FIELDS = RequestKey.__struct_fields__
_UNKNOWN = {"type": _RESPONDED, "finish_reason": None, "latency_ms": None}


def _rows(
    table: ds.Dataset, event: str, names: Iterable[str], experiment_id: str | None, roles: list[str]
) -> list[dict[str, Any]]:
    """Return the position and some fields of every event of one type whose role is wanted."""
    if event not in table.schema.names:
        return []
    known = [name for name in names if table.schema.field(event).type.get_field_index(name) >= 0]
    columns = {name: ds.field(name) for name in _ENVELOPE} | {name: ds.field(event, name) for name in known}
    wanted = (ds.field("type") == event) & ds.field(event, "role").isin(roles)
    if experiment_id is not None:
        wanted &= ds.field("experiment_id") == experiment_id
    if not table.count_rows(filter=wanted):  # reads only the filter's columns; most segments have only agent events
        return []
    return table.to_table(columns=columns, filter=wanted).to_pylist()  # type: ignore[no-any-return]
