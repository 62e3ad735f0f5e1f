"""What a reader of the numbers must know: each caution is looked for, counted, and said to be absent where it is."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from analytics.checks import Finding
from analytics.report.markup import Markup, tag
from analytics.tables import Table

if TYPE_CHECKING:
    import duckdb


class Caution(msgspec.Struct, frozen=True, kw_only=True):
    """One thing looked for; ``found`` has a line per place where it was found."""

    title: str
    meaning: str
    found: tuple[str, ...]


# kind in the view exclusions: title, what is counted (one, several), meaning
_COUNTED = {
    "cells_with_too_few_trials": (
        "Too few trials",
        ("cell", "cells"),
        "pass@k needs k valid trials of a cell; without them its value is undefined and leaves the means.",
    ),
    "cells_with_mixed_settings": (
        "Mixed settings",
        ("cell", "cells"),
        "Trials of one cell differ in limits, prompts, grader or user simulator.",
    ),
    "collapsed_units": (
        "Collapsed injection times",
        ("unit of variant and agent", "units of variant and agent"),
        "The action budget is so small that several percentages give the same action.",
    ),
    "not_injected_trials": (
        "Ended before the injection",
        ("trial", "trials"),
        "They never got the message and are left out, unless intention_to_treat keeps them.",
    ),
    "unclassified_variants": (
        "Variants without a class",
        ("variant", "variants"),
        "They are in no table by class.",
    ),
    "unjudged_variants": (
        "new_task without a verdict",
        ("variant", "variants"),
        "Every trial failed alike and no judge said whether it is another task; they count as outcome-critical.",
    ),
    "baseline_reused_cells": (
        "Baseline reused",
        ("cell", "cells"),
        "The trials that gave the class are the baseline too: gains contain regression to the mean.",
    ),
    "superseded": (
        "Superseded trials",
        ("trial", "trials"),
        "Their task or variant has changed since; they are left out.",
    ),
}


def cautions(
    connection: "duckdb.DuckDBPyConnection", tables: Mapping[str, Table], broken: Sequence[Finding]
) -> tuple[Caution, ...]:
    """Return every caution, those that apply first; an absent one has found nothing."""
    rows = connection.execute("select kind, benchmark, n from exclusions order by kind, benchmark").fetchall()
    counted = [
        Caution(
            title=title,
            meaning=meaning,
            found=tuple(f"{benchmark}: {n} {units[n != 1]}" for kind, benchmark, n in rows if kind == wanted),
        )
        for wanted, (title, units, meaning) in _COUNTED.items()
    ]
    mixed = [f"{benchmark}: {n} sources" for kind, benchmark, n in rows if kind == "classifiers" and n > 1]
    found = (
        _broken(broken),
        *counted,
        Caution(
            title="Mixed classifying agents",
            meaning="The class of a variant depends on who classified it; classes of several sources do not mix.",
            found=tuple(mixed),
        ),
        _no_gap(tables["voi"]),
        _unpriced(tables["trial_counts_and_cost"]),
    )
    return tuple(sorted(found, key=lambda caution: not caution.found))


def cautions_list(found: Sequence[Caution]) -> Markup:
    """Return the cautions as HTML: those that apply with their counts, the others by name."""
    present = [caution for caution in found if caution.found]
    absent = [caution.title.lower() for caution in found if not caution.found]
    return tag(
        "div",
        tag("ul", [_item(caution) for caution in present], class_="cautions") if present else None,
        tag("p", f"Looked for and not found: {', '.join(absent)}.") if absent else None,
    )


def _item(caution: Caution) -> Markup:
    return tag(
        "li", tag("strong", caution.title), ". ", caution.meaning, tag("ul", [tag("li", x) for x in caution.found])
    )


def _broken(broken: Sequence[Finding]) -> Caution:
    return Caution(
        title="Broken claims about the store",
        meaning="What must hold for every store does not hold here; numbers that rest on it are not to be trusted.",
        found=tuple(
            f"{each.claim}: {len(each.rows)} rows, e.g. "
            + ", ".join(f"{name} = {value}" for name, value in zip(each.columns, each.rows[0], strict=True))
            for each in broken
        ),
    )


def _no_gap(voi: Table) -> Caution:
    flat = sorted({f"{row['benchmark']}, {row['dimension']}" for row in voi.rows if row.get("has_oracle_gap") is False})
    return Caution(
        title="No oracle gap",
        meaning="The full prompt does no better than the underspecified one: the time of an injection tells nothing.",
        found=tuple(flat),
    )


def _unpriced(costs: Table) -> Caution:
    unpriced = sorted(
        {
            f"{row['benchmark']}, {row['agent']}"
            for row in costs.rows
            if row["cost_usd"] is None and row["agent"] != "all" and row["n_calls"]
        }
    )
    return Caution(
        title="Unknown prices",
        meaning="A model's price is unknown, so the cost is unknown too; it is never taken as 0.",
        found=tuple(unpriced),
    )
