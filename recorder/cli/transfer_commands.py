"""The commands ``log export``, which writes events into one file, and ``log import``, which reads them into a store."""

import argparse
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from lhaw_record.recorder.cli.arguments import FORMAT, OUTPUT, STORE, TARGET_STORE
from lhaw_record.recorder.cli.command import Command, argument, clear_errors, flag
from lhaw_record.recorder.cli.output import STANDARD_STREAM, open_output, print_json, print_rows, say
from lhaw_record.recorder.cli.terminal import Progress
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.sharing.address import store_address, store_name

if TYPE_CHECKING:
    from lhaw_record.recorder.events import Envelope
    from lhaw_record.recorder.storage.store import Store
    from lhaw_record.recorder.transfer.export import Blob
    from lhaw_record.recorder.transfer.import_file import ImportLimits

IMPORT_COLUMNS = ("experiment_id", "streams", "events", "skipped", "open", "conflicts")
LIMITS = {
    "stream_mb": "refuse a line or a stream larger than this, in MB (default: 256); both are held in memory",
    "stream_events": "refuse a stream with more events (default: 200000)",
    "total_mb": "refuse a file that unpacks to more than this, in MB (default: 65536)",
}


def export_command(options: argparse.Namespace) -> int:
    """Write events and artifacts to one file."""
    from lhaw_record.recorder.storage.store import Store
    from lhaw_record.recorder.transfer.export import contents, write_export
    from lhaw_record.recorder.transfer.whole_streams import StreamSelection

    selection = StreamSelection(experiment_id=options.experiment, trial_id=options.trial, stream_id=options.stream)
    with clear_errors("export", options.store), Progress("events exported") as progress:
        store = Store(options.store)
        source = contents(store, selection, has_blobs=not options.no_blobs, on_progress=progress)
        with open_output(options.output) as out:
            end = write_export(source, out)
            if not end.events and selection != StreamSelection():
                raise StoreError(
                    f"{store.name} has no such events; 'lhaw-record log stat' and 'log tail' show what it contains"
                )
    say(f"{store.name}: {end.events} events in {end.streams} streams and {end.blobs} artifacts exported")
    return 0


def import_command(options: argparse.Namespace) -> int:
    """Import streams into a store. Return exit code 1 if any stream conflicts with a stored one."""
    from lhaw_record.recorder.transfer.import_streams import import_streams

    with (
        clear_errors("import into", options.store),
        Progress("events checked") as progress,
        _source(options.source, _limits(options)) as source,
    ):
        done = import_streams(_target(options), source, is_dry_run=options.dry_run, on_progress=progress)
    if options.format == "json":
        print_json(done)
    else:
        rows = [
            {**msgspec.structs.asdict(each), "open": len(each.open_streams), "conflicts": len(each.conflicts)}
            for each in done
        ]
        print_rows(rows, IMPORT_COLUMNS, options.format)
    _name(
        "has not ended and was left out; import it after it has ended",
        [name for each in done for name in each.open_streams],
    )
    conflicts = [name for each in done for name in each.conflicts]
    _name(f"is in {store_name(options.store)} with other events; the stream there was not changed", conflicts)
    if missing := sum(each.missing_blobs for each in done):
        say(f"{missing} artifacts are neither in the import nor in the store")
    return 1 if conflicts else 0


def _name(what: str, streams: list[str]) -> None:
    """Print a message for each of the first ten streams, and one that counts the others."""
    for name in streams[:10]:
        say(f"stream {name} {what}")
    if len(streams) > 10:
        say(f"the same applies to {len(streams) - 10} more streams; --format json lists all of them")


def _target(options: argparse.Namespace) -> "Store | None":
    """Return the store to import into, or None if this is a dry run and the store does not exist."""
    from lhaw_record.recorder.storage.creation import create_store
    from lhaw_record.recorder.storage.store import Store, has_store

    if not options.dry_run:
        return create_store(options.store)
    return Store(options.store) if has_store(options.store) else None


def _limits(options: argparse.Namespace) -> "ImportLimits":
    from lhaw_record.recorder.transfer.import_file import ImportLimits

    given = {name: getattr(options, f"max_{name}") for name in LIMITS}
    return ImportLimits(**{name: value for name, value in given.items() if value is not None})


@contextmanager
def _source(source: Path, limits: "ImportLimits") -> "Iterator[Iterable[Blob | list[Envelope]]]":
    """Open the source of an import: an export file, standard input or another store."""
    from lhaw_record.recorder.storage.store import Store
    from lhaw_record.recorder.transfer.export import contents
    from lhaw_record.recorder.transfer.import_file import export_lines, read_export

    if source.is_dir():
        yield contents(Store(source))
    elif source == STANDARD_STREAM:
        with export_lines(sys.stdin.buffer, limits) as lines:
            yield read_export(lines, "standard input", limits)
    else:
        with export_lines(source, limits) as lines:
            yield read_export(lines, str(source), limits)


COMMANDS = (
    Command(
        name="export",
        help="write events and artifacts into one file",
        description="Write events and artifacts as JSON Lines: one event per line, stream by stream. "
        "docs/log-format.md describes the format.",
        example="log export stores/demo -o demo.jsonl.zst --experiment demo",
        arguments=(
            STORE,
            OUTPUT,
            argument("--experiment", help="only events of this experiment"),
            argument("--trial", help="only attempts of this trial; a unique prefix is enough"),
            argument("--stream", help="only events of this stream (a run, or TRIAL-ATTEMPT)"),
            flag("--no-blobs", "leave out the bytes of artifacts"),
        ),
        function=export_command,
    ),
    Command(
        name="import",
        help="import events from an export or another store",
        description="Import the streams of an export or of another store. Streams are imported whole. Streams that the "
        "store already has are skipped. If the store has a stream with the same name and different events, this is a "
        "conflict, and the store's stream does not change. Streams that have not ended are left out.",
        example="log import demo.jsonl.zst --store stores/all",
        arguments=(
            argument("source", type=store_address, help="a file of 'log export', - for stdin, or another store"),
            TARGET_STORE,
            *(
                argument(f"--max-{name.replace('_', '-')}", type=int, metavar="N", help=what)
                for name, what in LIMITS.items()
            ),
            flag("--dry-run", "only check, and print what would be imported"),
            FORMAT,
        ),
        function=import_command,
    ),
)
