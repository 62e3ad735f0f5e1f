"""Hypothesis strategies for events and streams, derived from the event union itself."""

import hashlib

from hypothesis import strategies as st

from lhaw_record.recorder.events import (
    EVENT_TYPES,
    ArtifactStored,
    Envelope,
    RunFinished,
    TrialFailed,
    TrialFinished,
    Wire,
)

_CLOSING = (RunFinished, TrialFailed, TrialFinished)
_text = st.text(st.characters(codec="utf-8"), max_size=20)
_name = st.builds(str.__add__, st.sampled_from("az09"), st.text("az09._-", max_size=20))
_number = st.integers(-(2**40), 2**40)
_sha256 = st.binary(max_size=4).map(lambda content: hashlib.sha256(content).hexdigest())
_float = st.floats(allow_nan=False, allow_infinity=False, width=32)


def events():
    """Any event of any type."""
    for cls in (str, int, float):
        st.register_type_strategy(cls, {str: _text, int: _number, float: _float}[cls])
    digests = st.none() | _sha256
    st.register_type_strategy(
        Wire,
        st.builds(
            Wire,
            sent_sha256=digests,
            received_sha256=digests,
            first_token_ms=st.none() | _float,
            changes_json=st.none() | _text,
        ),
    )
    return st.one_of([_built(cls) for cls in EVENT_TYPES])


def open_events():
    """Any event that does not close its stream."""
    events()
    return st.one_of([_built(cls) for cls in EVENT_TYPES if not issubclass(cls, _CLOSING)])


def _built(cls):
    if cls is ArtifactStored:
        return st.builds(cls, sha256=_sha256)
    return st.from_type(cls)


def envelopes():
    """Records with any event."""
    return st.builds(
        Envelope,
        stream_id=_name,
        sequence=st.integers(0, 2**40),
        recorded_at_us=st.integers(0, 2**57),
        elapsed_ns=st.integers(0, 2**60),
        writer_id=_name,
        experiment_id=_name,
        trial_id=st.none() | _name,
        attempt=st.none() | st.integers(1, 1000),
        version=st.integers(1, 3),
        event=events(),
    )
