"""Live progress of a run: a display that repaints on a terminal, or else a line every few seconds."""

import math
import time
from collections import Counter
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TextIO

import msgspec

from lhaw_record.recorder.reading.trial_index import OpenRun
from lhaw_record.recorder.recovery.recovery import RecoveryAction
from lhaw_record.runners.models.endpoints.door import DoorState, door_states
from lhaw_record.runners.runs.planning.plan_table import spending
from lhaw_record.runners.runs.scheduler import Scheduler

if TYPE_CHECKING:
    from rich.table import Table

SECONDS_BETWEEN_LINES = 5.0


class Reporter(msgspec.Struct, frozen=True):
    """The callbacks of a run. Each of them does nothing by default.

    Before the trials: the warnings of the preflight and what it used, other open runs of the experiment, what was
    recovered, and the sandbox. Then each change and each second, workers that join or are lost, and the moment from
    which the run only waits for running trials.
    """

    checked: Callable[[list[str], str], None] = lambda _warnings, _used: None
    others: Callable[[list[OpenRun]], None] = lambda _: None
    recovered: Callable[[list[RecoveryAction]], None] = lambda _: None
    sandbox: Callable[[str], None] = lambda _: None
    workers: Callable[[str], None] = lambda _: None
    change: Callable[[Scheduler], None] = lambda _: None
    stopping: Callable[[Scheduler], None] = lambda _: None


class RunProgress:
    """Shows the progress of a run. Use it as a context manager.

    Args:
        out: The stream to write to. Only a terminal gets the live display.
    """

    def __init__(self, out: TextIO) -> None:
        from rich.console import Console
        from rich.live import Live

        self._out = out
        self._began = time.monotonic()
        self._printed = self._began
        self._live = Live(console=Console(file=out), auto_refresh=False, transient=True) if out.isatty() else None

    def __enter__(self) -> Self:
        if self._live:
            self._live.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._live.stop()

    def reporter(self) -> Reporter:
        return Reporter(**{name: getattr(self, name) for name in Reporter.__struct_fields__})

    def checked(self, warnings: list[str], used: str) -> None:
        self._line(f"preflight: {used}")
        for warning in warnings:
            self._line(f"preflight: {warning}")

    def recovered(self, reports: list[RecoveryAction]) -> None:
        streams = sum(len(report.closed_streams) for report in reports)
        if reports:
            self._line(f"recovered {len(reports)} journals of an earlier run; {streams} open streams were closed")

    def others(self, runs: list[OpenRun]) -> None:
        """Warn about other hosts that may be running the same trials now."""
        for run in runs:
            self._line(
                f"another host may be running this experiment: {run.stream_id} has not ended, and last published "
                f"{run.silent_s / 60:.0f} min ago. If so, trials run and are paid twice, but count once"
            )

    def sandbox(self, kind: str) -> None:
        self._line(f"sandbox: {kind}")

    def workers(self, text: str) -> None:
        self._line(text)

    def stopping(self, scheduler: Scheduler) -> None:
        if scheduler.running:
            self._line(f"stopping when {len(scheduler.running)} running trials have ended; Ctrl-C again ends them now")

    def change(self, scheduler: Scheduler) -> None:
        """Show a change: repaint the display, or print a line if the last one is some seconds old."""
        if self._live:
            self._live.update(_panel(scheduler, time.monotonic() - self._began), refresh=True)
            return
        now = time.monotonic()
        if now - self._printed >= SECONDS_BETWEEN_LINES:
            self._printed = now
            self._line(_line(scheduler, now - self._began))

    def _line(self, text: str) -> None:
        if self._live:
            self._live.console.print(text)
        else:
            print(text, file=self._out, flush=True)


def _line(scheduler: Scheduler, seconds: float) -> str:
    counts = scheduler.counts()
    left = f", about {duration(scheduler.left_s)} left" if scheduler.left_s else ""
    unknown = scheduler.unpriced + scheduler.unknown_cost_calls
    line = (
        f"{seconds:5.0f} s  {counts['finished']}/{len(scheduler.planned)} finished, {counts['running']} running, "
        f"{counts['blocked']} wait for full trials, {counts['failed']} failed, "
        f"{spending(scheduler.experiment, scheduler.spent_usd, unknown)}{left}"
    )
    return "\n".join([line, *(f"         {endpoint_words(state)}" for state in door_states())])


def endpoint_words(state: DoorState) -> str:
    words = [f"{state.per_minute} replies in the last minute", f"{state.under_way} under way"]
    words += [f"{state.waiting} waiting"] if state.waiting else []
    words += [f"{state.refused} refused by its rate limit"] if state.refused else []
    words += [f"{state.failed} failed"] if state.failed else []
    words += [f"held for {duration(state.held_s)}: {state.why}"] if state.why else []
    return f"{state.name}: {', '.join(words)}"


def duration(seconds: float) -> str:
    minutes, rest = divmod(math.ceil(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _panel(scheduler: Scheduler, seconds: float) -> "Table":
    """Return a table with a row for each condition, and a line about the whole run below them."""
    from rich.table import Table

    planned = Counter(trial.condition for trial in scheduler.planned)
    finished = Counter(trial.condition for trial in scheduler.planned if trial.trial_id in scheduler.finished)
    running = Counter(trial.condition for trial in scheduler.running.values())
    table = Table(box=None, pad_edge=False)
    for name in ("condition", "finished", "planned", "running", ""):
        table.add_column(name, justify="left" if name in ("condition", "") else "right")
    for condition, count in planned.items():
        share = finished[condition] / count
        bar = "█" * round(20 * share) + "░" * (20 - round(20 * share))
        table.add_row(condition, str(finished[condition]), str(count), str(running[condition] or ""), bar)
    table.add_row("", "", "", "", "")
    table.caption = _line(scheduler, seconds)
    return table
