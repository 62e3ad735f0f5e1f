"""What readers follow: the live events of the daemon, and the last events of running trials."""

import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.inspection.tail import Tail, TailLine
from lhaw_record.runners.runs.daemon.messages import LastEvent, LiveTrial

RING_EVENTS = 2_000
KEEP_ALIVE_S = 15.0
SHOWN_EVENTS = 4
_SHOWN = frozenset(
    {
        *("action_started", "action_finished", "model_failed", "question_asked"),
        *("question_answered", "clarification_injected", "checkpoint_scored"),
    }
)
_CLOSING = frozenset({"trial_finished", "trial_failed"})
_FIRST_EVENTS = 2_000  # of all streams; enough for the last actions of hundreds of trials
_LEAST_S = 0.5
_FORGOTTEN_S = 30.0
"""After so long without a reader, reading begins again at the end instead of with all that was missed."""


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
        self._ring.append(LiveEvent(self._next, name, experiment, msgspec.json.encode(data)))
        self._next += 1
        self._wake()

    def close(self) -> None:
        self._is_closed = True
        self._wake()

    async def follow(self, experiment: str | None = None, last_event_id: str | None = None) -> AsyncIterator[bytes]:
        """Yield server-sent events until the hub is closed.

        The first events are those that the reader missed, or a snapshot. After that, each new event follows.
        """
        self.readers += 1
        try:
            position = self._position_of(last_event_id)
            while not self._is_closed:
                news = self._news
                if position is None or position < self._first:
                    position = self._next
                    yield self._encoded("snapshot", position - 1, self._snapshot(experiment))
                elif position < self._next:
                    event = self._ring[position - self._first]
                    position += 1
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

    def _position_of(self, last_event_id: str | None) -> int | None:
        boot_id, _, number = (last_event_id or "").rpartition("-")
        if boot_id != self._boot_id or not number.isdecimal() or int(number) >= self._next:
            return None
        return int(number) + 1

    def _encoded(self, name: str, number: int, data: bytes) -> bytes:
        return b"id: %s-%d\nevent: %s\ndata: %s\n\n" % (self._boot_id.encode(), number, name.encode(), data)

    def _wake(self) -> None:
        self._news.set()
        self._news = anyio.Event()


class LastEvents:
    """Gives running trials their last events. Reads the store at most twice a second, however many readers there are.

    Args:
        root: The store's directory.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._tail: Tail | None = None
        self._read_at = 0.0
        self._lock = anyio.Lock()
        self._lines: dict[str, deque[TailLine]] = {}

    async def of(self, trials: Sequence[LiveTrial]) -> tuple[LiveTrial, ...]:
        if not trials:
            return ()
        async with self._lock:
            if time.monotonic() - self._read_at >= _LEAST_S:
                for line in await anyio.to_thread.run_sync(self._read):
                    self._keep(line)
        return tuple(msgspec.structs.replace(each, last_events=self._last(each)) for each in trials)

    def _read(self) -> list[TailLine]:
        is_late = time.monotonic() - self._read_at > _FORGOTTEN_S
        if self._tail is None or is_late:
            self._lines.clear()
            self._tail = Tail(self._root)
            lines = self._tail.last(_FIRST_EVENTS)
        else:
            lines = self._tail.new()
        self._read_at = time.monotonic()
        return lines

    def _keep(self, line: TailLine) -> None:
        if line.type in _CLOSING:
            self._lines.pop(line.stream_id, None)
        elif line.type in _SHOWN:
            self._lines.setdefault(line.stream_id, deque(maxlen=SHOWN_EVENTS)).append(line)

    def _last(self, trial: LiveTrial) -> tuple[LastEvent, ...]:
        """Return the last events of a trial. On a shared store the name of its stream ends in that of its writer."""
        name = f"{trial.trial_id}-{trial.attempt}"
        found = next(
            (own for stream, own in self._lines.items() if f"{stream}-".startswith(f"{name}-")), deque[TailLine]()
        )
        return tuple(LastEvent(at_us=line.recorded_at_us, type=line.type, summary=line.summary) for line in found)
