"""Orders: what the daemon can be asked, each checked first, then recorded, then obeyed."""

import os
from pathlib import Path

import anyio.to_thread

from recorder.canonical import digest
from recorder.events import (
    CONTROL_EXPERIMENT,
    ExperimentCancelled,
    ExperimentPaused,
    ExperimentRequeued,
    ExperimentResumed,
    ExperimentRetuned,
    ExperimentSubmitted,
)
from recorder.redaction import Redactor, secrets_of
from runners.daemon.daemon import Daemon
from runners.daemon.errors import DaemonRefusal
from runners.daemon.messages import MOST_AT_A_TIME, Detail, Requeued, Submission
from runners.daemon.queue import Entry
from runners.errors import ExperimentError
from runners.experiment import NOT_RECORDED, Experiment
from runners.experiment_file import read_experiment
from runners.run import check_runnable, prepare_experiment
from runners.services import keys_of, missing_keys

_LIVE_STATES = ("running", "pausing", "cancelling")


async def submit(daemon: Daemon, submission: Submission) -> Detail:
    """Take an experiment into the queue; what is there already, as it is, stays as it is.

    Raises:
        DaemonRefusal: It cannot run as written, or another file of its name is being run.
        RecordingFailed: It could not be recorded.
    """
    path = Path(submission.path)
    if not path.is_absolute():
        raise DaemonRefusal(
            f"path {submission.path!r} is relative; give the file's absolute path on the daemon's host",
            kind="bad_path",
            status=422,
        )
    try:
        experiment = await anyio.to_thread.run_sync(_checked, submission.config_toml, path)
    except ExperimentError as error:
        raise DaemonRefusal(str(error), kind="bad_experiment", status=422) from error
    config_json = experiment.config_json()
    event = ExperimentSubmitted(
        experiment=experiment.name,
        config_json=config_json,
        config_digest=digest(config_json),
        path=submission.path,
        by=submission.by,
    )
    _check_secrets(event, experiment)
    async with daemon.ordering:
        _check_stopping(daemon)
        earlier = daemon.queue.entries.get(experiment.name)
        if earlier is None or not _is_under_way(daemon, earlier, event):
            daemon.settle(experiment.name)
            await daemon.record(event)
    return daemon.detail(experiment.name)


async def pause(daemon: Daemon, name: str, by: str) -> Detail:
    """Start no further trial of an experiment; what is running goes on to its end.

    Raises:
        DaemonRefusal: There is no such experiment, or it has ended.
        RecordingFailed: The order could not be recorded.
    """
    async with daemon.ordering:
        entry = known(daemon, name)
        if entry.state != "paused":
            if name not in daemon.live and entry.state != "waiting":
                raise _conflict(daemon, name, "only what is waiting or running can be paused")
            await daemon.record(ExperimentPaused(experiment=name, by=by))
            if name in daemon.live:
                daemon.live[name].stop()
    return daemon.detail(name)


async def resume(daemon: Daemon, name: str, by: str) -> Detail:
    """Let a paused experiment go on, or try one again that could not run.

    Raises:
        DaemonRefusal: There is no such experiment, or it is not paused.
        RecordingFailed: The order could not be recorded.
    """
    async with daemon.ordering:
        entry = known(daemon, name)
        if entry.state != "paused" and name not in daemon.problems:
            remedy = {
                "failed": f"'lhaw-record requeue {name}' tries its failed trials again",
                "cost_limit": "raise budget.max_cost_usd in its file, or remove it, and submit it again",
                "cancelled": "submit it again",
            }
            raise _conflict(daemon, name, remedy.get(entry.state, "there is nothing to resume"))
        daemon.settle(name)
        await daemon.record(ExperimentResumed(experiment=name, by=by))
    return daemon.detail(name)


async def cancel(daemon: Daemon, name: str, by: str) -> Detail:
    """End the running trials of an experiment and do not start it again.

    Raises:
        DaemonRefusal: There is no such experiment, or all of it is finished.
        RecordingFailed: The order could not be recorded.
    """
    async with daemon.ordering:
        entry = known(daemon, name)
        if entry.state == "finished":
            raise _conflict(daemon, name, "there is nothing to cancel")
        if entry.state != "cancelled":
            await daemon.record(ExperimentCancelled(experiment=name, by=by))
        if name in daemon.live:
            daemon.live[name].cancel()
    return daemon.detail(name)


async def retune(daemon: Daemon, name: str, concurrency: int, by: str) -> Detail:
    """Run at most so many trials of an experiment at a time from now on.

    Raises:
        DaemonRefusal: There is no such experiment, or the number is no use.
        RecordingFailed: The order could not be recorded.
    """
    if not 1 <= concurrency <= MOST_AT_A_TIME:
        message = f"concurrency: from 1 to {MOST_AT_A_TIME:,}; 'pause' stops an experiment"
        raise DaemonRefusal(message, kind="bad_request", status=422)
    async with daemon.ordering:
        known(daemon, name)
        await daemon.record(ExperimentRetuned(experiment=name, concurrency=concurrency, by=by))
        if name in daemon.live:
            daemon.live[name].retune(concurrency)
    return daemon.detail(name)


async def requeue(daemon: Daemon, name: str, by: str) -> Requeued:
    """Attempt the failed trials of an experiment again, and nothing else.

    Raises:
        DaemonRefusal: There is no such experiment, it has no failed trials, or it was cancelled.
        RecordingFailed: The order could not be recorded.
    """
    async with daemon.ordering:
        entry = known(daemon, name)
        scheduler = daemon.live[name].scheduler if name in daemon.live else None
        trial_ids = scheduler.given_up if scheduler else daemon.given_up(entry)
        if entry.is_cancelled:
            raise _conflict(daemon, name, "submit it again")
        if not trial_ids:
            raise _conflict(daemon, name, "it has no failed trials that were given up")
        await daemon.record(ExperimentRequeued(experiment=name, trial_ids=trial_ids, by=by))
        if scheduler:
            scheduler.requeue(trial_ids)
    return Requeued(trial_ids=trial_ids)


def _checked(text: str, path: Path) -> Experiment:
    """Decode and plan a file, so that what is wrong with it is said to whoever submits it.

    Raises:
        ExperimentError: It cannot run as written.
    """
    experiment = read_experiment(text, path)
    if experiment.name == CONTROL_EXPERIMENT:
        raise ExperimentError(f"{path}: key 'name': {CONTROL_EXPERIMENT!r} is the daemon's own; take another name")
    lacking = missing_keys(experiment)
    if lacking:
        raise ExperimentError(f"{path}: {lacking[0]}; set it where the daemon is started, and start it again")
    check_runnable(prepare_experiment(experiment, path))
    return experiment


def _check_secrets(event: ExperimentSubmitted, experiment: Experiment) -> None:
    """Refuse a file that holds a secret: it would be recorded without it, and could not be run again.

    Raises:
        DaemonRefusal: It holds one.
    """
    if NOT_RECORDED in event.config_json:
        raise DaemonRefusal(
            f"{event.path} gives a program an environment, and its values are never recorded; the daemon runs what is "
            "recorded, so put the program into an entry file, and name that file as the agent's 'program'",
            kind="secret",
            status=422,
        )
    if Redactor(secrets_of(os.environ) | keys_of(experiment)).clean(event) != event:
        raise DaemonRefusal(
            f"{event.path} holds the value of a secret; name the variable that holds it with api_key_env instead",
            kind="secret",
            status=422,
        )


def _check_stopping(daemon: Daemon) -> None:
    if daemon.is_stopping:
        raise DaemonRefusal("the daemon is stopping; start it again, then submit", kind="stopping", status=503)


def _is_under_way(daemon: Daemon, earlier: Entry, event: ExperimentSubmitted) -> bool:
    """Whether this very file is being run or waits; submitting it again would change nothing.

    Raises:
        DaemonRefusal: Another file of the same name is being run.
    """
    before = earlier.submitted
    is_same = (before.config_digest, before.path) == (event.config_digest, event.path)
    is_live = daemon.overview(earlier.name).state in _LIVE_STATES
    if is_live and (not is_same or earlier.state != "waiting"):
        raise _conflict(daemon, earlier.name, "wait until it has stopped, then submit again")
    return is_same and earlier.state == "waiting" and earlier.name not in daemon.problems


def known(daemon: Daemon, name: str) -> Entry:
    """Return the entry of an experiment.

    Raises:
        DaemonRefusal: It was not submitted.
    """
    entry = daemon.queue.entries.get(name)
    if entry is None:
        there = ", ".join(daemon.queue.entries) or "none"
        raise DaemonRefusal(
            f"experiment {name!r} was not submitted to this daemon; it has: {there}", kind="unknown", status=404
        )
    return entry


def _conflict(daemon: Daemon, name: str, remedy: str) -> DaemonRefusal:
    state = daemon.overview(name).state.replace("_", " ")
    return DaemonRefusal(f"experiment {name!r} is {state}: {remedy}", kind="conflict", status=409)
