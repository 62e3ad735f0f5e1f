"""Cuts around a value that is a phrase of its own, and cuts of the clause or sentence that a value stands in."""

import re
from collections.abc import Iterator

from generators.rewriting.cuts import Cut
from generators.rewriting.english import English, any_of
from generators.rewriting.scene import Scene
from generators.rewriting.values import Thing
from recorder.values import Segment

_CLOSED = re.compile(r"^\s*(?:$|[.,;:!?)])")
_JOINT = re.compile(r"(?i)(?:\s*,)?\s+(?:and|or|but|by|to|while|so)\s+(?:(?:then|also|to)\s+)?$|\s*[,;]\s*$")
_FOLLOWS = re.compile(r"(?i)^\s*,?\s+(?:and|or|but|then)\s+(?:then\s+)?|^\s*[,;]\s+")
_PREDICATE = re.compile(r"(?i)\s+(?:that|which|who)\s+(?:is|are|was|were|has|have)\s+$")
_BEFORE_VERB = re.compile(r"(?i)^\s+(?:is|are|was|were|has|have|will|must|should|can|may|do|does)\b")
_OPENED = re.compile(r"(?i)^(?:where|if|when|while|for|in case)\b[^,;]*,\s*$")
_SUBORDINATE_START = re.compile(r"(?i)^(?:while|as|since|although|if|when|because|where)\s+$")
_MIDDLE = re.compile(r"(?i),\s+(?:and\s+)?(?:the|a|an|its?|they|all|each|every)\s[^,;:.]*$")
_MIDDLE_FOLLOWS = re.compile(r"(?i)^\s*,?\s+and\s+(?=(?:the|a|an|its?|they|all|each|every)\b)")
_DEFINITION = re.compile(r"(?i)\b(?:is|are) (?:defined as|considered)\b|\bmeans\b|\bcounts? as\b")
_OTHER_HALF = re.compile(r"(?i)^[^.;]*?,\s+(?:while|and|whereas)\s+(?=[a-z])")
_OWN_HALF = re.compile(r"(?i),\s+(?:while|whereas)\s[^,;]*$")
_WITHIN = re.compile(r"(?i)^,?\s+both (?:\w+ )?included")
_MODAL_BEFORE = re.compile(r"(?i)\b(?:must|should|shall|will|can|please|need to|have to)\s+$")
_MOST_WORDS = 9
_FEW_WORDS = 4


class ClauseCuts:
    """Finds the cuts of one value, the smallest first."""

    def __init__(self, english: English) -> None:
        self.english = english
        self._subordinate = re.compile(
            rf"(?i)\s+(?P<word>where|that|which|who|whose|when|if|because|whether)\s+(?:{any_of(english.determiners)}\s+)?$"
        )
        self._segment_start = re.compile(
            rf"(?i),\s+(?:and\s+|but\s+)?(?:{any_of({*english.long_prepositions, *english.prepositions, 'to'})}"
            rf"|{any_of(english.leading_participles)}|which|where|who|whose|with|[a-z]+ing|[a-z]+ly\s+[a-z]+ing)\s[^,;:.]*$"
        )

    def is_definition(self, scene: Scene) -> bool:
        """Return whether the value is what the sentence defines something by."""
        return bool(_DEFINITION.search(scene.left))

    def of_phrase(self, scene: Scene, segment: Segment, thing: Thing) -> Iterator[Cut]:
        """Yield the cuts of a phrase that can go by itself: alone, or with what joins it."""
        base, left, right = scene.sentence_start, scene.left, scene.right
        within = _WITHIN.match(right) if segment.subdimension.lower() == "temporal" else None
        start, end = scene.start, scene.end + (within.end() if within else 0)
        joint, follows, is_closed = _JOINT.search(left), _FOLLOWS.match(right), bool(_CLOSED.match(right))
        predicate, subordinate = _PREDICATE.search(left), self._subordinate.search(left)
        if _SUBORDINATE_START.match(left) and right.startswith(","):
            yield base, scene.end + 1
        if joint and is_closed:
            yield base + joint.start(), end
        is_led = thing.form == "verb" and _MODAL_BEFORE.search(left)
        if follows and (is_led or not left.strip()):
            yield start, end + follows.end()
        if predicate and (is_closed or _BEFORE_VERB.match(right)):
            yield base + predicate.start(), end
        if subordinate and is_closed:
            yield base + subordinate.start(), end
        if subordinate and follows:
            yield base + subordinate.start("word"), end + follows.end()
        if thing.form != "verb" or is_closed:
            yield start, end
        if joint and thing.form != "verb":
            yield base + joint.start(), end

    def of_noun_clause(self, scene: Scene) -> Iterator[Cut]:
        """Yield a value that begins as a noun and goes on as a clause, with what leads to it."""
        subordinate = self._subordinate.search(scene.left)
        if subordinate:
            follows = re.match(r"(?i)^\s*,?\s+(?:and|or)\s+", scene.right)
            start = subordinate.start("word" if follows else 0)
            yield scene.sentence_start + start, scene.end + (follows.end() if follows else 0)

    def of_surroundings(self, scene: Scene, segment: Segment, thing: Thing) -> Iterator[Cut]:
        """Yield the part of the sentence that has the value at its end, the clause around it, the sentence."""
        base, left, end = scene.sentence_start, scene.left, scene.end
        is_closed = bool(_CLOSED.match(scene.right))
        tail = self._segment_start.search(left)
        if tail and is_closed and len(tail.group().split()) <= _MOST_WORDS:
            yield base + tail.start(), end
        if self.is_definition(scene):
            yield from self._defining(scene)
        is_predicate = thing.form in ("verb", "clause", "participle", "preposition")
        middle = _MIDDLE.search(left)
        if is_predicate and middle and (is_closed or _MIDDLE_FOLLOWS.match(scene.right)):
            yield base + middle.start(), end
        if segment.dimension in ("constraint", "context"):
            yield from self._of_text(scene, segment)
        is_only_rest = thing.form in ("verb", "clause") and is_closed and _OPENED.match(left)
        if is_only_rest or (is_predicate and len((left + scene.right).split()) <= _FEW_WORDS):
            yield base, scene.sentence_end

    def of_text(self, scene: Scene, segment: Segment) -> Iterator[Cut]:
        """Yield the segment's text where it is a clause that its verb begins and a conjunction joins."""
        first = (segment.text or "").split()[:1]
        if segment.dimension == "constraint" and first and self.english.is_verb(first[0]):
            yield from (cut for cut in self._of_text(scene, segment) if cut[0] > scene.sentence_start)

    def _of_text(self, scene: Scene, segment: Segment) -> Iterator[Cut]:
        text = segment.text or ""
        start = scene.text.find(text) if len(text) > len(segment.value) else -1
        end = start + len(text)
        if start < scene.sentence_start or end > scene.sentence_end or not start <= scene.start < end:
            return
        before = scene.text[scene.sentence_start : start]
        if not _CLOSED.match(scene.text[end : scene.block_end]):
            return
        joint = re.search(r"(?i)(?:\s*,)?\s+(?:and|but|while)\s+$|\s*[,;]\s*$", before)
        if joint:
            yield scene.sentence_start + joint.start(), end
        elif not before.strip() and len((scene.left + scene.right).split()) <= _FEW_WORDS:
            yield scene.sentence_start, max(end, scene.sentence_end)

    def _defining(self, scene: Scene) -> Iterator[Cut]:
        """Yield the half of the sentence that defines something by the value."""
        other = _OTHER_HALF.match(scene.right)
        if other:
            yield scene.sentence_start, scene.end + other.end()
        own = _OWN_HALF.search(scene.left)
        if own:
            rest = re.match(r"^[^.;]*", scene.right)
            yield scene.sentence_start + own.start(), scene.end + (rest.end() if rest else 0)
        yield scene.sentence_start, scene.sentence_end
