"""Makes the closing event for an unfinished stream, so that the trial gets a new attempt or the run is interrupted."""

import hashlib
from collections.abc import Sequence

import msgspec

from lhaw_record.recorder.events import AnyEvent, Envelope, RunFinished, RunStarted, TrialFailed
from lhaw_record.recorder.events.stream_digest import covered, with_digest

PROCESS_ENDED = "the process that recorded this stream ended before it was finished"
RECORDER_ENDED = "the recorder ended before this stream was finished"


def closing_event(first: AnyEvent, message: str) -> AnyEvent:
    """Return the event that ends a stream."""
    if isinstance(first, RunStarted):
        return RunFinished(
            run_id=first.run_id,
            outcome="interrupted",
            trials_finished=0,
            trials_failed=0,
            trials_blocked=0,
            trials_left=0,
            message=message,
        )
    return TrialFailed(boundary="recorder", error_kind="interrupted", message=message, is_retry_owed=True)


def closing_record(records: Sequence[Envelope], now_us: int, message: str = PROCESS_ENDED) -> Envelope:
    """Return the record that closes a stream, with the digest of the whole stream."""
    last = records[-1]
    closing = msgspec.structs.replace(
        last,
        sequence=last.sequence + 1,
        recorded_at_us=max(now_us, last.recorded_at_us),
        event=closing_event(records[0].event, message),
        version=1,
    )
    return chained(records, closing)


def chained(records: Sequence[Envelope], closing: Envelope) -> Envelope:
    """Return a closing record with the digest over the records before it and over itself."""
    chain = hashlib.sha256()
    for each in (*records, closing):
        chain.update(covered(each))
    return with_digest(closing, chain.hexdigest())
