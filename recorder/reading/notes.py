"""What people noted about attempts of trials. An author's last note about an attempt counts."""

from collections.abc import Iterable

import msgspec

from recorder.events import Envelope, TrialsNoted
from recorder.reading.reader import Snapshot
from recorder.reading.typed_rows import events_of_types, in_recorded_order


class Note(msgspec.Struct, frozen=True):
    """A note that stands, and when it was written, in UTC microseconds since the epoch."""

    event: TrialsNoted
    recorded_at_us: int

    def __str__(self) -> str:
        """Return the note as one line."""
        cause = "" if self.event.cause is None else f", blames the {self.event.cause.replace('_', ' ')}"
        return f"note by {self.event.author}{cause}: {self.event.note}"


def read_notes(snapshot: Snapshot) -> dict[str, list[Note]]:
    """Return the notes of a store that stand, by the attempt's stream id, in the order of their authors' names."""
    return standing_notes(events_of_types(snapshot, (TrialsNoted,)))


def standing_notes(envelopes: Iterable[Envelope]) -> dict[str, list[Note]]:
    """Return the notes that stand, as :func:`read_notes` does.

    Args:
        envelopes: Events in any order. Events of other types are ignored.
    """
    standing: dict[str, dict[str, Note]] = {}
    for envelope in sorted((each for each in envelopes if isinstance(each.event, TrialsNoted)), key=in_recorded_order):
        event = envelope.event
        assert isinstance(event, TrialsNoted)
        for stream_id in event.stream_ids:
            notes = standing.setdefault(stream_id, {})
            notes.pop(event.author, None)
            if not event.is_undone:
                notes[event.author] = Note(event, envelope.recorded_at_us)
    return {stream_id: [notes[author] for author in sorted(notes)] for stream_id, notes in standing.items() if notes}
