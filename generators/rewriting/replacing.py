"""Something vague or generic in the place of a value, with the role that the value had in its sentence."""

import re

from generators.rewriting.edits import Edit
from generators.rewriting.english import English, any_of
from generators.rewriting.phrasing import phrase, question
from generators.rewriting.scene import Scene
from generators.rewriting.slots import Slot
from generators.rewriting.values import Thing, last_noun
from generators.rewriting.wording import Phrases
from recorder.values import Segment

_SUPERLATIVE = re.compile(r"^\s+(?:most|least|\w+est)\b")
_PERSON = re.compile(r"(?i)^\W*(?:he|she|who|invited|asked|told|said|his|her)\b")
_RELATIVE = re.compile(r"(?i)^\s+(?:who|that|which|where)\b")
_TO_BEFORE = re.compile(r"(?i)(?<![\w-])(?:to|with|at)\s+(?:the\s+|an?\s+)?$")
_PLACE_BEFORE = re.compile(
    r"(?i)(?<![\w-])(?:in|on|at|from|to|under|inside|into|within)\s+(?:(?:the|an?|my|our|your|their|his|her|its|this|that)\s+)?$"
)
_SPAN_BEFORE = re.compile(r"(?i)(?<![\w-])(?:from|between)\s+$")
_SPAN = re.compile(r"(?i)\b(?:to|until|till|through|and)\b|[-\u2013]")
_SUCH_AS_BEFORE = re.compile(r"(?i)\bsuch\s+as\s+$")
_AS_BEFORE = re.compile(r"(?i)(?<![\w-])as\s+$")
_MASS_NOUNS = frozenset({"information", "precision", "criteria", "data"})
_MEANT_DEFINITE = frozenset({"input", "context"})
_FILE_NOUNS = frozenset({"file", "document", "spreadsheet", "image", "database"})
_DATE_NOUNS = frozenset({"date", "day", "month", "year", "decade"})
_EXTREMES = frozenset({"top", "first", "last", "next", "past", "previous", "bottom"})


class Replacer:
    """Finds the words for the place of a value."""

    def __init__(self, english: English) -> None:
        self.english = english
        self.namer = re.compile(rf"(?i)(?P<noun>[\w-]+)(?P<gap>[\s,]+){any_of(english.namers)}\s*$")

    def replacement(
        self, scene: Scene, slot: Slot, segment: Segment, thing: Thing, phrases: Phrases, *, is_again: bool
    ) -> Edit | None:
        """Return what stands in the place of the value; None where these rules have nothing."""
        if scene.is_code:
            return _at(scene, (thing.noun or "value").replace(" ", "_"))
        if thing.form == "question":
            return question(scene, phrases)
        if thing.form in ("verb", "gerund", "participle", "preposition", "clause"):
            return phrase(scene, segment, thing, phrases, self.english)
        if is_again:
            return self._again(scene, slot, thing, phrases)
        return (
            self._number(scene, slot, thing, phrases)
            or self._before_noun(scene, slot, segment, phrases)
            or self._named(scene, segment, thing, phrases)
            or self._apposition(scene, slot, phrases)
            or self._adjunct(scene, slot, segment, thing, phrases)
            or _at(scene, self.noun_phrase(scene, slot, segment, thing, phrases))
        )

    def noun_phrase(self, scene: Scene, slot: Slot, segment: Segment, thing: Thing, phrases: Phrases) -> str:
        """Return a noun phrase that fits after what stands before the value."""
        noun = self._noun(scene, slot, thing)
        if _SUCH_AS_BEFORE.search(scene.left):
            return phrases.ones
        if _PERSON.match(scene.right) and not slot.determiner:
            return phrases.someone
        if noun is None:
            return self._something(scene, slot, thing, phrases)
        if noun == "person" and not slot.determiner:
            return phrases.someone
        if scene.text[scene.start : scene.end].lower().startswith("no "):
            return _join("no", phrases.adjective, noun)
        if slot.determiner:
            return _join(_adjective(slot.determiner, phrases), noun)
        if slot.is_determined:
            return noun
        if thing.is_plural:
            return phrases.plural.format(noun=noun)
        is_definite = segment.dimension in _MEANT_DEFINITE and slot.before not in self.english.copulas
        is_past_date = noun in _DATE_NOUNS and bool(phrases.definite_adjective)
        is_definite = (is_definite or is_past_date) and noun != "value"
        has_code = bool(re.search(r"\d", scene.text[scene.start : scene.end])) and not thing.is_plural
        is_bare = thing.is_head and not self._begins_with_determiner(scene) and not has_code
        if is_bare or noun in _MASS_NOUNS:
            return (phrases.definite if is_definite and not is_bare else phrases.mass).format(noun=noun)
        return (phrases.definite if is_definite else phrases.indefinite).format(noun=noun)

    def _something(self, scene: Scene, slot: Slot, thing: Thing, phrases: Phrases) -> str:
        """Return what is said of a thing that has no noun."""
        if slot.before in self.english.copulas and self.english.is_adjective(_plain(scene)):
            return phrases.by_subdimension.get("selection", phrases.known)
        if slot.determiner:
            return _join(_adjective(slot.determiner, phrases), "items" if thing.is_plural else "item")
        if slot.before in ("has", "have", "having"):
            return phrases.feature
        return phrases.known_plural if thing.is_plural else phrases.known

    def _noun(self, scene: Scene, slot: Slot, thing: Thing) -> str | None:
        is_marked = scene.text[scene.start : scene.start + 1] in "\"'`"
        if re.search(r"=\s*$", scene.left) or (is_marked and scene.left.endswith(": ")):
            return "value"
        if is_marked and thing.noun == "information":
            return "text"
        if thing.is_head and _RELATIVE.match(scene.right):
            return last_noun(scene.text[scene.start : scene.end], self.english) or thing.noun
        said_before = set(re.findall(r"\w+", scene.left.lower()))
        if slot.before in ("in", "under") and thing.noun in _FILE_NOUNS & said_before:
            return "location"
        if slot.before == "at" and thing.noun in _FILE_NOUNS | {"folder"}:
            return "location"
        return thing.noun

    def _begins_with_determiner(self, scene: Scene) -> bool:
        return any(word.lower() in self.english.determiners for word in scene.text[scene.start : scene.end].split()[:2])

    def _number(self, scene: Scene, slot: Slot, thing: Thing, phrases: Phrases) -> Edit | None:
        if thing.form != "number":
            return None
        if thing.is_ordinal:
            if _SUPERLATIVE.match(scene.right):
                return _at(scene, "")
            has_noun = bool(slot.noun_after or thing.rest)
            return _at(scene, _join(_adjective(slot.determiner or "the", phrases), thing.rest)) if has_noun else None
        is_count = slot.noun_after is not None and thing.noun in (None, "number", "precision", "time")
        if not thing.rest and not is_count:
            return None
        if slot.before in _EXTREMES:
            return self._of_extreme(scene, thing, phrases)
        if slot.determiner:
            adjective = _adjective(slot.determiner, phrases)
            hyphen = scene.right.startswith("-")
            new = _join(adjective, thing.rest) + (" " if hyphen and adjective else "")
            return Edit(start=scene.start, end=scene.end + hyphen, new=new)
        rest = self.english.plural(thing.rest) if thing.number in ("1", "one") and thing.rest else thing.rest
        return _at(scene, phrases.count.format(rest=rest).strip() or _join("some", rest))

    def _of_extreme(self, scene: Scene, thing: Thing, phrases: Phrases) -> Edit:
        """Replace the number in "top 5": by a word after "top", or by one before it."""
        if phrases.count_adjective:
            return _at(scene, _join(phrases.count_adjective, thing.rest))
        words = re.search(r"(?:(?P<the>\bthe\s+))?(?P<extreme>\w+)\s+$", scene.left)
        if words is None or words["the"]:
            return _at(scene, thing.rest)
        start = scene.sentence_start + words.start("extreme")
        new = phrases.count.format(rest=_join(words["extreme"], thing.rest)).strip()
        return Edit(start=start, end=scene.end, new=new)

    def _before_noun(self, scene: Scene, slot: Slot, segment: Segment, phrases: Phrases) -> Edit | None:
        if slot.noun_after is None:
            return None
        if slot.determiner:
            return _at(scene, _adjective(slot.determiner, phrases))
        if slot.is_determined:
            return _at(scene, "")
        is_definite = segment.dimension in _MEANT_DEFINITE
        if self.english.is_plural(slot.noun_after):
            return _at(scene, phrases.definite_adjective or phrases.adjective if is_definite else phrases.adjective)
        return _at(scene, (phrases.definite if is_definite else phrases.indefinite).format(noun="").strip())

    def _named(self, scene: Scene, segment: Segment, thing: Thing, phrases: Phrases) -> Edit | None:
        match = self.namer.search(scene.left)
        if not match:
            return None
        noun = match["noun"].lower()
        is_predicate = noun in self.english.function_words or (
            self.english.base(noun) is not None and noun not in self.english.kind_nouns
        )
        if is_predicate:
            return _at(scene, phrases.manner or phrases.known)
        name = phrases.input_name if segment.dimension == "input" else phrases.name
        name = phrases.names if thing.is_plural else name
        start = scene.start - (len(scene.left) - match.end("noun"))
        return Edit(start=start, end=scene.end, new=f" with {name}")

    def _apposition(self, scene: Scene, slot: Slot, phrases: Phrases) -> Edit | None:
        noun = slot.noun_before
        if noun is None:
            return None
        noun = noun.lower() if noun[1:].islower() else noun
        if slot.noun_determiner:
            new = _join(_adjective(slot.noun_determiner, phrases), noun)
        elif slot.is_noun_determined and not self.english.is_plural(noun):
            new = noun
        else:
            new = (phrases.plural if self.english.is_plural(noun) else phrases.definite).format(noun=noun)
        return Edit(start=slot.noun_start, end=scene.end, new=new)

    def _adjunct(self, scene: Scene, slot: Slot, segment: Segment, thing: Thing, phrases: Phrases) -> Edit | None:
        """Replace the preposition too, where no noun fits after it."""
        by_subdimension = phrases.by_subdimension.get(segment.subdimension.lower(), "")
        as_name = _AS_BEFORE.search(scene.left)
        is_one_of_two = re.match(r"^\s+(?:and|or)\s+[\"'`\u201c/]", scene.right)
        if as_name and thing.noun in _FILE_NOUNS | {"folder"} and not is_one_of_two:
            start = scene.sentence_start + as_name.start()
            return Edit(
                start=start,
                end=scene.end,
                new=f"under {phrases.input_name if segment.dimension == 'input' else phrases.name}",
            )
        place = _PLACE_BEFORE.search(scene.left)
        if place and thing.noun is None and segment.subdimension.lower() in ("source", "location") and by_subdimension:
            return Edit(start=scene.sentence_start + place.start(), end=scene.end, new=by_subdimension)
        span = _SPAN_BEFORE.search(scene.left)
        if span and by_subdimension and _SPAN.search(scene.text[scene.start : scene.end]):
            return Edit(start=scene.sentence_start + span.start(), end=scene.end, new=by_subdimension)
        to = _TO_BEFORE.search(scene.left)
        if to and thing.noun == "precision" and by_subdimension:
            return Edit(start=scene.sentence_start + to.start(), end=scene.end, new=by_subdimension)
        return None

    def _again(self, scene: Scene, slot: Slot, thing: Thing, phrases: Phrases) -> Edit | None:
        """At a second place the thing is known: its noun with an article, or nothing beside a noun that stays."""
        named = re.search(r"(?i)\s+" + self.namer.pattern.split("]+)", 2)[-1], scene.left)
        if named:
            return Edit(start=scene.sentence_start + named.start(), end=scene.end, new="")
        if slot.noun_after:
            return _at(scene, "" if slot.determiner or slot.is_determined else "the")
        if slot.noun_before:
            return _at(scene, "")
        if thing.noun is None:
            return _at(scene, ("items" if thing.is_plural else "item") if slot.determiner else "it")
        if slot.determiner or slot.is_determined:
            return _at(scene, thing.noun)
        return _at(scene, phrases.again.format(noun=thing.noun))


def _adjective(determiner: str, phrases: Phrases) -> str:
    return phrases.adjective if determiner == "a" else phrases.definite_adjective


def _plain(scene: Scene) -> str:
    return scene.text[scene.start : scene.end].strip("\"'`*")


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _at(scene: Scene, new: str) -> Edit:
    return Edit(start=scene.start, end=scene.end, new=new)
