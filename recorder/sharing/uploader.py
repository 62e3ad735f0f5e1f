"""Publishes journals to a shared store, and acknowledges a decision when every host can see it.

A journal is published by sealing it: the child process that writes the segment also uploads it. The child receives a
writer's journals one at a time, so that no host sees a later part of a stream without the earlier ones. Decisions made
meanwhile wait for the next journal and share its upload.
"""

import asyncio
import copy
import math
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from shlex import quote

import msgspec

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.files.remote import publishing_patience_s
from lhaw_record.recorder.sharing.upload_child import UploadChild
from lhaw_record.recorder.storage.journal import JournalFile
from lhaw_record.recorder.storage.store import Store


class _Waiter(msgspec.Struct, frozen=True):
    """A task that waits until a journal and all earlier ones are published."""

    number: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class _QueuedJournal:
    """A closed journal that waits to be published. A copy of its descriptor keeps the lock."""

    def __init__(self, journal: JournalFile) -> None:
        self.journal = copy.copy(journal)
        self.journal.descriptor = os.dup(journal.descriptor)
        self._ended = threading.Event()
        self._exit_code = 1

    def end(self, exit_code: int) -> None:
        """Set the exit code and release the journal."""
        os.close(self.journal.descriptor)
        self._exit_code = exit_code
        self._ended.set()

    def wait(self) -> int:
        """Wait until publishing has ended. Return 0 if the segment was published and the journal removed."""
        self._ended.wait()
        return self._exit_code


class Uploader:
    """Publishes the journals of one writer in order, and wakes the tasks that wait for them.

    Args:
        store: A working copy of a shared store, opened for writing.
        ask_rotation: Asks the recorder to close its journal if :meth:`is_due` is true. It is called from any thread.
    """

    def __init__(self, store: Store, ask_rotation: Callable[[], None]) -> None:
        self.failure: RecordingFailed | None = None
        self._store = store
        self._ask_rotation = ask_rotation
        self._child = UploadChild(store, publishing_patience_s())
        self._changed = threading.Condition()
        self._queue: deque[_QueuedJournal] = deque()
        self._waiters: list[_Waiter] = []
        self._published = 0
        self._is_closing = False
        self._thread = threading.Thread(target=self._publish_forever, name="publisher", daemon=True)

    async def published(self, number: int) -> None:
        """Wait until this writer's journal with the given number and all earlier ones are published."""
        loop = asyncio.get_running_loop()
        with self._changed:
            if self.failure is not None:
                raise self.failure
            if number <= self._published:
                return
            waiter = _Waiter(number, loop, loop.create_future())
            self._waiters.append(waiter)
        self._ask_rotation()
        await waiter.future

    def is_due(self, number: int) -> bool:
        """Return whether a task waits for the open journal while no other journal is being published."""
        with self._changed:
            return not self._queue and any(waiter.number >= number for waiter in self._waiters)

    def start(self, store: Store, journal: JournalFile) -> _QueuedJournal:
        """Queue a closed journal for publishing, after which the caller may release it."""
        assert store is self._store
        publication = _QueuedJournal(journal)
        with self._changed:
            if not self._thread.is_alive():
                self._thread.start()
            self._queue.append(publication)
            self._changed.notify()
        return publication

    def fail(self, failure: RecordingFailed) -> None:
        """Stop publishing, and pass the failure to all waiting tasks."""
        with self._changed:
            self.failure = self.failure or failure
        self._wake()

    def close(self) -> None:
        """Wait until all queued journals are handled, then stop the publishing thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        if self._thread.is_alive():
            self._thread.join()

    def _publish_forever(self) -> None:
        while True:
            with self._changed:
                while not self._queue and not self._is_closing:
                    self._changed.wait()
                if not self._queue:
                    self._child.close()
                    return
                publication = self._queue[0]
            is_published = self._publish(publication.journal)
            if not is_published:
                self.fail(self._failure_of(publication.journal))
            with self._changed:
                self._queue.popleft()
                if is_published:
                    self._published = publication.journal.name.number
            publication.end(0 if is_published else 1)
            self._wake()
            self._ask_rotation()

    def _publish(self, journal: JournalFile) -> bool:
        if self.failure is not None:  # a later journal must not be published without the earlier ones
            return False
        try:
            if journal.records == 0:
                self._store.disk.remove(journal.path)
                return True
            return self._child.publish(journal)
        except OSError:
            return False

    def _wake(self) -> None:
        """Wake the tasks whose journal is published. After a failure, wake all waiting tasks."""
        with self._changed:
            failure = self.failure
            limit = self._published if failure is None else math.inf
            woken = [waiter for waiter in self._waiters if waiter.number <= limit]
            self._waiters = [waiter for waiter in self._waiters if waiter.number > limit]
        for waiter in woken:
            with suppress(RuntimeError):  # its loop has ended
                waiter.loop.call_soon_threadsafe(_resolve, waiter.future, failure)

    def _failure_of(self, journal: JournalFile) -> RecordingFailed:
        return RecordingFailed(
            f"journal {journal.name} could not be published to {self._store.name}. Its events are durable on this "
            f"host, in {self._store.journal_dir}. To publish them: lhaw-record log recover {quote(self._store.name)}"
        )


def _resolve(future: asyncio.Future[None], failure: RecordingFailed | None) -> None:
    if future.done():  # its task was cancelled
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)
