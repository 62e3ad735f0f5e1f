"""Writes events that are already recorded, as in imports. Fills and seals journals like a recorder, but blocks."""

import secrets
import time
from types import TracebackType
from typing import Self

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import Envelope
from lhaw_record.recorder.events.encoding import encoded
from lhaw_record.recorder.files.layout import JournalName
from lhaw_record.recorder.sealing.seal import seal
from lhaw_record.recorder.storage.journal import JournalFile, new_header
from lhaw_record.recorder.storage.journal_format import MAX_BODY_BYTES, record
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.recorder import ROTATE_BYTES

_COMMIT_BYTES = 1 << 20


class JournalWriter:
    """Writes streams of one experiment. Use it as a context manager.

    A commit holds complete streams, so that a crash leaves all of a stream or none of it.

    Args:
        store: A store opened for writing.
        experiment_id: The experiment; the caller holds its lock.
    """

    def __init__(self, store: Store, experiment_id: str) -> None:
        self._store = store
        self._experiment_id = experiment_id
        self._writer_id = f"w{secrets.token_hex(6)}"
        self._number = 0
        self._journal: JournalFile | None = None
        self._pending: list[bytes] = []
        self._pending_bytes = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Seal the written streams, even if the rest of the import cannot be read."""
        try:
            if not isinstance(exc, RecordingFailed):
                self._commit()
                self._seal()
        finally:
            if self._journal is not None:
                self._journal.close()

    def write(self, stream: list[Envelope]) -> None:
        """Write a stream. It is durable when the writer is closed."""
        records = [record(encoded(envelope)) for envelope in stream]
        size = sum(map(len, records))
        if size > MAX_BODY_BYTES:
            raise RecordingFailed(f"stream {stream[0].stream_id} has {size} bytes, more than one commit can hold")
        if self._pending_bytes + size > max(_COMMIT_BYTES, size):
            self._commit()
        self._pending += records
        self._pending_bytes += size

    def _commit(self) -> None:
        if not self._pending:
            return
        if self._journal is None:
            self._number += 1
            name = JournalName(self._writer_id, self._number)
            self._journal = JournalFile(self._store, new_header(name, self._experiment_id, time.time_ns() // 1000))
        self._journal.append(self._pending)
        self._pending, self._pending_bytes = [], 0
        if self._journal.size >= ROTATE_BYTES:
            self._seal()

    def _seal(self) -> None:
        if self._journal is None:
            return
        self._journal.write_footer()
        try:
            seal(self._store, self._journal.path)
        except OSError as error:
            raise RecordingFailed(
                f"cannot seal {self._journal.path}: {error.strerror or error}. Its events are durable; free space, "
                "then 'lhaw-record log recover' seals it"
            ) from error
        self._journal.close()
        self._journal = None
