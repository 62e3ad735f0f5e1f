"""Dealing: a fixed number of sessions over tasks and their variants, evenly and by a seed.

Where an experiment wants N sessions of every agent instead of so many trials of every cell, each task gets N divided
by the tasks, some of them one more, and within a task its variants take turns. Every agent gets the same deal.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from recorder.canonical import digest
from recorder.values import Task, Variant

Dealt = tuple[Task, Variant | None, int]
"""A task, the variant or None, and the trial's index among those of the same variant."""


def deal(cells: Sequence[tuple[Task, Variant | None]], sessions: int, seed: int) -> Iterator[Dealt]:
    """Yield every session.

    Args:
        cells: Tasks with their variants, or with None for the full prompt.
        sessions: How many there shall be.
        seed: Another seed gives the tasks and variants another order.
    """
    hands: dict[str, list[tuple[Task, Variant | None]]] = {}
    for task, variant in sorted(cells, key=lambda cell: _rank(seed, *cell)):
        hands.setdefault(task.task_id, []).append((task, variant))
    turns = list(hands.values())
    dealt = Counter[tuple[str, str]]()
    for session in range(sessions if turns else 0):
        hand = turns[session % len(turns)]
        task, variant = hand[session // len(turns) % len(hand)]
        key = task.task_id, variant.variant_id if variant else ""
        yield task, variant, dealt[key]
        dealt[key] += 1


def _rank(seed: int, task: Task, variant: Variant | None) -> tuple[str, str]:
    return digest([seed, task.task_id]), digest([seed, variant.variant_id if variant else ""])
