"""The command ``sensitivity``: what other readings of the definitions would change."""

import argparse
import time

from recorder.output import FORMATS, say
from recorder.sharing.address import store_address


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the program."""
    parser = commands.add_parser(
        "sensitivity",
        help="show what other readings of the definitions change",
        description="Compute the tables under every other reading of a parameter, and show for each table and measure "
        "how many cells change, by how much on average, and where most.",
        epilog="example: lhaw-record sensitivity stores/demo --tables overall voi wasted",
    )
    parser.add_argument("store", type=store_address, help="the store's directory or shared address")
    parser.add_argument("--tables", nargs="+", default=[], metavar="NAME", help="tables to look at (default: all)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a reading that is common to both sides"
    )
    parser.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    parser.set_defaults(function=sensitivity_command)


def sensitivity_command(options: argparse.Namespace) -> int:
    """Print the changes; progress and what changes nothing go to standard error."""
    import msgspec

    from analytics.parameters import parse_settings
    from analytics.printing import known_tables
    from analytics.sensitivity import Change, Reading, sensitivity
    from recorder.output import print_rows
    from recorder.reader import read_snapshot

    names, chosen = known_tables(options.tables), parse_settings(options.set)
    begun_s = time.monotonic()

    def show(number: int, count: int, reading: Reading) -> None:
        say(f"{time.monotonic() - begun_s:5.1f} s  {number} of {count}: {reading}")

    changes, tried = sensitivity(read_snapshot(options.store), names, chosen, show)
    columns = [field.name for field in msgspec.structs.fields(Change) if field.name != "parameter"]
    print_rows([msgspec.structs.asdict(change) for change in changes], columns, options.format)
    moved = {change.reading for change in changes}
    if still := [str(reading) for reading in tried if str(reading) not in moved]:
        say(f"nothing in these tables changes under: {', '.join(still)}")
    return 0
