"""The two clocks of one trial: the agent's own seconds, and those in which it waited for infrastructure.

    the agent's own     its commands, its thinking between two calls, and every request of its model that was answered
    waited              requests that failed and the time until the next one, the simulated user, tool servers, and
                        the recorder's disk, for which there is no patience: its failure could not be recorded

Whose time a request took is known only when it ends: until then the agent's clock stands still, and an answer charges
it afterwards. So nothing ends a trial as ``time_limit`` while it waits, and a slow answer is the model's own slowness.
Stretches that overlap, as those of a program with several threads do, count once.
"""

import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

from recorder.events import AnyEvent
from recorder.events.trial import Boundary
from runners.errors import (
    BoundaryError,
    GraderError,
    ModelBoundaryError,
    SandboxBoundaryError,
    ToolBoundaryError,
    UserSimulatorError,
)
from runners.recording import Recording

Result = TypeVar("Result")

_ERRORS: dict[Boundary, type[BoundaryError]] = {
    error.boundary: error
    for error in (ModelBoundaryError, ToolBoundaryError, SandboxBoundaryError, UserSimulatorError, GraderError)
}
_FOREVER = float("inf")


class Stretch:
    """A time in which a trial waits; ``boundary`` is None as long as nobody knows for whom.

    Args:
        began_s: When it began.
        boundary: What is waited for.
        what: The same in words, for messages.
        kind: The error kind if patience ends here.
    """

    def __init__(self, began_s: float, boundary: Boundary | None, what: str, kind: str = "timeout") -> None:
        self.began_s = began_s
        self.boundary = boundary
        self.what = what
        self.kind = kind


class TrialClock:
    """The seconds of one trial.

    Args:
        max_seconds: The agent's own, at most.
        patience_s: Those waited, at most.
        now_s: Monotonic seconds.
    """

    def __init__(
        self,
        max_seconds: float = _FOREVER,
        patience_s: float = _FOREVER,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_seconds = max_seconds
        self._patience_s = patience_s
        self._read_s = now_s
        self._began_s: float | None = None
        self._ended_s: float | None = None
        self._open: list[Stretch] = []
        self._waited: list[tuple[float, float]] = []  # those that an open stretch may still overlap
        self._waited_before_s = 0.0
        self._recorded_s = 0.0
        self._backing_off: Stretch | None = None
        self._last_straw: Stretch | None = None
        self._scope: anyio.CancelScope | None = None

    @property
    def charged_s(self) -> float:
        """The agent's own seconds so far; those of a request that is under way are in neither sum."""
        return self._elapsed_s() - self._covered_s(self._open)

    @property
    def waited_s(self) -> float:
        """The seconds waited so far."""
        return self._covered_s(stretch for stretch in self._open if stretch.boundary is not None)

    @property
    def is_used_up(self) -> bool:
        """Whether the agent has used its own time."""
        return self.charged_s >= self._max_seconds

    @property
    def patience_left_s(self) -> float:
        """How long it may still wait for anything but the recorder."""
        now_s = self._now_s()
        recording_s = sum(now_s - stretch.began_s for stretch in self._open if stretch.boundary == "recorder")
        return self._patience_s - (self.waited_s - self._recorded_s - recording_s)

    async def bound(self, work: Callable[[], Awaitable[Result]]) -> Result | None:
        """Run the agent's part of a trial, or what lasts as long; None if its own time was over before.

        Raises:
            BoundaryError: It waited for longer than patience allows.
        """
        self._began_s = self._now_s()
        try:
            with anyio.CancelScope() as self._scope:
                self._reset_deadline()
                return await work()
            self._check_patience()
            return None
        finally:
            self._scope = None
            self._ended_s = self._now_s()

    @contextmanager
    def waiting(self, boundary: Boundary, what: str) -> Iterator[None]:
        """Count what happens meanwhile as waiting for something that is not the agent's."""
        stretch = self._begun(Stretch(self._now_s(), boundary, what))
        try:
            yield
        finally:
            self._close(stretch, is_own=False)

    def asked(self) -> Stretch:
        """Take note that a request was sent to the agent's model; ``answered`` or ``failed`` must follow."""
        self._end_of_backing_off()
        return self._begun(Stretch(self._now_s(), None, "its model"))

    def answered(self, request: Stretch) -> None:
        """Charge a request that brought a reply."""
        self._close(request, is_own=True)

    def failed(self, request: Stretch, kind: str, message: str, *, holds_up: bool = True) -> None:
        """Count a request that failed as waited and, if it holds the agent up, what follows until the next one."""
        self._close(request, is_own=False)
        if holds_up:
            self._end_of_backing_off()
            self._backing_off = self._begun(Stretch(self._now_s(), "model", message, kind))

    def _begun(self, stretch: Stretch) -> Stretch:
        self._open.append(stretch)
        self._reset_deadline()
        return stretch

    def _end_of_backing_off(self) -> None:
        stretch, self._backing_off = self._backing_off, None
        if stretch is not None:
            self._close(stretch, is_own=False)

    def _close(self, stretch: Stretch, *, is_own: bool) -> None:
        if stretch.boundary in _ERRORS and self.patience_left_s <= 0 and self._last_straw is None:
            self._last_straw = stretch
        self._open.remove(stretch)
        if stretch.boundary == "recorder":
            self._recorded_s += self._now_s() - stretch.began_s
        if not is_own:
            self._waited = _united([*self._waited, (stretch.began_s, self._now_s())])
        if self._waited and not self._open:
            self._waited_before_s += _length_s(self._waited)
            self._waited = []
        self._reset_deadline()

    def _now_s(self) -> float:
        """The time, at the latest that at which the agent's part ended."""
        return self._read_s() if self._ended_s is None else self._ended_s

    def _elapsed_s(self) -> float:
        return 0.0 if self._began_s is None else self._now_s() - self._began_s

    def _covered_s(self, stretches: Iterable[Stretch]) -> float:
        """The seconds in what was waited, or in open stretches."""
        now_s = self._now_s()
        still_open = [(stretch.began_s, now_s) for stretch in stretches]
        return self._waited_before_s + _length_s([*self._waited, *still_open])

    def _reset_deadline(self) -> None:
        """Let the scope end when the clock that runs will be used up."""
        if self._scope is None:
            return
        left_s = _FOREVER
        if not self._open or self.is_used_up:
            left_s = self._max_seconds - self.charged_s
        elif any(stretch.boundary in _ERRORS for stretch in self._open):
            left_s = self.patience_left_s
        self._scope.deadline = anyio.current_time() + left_s

    def _check_patience(self) -> None:
        """Raise if it was patience that ended."""
        awaited = [stretch for stretch in self._open if stretch.boundary in _ERRORS]
        last = self._last_straw or (awaited[-1] if awaited else None)
        if last is None or last.boundary is None or self.is_used_up:
            return
        waited = f"{self.waited_s:.3g} s in all, as long as retry.patience_s allows"
        raise _ERRORS[last.boundary](f"the trial waited {waited}, at last for {last.what}", kind=last.kind)


class TimedRecording:
    """The stream of a trial whose writing is waited for: a disk that stalls takes none of the agent's time.

    Args:
        recording: The stream.
        trial_clock: The trial's clock.
    """

    def __init__(self, recording: Recording, trial_clock: TrialClock) -> None:
        self._recording = recording
        self._trial_clock = trial_clock

    async def append(self, *events: AnyEvent) -> None:
        """Append events in order and return when they are durable."""
        with self._trial_clock.waiting("recorder", "the recorder"):
            await self._recording.append(*events)


def _length_s(stretches: list[tuple[float, float]]) -> float:
    """Return how long stretches last together; what overlaps counts once."""
    if len(stretches) > 1:
        stretches = _united(stretches)
    return sum(ended_s - began_s for began_s, ended_s in stretches)


def _united(stretches: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the same times without overlaps, in order."""
    united: list[tuple[float, float]] = []
    for began_s, ended_s in sorted(stretches):
        if united and began_s <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], ended_s))
        else:
            united.append((began_s, ended_s))
    return united
