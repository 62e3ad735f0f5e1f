"""The recorder: makes events durable before ``append`` returns.

Many tasks append at once. One thread takes everything that is pending, removes secrets, writes it and makes it durable
with one ``fdatasync`` (group commit), then wakes the waiting tasks. Journals are rotated by size and age. Redaction,
sealing and uploads are passed in by ``recorder/writing/store_recorder.py``.
"""

import asyncio
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol, Self, TypeVar

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.errors import RecordingFailed, StoreError
from lhaw_record.recorder.events import Envelope, Event
from lhaw_record.recorder.events.encoding import encoded
from lhaw_record.recorder.events.identifiers import is_name
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.reading.reader import names_in_use
from lhaw_record.recorder.storage.journal import JournalFile, new_header
from lhaw_record.recorder.storage.store import Store, check_experiment_id
from lhaw_record.recorder.writing.stream import Draft, Stream

ROTATE_BYTES = 64 << 20
ROTATE_SECONDS = 3600.0


EventT = TypeVar("EventT", bound=Event)


class Redaction(Protocol):
    """Removes secrets from events."""

    def hits(self, payload: bytes) -> bool:
        """Return whether an encoded record may hold a secret."""
        ...

    def clean(self, event: EventT) -> EventT:
        """Return the event with every secret replaced."""
        ...


class Sealing(Protocol):
    """A closed journal that is being sealed."""

    def wait(self) -> int:
        """Wait until sealing has ended.

        Returns:
            0 if the segment exists and the journal was removed. Any other value means that the journal stays.
        """
        ...


class Upload(Protocol):
    """Uploads the journals of one writer to a shared store, in order.

    Attributes:
        failure: Why nothing more is uploaded, or None.
    """

    failure: RecordingFailed | None

    def start(self, store: Store, journal: JournalFile) -> Sealing:
        """Queue a closed journal. The caller may then release the journal."""
        ...

    async def published(self, number: int) -> None:
        """Wait until the journal with the given number and all earlier ones are visible to every host.

        Raises:
            RecordingFailed: One of them could not be published.
        """
        ...

    def is_due(self, number: int) -> bool:
        """Return whether the open journal should be closed because a task waits for it."""
        ...

    def fail(self, failure: RecordingFailed) -> None:
        """Upload nothing more, and pass the failure to all waiting tasks."""
        ...

    def close(self) -> None:
        """Wait until all queued journals were handled."""
        ...


class Clock(msgspec.Struct, frozen=True):
    """The source of time. Tests pass their own."""

    wall_us: Callable[[], int] = lambda: time.time_ns() // 1000
    monotonic_ns: Callable[[], int] = time.monotonic_ns


class Recorder:
    """The only writer of this process for one experiment. Use it as an async context manager.

    Args:
        store: A store opened for writing.
        experiment_id: The experiment of all its events.
        redactor: Removes secrets from every event. None records events as they are.
        clock: Wall and monotonic time.
        rotate_bytes: A journal of at least this length is closed.
        start_sealing: Starts sealing a closed journal. None leaves journals unsealed.
        upload: Creates the uploader for a shared store, given a function that requests a rotation. None: no uploads.

    Raises:
        RecordingFailed: The first journal cannot be created.
    """

    def __init__(
        self,
        store: Store,
        experiment_id: str,
        *,
        redactor: Redaction | None = None,
        clock: Clock | None = None,
        rotate_bytes: int = ROTATE_BYTES,
        start_sealing: Callable[[Store, JournalFile], Sealing] | None = None,
        upload: Callable[[Store, Callable[[], None]], Upload] | None = None,
    ) -> None:
        self.store = store
        self.experiment_id = check_experiment_id(experiment_id)
        self.writer_id = f"w{secrets.token_hex(6)}"
        self._clock = clock or Clock()
        self._latest_us = 0
        self._redactor = redactor
        self._rotate_bytes = rotate_bytes
        self._pending: list[Draft] = []
        self._waiters: list[asyncio.Future[int]] = []
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._is_closing = False
        self._is_rotation_asked = False
        self._failure: RecordingFailed | None = None
        self._upload = upload(store, self._ask_rotation) if upload is not None else None
        self._start_sealing = start_sealing if self._upload is None else self._upload.start
        self._sealings: list[tuple[JournalName, Sealing]] = []
        self._unsealed: set[JournalName] = set()
        self._open_streams: dict[str, Stream] = {}
        self._names_in_use: set[str] = set()
        self._journal = self._open_journal(1)
        self._opened_at = time.monotonic()
        self._thread = threading.Thread(target=self._commit_forever, name="recorder", daemon=True)

    def wall_us(self) -> int:
        """Return the time for the next event in microseconds, never earlier than the last event.

        Readers order the events of several streams by time. If the machine's clock is set back, the time stays the same
        until the clock catches up.
        """
        self._latest_us = max(self._latest_us, self._clock.wall_us())
        return self._latest_us

    def monotonic_ns(self) -> int:
        """Return a time in nanoseconds that never goes back."""
        return self._clock.monotonic_ns()

    async def __aenter__(self) -> Self:
        """Read which stream ids are in use, and start recording.

        Raises:
            DamagedStore: A file of the experiment cannot be read.
            RecordingFailed: The disk cannot be read.
        """
        self._loop = asyncio.get_running_loop()
        try:
            with anyio.CancelScope(shield=True):
                found = await anyio.to_thread.run_sync(names_in_use, self.store, self.experiment_id)
        except BaseException as error:
            self._journal.close()
            if isinstance(error, OSError):
                raise RecordingFailed(f"cannot read the streams of {self.store.name}: {error}") from error
            raise
        self._names_in_use |= found
        self._thread.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Make everything durable, close all streams and the journal, and seal it."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._shut_down)

    def stream(self, stream_id: str, *, trial_id: str | None = None, attempt: int | None = None) -> Stream:
        """Begin a new stream.

        Raises:
            RecordingFailed: Readers would refuse the id.
            StoreError: The id is in use: two recordings in one stream could not be told apart.
        """
        for name in (stream_id, trial_id):
            if name is not None and not is_name(name):
                raise RecordingFailed(f"{name[:100]!r} cannot name a stream or a trial; use letters, digits and '._-:'")
        if stream_id in self._names_in_use:
            raise StoreError(
                f"{self.store.name} already has a stream {stream_id!r} of experiment {self.experiment_id!r}. "
                "'lhaw-record log recover' closes streams that a dead run left open; then run the same command again"
            )
        self._names_in_use.add(stream_id)
        stream = self._open_streams[stream_id] = Stream(self, stream_id, trial_id, attempt)
        return stream

    def forget(self, stream_id: str) -> None:
        """Remove a stream from the open streams, because it has its closing event."""
        self._open_streams.pop(stream_id, None)

    def attempt(self, trial_id: str, number: int) -> Stream:
        """Begin the stream of a trial's attempt."""
        stream_id = self.store.attempt_stream(trial_id, number, self.writer_id)
        return self.stream(stream_id, trial_id=trial_id, attempt=number)

    async def commit(self, drafts: Sequence[Draft], *, is_decision: bool = False) -> None:
        """Make drafts durable in one commit, without secrets. On a shared store, also publish a decision to every host.

        Raises:
            RecordingFailed: This commit or an earlier one failed, or the decision could not be published.
        """
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[int] = self._loop.create_future()
        with self._lock:
            self._pending += drafts
            self._waiters.append(waiter)
            if len(self._waiters) == 1:
                self._wake.notify()
        journal_number = await waiter
        if is_decision and self._upload is not None:
            await self._upload.published(journal_number)

    def _open_journal(self, number: int) -> JournalFile:
        name = JournalName(self.writer_id, number)
        return JournalFile(self.store, new_header(name, self.experiment_id, self._clock.wall_us()))

    def _commit_forever(self) -> None:
        """Run the commit thread: gather, write and sync records, and wake waiting tasks, until the recorder closes.

        After a failure, no later append succeeds.
        """
        while True:
            with self._wake:
                while not self._waiters and not self._is_closing and not self._is_rotation_asked:
                    self._wake.wait()
                if not self._waiters and self._is_closing:
                    return
                self._is_rotation_asked = False
                drafts, self._pending = self._pending, []
                waiters, self._waiters = self._waiters, []
            if waiters:
                self._attempt_to(partial(self._write, drafts))
                self._loop.call_soon_threadsafe(_wake_all, waiters, self._journal.name.number, self._failure)
            self._attempt_to(self._rotate_if_due)

    def _write(self, drafts: Sequence[Draft]) -> None:
        """Remove secrets from drafts, and make them durable in one commit.

        A search releases the interpreter's lock, which costs a switch of threads, so one covers a whole commit.
        """
        payloads = [draft.payload for draft in drafts]
        if self._redactor is not None and self._redactor.hits(b"".join(payloads)):
            payloads = [self._clean(self._redactor, payload) for payload in payloads]
        self._journal.append(
            [
                draft.stream.chained(payload, is_closing=draft.is_closing)
                for draft, payload in zip(drafts, payloads, strict=True)
            ]
        )

    def _clean(self, redactor: Redaction, payload: bytes) -> bytes:
        if not redactor.hits(payload):
            return payload
        envelope = msgspec.msgpack.decode(payload, type=Envelope)
        return encoded(msgspec.structs.replace(envelope, event=redactor.clean(envelope.event)))

    def _ask_rotation(self) -> None:
        """Make the commit thread check whether the journal should be closed (callable from any thread)."""
        with self._wake:
            self._is_rotation_asked = True
            self._wake.notify()

    def _attempt_to(self, step: Callable[[], None]) -> None:
        """Run a step unless an earlier step failed, and pass a failure to every task that waits from now on."""
        if self._failure is None:
            try:
                step()
            except RecordingFailed as error:
                self._failure = error
            except Exception as error:  # noqa: BLE001 - a bug of ours must not leave writers waiting forever
                self._failure = RecordingFailed(f"an internal error stopped the recorder: {error!r}")
            if self._failure is not None and self._upload is not None:
                self._upload.fail(self._failure)

    def _rotate_if_due(self) -> None:
        is_due = self._journal.size >= self._rotate_bytes or time.monotonic() - self._opened_at > ROTATE_SECONDS
        is_awaited = self._upload is not None and self._upload.is_due(self._journal.name.number)
        if not is_due and not is_awaited:
            return
        following = self._open_journal(self._journal.name.number + 1)
        try:
            self._close_journal()
        except BaseException:
            following.close()
            raise
        self._journal, self._opened_at = following, time.monotonic()

    def _close_journal(self) -> None:
        """Close the journal and start sealing it, while the sealing process holds the journal's lock."""
        self._journal.write_footer()
        if self._start_sealing is not None:
            self._unsealed.add(self._journal.name)
            with suppress(OSError):  # if no process can start, the journal stays intact and is reported at the end
                self._sealings.append((self._journal.name, self._start_sealing(self.store, self._journal)))
        self._journal.close()

    def _close_streams(self) -> None:
        """Close the streams that failed or cancelled tasks left open, which is impossible after sealing."""
        drafts = [each for stream in tuple(self._open_streams.values()) for each in stream.last_drafts()]
        if drafts:
            self._write(drafts)

    def _shut_down(self) -> None:
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        self._thread.join()
        self._attempt_to(self._close_streams)
        self._attempt_to(self._close_journal)
        if self._failure is not None:
            self._journal.close()
        for name, sealing in self._sealings:
            if sealing.wait() == 0:
                self._unsealed.remove(name)
        if self._upload is not None:
            self._upload.close()
            self._failure = self._failure or self._upload.failure
        if self._failure is not None:
            raise self._failure
        if self._unsealed:
            raise RecordingFailed(
                f"journal {min(self._unsealed)} in {self.store.journal_dir} could not be sealed; it is intact and "
                "stays readable. 'lhaw-record log recover' seals it"
            )


def _wake_all(waiters: Iterable[asyncio.Future[int]], number: int, failure: RecordingFailed | None) -> None:
    for waiter in waiters:
        if waiter.done():  # its task was cancelled; the event is durable anyway
            continue
        if failure is None:
            waiter.set_result(number)
        else:
            waiter.set_exception(failure)
