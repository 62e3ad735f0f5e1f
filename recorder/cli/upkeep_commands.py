"""The commands ``log recover``, ``log repair`` and ``log compact``, which maintain a store."""

import argparse
from typing import TYPE_CHECKING

import msgspec

from lhaw_record.recorder.cli.arguments import FORMAT, STORE
from lhaw_record.recorder.cli.command import Command, argument, clear_errors, flag
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.cli.terminal import Progress
from lhaw_record.recorder.sharing.address import store_name

if TYPE_CHECKING:
    from lhaw_record.recorder.storage.store import Store

RECOVER_COLUMNS = ("journal", "action", "records", "torn_bytes", "closed_streams")
COMPACT_COLUMNS = ("action", "experiment_id", "segments", "records", "path")


def recover_command(options: argparse.Namespace) -> int:
    """Close and seal the journals that dead processes left open."""
    from lhaw_record.recorder.recovery.recovery import recover
    from lhaw_record.recorder.storage.store import Store

    with clear_errors("recover", options.store):
        store = Store(options.store) if options.dry_run else _for_writing(options)
        reports = recover(store, is_dry_run=options.dry_run)
    rows = [{**msgspec.to_builtins(report), "closed_streams": len(report.closed_streams)} for report in reports]
    print_rows(rows, RECOVER_COLUMNS, options.format)
    return 0


def repair_command(options: argparse.Namespace) -> int:
    """Accept the loss of files."""
    from lhaw_record.recorder.recovery.recovery import accept_loss
    from lhaw_record.recorder.storage.creation import restore_marker
    from lhaw_record.recorder.storage.manifest_check import find_losses
    from lhaw_record.recorder.storage.store import Store

    with clear_errors("repair", options.store):
        restored = [] if options.dry_run else restore_marker(options.store)
        lost = find_losses(Store(options.store)) if options.dry_run else accept_loss(_for_writing(options))
    print_rows([msgspec.to_builtins(each) for each in restored + lost], ("file", "text"), options.format)
    return 0


def compact_command(options: argparse.Namespace) -> int:
    """Merge small segments. Return exit code 1 if another process is compacting the store."""
    from lhaw_record.recorder.sealing.compaction import compact
    from lhaw_record.recorder.storage.store import Store

    with clear_errors("compact", options.store), Progress("events merged") as progress:
        store = Store(options.store) if options.dry_run else _for_writing(options)
        done = compact(store, experiment_id=options.experiment, is_dry_run=options.dry_run, on_progress=progress)
    if done is None:
        say(
            f"lhaw-record: another process is compacting {store_name(options.store)}; "
            "run the same command again when it has ended"
        )
        return 1
    rows = [{**msgspec.structs.asdict(each), "path": str(each.path.relative_to(options.store))} for each in done]
    print_rows(rows, COMPACT_COLUMNS, options.format)
    return 0


def _for_writing(options: argparse.Namespace) -> "Store":
    """Open the store for writing, but do not create a missing store."""
    from lhaw_record.recorder.storage.creation import create_store
    from lhaw_record.recorder.storage.store import Store, has_store

    return create_store(options.store) if has_store(options.store) else Store(options.store)


_DRY_RUN = flag("--dry-run", "only print what would be done")

COMMANDS = (
    Command(
        name="recover",
        help="close and seal the journals of dead processes",
        description="Close and seal the journals that dead processes left open. 'run' does this for its experiment.",
        example="log recover stores/demo --dry-run",
        arguments=(STORE, _DRY_RUN, FORMAT),
        function=recover_command,
    ),
    Command(
        name="repair",
        help="accept that files of a store are lost",
        description="Accept that files are missing or damaged, print what they contained, and close the streams whose "
        "end is missing, so that their trials can run again. Damaged files are moved into the folder damaged/.",
        example="log repair stores/demo --accept-loss --dry-run",
        arguments=(
            STORE,
            argument(
                "--accept-loss", action="store_true", required=True, help="confirm that the data will not come back"
            ),
            _DRY_RUN,
            FORMAT,
        ),
        function=repair_command,
    ),
    Command(
        name="compact",
        help="merge small segments into larger ones",
        description="Merge the small segments of each experiment, and remove those that were merged over an hour ago. "
        "'run' does this for its experiment. Readers and writers need not stop.",
        example="log compact stores/demo --dry-run",
        arguments=(STORE, argument("--experiment", help="only segments of this experiment"), _DRY_RUN, FORMAT),
        function=compact_command,
    ),
)
