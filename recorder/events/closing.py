"""The events that close a stream and hold its digest, a SHA-256 over all its records."""

import hashlib
from collections.abc import Sequence

import msgspec

from lhaw_record.recorder.events import (
    CONTROL,
    AnyEvent,
    Envelope,
    LookTaken,
    OracleBudgetSet,
    RunFinished,
    RunStarted,
    TrialFailed,
    TrialFinished,
    type_name,
)
from lhaw_record.recorder.events.encoding import encoded

CLOSING = (RunFinished, TrialFinished, TrialFailed)
CLOSING_TYPES = tuple(type_name(cls) for cls in CLOSING)
DECISIONS = (*CLOSING, OracleBudgetSet, LookTaken, RunStarted, *CONTROL)
"""Events that other hosts act on: stream ends, action budgets, looks, run starts and daemon commands."""
PROCESS_ENDED = "the process that recorded this stream ended before it was finished"
RECORDER_ENDED = "the recorder ended before this stream was finished"


def covered(envelope: Envelope) -> bytes:
    """Return the bytes of a record that the stream digest covers, which exclude the digest in a closing record."""
    return encoded(with_digest(envelope, "") if isinstance(envelope.event, CLOSING) else envelope)


def with_digest(envelope: Envelope, digest: str) -> Envelope:
    """Return a closing record with its digest field set."""
    closing: AnyEvent = msgspec.structs.replace(envelope.event, stream_digest=digest)
    return msgspec.structs.replace(envelope, event=closing)


def closing_event(first: AnyEvent, message: str) -> AnyEvent:
    """Return the event that closes an unfinished stream: a failed trial, to be repeated, or an interrupted run."""
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


def closing_record(records: Sequence[Envelope], now_us: int) -> Envelope:
    """Return the record that closes the stream of a dead process."""
    last = records[-1]
    closing = msgspec.structs.replace(
        last,
        sequence=last.sequence + 1,
        recorded_at_us=max(now_us, last.recorded_at_us),
        event=closing_event(records[0].event, PROCESS_ENDED),
        version=1,
    )
    chain = hashlib.sha256()
    for each in (*records, closing):
        chain.update(covered(each))
    return with_digest(closing, chain.hexdigest())
