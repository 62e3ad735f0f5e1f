"""Where a removed value stands in a prompt: its own place, and every other place in any of its forms."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

import msgspec

from generators.rewriting.forms import QUOTES, Form, forms
from recorder.values import Segment
from runners.folding import Folded, folded_with_places
from runners.users.wording import lexicon, stem

_MARK_BEFORE = re.compile(r"[`\"'\u201c\u2018]$")
_LIST_NUMBER = re.compile(r"(?m)^[ \t]*(\d+)(?=[.)][ \t])")
_WORD_BEFORE = re.compile(r"([^\W_][\w'-]*)[^\w\n]*$")
_WORD_AFTER = re.compile(r"[^\w\n]*([^\W_][\w'-]*)")
_NEIGHBOUR_CHARS = 40


class Occurrence(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A place of a value: from ``start`` up to ``end``; ``is_own`` where the segment says that it stands."""

    start: int
    end: int
    is_own: bool = False


class Prompt:
    """A prompt that is searched for several values; folded once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._folded: dict[bool, Folded] = {}
        self._list_numbers = {match.span(1) for match in _LIST_NUMBER.finditer(text)}

    def occurrences(self, segment: Segment, original: "Prompt | None" = None) -> tuple[Occurrence, ...]:
        """Return where a segment's value stands, in order and without overlaps.

        Args:
            segment: The segment.
            original: The prompt that the segment is of, where this is a rewritten one: a small number or a common
                word counts only beside the words that it stood beside there.
        """
        own = None if original else self.own_place(segment)
        company = (original or self).company(segment)
        found = {} if own is None else {own: True}
        for form in forms(segment):
            for place in self._folded_text(keep_zeros=form.keep_zeros).places(form.pattern):
                if self._counts(place, form, company):
                    found.setdefault(place, False)
        return tuple(_without_overlaps(found))

    def own_place(self, segment: Segment) -> tuple[int, int] | None:
        """Return where the value stands in the segment's text, or first at all; None where it does not."""
        if segment.text and segment.value in segment.text:
            at = self.text.find(segment.text)
            if at >= 0:
                start = at + segment.text.index(segment.value)
                return _stripped(self.text, start, start + len(segment.value))
        start = self.text.find(segment.value)
        return None if start < 0 else _stripped(self.text, start, start + len(segment.value))

    def company(self, segment: Segment) -> frozenset[str]:
        """Return the stems of the words directly before and after the value's own place that mean something."""
        own = self.own_place(segment)
        return frozenset() if own is None else frozenset(self._neighbours(own))

    def _neighbours(self, place: tuple[int, int]) -> Iterator[str]:
        start, end = place
        before = _WORD_BEFORE.search(self.text[max(0, start - _NEIGHBOUR_CHARS) : start])
        after = _WORD_AFTER.match(self.text[end : end + _NEIGHBOUR_CHARS])
        for match, side in ((before, "before"), (after, "after")):
            if match and match[1].lower() not in lexicon().stop_terms:
                yield f"{side} {stem(match[1].lower())}"

    def _folded_text(self, *, keep_zeros: bool) -> Folded:
        if keep_zeros not in self._folded:
            folded = folded_with_places(self.text, keep_zeros=keep_zeros)
            self._folded[keep_zeros] = folded.replaced(QUOTES, lambda _: "")
        return self._folded[keep_zeros]

    def _counts(self, place: tuple[int, int], form: Form, company: frozenset[str]) -> bool:
        if place in self._list_numbers:
            return False
        if form.needs_company and company.isdisjoint(self._neighbours(place)):
            return False
        if not form.needs_mark:
            return True
        text = self.text[place[0] : place[1]]
        is_inside = bool(re.search(r"[\w,;] $", self.text[max(0, place[0] - 2) : place[0]]))
        return bool(_MARK_BEFORE.search(self.text[max(0, place[0] - 1) : place[0]])) or (
            text[:1].isupper() and is_inside
        )


def remaining(original: Prompt, rewritten: Prompt, segments: Sequence[Segment]) -> dict[str, tuple[str, ...]]:
    """Return what is left of the values of removed segments: the texts found, by segment id."""
    left: dict[str, tuple[str, ...]] = {}
    for segment in segments:
        found = rewritten.occurrences(segment, original)
        if found:
            left[segment.segment_id] = tuple(rewritten.text[each.start : each.end] for each in found)
    return left


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out spaces at both ends, and the full stop that a value may have taken along."""
    while start < end and text[start].isspace():
        start += 1
    while end > start + 1 and (text[end - 1].isspace() or text[end - 1] in ",;"):
        end -= 1
    return start, end


def _without_overlaps(found: dict[tuple[int, int], bool]) -> Iterator[Occurrence]:
    """Keep the own place, and of places that overlap the longer one."""
    chosen: list[tuple[int, int]] = []
    for place in sorted(found, key=lambda each: (not found[each], each[0] - each[1], each)):
        at = bisect_left(chosen, place)
        neighbours = chosen[max(0, at - 1) : at + 1]
        if all(place[1] <= start or end <= place[0] for start, end in neighbours):
            chosen.insert(at, place)
    for place in chosen:
        yield Occurrence(start=place[0], end=place[1], is_own=found[place])
