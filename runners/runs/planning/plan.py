"""The plan: every trial that an experiment file describes, and the action budgets that the store has for them.

Each task with its full prompt, and each variant, is run as often as the file says. If the experiment wants N sessions
of every agent under every condition instead, each task gets N divided by the number of tasks, some of them one more,
and within a task its variants take turns. Every agent gets the same sessions.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from lhaw_record.recorder.events import OracleBudgetSet
from lhaw_record.recorder.events.canonical_json import digest, short_digest
from lhaw_record.recorder.events.values import Task, Variant, prompt_state_and_channel
from lhaw_record.recorder.reading.trial_index import FinishedTrial, TrialIndex
from lhaw_record.runners.agents.planned_trial import BudgetUnit, PlannedTrial, TrialKey
from lhaw_record.runners.base.conversation.injection import oracle_budget
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.text.fields import listed
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import AgentSpec, Experiment
from lhaw_record.runners.users.ask_user.prose import prose_identity

T = TypeVar("T")
PromptCell = tuple[Task, Variant | None]
"""A task and one of its variants, or None for the full prompt."""
Session = tuple[Task, Variant | None, int]
"""A task, its variant or None, and the index of the trial within this cell."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All planned trials, in the order in which they should run."""

    trials: tuple[PlannedTrial, ...]

    def oracle_trials(self) -> Mapping[BudgetUnit, tuple[PlannedTrial, ...]]:
        """Return the planned ``full`` trials of every unit. They determine the unit's action budget."""
        found: dict[BudgetUnit, list[PlannedTrial]] = {}
        for trial in self.trials:
            if trial.condition == "full":
                found.setdefault(trial.unit, []).append(trial)
        return {unit: tuple(trials) for unit, trials in found.items()}


def make_plan(
    experiment: Experiment,
    benchmark: Benchmark,
    prompts: Prompts,
    simulator: str,
    offered: Sequence[Variant] | None = None,
) -> Plan:
    tasks = chosen_tasks(benchmark, experiment.benchmark.tasks)
    every = benchmark.variants() if offered is None else offered
    known = {variant.variant_id: variant for variant in every if variant.task_id in tasks}
    variants = _chosen("benchmark.variants", experiment.benchmark.variants, known, benchmark)
    chosen = experiment.benchmark
    if (chosen.variants is not None or chosen.variants_from is not None) and chosen.tasks is None:
        used = {variant.task_id for variant in variants.values()}
        tasks = {task_id: task for task_id, task in tasks.items() if task_id in used}
    trials = [
        trial
        for agent in experiment.agents
        for condition in (agent.conditions or experiment.conditions)
        for trial in _trials_of(experiment, benchmark, prompts, simulator, agent, condition, tasks, variants)
    ]
    _check_replays(trials)
    _check_follow_ups(trials, benchmark)
    doubled = [trial for trial, count in Counter(trial.trial_id for trial in trials).items() if count > 1]
    if doubled:
        names = sorted({trial.agent.name for trial in trials if trial.trial_id == doubled[0]})
        raise ExperimentError(f"agents {' and '.join(names)} do not differ in anything that is measured; remove one")
    if not trials:
        raise ExperimentError("no trials are planned; check benchmark.tasks, benchmark.variants and conditions")
    _check_mcp_tools(trials, benchmark)
    return Plan(trials=_in_run_order(trials, [*tasks], [*variants]))


def left_out_of(plan: Plan, experiment: Experiment, benchmark: Benchmark) -> dict[str, str]:
    """Return why tasks are missing in a plan, or in its conditions with variants, unless the file itself chooses."""
    chosen = experiment.benchmark
    if chosen.tasks or chosen.variants or chosen.variants_from or chosen.design:
        return {}
    found = {task_id: benchmark.why_not(task_id) or "it cannot run" for task_id in benchmark.left_out()}
    with_variant = {trial.task.task_id for trial in plan.trials if trial.variant}
    wanted = {each for agent in experiment.agents for each in agent.conditions or experiment.conditions}
    if with_variant or wanted - {trial.condition for trial in plan.trials}:
        found |= {each.task_id: "it has no variant" for each in benchmark.tasks() if each.task_id not in with_variant}
    return found


def refuse_left_out(plan: Plan, experiment: Experiment, benchmark: Benchmark) -> None:
    """Refuse a plan without some of the benchmark's tasks, unless the file allows it."""
    found = {} if experiment.benchmark.allow_left_out else left_out_of(plan, experiment, benchmark)
    if found:
        shown = "; ".join([f"{task_id}: {reason}" for task_id, reason in found.items()][:3])
        raise ExperimentError(
            f"key 'benchmark.allow_left_out': {len(found)} tasks would be left out (such as {shown}); correct them "
            "(how a task gets variants: docs/own-tasks.md), choose others with benchmark.tasks, or set the key to "
            "true: then every table says so"
        )


def budgets_of(plan: Plan, index: TrialIndex) -> dict[BudgetUnit, int]:
    """Return the action budget of every unit that has one, from the recorded ``oracle_budget_set`` events.

    A budget counts only if its trials are in the plan, because a changed task is measured anew. If two hosts record a
    budget for the same unit at the same time, the first one counts.
    """
    oracles = {unit: {trial.trial_id for trial in trials} for unit, trials in plan.oracle_trials().items()}
    found: dict[BudgetUnit, int] = {}
    for event in index.budgets:
        unit = BudgetUnit(event.agent_digest, event.scope, event.unit_id)
        if set(event.trial_ids) <= oracles.get(unit, set()):
            found.setdefault(unit, event.budget_actions)
    return found


def settle_budget(
    unit: BudgetUnit,
    oracles: Sequence[PlannedTrial],
    finished: Mapping[str, FinishedTrial],
    min_oracle_trials: int | None,
) -> OracleBudgetSet | None:
    """Compute the action budget of a unit. Return None if its ``full`` trials do not allow one yet.

    All planned ``full`` trials must be valid, or ``min_oracle_trials`` of them if the file sets that.
    """
    valid = [trial for trial in oracles if trial.trial_id in finished]
    if not valid or len(valid) < (len(oracles) if min_oracle_trials is None else min_oracle_trials):
        return None
    counts = [count for trial in valid if (count := finished[trial.trial_id].action_count) is not None]
    assert len(counts) == len(valid), "a trial that was recorded here has its action count"
    return OracleBudgetSet(
        agent=valid[0].agent.name,
        agent_digest=unit.agent_digest,
        benchmark=valid[0].key.benchmark,
        scope=unit.scope,
        unit_id=unit.unit_id,
        budget_actions=oracle_budget(counts),
        trial_ids=tuple(trial.trial_id for trial in valid),
        action_counts=tuple(counts),
    )


def agent_digest(agent: AgentSpec) -> str:
    """Return the digest of an agent: its model, parameters, strategy and persona, without its name or address.

    A program sets its own parameters. Its digest therefore leaves out our defaults, and covers its command and version,
    and the routing table of its models.
    """
    if agent.external is not None:
        routes = [[pattern, spec.model, spec.given_parameters] for pattern, spec in agent.routed.items()]
        program = agent.external.identity()
        return digest([agent.model, agent.given_parameters, agent.strategy, agent.persona, program, routes])
    medium = ["prose"] if agent.medium == "prose" else []
    return digest([agent.model, agent.generation_parameters, agent.strategy, agent.persona, *medium])


def chosen_tasks(benchmark: Benchmark, names: tuple[str, ...] | None) -> dict[str, Task]:
    """Return the tasks that an experiment names, by id. If it names none, return all tasks of the benchmark."""
    return _chosen("benchmark.tasks", names, {task.task_id: task for task in benchmark.tasks()}, benchmark)


def _chosen(key: str, names: tuple[str, ...] | None, known: Mapping[str, T], benchmark: Benchmark) -> dict[str, T]:
    unknown = [name for name in names or () if name not in known]
    if unknown:
        reason = benchmark.why_not(unknown[0]) if key.endswith("tasks") else None
        remedy = reason or f"there are: {', '.join(list(known)[:12])}"
        raise ExperimentError(f"key '{key}': {unknown[0]!r} is not there; {remedy}")
    return {name: known[name] for name in (known if names is None else names)}


def _trials_of(
    experiment: Experiment,
    benchmark: Benchmark,
    prompts: Prompts,
    simulator: str,
    agent: AgentSpec,
    condition: str,
    tasks: Mapping[str, Task],
    variants: Mapping[str, Variant],
) -> Iterator[PlannedTrial]:
    """Yield the trials of one agent under one condition: every cell with all of its trial indices."""
    prompt_state, channel = prompt_state_and_channel(condition)
    identity, response = agent_digest(agent), experiment.response_of(condition)
    if agent.medium == "prose":
        simulator = f"{simulator}-{prose_identity(experiment)}"
    common: dict[str, Any] = {
        "experiment": experiment.name,
        "benchmark": benchmark.name,
        "benchmark_version": benchmark.version,
        "prompt_state": prompt_state,
        "channel": channel,
        "agent_digest": identity,
        "prompts_digest": prompts.prompts_digest(agent, channel),
        "user_simulator": simulator if channel == "ask_user" else None,
        "grader": benchmark.grader,
        "limits": _measured_limits(experiment),
        "oracle_scope": experiment.oracle_scope,
        "response_digest": None if response is None else digest([response, prompts.responses.source]),
    }
    for task, variant, trial_index in sessions_of(experiment, condition, tasks, variants):
        key = TrialKey(
            **common,
            task_digest=task.task_digest,
            variant_digest=variant.variant_digest if variant else None,
            trial_index=trial_index,
            seed=experiment.seed_of(trial_index),
        )
        unit_id = variant.variant_id if variant and experiment.oracle_scope == "variant" else task.task_id
        yield PlannedTrial(
            trial_id=short_digest(key),
            key=key,
            agent=agent,
            task=task,
            variant=variant,
            condition=condition,
            trial_index=trial_index,
            seed=key.seed,
            unit=BudgetUnit(identity, experiment.oracle_scope, unit_id),
            response=response,
        )


def _check_replays(trials: Sequence[PlannedTrial]) -> None:
    """Refuse ``scripted/replay``, which knows every value, under conditions that remove information."""
    for trial in trials:
        if trial.agent.model == "scripted/replay" and trial.condition != "full":
            raise ExperimentError(
                f"agent {trial.agent.name}: scripted/replay has every value, so it runs only under full; use "
                f"scripted/replay_masked for {trial.condition}"
            )


def _check_follow_ups(trials: Sequence[PlannedTrial], benchmark: Benchmark) -> None:
    """Refuse variants with a follow-up for programs that forget all when they hand in, and steps for leases."""
    for trial in trials:
        program = trial.agent.external
        if program is not None and program.leased and benchmark.has_steps(trial.task.task_id):
            raise ExperimentError(
                f"agent {trial.agent.name}: a leased agent gets one prompt, not the later steps of "
                f"{trial.task.task_id}; choose other tasks with 'benchmark.tasks', or another agent"
            )
        is_over = program is not None and not program.goes_on
        if is_over and trial.shown_variant is not None and trial.shown_variant.follow_up:
            raise ExperimentError(
                f"agent {trial.agent.name}: a program ends when it submits, so it cannot get the follow-up of "
                f"{trial.shown_variant.variant_id}; set 'resume' in its entry, choose other variants with "
                f"'benchmark.variants', or give the agent its own 'conditions'"
            )


def _check_mcp_tools(trials: Sequence[PlannedTrial], benchmark: Benchmark) -> None:
    """Refuse a program that calls no tools over MCP on tasks that offer some."""
    deaf = [each for each in trials if each.agent.external and not each.agent.external.takes_mcp]
    tasks = sorted({each.task.task_id for each in deaf if benchmark.has_mcp_tools(each.task.task_id)})
    if tasks:
        others = "" if benchmark.tools_over_mcp == "all" else ", or other tasks in benchmark.tasks"
        raise ExperimentError(
            f"{benchmark.name} offers tools over MCP in {listed(tasks)}, but {deaf[0].agent.name} uses none "
            f'(its entry says asks_by = "none"); use a program with MCP{others}'
        )


def _measured_limits(experiment: Experiment) -> dict[str, float]:
    """Return the limits that are set and can change what an agent achieves.

    A tool server beyond its own limits makes missing data, and the turns of a user in prose are part of the user.
    """
    limits, others = (
        msgspec.structs.asdict(experiment.limits),
        ("max_user_turns", "tool_start_seconds", "tool_message_mb"),
    )
    return {name: limit for name, limit in limits.items() if limit is not None and name not in others}


def _in_run_order(
    trials: Sequence[PlannedTrial], tasks: Sequence[str], variants: Sequence[str]
) -> tuple[PlannedTrial, ...]:
    """Order trials by index, so that cells fill evenly, and within an index by task and variant.

    So the conditions of a variant run beside each other: what changes meanwhile at a provider changes all of them. The
    ``full`` trials come first only where injected trials wait for them.
    """
    has_injections = any(trial.needs_budget for trial in trials)
    task_positions, variant_positions = (
        {name: position for position, name in enumerate(names)} for names in (tasks, variants)
    )

    def key(trial: PlannedTrial) -> tuple[bool, int, int, int]:
        variant = -1 if trial.variant is None else variant_positions[trial.variant.variant_id]
        is_late = has_injections and trial.condition != "full"
        return is_late, trial.trial_index, task_positions[trial.task.task_id], variant

    return tuple(sorted(trials, key=key))


def sessions_of(
    experiment: Experiment, condition: str, tasks: Mapping[str, Task], variants: Mapping[str, Variant]
) -> Iterator[Session]:
    """Yield what to run under a condition: every cell as often as the file says, or the sessions of the cells."""
    cells = list(_cells(condition, experiment.oracle_scope, tasks, variants))
    if experiment.sessions is not None:
        yield from assign_sessions(cells, experiment.sessions, experiment.deal_seed)
        return
    yield from ((task, variant, index) for task, variant in cells for index in range(experiment.trials))


def _cells(
    condition: str, scope: str, tasks: Mapping[str, Task], variants: Mapping[str, Variant]
) -> Iterator[PromptCell]:
    """Yield the cells of a condition: tasks with the full prompt, or variants.

    Controls and faulty requests occur only under their own conditions.
    """
    if condition == "full_ask_user" or (condition == "full" and scope == "task"):
        yield from ((task, None) for task in tasks.values())
        return
    state, _ = prompt_state_and_channel(condition)
    for variant in variants.values():
        if variant.prompt_state == ("underspecified" if state == "full" else state):
            yield tasks[variant.task_id], variant


def assign_sessions(cells: Sequence[PromptCell], sessions: int, seed: int) -> Iterator[Session]:
    """Spread sessions evenly over the tasks, in an order that depends on the seed."""
    by_task: dict[str, list[PromptCell]] = {}
    for task, variant in sorted(cells, key=lambda cell: _rank(seed, *cell)):
        by_task.setdefault(task.task_id, []).append((task, variant))
    tasks = list(by_task.values())
    counts = Counter[tuple[str, str]]()
    for session in range(sessions if tasks else 0):
        own = tasks[session % len(tasks)]
        task, variant = own[session // len(tasks) % len(own)]
        key = task.task_id, variant.variant_id if variant else ""
        yield task, variant, counts[key]
        counts[key] += 1


def _rank(seed: int, task: Task, variant: Variant | None) -> tuple[str, str]:
    return digest([seed, task.task_id]), digest([seed, variant.variant_id if variant else ""])
