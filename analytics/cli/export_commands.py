"""The command ``export``, which writes the contents of a store in published formats."""

import argparse
from functools import partial

from recorder.cli.arguments import OUTPUT, STORE, percentage_points, share
from recorder.cli.command import Command, CommandGroup, argument
from recorder.cli.command_errors import clear_errors
from recorder.cli.output import open_output, say, write_folder
from recorder.sharing.address import place_of

_HELP = {
    "hf": "classified variants as rows of the published dataset",
    "trials": "valid trials as trial JSON of the timing paper",
    "trajectories": "the actions of successful full trials, by task",
    "atif": "valid trials in Harbor's interchange format, a folder of documents",
    "training": "valid trials as chat messages with rewards, a folder of JSON Lines for TRL and verl",
}
_FOLDERS = ("atif", "training")


def export_command(export_format: str, options: argparse.Namespace) -> int:
    """Write one export and return the exit code, which is 1 if there is nothing to export."""
    from analytics.exports import EXPORTS, ExportFolder

    with clear_errors("export", options.store):
        more = {name: getattr(options, name) for name in _OPTIONS.get(export_format, {})}
        exported = EXPORTS[export_format](options.store, options.experiment, **more)
        if isinstance(exported, ExportFolder):
            if exported.count:
                write_folder(options.output, exported.files)
        elif exported.count:
            with open_output(options.output) as out:
                out.write(exported.to_bytes())
    place = place_of(options.store)
    result = f"{exported.count} {exported.what} exported" if exported.count else f"no {exported.what} to export"
    notes = exported.notes if isinstance(exported, ExportFolder) else ()
    say("; ".join([f"{place}: {result}", *notes, *(f"left out: {each}" for each in exported.left_out)]))
    return 0 if exported.count else 1


_EXPERIMENT = argument("--experiment", help="only this experiment")
_OPTIONS = {
    "hf": {
        "selection": argument("--selection", metavar="NAME", help="only the variants of this selection; see 'select'")
    },
    "training": {
        "test_share": argument(
            "--test-share",
            type=share,
            default=0.1,
            help="expected share of the tasks in split test (default: %(default)s)",
        ),
        "question_cost_pp": argument(
            "--question-cost-pp",
            type=percentage_points,
            default=5.0,
            help="cost of a question in net_value, percentage points (default: %(default)s)",
        ),
    },
}

COMMANDS = (
    CommandGroup(
        name="export",
        help="write the contents of a store in a published format",
        description="Write the contents of a store in a published format, as one JSON document or a folder; "
        "docs/exports.md describes "
        "the formats. 'log export' writes the events themselves.",
        metavar="FORMAT",
        commands=tuple(
            Command(
                name=name,
                help=text,
                description=f"Export {text}.",
                example=f"export {name} stores/demo -o {name}{'' if name in _FOLDERS else '.json'}",
                arguments=(STORE, OUTPUT, _EXPERIMENT, *_OPTIONS.get(name, {}).values()),
                function=partial(export_command, name),
            )
            for name, text in _HELP.items()
        ),
    ),
)
