"""Finds every occurrence of a value in a prompt, in whatever form it is written."""

import re
from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence

from lhaw_record.generators.prompts.forms import QUOTES, Form, forms
from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.base.text.normalization import NormalizedText, normalize_with_places, whole
from lhaw_record.runners.users.simulated_user.lexicon import lexicon, stem

_MARK_BEFORE = re.compile(r"[`\"'\u201c\u2018]$")
_LIST_NUMBER = re.compile(r"(?m)^[ \t]*(\d+)(?=[.)][ \t])")
_WORD_BEFORE = re.compile(r"([^\W_][\w'-]*)[^\w\n]*$")
_WORD_AFTER = re.compile(r"[^\w\n]*([^\W_][\w'-]*)")
_NEIGHBOUR_CHARS = 40
Span = tuple[int, int]
"""The characters of a text from a start up to an end, which is not included."""


class SearchablePrompt:
    """A prompt that can be searched for several values. Its text is normalized only once."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._folded: dict[bool, NormalizedText] = {}
        self._list_numbers = {match.span(1) for match in _LIST_NUMBER.finditer(text)}

    def occurrences(self, segment: Segment, original: "SearchablePrompt | None" = None) -> tuple[Span, ...]:
        """Return the occurrences of a segment's value, in order and without overlaps."""
        own = None if original else own_place(self.text, segment)
        company = (original or self).company(segment)
        found = {} if own is None else {own: True}
        for form in forms(segment):
            for place in self._folded_text(keep_zeros=form.keep_zeros).places(form.pattern):
                if self._counts(place, form, company):
                    found.setdefault(place, False)
        return tuple(_without_overlaps(found))

    def company(self, segment: Segment) -> frozenset[str]:
        """Return the stems of the content words directly before and after the segment's own occurrence."""
        own = own_place(self.text, segment)
        return frozenset() if own is None else frozenset(self._neighbours(own))

    def _neighbours(self, place: tuple[int, int]) -> Iterator[str]:
        start, end = place
        before = _WORD_BEFORE.search(self.text[max(0, start - _NEIGHBOUR_CHARS) : start])
        after = _WORD_AFTER.match(self.text[end : end + _NEIGHBOUR_CHARS])
        for match, side in ((before, "before"), (after, "after")):
            if match and match[1].lower() not in lexicon().stop_terms:
                yield f"{side} {stem(match[1].lower())}"

    def _folded_text(self, *, keep_zeros: bool) -> NormalizedText:
        if keep_zeros not in self._folded:
            folded = normalize_with_places(self.text, keep_zeros=keep_zeros)
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


def own_place(prompt: str, segment: Segment) -> Span | None:
    """Return the first span of a segment's value as whole words, if there is one inside the segment's text."""
    places = [found.span() for found in whole(segment.value).finditer(prompt)]
    texts = [found.span() for found in re.finditer(re.escape(segment.text), prompt)] if segment.text else []
    inside = [each for each in places if any(start <= each[0] and each[1] <= end for start, end in texts)]
    return _stripped(prompt, *(inside or places)[0]) if places else None


def remaining(
    original: SearchablePrompt, rewritten: SearchablePrompt, segments: Sequence[Segment]
) -> dict[str, tuple[str, ...]]:
    """Return what a rewritten prompt still contains of the removed values: segment id -> the texts found."""
    left: dict[str, tuple[str, ...]] = {}
    for segment in segments:
        found = rewritten.occurrences(segment, original)
        if found:
            left[segment.segment_id] = tuple(rewritten.text[start:end] for start, end in found)
    return left


def _stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """Return a span without the spaces at both ends and without commas and semicolons at its end."""
    while start < end and text[start].isspace():
        start += 1
    while end > start + 1 and (text[end - 1].isspace() or text[end - 1] in ",;"):
        end -= 1
    return start, end


def _without_overlaps(found: dict[Span, bool]) -> list[Span]:
    """Return the spans without overlaps. The segment's own span wins, then the longer one."""
    chosen: list[Span] = []
    for place in sorted(found, key=lambda each: (not found[each], each[0] - each[1], each)):
        at = bisect_left(chosen, place)
        neighbours = chosen[max(0, at - 1) : at + 1]
        if all(place[1] <= start or end <= place[0] for start, end in neighbours):
            chosen.insert(at, place)
    return chosen


def replaced(text: str, changes: Mapping[Span, str]) -> str:
    """Return a text with other words at some spans, which do not overlap."""
    for (start, end), new in sorted(changes.items(), reverse=True):
        text = text[:start] + new + text[end:]
    return text


class Spans:
    """The union of some spans. A look-up takes logarithmic time: a prompt may hold a value thousands of times."""

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def add(self, start: int, end: int) -> None:
        """Add a span. It must not overlap any other."""
        insort(self._starts, start)
        insort(self._ends, end)

    def touches(self, start: int, end: int) -> bool:
        """Return whether a span has a character in common with one of these."""
        number = bisect_left(self._starts, end)
        return number > 0 and self._ends[number - 1] > start

    def has(self, place: int) -> bool:
        """Return whether a character is inside a span."""
        return self.touches(place, place + 1)
