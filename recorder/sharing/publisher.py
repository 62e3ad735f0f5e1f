"""The publisher of a shared store: decisions are acknowledged when every host can see them.

A journal is published by sealing it: the child process that makes the segment also uploads it. It gets the journals of
one writer one after another, so that no host ever sees a later part of a stream without the earlier ones; the decisions
that gather meanwhile wait for the next journal and share its upload.
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

from recorder.digest import CLOSING
from recorder.errors import RecordingFailed
from recorder.events import CONTROL, OracleBudgetSet, RunStarted
from recorder.journal import JournalFile
from recorder.sharing.publishing_child import PublishingChild
from recorder.sharing.shared import publishing_patience_s
from recorder.store import Store

DECISIONS = (*CLOSING, OracleBudgetSet, RunStarted, *CONTROL)
"""The events on which another host may act: what is finished, what is fixed, who is at it, and what is asked."""


class _Waiter(msgspec.Struct, frozen=True):
    """A task that waits until a journal and all before it are published."""

    number: int
    loop: asyncio.AbstractEventLoop
    future: asyncio.Future[None]


class _Publication:
    """A closed journal on its way; the descriptor keeps its lock."""

    def __init__(self, journal: JournalFile) -> None:
        self.journal = copy.copy(journal)
        self.journal.descriptor = os.dup(journal.descriptor)
        self._ended = threading.Event()
        self._exit_code = 1

    def end(self, exit_code: int) -> None:
        """Say how it went, and let the journal go."""
        os.close(self.journal.descriptor)
        self._exit_code = exit_code
        self._ended.set()

    def wait(self) -> int:
        """Return 0 when the segment is published and the journal gone."""
        self._ended.wait()
        return self._exit_code


class Publisher:
    """Publishes the journals of one writer, in order, and says when.

    Args:
        store: A working copy of a shared store, made for writing.
        ask_rotation: Asks the recorder to close its journal when :meth:`is_due` says so; called from any thread.

    Raises:
        StoreError: The patience that the environment asks for is no number.
    """

    def __init__(self, store: Store, ask_rotation: Callable[[], None]) -> None:
        self.failure: RecordingFailed | None = None
        self._store = store
        self._ask_rotation = ask_rotation
        self._child = PublishingChild(store, publishing_patience_s())
        self._changed = threading.Condition()
        self._queue: deque[_Publication] = deque()
        self._waiters: list[_Waiter] = []
        self._published = 0
        self._is_closing = False
        self._thread = threading.Thread(target=self._publish_forever, name="publisher", daemon=True)

    async def published(self, number: int) -> None:
        """Wait until the journal with a number, and every earlier one of this writer, is published.

        Raises:
            RecordingFailed: It cannot be; its events are durable on this host.
        """
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
        """Whether the open journal should be closed: somebody waits for it, and no other is being published."""
        with self._changed:
            return not self._queue and any(waiter.number >= number for waiter in self._waiters)

    def start(self, store: Store, journal: JournalFile) -> _Publication:
        """Take a journal that was closed in order; the caller may close it."""
        assert store is self._store
        publication = _Publication(journal)
        with self._changed:
            if not self._thread.is_alive():
                self._thread.start()
            self._queue.append(publication)
            self._changed.notify()
        return publication

    def fail(self, failure: RecordingFailed) -> None:
        """Publish nothing more, and tell everybody who waits."""
        with self._changed:
            self.failure = self.failure or failure
        self._wake()

    def close(self) -> None:
        """End when everything that was taken is published."""
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
                self.fail(self._said_why(publication.journal))
            with self._changed:
                self._queue.popleft()
                if is_published:
                    self._published = publication.journal.name.number
            publication.end(0 if is_published else 1)
            self._wake()
            self._ask_rotation()

    def _publish(self, journal: JournalFile) -> bool:
        if self.failure is not None:  # never a later journal without the earlier one
            return False
        try:
            if journal.records == 0:
                self._store.disk.remove(journal.path)
                return True
            return self._child.publish(journal)
        except OSError:
            return False

    def _wake(self) -> None:
        """Tell those whose journal is published, or everybody of a failure."""
        with self._changed:
            failure = self.failure
            limit = self._published if failure is None else math.inf
            told = [waiter for waiter in self._waiters if waiter.number <= limit]
            self._waiters = [waiter for waiter in self._waiters if waiter.number > limit]
        for waiter in told:
            with suppress(RuntimeError):  # its loop has ended
                waiter.loop.call_soon_threadsafe(_resolve, waiter.future, failure)

    def _said_why(self, journal: JournalFile) -> RecordingFailed:
        return RecordingFailed(
            f"journal {journal.name} could not be published to {self._store.name}. Its events are durable on this "
            f"host, in {self._store.journal_dir}. To publish them: lhaw-record log recover {quote(self._store.name)}"
        )


def _resolve(future: asyncio.Future[None], failure: RecordingFailed | None) -> None:
    if future.done():  # its task was cancelled meanwhile
        return
    if failure is None:
        future.set_result(None)
    else:
        future.set_exception(failure)
