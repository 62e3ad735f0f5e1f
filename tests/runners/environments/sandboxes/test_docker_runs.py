"""Whole runs in containers: the bundled tasks are graded as in bubblewrap, and a lost container costs one attempt."""

import json
from collections import defaultdict

import anyio

from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.run import run_experiment
from tests.runners.environments.sandboxes.docker_fixtures import engine, kill_first_attempt, needs_engine, own_names  # noqa: F401
from tests.support.docker import BASE_IMAGE

pytestmark = needs_engine


def recorded(folder, sandbox, *, tasks=None):
    """Run one trial of each desk task with a scripted model; returns its summary and its events by class."""
    folder.mkdir()
    (folder / "x.toml").write_text(
        f"""
        name = "same"
        conditions = ["full"]
        trials = 1
        concurrency = 2
        agents = [{{name = "balanced", model = "scripted/balanced"}}]
        benchmark = {{name = "desk"{f", tasks = {json.dumps(tasks)}" if tasks else ""}}}
        limits = {{memory_mb = 256}}
        sandbox = {{{sandbox}}}
        """
    )
    summary = anyio.run(run_experiment, prepare(folder / "x.toml"), folder / "store", Reporter())
    events = defaultdict(list)
    for envelope in read_envelopes(folder / "store"):
        events[type(envelope.event).__name__].append((envelope.trial_id, envelope.event))
    return summary, events


def grades(events):
    """Return what each trial was given for each checkpoint, and with which words."""
    return {
        (trial_id, event.checkpoint_id): (event.score, event.total, event.details)
        for trial_id, event in events["CheckpointScored"]
    }


def test_the_desk_is_graded_alike_in_containers(tmp_path):
    """Every bundled task gets the same score at every checkpoint, in the same words, and the same trial's identity."""
    docker_summary, docker_events = recorded(tmp_path / "docker", f'kind = "docker", image = "{BASE_IMAGE}"')
    summary, events = recorded(tmp_path / "bubblewrap", 'kind = "bubblewrap"')
    assert (docker_summary.finished, docker_summary.failed) == (summary.finished, summary.failed) == (8, 0)
    assert grades(docker_events) == grades(events)
    assert {event.is_success for _, event in docker_events["TrialFinished"]} == {True}
    assert {event.sandbox for _, event in docker_events["TrialStarted"]} == {"docker"}
    assert own_names() == []


def test_a_container_killed_in_a_trial_costs_one_attempt(tmp_path, monkeypatch):
    """The attempt ends at the boundary sandbox with a retry owed; the next one, in a new container, is graded."""
    killed = kill_first_attempt(monkeypatch, b"bash", b"python")
    summary, events = recorded(tmp_path / "x", f'kind = "docker", image = "{BASE_IMAGE}"', tasks=["log-triage"])
    assert len(killed) == 1
    assert (summary.finished, summary.failed) == (1, 0)
    ((_, failure),) = events["TrialFailed"]
    assert (failure.boundary, failure.error_kind, failure.is_retry_owed) == ("sandbox", "container_killed", True)
    assert len(events["TrialFinished"]) == 1
    assert own_names() == []
