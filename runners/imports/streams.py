"""Turns parsed trials into event streams, one for the import and one per trial, with ids derived from their content."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from lhaw_record.recorder.events import (
    AnyEvent,
    OracleBudgetSet,
    RunFinished,
    Skipped,
    TaskRegistered,
    TrialFailed,
    VariantGenerated,
)
from lhaw_record.recorder.events.canonical_json import digest, short_digest
from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.runners.base.conversation.injection import oracle_budget
from lhaw_record.runners.imports.bare_trajectory import NAMED_BY_PROMPT
from lhaw_record.runners.imports.foreign_trial import Finish, ForeignTrial, ImportFailed, KnownRecords
from lhaw_record.runners.imports.trajectory import action_count
from lhaw_record.runners.imports.trial_events import agent_digest, trial_events

Unit = tuple[str, str, str, str]
"""Benchmark, agent digest, scope, and the id of the task or variant."""


class ImportedStream(msgspec.Struct, frozen=True, kw_only=True):
    """The events of one stream. ``trial_id`` is None for the import's own stream.

    ``content`` is the digest of a trial's events, ``content_before`` the digest that the trial has in a store without
    its result.
    """

    trial_id: str | None
    events: tuple[AnyEvent, ...]
    own_id: str = ""
    content: str = ""
    content_before: str | None = None
    attempt: int = 1

    @property
    def stream_id(self) -> str:
        return self.own_id if self.trial_id is None else f"{self.trial_id}-{self.attempt}-{self.content}"


class ImportPlan(msgspec.Struct, frozen=True, kw_only=True):
    """The content of an import: the events that register tasks and variants, and a stream for each trial."""

    registrations: tuple[AnyEvent, ...]
    trials: tuple[ImportedStream, ...]
    skipped: tuple[Skipped, ...]


def assemble(
    format_name: str,
    run_id: str,
    registered: Iterable[Task | Variant],
    trials: Sequence[ForeignTrial],
    known: KnownRecords,
    terminal_states: Mapping[str, tuple[tuple[int, ...], ...]] | None = None,
) -> ImportPlan:
    """Return the streams that an import writes."""
    numbered, skipped = _numbered(_with_prompts(trials, known))
    budgets = {_budget_unit(event): event.budget_actions for event in known.budgets}
    new_budgets = _budgets(format_name, numbered, budgets)
    budgets |= {_budget_unit(event): event.budget_actions for event in new_budgets}
    streams = [_stream(format_name, run_id, trial, budgets) for trial in numbered]
    owned = (each for trial in numbered for each in (trial.task, trial.variant) if each is not None)
    return ImportPlan(
        registrations=(*_registrations((*registered, *owned), terminal_states or {}), *new_budgets),
        trials=tuple(streams),
        skipped=skipped,
    )


def closing_event(run_id: str, trials: Iterable[ImportedStream]) -> RunFinished:
    """Return the event that closes the import's own stream."""
    ends = [trial.events[-1] for trial in trials]
    failed = sum(isinstance(event, TrialFailed) for event in ends)
    return RunFinished(
        run_id=run_id,
        outcome="completed",
        trials_finished=len(ends) - failed,
        trials_failed=failed,
        trials_blocked=0,
        trials_left=0,
    )


def _with_prompts(trials: Sequence[ForeignTrial], known: KnownRecords) -> list[ForeignTrial]:
    """Fill in the full prompts of tasks from other trials or the store.

    A trial of a variant does not show the full prompt, and a different prompt would make it a different task.
    """
    tasks = (*known.tasks.values(), *(trial.task for trial in trials))
    prompts = {(task.benchmark, task.task_id): task.prompt for task in tasks if task.prompt}
    return [
        msgspec.structs.replace(trial, task=msgspec.structs.replace(trial.task, prompt=prompt))
        if not trial.task.prompt and (prompt := prompts.get((trial.task.benchmark, trial.task.task_id)))
        else trial
        for trial in trials
    ]


def _numbered(trials: Sequence[ForeignTrial]) -> tuple[list[ForeignTrial], tuple[Skipped, ...]]:
    """Give each trial an index; entries with equal content count once."""
    taken: dict[tuple[str | int | None, ...], ForeignTrial] = {}
    seen: set[str] = set()
    next_index: dict[tuple[str | int | None, ...], int] = defaultdict(int)
    repeated = 0
    for trial in trials:
        if trial.agent == "all":
            raise ImportFailed(
                f"{trial.location}: its agent is named all, which stands for all agents together in the tables; "
                "rename it with --agent"
            )
        cell = (trial.task.benchmark, trial.task.task_id, _variant_id(trial), trial.condition, agent_digest(trial))
        content = digest([cell, trial.trial_index, msgspec.structs.replace(trial, location="")])
        if content in seen:
            repeated += 1
            continue
        seen.add(content)
        is_named = trial.run_name or not NAMED_BY_PROMPT.fullmatch(trial.task.task_id)
        if not is_named and next_index[cell] > trial.first_index:
            raise ImportFailed(
                f"{trial.location} begins with the same prompt as another trajectory, and names neither task nor run: "
                "set --task NAME if they are repetitions of one task, --task '{file}' if each file is a separate task"
            )
        index = max(next_index[cell], trial.first_index) if trial.trial_index is None else trial.trial_index
        next_index[cell] = max(next_index[cell], index + 1)
        first = taken.setdefault((*cell, index), msgspec.structs.replace(trial, trial_index=index))
        if first.location != trial.location:
            raise ImportFailed(
                f"{first.location} and {trial.location} are the same trial ({trial.task.task_id}, {trial.condition}, "
                f"{trial.agent}, index {index}) with different contents; leave one out"
            )
    reason = "the same trial again, with the same content"
    return list(taken.values()), ((Skipped(kind="trials", count=repeated, reason=reason),) if repeated else ())


def _variant_id(trial: ForeignTrial) -> str | None:
    return trial.variant.variant_id if trial.variant else None


def _unit(trial: ForeignTrial) -> Unit:
    is_variant = trial.oracle_scope == "variant" and trial.variant is not None
    unit_id = _variant_id(trial) if is_variant else trial.task.task_id
    return trial.task.benchmark, agent_digest(trial), trial.oracle_scope, unit_id or ""


def _budget_unit(event: OracleBudgetSet) -> Unit:
    return event.benchmark, event.agent_digest, event.scope, event.unit_id


def _budgets(format_name: str, trials: Sequence[ForeignTrial], known: Mapping[Unit, int]) -> list[OracleBudgetSet]:
    """Return a budget for each new unit with injected trials: the rounded mean length of its valid ``full`` trials."""
    injected = {_unit(trial) for trial in trials if trial.injected is not None} - set(known)
    oracles: dict[Unit, list[ForeignTrial]] = defaultdict(list)
    for trial in trials:
        if (
            trial.condition == "full"
            and isinstance(trial.end, Finish)
            and trial.trajectory
            and _unit(trial) in injected
        ):
            oracles[_unit(trial)].append(trial)
    found = []
    for unit, used in oracles.items():
        counts = tuple(action_count(trial.trajectory or ()) for trial in used)
        benchmark, identity, scope, unit_id = unit
        found.append(
            OracleBudgetSet(
                agent=used[0].agent,
                agent_digest=identity,
                benchmark=benchmark,
                scope=scope,
                unit_id=unit_id,
                budget_actions=oracle_budget(counts),
                trial_ids=tuple(_trial_id(format_name, trial) for trial in used),
                action_counts=counts,
            )
        )
    return found


def _registrations(
    values: Iterable[Task | Variant], terminal_states: Mapping[str, tuple[tuple[int, ...], ...]]
) -> list[AnyEvent]:
    """Return the events that register tasks and variants, without repeating an equal one in a row."""
    events: list[AnyEvent] = []
    latest: dict[tuple[str, ...], Task | Variant] = {}
    for value in values:
        identity = value.variant_id if isinstance(value, Variant) else value.task_id
        key = (type(value).__name__, value.benchmark, identity)
        if latest.get(key) == value:
            continue
        latest[key] = value
        if isinstance(value, Variant):
            identity = value.variant_digest
            states = terminal_states.get(identity)
            events.append(VariantGenerated(variant=value, variant_digest=identity, terminal_states=states))
        else:
            events.append(TaskRegistered(task=value, task_digest=value.task_digest))
    return events


def _trial_id(format_name: str, trial: ForeignTrial) -> str:
    variant_digest = trial.variant.variant_digest if trial.variant else None
    keys = (trial.task.task_digest, variant_digest, trial.condition, agent_digest(trial), trial.trial_index)
    return short_digest([format_name, trial.task.benchmark, *keys])


def _stream(format_name: str, run_id: str, trial: ForeignTrial, budgets: Mapping[Unit, int]) -> ImportedStream:
    budget = budgets.get(_unit(trial)) if trial.injected else None
    started, *rest = trial_events(format_name, trial, budget)
    before = msgspec.structs.replace(trial, end=trial.end_before) if trial.end_before else None
    return ImportedStream(
        trial_id=_trial_id(format_name, trial),
        # the run id depends on the file, but another file may contain the same trial, so it is not part of the content
        events=(msgspec.structs.replace(started, run_id=run_id), *rest),
        content=_content((started, *rest)),
        content_before=_content(trial_events(format_name, before, budget)) if before else None,
    )


def _content(events: Sequence[AnyEvent]) -> str:
    return short_digest(list(events))[:12]
