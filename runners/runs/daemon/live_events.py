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

MOST_WAITING = 2_000
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
