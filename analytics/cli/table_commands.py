"""The commands that compute numbers from a store: ``tables``, ``findings``, ``sql``, ``compare``, ``sensitivity``."""

import argparse
import sys
import time
from pathlib import Path

import msgspec

from lhaw_record.analytics.cli.arguments import filters, settings_option, wanted
from lhaw_record.analytics.comparison.groups import MEASURES, SPLITS
from lhaw_record.analytics.findings import MEASURES as FINDING_MEASURES
from lhaw_record.recorder.cli.arguments import FORMAT, STORE
from lhaw_record.recorder.cli.command import Command, argument, flag, repeatable
from lhaw_record.recorder.cli.output import FORMATS, print_rows, say

FRESH = flag("--fresh", "ignore cached results (analysis.msgpack in the store's folder) and compute all again")
FINDING_KEYS = ("agent", "condition", "benchmark")
"""The keys that findings are filtered by. All findings share one measure."""


def tables_command(options: argparse.Namespace) -> int:
    """Print tables or write them to files. Return exit code 1 if a claim about the store does not hold."""
    from lhaw_record.analytics.cli.table_output import MAIN_TABLES, print_list, print_other_tables, print_tables
    from lhaw_record.analytics.errors import BadParameter

    if options.names == ["list"]:
        print_list(options.format, sys.stdout)
        return 0
    if options.names and options.all:
        raise BadParameter("--all already means every table; leave out the NAMEs or --all")
    shorthands = {"reading": options.reading, "draws": options.draws, "permutations": options.permutations}
    given = [f"{name}={value}" for name, value in shorthands.items() if value is not None]
    is_short = options.format == "table" and not (options.output or options.names or options.all or options.compare)
    exit_code = print_tables(
        options.store,
        MAIN_TABLES if is_short else options.names,
        settings=[*(["reading=paper"] if options.compare else []), *options.set, *given],
        form=options.format,
        out=sys.stdout,
        folder=options.output,
        is_compared=options.compare,
        printed_as=options.printed_as,
        wanted=wanted(options),
        is_fresh=options.fresh,
    )
    if is_short:
        print_other_tables(MAIN_TABLES, sys.stdout)
    return exit_code


def findings_command(options: argparse.Namespace) -> int:
    """Print findings: what the tables of a store show. Return 1 if a claim about the store does not hold."""
    from lhaw_record.analytics.cli.table_output import print_findings

    return print_findings(
        options.store,
        options.measure,
        settings=options.set,
        form=options.format,
        out=sys.stdout,
        wanted=wanted(options, FINDING_KEYS),
        is_headline=options.headline,
        is_fresh=options.fresh,
    )


def sql_command(options: argparse.Namespace) -> int:
    """Run the statements of an option, or else of standard input."""
    from lhaw_record.analytics.cli.table_output import run_queries
    from lhaw_record.analytics.errors import BadParameter

    text = ("" if sys.stdin.isatty() else sys.stdin.read()) if options.command is None else options.command
    if not text.strip():
        raise BadParameter("give a query with -c or on standard input; for DuckDB's prompt use 'export duckdb'")
    run_queries(options.store, text, options.format, sys.stdout)
    return 0


def compare_command(options: argparse.Namespace) -> int:
    """Print the comparison of two arms."""
    from lhaw_record.analytics.comparison.compare import print_comparison
    from lhaw_record.analytics.views.parameters import parse_settings

    print_comparison(
        options.store,
        options.arms,
        measure=options.measure,
        by=options.by,
        allow_hang_ups=options.allow_hang_ups,
        allow_mixed_instruments=options.allow_mixed_instruments,
        settings=parse_settings(options.set),
        form=options.format,
        out=sys.stdout,
    )
    return 0


def sensitivity_command(options: argparse.Namespace) -> int:
    """Print which table cells change under other parameter values.

    Progress and the parameter values without any effect go to standard error.
    """
    from lhaw_record.analytics.cli.table_output import MAIN_TABLES, known_tables
    from lhaw_record.analytics.comparison.sensitivity import ParameterOverride, TableChange, sensitivity
    from lhaw_record.analytics.views.parameters import parse_settings
    from lhaw_record.recorder.reading.reader import read_snapshot

    names = known_tables([] if options.tables == ["all"] else options.tables or MAIN_TABLES)
    begun_s = time.monotonic()

    def show(number: int, count: int, reading: ParameterOverride) -> None:
        say(f"{time.monotonic() - begun_s:5.1f} s  {number} of {count}: {reading}")

    changes, tried = sensitivity(read_snapshot(options.store), names, parse_settings(options.set), show)
    columns = [field.name for field in msgspec.structs.fields(TableChange) if field.name != "parameter"]
    if changes or options.format != "table":
        print_rows([msgspec.structs.asdict(change) for change in changes], columns, options.format)
    moved = {change.reading for change in changes}
    if still := [str(reading) for reading in tried if str(reading) not in moved]:
        say(f"these tables do not change under: {', '.join(still)}")
    return 0


def _table_names(**_: object) -> tuple[str, ...]:
    """Return the table names for tab completion."""
    from lhaw_record.analytics.tables.tables import TABLES

    return TABLES


COMMANDS = (
    Command(
        name="tables",
        help="compute tables from the events of a store",
        description="Compute tables from the events of a store. This also works during a run. A row 'all' that only "
        "repeats the row of a single agent or benchmark appears only in csv and json.",
        example="tables stores/demo overall voi --format csv",
        arguments=(
            STORE,
            argument(
                "names",
                nargs="*",
                metavar="NAME",
                help="tables (default: overall, by_class and voi; all for files and JSON); 'list' says what each has",
                completer=_table_names,
            ),
            flag("--all", "every table (the default for files and JSON)"),
            settings_option("set an analysis parameter; 'list' shows them"),
            argument(
                "--reading",
                metavar="NAME",
                help="short for --set reading=NAME; 'paper' makes the same choices as the papers",
            ),
            argument("--draws", type=int, metavar="N", help="bootstrap draws, short for --set draws=N"),
            argument("--permutations", type=int, metavar="N", help="short for --set permutations=N"),
            argument("--format", choices=(*FORMATS, "markdown", "latex"), default="table", help="default: %(default)s"),
            argument(
                "-o",
                "--output",
                type=Path,
                metavar="DIR",
                help="write NAME.csv, .json, .md and .tex of each table instead of printing",
            ),
            flag("--compare", "print one table with the papers' numbers beside this store's, with --reading paper"),
            repeatable(
                "--printed-as", "AGENT=MODEL", "with --compare: the model of the papers to compare an agent with"
            ),
            FRESH,
            filters(),
        ),
        function=tables_command,
    ),
    Command(
        name="findings",
        help="say in sentences what a store shows, what it does not show, and what would settle it",
        description="Say in sentences what missing information cost, what asking gained and for whom, when information "
        "came too late, what was wasted and who asks too much. Sentences claim only what the intervals of the tables "
        "support. They also say what is not shown or not known, and what would settle it.",
        example="findings stores/demo --measure pass_at_k",
        arguments=(
            STORE,
            argument(
                "--measure",
                choices=tuple(FINDING_MEASURES),
                default="pass_at_1",
                help="measure of success; default: %(default)s",
            ),
            flag("--headline", "print only levels by condition, what missing information cost and what asking gained"),
            settings_option(),
            FORMAT,
            FRESH,
            filters(FINDING_KEYS),
        ),
        function=findings_command,
    ),
    Command(
        name="sql",
        help="query the views of a store",
        description="Query the views of a store with SQL. Without -c, run the statements on standard input.",
        example="sql stores/demo -c 'select condition, count(*) from trials group by all'",
        arguments=(
            STORE,
            argument(
                "-c",
                "--command",
                metavar="QUERY",
                help="print the rows of a query; '.views' lists the views, '.views NAME' the columns of a view",
            ),
            FORMAT,
        ),
        function=sql_command,
    ),
    Command(
        name="compare",
        help="compare two arms on the units that both have",
        description="Compare arm A with arm B over the units that both have: the value of each arm, the mean "
        "difference A - B with its interval, and the p-value of a paired permutation test. An arm is "
        "AGENT:CONDITION, an agent, or a condition, also written agent=NAME,condition=NAME. Both arms must name the "
        "same keys. The keys that they leave out are paired, too.",
        example="compare stores/demo ask_user underspecified --by class",
        arguments=(
            STORE,
            argument("arms", nargs=2, metavar="ARM", help="A and B"),
            argument("--measure", choices=MEASURES, default=MEASURES[0], help="default: %(default)s"),
            argument("--by", choices=tuple(SPLITS), help="split the rows"),
            flag("--allow-hang-ups", "also compare agents that hung up in too many of their attempts"),
            flag("--allow-mixed-instruments", "also compare trials of several versions of the instruments"),
            settings_option(),
            FORMAT,
        ),
        function=compare_command,
    ),
    Command(
        name="sensitivity",
        help="show how results change with other values of the parameters",
        description="Compute the tables under every other value of each parameter. For each table and measure, show "
        "how many cells change, by how much on average, and where most.",
        example="sensitivity stores/demo --tables overall voi wasted",
        arguments=(
            STORE,
            argument(
                "--tables",
                nargs="+",
                default=[],
                metavar="NAME",
                help="tables to compute, or 'all' (default: overall, by_class and voi)",
            ),
            settings_option("set a parameter in every computation"),
            FORMAT,
        ),
        function=sensitivity_command,
    ),
)
