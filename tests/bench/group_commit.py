"""The baselines of durable writing: one writer's write and fdatasync, and a bare group commit of many."""

import asyncio
import os
import threading
import time
from pathlib import Path

FILE_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC


class BareGroupCommit:
    """The least that a group commit can do: bytes go to one thread, which writes, syncs and wakes who waits.

    No encoding, no checksum, no rotation, no error handling; the recorder is measured against it.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, FILE_FLAGS, 0o644)
        self._loop = asyncio.get_running_loop()
        self._pending: list[bytes] = []
        self._waiters: list[asyncio.Future[None]] = []
        self._wake = threading.Condition()
        self._is_closing = False
        self._thread = threading.Thread(target=self._commit_forever, name="bare", daemon=True)
        self._thread.start()

    async def append(self, record: bytes) -> None:
        """Return when the record is durable."""
        waiter: asyncio.Future[None] = self._loop.create_future()
        with self._wake:
            self._pending.append(record)
            self._waiters.append(waiter)
            self._wake.notify()
        await waiter

    def close(self) -> None:
        """End the thread and close the file."""
        with self._wake:
            self._is_closing = True
            self._wake.notify()
        self._thread.join()
        os.close(self._descriptor)

    def _commit_forever(self) -> None:
        while True:
            with self._wake:
                while not self._pending and not self._is_closing:
                    self._wake.wait()
                if not self._pending:
                    return
                records, self._pending = self._pending, []
                waiters, self._waiters = self._waiters, []
            os.write(self._descriptor, b"".join(records))
            os.fdatasync(self._descriptor)
            self._loop.call_soon_threadsafe(_wake_all, waiters)


def raw_write_seconds(path: Path, records: int, record: bytes) -> list[float]:
    """Return the seconds that each of some records takes, written and synced one after the other."""
    descriptor = os.open(path, FILE_FLAGS, 0o644)
    times_s = []
    try:
        for _ in range(records):
            began_s = time.perf_counter()
            os.write(descriptor, record)
            os.fdatasync(descriptor)
            times_s.append(time.perf_counter() - began_s)
    finally:
        os.close(descriptor)
    return times_s


def _wake_all(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        waiter.set_result(None)
