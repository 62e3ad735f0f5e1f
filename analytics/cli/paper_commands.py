"""The command ``paper``, which writes a paper's tables and figures, and a notebook that makes them again."""

import argparse
import sys
from pathlib import Path

from lhaw_record.analytics.cli.arguments import filters, settings_option, wanted
from lhaw_record.recorder.cli.arguments import STORE
from lhaw_record.recorder.cli.command import Command, argument
from lhaw_record.recorder.cli.output import say


def paper_command(options: argparse.Namespace) -> int:
    """Write the files and print their paths. Return 1 if a claim about the store fails, or all is left out."""
    from lhaw_record.analytics.errors import AnalyticsError
    from lhaw_record.analytics.paper import PRESETS, make, preset, read_spec
    from lhaw_record.analytics.paper.paper import write_notebooks
    from lhaw_record.analytics.tables.filters import Filter
    from lhaw_record.analytics.views.parameters import parse_settings

    if options.spec in PRESETS and not Path(options.spec).is_file():
        spec, text = preset(options.spec)
    else:
        try:
            text = Path(options.spec).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or error
            raise AnalyticsError(
                f"{options.spec}: {reason}; name a TOML file, or one of the presets {', '.join(PRESETS)}"
            ) from error
        spec = read_spec(text, options.spec)
    only = Filter(wanted(options))
    settings = parse_settings(options.set)
    paper = make(options.store, spec, settings=settings, only=only)
    written = paper.write(options.out)
    more, kept = write_notebooks(options.store, text, options.out, paper, only, settings)
    sys.stdout.writelines(f"{path}\n" for path in (*written, *more))
    for path in kept:
        say(_left_alone(path, options.out / "paper.toml", kept))
    for note in paper.notes:
        say(note)
    for name, reason in paper.left_out.items():
        say(f"{name} is left out: {reason}")
    for finding in paper.broken_claims:
        say(f"claim {finding.claim} does not hold, e.g. {finding.rows[0]}")
    return 1 if paper.broken_claims or not (paper.tables or paper.figures) else 0


def _left_alone(path: Path, spec: Path, kept: list[Path]) -> str:
    if path == spec:
        return (
            f"{path} was changed since it was written and is left alone; give it as SPEC, or delete it to get a new one"
        )
    if spec in kept:
        return f"{path} is left alone with the paper.toml that it reads"
    return f"{path} was changed since it was written and is left alone; delete it to get a new one"


COMMANDS = (
    Command(
        name="paper",
        help="write the tables and figures of a paper: LaTeX, PDF, SVG, Markdown and a notebook",
        description="Write the tables and figures that a small TOML file names: pivoted tables as LaTeX floats "
        "(booktabs), figures as PDF and SVG with their fonts, paper.tex, which shows all of them and compiles, "
        "paper.md with the same numbers, and notebooks for Jupyter and marimo that make them again. The preset "
        "conditions is one table with agents in rows and all conditions in columns; lhaw and ask-early have the main "
        "tables and figures of the two papers. paper.toml in the folder is the file to change.",
        example="paper stores/demo conditions --out paper",
        arguments=(
            STORE,
            argument("spec", metavar="SPEC", help="a TOML file (docs/papers.md), or a preset"),
            argument("--out", type=Path, default=Path("paper"), metavar="DIR", help="the folder; default: %(default)s"),
            settings_option(),
            filters(),
        ),
        function=paper_command,
    ),
)
