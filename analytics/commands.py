"""The commands that read: ``tables`` prints the papers' tables, ``sql`` opens the views; and ``sensitivity``."""

import argparse
import sys
from pathlib import Path

from analytics import compare_commands, sensitivity_commands
from recorder.output import FORMATS
from recorder.sharing.address import store_address


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands of this layer to the program."""
    tables = commands.add_parser(
        "tables",
        help="regenerate tables from the events of a store",
        description="Regenerate tables from the events of a store, also while a run is writing.",
        epilog="example: lhaw-record tables stores/demo overall voi --format csv",
    )
    tables.add_argument("store", type=store_address, help="the store's directory or shared address")
    tables.add_argument("names", nargs="*", metavar="NAME", help="tables (default: all); 'list' prints their names")
    which = tables.add_mutually_exclusive_group()
    which.add_argument("--main", action="store_true", help="the main tables only: overall, by_class, voi")
    which.add_argument("--all", action="store_true", help="every table, which is what no NAME means too")
    tables.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="another reading; 'list' shows parameters too"
    )
    tables.add_argument("--draws", type=int, metavar="N", help="bootstrap draws, short for --set draws=N")
    tables.add_argument("--permutations", type=int, metavar="N", help="short for --set permutations=N")
    tables.add_argument(
        "--format", choices=(*FORMATS, "markdown", "latex"), default="table", help="default: %(default)s"
    )
    tables.add_argument(
        "--out", type=Path, metavar="DIR", help="write NAME.csv, .json, .md and .tex of each table instead of printing"
    )
    tables.add_argument("--compare", action="store_true", help="show what the papers print beside ours, in one table")
    tables.add_argument(
        "--printed-as",
        action="append",
        default=[],
        metavar="AGENT=MODEL",
        help="with --compare: whom to set an agent beside",
    )
    tables.set_defaults(function=tables_command)

    sql = commands.add_parser(
        "sql",
        help="query the views of a store",
        description="Query the views of a store with SQL; without -c an interactive prompt.",
        epilog="example: lhaw-record sql stores/demo -c 'select condition, count(*) from trials group by all'",
    )
    sql.add_argument("store", type=store_address, help="the store's directory or shared address")
    sql.add_argument(
        "-c",
        "--command",
        metavar="QUERY",
        help="run one query and print its rows; '.views' lists the views and their columns",
    )
    sql.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    sql.set_defaults(function=sql_command)

    compare_commands.add_commands(commands)
    sensitivity_commands.add_commands(commands)


def tables_command(options: argparse.Namespace) -> int:
    """Print tables, or write them; 1 when a claim about the store does not hold."""
    from analytics.errors import BadParameter
    from analytics.printing import MAIN_TABLES, print_list, print_tables

    if options.names == ["list"]:
        print_list(options.format, sys.stdout)
        return 0
    if options.names and (options.all or options.main):
        raise BadParameter("--all and --main name tables themselves; leave out the NAMEs or the option")
    shorthands = {"draws": options.draws, "permutations": options.permutations}
    return print_tables(
        options.store,
        MAIN_TABLES if options.main else options.names,
        settings=[*options.set, *(f"{name}={value}" for name, value in shorthands.items() if value is not None)],
        form=options.format,
        out=sys.stdout,
        folder=options.out,
        is_compared=options.compare,
        printed_as=options.printed_as,
    )


def sql_command(options: argparse.Namespace) -> int:
    """Run one query, or a prompt."""
    from analytics.prompt import Prompt, run_query

    if options.command is not None:
        run_query(options.store, options.command, options.format, sys.stdout)
        return 0
    return Prompt(options.store, options.format).run()
