"""Faulty requests change no number of the papers: every other table is the same with and without their trials."""

import pytest

from lhaw_record.analytics.tables.tables import COMPUTED_TABLES, TABLES, tables
from lhaw_record.analytics.views.store import below_tables, connect
from tests.analytics.make_store import Store

COUNT_EVERYTHING = {"agent_health", "endings", "trial_counts_and_cost"}
"""What was paid for, and how trials ended: there the two conditions have rows of their own, and sums hold them."""
THEIRS = {"faulty", "faulty_ask_user", "all"}
CLASSES = ("outcome-critical", "divergent", "benign")
DIMENSIONS = ("goal", "input", "constraint", "context")
FAULTS = ("conflicting_instructions", "stale_information", "missing_authority", "underspecified_follow_up")
LACKING = {"by_persona", "by_strategy", "grader_agreement", "late_answers", "review_agreement", "trajectory"}
"""It lacks several personas or strategies, later gradings, answers and reviews; ``trajectory`` needs an id."""


def rows_of(*, has_faults):
    """The rows of every table of a store with two agents, in which faulty requests were run or not.

    A second benchmark has the full prompt, and no other trials but these.
    """
    store = Store(trials=3)
    tasks = [f"t{place}" for place in range(8)]
    for place, task in enumerate(tasks):
        store.task(task, (1.0, 1.0))
        store.variant(
            task,
            f"{task}-v",
            DIMENSIONS[place % 4],
            severity=("delete", "vaguify")[place % 2],
            scores="1/0",
            refs="c1",
            ambiguity_class=CLASSES[place % 3],
            classified_by="x",
        )
        store.variant(task, f"{task}-c", "goal", scores="0/1", origin="control")
    for agent in ("a", "b"):
        for place, task in enumerate(tasks):
            store.budget(task, (4, 4, 4), 4, agent)
            for index in range(3):
                ran(store, agent, task, place, index, (place + index + (agent == "a")) % 3 > 0)
    if has_faults:
        faulty(store, tasks)
    store.benchmark = "own"
    store.task("z", (1.0, 1.0))
    for agent in ("a", "b"):
        for index in range(3):
            store.trial("z", "full", index, agent=agent, scores=(1, 1), actions=["submit"])
    if has_faults:
        faulty(store, ["z"])
    connection = connect(store.snapshot(), only=below_tables())
    try:
        return {each.name: each.rows for each in tables(connection, (*TABLES, *COMPUTED_TABLES))}
    finally:
        connection.close()


def ran(store, agent, task, place, index, is_lucky):
    """Run one trial of a task under every condition that has no fault."""
    acts = ["read value 1", "write out.csv", "check out.csv", "submit"]
    for condition in ("full", "full_ask_user"):
        store.trial(task, condition, index, agent=agent, scores=(1, (place + index) % 5 > 0), actions=acts)
    store.trial(f"{task}-v", "underspecified", index, agent=agent, scores=(index % 2, is_lucky), actions=acts)
    asks = ["read value 1", "ask_user S1" if is_lucky else "ask_user", *acts[1:]]
    store.trial(f"{task}-v", "ask_user", index, agent=agent, scores=(is_lucky, 1), actions=asks)
    for percent in (10, 50, 90):
        after = max(1, 4 * percent // 100)
        score = (percent < 90 or is_lucky, 1)
        store.trial(
            f"{task}-v",
            f"inject_{percent}",
            index,
            agent=agent,
            scores=score,
            actions=acts,
            budget=4,
            injected_after=after,
        )
    for condition in ("control", "control_ask_user"):
        store.trial(f"{task}-c", condition, index, agent=agent, scores=(1, 1), actions=acts)


def faulty(store, tasks):
    """Register a faulty request of every task, and run it: with questions, and with fewer points than any other."""
    for place, task in enumerate(tasks):
        store.variant(task, f"{task}-f", DIMENSIONS[place % 4], scores="1/0", refs="c1", fault=FAULTS[place % 4])
        for agent in ("a", "b"):
            for index in range(3):
                for condition in ("faulty", "faulty_ask_user"):
                    asked = ["ask_user S1", "submit"] if condition == "faulty_ask_user" else ["submit"]
                    scores = (index == place % 3, 0)
                    store.trial(f"{task}-f", condition, index, agent=agent, scores=scores, actions=asked)


@pytest.mark.thorough
def test_no_other_table_changes():
    """With faulty requests in the store, every table but theirs has the rows that it has without them."""
    without, having = rows_of(has_faults=False), rows_of(has_faults=True)
    assert {name for name, rows in without.items() if not rows} == {"input_faults", *LACKING}
    assert {row["benchmark"] for row in having["input_faults"]} == {"desk", "own"}
    changed = {name for name in without if having[name] != without[name]} - {"input_faults"}
    assert changed == COUNT_EVERYTHING
    for name in changed - {"agent_health"}:
        kept = [row for row in having[name] if row["condition"] not in THEIRS]
        assert kept == [row for row in without[name] if row["condition"] not in THEIRS]
        assert kept
