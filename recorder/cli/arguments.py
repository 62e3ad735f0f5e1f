"""Arguments that several commands share, and parsers for argument values."""

import argparse
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from lhaw_record.recorder.cli.command import Argument, argument
from lhaw_record.recorder.cli.output import FORMATS, STANDARD_STREAM
from lhaw_record.recorder.sharing.address import store_address

N = TypeVar("N", int, float)

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
    return _within(int, text, 0, math.inf, "a number of events")


def positive(text: str) -> int:
    """Parse an integer of at least 1."""
    return _within(int, text, 1, math.inf, "a whole number of at least 1")


def positive_seconds(text: str) -> float:
    """Parse a number of seconds above 0."""
    return _within(float, text, sys.float_info.min, sys.float_info.max, "a number above 0")


def share(text: str) -> float:
    """Parse a share, 0 to 1."""
    return _within(float, text, 0, 1, "a share from 0 to 1")


def percentage_points(text: str) -> float:
    """Parse a number of percentage points, at least 0."""
    return _within(float, text, 0, sys.float_info.max, "a number of percentage points of at least 0")


def port(text: str) -> int:
    """Parse a TCP port. Port 0 means any free port."""
    return _within(int, text, 0, 65_535, "a TCP port; ports go from 1 to 65535, and 0 takes a free one")


def _within(parse: Callable[[str], N], text: str, least: float, most: float, what: str) -> N:
    with suppress(ValueError):
        if least <= (value := parse(text)) <= most:
            return value
    raise argparse.ArgumentTypeError(f"{text!r} is not {what}")
