"""What is told of a study: its tasks, its variants, and what happened in each of its trials."""

from typing import NamedTuple

import msgspec

from lhaw_record.recorder.events.values import Checkpoint, Segment, Severity, Task, Variant

TRIALS = 3
Budget = tuple[str, Task | Variant, int]
"""An agent, the unit, and how many actions its full trials have."""


class Agent(NamedTuple):
    """What stands behind the name of an agent that is more than its model."""

    model: str
    strategy: str = "none"
    persona: str = "none"


class Told(NamedTuple):
    """What is told of one trial.

    ``score`` is that of its one checkpoint, of 1 point. ``asks`` are the places of its questions among its actions,
    ``strays`` how many of its first actions are in no full trial. ``injected_after`` is the action after which the
    message went in, None where the trial ended before. ``flags`` are those that a judge raised, None if none saw it.
    """

    agent: str
    unit: Task | Variant
    condition: str
    index: int
    score: float
    is_success: bool
    actions: int = 1
    asks: tuple[int, ...] = ()
    strays: int = 0
    budget: int | None = None
    injected_after: int | None = None
    flags: frozenset[str] | None = None
    role: str = "evaluated"


class Tale(msgspec.Struct, frozen=True):
    """Everything that one store holds.

    ``scope`` says whose full trials are shared. ``agents`` are those whose name is not that of a plain model.
    ``new_tasks`` are agents and variants of which a judge says that all trials solved another task.
    """

    name: str
    scope: str
    tasks: list[Task] = []
    variants: list[Variant] = []
    trials: list[Told] = []
    budgets: list[Budget] = []
    agents: dict[str, Agent] = {}
    new_tasks: list[tuple[str, Variant]] = []


def task(benchmark: str, number: int, domain: str | None = None) -> Task:
    """Return a task with one checkpoint of one point."""
    return Task(
        benchmark=benchmark,
        benchmark_version="1",
        task_id=f"{benchmark}-{number:03d}",
        prompt=f"task {number}",
        checkpoints=(Checkpoint(checkpoint_id="c1", label="all of it"),),
        environment_digest="0",
        domain=domain,
    )


def variant(
    task: Task,
    number: int,
    dimensions: tuple[str, ...],
    ambiguity_class: str | None = None,
    severity: Severity | None = None,
) -> Variant:
    """Return a variant of a task, with a label if one is given, one removed segment per dimension named."""
    segments = tuple(
        Segment(segment_id=f"S{place}", value=f"value {place}", dimension=dimension, subdimension="any")  # type: ignore[arg-type]
        for place, dimension in enumerate(dimensions, 1)
    )
    return Variant(
        benchmark=task.benchmark,
        task_id=task.task_id,
        variant_id=f"{task.benchmark}-v{number:03d}",
        prompt=f"variant {number}",
        segments=segments,
        origin="imported",
        severity=severity,
        ambiguity_class=ambiguity_class,
        classified_by="the authors" if ambiguity_class else None,
    )


def asking_first(
    agent: str,
    unit: Task | Variant,
    condition: str,
    index: int,
    score: float,
    is_success: bool,
    n_asks: int = 0,
    flags: frozenset[str] | None = None,
) -> Told:
    """Return a trial that asks its questions, if any, and then submits."""
    asks = tuple(range(1, n_asks + 1))
    return Told(agent, unit, condition, index, round(score, 9), is_success, n_asks + 1, asks, flags=flags)


def name_of(unit: Task | Variant) -> str:
    """Return the id of a task or a variant."""
    return unit.variant_id if isinstance(unit, Variant) else unit.task_id
