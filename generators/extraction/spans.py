"""Spans that do not overlap, kept in order, and which of them another span touches."""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable


class Spans:
    """A growing set of spans ``(start, end)`` without overlaps; a question costs the logarithm of their number."""

    def __init__(self, spans: Iterable[tuple[int, int]] = ()) -> None:
        self._spans = sorted(spans)

    def add(self, start: int, end: int) -> None:
        """Add a span that touches no other."""
        insort(self._spans, (start, end))

    def touched(self, start: int, end: int) -> list[tuple[int, int]]:
        """Return the spans that have a character in common with a span, in order."""
        first = bisect_right(self._spans, (start, start))
        if first and self._spans[first - 1][1] > start:
            first -= 1
        return self._spans[first : bisect_left(self._spans, (end, -1))]
