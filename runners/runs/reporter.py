"""The callbacks through which a run reports its progress."""

from collections.abc import Callable

import msgspec

from lhaw_record.recorder.reading.trial_index import OpenRun
from lhaw_record.recorder.recovery.recovery import RecoveryAction
from lhaw_record.runners.runs.scheduler import Scheduler


class Reporter(msgspec.Struct, frozen=True):
    """The callbacks of a run. Each of them does nothing by default.

    They receive the warnings of the preflight and what it used, the other open runs of the experiment, what was
    recovered, the sandbox and its preparation, workers that join or are lost, every change and every second, and the
    moment from which the run only waits for running trials.
    """

    checked: Callable[[list[str], str], None] = lambda _warnings, _used: None
    others: Callable[[list[OpenRun]], None] = lambda _: None
    recovered: Callable[[list[RecoveryAction]], None] = lambda _: None
    sandbox: Callable[[str], None] = lambda _: None
    workers: Callable[[str], None] = lambda _: None
    change: Callable[[Scheduler], None] = lambda _: None
    stopping: Callable[[Scheduler], None] = lambda _: None
