"""The digest of a stream: a SHA-256 over all records of the stream, which the closing record stores."""

import msgspec

from lhaw_record.recorder.events import AnyEvent, Envelope, RunFinished, TrialFailed, TrialFinished

CLOSING = (RunFinished, TrialFinished, TrialFailed)
"""The events that close a stream."""

_encoder = msgspec.msgpack.Encoder()


def covered(envelope: Envelope) -> bytes:
    """Return the bytes of a record that the stream digest covers.

    They are the encoded record. In a closing record, the digest field is emptied first.
    """
    if isinstance(envelope.event, CLOSING):
        envelope = with_digest(envelope, "")
    return _encoder.encode(envelope)


def with_digest(envelope: Envelope, digest: str) -> Envelope:
    """Return a closing record with its digest field set."""
    closing: AnyEvent = msgspec.structs.replace(envelope.event, stream_digest=digest)
    return msgspec.structs.replace(envelope, event=closing)
