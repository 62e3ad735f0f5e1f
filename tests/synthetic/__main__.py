"""Write a synthetic experiment of any size to measure with: ``python -m tests.synthetic``."""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from lhaw_record.recorder.cli.output import say
from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.processes import refuse_pandas

SECONDS_BETWEEN_LINES = 5.0
MOST_SEEDS = 2**31


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the store that the command line describes; returns 1 where it cannot be made."""
    make = argparse.ArgumentParser(
        prog="python -m tests.synthetic",
        description="Write a seeded synthetic experiment of about so many events (60 to a trial) through the recorder. "
        "The same numbers give the same events, apart from times and writers.",
        epilog="example: python -m tests.synthetic stores/large --events 10000000 --writers 2",
    )
    make.add_argument("store", type=Path, metavar="DIR", help="the store's directory, new or with other experiments")
    make.add_argument("--events", type=_count(1, 10**9), required=True, metavar="N", help="how many events, about")
    make.add_argument("--seed", type=_count(0, MOST_SEEDS), default=0, metavar="N", help="default: %(default)s")
    make.add_argument("--experiment", default="synthetic", metavar="NAME", help="its name (default: %(default)s)")
    make.add_argument(
        "--writers", type=_count(1, 64), default=1, metavar="N", help="processes that write (default: %(default)s)"
    )
    return make_store_command(make.parse_args(arguments))


def make_store_command(options: argparse.Namespace) -> int:
    """Make a store, with progress on standard error."""
    from tests.synthetic.design import Design
    from tests.synthetic.making import make_store

    design = Design(options.seed, options.events, options.experiment)
    try:
        made = make_store(options.store, design, writers=options.writers, on_events=_Progress(options.events).show)
    except RecorderError as error:
        say(str(error))
        return 1
    say(
        f"{options.store}: {made.events:,} events of {made.trials:,} trials on {made.tasks} tasks and {made.variants} "
        f"variants, in {made.seconds:.0f} s"
    )
    return 0


class _Progress:
    """A line every few seconds."""

    def __init__(self, wanted: int) -> None:
        self._wanted = wanted
        self._began_s = self._shown_s = time.monotonic()

    def show(self, events: int) -> None:
        """Say how many events there are, if the last line is a while ago."""
        now_s = time.monotonic()
        if now_s - self._shown_s < SECONDS_BETWEEN_LINES:
            return
        self._shown_s = now_s
        seconds = now_s - self._began_s
        say(f"{seconds:5.0f} s  {events:,} of about {self._wanted:,} events, {events / seconds:,.0f} a second")


class _count:  # noqa: N801 - named as argparse's own types
    """A whole number between two bounds."""

    def __init__(self, low: int, high: int) -> None:
        self._low = low
        self._high = high

    def __call__(self, text: str) -> int:
        try:
            number = int(text.replace("_", ""))
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no whole number") from None
        if not self._low <= number <= self._high:
            raise argparse.ArgumentTypeError(f"{text} is not between {self._low} and {self._high}")
        return number


if __name__ == "__main__":
    refuse_pandas()
    sys.exit(main())
