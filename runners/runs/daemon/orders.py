"""The orders and notes that the daemon accepts. Each order is checked, then recorded, then carried out."""

import os
from pathlib import Path

import anyio.to_thread

from lhaw_record.recorder.errors import RecorderError, RecordingFailed, StoreInUse
from lhaw_record.recorder.events import (
    CONTROL_EXPERIMENT,
    NOTES_EXPERIMENT,
    ExperimentCancelled,
    ExperimentPaused,
    ExperimentRequeued,
    ExperimentResumed,
    ExperimentRetuned,
    ExperimentSubmitted,
    TrialsNoted,
    TrialStarted,
)
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.redaction import Redactor, secrets_of
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import read_experiment
from lhaw_record.runners.experiment.tables import NOT_RECORDED, Experiment
from lhaw_record.runners.runs.daemon.daemon import Daemon
from lhaw_record.runners.runs.daemon.messages import (
    MOST_AT_A_TIME,
    AttemptNote,
    DaemonRefusal,
    Detail,
    ExperimentOrder,
    PersonAnswer,
    RequeueReply,
    Retuning,
    Submission,
)
from lhaw_record.runners.runs.daemon.queue import QueueEntry
from lhaw_record.runners.runs.discarding import record_note
from lhaw_record.runners.runs.preflight import missing_keys
from lhaw_record.runners.runs.preparation import check_runnable, keys_of, prepare_experiment
from lhaw_record.runners.users.simulated_user.person import GivenAnswer, give

_LIVE_STATES = ("running", "pausing", "cancelling")


async def submit(daemon: Daemon, _: str, submission: Submission) -> Detail:
    """Put an experiment into the queue.

    Submitting the same file again while the experiment waits or runs changes nothing.
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
    except (ExperimentError, RecorderError) as error:
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
        if daemon.is_stopping:
            raise DaemonRefusal("the daemon is stopping; start it again, then submit", kind="stopping", status=503)
        earlier = daemon.queue.entries.get(experiment.name)
        if earlier is None or not _is_under_way(daemon, earlier, event):
            daemon.settle(experiment.name)
            await daemon.record(event)
    return daemon.detail(experiment.name)


async def pause(daemon: Daemon, name: str, order: ExperimentOrder) -> Detail:
    """Start no further trials of an experiment. Running trials continue until they end."""
    async with daemon.ordering:
        entry = known(daemon, name)
        if entry.state != "paused":
            if name not in daemon.live and entry.state != "waiting":
                raise _conflict(daemon, name, "only a waiting or running experiment can be paused")
            await daemon.record(ExperimentPaused(experiment=name, by=order.by))
            if name in daemon.live:
                daemon.live[name].stop()
    return daemon.detail(name)


async def resume(daemon: Daemon, name: str, order: ExperimentOrder) -> Detail:
    """Continue a paused experiment, or retry one that could not run."""
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
        await daemon.record(ExperimentResumed(experiment=name, by=order.by))
    return daemon.detail(name)


async def cancel(daemon: Daemon, name: str, order: ExperimentOrder) -> Detail:
    """Stop the running trials of an experiment now, and start no others."""
    async with daemon.ordering:
        entry = known(daemon, name)
        if entry.state == "finished":
            raise _conflict(daemon, name, "there is nothing to cancel")
        if entry.state != "cancelled":
            await daemon.record(ExperimentCancelled(experiment=name, by=order.by))
        if name in daemon.live:
            daemon.live[name].cancel()
    return daemon.detail(name)


async def retune(daemon: Daemon, name: str, order: Retuning) -> Detail:
    if not 1 <= order.concurrency <= MOST_AT_A_TIME:
        message = f"concurrency: must be from 1 to {MOST_AT_A_TIME:,}; 'pause' stops an experiment"
        raise DaemonRefusal(message, kind="bad_request", status=422)
    async with daemon.ordering:
        known(daemon, name)
        await daemon.record(ExperimentRetuned(experiment=name, concurrency=order.concurrency, by=order.by))
        if name in daemon.live:
            daemon.live[name].retune(order.concurrency)
    return daemon.detail(name)


async def requeue(daemon: Daemon, name: str, order: ExperimentOrder) -> RequeueReply:
    """Attempt again those failed trials of an experiment that were given up, and let stopped agents go on.

    If the run ended as failed before any trial was given up, all of its failed trials are attempted again.
    """
    async with daemon.ordering:
        entry = known(daemon, name)
        scheduler = daemon.live[name].scheduler if name in daemon.live else None
        trial_ids = scheduler.given_up if scheduler else daemon.given_up(entry)
        if entry.is_cancelled:
            raise _conflict(daemon, name, "submit it again")
        if not trial_ids and entry.state == "failed" and scheduler is None:
            trial_ids = tuple(sorted(entry.attempts))
        if not trial_ids:
            raise _conflict(daemon, name, "it has no failed trials that were given up")
        await daemon.record(ExperimentRequeued(experiment=name, trial_ids=trial_ids, by=order.by))
        if scheduler:
            scheduler.requeue(trial_ids)
    return RequeueReply(trial_ids=trial_ids)


def _checked(text: str, path: Path) -> Experiment:
    """Decode and plan an experiment file, so that its errors are reported at submission."""
    experiment = read_experiment(text, path)
    if experiment.name in (CONTROL_EXPERIMENT, NOTES_EXPERIMENT):
        raise ExperimentError(f"{path}: key 'name': {experiment.name!r} is reserved for the daemon; take another name")
    lacking = missing_keys(experiment)
    if lacking:
        raise ExperimentError(f"{path}: {lacking[0]}; set it where the daemon is started, and restart the daemon")
    check_runnable(prepare_experiment(experiment, path))
    return experiment


def _check_secrets(event: ExperimentSubmitted, experiment: Experiment) -> None:
    """Refuse an experiment file that contains a secret.

    The daemon runs what is recorded, and secrets are never recorded, so such an experiment could not run.
    """
    if NOT_RECORDED in event.config_json:
        raise DaemonRefusal(
            f"{event.path} gives a program an environment, whose values are never recorded; the daemon runs recorded "
            f"values, so put the program into an entry file, and name that file as the agent's 'program'",
            kind="secret",
            status=422,
        )
    if Redactor(secrets_of(os.environ) | keys_of(experiment)).clean(event) != event:
        raise DaemonRefusal(
            f"{event.path} holds the value of a secret; set api_key_env to the name of the variable that holds it",
            kind="secret",
            status=422,
        )


def _is_under_way(daemon: Daemon, earlier: QueueEntry, event: ExperimentSubmitted) -> bool:
    """Return whether the same file is already running or waiting, so that submitting it again would change nothing."""
    before = earlier.submitted
    is_same = (before.config_digest, before.path) == (event.config_digest, event.path)
    is_live = daemon.overview(earlier.name).state in _LIVE_STATES
    if is_live and (not is_same or earlier.state != "waiting"):
        raise _conflict(daemon, earlier.name, "wait until it has stopped, then submit again")
    return is_same and earlier.state == "waiting" and earlier.name not in daemon.problems


def known(daemon: Daemon, name: str) -> QueueEntry:
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


async def note(daemon: Daemon, stream_id: str, given: AttemptNote) -> AttemptNote:
    store = daemon.store
    if not await anyio.to_thread.run_sync(is_attempt, store, stream_id):
        raise DaemonRefusal(f"there is no attempt {stream_id!r}", kind="not_found", status=404)
    note = TrialsNoted(
        stream_ids=(stream_id,), author=given.author, note=given.note, cause=given.cause, is_undone=given.is_undone
    )
    try:
        await record_note(store, note)
    except ExperimentError as error:
        raise DaemonRefusal(str(error), kind="bad_note", status=422) from error
    except StoreInUse as error:
        message = f"another note is being recorded; try again ({error})"
        raise DaemonRefusal(message, kind="in_use", status=409) from error
    except RecordingFailed as error:
        message = f"the note is not recorded: {error}; make room, then note it again"
        raise DaemonRefusal(message, kind="not_recorded", status=507) from error
    return given


async def answer(daemon: Daemon, question_id: str, given: PersonAnswer) -> PersonAnswer:
    answered = GivenAnswer(text=given.text, by=given.by, saw_values=given.saw_values)
    if given.text is not None and not given.text.strip():
        raise DaemonRefusal("the answer is empty; send null to decline", kind="bad_answer", status=422)
    if not give(daemon.store.questions_dir, question_id, answered):
        message = "nobody waits for this answer: the question was answered, or its trial has ended"
        raise DaemonRefusal(message, kind="not_open", status=409)
    return given


def is_attempt(store: Store, stream_id: str) -> bool:
    return any(isinstance(each.event, TrialStarted) for each in read_envelopes(store.root, stream_id))
