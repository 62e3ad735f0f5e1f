"""The queue is a pure fold: what is owed after a death, a pause, a failure, and when somebody asks again."""

import msgspec
import pytest

from lhaw_record.recorder.events import (
    Envelope,
    ExperimentCancelled,
    ExperimentPaused,
    ExperimentRequeued,
    ExperimentResumed,
    ExperimentRetuned,
    ExperimentSubmitted,
    RunFinished,
    RunStarted,
    TrialFailed,
    TrialFinished,
)
from lhaw_record.runners.runs.daemon.queue import fold

ASKED = {"experiment": "e", "by": "someone"}
SUBMITTED = ExperimentSubmitted(**ASKED, config_json='{"name":"e"}', config_digest="0", path="/e.toml")
PAUSED, RESUMED, CANCELLED = ExperimentPaused(**ASKED), ExperimentResumed(**ASKED), ExperimentCancelled(**ASKED)
FINISHED = TrialFinished(
    ended_by="submitted",
    is_success=True,
    final_answer="",
    action_count=1,
    checkpoint_count=1,
    duration_ms=1.0,
    cost_usd=2.0,
)


def started(command=None, *, is_of_an_earlier_version=False):
    """A run begins, of the experiment file or of a command that plans no trials."""
    config = {"command": command} if command and is_of_an_earlier_version else {"name": "e"}
    return RunStarted(
        run_id="r",
        config_json=msgspec.json.encode(config).decode(),
        config_digest="0",
        code_version="0",
        packages=(),
        python_version="3",
        platform="p",
        cpu_count=1,
        planned_trials=1,
        finished_before=0,
        kind=None if is_of_an_earlier_version else command or "experiment",
    )


def ended(outcome):
    """A run ends."""
    return RunFinished(run_id="r", outcome=outcome, trials_finished=0, trials_failed=0, trials_blocked=0, trials_left=0)


def failed(boundary="model", kind="x", *, is_retry_owed=True):
    """An attempt fails at a cost of 1 USD."""
    return TrialFailed(boundary=boundary, error_kind=kind, message="m", is_retry_owed=is_retry_owed, cost_usd=1.0)


def recorded(*events, run="run"):
    """Events as they are stored: control in the daemon's stream, the rest in streams of the experiment.

    A pair of a trial's id and an event is an event of that trial.
    """
    found = []
    for place, each in enumerate(events):
        trial_id, event = each if isinstance(each, tuple) else (None, each)
        is_control = hasattr(event, "experiment")
        found.append(
            Envelope(
                stream_id="daemon-1" if is_control else trial_id or run,
                sequence=place,
                recorded_at_us=place,
                elapsed_ns=0,
                writer_id="w",
                experiment_id="daemon" if is_control else "e",
                event=event,
                trial_id=trial_id,
                attempt=1 if trial_id else None,
            )
        )
    return found


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([SUBMITTED], "waiting"),
        ([SUBMITTED, started()], "waiting"),
        ([SUBMITTED, started(), ended("interrupted")], "waiting"),
        ([SUBMITTED, started(), ended("completed")], "finished"),
        ([SUBMITTED, started(), ended("failed")], "failed"),
        ([SUBMITTED, started(), ended("cost_limit")], "cost_limit"),
        ([SUBMITTED, started(), PAUSED], "paused"),
        ([SUBMITTED, started(), PAUSED, ended("interrupted")], "paused"),
        ([SUBMITTED, started(), PAUSED, ended("completed")], "finished"),
        ([SUBMITTED, started(), PAUSED, RESUMED, ended("interrupted")], "waiting"),
        ([SUBMITTED, started(), CANCELLED, ended("interrupted")], "cancelled"),
        ([SUBMITTED, started(), CANCELLED, ended("interrupted"), SUBMITTED], "waiting"),
        ([SUBMITTED, started(), ended("cost_limit"), SUBMITTED], "waiting"),
    ],
)
def test_what_is_owed(events, state):
    """A run is owed after a submission and after an interruption; not after an end, a pause or a cancellation."""
    assert fold(recorded(*events)).entries["e"].state == state


def test_the_order_of_reading_does_not_matter():
    """The fold orders events by their time: however segments and journals give them, the queue is the same."""
    events = recorded(SUBMITTED, started(), PAUSED, RESUMED, ("t", failed()), ended("failed"))
    first, second = fold(events), fold(reversed(events))
    assert (first.entries, first.tallies) == (second.entries, second.tallies)


@pytest.mark.parametrize("is_of_an_earlier_version", [False, True])
def test_judging_is_no_run(is_of_an_earlier_version):
    """A judge's run on the same experiment neither ends nor begins anything in the queue."""
    events = [SUBMITTED, started("judge", is_of_an_earlier_version=is_of_an_earlier_version), ended("completed")]
    assert fold(recorded(*events)).entries["e"].state == "waiting"


def test_given_up_trials_stay_given_up_until_somebody_asks():
    """After as many failures as allowed, or one without hope, a restart does not try again; requeueing does."""
    worn = [("worn", failed())] * 3
    events = [SUBMITTED, started(), *worn, ("none", failed(is_retry_owed=False)), ("once", failed()), ended("failed")]
    entry = fold(recorded(*events)).entries["e"]
    before = entry.prior_failures(3)
    assert before.given_up == {"worn", "none"}
    assert before.attempts["once"] == 1

    asked = ExperimentRequeued(**ASKED, trial_ids=("worn", "none"))
    entry = fold(recorded(*events, asked)).entries["e"]
    assert (entry.state, entry.prior_failures(3).given_up) == ("waiting", frozenset())

    again = fold(recorded(*events, SUBMITTED)).entries["e"]
    assert again.prior_failures(3).given_up == frozenset()


def test_asking_in_the_last_moment_of_a_run_is_not_lost():
    """Trials requeued while a run ends are owed a run, once: trials that nobody asked for do not keep it going."""
    asked = ExperimentRequeued(**ASKED, trial_ids=("t",))
    events = [SUBMITTED, started(), ("t", failed(is_retry_owed=False)), asked, ended("failed")]
    assert fold(recorded(*events)).entries["e"].state == "waiting"
    assert fold(recorded(*events, started(), ended("failed"))).entries["e"].state == "failed"
    tried = [*events[:-1], ("t", failed(is_retry_owed=False)), ended("failed")]
    assert fold(recorded(*tried)).entries["e"].state == "failed"


def test_a_death_is_no_failure():
    """What recovery and stopping write as interrupted counts neither as an attempt nor as a failure at a boundary."""
    events = [SUBMITTED, *[("t", failed("recorder", "interrupted"))] * 5, ("u", failed()), ("v", FINISHED)]
    queue = fold(recorded(*events))
    assert queue.entries["e"].prior_failures(3).given_up == frozenset()
    assert queue.tallies["e"].failures == {"model": 1}
    assert queue.tallies["e"].spent_usd == 8.0


def test_success_makes_failures_forgotten():
    """A trial that became valid has no failed attempts to its name."""
    entry = fold(recorded(SUBMITTED, ("t", failed()), ("t", FINISHED))).entries["e"]
    assert entry.prior_failures(1).attempts == {}


def test_the_last_tuning_counts_until_the_next_submission():
    """A changed concurrency outlives restarts and goes with the submission that it was for."""
    tuned = [ExperimentRetuned(**ASKED, concurrency=number) for number in (3, 5)]
    assert fold(recorded(SUBMITTED, *tuned)).entries["e"].concurrency == 5
    assert fold(recorded(SUBMITTED, *tuned, SUBMITTED)).entries["e"].concurrency is None
