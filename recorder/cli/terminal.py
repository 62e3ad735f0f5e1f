"""Terminal output: width, colours, lines that fit, and progress."""

import os
import re
import shutil
import sys
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self, TextIO

BOLD, QUIET, RED = "1", "2", "31"
_LEAST_WIDTH = 40
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def terminal_width(out: TextIO) -> int | None:
    """Return the width of a terminal in characters, or None if ``out`` is not a terminal."""
    if not out.isatty():
        return None
    return max(_LEAST_WIDTH, shutil.get_terminal_size((80, 24)).columns)


def takes_colours(out: TextIO) -> bool:
    """Return whether ``out`` is a terminal that supports colours (https://no-color.org)."""
    return out.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def painted(text: str, code: str, out: TextIO) -> str:
    """Return the text in a style if ``out`` is a terminal that supports colours, otherwise unchanged."""
    if not text or not takes_colours(out):
        return text
    return f"\x1b[{code}m{text}\x1b[0m"


def visible(text: str, out: TextIO) -> str:
    r"""Escape control characters, as in ``\x1b``, if ``out`` is a terminal; line breaks and tabs are kept.

    Agents write much of the displayed text, and control characters can change a terminal's title or clipboard.
    """
    return _CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}", text) if out.isatty() else text


def shortened(text: str, width: int) -> str:
    """Truncate a text to ``width`` characters, with ``…`` at the end if it was longer."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def fitting_widths(widths: Sequence[int], width: int, *, narrowest: int = 10) -> tuple[list[int], int]:
    """Shrink the widest columns until a line fits, and drop the last columns if that is not enough."""
    gap, shown = 2, list(widths)
    while len(shown) > 1 and sum(min(each, narrowest) + gap for each in shown) - gap > width:
        shown.pop()
    while (excess := sum(shown) + gap * (len(shown) - 1) - width) > 0:
        widest = max(shown)
        second = max((each for each in shown if each < widest), default=1)
        count = shown.count(widest)
        step = max(1, min(widest - second, -(-excess // count)))
        shown = [each - step if each == widest else each for each in shown]
    return shown, len(widths) - len(shown)


SECONDS_BEFORE_LINE = 1.0
SECONDS_BETWEEN_LINES = 5.0
_SECONDS_BETWEEN_PAINTS = 0.2
_CLEAR = "\r\x1b[K"


class Progress:
    """A context manager that shows progress, but prints nothing if the work ends quickly.

    Args:
        what: What is counted, for example ``events checked``.
        out: The output stream. None means standard error.
    """

    def __init__(self, what: str, out: TextIO | None = None) -> None:
        self._what = what
        self._out = out or sys.stderr
        self._is_terminal = self._out.isatty()
        self._began = time.monotonic()
        self._due = self._began + (SECONDS_BEFORE_LINE if self._is_terminal else SECONDS_BETWEEN_LINES)
        self._is_painted = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_painted:
            self._out.write(_CLEAR)
            self._out.flush()

    def __call__(self, done: int, total: int | None) -> None:
        """Show how much is done; ``total`` is None if unknown."""
        now = time.monotonic()
        if now < self._due:
            return
        of_all = f" of {total:,} ({done / total:.0%})" if total else ""
        line = f"{now - self._began:.0f} s  {done:,}{of_all} {self._what}"
        self._is_painted = self._is_terminal
        self._due = now + (_SECONDS_BETWEEN_PAINTS if self._is_terminal else SECONDS_BETWEEN_LINES)
        self._out.write(f"{_CLEAR}{line}" if self._is_terminal else f"{line}\n")
        self._out.flush()
