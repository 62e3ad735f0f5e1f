"""What a run shows of itself while it runs, where there is no terminal."""

import io
import re

import pytest

from lhaw_record.runners.runs.live_progress import RunProgress, duration
from tests.runners.runs.test_scheduler import run
from tests.support.toy_plan import PretendingRunner, experiment


async def test_the_time_that_is_left_is_told_once_a_trial_has_finished(monkeypatch):
    """Each line counts the trials; the estimate needs one that has ended, and the last line needs none."""
    monkeypatch.setattr("lhaw_record.runners.runs.live_progress.SECONDS_BETWEEN_LINES", 0.0)
    out = io.StringIO()
    scheduler, _ = await run(experiment(), PretendingRunner(), on_change=RunProgress(out).change)
    told = re.findall(r" (\d+)/\d+ finished, .*?(, about \d+ s left)?$", out.getvalue(), re.MULTILINE)
    estimates = {int(finished): bool(estimate) for finished, estimate in told}
    assert estimates[0] is False
    assert all(is_told for finished, is_told in estimates.items() if 0 < finished < len(scheduler.planned))
    assert estimates[len(scheduler.planned)] is False


@pytest.mark.parametrize(("seconds", "words"), [(0.2, "1 s"), (61, "1 min 1 s"), (7380, "2 h 3 min")])
def test_durations_are_told_in_two_units(seconds, words):
    """Whole seconds below a minute, then the two largest units."""
    assert duration(seconds) == words
