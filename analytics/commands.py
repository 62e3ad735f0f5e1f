"""The commands that read: ``tables`` prints the papers' tables, ``sql`` opens the store's views."""

import argparse
import sys
from pathlib import Path

from recorder.output import FORMATS


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands of this layer to the program."""
    tables = commands.add_parser(
        "tables",
        help="regenerate tables from the events of a store",
        description="Regenerate tables from the events of a store, also while a run is writing.",
        epilog="example: lhaw-record tables stores/demo overall voi --format csv",
    )
    tables.add_argument("store", type=Path, help="the store's directory")
    tables.add_argument("names", nargs="*", metavar="NAME", help="tables (default: all); 'list' prints their names")
    tables.add_argument("--main", action="store_true", help="the main tables only: overall, by_class, voi")
    tables.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="another reading; 'list' shows parameters too"
    )
    tables.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    tables.set_defaults(function=tables_command)

    sql = commands.add_parser(
        "sql",
        help="query the views of a store",
        description="Query the views of a store with SQL; without -c an interactive prompt.",
        epilog="example: lhaw-record sql stores/demo -c 'select condition, count(*) from trials group by all'",
    )
    sql.add_argument("store", type=Path, help="the store's directory")
    sql.add_argument("-c", "--command", metavar="QUERY", help="run one query and print its rows")
    sql.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    sql.set_defaults(function=sql_command)


def tables_command(options: argparse.Namespace) -> int:
    """Print tables; 1 when a claim about the store does not hold."""
    from analytics.printing import MAIN_TABLES, print_list, print_tables

    if options.names == ["list"]:
        print_list(options.format, sys.stdout)
        return 0
    names = MAIN_TABLES if options.main else options.names
    return print_tables(options.store, names, settings=options.set, form=options.format, out=sys.stdout)


def sql_command(options: argparse.Namespace) -> int:
    """Run one query, or a prompt."""
    from analytics.prompt import Prompt, run_query

    if options.command is not None:
        run_query(options.store, options.command, options.format, sys.stdout)
        return 0
    return Prompt(options.store, options.format).run()
