"""Checks that streams have no gaps, no events after the closing event, the right digest and intact artifacts."""

import hashlib
import math
from collections.abc import Iterator
from pathlib import Path

import msgspec

from lhaw_record.recorder.errors import DamagedStore
from lhaw_record.recorder.events import ArtifactStored, Envelope
from lhaw_record.recorder.events.closing import CLOSING, covered
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store


class VerifyProblem(msgspec.Struct, frozen=True, kw_only=True):
    """One problem in a file. ``row`` counts from 0, and is None if the problem concerns the whole file."""

    file: str
    row: int | None
    problem: str


class Record(msgspec.Struct, frozen=True):
    """One event, its location, and the experiment that the file belongs to."""

    file: Path
    row: int
    envelope: Envelope
    experiment_id: str


class _StreamState:
    """How far a stream has been checked.

    ``following`` is the next expected sequence number. ``held`` are events that were read before an earlier event in
    the stream. ``chain`` is the digest so far, and None once the stream is closed. ``is_disordered`` is set at the
    first event out of order, so that only this event is reported.
    """

    __slots__ = ("chain", "following", "held", "is_disordered")

    def __init__(self) -> None:
        self.following = 0
        self.chain: hashlib._Hash | None = hashlib.sha256()
        self.held: list[Record] | None = None
        self.is_disordered = False


class StreamChecks:
    """Checks every stream of a store across all files. A closed stream needs little memory."""

    def __init__(self, store: Store) -> None:
        self.events = 0
        self._store = store
        self._streams: dict[tuple[str, str], _StreamState] = {}
        self._good_blobs: set[str] = set()

    @property
    def streams(self) -> int:
        """The number of streams seen so far."""
        return len(self._streams)

    @property
    def open_streams(self) -> int:
        """The number of streams seen so far without a closing event."""
        return sum(state.chain is not None for state in self._streams.values())

    def follow(self, record: Record) -> Iterator[VerifyProblem]:
        """Check an event, or hold it until the earlier events of its stream are read."""
        self.events += 1
        key = (record.experiment_id, record.envelope.stream_id)
        state = self._streams.get(key) or self._streams.setdefault(key, _StreamState())
        if record.envelope.sequence > state.following:
            state.held = state.held or []
            state.held.append(record)
            return
        yield from self._check(record, state)

    def rest(self) -> Iterator[VerifyProblem]:
        """Check the events that are still held after all files have been read."""
        for state in self._streams.values():
            for record in sorted(state.held or (), key=lambda record: record.envelope.sequence):
                yield from self._check(record, state)

    def _check(self, record: Record, state: _StreamState) -> Iterator[VerifyProblem]:
        for problem in self._problems(record, state):
            where = f"stream {record.envelope.stream_id}"
            yield VerifyProblem(file=str(record.file), row=record.row, problem=f"{where}: {problem}")

    def _problems(self, record: Record, state: _StreamState) -> Iterator[str]:
        envelope = record.envelope
        if envelope.experiment_id != record.experiment_id:
            yield f"its event is of experiment {envelope.experiment_id}, the file is for {record.experiment_id}"
        if not state.is_disordered and (state.chain is None or envelope.sequence != state.following):
            state.is_disordered = True
            where = "follows the closing event" if state.chain is None else f"is where {state.following} belongs"
            yield f"event {envelope.sequence} {where}"
        if state.chain is not None:
            state.chain.update(covered(envelope))
        if isinstance(envelope.event, CLOSING):
            if state.chain is not None and envelope.event.stream_digest != state.chain.hexdigest():
                yield "the digest in the closing event is not that of the stream"
            state.chain = None
        if isinstance(envelope.event, ArtifactStored):
            yield from self._blob_problems(envelope.event)
        if not all(math.isfinite(each) for each in msgspec.structs.astuple(envelope.event) if isinstance(each, float)):
            yield f"event {envelope.sequence} holds a number that is not finite"
        state.following = envelope.sequence + 1

    def _blob_problems(self, event: ArtifactStored) -> Iterator[str]:
        if event.sha256 in self._good_blobs:
            return
        try:
            content = load_blob(self._store, event.sha256)
        except FileNotFoundError:
            yield f"artifact {event.sha256} is not in {self._store.blobs_dir}"
            return
        except DamagedStore as error:
            yield f"artifact {event.sha256}: {error}"
            return
        if hashlib.sha256(content).hexdigest() == event.sha256:
            self._good_blobs.add(event.sha256)
        else:
            yield f"artifact {event.sha256} has other bytes than its name says"
