"""Arguments that several commands share, and parsers for argument values."""

import argparse
import math
from pathlib import Path

from lhaw_record.recorder.cli.command import Argument, argument
from lhaw_record.recorder.cli.output import FORMATS, STANDARD_STREAM
from lhaw_record.recorder.sharing.address import store_address

HIGHEST_PORT = 65_535

STORE = argument("store", type=store_address, help="the store's directory or shared address")
OUTPUT = argument(
    "-o",
    "--output",
    type=Path,
    default=STANDARD_STREAM,
    help="the file; .zst and .gz compress it (default: stdout)",
)


def store_option(help_text: str, *, required: bool = True) -> Argument:
    """Declare ``--store``."""
    return argument("--store", type=store_address, required=required, help=help_text)


def format_option(help_text: str = "default: %(default)s") -> Argument:
    """Declare ``--format`` for commands that print rows."""
    return argument("--format", choices=FORMATS, default="table", help=help_text)


FORMAT = format_option()
TARGET_STORE = store_option("the target store; created if it is missing")


def event_count(text: str) -> int:
    """Parse a number of events, at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of events")
    return int(text)


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return value


def positive_seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    value = float(text)
    if not 0 < value < math.inf:
        raise argparse.ArgumentTypeError("above 0")
    return value


def share(text: str) -> float:
    """Parse a share, 0 to 1."""
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not a share from 0 to 1")
    return value


def percentage_points(text: str) -> float:
    """Parse a number of percentage points, at least 0."""
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is not a number of percentage points of at least 0")
    return value


def port(text: str) -> int:
    """Parse a TCP port. Port 0 means any free port."""
    value = int(text)
    if not 0 <= value <= HIGHEST_PORT:
        raise argparse.ArgumentTypeError(
            f"{value} is not a TCP port; they go from 1 to {HIGHEST_PORT}, 0 takes a free one"
        )
    return value
