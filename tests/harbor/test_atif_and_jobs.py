"""ATIF and jobs, held against Harbor's own classes."""

import json
from copy import deepcopy

import pytest

from lhaw_record.analytics.exports import atif_documents, harbor_jobs
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.recorder.events import TrialFailed
from lhaw_record.runners.imports.formats.atif_document import read_document
from tests.analytics.exports.test_exports import timing_trials
from tests.runners.imports.files import imported, query, write
from tests.runners.imports.formats.test_atif import PLAIN, RICH, events
from tests.runners.imports.formats.test_harbor_job import job, trial
from tests.support.harbor_classes import faults_of, pass_at_k, policies, shown_jobs
from tests.support.needs import needs

pytestmark = needs("harbor")


def test_harbor_accepts_every_exported_trajectory(tmp_path):
    """With conversations, with bare actions, with arguments that are no JSON, with sub-agents."""
    call = {"id": "c1", "function": {"name": "bash", "arguments": "{oops"}}
    chat = [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]}]
    imported("openai-messages", write(tmp_path / "x.json", chat), tmp_path / "s", reward=0.0)
    imported("atif", write(tmp_path / "y.json", RICH), tmp_path / "s", reward=1.0)
    imported("ask-early-trials", write(tmp_path / "trials" / "t.json", timing_trials()), tmp_path / "s")
    documents = [json.loads(each) for each in atif_documents(tmp_path / "s").files.values()]
    assert faults_of(documents) == [""] * len(documents)
    assert len(documents) == 8


def test_harbor_shows_every_exported_job(tmp_path):
    """Its viewer finds each job, and each trial with rewards and trajectory. Our import reads one job by itself."""
    imported("ask-early-trials", write(tmp_path / "trials" / "t.json", timing_trials()), tmp_path / "s")
    found = harbor_jobs(tmp_path / "s")
    for name, content in {**found.files, **found.unread}.items():
        write(tmp_path / "jobs" / name, content)
    shown = shown_jobs(str(tmp_path / "jobs"))
    assert {job: len(rewards) for job, rewards in shown.items()} == {
        "e__full": 3,
        "e__inject_50": 1,
        "e__inject_90": 1,
        "e__underspecified": 1,
    }
    assert faults_of([json.loads(each) for name, each in found.files.items() if "trajectory" in name]) == [""] * 6
    imported("harbor-job", tmp_path / "jobs" / "e__full", tmp_path / "again")
    succeeded = "select is_success from trials where condition = 'full' order by all"
    assert query(tmp_path / "again", succeeded) == query(tmp_path / "s", succeeded)


def test_harbor_counts_the_same_errors(tmp_path):
    """A reward beside each error that Harbor knows is valid here exactly if it is valid there, and is whose fault."""
    theirs = policies()
    names = sorted(theirs)
    trials = [trial(n % 60, {"reward": 1.0}, name, task=f"t{n}") for n, name in enumerate(names)]
    imported("harbor-job", job(tmp_path, *trials), tmp_path / "s")
    valid = dict(query(tmp_path / "s", "select task_id, trial_state = 'valid' from trials"))
    assert {name: valid[f"t{n}"] for n, name in enumerate(names)} == {name: theirs[name][0] for name in names}
    causes = {"sandbox": "sandbox_failed", "model": "model_provider_failed", "grader": "verifier_failed"}
    for failed in events(tmp_path / "s", TrialFailed):
        assert failed.boundary is None or causes[failed.boundary] == theirs[failed.error_kind][1]


def test_harbor_has_the_same_pass_at_k(tmp_path):
    """Three tasks of four trials: 4, 2 and 0 successes."""
    trials = [
        trial(4 * n + index, {"reward": float(index < wins)}, task=f"t{n}")
        for n, wins in enumerate((4, 2, 0))
        for index in range(4)
    ]
    imported("harbor-job", job(tmp_path, *trials), tmp_path / "s")
    ((evaluation, found),) = pass_at_k(trials)[0].items()
    assert evaluation.startswith("a__m")
    assert {*found} == {"2", "4"}
    for k, value in found.items():
        connection = open_store(tmp_path / "s", parameters={"k": int(k)}, only={"pass_at_k"})
        assert connection.execute("select avg(pass_at_k) from pass_at_k").fetchall() == [(pytest.approx(value),)]
        connection.close()


def test_harbor_accepts_and_refuses_the_same_documents():
    """Every value of a document removed, emptied or replaced by one of another type: the same verdict as Harbor's.

    One difference is wanted: where a number belongs, Harbor takes ``true`` for 1.
    """
    changed = [PLAIN, RICH, *_changes(RICH)]
    theirs = [not fault for fault in faults_of(changed)]
    ours = [_is_valid(each) for each in changed]
    assert [each for each, own, its in zip(changed, ours, theirs, strict=True) if own != its] == []
    assert theirs[:2] == [True, True]
    assert 100 < sum(theirs) < len(theirs) - 100


def _is_valid(value):
    try:
        read_document(value)
    except ValueError:
        return False
    return True


def _changes(value):
    """The document with one value changed, for every value in it."""
    for path in _paths(value):
        for replacement in (None, "", "x", -1, 2, 0.5, True, [], {}, [None], {"y": 1}, ...):
            copy = deepcopy(value)
            holder = copy
            for key in path[:-1]:
                holder = holder[key]
            if replacement is True and (path[-1] == "reasoning_effort" or isinstance(holder[path[-1]], int | float)):
                continue
            if replacement is ...:
                del holder[path[-1]]
            else:
                holder[path[-1]] = replacement
            yield copy
    for path in _paths(value):
        copy = deepcopy(value)
        inner = copy
        for key in path:
            inner = inner[key]
        if isinstance(inner, dict):
            inner["unheard_of"] = 1
            yield copy


def _paths(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))
