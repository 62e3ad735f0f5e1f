"""Failures in a row: the same words count, whatever ids and times are in them; anything else begins anew."""

from types import SimpleNamespace

from lhaw_record.recorder.events import TrialFailed
from lhaw_record.runners.runs.outcome_warnings import RepeatedFailures


def outcome(message=None, agent="a", task="t1", variant=None):
    """A valid outcome, or one that failed with a message."""
    failure = message and TrialFailed(boundary="sandbox", error_kind="x", message=message, is_retry_owed=True)
    return SimpleNamespace(
        trial=SimpleNamespace(
            agent=SimpleNamespace(name=agent),
            task=SimpleNamespace(task_id=task),
            variant=variant and SimpleNamespace(variant_id=variant),
        ),
        failure=failure,
    )


def added(failures, *outcomes):
    """What is said of outcomes of which each begins after the one before has ended."""
    return [failures.add(each, failures.now()) for each in outcomes]


def test_a_row_is_of_one_agent_and_one_failure():
    """Ids and times may differ; another failure, or a valid trial, ends the row, another agent does not."""
    failures = RepeatedFailures(3, {"a": 1, "b": 1})
    first = outcome("pid 17 at 0x7f00 in deadbeef01"), outcome("pid 18 at 0x7f31 in deadbeef02")
    broken = [outcome(message) for message in ("x", "x", "y", "y")]
    assert set(added(failures, *first, outcome("other", agent="b"), outcome(), *broken)) == {None}
    (reason,) = added(failures, outcome("y"))
    assert "agent a: 3 of its trials in a row failed with the same message, on 1 of its 1 tasks" in reason
    assert added(failures, outcome("y")) != [None]
    failures.clear()
    assert added(failures, outcome("y"), outcome("y")) == [None, None]
    assert added(RepeatedFailures(0, {"a": 1}), outcome("x")) == [None]


def test_a_task_is_counted_once_until_each_has_failed():
    """One unfit task stops nothing; different tasks do, though each message names its own task and variant."""
    failures = RepeatedFailures(3, {"a": 5})
    assert set(added(failures, *[outcome("t1/v: unfit", variant=f"t1/v{number}") for number in range(8)])) == {None}
    failures.clear()
    named = [outcome(f"{task}/v of {task}: unfit", task=task, variant=f"{task}/v") for task in ("django", "flask", "c")]
    assert [reason is not None for reason in added(failures, *named)] == [False, False, True]
    few = RepeatedFailures(3, {"a": 2})
    rows = added(few, *[outcome("x", task=task) for task in ("t1", "t1", "t1", "t2")])
    assert [reason is not None for reason in rows] == [False, False, False, True]


def test_trials_that_ran_together_are_counted_once():
    """What had begun when the first of a row ended may have met the same trouble."""
    failures = RepeatedFailures(2, {"a": 9})
    began = failures.now()
    assert {failures.add(outcome("x", task=f"t{number}"), began) for number in range(8)} == {None}
    assert added(failures, outcome("x", task="t8")) != [None]
