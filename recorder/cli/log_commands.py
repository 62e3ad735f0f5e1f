"""The ``log`` commands, which inspect the events of a store, maintain the store, and move events between stores."""

import argparse
import io
import json
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import msgspec

from lhaw_record.recorder.cli import transfer_commands, upkeep_commands
from lhaw_record.recorder.cli.arguments import FORMAT, STORE, event_count, format_option
from lhaw_record.recorder.cli.command import Command, CommandGroup, argument, clear_errors
from lhaw_record.recorder.cli.output import print_json, print_rows, say
from lhaw_record.recorder.cli.terminal import Progress, visible
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.sharing.address import store_name

if TYPE_CHECKING:
    from lhaw_record.recorder.inspection.stat import Stat

TAIL_COLUMNS = ("recorded_at", "stream_id", "sequence", "type", "summary")
STAT_COLUMNS = ("what", "name", "count", "bytes")
_SECONDS_BETWEEN_LOOKS = 0.5


def tail_command(options: argparse.Namespace) -> int:
    """Print the last events and, with ``--follow``, new events as they arrive."""
    from lhaw_record.recorder.inspection.tail import Tail
    from lhaw_record.recorder.storage.manifest_check import check_manifest
    from lhaw_record.recorder.storage.store import Store

    with clear_errors("read", options.store):
        tail = Tail(options.store, options.stream)
        rows = [line.row() for line in tail.last(options.events)]
        if not options.follow:
            if not rows and options.events:
                check_manifest(Store(options.store))
            if options.stream and not rows and options.events:
                raise StoreError(
                    f"{store_name(options.store)} has no stream {options.stream!r}; 'log tail' shows names"
                )
            print_rows(rows, TAIL_COLUMNS, options.format)
            return 0
        header_lines = 0
        while True:
            if rows or not header_lines:
                _print_more(rows, options.format, header_lines)
                header_lines = {"table": 2, "csv": 1, "json": 0}[options.format]
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            rows = [line.row() for line in tail.new()]


def _print_more(rows: list[dict[str, Any]], form: str, printed_header_lines: int) -> None:
    """Print more rows without repeating the header; JSON output has one object per line."""
    if form == "json":
        sys.stdout.writelines(json.dumps(row) + "\n" for row in rows)
    else:
        text = io.StringIO()
        print_rows(rows, TAIL_COLUMNS, form, text)
        sys.stdout.writelines(visible(text.getvalue(), sys.stdout).splitlines(keepends=True)[printed_header_lines:])
    sys.stdout.flush()


def stat_command(options: argparse.Namespace) -> int:
    """Print the statistics of a store. Return exit code 3 if the store looks damaged."""
    from lhaw_record.recorder.inspection.stat import stat

    with clear_errors("read", options.store):
        found = stat(options.store)
    if options.format == "json":
        print_json(found)
    else:
        print_rows(list(_stat_rows(found)), STAT_COLUMNS, options.format)
    for problem in found.problems:
        say(problem)
    span = f", {_moment(found.first_us)} to {_moment(found.last_us)}" if found.first_us and found.last_us else ""
    each = f", {found.bytes_per_event:.0f} bytes each" if found.bytes_per_event else ""
    say(f"{found.store}: {found.events:,} events{each}{span}{_advice(options) if found.is_damaged else ''}")
    return 3 if found.is_damaged else 0


def _stat_rows(found: "Stat") -> Iterator[dict[str, Any]]:
    for name, count in found.event_types.items():
        yield {"what": "events", "name": name, "count": count}
    for name in ("closed", "live", "interrupted", "repeated"):
        yield {"what": "streams", "name": name, "count": getattr(found.streams, name)}
    for experiment in found.experiments:
        for name in ("events", "trials", "attempts", "finished", "failed"):
            yield {"what": experiment.experiment_id, "name": name, "count": getattr(experiment, name)}
    for kind, files in found.files.items():
        yield {"what": "files", "name": kind, "count": files.files, "bytes": files.bytes}
    yield {"what": "compaction", "name": "segments to merge", "count": found.mergeable_segments}
    yield {"what": "compaction", "name": "segments after the merge", "count": found.merged_segments}


def _moment(time_us: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time_us // 1_000_000))


def _advice(options: argparse.Namespace) -> str:
    name = store_name(options.store)
    return f"; restore the named files, or accept their loss: 'lhaw-record log repair {name} --accept-loss'"


def verify_command(options: argparse.Namespace) -> int:
    """Check a store. Return exit code 3 if something is damaged."""
    from lhaw_record.recorder.inspection.verify import verify

    with clear_errors("verify", options.store), Progress("events checked") as progress:
        report = verify(options.store, progress)
    if options.format == "json":
        print_json(report)
    elif report.findings:
        print_rows(
            [msgspec.to_builtins(found) for found in report.findings], ("file", "row", "problem"), options.format
        )
    if not report.has_manifest:
        say(f"{store_name(options.store)} has no manifest, so a missing file would go unnoticed")
    verdict = f"{len(report.findings)} problems{_advice(options)}" if report.findings else "all good"
    say(
        f"{store_name(options.store)}: {report.events} events in {report.streams} streams, {report.segments} segments "
        f"and {report.journals} journals; {report.open_streams} streams are open; {verdict}"
    )
    return 3 if report.findings else 0


COMMANDS = (
    CommandGroup(
        name="log",
        help="inspect, maintain and transfer the event stream of a store",
        description="Inspect the event stream of a store, maintain it, and transfer events between stores.",
        commands=(
            Command(
                name="tail",
                help="print the last events",
                description="Print the last events of a store. It works while a run is writing.",
                example="log tail stores/demo -n 20",
                arguments=(
                    STORE,
                    argument("-n", "--events", type=event_count, default=20, help="how many (default: %(default)s)"),
                    argument("--stream", help="only events of this stream (a run, or TRIAL-ATTEMPT)"),
                    argument("-f", "--follow", action="store_true", help="keep printing new events until interrupted"),
                    format_option("default: %(default)s; with --follow, json prints one object per line"),
                ),
                function=tail_command,
            ),
            Command(
                name="stat",
                help="count events, streams, trials and bytes",
                description="Count the events, streams, trials and files of a store without reading all of it.",
                example="log stat stores/demo",
                arguments=(STORE, FORMAT),
                function=stat_command,
            ),
            Command(
                name="verify",
                help="check every checksum, sequence and digest",
                description="Check every checksum, gap and digest of a store. Exit code 3 if something is damaged.",
                example="log verify stores/demo",
                arguments=(STORE, FORMAT),
                function=verify_command,
            ),
            *upkeep_commands.COMMANDS,
            *transfer_commands.COMMANDS,
        ),
    ),
)
