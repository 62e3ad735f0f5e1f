"""The command ``export``: what a store holds in the formats of others."""

import argparse
import sys
from contextlib import ExitStack
from pathlib import Path

from recorder.command_errors import clear_errors
from recorder.output import say
from recorder.sharing.address import place_of, store_address

_STANDARD = Path("-")
_HELP = {
    "hf": "classified variants as rows of the published dataset",
    "trials": "valid trials as trial JSON of the timing paper",
    "trajectories": "the actions of successful full trials, by task",
}


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``export`` with a command for each format."""
    parser = commands.add_parser(
        "export",
        help="write what a store holds in a format of others",
        description="Write what a store holds in a format of others, as one JSON document; docs/imports.md describes "
        "them. 'log export' writes the events themselves.",
    )
    formats = parser.add_subparsers(required=True, metavar="FORMAT")
    for name, text in _HELP.items():
        one = formats.add_parser(
            name,
            help=text,
            description=f"Export {text}.",
            epilog=f"example: lhaw-record export {name} stores/demo -o {name}.json",
        )
        one.add_argument("store", type=store_address, help="the store's directory or shared address")
        one.add_argument(
            "-o", "--output", type=Path, default=_STANDARD, help="the file; .zst and .gz compress it (default: stdout)"
        )
        one.add_argument("--experiment", help="only what belongs to this experiment")
        if name == "hf":
            one.add_argument("--selection", metavar="NAME", help="only the variants of this selection; see 'select'")
        one.set_defaults(function=export_command, export_format=name)


def export_command(options: argparse.Namespace) -> int:
    """Write one export; 1 when there is nothing to write."""
    from analytics.exports import EXPORTS
    from recorder.transfer.export import export_file

    with clear_errors("export", options.store):
        more = {"selection": options.selection} if options.export_format == "hf" else {}
        exported = EXPORTS[options.export_format](options.store, options.experiment, **more)
        if exported.count:
            with ExitStack() as opened:
                is_file = options.output != _STANDARD
                out = opened.enter_context(export_file(options.output)) if is_file else sys.stdout.buffer
                out.write(exported.to_bytes())
    place = place_of(options.store)
    result = f"{exported.count} {exported.what} exported" if exported.count else f"no {exported.what} to export"
    say("; ".join([f"{place}: {result}", *(f"left out: {each}" for each in exported.left_out)]))
    return 0 if exported.count else 1
