"""The command ``compare``: two arms side by side, paired over the units that both have."""

import argparse
import sys

from analytics.arms import GROUPS, MEASURES
from recorder.output import FORMATS
from recorder.sharing.address import store_address


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the program."""
    compare = commands.add_parser(
        "compare",
        help="two arms side by side, paired over the units that both have",
        description="Hold arm A against arm B over the units that both have: the value of each, the mean difference "
        "A - B with its interval, and the p-value of a paired permutation test. An arm is AGENT:CONDITION, an agent, "
        "or a condition, also written agent=NAME,condition=NAME; both name the same, and what they leave open is "
        "paired too.",
        epilog="example: lhaw-record compare stores/demo ask_user underspecified --by class",
    )
    compare.add_argument("store", type=store_address, help="the store's directory or shared address")
    compare.add_argument("arms", nargs=2, metavar="ARM", help="A and B")
    compare.add_argument("--measure", choices=MEASURES, default=MEASURES[0], help="default: %(default)s")
    compare.add_argument("--by", choices=tuple(GROUPS), help="split the rows")
    compare.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="another reading; see 'tables STORE list'"
    )
    compare.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    compare.set_defaults(function=compare_command)


def compare_command(options: argparse.Namespace) -> int:
    """Print two arms side by side."""
    from analytics.compare import print_comparison
    from analytics.parameters import parse_settings

    print_comparison(
        options.store,
        options.arms,
        measure=options.measure,
        by=options.by,
        settings=parse_settings(options.set),
        form=options.format,
        out=sys.stdout,
    )
    return 0
