"""The hub, a ring buffer of the latest live events that readers follow at their own pace.

For each reader, the hub keeps only a position in the ring, so slow readers need no extra memory. If a reader is too
slow, or reconnects with the id of an event that is no longer kept, it gets a snapshot and continues from there.
"""

from collections import deque
from collections.abc import AsyncIterator, Callable

import anyio
import msgspec

RING_EVENTS = 2_000
KEEP_ALIVE_S = 15.0


class LiveEvent(msgspec.Struct, frozen=True):
    """One event as it is sent. ``data`` is JSON. If ``experiment`` is None, the event concerns all experiments."""

    number: int
    name: str
    experiment: str | None
    data: bytes


class Hub:
    """Publishes live events to readers.

    Args:
        boot_id: The prefix of every event id, which distinguishes this daemon's events from those of earlier daemons.
        snapshot: A function that returns the current state of one experiment, or of all for None, as JSON.
        ring_events: The number of events to keep.
    """

    def __init__(
        self, boot_id: str, snapshot: Callable[[str | None], bytes], *, ring_events: int = RING_EVENTS
    ) -> None:
        self._boot_id = boot_id
        self._snapshot = snapshot
        self._ring: deque[LiveEvent] = deque(maxlen=ring_events)
        self._next = 1
        self._news = anyio.Event()
        self._is_closed = False
        self.readers = 0

    def publish(self, name: str, experiment: str | None, data: object) -> None:
        """Add an event and wake the readers."""
        self._ring.append(LiveEvent(self._next, name, experiment, msgspec.json.encode(data)))
        self._next += 1
        self._wake()

    def close(self) -> None:
        """End the event streams of all readers."""
        self._is_closed = True
        self._wake()

    async def follow(self, experiment: str | None = None, last_event_id: str | None = None) -> AsyncIterator[bytes]:
        """Yield server-sent events until the hub is closed.

        The first events are those that the reader missed, or a snapshot. After that, each new event follows.
        """
        self.readers += 1
        try:
            place = self._place_of(last_event_id)
            while not self._is_closed:
                news = self._news
                if place is None or place < self._first:
                    place = self._next
                    yield self._encoded("snapshot", place - 1, self._snapshot(experiment))
                elif place < self._next:
                    event = self._ring[place - self._first]
                    place += 1
                    if experiment is None or event.experiment in (None, experiment):
                        yield self._encoded(event.name, event.number, event.data)
                else:
                    with anyio.move_on_after(KEEP_ALIVE_S) as patience:
                        await news.wait()
                    if patience.cancelled_caught:
                        yield b": still here\n\n"
        finally:
            self.readers -= 1

    @property
    def _first(self) -> int:
        """The number of the oldest event in the ring, or of the next event if the ring is empty."""
        return self._ring[0].number if self._ring else self._next

    def _place_of(self, last_event_id: str | None) -> int | None:
        boot_id, _, number = (last_event_id or "").rpartition("-")
        if boot_id != self._boot_id or not number.isdecimal() or int(number) >= self._next:
            return None
        return int(number) + 1

    def _encoded(self, name: str, number: int, data: bytes) -> bytes:
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._boot_id.encode(), number, name.encode(), data)

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()
