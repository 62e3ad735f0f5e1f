"""The command ``trials``: list the trials of a store."""

import argparse
import sys
from collections.abc import Mapping
from typing import Any

from lhaw_record.analytics.cli.arguments import names_in_store
from lhaw_record.recorder.cli.arguments import FORMAT, STORE, positive
from lhaw_record.recorder.cli.command import Command, argument, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.wording import did_you_mean

_FILTERS = {
    "agent": "agent",
    "condition": "condition",
    "benchmark": "benchmark",
    "task": "task_id",
    "experiment": "experiment_id",
    "state": "trial_state",
}
"""The options that filter trials, and their columns."""
_STATES = ("valid", "missing", "running")
_CHOICES = {"state": ": valid, missing (no attempt counts) or running"}
_ID_LETTERS = 12
"""How many characters of an id a terminal shows. 'show' accepts any unique prefix."""
_OUTCOMES = {"success": "is_success", "failure": "not is_success"}
COLUMNS = (
    *("stream_id", "benchmark", "task_id", "variant_id", "agent", "condition", "trial_index", "trial_state"),
    *("is_success", "checkpoint_progress", "action_count", "question_count", "cost_usd", "ended_by"),
)


def trials_command(options: argparse.Namespace) -> int:
    """Print one row per trial. Return exit code 1 if there is no trial."""
    from lhaw_record.analytics.errors import UnknownName
    from lhaw_record.analytics.views.rows import rows_of
    from lhaw_record.analytics.views.store import open as open_store

    with open_store(options.store, only={"trials"}) as connection:
        conditions, values = [], []
        for option, column in _FILTERS.items():
            if not (given := getattr(options, option)):
                continue
            found = rows_of(connection, f"select distinct {column} as name from trials order by all")  # noqa: S608 - ours
            there = [str(row["name"]) for row in found]
            if unknown := [each for each in given if each not in there and not (option == "state" and each in _STATES)]:
                known = ", ".join(there[:20]) + (", …" if len(there) > 20 else "")
                hint = did_you_mean(unknown[0], there)
                raise UnknownName(f"no trial has the {option} {unknown[0]!r}{hint}; there are: {known}")
            conditions.append(f"{column} in ({', '.join('?' * len(given))})")
            values += given
        if options.outcome:
            conditions.append(_OUTCOMES[options.outcome])
        where = f" where {' and '.join(conditions)}" if conditions else ""
        order = "benchmark, task_id, variant_id nulls first, agent, condition, trial_index, trial_id"
        columns = ", ".join(COLUMNS).replace("stream_id", "coalesce(stream_id, trial_id) as stream_id")
        query = f"select {columns} from trials{where} order by {order}"  # noqa: S608 - names of ours
        rows = rows_of(connection, query, values)
    shown = rows if options.limit is None else rows[: options.limit]
    if options.format == "table" and not rows:
        say("no trial matches these options" if conditions else "the store has no trials")
        return 1
    if options.format == "table" and sys.stdout.isatty():
        short = [_short(row) for row in shown]
        print_rows(short, list(short[0]), options.format)
    else:
        print_rows(shown, COLUMNS, options.format)
    more = f", {len(shown)} of them shown" if len(shown) < len(rows) else ""
    say(f"{len(rows):,} trials{more}; 'lhaw-record show STORE STREAM_ID' prints one; the beginning of its id is enough")
    return 0 if rows else 1


def _short(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a trial that a terminal shows."""
    outcome = {True: "success", False: "failure"}.get(row["is_success"], "-")
    return {
        "stream": row["stream_id"][:_ID_LETTERS],
        "outcome": outcome if row["trial_state"] == "valid" else row["trial_state"],
        "agent": row["agent"],
        "condition": row["condition"],
        "task or variant": row["variant_id"] or row["task_id"],
        "no": row["trial_index"],
        "progress": row["checkpoint_progress"],
        "actions": row["action_count"],
        "asked": row["question_count"],
        "USD": row["cost_usd"],
        "ended by": row["ended_by"],
        "benchmark": row["benchmark"],
    }


COMMANDS = (
    Command(
        name="trials",
        help="list the trials of a store, by agent, condition, task, state or outcome",
        description="List the trials of a store, one row each. If a trial has several attempts, its row shows the "
        "attempt that counts. 'show' accepts the stream_id, which is the trial's id if no attempt counts. Trials that "
        "were set aside are not listed; 'discard STORE' lists them. The view trials has more columns: see 'sql'.",
        example="trials stores/demo --condition ask_user --outcome failure",
        arguments=(
            STORE,
            *(
                repeatable(
                    f"--{name}",
                    "NAME",
                    f"only this {name}{_CHOICES.get(name, '')}; may be given several times",
                    completer=names_in_store(column, "trials"),
                )
                for name, column in _FILTERS.items()
            ),
            argument("--outcome", choices=tuple(_OUTCOMES), help="only trials with this outcome"),
            argument("--limit", type=positive, metavar="N", help="print at most N trials"),
            FORMAT,
        ),
        function=trials_command,
    ),
)
