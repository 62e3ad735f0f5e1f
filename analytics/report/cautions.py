"""Cautions: known problems with the numbers, each counted in the store or reported as absent."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from lhaw_record.analytics.tables.labels import label
from lhaw_record.analytics.tables.notes import ARM_KINDS, COUNTED, lines_of_arms
from lhaw_record.analytics.tables.tables import Table
from lhaw_record.analytics.views.rows import BrokenClaim

if TYPE_CHECKING:
    import duckdb


class Caution(msgspec.Struct, frozen=True, kw_only=True):
    """One caution. ``found`` has one line per occurrence."""

    title: str
    meaning: str
    found: tuple[str, ...]


_COUNTED = {
    "cells_with_too_few_trials": "Too few trials",
    "arms_by_version": "Several versions",
    "arms_by_settings": "Several settings",
    "collapsed_units": "Collapsed injection times",
    "not_injected_trials": "Ended before the injection",
    "unclassified_variants": "Variants without a class",
    "several_classifiers": "Classifier not chosen",
    "unjudged_variants": "new_task without a verdict",
    "baseline_reused_cells": "Baseline reused",
    "injection_lost": "Injected message lost",
    "flagged_actions_uncounted": "Actions not counted",
    "flagged_no_main_thread": "Main thread not recognised",
    "flagged_asking_unanswered": "A way to ask that nobody answers",
    "late_recorder": "The recorder was late",
    "unstarted_trials": "Unfinished plan",
    "tasks_left_out": "Tasks left out",
    "running_trials": "Running now",
    "excluded_ending": "Excluded endings",
    "superseded": "Superseded trials",
}
"""The titles of what the view exclusions counts, by its kind there; the notes of tables say what it means."""


def cautions(
    connection: "duckdb.DuckDBPyConnection", tables: Mapping[str, Table], broken: Sequence[BrokenClaim]
) -> tuple[Caution, ...]:
    """Return all cautions, starting with those that apply to this store."""
    rows = connection.execute("select kind, benchmark, n from exclusions order by kind, benchmark").fetchall()
    counted = [
        Caution(
            title=title,
            meaning="",
            found=tuple(
                COUNTED[kind].format(benchmark=benchmark, n=n) for kind, benchmark, n in rows if kind == wanted
            ),
        )
        for wanted, title in _COUNTED.items()
    ]
    lines = lines_of_arms(connection)
    of_arms = [
        Caution(title=title[0].upper() + title[1:], meaning=meaning, found=tuple(lines[kind]))
        for kind, (title, _, meaning) in ARM_KINDS.items()
    ]
    mixed = [f"{benchmark}: {n} sources" for kind, benchmark, n in rows if kind == "classifiers" and n > 1]
    found = (
        _broken(broken),
        *counted,
        *of_arms,
        Caution(
            title="Mixed classifying agents",
            meaning="The class of a variant depends on its classifier; do not mix classes from several sources.",
            found=tuple(mixed),
        ),
        _no_gap(tables["voi"]),
        _unpriced(tables["trial_counts_and_cost"]),
        _noted(connection),
    )
    return tuple(sorted(found, key=lambda caution: not caution.found))


def _broken(broken: Sequence[BrokenClaim]) -> Caution:
    return Caution(
        title="Broken claims about the store",
        meaning="A claim that must hold for every store does not hold here; do not trust numbers that depend on it.",
        found=tuple(
            f"{each.claim}: {len(each.rows)} rows, e.g. "
            + ", ".join(f"{name} = {value}" for name, value in zip(each.columns, each.rows[0], strict=True))
            for each in broken
        ),
    )


def _no_gap(voi: Table) -> Caution:
    flat: dict[str, set[str]] = {}
    for row in voi.rows:
        if row.get("has_oracle_gap") is False:
            agent = "all agents" if row["agent"] == "all" else row["agent"]
            where = f"{row['benchmark']}, {row['dimension']}, {agent}"
            flat.setdefault(where, set()).add(label("measure", row["measure"]))
    return Caution(
        title="No gap to the full prompt",
        meaning="The full prompt does no better than the underspecified one, so injection timing is uninformative.",
        found=tuple(f"{where}: {', '.join(sorted(flat[where]))}" for where in sorted(flat)),
    )


def _noted(connection: "duckdb.DuckDBPyConnection") -> Caution:
    rows = connection.execute(
        """
        select notes.benchmark, coalesce(notes.cause, 'remark') as cause, count(distinct notes.trial_id) as n
        from trial_notes as notes semi join trials using (trial_id)
        where getvariable('experiment') is null or notes.experiment_id = getvariable('experiment')
        group by all order by all
        """
    ).fetchall()
    return Caution(
        title="Noted trials",
        meaning="People wrote notes about these trials. They count like others, unless 'discard' leaves them out.",
        found=tuple(f"{name}: {cause}, {n} {('trial', 'trials')[n != 1]}" for name, cause, n in rows),
    )


def _unpriced(costs: Table) -> Caution:
    rows = [row for row in costs.rows if row["cost_usd"] is None and row["agent"] != "all" and row["n_calls"]]
    return Caution(
        title="Unknown costs",
        meaning="A model's price or a call's usage is unknown, so the cost is unknown too. It never counts as 0.",
        found=tuple(sorted({f"{row['benchmark']}, {row['agent']}" for row in rows})),
    )
