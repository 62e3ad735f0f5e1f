"""A program that uses up its sandbox has ended its trial, as a native agent has; one that the host loses has not."""

import pytest

from lhaw_record.recorder.events import CheckpointScored, TrialFailed
from lhaw_record.runners.environments.sandboxes.local.cgroups import Cgroup
from tests.runners.agents.programs.rigs import ended, of, scripted, trial_of

KILLS_THE_DRIVER = "work(1)\nos.kill(os.getppid(), 9)\ntime.sleep(600)\n"


async def test_a_work_directory_without_bounds_is_graded(tmp_path):
    """Sparse files beyond what may be copied: every checkpoint fails with that reason."""
    source = "work(1)\nfor name in 'abc':\n    os.truncate(os.open(name, os.O_CREAT | os.O_WRONLY), 200 << 20)\n"
    events = await trial_of(tmp_path, scripted(tmp_path, source))
    assert ended(events) == "resource_abuse"
    assert not events[-1].is_success
    assert {event.score for event in of(events, CheckpointScored)} == {0.0}
    assert all("files of more than" in event.details for event in of(events, CheckpointScored))


@pytest.mark.parametrize("is_out_of_memory", [True, False])
async def test_a_lost_driver_is_the_programs_only_if_its_memory_was_used_up(tmp_path, monkeypatch, is_out_of_memory):
    """The kernel's count of ends for want of memory decides: graded, or missing data that is owed again."""
    monkeypatch.setattr(Cgroup, "has_run_out_of_memory", lambda _: is_out_of_memory)
    events = await trial_of(tmp_path, scripted(tmp_path, KILLS_THE_DRIVER))
    if is_out_of_memory:
        assert ended(events) == "resource_abuse"
        assert {event.details for event in of(events, CheckpointScored)} == {
            "the sandbox is gone: the driver itself was killed for lack of memory"
        }
    else:
        assert isinstance(events[-1], TrialFailed)
        assert (events[-1].boundary, events[-1].is_retry_owed) == ("sandbox", True)
        assert not of(events, CheckpointScored)
