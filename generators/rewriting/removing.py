"""Taking all occurrences of removed values out of a prompt: place by place, each mended before the next cut."""

import re
from functools import lru_cache
from pathlib import Path

import msgspec

from generators.errors import RewritingFailed
from generators.protocol import Removal
from generators.rewriting.deleting import Deleter
from generators.rewriting.edits import Edit, applied, merged, shifted
from generators.rewriting.english import any_of, english
from generators.rewriting.grammar import Grammar
from generators.rewriting.occurrences import Occurrence, Prompt, remaining
from generators.rewriting.paths import partial_edit
from generators.rewriting.replacing import Replacer
from generators.rewriting.scene import Scene, Surroundings
from generators.rewriting.seams import repaired
from generators.rewriting.slots import Slots
from generators.rewriting.values import Thing, hard_parts, predicate_start, thing_of
from generators.rewriting.wording import wording
from recorder.values import Segment, Severity

_MOST_PASSES = 4
_APART_CHARS = 300
_SAMPLE_CHARS = 4000
_NUMBER = re.compile(r"(?:\d{1,3}(?:[., ]\d{3})+|\d+)(?:[.,]\d+)?")
_YEAR = re.compile(r"(?:19|20)\d\d")
_COUNTED = re.compile(r"[ \t\u00a0]?[^\W\d_]|\.[ \t\u00a0][^\W\d_]")  # 250 EUR, and the ordinal of "14. März"
_SOFT_FORMS = ("preposition", "participle", "clause", "verb", "gerund")


class _Place(msgspec.Struct, frozen=True):
    """A place of a segment's value that is still to be edited."""

    occurrence: Occurrence
    segment: Segment
    is_again: bool


class Remover:
    """Removes segments from prompts with the words of one folder of data files."""

    def __init__(self, folder: Path | None = None) -> None:
        self._english = english(folder)
        self._wording = wording(folder)
        grammar = Grammar(self._english)
        self._slots = Slots(self._english, grammar)
        self._replacer = Replacer(self._english)
        self._deleter = Deleter(self._english, grammar)
        joined = [each for each in self._english.after_comparators if each.startswith(("or ", "and "))]
        self._is_english_text = lru_cache(maxsize=64)(self._english.is_english)
        self._comparator_after = re.compile(rf"(?i)\s+{any_of(joined)}$")

    def without(self, original: Prompt, removal: Removal) -> str:
        """Return a prompt without the segments of a removal.

        Raises:
            RewritingFailed: There are no words for a place, or an occurrence cannot be taken out.
        """
        text = original.text
        for number in range(_MOST_PASSES):
            current = Prompt(text) if number else original
            places = self._places(original, current, removal)
            if not places:
                return text
            text = self._edited(text, places, removal.severity)
        left = remaining(original, Prompt(text), removal.segments)
        if left:
            raise RewritingFailed(f"the rules cannot take out {left}; remove fewer or other segments")
        return text

    def _places(self, original: Prompt, current: Prompt, removal: Removal) -> list[_Place]:
        """Return every place of a value in order; of two that overlap that of the longer value."""
        found: list[tuple[Occurrence, Segment]] = []
        for segment in sorted(removal.segments, key=lambda each: (-len(each.value), each.segment_id)):
            taken = sorted(occurrence for occurrence, _ in found)
            places = current.occurrences(segment, None if current is original else original)
            found += [(place, segment) for place in places if not _overlaps(place, taken)]
        seen: set[str] = set()
        result: list[_Place] = []
        for occurrence, segment in sorted(found, key=lambda each: each[0]):
            result.append(_Place(occurrence, segment, segment.segment_id in seen or current is not original))
            seen.add(segment.segment_id)
        return result

    def _edited(self, text: str, places: list[_Place], severity: Severity) -> str:
        """Edit place by place: two in one sentence after each other, so that the second sees what the first left."""
        pending = places
        while pending:
            surroundings = Surroundings(text)
            edits: list[Edit] = []
            deferred: list[_Place] = []
            busy_until = -1
            for place in pending:
                scene = surroundings.scene(place.occurrence)
                if scene.start < busy_until:
                    deferred.append(place)
                    continue
                edits += self._edits(surroundings, scene, place.segment, severity, is_again=place.is_again)
                busy_until = max(scene.end, min(scene.sentence_end, scene.end + _APART_CHARS))
            done = merged(edits)
            text = applied(text, done)
            pending = [moved for moved in (_moved(place, done) for place in deferred) if moved]
        return text

    def _edits(
        self, surroundings: Surroundings, scene: Scene, segment: Segment, severity: Severity, *, is_again: bool
    ) -> list[Edit]:
        value = scene.text[scene.start : scene.end]
        if not scene.is_code and not self._is_english(scene):
            return [self._foreign_edit(scene, segment)]
        thing = thing_of(value, scene.left, segment, self._english, self._wording)
        slot = self._slots.slot(scene, thing)
        phrases = self._wording.severities[severity]
        is_deleted = severity == "delete"
        stand_in = "" if is_deleted else self._replacer.noun_phrase(scene, slot, segment, thing, phrases)
        part = partial_edit(scene, stand_in)
        if part:
            return [part]
        if is_deleted:
            edits = self._deleter.deletion(scene, slot, segment, thing)
        else:
            edits = [] if is_again or scene.is_code else self._softened(surroundings, scene, segment, thing, severity)
        if edits:
            return edits
        replacement = self._replacer.replacement(scene, slot, segment, thing, phrases, is_again=is_again)
        if replacement is None:
            raise RewritingFailed(
                f"the rules have no words for {value!r} of {segment.segment_id} after {scene.left[-30:]!r}; "
                "remove another segment, or rewrite with a model"
            )
        return [repaired(scene, replacement)]

    def _foreign_edit(self, scene: Scene, segment: Segment) -> Edit:
        """Return the bare deletion of a value that stands in another language than English.

        Raises:
            RewritingFailed: It is a number, and what it counts would be left alone.
        """
        value = scene.text[scene.start : scene.end]
        if _NUMBER.fullmatch(value) and not _YEAR.fullmatch(value) and _COUNTED.match(scene.text, scene.end):
            behind = scene.text[scene.end : scene.end + 12].strip()
            raise RewritingFailed(
                f"{value!r} of {segment.segment_id} counts what stands behind it ({behind!r}), and the rules know "
                "English only; remove another segment, or rewrite with a model"
            )
        return repaired(scene, Edit(start=scene.start, end=scene.end, new=""))

    def _is_english(self, scene: Scene) -> bool:
        """Return whether the block of a value is English."""
        return self._is_english_text(
            scene.text[scene.block_start : scene.block_end],
            among_english=self._is_english_text(scene.text[:_SAMPLE_CHARS]),
        )

    def _softened(
        self, surroundings: Surroundings, whole: Scene, segment: Segment, thing: Thing, severity: Severity
    ) -> list[Edit]:
        """Return edits of what is concrete inside a longer value; none where nothing is, or where a phrase says it."""
        phrases = self._wording.severities[severity]
        value = whole.text[whole.start : whole.end]
        after = self._comparator_after.search(value)
        predicate = predicate_start(value) if thing.form == "clause" else 0
        if after:
            parts = hard_parts(value[: after.start()]) or [(0, after.start())]
        elif predicate and (thing.noun or segment.dimension != "context"):
            parts = [(predicate, len(value))]
        elif thing.form in _SOFT_FORMS and thing.noun not in phrases.by_noun:
            parts = hard_parts(value)
        else:
            return []
        edits: list[Edit] = []
        for low, high in parts:
            scene = surroundings.scene(Occurrence(start=whole.start + low, end=whole.start + high))
            part = thing_of(scene.text[scene.start : scene.end], scene.left, segment, self._english, self._wording)
            is_treatment = part.form in ("participle", "noun") and not part.is_head and thing.noun == "rule"
            if predicate and is_treatment and not after:
                edit: Edit | None = Edit(start=scene.start, end=scene.end, new=phrases.treated)
            else:
                slot = self._slots.slot(scene, part)
                edit = self._replacer.replacement(scene, slot, segment, part, phrases, is_again=False)
            if edit:
                edits.append(repaired(scene, edit))
        return edits


def _overlaps(place: Occurrence, others: list[Occurrence]) -> bool:
    return any(place.start < other.end and other.start < place.end for other in others)


def _moved(place: _Place, edits: list[Edit]) -> _Place | None:
    there = shifted((place.occurrence.start, place.occurrence.end), edits)
    if there is None:
        return None
    occurrence = Occurrence(start=there[0], end=there[1], is_own=place.occurrence.is_own)
    return _Place(occurrence, place.segment, place.is_again)
