"""Cuts around a noun, a name or a number: itself, what names it, its preposition, its place in an enumeration."""

import re
from collections.abc import Iterator

from generators.rewriting.english import English, any_of
from generators.rewriting.grammar import Grammar
from generators.rewriting.scene import Scene
from generators.rewriting.slots import Slot
from generators.rewriting.values import Thing

Cut = tuple[int, int]
_CLOSED = re.compile(r"^\s*(?:$|[.,;:!?)])")
_JOINT = re.compile(
    r"(?i)(?P<comma>\s*,)?\s+(?P<word>and|or)\s+(?:(?:the|an?)\s+)?$|(?P<only>\s*,)\s+(?:(?:the|an?)\s+)?$"
)
_NEXT_MEMBER = re.compile(r"(?i)^(?:\s*,\s+(?:and\s+|or\s+)?|\s+(?:and|or)\s+)(?P<next>\S+)")
_OPENING_PHRASE = re.compile(r"^\W*\w+(?:\s\w+)?\s*,")
_LAST_WORD = re.compile(r"([\w'\u2019]+)\s*$")


class NounCuts:
    """Finds the cuts of one value, the smallest first."""

    def __init__(self, english: English, grammar: Grammar) -> None:
        self.english = english
        self.grammar = grammar
        prepositions = any_of({*english.long_prepositions, *english.prepositions, "to"})
        comparators = any_of(each for each in english.comparators if each not in english.prepositions)
        self._before = re.compile(
            rf"(?i)(?:(?<![\w-])(?:(?:{any_of(english.determiners)}|[\w-]+['\u2019]s)\s+)?(?:{comparators}\s+)?"
            rf"(?:(?:local|given|exact|top|whole|following|nearest|own)\s+)?)$"
        )
        self._preposition = re.compile(rf"(?i)(?:(?<=\s)|^|(?<=\()){prepositions}\s+$")
        self._participle = re.compile(
            rf"(?i)(?:(?<=\s)|^)(?:,\s*)?(?:and\s+)?(?:{any_of(english.leading_participles)}|[a-z]{{3,}}ed)\s+$"
        )
        self._namer = re.compile(rf"(?i)(?<=[\w\"'])\s+{any_of(english.namers)}\s*$")
        self._after = re.compile(
            rf"(?i)^\s+(?:{any_of(english.after_comparators)}|of the (?:latter|former))(?![\w-])(?!\s+than\b)"
        )
        self._next_condition = re.compile(rf"(?i)\s+(?:and|or)\s+(?=(?:{prepositions}|\w+er\s+than|more|less)\s)")

    def cuts(self, scene: Scene, slot: Slot, thing: Thing) -> Iterator[Cut]:
        """Yield the cuts."""
        base, left = scene.sentence_start, scene.left
        after = self._after.match(scene.right)
        end = scene.end + (after.end() if after else 0)
        named = self._namer.search(left)
        if named:
            yield base + named.start(), end
        if slot.noun_after or (slot.noun_before and not named and slot.is_noun_determined):
            yield scene.start, end
        before = self._before.search(left)
        inner = left[: before.start()] if before else left
        yield from self._of_enumeration(scene, end)
        if not slot.noun_after:
            yield from self._with_preposition(scene, inner, end)
            if slot.noun_before and not slot.is_noun_determined:
                yield from self._with_preposition(scene, left[: slot.noun_start - base], end)
        is_word = _class_of(scene.text[scene.start : scene.end]) == "word" and not slot.noun_before
        if thing.form == "noun" and not thing.is_head and is_word and not (before and before.group()):
            yield scene.start, end

    def _with_preposition(self, scene: Scene, left: str, end: int) -> Iterator[Cut]:
        base = scene.sentence_start
        preposition = self._preposition.search(left)
        inner = left[: preposition.start()] if preposition else left
        if preposition and self.grammar.is_governed(left):
            return
        participle = self._participle.search(inner)
        if participle and not self._follows_auxiliary(inner[: participle.start()]):
            yield base + participle.start(), end
        elif preposition:
            condition = self._next_condition.match(scene.text, end, scene.sentence_end)
            yield base + preposition.start(), condition.end() if condition else end

    def _follows_auxiliary(self, left: str) -> bool:
        last = _LAST_WORD.search(left.rstrip().rstrip(","))
        word = last[1].lower() if last else ""
        known = self.english.auxiliaries | self.english.conjunctions | {"i", "you", "we", "they", "to"}
        return not word or word in known or word.endswith("ly")

    def _of_enumeration(self, scene: Scene, end: int) -> Iterator[Cut]:
        """Yield a member of an enumeration with the comma or conjunction that joins it."""
        joint = _JOINT.search(scene.left)
        is_closed = bool(_CLOSED.match(scene.right))
        start = scene.start - (len(scene.left) - joint.start()) if joint else scene.start
        own_class = _class_of(scene.text[scene.start : scene.end])
        previous = scene.left[: joint.start()].split()[-1:] if joint else []
        is_like_previous = own_class != "word" and bool(previous) and _class_of(previous[0]) == own_class
        if joint and joint["word"] and not is_closed and is_like_previous:
            yield start, end
        is_opening = bool(_OPENING_PHRASE.match(scene.left))
        if joint and is_closed and (joint["word"] or (not scene.right.lstrip().startswith(",") and not is_opening)):
            yield start, end
        is_middle = scene.right.lstrip().startswith(",") and not is_opening
        if joint and joint["only"] is not None and is_middle:
            yield start, end
        following = _NEXT_MEMBER.match(scene.right)
        if following and scene.left.strip() and own_class == _class_of(following["next"]) != "word":
            yield scene.start, scene.end + following.start("next")


def earlier_changes(scene: Scene, start: int) -> list[tuple[int, int, str]]:
    """Return what the loss of the last member of an enumeration changes before: "both" goes, a comma becomes "and"."""
    joint = re.match(r"(?i)(?P<comma>,)?\s+(?P<word>and|or)\s", scene.text[start : scene.start])
    if not joint:
        return []
    base = scene.sentence_start
    left = scene.text[base:start]
    both = re.search(r"(?i)(?<![\w-])(?:both|either)\s+(?=[^.;:]{1,80}$)", left)
    if both:
        return [(base + both.start(), base + both.end(), "")]
    comma = re.search(r",(?=(?:\s+[^\s,.;:]+){1,7}$)", left) if joint["comma"] else None
    if comma and not re.search(rf"(?i)\s{joint['word']}\s", left[comma.end() :]):
        return [(base + comma.start(), base + comma.end(), f" {joint['word'].lower()}")]
    return []


def _class_of(text: str) -> str:
    """Return what kind of member of an enumeration a text is."""
    if text[:1] in "\"'`\u201c\u2018":
        return "marked"
    if re.match(r"[$€£]?\d", text):
        return "number"
    if re.match(r"(?i)an?\b", text):
        return "article"
    return "path" if re.search(r"\w[/._]\w|^/", text) else "word"
