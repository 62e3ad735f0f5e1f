"""The recorder: makes events durable before ``append`` returns.

Many tasks append at once. One thread writes everything that is pending and makes it durable with one ``fdatasync``
(group commit), then wakes the waiting tasks. Journals are rotated by size and age and sealed into Parquet. A child
process seals the large ones, so that the event loop is never blocked.
"""

import asyncio
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

from lhaw_record.recorder.errors import RecordingFailed, StoreError
from lhaw_record.recorder.events import Envelope
from lhaw_record.recorder.events.encoding import encoded
from lhaw_record.recorder.events.identifiers import is_name
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.reading.streams import names_in_use
from lhaw_record.recorder.sealing.seal_child import Sealing, start_sealing
from lhaw_record.recorder.sharing.publisher import Publisher
from lhaw_record.recorder.storage.blobs import store_blob
from lhaw_record.recorder.storage.journal import JournalFile, new_header
from lhaw_record.recorder.storage.store import Store, check_experiment_id
from lhaw_record.recorder.writing.redaction import Redactor, map_text
from lhaw_record.recorder.writing.stream import Stream

ROTATE_BYTES = 64 << 20
ROTATE_SECONDS = 3600.0


class Clock(msgspec.Struct, frozen=True):
    """The source of time. Tests pass their own."""

    wall_us: Callable[[], int] = lambda: time.time_ns() // 1000
    monotonic_ns: Callable[[], int] = time.monotonic_ns


class Recorder:
    """The only writer of this process for one experiment. Use it as an async context manager.

    Args:
        store: A store opened for writing.
        experiment_id: The experiment of all its events.
        redactor: Removes secrets from every event.
        clock: Wall and monotonic time.
        rotate_bytes: A journal of at least this length is closed and sealed.
        start_sealing: Starts to seal a closed journal.

    Raises:
        RecordingFailed: The first journal cannot be created.
    """

    def __init__(
        self,
        store: Store,
        experiment_id: str,
        *,
        redactor: Redactor | None = None,
        clock: Clock | None = None,
        rotate_bytes: int = ROTATE_BYTES,
        start_sealing: Callable[[Store, JournalFile], Sealing] = start_sealing,
    ) -> None:
        self.store = store
        self.experiment_id = check_experiment_id(experiment_id)
        self.writer_id = f"w{secrets.token_hex(6)}"
        self._clock = clock or Clock()
        self._latest_us = 0
        self._redactor = redactor or Redactor()
        self._rotate_bytes = rotate_bytes
        self._pending: list[bytes] = []
        self._waiters: list[asyncio.Future[int]] = []
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)
        self._is_closing = False
        self._is_rotation_asked = False
        self._failure: RecordingFailed | None = None
        self._publisher = Publisher(store, self._ask_rotation) if store.address else None
        self._start_sealing = start_sealing if self._publisher is None else self._publisher.start
        self._sealings: list[tuple[JournalName, Sealing]] = []
        self._unsealed: set[JournalName] = set()
        self._open_streams: dict[str, Stream] = {}
        self._names_in_use: set[str] = set()
        self._journal = self._open_journal(1)
        self._opened_at = time.monotonic()
        self._thread = threading.Thread(target=self._commit_forever, name="recorder", daemon=True)

    def wall_us(self) -> int:
        """Return the time for the next event in microseconds, never earlier than that of the last event.

        Readers order the events of several streams by time. After the machine's clock was set back, the time stays the
        same until the clock has caught up.
        """
        self._latest_us = max(self._latest_us, self._clock.wall_us())
        return self._latest_us

    def monotonic_ns(self) -> int:
        """Return a time in nanoseconds that never goes back."""
        return self._clock.monotonic_ns()

    async def __aenter__(self) -> Self:
        """Read which stream ids are in use, and start to record.

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
                "'lhaw-record log recover' closes what a dead run left open; then run the same command again"
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

    def keep(self, content: bytes) -> tuple[str, int]:
        """Store an artifact without its secrets. Return the SHA-256 and length of the stored bytes. This blocks.

        Secrets are replaced before hashing: the address of an artifact is the SHA-256 of the stored bytes.

        Raises:
            RecordingFailed: The bytes cannot be written.
        """
        cleaned = self._redactor.clean_bytes(content)
        return store_blob(self.store, cleaned), len(cleaned)

    async def commit(self, records: Sequence[bytes], *, is_decision: bool = False) -> None:
        """Make records durable in one commit. On a shared store, also publish a decision to every host.

        Raises:
            RecordingFailed: This commit or an earlier one failed, or the decision could not be published.
        """
        if self._failure is not None:
            raise self._failure
        waiter: asyncio.Future[int] = self._loop.create_future()
        with self._lock:
            self._pending += records
            self._waiters.append(waiter)
            if len(self._waiters) == 1:
                self._wake.notify()
        journal_number = await waiter
        if is_decision and self._publisher is not None:
            await self._publisher.published(journal_number)

    def encode(self, envelope: Envelope) -> bytes:
        """Return the bytes of an envelope, without secrets.

        Raises:
            RecordingFailed: The envelope could never be sealed.
        """
        try:
            payload = encoded(envelope)
        except UnicodeEncodeError:  # models write lone surrogates in JSON, which UTF-8 cannot encode
            envelope = msgspec.structs.replace(envelope, event=map_text(envelope.event, _valid_unicode))
            payload = encoded(envelope)
        if self._redactor.hits(payload):
            payload = encoded(msgspec.structs.replace(envelope, event=self._redactor.clean(envelope.event)))
        return payload

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
                records, self._pending = self._pending, []
                waiters, self._waiters = self._waiters, []
            if waiters:
                self._attempt_to(partial(self._journal.append, records))
                self._loop.call_soon_threadsafe(_wake_all, waiters, self._journal.name.number, self._failure)
            self._attempt_to(self._rotate_if_due)

    def _ask_rotation(self) -> None:
        """Make the commit thread check whether the journal should be closed. Call it from any thread."""
        with self._wake:
            self._is_rotation_asked = True
            self._wake.notify()

    def _attempt_to(self, step: Callable[[], None]) -> None:
        """Run a step unless an earlier one failed. If it fails, every task that waits from now on gets the failure."""
        if self._failure is None:
            try:
                step()
            except RecordingFailed as error:
                self._failure = error
            except Exception as error:  # noqa: BLE001 - our own fault must not leave writers waiting for ever
                self._failure = RecordingFailed(f"an internal error stopped the recorder: {error!r}")
            if self._failure is not None and self._publisher is not None:
                self._publisher.fail(self._failure)

    def _rotate_if_due(self) -> None:
        is_due = self._journal.size >= self._rotate_bytes or time.monotonic() - self._opened_at > ROTATE_SECONDS
        is_awaited = self._publisher is not None and self._publisher.is_due(self._journal.name.number)
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
        """Close the journal and start to seal it. The sealing process holds the journal's lock meanwhile."""
        self._journal.write_footer()
        self._unsealed.add(self._journal.name)
        with suppress(OSError):  # no process can be started: the journal stays intact, and is reported at the end
            self._sealings.append((self._journal.name, self._start_sealing(self.store, self._journal)))
        self._journal.close()

    def _close_streams(self) -> None:
        """Close the streams that failed or cancelled tasks left open: nobody could close them after sealing."""
        records = [each for stream in tuple(self._open_streams.values()) for each in stream.last_records()]
        if records:
            self._journal.append(records)

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
        if self._publisher is not None:
            self._publisher.close()
            self._failure = self._failure or self._publisher.failure
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


def _valid_unicode(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
