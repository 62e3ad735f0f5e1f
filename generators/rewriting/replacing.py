"""Something vague or generic in the place of a value, with the role that the value had in its sentence."""

import re

from generators.rewriting.edits import Edit
from generators.rewriting.english import English, any_of
from generators.rewriting.scene import Scene
from generators.rewriting.slots import Slot
from generators.rewriting.values import Thing, last_noun
from generators.rewriting.wording import Phrases
from recorder.values import Segment

_SUPERLATIVE = re.compile(r"^\s+(?:most|least|\w+est)\b")
_PERSON = re.compile(r"(?i)^\W*(?:he|she|who|invited|asked|told|said|his|her)\b")
_RELATIVE = re.compile(r"(?i)^\s+(?:who|that|which|where)\b")
_BARE_QUESTION = re.compile(r"(?i)^(?:what|who|whom|where|when|why|how|whether)$")
_NOUN_QUESTION = re.compile(r"(?i)^(?:how (?:much|many)|which|what|whose)(?: [\w-]+){1,2}$")
_QUESTION_BEFORE = re.compile(r"(?i)(?<![\w-])(?:what|which|who|how|where|when|why)\s+$")
_DETERMINER_BEFORE = re.compile(r"(?i)(?<![\w-])(?:the|an?|this|that|each|every|some|any)\s+$")
_PERSONAL = re.compile(r"(?i)(?<![\w-])(?:you|we|i|they|please)\b[^.;:]*$")
_MODAL_BEFORE = re.compile(
    r"(?i)(?<![\w-])(?:should|must|shall|will|would|may|might|can|could)(?: not| also| only)?\s+$"
)
_TO_BEFORE = re.compile(r"(?i)(?<![\w-])(?:to|with|at)\s+(?:the\s+|an?\s+)?$")
_PAST = re.compile(r"(?i)\b(?:was|were|had|has been|have been)\b")
_PLACE_BEFORE = re.compile(
    r"(?i)(?<![\w-])(?:in|on|at|from|to|under|inside|into|within)\s+(?:(?:the|an?|my|our|your|their|his|her|its|this|that)\s+)?$"
)
_AS_BEFORE = re.compile(r"(?i)(?<![\w-])as\s+$")
_MASS_NOUNS = frozenset({"information", "precision", "criteria", "data"})
_MEANT_DEFINITE = frozenset({"input", "context"})
_FILE_NOUNS = frozenset({"file", "document", "spreadsheet", "image", "database"})
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
            return self._question(scene, phrases)
        if thing.form in ("verb", "gerund", "participle", "preposition", "clause"):
            return self._phrase(scene, segment, thing, phrases)
        if is_again:
            return self._again(scene, slot, thing, phrases)
        return (
            self._number(scene, slot, thing, phrases)
            or self._before_noun(scene, slot, segment, phrases)
            or self._named(scene, thing, phrases)
            or self._apposition(scene, slot, phrases)
            or self._adjunct(scene, slot, segment, thing, phrases)
            or _at(scene, self.noun_phrase(scene, slot, segment, thing, phrases))
        )

    def noun_phrase(self, scene: Scene, slot: Slot, segment: Segment, thing: Thing, phrases: Phrases) -> str:
        """Return a noun phrase that fits after what stands before the value."""
        noun = self._noun(scene, slot, thing)
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
        is_bare = thing.is_head and not self._begins_with_determiner(scene)
        if is_bare or noun in _MASS_NOUNS:
            return (phrases.definite if is_definite and not is_bare else phrases.mass).format(noun=noun)
        return (phrases.definite if is_definite else phrases.indefinite).format(noun=noun)

    def _something(self, scene: Scene, slot: Slot, thing: Thing, phrases: Phrases) -> str:
        """Return what is said of a thing that has no noun."""
        if slot.before in self.english.copulas and self.english.is_adjective(_plain(scene)):
            return phrases.by_subdimension.get("selection", phrases.known)
        if slot.determiner:
            return _join(_adjective(slot.determiner, phrases), "items" if thing.is_plural else "item")
        return phrases.known_plural if thing.is_plural else phrases.known

    def _noun(self, scene: Scene, slot: Slot, thing: Thing) -> str | None:
        if re.search(r"=\s*$", scene.left):
            return "value"
        if thing.is_head and _RELATIVE.match(scene.right):
            return last_noun(scene.text[scene.start : scene.end], self.english) or thing.noun
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

    def _named(self, scene: Scene, thing: Thing, phrases: Phrases) -> Edit | None:
        match = self.namer.search(scene.left)
        if not match:
            return None
        noun = match["noun"].lower()
        is_predicate = noun in self.english.function_words or (
            self.english.base(noun) is not None and noun not in self.english.kind_nouns
        )
        if is_predicate:
            return _at(scene, phrases.manner or phrases.known)
        name = phrases.plural.format(noun="names") if thing.is_plural else phrases.indefinite.format(noun="name")
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
            return Edit(start=start, end=scene.end, new="under " + phrases.indefinite.format(noun="name"))
        place = _PLACE_BEFORE.search(scene.left)
        if place and thing.noun is None and segment.subdimension.lower() in ("source", "location") and by_subdimension:
            return Edit(start=scene.sentence_start + place.start(), end=scene.end, new=by_subdimension)
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

    def _question(self, scene: Scene, phrases: Phrases) -> Edit | None:
        plain = " ".join(scene.text[scene.start : scene.end].split())
        if _BARE_QUESTION.match(plain):
            return None
        if _NOUN_QUESTION.match(plain):
            return _at(scene, "who" if re.search("(?i)person|people|who", plain) else "what")
        return _at(scene, phrases.details)

    def _phrase(self, scene: Scene, segment: Segment, thing: Thing, phrases: Phrases) -> Edit | None:
        value = scene.text[scene.start : scene.end]
        by_subdimension = phrases.by_noun.get(thing.noun or "") or phrases.by_subdimension.get(
            segment.subdimension.lower(), phrases.manner
        )
        if thing.form == "gerund":
            return _at(scene, _gerund(phrases.action))
        if thing.form == "verb":
            is_state = _MODAL_BEFORE.search(scene.left) and not _PERSONAL.search(scene.left)
            return _at(scene, phrases.state if is_state else phrases.action)
        if thing.form == "clause":
            before = _QUESTION_BEFORE.search(scene.left)
            if before:
                return Edit(start=scene.sentence_start + before.start(), end=scene.end, new=phrases.details)
            determiner = _DETERMINER_BEFORE.search(scene.left)
            start = scene.sentence_start + determiner.start() if determiner else scene.start
            event = phrases.event if _PAST.search(value) else phrases.conditions
            return Edit(start=start, end=scene.end, new=phrases.rule if thing.noun == "rule" else event)
        if _AS_BEFORE.search(scene.left):
            return _at(scene, phrases.known)
        first = value.split()[0].lower()
        if first in ("not", "to"):
            return _at(scene, "to " + phrases.action)
        if thing.form == "participle" and len(value.split()) > 1 and segment.subdimension.lower() != "temporal":
            words = value.split()
            kept = words[1] if first.endswith("ly") and len(words) > 1 else words[0]
            return _at(scene, _join(kept, phrases.by_noun.get(thing.noun or "", phrases.manner)))
        return _at(scene, by_subdimension or phrases.known)


def _adjective(determiner: str, phrases: Phrases) -> str:
    return phrases.adjective if determiner == "a" else phrases.definite_adjective


def _plain(scene: Scene) -> str:
    return scene.text[scene.start : scene.end].strip("\"'`*")


def _gerund(action: str) -> str:
    first, _, rest = action.partition(" ")
    return _join(first[:-1] + "ing" if first.endswith("e") else first + "ing", rest)


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _at(scene: Scene, new: str) -> Edit:
    return Edit(start=scene.start, end=scene.end, new=new)
