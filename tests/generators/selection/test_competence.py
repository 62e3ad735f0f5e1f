"""Competence: a task is chosen, refused or unknown, and never one for the want of data."""

import gzip
import json

import pytest

from lhaw_record.generators.generation.generation_index import load_generation_index
from lhaw_record.generators.selection.competence import AgentValue, competent_tasks, judge_task
from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.recorder.reading.reader import read_snapshot
from tests.analytics.make_store import Store as Written
from tests.generators.labelled import REAL
from tests.generators.selection.stores import to_disk
from tests.support.needs import needs


def value(agent="a", trials=3, successes=1, progress=0.5):
    """What the tables say of an agent on a task."""
    return AgentValue(
        agent=agent,
        n_trials=trials,
        n_success=successes,
        checkpoint_progress=progress if trials else None,
    )


def task(benchmark, count=1):
    """A task with some checkpoints."""
    checkpoints = tuple(Checkpoint(checkpoint_id=f"c{each}", label="done", total=1.0) for each in range(count))
    return Task(
        benchmark=benchmark,
        benchmark_version="1",
        task_id="t",
        prompt="Do it.",
        checkpoints=checkpoints,
        environment_digest="",
    )


@pytest.mark.parametrize(
    ("agents", "verdict", "reason"),
    [
        ([value(), value("b", successes=3)], "chosen", ""),
        ([value(), value("b", successes=0)], "not_chosen", "not solved by b (0 of 3)"),
        ([value(trials=4, successes=0), value("b", successes=0)], "not_chosen", "not solved by a (0 of 4), b (0 of 3)"),
        ([value(), value("b", trials=0, successes=0)], "unknown", "no valid full trials of b"),
        ([value(trials=0, successes=0)] * 2, "unknown", "no valid full trials"),
        ([value(trials=2)], "unknown", "too few trials of a (2 of 3)"),
        ([value(trials=2, successes=0)], "unknown", "too few trials of a (2 of 3)"),
        ([value(trials=2), value("b", successes=0)], "not_chosen", "not solved by b (0 of 3)"),
        ([], "unknown", "no valid full trials"),
    ],
)
def test_every_reference_agent_must_solve_it(agents, verdict, reason):
    """Rule solvable: pass@k > 0 for all; one that fails always settles it, and missing trials settle nothing."""
    found = judge_task(task("desk"), agents)
    assert (found.verdict, found.reason, found.is_chosen) == (verdict, reason, verdict == "chosen")


@pytest.mark.parametrize(
    ("agents", "verdict", "reason"),
    [
        ([value(progress=0.2, successes=0), value("b", progress=0.8)], "chosen", ""),
        ([value(progress=0.2), value("b", progress=0.79)], "not_chosen", "mean progress 49.5 %, below 50 %"),
        ([value(progress=1 / 3), value("b", progress=2 / 3)], "chosen", ""),
        ([value(progress=1.0), value("b", trials=0)], "unknown", "no valid full trials of b"),
        ([value(progress=1.0, trials=1)], "unknown", "too few trials of a (1 of 3)"),
        ([value(progress=None)], "unknown", "a trial has no points to reach"),
    ],
)
def test_the_mean_progress_must_reach_half(agents, verdict, reason):
    """Rule progress: the mean over reference agents, each weighing the same, at least 50 %; success does not matter."""
    found = judge_task(task("tac"), agents)
    assert (found.verdict, found.reason) == (verdict, reason)


@pytest.mark.parametrize(
    ("benchmark", "count", "verdict"),
    [
        ("swebench_pro", 2, "not_chosen"),
        ("swebench_pro", 3, "chosen"),
        ("mcp_atlas", 1, "chosen"),
    ],
)
def test_swebench_pro_needs_three_tests(benchmark, count, verdict):
    """Fewer than three fail-to-pass tests settle it, whatever the agents did; other benchmarks ask for none."""
    found = judge_task(task(benchmark, count), [value()])
    assert found.verdict == verdict
    without = judge_task(task(benchmark, count), [])
    assert without.verdict == ("not_chosen" if verdict == "not_chosen" else "unknown")
    if verdict == "not_chosen":
        assert found.reason == "it has 2 checkpoints, and swebench_pro needs 3"


@needs("published")
def test_the_published_run_has_416_tasks_with_three_tests():
    """Of the 730 instances of the largest published run with 250 turns, 416 have more than two fail-to-pass tests."""
    folder = REAL / "swebenchpro"
    with gzip.open(folder / "instance_tests.jsonl.gz", "rt", encoding="utf-8") as lines:
        tests = {each["instance_id"]: len(set(each["fail_to_pass"])) for each in map(json.loads, lines)}
    run = json.loads((folder / "eval_results/claude-45sonnet-10132025/eval_results.json").read_text(encoding="utf-8"))
    verdicts = [judge_task(task("swebench_pro", tests[name]), [value(successes=3)]).is_chosen for name in run]
    assert (len(verdicts), sum(verdicts)) == (730, 416)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store with the full trials of two agents on some tasks."""
    written = Written(trials=3)
    for task_id in ("solved", "failed", "short", "never_tried", "broken"):
        written.task(task_id, (1, 1))
    for agent in ("a", "b"):
        for index in range(3):
            written.trial("solved", "full", index, agent=agent, scores=(1, index == 0))
            written.trial("failed", "full", index, agent=agent, scores=(1, agent == "a"))
            written.trial("broken", "full", index, agent=agent, ends="failed")
    for index in range(2):
        written.trial("short", "full", index, agent="a", scores=(1, 1))
    written.trial("never_tried", "full_ask_user", 0, agent="a", scores=(1, 1))
    written.trial("failed", "full", 0, agent="c", scores=(1, 1), role="classifier")
    folder = tmp_path_factory.mktemp("competence")
    return to_disk(folder / "s", written)


def registered(root):
    """The tasks of a store, by id."""
    tasks = load_generation_index(read_snapshot(root)).tasks.values()
    return sorted(tasks, key=lambda each: each.task_id)


def verdicts(found):
    """Verdict and reason by task."""
    return {each.task_id: (each.verdict, each.reason) for each in found}


def test_the_trials_of_a_store_decide(root):
    """Failed attempts, other conditions and classifying trials are no trials; every registered task has a verdict."""
    found = competent_tasks(root, "desk", registered(root))
    assert verdicts(found) == {
        "broken": ("unknown", "no valid full trials"),
        "failed": ("not_chosen", "not solved by b (0 of 3)"),
        "never_tried": ("unknown", "no valid full trials"),
        "short": ("unknown", "no valid full trials of b"),
        "solved": ("chosen", ""),
    }


@pytest.mark.thorough
def test_reference_agents_and_trials_can_be_named(root):
    """By agent a alone two trials may be enough; an unknown agent is unknown."""
    by_a = verdicts(competent_tasks(root, "desk", registered(root), reference_agents=["a"], trials=2))
    assert {name for name, (verdict, _) in by_a.items() if verdict == "chosen"} == {"failed", "short", "solved"}
    of_nobody = competent_tasks(root, "desk", registered(root), reference_agents=["a", "nobody"])
    assert verdicts(of_nobody)["solved"] == ("unknown", "no valid full trials of nobody")


@pytest.mark.thorough
def test_tasks_of_another_version_are_unknown(root):
    """A task that has changed since, or that the store never saw, has no trials that tell anything."""
    written = Written()
    same = written.task("solved", (1, 1))
    changed = written.task("failed", (1, 1, 1))
    unseen = written.task("unseen")
    assert verdicts(competent_tasks(root, "desk", [same, changed, unseen])) == {
        "solved": ("chosen", ""),
        "failed": ("unknown", "its trials belong to another version of the task"),
        "unseen": ("unknown", "no valid full trials"),
    }
