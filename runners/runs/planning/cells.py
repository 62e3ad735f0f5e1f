"""The cells of an experiment, and the trials or sessions of each cell.

A cell is a task with its full prompt, or a task with one of its variants. Normally, each cell is run as often as the
file says. Instead, an experiment may want N sessions of every agent under every condition. Then each task gets N
divided by the number of tasks, some of them one more, and within a task its variants take turns. Every agent gets the
same sessions.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Task, Variant, prompt_state_and_channel
from lhaw_record.runners.experiment.tables import Experiment

Cell = tuple[Task, Variant | None]
"""A task and one of its variants, or None for the full prompt."""
Session = tuple[Task, Variant | None, int]
"""A task, its variant or None, and the index of the trial within this cell."""


def sessions_of(
    experiment: Experiment, condition: str, tasks: Mapping[str, Task], variants: Mapping[str, Variant]
) -> Iterator[Session]:
    """Yield what to run under a condition: every cell as often as the file says, or the sessions of the cells."""
    cells = list(_cells(condition, experiment.oracle_scope, tasks, variants))
    if experiment.sessions is not None:
        yield from assign_sessions(cells, experiment.sessions, experiment.deal_seed)
        return
    yield from ((task, variant, index) for task, variant in cells for index in range(experiment.trials))


def _cells(condition: str, scope: str, tasks: Mapping[str, Task], variants: Mapping[str, Variant]) -> Iterator[Cell]:
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


def assign_sessions(cells: Sequence[Cell], sessions: int, seed: int) -> Iterator[Session]:
    """Spread sessions evenly over the tasks, in an order that depends on the seed."""
    by_task: dict[str, list[Cell]] = {}
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
