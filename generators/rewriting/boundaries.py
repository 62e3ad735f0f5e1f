"""Where a rewriter may change a prompt: around the places of the removed values, inside their sentences."""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence

import msgspec

from generators.rewriting.diff import Hunk
from generators.rewriting.english import english
from generators.rewriting.occurrences import Prompt
from generators.rewriting.scene import Surroundings
from recorder.values import Segment

MOST_WORDS_AWAY = 3
MOST_OTHER_WORDS = 9
MOST_NEW_WORDS = 12
_MOST_CHARS_AWAY = 160
_MOST_SLID_CHARS = 60
_WORD = re.compile(r"\w+(?:['\u2019./-]\w+)*")
_LIST_NUMBER = re.compile(r"^\d{1,3}$")
_NEXT_MARKER = re.compile(r"(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+")
_MARKER = re.compile(r"\s*(?:(?:[-*+\u2022]|\d{1,3}[.)]|#{1,6}|>|\|)[ \t]*)*$")


class _Zone(msgspec.Struct, frozen=True, kw_only=True):
    """A place that may change: value or phrase from ``start`` to ``end``, in the sentence from ``low`` to ``high``."""

    segment_id: str
    start: int
    end: int
    low: int
    high: int
    is_own: bool


class Boundaries:
    """The zones of a removal in a prompt.

    A change is allowed where all of this holds: no more than three words lie between it and an occurrence of a removed
    value, or the segment's text around it; it stays inside the sentence, list item or cell of that occurrence, with
    the spaces and the list mark around it; it takes away no more than nine words beside value and text; it
    adds no more than twelve words. The number of a list item may change where an item above it was removed.
    """

    def __init__(self, prompt: Prompt, segments: Sequence[Segment]) -> None:
        self.text = prompt.text
        surroundings = Surroundings(prompt.text)
        self.zones: list[_Zone] = []
        for segment in segments:
            for occurrence in prompt.occurrences(segment):
                scene = surroundings.scene(occurrence)
                start, end = scene.start, scene.end
                if occurrence.is_own and segment.text and segment.value in segment.text:
                    at = prompt.text.find(segment.text)
                    if at >= 0:
                        start, end = min(start, at), max(end, at + len(segment.text))
                low, high = min(scene.sentence_start, start), max(scene.sentence_end, end)
                self.zones.append(
                    _Zone(
                        segment_id=segment.segment_id,
                        start=start,
                        end=end,
                        low=self._with_marker(low),
                        high=self._with_spaces(high),
                        is_own=occurrence.is_own,
                    )
                )

        self.zones.sort(key=lambda zone: zone.start)
        self._longest = max((zone.end - zone.start for zone in self.zones), default=0)

    def objection(self, hunk: Hunk) -> str | None:
        """Return why a change is not allowed; None if it is.

        A deletion has as many places as its text repeats itself at its edges; it is enough that one is allowed.
        """
        if self._is_renumbering(hunk):
            return None
        reasons = [self._objection(each) for each in self._same_hunks(hunk)]
        return None if None in reasons else reasons[0]

    def _same_hunks(self, hunk: Hunk) -> Iterator[Hunk]:
        yield hunk
        if hunk.new:
            return
        start, end = hunk.start, hunk.end
        while start > 0 and self.text[start - 1] == self.text[end - 1] and hunk.start - start < _MOST_SLID_CHARS:
            start, end = start - 1, end - 1
            yield Hunk(start=start, end=end, new="")
        start, end = hunk.start, hunk.end
        while end < len(self.text) and self.text[start] == self.text[end] and start - hunk.start < _MOST_SLID_CHARS:
            start, end = start + 1, end + 1
            yield Hunk(start=start, end=end, new="")

    def _objection(self, hunk: Hunk) -> str | None:
        near = [zone for zone in self._around(hunk) if self._words_between(zone, hunk) <= MOST_WORDS_AWAY]
        if not near:
            return "no removed segment is near it"
        low, high = min(zone.low for zone in near), max(zone.high for zone in near)
        if hunk.start < low or hunk.end > high:
            return "it goes beyond the sentence of the removed segment"
        if self._other_words(hunk, near) > MOST_OTHER_WORDS:
            return f"it takes away more than {MOST_OTHER_WORDS} words beside the segment"
        if len(_WORD.findall(hunk.new)) - self._kept_words(hunk) > MOST_NEW_WORDS:
            return f"it adds more than {MOST_NEW_WORDS} words"
        return None

    def has_stand_in(self, segment: Segment, changes: Sequence[Hunk]) -> bool:
        """Return whether the segment's own place has new words, or a noun of its own beside the hole."""
        zone = next((each for each in self.zones if each.segment_id == segment.segment_id and each.is_own), None)
        if zone is None:
            return True
        own = [hunk for hunk in changes if hunk.start <= zone.end and zone.start <= hunk.end]
        known = english()
        is_english = known.is_english(self.text[zone.low : zone.high], among_english=known.is_english(self.text[:4000]))
        if any(self._is_new(word, hunk, is_english=is_english) for hunk in own for word in _WORD.findall(hunk.new)):
            return True
        value_words = {word.lower() for word in _WORD.findall(segment.value)}
        for hunk in own:
            after = _WORD.match(self.text[hunk.end :].lstrip()[:40])
            before = _WORD.findall(self.text[max(zone.low, hunk.start - 40) : hunk.start])[-1:]
            for word in [*([after.group()] if after else []), *before]:
                if (is_english and known.is_noun_like(word)) or word.lower() in value_words:
                    return True
        return False

    def _is_new(self, word: str, hunk: Hunk, *, is_english: bool) -> bool:
        """Return whether a word was put in, and is not the ending or unit that clung to a value in another language."""
        return is_english or word not in self.text[hunk.start : hunk.end]

    def _around(self, hunk: Hunk) -> list[_Zone]:
        """Return the zones that are near enough for a closer look."""
        low = bisect_left(self.zones, hunk.start - _MOST_CHARS_AWAY - self._longest, key=lambda zone: zone.start)
        high = bisect_right(self.zones, hunk.end + _MOST_CHARS_AWAY, key=lambda zone: zone.start)
        return [zone for zone in self.zones[low:high] if hunk.start - zone.end <= _MOST_CHARS_AWAY]

    def _with_marker(self, start: int) -> int:
        """Widen to the spaces and list marks before a sentence."""
        match = _MARKER.search(self.text, max(0, start - 40), start)
        low = match.start() if match else start
        while low > 0 and self.text[low - 1].isspace():
            low -= 1
        return low

    def _with_spaces(self, end: int) -> int:
        """Widen to the spaces after a sentence, the list mark of what follows, and its first word."""
        while end < len(self.text) and self.text[end].isspace():
            end += 1
        mark = _NEXT_MARKER.match(self.text, end)
        end = mark.end() if mark else end
        first_word = _WORD.match(self.text, end)
        return first_word.end() if first_word else end

    def _words_between(self, zone: _Zone, hunk: Hunk) -> int:
        if hunk.start <= zone.end and zone.start <= hunk.end:
            return 0
        between = self.text[zone.end : hunk.start] if hunk.start > zone.end else self.text[hunk.end : zone.start]
        return len(_WORD.findall(between))

    def _other_words(self, hunk: Hunk, near: Sequence[_Zone]) -> int:
        """Count the removed words that lie in no zone."""
        count = 0
        for match in _WORD.finditer(self.text, hunk.start, hunk.end):
            if not any(zone.start <= match.start() < zone.end for zone in near):
                count += 1
        return count

    def _kept_words(self, hunk: Hunk) -> int:
        """Count the words of a change that it both takes away and adds."""
        had = [word.lower() for word in _WORD.findall(self.text[hunk.start : hunk.end])]
        kept = 0
        for word in _WORD.findall(hunk.new):
            if word.lower() in had:
                had.remove(word.lower())
                kept += 1
        return kept

    def _is_renumbering(self, hunk: Hunk) -> bool:
        old = self.text[hunk.start : hunk.end]
        if not _LIST_NUMBER.match(old) or not _LIST_NUMBER.match(hunk.new) or int(hunk.new) >= int(old):
            return False
        line_start = self.text.rfind("\n", 0, hunk.start) + 1
        is_marker = not self.text[line_start : hunk.start].strip() and self.text[hunk.end : hunk.end + 1] in (".", ")")
        return is_marker and any(zone.start < hunk.start for zone in self.zones)
