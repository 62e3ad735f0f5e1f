"""A stream numbers and chains the events of one trial attempt or one run, and passes them to the recorder."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Protocol

import msgspec

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import AnyEvent, Envelope
from lhaw_record.recorder.events.closing import CLOSING, DECISIONS, RECORDER_ENDED, closing_event, with_digest
from lhaw_record.recorder.storage.journal_format import record


class Sink(Protocol):
    """What a stream needs from its recorder."""

    writer_id: str
    experiment_id: str

    def wall_us(self) -> int:
        """Return the time for the next event, in microseconds."""
        ...

    def monotonic_ns(self) -> int:
        """Return a time in nanoseconds that never goes back."""
        ...

    def encode(self, envelope: Envelope) -> bytes:
        """Return the bytes of an envelope, without secrets.

        Raises:
            RecordingFailed: The envelope could never be sealed.
        """
        ...

    async def commit(self, records: Sequence[bytes], *, is_decision: bool) -> None:
        """Make records durable in one commit. On a shared store, also publish a decision.

        Raises:
            RecordingFailed: The records are not durable, or not published.
        """
        ...

    def forget(self, stream_id: str) -> None:
        """Note that a stream has its closing event."""
        ...


class Stream:
    """One stream of events, numbered from 0 without gaps and chained into one SHA-256 in its closing event."""

    def __init__(self, recorder: Sink, stream_id: str, trial_id: str | None, attempt: int | None) -> None:
        self.stream_id = stream_id
        self._recorder = recorder
        self._trial_id = trial_id
        self._attempt = attempt
        self._sequence = 0
        self._chain = hashlib.sha256()
        self._began_ns = recorder.monotonic_ns()
        self._first: AnyEvent | None = None
        self._is_closed = False

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the stream began, to the microsecond."""
        return round((self._recorder.monotonic_ns() - self._began_ns) / 1e6, 3)

    async def append(self, *events: AnyEvent) -> None:
        """Record events in order, and return when all are durable. A crash leaves all of them or none.

        On a shared store, an append with a decision returns when every host can see it.
        """
        if events:
            is_decision = any(isinstance(event, DECISIONS) for event in events)
            await self._recorder.commit(self.records(events), is_decision=is_decision)

    def records(self, events: Iterable[AnyEvent]) -> list[bytes]:
        """Return the next events as records, which the caller must commit in this order."""
        events = tuple(events)
        if events and (self._is_closed or any(isinstance(event, CLOSING) for event in events[:-1])):
            late = type(events[-1]).__name__
            raise RecordingFailed(f"stream {self.stream_id} is closed; {late} cannot follow its closing event")
        before = self._sequence, self._chain.copy(), self._first, self._is_closed
        try:
            return [record(self._encoded(event)) for event in events]
        except RecordingFailed:
            self._sequence, self._chain, self._first, self._is_closed = before
            raise

    def last_records(self) -> list[bytes]:
        """Return the records that close the stream when its recorder ends, none if the stream is empty or closed."""
        if self._first is None or self._is_closed:
            return []
        return self.records([closing_event(self._first, RECORDER_ENDED)])

    def _encoded(self, event: AnyEvent) -> bytes:
        recorder = self._recorder
        envelope = Envelope(
            stream_id=self.stream_id,
            sequence=self._sequence,
            recorded_at_us=recorder.wall_us(),
            elapsed_ns=recorder.monotonic_ns() - self._began_ns,
            writer_id=recorder.writer_id,
            experiment_id=recorder.experiment_id,
            trial_id=self._trial_id,
            attempt=self._attempt,
            event=event,
        )
        payload = recorder.encode(envelope)
        self._chain.update(payload)
        if isinstance(event, CLOSING):
            stored = msgspec.msgpack.decode(payload, type=Envelope)  # without secrets
            payload = recorder.encode(with_digest(stored, self._chain.hexdigest()))
            self._is_closed = True
            recorder.forget(self.stream_id)
        self._first = self._first or event
        self._sequence += 1
        return payload
