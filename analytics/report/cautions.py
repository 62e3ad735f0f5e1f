"""Cautions: known problems with the numbers, each counted in the store or reported as absent."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import msgspec

from lhaw_record.analytics.tables.labels import label
from lhaw_record.analytics.tables.notes import ARM_KINDS, lines_of_arms
from lhaw_record.analytics.tables.tables import Table
from lhaw_record.analytics.views.store import BrokenClaim

if TYPE_CHECKING:
    import duckdb


class Caution(msgspec.Struct, frozen=True, kw_only=True):
    """One caution. ``found`` has one line per occurrence."""

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
    "arms_by_version": (
        "Several versions",
        ("version more than agents", "versions more than agents"),
        "Each NAME#DIGEST has another program, model, parameters or prompts; discard one that was a mistake.",
    ),
    "arms_by_settings": (
        "Several settings",
        ("arm more than agents", "arms more than agents"),
        "An agent ran under several limits, prompts, graders or user simulators. Each is an arm, named NAME#DIGEST.",
    ),
    "collapsed_units": (
        "Collapsed injection times",
        ("unit of variant and agent", "units of variant and agent"),
        "The action budget is so small that several percentages give the same action.",
    ),
    "not_injected_trials": (
        "Ended before the injection",
        ("trial", "trials"),
        "They never got the message. They count under the planned condition, unless intention_to_treat is off.",
    ),
    "unclassified_variants": (
        "Variants without a class",
        ("variant", "variants"),
        "They are missing from all tables by class.",
    ),
    "several_classifiers": (
        "Classifier not chosen",
        ("variant", "variants"),
        "Several agents, or one under several settings, classified them; classifier_agent or settings chooses.",
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
    "injection_lost": (
        "Injected message lost",
        ("trial", "trials"),
        "The program worked on without the message, so the treatment did not reach it: left out, unless keep_flagged.",
    ),
    "flagged_actions_uncounted": (
        "Actions not counted",
        ("trial", "trials"),
        "The program acted in conversations that were not recognised as its own; its numbers of actions are too small.",
    ),
    "flagged_no_main_thread": (
        "Main thread not recognised",
        ("trial", "trials"),
        "No conversation of the program was continued; declare its threads in its entry.",
    ),
    "flagged_asking_unanswered": (
        "A way to ask that nobody answers",
        ("trial", "trials"),
        "The program offered its own tool to ask a user; switch it off in its entry, or asking is measured wrongly.",
    ),
    "unstarted_trials": (
        "Unfinished plan",
        ("trial", "trials"),
        "Planned and not started yet: the numbers are of what has ended, and cells may have unequal numbers of trials.",
    ),
    "tasks_left_out": (
        "Tasks left out",
        ("task", "tasks"),
        "They could not run here, or have no variant; the file allows it (allow_left_out), and numbers lack them.",
    ),
    "running_trials": (
        "Running now",
        ("trial", "trials"),
        "They are in no number yet.",
    ),
    "excluded_ending": (
        "Excluded endings",
        ("trial", "trials"),
        "They ended by one of exclude_endings; they are left out and count as missing.",
    ),
    "superseded": (
        "Superseded trials",
        ("trial", "trials"),
        "Their task or variant has changed since; they are left out.",
    ),
}


def cautions(
    connection: "duckdb.DuckDBPyConnection", tables: Mapping[str, Table], broken: Sequence[BrokenClaim]
) -> tuple[Caution, ...]:
    """Return all cautions, starting with those that apply to this store."""
    rows = connection.execute("select kind, benchmark, n from exclusions order by kind, benchmark").fetchall()
    counted = [
        Caution(
            title=title,
            meaning=meaning,
            found=tuple(f"{benchmark}: {n} {units[n != 1]}" for kind, benchmark, n in rows if kind == wanted),
        )
        for wanted, (title, units, meaning) in _COUNTED.items()
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
            meaning="The class of a variant depends on who classified it; classes of several sources do not mix.",
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
        title="No oracle gap",
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
        meaning="People noted something about them. They count like all others, unless 'discard' leaves them out.",
        found=tuple(f"{name}: {cause}, {n} {('trial', 'trials')[n != 1]}" for name, cause, n in rows),
    )


def _unpriced(costs: Table) -> Caution:
    rows = [row for row in costs.rows if row["cost_usd"] is None and row["agent"] != "all" and row["n_calls"]]
    return Caution(
        title="Unknown costs",
        meaning="A model's price or a call's usage is unknown, so the cost is unknown too; it is never taken as 0.",
        found=tuple(sorted({f"{row['benchmark']}, {row['agent']}" for row in rows})),
    )
