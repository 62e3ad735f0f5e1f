"""The law of intervals: in every row of every table the interval excludes 0 if and only if p is below its level."""

from itertools import product
from random import Random

from lhaw_record.recorder.events.values import INJECT_PERCENTAGES
from tests.analytics.make_store import Store

P_COLUMNS = {"p_value", "p_greater", "p_claimed", "p_holm", "p_asymptotic", "p_family", "p_reason"}
"""``p_value`` is two-sided, uncorrected, and that of the interval; every other p-value has a name that says so."""

_CORRECTED = {
    "gain_tests": "p_value",
    "losses": "p_value",
    "claims": "p_value",
    "agent_differences": "p_value",
    "kendall": "p_value",
    "effects": "p_value",
    "point_of_no_return": "p_greater",
    "timing_hypotheses": "p_claimed",
}
_SPLITS = {
    "overall": ("overall", None),
    "by_class": ("ambiguity_class", "ambiguity_class"),
    "by_dimension_pass": ("dimension", "dimension"),
    "by_dimension_progress": ("dimension", "dimension"),
}
"""Where the gains of a table stand in gain_tests: the split, and the column with the level."""


def broken_rows(tables, level):
    """Yield each row that breaks the law, with the name of its table.

    Args:
        tables: The rows of each table, by its name.
        level: 1 - confidence.
    """
    for name, rows in tables.items():
        for row in rows:
            assert {column for column in row if column.startswith("p_")} <= P_COLUMNS, name
            if not (_agrees(row, level) and _is_corrected(row, _CORRECTED.get(name), level)):
                yield name, row
    tested = {
        (row["split"], row["level"], row["benchmark"], row["agent"], row["measure"]): row
        for row in tables["gain_tests"]
    }
    for name, (split, column) in _SPLITS.items():
        for row in tables.get(name, ()):
            if row["condition"] != "ask_user":
                continue  # overall has the gains of late messages, too
            found = tested.get(
                (split, row[column] if column else "all", row["benchmark"], row["agent"], row["measure"])
            )
            if found is not None and (row["low"], row["high"]) != (found["low"], found["high"]):
                yield name, row


def _agrees(row, level):
    p_value = row.get("p_value")
    if p_value is None:
        return True
    if row["low"] is None:
        return p_value >= level or row["reason"] in ("no_variation", "test_statistic")
    return (row["low"] > 0 or row["high"] < 0) == (p_value < level)


def _is_corrected(row, own, level):
    corrected = row.get("p_holm", row.get("p_family"))
    if corrected is None:
        return True
    is_claimed = row.get("is_significant", row.get("is_shown"))
    return corrected >= row[own] and is_claimed in (None, corrected < level)


def wide_store(seed, tasks):
    """Return a store of tasks with one or two variants and two agents, whose gains are large, none or equal."""
    chance, store = Random(seed), Store(trials=2)
    classes, dimensions = ("outcome-critical", "divergent"), ("goal", "goal constraint", "goal input")
    conditions = ("underspecified", "ask_user", *(f"inject_{percent}" for percent in INJECT_PERCENTAGES))
    for place in range(tasks):
        store.task(f"t{place}", (1.0, 1.0))
        easy = chance.random()
        for agent, index in product("ab", range(2)):
            store.trial(f"t{place}", "full", index, agent=agent, scores=[1, chance.random() < 0.9])
        for variant in range(chance.choice((1, 1, 2))):
            name, label = f"v{place}-{variant}", classes[(place + variant) % 2]
            store.variant(f"t{place}", name, chance.choice(dimensions), ambiguity_class=label, classified_by="another")
            for agent, condition, index in product("ab", conditions, range(2)):
                share = {"outcome-critical": 0.05 * easy, "divergent": 0.4 * easy}[label]
                if condition != "underspecified":
                    share = {"outcome-critical": 1.0, "divergent": 0.3 + 0.6 * easy}[label]
                scores = [chance.random() < share, chance.random() < share]
                asked = ["ask_user S1", "submit"] if condition == "ask_user" else ["read a", "submit"]
                injected = {"budget": 9, "injected_after": 1} if condition.startswith("inject") else {}
                store.trial(name, condition, index, agent=agent, scores=scores, actions=asked, **injected)
    return store
