"""A stream numbers and chains the events of one trial attempt or one run, and passes them to the recorder."""

import hashlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import AnyEvent, Envelope
from lhaw_record.recorder.events.closing import CLOSING, DECISIONS, RECORDER_ENDED, closing_event, with_digest
from lhaw_record.recorder.events.encoding import encoded
from lhaw_record.recorder.storage.journal_format import record

_CLOSING = frozenset(CLOSING)
_DECISIONS = frozenset(DECISIONS)


class Draft(NamedTuple):
    """An encoded envelope on its way to the commit thread, which removes its secrets and chains it into its stream."""

    stream: "Stream"
    payload: bytes
    is_closing: bool


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

    async def commit(self, drafts: Sequence[Draft], *, is_decision: bool) -> None:
        """Make drafts durable in one commit, without secrets. On a shared store, also publish a decision.

        Raises:
            RecordingFailed: The drafts are not durable, or not published.
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
        self._deferred: list[Draft] = []

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the stream began, to the microsecond."""
        return round((self._recorder.monotonic_ns() - self._began_ns) / 1e6, 3)

    async def append(self, *events: AnyEvent) -> None:
        """Record events in order, and return when all are durable. A crash leaves all of them or none.

        On a shared store, an append with a decision returns when every host can see it.
        """
        drafts, self._deferred = [*self._deferred, *self.drafts(events)], []
        if drafts:
            await self._recorder.commit(drafts, is_decision=not _DECISIONS.isdisjoint(map(type, events)))

    def defer(self, *events: AnyEvent) -> None:
        """Record events as of now, durable with the next append, which must come before anything follows from them."""
        self._deferred += self.drafts(events)

    def drafts(self, events: Sequence[AnyEvent]) -> list[Draft]:
        """Return the next events as drafts, which the caller must commit in this order.

        Raises:
            RecordingFailed: The stream is closed, or an event could never be sealed. Nothing has changed.
        """
        if events and (self._is_closed or not _CLOSING.isdisjoint(map(type, events[:-1]))):
            late = type(events[-1]).__name__
            raise RecordingFailed(f"stream {self.stream_id} is closed; {late} cannot follow its closing event")
        drafts = [self._draft(event, self._sequence + place) for place, event in enumerate(events)]
        if drafts:
            self._first = self._first or events[0]
            self._sequence += len(drafts)
            self._is_closed = drafts[-1].is_closing
        if self._is_closed:
            self._recorder.forget(self.stream_id)
        return drafts

    def last_drafts(self) -> list[Draft]:
        """Return the drafts that close the stream when its recorder ends: none for an empty or closed stream."""
        if self._first is None or self._is_closed:
            return []
        return [*self._deferred, *self.drafts([closing_event(self._first, RECORDER_ENDED)])]

    def chained(self, payload: bytes, *, is_closing: bool) -> bytes:
        """Return the record of the next payload of this stream, which has no secrets any more.

        The commit thread calls this, in the order of the drafts.
        """
        self._chain.update(payload)
        if is_closing:
            stored = msgspec.msgpack.decode(payload, type=Envelope)
            payload = encoded(with_digest(stored, self._chain.hexdigest()))
        return record(payload)

    def _draft(self, event: AnyEvent, sequence: int) -> Draft:
        envelope = Envelope(
            stream_id=self.stream_id,
            sequence=sequence,
            recorded_at_us=self._recorder.wall_us(),
            elapsed_ns=self._recorder.monotonic_ns() - self._began_ns,
            writer_id=self._recorder.writer_id,
            experiment_id=self._recorder.experiment_id,
            trial_id=self._trial_id,
            attempt=self._attempt,
            event=event,
        )
        return Draft(self, encoded(envelope), type(event) in _CLOSING)
