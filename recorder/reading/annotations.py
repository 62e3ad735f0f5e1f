"""Discarded attempts and notes about attempts.

The last decision about an attempt counts, and each author's last note about it.
"""

from collections.abc import Iterable

from lhaw_record.recorder.events import Envelope, TrialsDiscarded, TrialsNoted
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.typed_rows import events_of_types, in_recorded_order


def standing_discards(envelopes: Iterable[Envelope]) -> dict[str, TrialsDiscarded]:
    """Return the effective decision about each discarded attempt, by stream id."""
    standing: dict[str, TrialsDiscarded] = {}
    decisions = [each for each in envelopes if isinstance(each.event, TrialsDiscarded)]
    for envelope in sorted(decisions, key=in_recorded_order):
        event = envelope.event
        assert isinstance(event, TrialsDiscarded)
        for stream_id in event.stream_ids:
            if event.is_undone:
                standing.pop(stream_id, None)
            else:
                standing[stream_id] = event
    return standing


def read_notes(snapshot: Snapshot) -> dict[str, list[TrialsNoted]]:
    """Return the current notes in a store by the attempt's stream id, ordered by author."""
    return standing_notes(events_of_types(snapshot, (TrialsNoted,)))


def standing_notes(envelopes: Iterable[Envelope]) -> dict[str, list[TrialsNoted]]:
    """Return the current notes, as :func:`read_notes` does."""
    standing: dict[str, dict[str, TrialsNoted]] = {}
    for envelope in sorted((each for each in envelopes if isinstance(each.event, TrialsNoted)), key=in_recorded_order):
        event = envelope.event
        assert isinstance(event, TrialsNoted)
        for stream_id in event.stream_ids:
            notes = standing.setdefault(stream_id, {})
            notes.pop(event.author, None)
            if not event.is_undone:
                notes[event.author] = event
    return {stream_id: [notes[author] for author in sorted(notes)] for stream_id, notes in standing.items() if notes}


def note_line(note: TrialsNoted) -> str:
    """Return a note as one line of text."""
    cause = "" if note.cause is None else f", blames the {note.cause.replace('_', ' ')}"
    return f"note by {note.author}{cause}: {note.note}"
