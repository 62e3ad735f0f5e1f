"""The site's page of the commands, made from the program's own help: ``python -m tests.docs.cli_reference FILE``."""

import argparse
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

from lhaw_record.command_line import build_parser

HEAD = """\
# The command line

Data goes to standard output, narration and progress to standard error. Exit codes: 0 done, 1 a finding or failed work,
2 usage, 3 damaged store, 130 interrupted.
"""


def page() -> str:
    """Return the whole page."""
    with patch.dict(os.environ, COLUMNS="88"):
        return "\n".join([HEAD, *_sections()])


def _sections() -> Iterator[str]:
    """The program's help, then that of each command below its name."""
    parser = build_parser()
    yield f"```\n{parser.format_help().strip()}\n```\n"
    for name, command in commands(parser):
        yield f"## {name}\n\n```\n{command.format_help().strip()}\n```\n"


def commands(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Return every command of a parser, in order, with its own parser."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, inner in action.choices.items():
                verbs = list(commands(inner))
                yield from ((f"{name} {verb}", each) for verb, each in verbs)
                if not verbs:
                    yield name, inner


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), encoding="utf-8")
