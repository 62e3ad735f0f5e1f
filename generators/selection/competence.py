"""Decides which tasks are within reach of the reference agents, so that later losses are due to removed information.

There are two rules. ``solvable``: pass@k > 0 for every reference agent (SWE-bench Pro, MCP-Atlas and desk, whose full
scores are common). ``progress``: the mean checkpoint progress, averaged over the reference agents, reaches a threshold
(TheAgentCompany, whose full successes are rare). A task of SWE-bench Pro also needs at least three checkpoints (its
fail-to-pass tests), because fewer cannot show divergence. Source: LHAW 3.1 and 3.6; docs/metrics.md 2 and 6.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import msgspec

from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.recorder.events.values import Task

Rule = Literal["solvable", "progress"]
RULES: Mapping[str, Rule] = {"tac": "progress"}
"""The rule for each benchmark. Benchmarks that are not listed use ``solvable``."""
LEAST_CHECKPOINTS: Mapping[str, int] = {"swebench_pro": 3}
"""The fewest checkpoints that a task needs, by benchmark. Tasks of other benchmarks need none."""
TRIALS = 3
MIN_PROGRESS_PCT = 50.0

_TASKS = """
    select task_id, task_digest, checkpoint_count
    from tasks
    where benchmark = $benchmark and is_latest
    order by task_id
"""
_TRIED = """
    select task_id, arg_max(task_digest, (started_at_us, trial_id)) as task_digest
    from trials
    where benchmark = $benchmark and ($experiment is null or experiment_id = $experiment)
    group by task_id
"""
_VALUES = """
    select task_id, agent, n_trials, n_success, pass_at_k, checkpoint_progress
    from pass_at_k
    where benchmark = $benchmark and unit_kind = 'task' and condition = 'full'
    order by task_id, agent
"""


class AgentValue(msgspec.Struct, frozen=True, kw_only=True):
    """The results of one reference agent's valid ``full`` trials on one task. Undefined values are None."""

    agent: str
    n_trials: int = 0
    n_success: int = 0
    pass_at_k: float | None = None
    checkpoint_progress: float | None = None


class TaskCompetence(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on one task, and the reason if the task is not chosen.

    The verdict is ``unknown`` if the trials do not decide it. ``progress_pct`` is the mean checkpoint progress (0 to
    100) over the reference agents; it is None unless every agent has a value.
    """

    benchmark: str
    task_id: str
    verdict: Literal["chosen", "not_chosen", "unknown"]
    reason: str
    agents: tuple[AgentValue, ...]
    progress_pct: float | None = None

    @property
    def is_chosen(self) -> bool:
        """Whether to make variants of the task."""
        return self.verdict == "chosen"


def competent_tasks(
    store: Path,
    benchmark: str,
    *,
    tasks: Sequence[Task] | None = None,
    reference_agents: Sequence[str] = (),
    rule: Rule | None = None,
    trials: int = TRIALS,
    min_progress_pct: float = MIN_PROGRESS_PCT,
    experiment: str | None = None,
) -> list[TaskCompetence]:
    """Judge each task by whether the reference agents can do it."""
    asked = {"benchmark": benchmark}
    with open_store(
        store,
        parameters={"k": trials, "experiment": experiment},
        only={"tasks", "trials", "pass_at_k"},
    ) as connection:
        known = rows_of(connection, _TASKS, asked)
        tried = {
            row["task_id"]: row["task_digest"]
            for row in rows_of(connection, _TRIED, asked | {"experiment": experiment})
        }
        rows = rows_of(connection, _VALUES, asked)
    wanted = {row["task_id"]: row["task_digest"] for row in known}
    counts = {row["task_id"]: row["checkpoint_count"] for row in known}
    if tasks is not None:
        wanted = {task.task_id: task.task_digest for task in tasks}
        counts = {task.task_id: len(task.checkpoints) for task in tasks}
    found: dict[str, dict[str, AgentValue]] = {task_id: {} for task_id in wanted}
    for row in rows:
        if row["task_id"] in wanted and tried[row["task_id"]] == wanted[row["task_id"]]:
            value = AgentValue(**{name: row[name] for name in AgentValue.__struct_fields__})
            found[row["task_id"]][value.agent] = value
    agents = tuple(reference_agents) or tuple(sorted({row["agent"] for row in rows}))
    return [
        judge_task(
            benchmark,
            task_id,
            [found[task_id].get(agent, AgentValue(agent=agent)) for agent in agents],
            rule=rule or RULES.get(benchmark, "solvable"),
            trials=trials,
            min_progress_pct=min_progress_pct,
            is_of_another_version=tried.get(task_id, digest) != digest,
            n_checkpoints=counts[task_id],
        )
        for task_id, digest in wanted.items()
    ]


def judge_task(
    benchmark: str,
    task_id: str,
    agents: Sequence[AgentValue],
    *,
    rule: Rule,
    trials: int = TRIALS,
    min_progress_pct: float = MIN_PROGRESS_PCT,
    is_of_another_version: bool = False,
    n_checkpoints: int | None = None,
) -> TaskCompetence:
    """Judge one task by the values of the reference agents.

    Under ``solvable``, one agent that failed in all its trials rules the task out; otherwise every agent must have
    enough valid trials. Missing trials never count as failures. A task with too few checkpoints is ruled out whatever
    the trials show.
    """
    least = LEAST_CHECKPOINTS.get(benchmark, 1)
    means = [agent.checkpoint_progress for agent in agents if agent.n_trials >= trials]
    known = [mean for mean in means if mean is not None]
    progress_pct = round(100 * sum(known) / len(known), 6) if known and len(known) == len(agents) else None
    failed = [agent for agent in agents if agent.n_trials >= trials and agent.n_success == 0]
    missing = _missing(agents, trials, is_of_another_version=is_of_another_version)
    verdict: Literal["chosen", "not_chosen", "unknown"] = "chosen"
    reason = ""
    if n_checkpoints is not None and least > 1 and n_checkpoints < least:
        verdict, reason = "not_chosen", f"it has {n_checkpoints} checkpoints, and {benchmark} needs {least}"
    elif rule == "solvable" and failed:
        verdict = "not_chosen"
        reason = f"not solved by {', '.join(f'{agent.agent} (0 of {agent.n_trials})' for agent in failed)}"
    elif missing:
        verdict, reason = "unknown", missing
    elif rule == "progress" and progress_pct is None:
        verdict, reason = "unknown", "a trial has no points to reach"
    elif rule == "progress" and progress_pct is not None and progress_pct < min_progress_pct:
        verdict, reason = "not_chosen", f"mean progress {progress_pct:g} %, below {min_progress_pct:g} %"
    return TaskCompetence(
        benchmark=benchmark,
        task_id=task_id,
        verdict=verdict,
        reason=reason,
        agents=tuple(agents),
        progress_pct=progress_pct,
    )


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
