"""The ``log`` commands: look at a store's events, check them, and close what a dead process left open."""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from recorder.output import FORMATS, print_rows

TAIL_COLUMNS = ("recorded_at", "stream_id", "sequence", "type", "summary")


def add_commands(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``log`` and its verbs to the program."""
    log = commands.add_parser(
        "log",
        help="look at, verify and recover the event stream of a store",
        description="Look at, verify and recover the event stream of a store.",
    )
    verbs = log.add_subparsers(required=True, metavar="VERB")

    tail = verbs.add_parser(
        "tail",
        help="print the last events",
        description="Print the last events of a store, also while a run is writing.",
        epilog="example: lhaw-record log tail stores/demo -n 20",
    )
    tail.add_argument("store", type=Path, help="the store's directory")
    tail.add_argument("-n", "--events", type=int, default=20, help="how many (default: %(default)s)")
    tail.add_argument("--stream", help="only events of this stream (a run, or TRIAL-ATTEMPT)")
    tail.add_argument("-f", "--follow", action="store_true", help="go on printing new events until interrupted")
    tail.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    tail.set_defaults(function=tail_command)

    verify = verbs.add_parser(
        "verify",
        help="check every checksum, sequence and digest",
        description="Check every checksum, gap and digest of a store. Exit code 3 when something is damaged.",
        epilog="example: lhaw-record log verify stores/demo",
    )
    verify.add_argument("store", type=Path, help="the store's directory")
    verify.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    verify.set_defaults(function=verify_command)

    recover = verbs.add_parser(
        "recover",
        help="close and seal the journals of dead processes",
        description="Close and seal the journals that dead processes left open. 'run' does this for its experiment.",
        epilog="example: lhaw-record log recover stores/demo --dry-run",
    )
    recover.add_argument("store", type=Path, help="the store's directory")
    recover.add_argument("--dry-run", action="store_true", help="only say what would be done")
    recover.add_argument("--format", choices=FORMATS, default="table", help="default: %(default)s")
    recover.set_defaults(function=recover_command)


def tail_command(options: argparse.Namespace) -> int:
    """Print the last events."""
    from recorder.tail import last_events

    seen: set[tuple[str, int]] = set()
    while True:
        rows = [row for row in last_events(options.store, options.events, options.stream) if _key(row) not in seen]
        seen.update(_key(row) for row in rows)
        if rows or not options.follow:
            print_rows(rows, TAIL_COLUMNS, options.format)
            sys.stdout.flush()
        if not options.follow:
            return 0
        time.sleep(0.5)


def _key(row: dict[str, Any]) -> tuple[str, int]:
    return row["stream_id"], row["sequence"]


def verify_command(options: argparse.Namespace) -> int:
    """Check a store; 3 when something is damaged."""
    import msgspec

    from recorder.verify import verify

    report = verify(options.store)
    if options.format == "json":
        sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
    elif report.findings:
        print_rows(
            [msgspec.to_builtins(found) for found in report.findings], ("file", "row", "problem"), options.format
        )
    verdict = f"{len(report.findings)} problems" if report.findings else "all good"
    print(  # noqa: T201 - narration
        f"{options.store}: {report.events} events in {report.streams} streams, {report.segments} segments and "
        f"{report.journals} journals; {report.open_streams} streams are open; {verdict}",
        file=sys.stderr,
    )
    return 3 if report.findings else 0


def recover_command(options: argparse.Namespace) -> int:
    """Close and seal what dead processes left."""
    import msgspec

    from recorder.recovery import recover
    from recorder.store import Store

    store = Store(options.store) if options.dry_run else Store.create(options.store)
    reports = recover(store, is_dry_run=options.dry_run)
    rows = [{**msgspec.to_builtins(report), "closed_streams": len(report.closed_streams)} for report in reports]
    print_rows(rows, ("journal", "action", "records", "torn_bytes", "closed_streams"), options.format)
    return 0
