"""The command ``coverage``: how often the intervals hold the truth, by simulation."""

import argparse
import os
from typing import TYPE_CHECKING, Any

from lhaw_record.recorder.cli.arguments import FORMAT, new_file
from lhaw_record.recorder.cli.command import Command, argument
from lhaw_record.recorder.cli.output import print_rows, say

if TYPE_CHECKING:
    from lhaw_record.analytics.statistics.coverage import Coverage

_COLUMNS = (
    *("kind", "method", "tasks", "variants", "correlation", "agents", "is_copied", "mean"),
    *("share", "share_low", "share_high", "with_interval", "studies", "is_met", "is_certain"),
)


def coverage_command(options: argparse.Namespace) -> int:
    """Print the share of every design. Return exit code 1 if one misses what docs/metrics.md promises."""
    from lhaw_record.analytics.statistics.coverage import all_simulated, grid
    from lhaw_record.analytics.statistics.coverage_page import page
    from lhaw_record.analytics.statistics.studies import KINDS

    designs = [design for design in grid(options.grid) if design.kind in (options.kind or KINDS)]
    found = []
    for each in all_simulated(designs, options.studies, options.processes):
        found.append(each)
        if len(found) % 100 == 0:
            say(f"  {len(found)} of {len(designs)} designs")
    print_rows([_row(each) for each in found], _COLUMNS, options.format)
    if options.page is not None:
        kinds = f" --kind {' '.join(options.kind)}" if options.kind else ""
        command = (
            f"`lhaw-record coverage --grid {options.grid}{kinds} --studies {options.studies} --page {options.page}`"
        )
        options.page.write_text(page(found, command), encoding="utf-8")
    missed = sum(each.is_met is False for each in found)
    say(f"  {missed} of {len(found)} designs miss what they should hold" if missed else "  every promise holds")
    return 1 if missed else 0


def _row(found: "Coverage") -> dict[str, Any]:
    from lhaw_record.analytics.statistics.studies import KINDS

    design, has_share = found.design, found.with_interval > 0
    low, high = found.bounds
    return {
        **design._asdict(),
        "method": KINDS[design.kind].method,
        "variants": design.variants or "1 to 7",
        "share": round(found.share, 4) if has_share else None,
        "share_low": round(low, 4) if has_share else None,
        "share_high": round(high, 4) if has_share else None,
        "with_interval": found.with_interval,
        "studies": found.studies,
        "is_met": found.is_met,
        "is_certain": found.is_certain,
    }


def _studies(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


_KINDS = (
    *("level", "share", "gain", "no_gain", "loss", "no_loss", "contrast", "no_contrast", "amount_contrast"),
    *("ratio", "median", "tau", "pooled", "precision", "decay", "net_value", "no_timing", "per_question", "amount"),
    *("kappa", "f1", "no_tau", "effect", "no_effect", "same_effect"),
    *("uneven_contrast", "uneven_amounts", "rare_gain"),
)
COMMANDS = (
    Command(
        name="coverage",
        help="measure on simulated studies how often intervals and tests are right",
        description="Simulate studies whose truth is known, of tasks that differ, with several variants, agents and "
        "copied values, estimate each with the engine of the tables, and print the share of 95 % intervals that hold "
        "the truth (at least 0.93), or of p-values below 0.05 where there is nothing to see (at most 0.06). A design "
        "whose own 95 % interval (share_low, share_high) is not wholly on the wanted side is simulated again with four "
        "times as many new studies. The full grid of 1,500 studies takes an hour on two processors. "
        "Exit code 1: a design misses.",
        example="coverage --grid full --kind gain --studies 1500",
        arguments=(
            argument("--grid", choices=("small", "full"), default="small", help="designs (default: %(default)s)"),
            argument("--kind", nargs="+", metavar="KIND", choices=_KINDS, help=f"only these: {', '.join(_KINDS)}"),
            argument("--studies", type=_studies, default=200, metavar="N", help="of each design (default: 200)"),
            argument(
                "--processes",
                type=_studies,
                default=os.cpu_count() or 1,
                metavar="N",
                help="simulate so many designs at a time (default: one for each processor); no number depends on it",
            ),
            argument("--page", type=new_file, metavar="FILE", help="also write a summary in Markdown"),
            FORMAT,
        ),
        function=coverage_command,
    ),
)
