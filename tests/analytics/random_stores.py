"""Random but consistent stores for the laws: two tasks, three variants, two agents, anything in every cell.

Some trials are as an import would have them: what their source does not tell is unknown.
"""

from random import Random

from lhaw_record.recorder.events.values import INJECT_PERCENTAGES
from tests.analytics.imported import SOURCES, UNKNOWN_SETTINGS, as_imported
from tests.analytics.make_store import Store

PLANNED = 2
CONDITIONS = ("full", "underspecified", "ask_user", "inject_10", "inject_50")
TIMING_CONDITIONS = ("full", "underspecified", *(f"inject_{percentage}" for percentage in INJECT_PERCENTAGES))
ACTIONS = ("read a", "read  a", "read b", "write a", "ask_user S1", "say which x?", "broken read", "read a + read b")
_IMPORTED = 0.1
ENDS = ("finished",) * 16 + ("failed", "running", "interrupted", "ungraded")


def random_store(seed: int, scope: str, conditions: tuple[str, ...] = CONDITIONS) -> Store:
    """Return a store with two planned trials per cell and up to three recorded ones.

    Args:
        seed: Of everything in it.
        scope: Whose ``full`` trials are shared, task or variant.
        conditions: Those that occur.
    """
    chance = Random(seed)
    store = Store(trials=PLANNED, scope=scope)
    store.agents["b"] = dict.fromkeys(UNKNOWN_SETTINGS)  # those of an import, so that it stays one arm
    units = {"v": "t", "w": "t", "x": "u"}
    for task_id in ("t", "u"):
        store.task(task_id, (1.0, 1.0))
    for variant_id, task_id in units.items():
        store.variant(task_id, variant_id, chance.choice(["goal", "goal input", "input input"]))
    for agent in ("a", "b"):
        for condition in conditions:
            for owner in ("t", "u") if condition == "full" and scope == "task" else tuple(units):
                for index in range(chance.choice([0, 2, 2, 3, 3])):
                    _record(chance, store, owner, condition, index, agent)
    return store


def _record(chance: Random, store: Store, owner: str, condition: str, index: int, agent: str) -> None:
    """One or two attempts of a trial; only trials that may ask do."""
    possible = [action for action in ACTIONS if condition == "ask_user" or not action.startswith("ask_user")]
    for attempt in range(1, chance.randint(1, 2) + 1):
        ends = chance.choice(ENDS)
        scores = chance.choices([0.0, 0.5, 1.0], [1, 1, 3], k=2)
        store.trial(
            owner,
            condition,
            index,
            agent=agent,
            attempt=attempt,
            scores=scores[:1] if ends == "ungraded" else scores,
            actions=chance.choices(possible, k=chance.randint(0, 9)),
            ends="finished" if ends == "ungraded" else ends,
            budget=4,
            injected_after=chance.choice([None, 2, 4, 6, 9]),
        )
        if ends in ("finished", "ungraded", "failed") and chance.random() < _IMPORTED:
            as_imported(store, store.streams[owner, condition, index, agent], chance.choice(SOURCES))
