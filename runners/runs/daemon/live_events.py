"""What readers follow: the live events of the daemon."""

from collections import deque
from collections.abc import AsyncIterator, Callable

import anyio
import msgspec

MOST_WAITING = 2_000
KEEP_ALIVE_S = 15.0


class Hub:
    """Publishes live events to readers. A reader that comes, or has missed some, begins with a snapshot.

    Args:
        snapshot: A function that returns the current state of one experiment, or of all for None, as JSON.
        most_waiting: The number of events to keep for a reader that is slow.
    """

    def __init__(self, snapshot: Callable[[str | None], bytes], *, most_waiting: int = MOST_WAITING) -> None:
        self._snapshot = snapshot
        self._waiting: dict[object, deque[tuple[str, str | None, bytes]]] = {}
        self._most_waiting = most_waiting
        self._news = anyio.Event()
        self._is_closed = False

    @property
    def readers(self) -> int:
        """The number of readers."""
        return len(self._waiting)

    def publish(self, name: str, experiment: str | None, data: object) -> None:
        if not self._waiting:
            return
        event = name, experiment, msgspec.json.encode(data)
        for waiting in self._waiting.values():
            waiting.append(event)
        self._wake()

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    async def follow(self, experiment: str | None = None) -> AsyncIterator[bytes]:
        """Yield server-sent events until the hub is closed: a snapshot, then each new event."""
        reader, waiting = object(), deque[tuple[str, str | None, bytes]](maxlen=self._most_waiting + 1)
        self._waiting[reader], is_new = waiting, True
        try:
            while not self._is_closed:
                news = self._news
                if is_new or len(waiting) > self._most_waiting:
                    waiting.clear()
                    is_new = False
                    yield _encoded("snapshot", self._snapshot(experiment))
                elif waiting:
                    name, of, data = waiting.popleft()
                    if experiment is None or of in (None, experiment):
                        yield _encoded(name, data)
                else:
                    with anyio.move_on_after(KEEP_ALIVE_S) as patience:
                        await news.wait()
                    if patience.cancelled_caught:
                        yield b": still here\n\n"
        finally:
            del self._waiting[reader]

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()


def _encoded(name: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)
