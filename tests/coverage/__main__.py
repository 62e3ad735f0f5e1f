"""Simulate studies, judge the intervals and tests of the tables on them, and write docs/coverage.md."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lhaw_record.recorder.cli.output import FORMATS, print_rows, say
from tests.coverage.page import page
from tests.coverage.simulation import Coverage, all_simulated, grid
from tests.coverage.studies import KINDS, SIZES

_COLUMNS = (
    *("kind", "method", "tasks", "variants", "correlation", "agents", "is_copied", "mean"),
    *("share", "share_low", "share_high", "with_interval", "studies", "is_met", "is_certain"),
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the share of every design. Return exit code 1 if one misses what docs/metrics.md promises."""
    options = _parser().parse_args(arguments)
    designs = [design for design in grid(options.grid) if design.kind in (options.kind or KINDS)]
    found = []
    for each in all_simulated(designs, options.studies, options.processes):
        found.append(each)
        if len(found) % 100 == 0:
            say(f"  {len(found)} of {len(designs)} designs")
    print_rows([_row(each) for each in found], _COLUMNS, options.format)
    if options.page is not None:
        options.page.write_text(page(found, options.studies), encoding="utf-8")
    missed = sum(each.is_met is False for each in found)
    say(f"  {missed} of {len(found)} designs miss what they should hold" if missed else "  every promise holds")
    return 1 if missed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m tests.coverage",
        description="Simulate studies whose truth is known, of tasks that differ, with several variants, agents and "
        "copied values, estimate each with the engine of the tables, and print the share of 95 % intervals that hold "
        "the truth (at least 0.93), or of p-values below 0.05 where there is nothing to see (at most 0.06). A design "
        "whose own 95 % interval (share_low, share_high) is not wholly on the wanted side is simulated again with four "
        "times as many new studies. The full grid of 1,500 studies takes an hour on two processors. "
        "Exit code 1: a design misses.",
    )
    parser.add_argument("--grid", choices=("small", "full"), default="small", help="designs (default: %(default)s)")
    parser.add_argument("--kind", nargs="+", metavar="KIND", choices=tuple(KINDS), help=f"only: {', '.join(KINDS)}")
    parser.add_argument("--studies", type=_count, default=200, metavar="N", help="of each design (default: 200)")
    parser.add_argument(
        "--processes",
        type=_count,
        default=os.cpu_count() or 1,
        metavar="N",
        help="simulate so many designs at a time (default: one for each processor); no number depends on it",
    )
    parser.add_argument("--page", type=Path, metavar="FILE", help="also write a summary in Markdown")
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    return parser


def _row(found: Coverage) -> dict[str, Any]:
    design, has_share = found.design, found.with_interval > 0
    low, high = found.bounds
    return {
        **design._asdict(),
        "method": KINDS[design.kind].method,
        "variants": SIZES.get(design.variants, design.variants),
        "share": round(found.share, 4) if has_share else None,
        "share_low": round(low, 4) if has_share else None,
        "share_high": round(high, 4) if has_share else None,
        "with_interval": found.with_interval,
        "studies": found.studies,
        "is_met": found.is_met,
        "is_certain": found.is_certain,
    }


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


if __name__ == "__main__":
    sys.exit(main())
