"""``lhaw-record tables``: opens a store, computes the asked tables, prints them in the asked form."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from analytics.checks import checks
from analytics.errors import BadParameter, UnknownName
from analytics.parameters import PARAMETERS, parse_settings
from analytics.render import to_csv, to_json, to_text
from analytics.store import open as open_store
from analytics.tables import TABLES, table
from recorder.output import print_rows

MAIN_TABLES = ("overall", "by_class", "voi")


def print_tables(store: Path, names: Sequence[str], *, settings: Sequence[str], form: str, out: TextIO) -> int:
    """Print tables; returns 1 when a claim about the store does not hold, else 0.

    Args:
        store: The store's directory.
        names: Names of tables; all if empty.
        settings: Parameters as ``name=value``.
        form: table, csv (of one table) or json.
        out: Where to.

    Raises:
        UnknownName: A table or a parameter does not exist.
        BadParameter: A parameter does not allow its value, or csv was asked for several tables.
        StoreError: There is no store.
    """
    chosen = list(names) or list(TABLES)
    unknown = [name for name in chosen if name not in TABLES]
    if unknown:
        raise UnknownName(f"there is no table {unknown[0]!r}; known: {', '.join(TABLES)}")
    if form == "csv" and len(chosen) > 1:
        raise BadParameter("csv holds one table; name one, or take --format json")
    connection = open_store(store, parameters=parse_settings(settings))
    try:
        computed = [table(connection, name) for name in chosen]
        broken = checks(connection)
    finally:
        connection.close()
    if form == "json":
        out.write(to_json(computed))
    elif form == "csv":
        out.write(to_csv(computed[0]))
    else:
        out.write("\n\n".join(to_text(each) for each in computed))
    for finding in broken:
        print(f"claim {finding.claim} does not hold, e.g. {finding.rows[0]}", file=sys.stderr)  # noqa: T201 - narration
    return 1 if broken else 0


def print_list(form: str, out: TextIO) -> None:
    """Print the tables there are and the parameters that change their readings."""
    rows = [{"kind": "table", "name": name} for name in TABLES]
    rows += [
        {
            "kind": "parameter",
            "name": each.name,
            "default": "unset" if each.default is None else str(each.default),
            "meaning": each.meaning,
        }
        for each in PARAMETERS
    ]
    print_rows(rows, ("kind", "name", "default", "meaning"), form, out)
