"""The last events of a store, one line each; from the newest row groups and the open journals, not from all of it."""

import copy
import heapq
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from recorder.events import Envelope
from recorder.inspection.tail_lines import Line, fresh_lines, last_lines, line_of, lines_of
from recorder.journal import JournalContent, read_journal
from recorder.reader import at_rest, stream_rows
from recorder.retirement import list_retired
from recorder.segments import Segments, list_segments
from recorder.store import JournalName, Store


class _Seen(msgspec.Struct):
    """What was looked at: journals whose segment was, size and records of open ones, the last sequence of a stream."""

    sealed: set[JournalName] = msgspec.field(default_factory=set)
    sizes: dict[JournalName, int] = msgspec.field(default_factory=dict)
    records: Counter[JournalName] = msgspec.field(default_factory=Counter)
    sequences: dict[tuple[str, str], int] = msgspec.field(default_factory=dict)
    since_us: int = 0

    def note(self, lines: Iterable[Line]) -> None:
        """Note how far the streams of some lines were seen."""
        for line in lines:
            key = (line.experiment_id, line.stream_id)
            self.sequences[key] = max(line.sequence, self.sequences.get(key, -1))


class Tail:
    """Looks at the end of a store, once or again and again.

    Args:
        root: The store.
        stream_id: Only this stream; all if None.

    Raises:
        StoreError: There is no store.
    """

    def __init__(self, root: Path, stream_id: str | None = None) -> None:
        self._store = Store(root)
        self._stream_id = stream_id
        self._seen = _Seen()

    def last(self, count: int) -> list[Line]:
        """Return the last events in the order of their time; what comes after them is :meth:`new`.

        Args:
            count: How many at most.

        Raises:
            StoreError: The store never holds still.
            DamagedStore: A journal is damaged in the middle, or a segment cannot be read.
        """
        found, self._seen = at_rest(self._store, lambda: self._last(max(count, 1)))
        return sorted(found)[max(0, len(found) - count) :]

    def new(self) -> list[Line]:
        """Return the events that came since the last look, in the order of their time.

        Raises:
            StoreError: The store never holds still.
            DamagedStore: A journal is damaged in the middle, or a segment cannot be read.
        """
        found, self._seen = at_rest(self._store, self._new)
        return sorted(line for line in found if self._is_asked(line))

    def _last(self, count: int) -> tuple[list[Line], _Seen]:
        seen = _Seen()
        journals = self._store.journals()
        segments = list_segments(self._store)
        found = [line for line in _journal_lines(journals, segments, seen) if self._is_asked(line)]
        paths = [segment.path for segment in segments.chosen]
        if self._stream_id is None:
            found = last_lines(paths, heapq.nlargest(count, found), count)
        else:
            for path in paths:
                found += lines_of(path, stream_rows(self._store, path, self._stream_id))
        seen.sealed = set(segments.covered)
        seen.since_us = max((line.recorded_at_us for line in found), default=0)
        return found, seen

    def _new(self) -> tuple[list[Line], _Seen]:
        seen = copy.deepcopy(self._seen)  # a look that a vanishing file ends leaves no trace
        journals = self._store.journals()
        segments = list_segments(self._store)
        found: list[Line] = []
        replaced = (*segments.superseded, *list_retired(self._store))
        in_order = sorted((*segments.chosen, *replaced), key=lambda each: (len(each.covers), each.covers))
        for segment in in_order:  # a stream's earlier events first
            if not seen.sealed.issuperset(segment.covers):
                # One that was merged before it was seen may hold old events too; they are told by their time.
                since_us = seen.since_us if len(segment.covers) > 1 else 0
                lines = fresh_lines(segment.path, seen.sequences, since_us)
                seen.note(lines)
                seen.sealed.update(segment.covers)
                found += lines
        return [*found, *_journal_lines(journals, segments, seen)], seen

    def _is_asked(self, line: Line) -> bool:
        return self._stream_id in (None, line.stream_id)


def _journal_lines(journals: Mapping[JournalName, Path], segments: Segments, seen: _Seen) -> list[Line]:
    """What the open journals hold that was not seen yet."""
    found: list[Line] = []
    for name, path in journals.items():
        size = path.stat().st_size
        if name not in segments.covered and size != seen.sizes.get(name):
            content = read_journal(path, path.read_bytes())
            envelopes = _after(content, seen.records[name]) if content else []
            found += [line_of(envelope) for envelope in envelopes]
            seen.records[name] += len(envelopes)
            seen.sizes[name] = size
    seen.note(found)
    return found


def _after(content: JournalContent, records: int) -> list[Envelope]:
    """The envelopes of a journal after the first ones."""
    return msgspec.structs.replace(content, payloads=content.payloads[records:]).envelopes()
