"""Which attempts a person set aside. The last decision about an attempt counts."""

from collections.abc import Iterable

from lhaw_record.recorder.events import Envelope, TrialsDiscarded
from lhaw_record.recorder.reading.typed_rows import in_recorded_order


def standing_discards(envelopes: Iterable[Envelope]) -> dict[str, TrialsDiscarded]:
    """Return the decision that stands for each attempt that is set aside, by stream id."""
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


def owed_again(envelopes: Iterable[Envelope]) -> frozenset[str]:
    """Return the stream ids of the attempts that were set aside so that a run repeats them."""
    return frozenset(stream_id for stream_id, event in standing_discards(envelopes).items() if event.is_owed)
