"""Shows the last events of a store, one per line, reading only the newest row groups and the open journals."""

import copy
import heapq
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from itertools import chain
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from lhaw_record.recorder.events import Envelope, type_name
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.inspection.stat import column_statistics
from lhaw_record.recorder.reading.reader import consistent_read, stream_rows
from lhaw_record.recorder.storage.journal import read_journal
from lhaw_record.recorder.storage.retirement import list_retired
from lhaw_record.recorder.storage.segments import StoreSegments, list_segments, readable, where_now
from lhaw_record.recorder.storage.store import Store

_LONGEST_SUMMARY = 100
_ORDER = ("recorded_at_us", "experiment_id", "stream_id", "sequence")


class TailLine(msgspec.Struct, frozen=True, order=True):
    """One event as a line. Lines sort in the order in which they are printed."""

    recorded_at_us: int
    experiment_id: str
    stream_id: str
    sequence: int
    type: str
    summary: str

    def row(self) -> dict[str, Any]:
        """Return the values to print by column name."""
        seconds, micros = divmod(self.recorded_at_us, 1_000_000)
        moment = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))
        return {
            "recorded_at": f"{moment}.{micros // 1000:03d}Z",
            "stream_id": self.stream_id,
            "sequence": self.sequence,
            "type": self.type,
            "summary": self.summary,
        }


class _Seen(msgspec.Struct):
    """How far the store has been read.

    Attributes:
        sealed: Journals whose segments have been read.
        sizes: The size of each open journal when it was last read, in bytes.
        records: The number of records read from each open journal.
        sequences: The last sequence number seen, by (experiment_id, stream_id).
        since_us: The time of the newest event from the first read, in microseconds since the epoch.
    """

    sealed: set[JournalName] = msgspec.field(default_factory=set)
    sizes: dict[JournalName, int] = msgspec.field(default_factory=dict)
    records: Counter[JournalName] = msgspec.field(default_factory=Counter)
    sequences: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)
    since_us: int = 0

    def note(self, lines: Iterable[TailLine]) -> None:
        """Remember the last sequence number of each stream in the given lines."""
        for line in lines:
            key = (line.experiment_id, line.stream_id)
            self.sequences[key] = max(line.sequence, self.sequences.get(key, -1))


class Tail:
    """Reads the end of a store, once or repeatedly, for all streams or one."""

    def __init__(self, root: Path, stream_id: str | None = None) -> None:
        self._store = Store(root)
        self._stream_id = stream_id
        self._seen = _Seen()

    def last(self, count: int) -> list[TailLine]:
        """Return the last events in order of time."""
        found, self._seen = consistent_read(self._store, lambda: self._last(max(count, 1)))
        return sorted(found)[max(0, len(found) - count) :]

    def new(self) -> list[TailLine]:
        """Return the events that arrived since the last call, in order of time."""
        found, self._seen = consistent_read(self._store, self._new)
        return sorted(line for line in found if self._is_wanted(line))

    def _last(self, count: int) -> tuple[list[TailLine], _Seen]:
        seen = _Seen()
        journals = self._store.journals()
        segments = list_segments(self._store)
        found = [line for line in _journal_lines(journals, segments, seen) if self._is_wanted(line)]
        paths = [segment.path for segment in segments.chosen]
        if self._stream_id is None:
            found = _last_lines(paths, heapq.nlargest(count, found), count)
        else:
            for path in paths:
                found += _lines_of(path, stream_rows(self._store, path, self._stream_id))
        seen.sealed = set(segments.covered)
        seen.since_us = max((line.recorded_at_us for line in found), default=0)
        return found, seen

    def _new(self) -> tuple[list[TailLine], _Seen]:
        seen = copy.deepcopy(self._seen)  # if a file vanishes, the state must stay unchanged for the retry
        journals = self._store.journals()
        segments = list_segments(self._store)
        found: list[TailLine] = []
        replaced = (*segments.superseded, *list_retired(self._store))
        in_order = sorted((*segments.chosen, *replaced), key=lambda each: (len(each.covers), each.covers))
        for segment in in_order:  # a stream's earlier events first
            if not seen.sealed.issuperset(segment.covers):
                # A segment that was merged before we saw it may also hold old events, which only their time identifies.
                since_us = seen.since_us if len(segment.covers) > 1 else 0
                lines = _new_lines(segment.path, seen.sequences, since_us)
                seen.note(lines)
                seen.sealed.update(segment.covers)
                found += lines
        return [*found, *_journal_lines(journals, segments, seen)], seen

    def _is_wanted(self, line: TailLine) -> bool:
        return self._stream_id in (None, line.stream_id)


def _journal_lines(journals: Mapping[JournalName, Path], segments: StoreSegments, seen: _Seen) -> list[TailLine]:
    """Return the lines in open journals that have not been seen yet, and remember them in ``seen``."""
    found: list[TailLine] = []
    for name, path in journals.items():
        size = path.stat().st_size
        if name not in segments.covered and size != seen.sizes.get(name):
            content = read_journal(path, path.read_bytes())
            envelopes = content.envelopes(start=seen.records[name]) if content else []
            found += [_line_of(envelope) for envelope in envelopes]
            seen.records[name] += len(envelopes)
            seen.sizes[name] = size
    seen.note(found)
    return found


def _line_of(envelope: Envelope) -> TailLine:
    event_type = type_name(type(envelope.event))
    return TailLine(
        envelope.recorded_at_us,
        envelope.experiment_id,
        envelope.stream_id,
        envelope.sequence,
        event_type,
        summary(event_type, msgspec.structs.asdict(envelope.event), _LONGEST_SUMMARY),
    )


def _lines_of(path: Path, rows: pa.Table) -> list[TailLine]:
    """Convert rows of a segment to lines. The rows have the envelope columns and the columns of their event types."""
    with readable(path):
        return [
            TailLine(
                **{name: row[name] for name in _ORDER},
                type=row["type"],
                summary=summary(row["type"], row[row["type"]], _LONGEST_SUMMARY),
            )
            for row in rows.to_pylist()
        ]


class _Candidate(msgspec.Struct, frozen=True, order=True):
    """An event that may be among the last: its sort key, and either its line or its location."""

    order: tuple[int, str, str, int]
    path: Path | None = None
    group: int = 0
    row: int = 0
    line: TailLine | None = None


def _last_lines(paths: Iterable[Path], found: list[TailLine], count: int) -> list[TailLine]:
    """Return the last ``count`` lines from some segments and the lines already found, in no particular order.

    Row groups are read from newest to oldest, until ``count`` lines are newer than the next group.
    """
    best = [_Candidate(msgspec.structs.astuple(line)[: len(_ORDER)], line=line) for line in found]
    for newest_us, path, group in sorted(chain.from_iterable(map(_groups, paths)), reverse=True):
        if len(best) >= count and newest_us < best[-1].order[0]:
            break
        best = heapq.nlargest(count, [*best, *_last_of_group(path, group, count)])
    places: dict[tuple[Path, int], list[int]] = defaultdict(list)
    for each in best:
        if each.path is not None:
            places[each.path, each.group].append(each.row)
    lines = [each.line for each in best if each.line is not None]
    for (path, group), rows in places.items():
        lines += _lines_at(path, group, rows)
    return lines


def _new_lines(path: Path, sequences: Mapping[tuple[str, str], int], since_us: int) -> list[TailLine]:
    """Return the lines of a segment's events that have not been seen yet."""
    lines: list[TailLine] = []
    for _, _, group in _groups(path):
        keys = _read_keys(path, group).to_pylist()
        rows = [
            row
            for row, key in enumerate(keys)
            if key["sequence"] > sequences.get((key["experiment_id"], key["stream_id"]), -1)
            and key["recorded_at_us"] >= since_us
        ]
        lines += _lines_at(path, group, rows) if rows else []
    return lines


def _groups(path: Path) -> list[tuple[int, Path, int]]:
    """Return the row groups of a segment, each as (time of the newest event, path, group number)."""
    with readable(path):
        statistics = column_statistics(pq.read_metadata(where_now(path), memory_map=True), "recorded_at_us")
        newest_us = (sys.maxsize if each is None else each.max for each in statistics)  # unknown: read it first
        return [(time_us, path, group) for group, time_us in enumerate(newest_us)]


def _last_of_group(path: Path, group: int, count: int) -> list[_Candidate]:
    rows = _read_keys(path, group)
    rows = rows.append_column("row", pa.array(range(rows.num_rows), pa.int64()))
    last = rows.sort_by([(key, "descending") for key in _ORDER]).slice(0, count).to_pylist()
    return [
        _Candidate(
            (each["recorded_at_us"], each["experiment_id"], each["stream_id"], each["sequence"]),
            path,
            group,
            each["row"],
        )
        for each in last
    ]


def _read_keys(path: Path, group: int) -> pa.Table:
    with readable(path), pq.ParquetFile(where_now(path), memory_map=True) as file:
        return file.read_row_group(group, columns=list(_ORDER))


def _lines_at(path: Path, group: int, rows: list[int]) -> list[TailLine]:
    """Return the lines for some rows of a row group, reading only the columns of their event types."""
    with readable(path), pq.ParquetFile(where_now(path), memory_map=True) as file:
        types = set(file.read_row_group(group, columns=["type"])["type"].take(rows).to_pylist())
        return _lines_of(path, file.read_row_group(group, columns=[*_ORDER, "type", *sorted(types)]).take(rows))


Fields = Mapping[str, Any]


def summary(event_type: str, event: Fields, longest: int) -> str:
    """Return a summary of an event in one line of at most ``longest`` characters."""
    text = " ".join(_WORDS.get(event_type, _fields)(event).split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _action_started(event: Fields) -> str:
    said = "" if event["kind"] == "text" else _arguments(event["arguments_json"])
    name = "a reply without a tool call" if event["kind"] == "text" else event["name"]
    return f"{event['action_index']}: {name} {said}"


def _action_finished(event: Fields) -> str:
    result = "(no result)" if event["result"] is None else event["result"] or "(empty)"
    return f"{event['action_index']}: {'error: ' if event['is_error'] else ''}{result}"


def _injected(event: Fields) -> str:
    if event["status"] == "skipped":
        return f"skipped: {event['reason']}"
    return f"after action {event['after_action']}: {event['message'] or ''}"


def _arguments(arguments_json: str) -> str:
    """Return the arguments of a call as ``name=value``, a single argument without its name, and invalid JSON as is."""
    try:
        arguments = json.loads(arguments_json)
    except (ValueError, RecursionError):
        return arguments_json
    if not isinstance(arguments, dict):
        return arguments_json
    texts = {key: it if isinstance(it, str) else json.dumps(it, ensure_ascii=False) for key, it in arguments.items()}
    return " ".join(texts.values()) if len(texts) == 1 else ", ".join(f"{key}={it}" for key, it in texts.items())


def _fields(event: Fields) -> str:
    return " ".join(
        f"{name}={value}"
        for name, value in event.items()
        if value not in (None, "", [], ()) and not isinstance(value, dict | msgspec.Struct)
    )


def _question_answered(event: Fields) -> str:
    state = event.get("response_state") or "answered"
    return event["answer"] or ("(no text)" if state == "answered" else f"({state})")


_WORDS: Mapping[str, Callable[[Fields], str]] = {
    "action_started": _action_started,
    "action_finished": _action_finished,
    "question_asked": lambda event: event["question"],
    "question_answered": _question_answered,
    "clarification_injected": _injected,
    "checkpoint_scored": lambda event: f"{event['label']}: {event['score']:g} of {event['total']:g}",
    "model_failed": lambda event: f"{event['error_kind']}: {event['message']}",
}
