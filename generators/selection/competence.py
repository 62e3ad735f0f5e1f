"""Decides which tasks are within reach of the reference agents, so that later losses are due to removed information.

There are two rules. ``solvable``: pass@k > 0 for every reference agent (SWE-bench Pro, MCP-Atlas and desk, whose full
scores are common). ``progress``: the mean checkpoint progress, averaged over the reference agents, reaches a threshold
(TheAgentCompany, whose full successes are rare). A task of SWE-bench Pro also needs at least three checkpoints (its
fail-to-pass tests), because fewer cannot show divergence. Source: LHAW 3.1 and 3.6; docs/metrics.md 2 and 6.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec

from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.recorder.events.values import Task

_BY_PROGRESS = frozenset({"tac"})
"""The benchmarks whose tasks are chosen by progress. For the others they must be solvable."""
_LEAST_CHECKPOINTS = {"swebench_pro": 3}
"""The fewest checkpoints that a task needs, by benchmark. Tasks of other benchmarks need none."""
TRIALS = 3
_MIN_PROGRESS_PCT = 50.0

_TRIED = """
    select task_id, arg_max(task_digest, (coalesce(started_at_us, 0), trial_id)) as task_digest
    from trials
    where benchmark = $benchmark and ($experiment is null or experiment_id = $experiment)
    group by task_id
"""
_VALUES = """
    select task_id, agent, n_trials, n_success, checkpoint_progress
    from pass_at_k
    where benchmark = $benchmark and unit_kind = 'task' and condition = 'full'
    order by task_id, agent
"""


class AgentValue(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one reference agent's valid ``full`` trials on one task. Undefined progress is None."""

    agent: str
    n_trials: int = 0
    n_success: int = 0
    checkpoint_progress: float | None = None


class TaskCompetence(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one task (``unknown`` if the trials do not decide it), and why the task is not chosen."""

    task_id: str
    verdict: Literal["chosen", "not_chosen", "unknown"]
    reason: str = ""

    @property
    def is_chosen(self) -> bool:
        return self.verdict == "chosen"


def competent_tasks(
    store: Path,
    benchmark: str,
    tasks: Sequence[Task],
    *,
    reference_agents: Sequence[str] = (),
    trials: int = TRIALS,
    experiment: str | None = None,
) -> list[TaskCompetence]:
    """Judge each task by what the reference agents, by default all agents, achieve on it."""
    asked = {"benchmark": benchmark}
    parameters = {"k": trials, "experiment": experiment}
    with open_store(store, parameters=parameters, only={"trials", "pass_at_k"}) as connection:
        tried = rows_of(connection, _TRIED, asked | {"experiment": experiment})
        rows = rows_of(connection, _VALUES, asked)
    digests = {row["task_id"]: row["task_digest"] for row in tried}
    agents = tuple(reference_agents) or tuple(sorted({row["agent"] for row in rows}))
    values = {(row.pop("task_id"), row["agent"]): AgentValue(**row) for row in rows}
    found = []
    for task in tasks:
        is_same = digests.get(task.task_id, task.task_digest) == task.task_digest
        known = [
            values.get((task.task_id, agent), AgentValue(agent=agent)) if is_same else AgentValue(agent=agent)
            for agent in agents
        ]
        found.append(judge_task(task, known, trials=trials, is_of_another_version=not is_same))
    return found


def judge_task(
    task: Task, agents: Sequence[AgentValue], *, trials: int = TRIALS, is_of_another_version: bool = False
) -> TaskCompetence:
    """Judge one task by the values of the reference agents.

    Where tasks must be solvable, one agent that failed in all its trials rules the task out; otherwise every agent must
    have enough valid trials. Missing trials never count as failures. A task with too few checkpoints is ruled out
    whatever the trials show.
    """
    count, least = len(task.checkpoints), _LEAST_CHECKPOINTS.get(task.benchmark, 0)
    by_progress = task.benchmark in _BY_PROGRESS
    failed = [each for each in agents if each.n_trials >= trials and each.n_success == 0]
    if count < least:
        reason = f"it has {count} checkpoints, and {task.benchmark} needs {least}"
        return TaskCompetence(task_id=task.task_id, verdict="not_chosen", reason=reason)
    if failed and not by_progress:
        reason = f"not solved by {', '.join(f'{agent.agent} (0 of {agent.n_trials})' for agent in failed)}"
        return TaskCompetence(task_id=task.task_id, verdict="not_chosen", reason=reason)
    missing = _missing(agents, trials, is_of_another_version=is_of_another_version)
    means = [each.checkpoint_progress for each in agents if each.checkpoint_progress is not None]
    if by_progress and not missing and len(means) < len(agents):
        missing = "a trial has no points to reach"
    if missing:
        return TaskCompetence(task_id=task.task_id, verdict="unknown", reason=missing)
    if by_progress and (progress_pct := round(100 * sum(means) / len(means), 6)) < _MIN_PROGRESS_PCT:
        reason = f"mean progress {progress_pct:g} %, below {_MIN_PROGRESS_PCT:g} %"
        return TaskCompetence(task_id=task.task_id, verdict="not_chosen", reason=reason)
    return TaskCompetence(task_id=task.task_id, verdict="chosen")


def _missing(agents: Sequence[AgentValue], trials: int, *, is_of_another_version: bool) -> str:
    """Describe which trials are missing for a verdict. The text is empty if none are missing."""
    if is_of_another_version:
        return "its trials belong to another version of the task"
    if not any(agent.n_trials for agent in agents):
        return "no valid full trials"
    without = [agent.agent for agent in agents if not agent.n_trials]
    if without:
        return f"no valid full trials of {', '.join(without)}"
    few = [f"{agent.agent} ({agent.n_trials} of {trials})" for agent in agents if agent.n_trials < trials]
    return f"too few trials of {', '.join(few)}" if few else ""
