"""The command ``export``, which writes the contents of a store in published formats."""

import argparse
import json
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from lhaw_record.recorder.cli.arguments import OUTPUT, STORE, percentage_points, share
from lhaw_record.recorder.cli.command import Command, CommandGroup, argument, clear_errors
from lhaw_record.recorder.cli.output import new_folder, open_output, say
from lhaw_record.recorder.sharing.address import store_name

_HELP = {
    "hf": "classified variants as rows of the published dataset, a folder with a card",
    "trials": "valid trials as trial JSON of the timing paper",
    "trajectories": "the actions of successful full trials, by task",
    "atif": "valid trials in Harbor's interchange format, a folder of documents",
    "harbor-job": "valid trials as Harbor jobs, a folder that 'harbor view' opens",
    "training": "valid trials as chat messages with rewards, a folder of JSON Lines for TRL and verl",
    "harbor": "harbor tasks and their variants as task folders in Harbor's format",
    "inspect": "valid trials as logs of inspect_ai, a folder of .eval files",
    "otlp": "attempts as OpenTelemetry spans, OTLP in JSON Lines",
    "duckdb": "every mart and table as one DuckDB file, for DataGrip, Metabase or Evidence",
}
_SUFFIXES = {"trials": ".json", "trajectories": ".json", "duckdb": ".duckdb", "otlp": ".jsonl"}
"""The extensions of exports that are files. The others are folders."""
_CARD = "README.md"
_EXAMPLES = {"harbor": "--tasks my-dataset "}


def export_command(export_format: str, options: argparse.Namespace) -> int:
    """Write one export and return the exit code: 1 if there is nothing to export."""
    from lhaw_record.analytics.exports import EXPORTS, ExportFolder
    from lhaw_record.recorder.transfer.export import events_name

    with clear_errors("export", options.store):
        more = {name: getattr(options, name) for name in _OPTIONS.get(export_format, {})}
        exported = EXPORTS[export_format](options.store, options.experiment, **more)
        told = _left_out(options.store, options.experiment, exported.left_out)
        if isinstance(exported, ExportFolder):
            if exported.count:
                card = "".join(f"\nL{each[1:]}.\n" for each in told).encode()
                with new_folder(options.output) as made:
                    for name, content in {**exported.files, **exported.unread}.items():
                        (made / name).parent.mkdir(parents=True, exist_ok=True)
                        (made / name).write_bytes(content + card if name == _CARD else content)
                    if exported.has_events:
                        _write_events(options, made / events_name(exported.files.values()))
        elif exported.count:
            with open_output(options.output) as out:
                out.write(exported.to_bytes())
    notes = exported.notes if isinstance(exported, ExportFolder) else ()
    return _said(options.store, exported.count, exported.what, *notes, *told)


def _write_events(options: argparse.Namespace, path: Path) -> None:
    """Write the events and artifacts of the store, as ``log export`` does."""
    from lhaw_record.recorder.storage.store import Store
    from lhaw_record.recorder.transfer.export import contents, export_file, write_export
    from lhaw_record.recorder.transfer.whole_streams import StreamSelection

    with export_file(path) as out:
        write_export(contents(Store(options.store), StreamSelection(experiment_id=options.experiment)), out)


def database_command(options: argparse.Namespace) -> int:
    """Write the DuckDB file and return the exit code: 1 if the store has no trials."""
    from lhaw_record.analytics.exports import database_file

    with clear_errors("export", options.store), tempfile.TemporaryDirectory(prefix="lhaw-record-") as scratch:
        path = Path(scratch) / "export.duckdb"
        count = database_file(options.store, path)
        if count:
            with path.open("rb") as made, open_output(options.output) as out:
                shutil.copyfileobj(made, out)
    return _said(options.store, count, "tables", *_left_out(options.store))


def harbor_command(options: argparse.Namespace) -> int:
    """Write the task folders and return the exit code: 1 if the store has no variant of the dataset."""
    from lhaw_record.analytics.exports import harbor_folders, write_harbor_folders

    with clear_errors("export", options.store):
        found = harbor_folders(options.store, options.tasks, options.experiment, selection=options.selection)
        if found.folders:
            with new_folder(options.output) as made:
                write_harbor_folders(found.folders, made)
    count = sum(each.variant is not None for each in found.folders)
    return _said(options.store, count, "variants", *_left_out(options.store, options.experiment, found.left_out))


def otlp_command(options: argparse.Namespace) -> int:
    """Write one line per attempt recorded in this store and return the exit code: 1 if there is none."""
    from lhaw_record.recorder.storage.store import Store
    from lhaw_record.recorder.transfer.otlp import is_timed_trial, trace_of
    from lhaw_record.recorder.transfer.whole_streams import StreamSelection, whole_streams

    count = left = 0
    with clear_errors("export", options.store), ExitStack() as opened:
        out = None
        for stream in whole_streams(Store(options.store), StreamSelection(experiment_id=options.experiment)):
            if is_timed_trial(stream):
                out = out or opened.enter_context(open_output(options.output))
                out.write(json.dumps(trace_of(stream), ensure_ascii=False).encode() + b"\n")
                count += 1
            elif stream[0].trial_id is not None:
                left += 1
    told = [f"{left} attempts that have not ended, or were imported and have no times"] if left else []
    return _said(options.store, count, "traces", *_left_out(options.store, options.experiment, told))


def _said(store: Path, count: int, what: str, *more: str) -> int:
    result = f"{count} {what} exported" if count else f"no {what} to export"
    say("; ".join([f"{store_name(store)}: {result}", *more]))
    return 0 if count else 1


def _left_out(store: Path, experiment: str | None = None, reasons: Sequence[str] = ()) -> tuple[str, ...]:
    """Return what an export leaves out, and what the plans had left out before."""
    from lhaw_record.analytics.exports import tasks_left_out

    return tuple(f"left out: {each}" for each in (*reasons, *tasks_left_out(store, experiment)))


def _folder(text: str) -> Path:
    path = Path(text)
    if path.suffix in (".gz", ".zst"):
        raise argparse.ArgumentTypeError(
            f"{text}: this export is a folder and is not compressed; leave {path.suffix} out"
        )
    return path


_FOLDER = argument("-o", "--output", type=_folder, required=True, help="the new folder")
_EXPERIMENT = argument("--experiment", help="only this experiment")
_COMMANDS = {"duckdb": database_command, "harbor": harbor_command, "otlp": otlp_command}
_SELECTION = argument("--selection", metavar="NAME", help="only the variants of this selection; see 'select'")
_OPTIONS = {
    "hf": {"selection": _SELECTION},
    "harbor": {
        "tasks": argument(
            "--tasks",
            type=Path,
            metavar="FOLDER",
            required=True,
            help="the folder with the task folders from which the variants were made",
        ),
        "selection": _SELECTION,
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
        description="Write the contents of a store in a published format, as one file or a folder; "
        "docs/exports.md describes the formats. 'log export' writes the events themselves.",
        metavar="FORMAT",
        commands=tuple(
            Command(
                name=name,
                help=text,
                description=f"Export {text}.",
                example=f"export {name} stores/demo {_EXAMPLES.get(name, '')}-o {name}{_SUFFIXES.get(name, '')}",
                arguments=(
                    STORE,
                    OUTPUT if name in _SUFFIXES else _FOLDER,
                    *(() if name == "duckdb" else (_EXPERIMENT,)),
                    *_OPTIONS.get(name, {}).values(),
                ),
                function=_COMMANDS.get(name, partial(export_command, name)),
            )
            for name, text in _HELP.items()
        ),
    ),
)
