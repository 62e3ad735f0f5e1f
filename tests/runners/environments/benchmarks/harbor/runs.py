"""Whole runs of agents, programs among them, on one small task folder; and what must not depend on the agent."""

import json

import anyio

from lhaw_record.recorder.events import ClarificationInjected, QuestionAsked, TrialFinished, TrialStarted
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.run import run_experiment
from tests.runners.environments.benchmarks.harbor.folders import write_task
from tests.runners.environments.sandboxes.docker_fixtures import own_names

_EFFECTS = ((QuestionAsked, "question"), (ClarificationInjected, "after_action"))
SOLUTION = "echo hello > hello.txt\n"
VARIANTS = """
[[variants]]
name = "word"
severity = "delete"
prompt = "Write a word into a file."
[[variants.segments]]
value = "the word hello"
dimension = "input"
subdimension = "value"
expected_questions = ["Which word should I write?"]
written = "hello"
guesses = ["bye"]
"""
EXPERIMENT = """
name = "programs"
conditions = {conditions}
trials = 1
concurrency = 2

[benchmark]
name = "harbor"
folder = "tasks"
network = "none"
build_network = "none"

[sandbox]
kind = "docker"

[limits]
memory_mb = {memory_mb}

[retry]
max_attempts = 1
{agents}
"""


def recorded(folder, agents, conditions=("full",), memory_mb=256, write=write_task):
    """Run agents, by their keys, on the task; return the events of each trial by agent and condition."""
    write(folder / "tasks" / "hello", solution=SOLUTION, **{"variants.toml": VARIANTS})
    tables = "".join("\n[[agents]]\n" + "".join(f"{k} = {_toml(v)}\n" for k, v in agent.items()) for agent in agents)
    (folder / "x.toml").write_text(
        EXPERIMENT.format(conditions=json.dumps(conditions), agents=tables, memory_mb=memory_mb)
    )
    anyio.run(run_experiment, prepare(folder / "x.toml"), folder / "store", Reporter())
    streams = {}
    for envelope in read_envelopes(folder / "store"):
        streams.setdefault(envelope.stream_id, []).append(envelope.event)
    trials = [events for events in streams.values() if isinstance(events[0], TrialStarted)]
    assert own_names() == []
    return {(events[0].agent, events[0].condition): events for events in trials}


def values(events, kind, field):
    """Return one field of every event of a kind."""
    return [getattr(event, field) for event in events if isinstance(event, kind)]


def _toml(value):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key} = {_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


def check_alike(trials, name, conditions):
    """Check that a program did what the native agent did, with the same mind behind both."""
    for condition in conditions:
        theirs, ours = trials[name, condition], trials["native", condition]
        assert theirs[-1].is_success
        for events in (theirs, ours):
            assert isinstance(events[-1], TrialFinished)
        assert theirs[-1].action_count == ours[-1].action_count
        asked, injected = (values(ours, *each) for each in _EFFECTS)
        assert [values(theirs, *each) for each in _EFFECTS] == [asked, injected]
        assert asked == (["Which word should I write?"] if condition == "ask_user" else [])
        assert len(injected) == condition.startswith("inject")
