"""Failures in a row: the same words count, whatever ids and times are in them; anything else begins anew."""

from types import SimpleNamespace

from recorder.events import TrialFailed
from runners.run.repeated_failures import RepeatedFailures


def outcome(message=None, agent="a"):
    """A valid outcome, or one that failed with a message."""
    failure = message and TrialFailed(boundary="sandbox", error_kind="x", message=message, is_retry_owed=True)
    return SimpleNamespace(trial=SimpleNamespace(agent=SimpleNamespace(name=agent)), failure=failure)


def test_a_row_is_of_one_agent_and_one_failure():
    """Ids and times may differ; another failure, or a valid trial, ends the row, another agent does not."""
    failures = RepeatedFailures(3)
    assert failures.add(outcome("pid 17 at 0x7f00 in deadbeef01")) is None
    assert failures.add(outcome("pid 18 at 0x7f31 in deadbeef02")) is None
    assert failures.add(outcome("other", agent="b")) is None
    assert failures.add(outcome()) is None
    for message in ("x", "x", "y", "y"):
        assert failures.add(outcome(message)) is None
    assert "agent a: its last 3 attempts" in failures.add(outcome("y"))
    assert RepeatedFailures(0).add(outcome("x")) is None
