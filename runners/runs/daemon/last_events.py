"""The last events of running trials, read from the end of the store while somebody looks at them."""

import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.inspection.tail import Tail, TailLine
from lhaw_record.runners.runs.daemon.messages import LastEvent, LiveTrial

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


class LastEvents:
    """Gives running trials their last events. Reads the store at most twice a second, whoever asks.

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
        """Return the trials with their last events, oldest first."""
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
