"""The commands ``figures``, ``report`` and ``paper``, which turn a store into figures, a report or a paper."""

import argparse
import sys
import time
from pathlib import Path

from lhaw_record.analytics.cli.arguments import filters, settings_option, wanted
from lhaw_record.analytics.tables.filters import FIGURE_KEYS
from lhaw_record.recorder.cli.arguments import STORE
from lhaw_record.recorder.cli.command import Command, argument, flag
from lhaw_record.recorder.cli.output import say, write_file


def figures_command(options: argparse.Namespace) -> int:
    """Draw figures into files and print their paths."""
    from lhaw_record.analytics.figures import FIGURES, draw, read, spec_of, to_bytes
    from lhaw_record.analytics.tables.filters import known_filter
    from lhaw_record.analytics.views.parameters import parse_settings
    from lhaw_record.analytics.views.store import open as open_store
    from lhaw_record.analytics.views.store import read_for

    if options.names == ["list"]:
        sys.stdout.writelines(f"{name}\n" for name in FIGURES)
        return 0
    specs = [spec_of(name) for name in options.names or FIGURES]
    needed = {view for spec in specs for view in spec.reads}
    with open_store(options.store, parameters=parse_settings(options.set), only=read_for(needed)) as connection:
        chosen = wanted(options, FIGURE_KEYS)
        rows = [row for view in sorted(needed) for row in read(connection, view)] if chosen else []
        shown = known_filter(chosen, rows)
        for spec in specs:
            path = options.output / f"{spec.name}.{options.format}"
            write_file(path, to_bytes(draw(connection, spec.name, shown.rows), options.format))
            sys.stdout.write(f"{path}\n")
    return 0


def report_command(options: argparse.Namespace) -> int:
    """Write the report and return the exit code: 1 if a claim about the store does not hold."""
    from lhaw_record.analytics.report import build

    begun = time.monotonic()
    settings = [*options.set, *([f"experiment={options.experiment}"] if options.experiment else [])]
    page = build(options.store, settings=settings)
    data = page.html.encode("utf-8")
    write_file(options.output, data)
    sys.stdout.write(f"{options.output}\n")
    seconds = time.monotonic() - begun
    sys.stderr.write(f"{page.trial_count:,} trials, {len(data) / 1e6:.1f} MB, {seconds:.1f} s\n")
    for claim in page.broken_claims:
        sys.stderr.write(f"claim {claim} does not hold; the page shows where\n")
    return 1 if page.broken_claims else 0


def paper_command(options: argparse.Namespace) -> int:
    """Write the files and print their paths. Return 1 if a claim about the store fails or everything is left out."""
    from lhaw_record.analytics.paper import make, spec_and_text
    from lhaw_record.analytics.paper.paper import write_spec
    from lhaw_record.analytics.tables.filters import Filter
    from lhaw_record.analytics.views.parameters import parse_settings

    spec, text = spec_and_text(options.spec)
    only = Filter(wanted(options))
    paper = make(options.store, spec, settings=parse_settings(options.set), only=only, is_compared=options.compare)
    written, spec_path = paper.write(options.output), write_spec(text, options.output)
    sys.stdout.writelines(f"{path}\n" for path in (*written, spec_path) if path)
    if spec_path is None:
        say(f"{options.output / 'paper.toml'} has other content and is not overwritten; give it as SPEC, or delete it")
    for note in paper.notes:
        say(note)
    for name, reason in paper.left_out.items():
        say(f"{name} is left out: {reason}")
    for finding in paper.broken_claims:
        say(f"claim {finding.claim} does not hold, e.g. {finding.rows[0]}")
    return 1 if paper.broken_claims or not (paper.tables or paper.figures) else 0


COMMANDS = (
    Command(
        name="figures",
        help="draw figures from the events of a store",
        description="Draw figures from the events of a store, one file each. Equal stores give equal files.",
        example="figures stores/demo voi wasted --output figures --format png",
        arguments=(
            STORE,
            argument("names", nargs="*", metavar="NAME", help="figures (default: all); 'list' prints their names"),
            argument(
                "-o",
                "--output",
                type=Path,
                default=Path("figures"),
                metavar="DIR",
                help="the target folder; default: %(default)s",
            ),
            argument("--format", choices=("svg", "png", "pdf"), default="svg", help="default: %(default)s"),
            settings_option(),
            filters(FIGURE_KEYS),
        ),
        function=figures_command,
    ),
    Command(
        name="report",
        help="write one page about a store: tables, figures, missing data, every trial",
        description="Write one self-contained HTML page about a store: facts, cautions, tables, figures, missing data "
        "and a browser for single trials. It loads nothing from the network.",
        example="report stores/demo -o report.html",
        arguments=(
            STORE,
            argument(
                "-o", "--output", type=Path, default=Path("report.html"), metavar="FILE", help="default: %(default)s"
            ),
            argument("--experiment", metavar="NAME", help="only trials of this experiment"),
            settings_option(),
        ),
        function=report_command,
    ),
    Command(
        name="paper",
        help="write the tables and figures of a paper: LaTeX, PDF, SVG and Markdown",
        description="Write the tables and figures that a small TOML file names: pivoted tables as LaTeX floats "
        "(booktabs), figures as PDF and SVG with embedded fonts. paper.tex shows all of them and compiles; paper.md "
        "has the same numbers. The preset conditions is one table with agents in rows and all conditions in columns. "
        "The presets lhaw and ask-early have the main tables and figures of the two papers. To change a preset, edit "
        "paper.toml in the folder.",
        example="paper stores/demo conditions --output paper",
        arguments=(
            STORE,
            argument("spec", metavar="SPEC", help="a TOML file (docs/papers.md), or a preset"),
            argument(
                "-o",
                "--output",
                type=Path,
                default=Path("paper"),
                metavar="DIR",
                help="the folder; default: %(default)s",
            ),
            flag("--compare", "add the papers' printed tables to paper.md, beside this store's in the reading 'paper'"),
            settings_option(),
            filters(),
        ),
        function=paper_command,
    ),
)
