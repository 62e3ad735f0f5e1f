"""The recorder: events go in, and ``append`` returns when they are durable.

Many tasks append at once; one thread writes whatever has gathered and makes it durable with one ``fdatasync`` (group
commit), then wakes everybody whose event was in it. Journals are rotated by size and age and sealed into Parquet by a
child process, so neither disturbs the event loop.
"""

import asyncio
import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Self

import anyio
import anyio.to_thread
import msgspec

from recorder.digest import CLOSING, with_digest
from recorder.errors import RecordingFailed
from recorder.events import AnyEvent, Envelope
from recorder.frames import record
from recorder.journal import JournalFile, new_header
from recorder.redaction import Redactor, map_text
from recorder.seal_child import Sealing, start_child
from recorder.store import JournalName, Store, check_experiment_id

ROTATE_BYTES = 64 << 20
ROTATE_SECONDS = 3600.0


class Clock(msgspec.Struct, frozen=True):
    """Where time comes from; tests pass their own."""

    wall_us: Callable[[], int] = lambda: time.time_ns() // 1000
    monotonic_ns: Callable[[], int] = time.monotonic_ns


class Recorder:
    """The one writer of this process for one experiment. Use it as an async context manager.

    Args:
        store: A store made for writing.
        experiment_id: The experiment all its events belong to.
        redactor: Removes secrets from every event.
        clock: Wall and monotonic time.
        rotate_bytes: A journal at least this long is closed and sealed.
        start_sealing: Begins to seal a journal that was closed in order.

    Raises:
        RecordingFailed: The first journal cannot be made.
    """

    def __init__(
        self,
        store: Store,
        experiment_id: str,
        *,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        rotate_bytes: int = ROTATE_BYTES,
        start_sealing: Callable[[Store, JournalFile], Sealing] = start_child,
    ) -> None:
        self.store = store
        self.experiment_id = check_experiment_id(experiment_id)
        self.writer_id = f"w{secrets.token_hex(6)}"
        self.clock = clock or Clock()
        self._redactor = redactor or Redactor()
        self._rotate_bytes = rotate_bytes
        self._encoder = msgspec.msgpack.Encoder()
        self._pending: list[bytes] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._is_closing = False
        self._failure: RecordingFailed | None = None
        self._start_sealing = start_sealing
        self._sealings: list[tuple[JournalName, Sealing]] = []
        self._unsealed: set[JournalName] = set()
        self._journal = self._open_journal(1)
        self._opened_at = time.monotonic()
        self._thread = threading.Thread(target=self._commit_forever, name="recorder", daemon=True)

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._thread.start()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Make everything durable, close the journal in order and seal it."""
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self._shut_down)

    def stream(self, stream_id: str, *, trial_id: str | None = None, attempt: int | None = None) -> "Stream":
        """Begin a new stream: a trial's attempt, or a run."""
        return Stream(self, stream_id, trial_id, attempt)

    def _submit(self, records: Sequence[bytes]) -> asyncio.Future[None]:
        """Hand records to the commit thread, for one commit; return what is done when they are durable, or cannot be.

        Raises:
            RecordingFailed: An earlier commit failed.
        """
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[None] = self._loop.create_future()
        with self._lock:
            self._pending += records
            self._waiters.append(waiter)
            if len(self._waiters) == 1:
                self._wake.notify()
        return waiter

    def _encode(self, envelope: Envelope) -> bytes:
        try:
            payload = self._encoder.encode(envelope)
        except UnicodeEncodeError:  # a lone surrogate, which a model may write in JSON, is not UTF-8
            envelope = msgspec.structs.replace(envelope, event=map_text(envelope.event, _valid_unicode))
            payload = self._encoder.encode(envelope)
        if self._redactor.hits(payload):
            cleaned = msgspec.structs.replace(envelope, event=self._redactor.clean(envelope.event))
            payload = self._encoder.encode(cleaned)
        return payload

    def _open_journal(self, number: int) -> JournalFile:
        name = JournalName(self.writer_id, number)
        return JournalFile(self.store, new_header(name, self.experiment_id, self.clock.wall_us()))

    def _commit_forever(self) -> None:
        """The commit thread: gather, write, sync, wake; ends when closing and nobody waits.

        After a failure nobody is told of a success again.
        """
        while True:
            with self._wake:
                while not self._waiters and not self._is_closing:
                    self._wake.wait()
                if not self._waiters:
                    return
                records, self._pending = self._pending, []
                waiters, self._waiters = self._waiters, []
            self._attempt_to(partial(self._journal.append, records))
            self._loop.call_soon_threadsafe(_wake_all, waiters, self._failure)
            self._attempt_to(self._rotate_if_due)

    def _attempt_to(self, step: Callable[[], None]) -> None:
        """Do a step unless an earlier one failed; what fails is told to everybody who waits from now on."""
        if self._failure is None:
            try:
                step()
            except RecordingFailed as error:
                self._failure = error
            except Exception as error:  # noqa: BLE001 - a fault of ours must not leave the writers waiting for ever
                self._failure = RecordingFailed(f"the recorder failed by a fault of its own: {error!r}")

    def _rotate_if_due(self) -> None:
        is_due = self._journal.size >= self._rotate_bytes or time.monotonic() - self._opened_at > ROTATE_SECONDS
        if not is_due:
            return
        following = self._open_journal(self._journal.name.number + 1)
        try:
            self._close_journal()
        except BaseException:
            following.close()
            raise
        self._journal, self._opened_at = following, time.monotonic()

    def _close_journal(self) -> None:
        """Close the journal in order and have it sealed; whoever seals it holds its lock meanwhile."""
        self._journal.write_footer()
        self._unsealed.add(self._journal.name)
        with suppress(OSError):  # no process to be had: the journal is whole, and named at the end
            self._sealings.append((self._journal.name, self._start_sealing(self.store, self._journal)))
        self._journal.close()

    def _shut_down(self) -> None:
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        self._thread.join()
        self._attempt_to(self._close_journal)
        if self._failure is not None:
            self._journal.close()
        for name, sealing in self._sealings:
            if sealing.wait() == 0:
                self._unsealed.remove(name)
        if self._failure is not None:
            raise self._failure
        if self._unsealed:
            raise RecordingFailed(
                f"journal {min(self._unsealed)} in {self.store.journal_dir} could not be sealed; it is whole and stays "
                "readable. 'lhaw-record log recover' seals it"
            )


class Stream:
    """One stream of events: numbered from 0 without a gap, chained into one SHA-256 in its closing event."""

    def __init__(self, recorder: Recorder, stream_id: str, trial_id: str | None, attempt: int | None) -> None:
        self.stream_id = stream_id
        self._recorder = recorder
        self._trial_id = trial_id
        self._attempt = attempt
        self._sequence = 0
        self._chain = hashlib.sha256()
        self._began_ns = recorder.clock.monotonic_ns()

    @property
    def elapsed_ms(self) -> float:
        """Milliseconds since the stream began, to the microsecond."""
        return round((self._recorder.clock.monotonic_ns() - self._began_ns) / 1e6, 3)

    async def append(self, *events: AnyEvent) -> None:
        """Record events in order; returns when all of them are durable. A death leaves all of them or none.

        Raises:
            RecordingFailed: They are not; the run must stop.
        """
        if events:
            await self._recorder._submit([record(self._encoded(event)) for event in events])

    def _encoded(self, event: AnyEvent) -> bytes:
        recorder = self._recorder
        envelope = Envelope(
            stream_id=self.stream_id,
            sequence=self._sequence,
            recorded_at_us=recorder.clock.wall_us(),
            elapsed_ns=recorder.clock.monotonic_ns() - self._began_ns,
            writer_id=recorder.writer_id,
            experiment_id=recorder.experiment_id,
            trial_id=self._trial_id,
            attempt=self._attempt,
            event=event,
        )
        payload = recorder._encode(envelope)
        self._chain.update(payload)
        if isinstance(event, CLOSING):
            stored = msgspec.msgpack.decode(payload, type=Envelope)  # without secrets
            payload = recorder._encode(with_digest(stored, self._chain.hexdigest()))
        self._sequence += 1
        return payload


def _wake_all(waiters: Iterable[asyncio.Future[None]], failure: RecordingFailed | None) -> None:
    for waiter in waiters:
        if waiter.done():  # its task was cancelled meanwhile; the event is durable all the same
            continue
        if failure is None:
            waiter.set_result(None)
        else:
            waiter.set_exception(failure)


def _valid_unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
