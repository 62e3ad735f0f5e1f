"""Something vague or generic in the place of a value that is no noun: a question, a clause, a verb with its object."""

import re

from generators.rewriting.edits import Edit
from generators.rewriting.english import English
from generators.rewriting.scene import Scene
from generators.rewriting.values import Thing
from generators.rewriting.wording import Phrases
from recorder.values import Segment

_BARE_QUESTION = re.compile(r"(?i)^(?:what|who|whom|where|when|why|how|whether)$")
_NOUN_QUESTION = re.compile(r"(?i)^(?:how (?:much|many)|which|what|whose)(?: [\w-]+){1,2}$")
_QUESTION_BEFORE = re.compile(r"(?i)(?<![\w-])(?:what|which|who|how|where|when|why)\s+$")
_DETERMINER_BEFORE = re.compile(r"(?i)(?<![\w-])(?:the|an?|this|that|each|every|some|any)\s+$")
_RELATIVE_BEFORE = re.compile(r"(?i)(?P<noun>[\w-]+)\s+(?:that|which|who)\s+$")
_PERSONAL = re.compile(r"(?i)(?<![\w-])(?:you|we|i|they|please)\b[^.;:]*$")
_MODAL_BEFORE = re.compile(
    r"(?i)(?<![\w-])(?:should|must|shall|will|would|may|might|can|could)(?: not| also| only)?\s+$"
)
_PAST = re.compile(r"(?i)\b(?:was|were|had|has been|have been)\b")
_DOING_BEFORE = re.compile(r"(?i)(?<![\w-])by\s+$")
_BY_BEFORE = re.compile(r"(?i)(?<![\w-])(?:by|according to|based on|on)\s+$")
_AS_BEFORE = re.compile(r"(?i)(?<![\w-])as\s+$")
_ADVERBIAL = re.compile(r"(?:in|with|as|the way|at) ?")


def question(scene: Scene, phrases: Phrases) -> Edit | None:
    """Return what stands for a question; None for a bare question word."""
    plain = " ".join(scene.text[scene.start : scene.end].split())
    if _BARE_QUESTION.match(plain):
        return None
    if _NOUN_QUESTION.match(plain):
        return _at(scene, "who" if re.search("(?i)person|people|who", plain) else "what")
    return _at(scene, phrases.details)


def phrase(scene: Scene, segment: Segment, thing: Thing, phrases: Phrases, english: English) -> Edit:
    """Return what stands for an adverbial, a participle, a verb with its object, or a clause."""
    if thing.form == "gerund":
        by_doing = _DOING_BEFORE.search(scene.left)
        if by_doing and phrases.manner:
            return _from(scene, by_doing.start(), phrases.manner)
        return _at(scene, _gerund(phrases.action))
    if thing.form == "verb":
        is_state = _MODAL_BEFORE.search(scene.left) and not _PERSONAL.search(scene.left)
        return _at(scene, phrases.state if is_state else phrases.action)
    if thing.form == "clause":
        return _clause(scene, thing, phrases, english)
    return _adverbial(scene, segment, thing, phrases)


def _clause(scene: Scene, thing: Thing, phrases: Phrases, english: English) -> Edit:
    value = scene.text[scene.start : scene.end]
    before = _QUESTION_BEFORE.search(scene.left)
    if before:
        return _from(scene, before.start(), phrases.details)
    relative = _RELATIVE_BEFORE.search(scene.left)
    if relative and value.split()[0].lower() in english.auxiliaries:
        verb = "meet" if english.is_plural(relative["noun"]) else "meets"
        return _at(scene, f"{verb} {phrases.conditions.removesuffix(' hold')}")
    determiner = _DETERMINER_BEFORE.search(scene.left)
    event = phrases.event if _PAST.search(value) else phrases.conditions
    new = phrases.rule if thing.noun == "rule" else event
    return _from(scene, determiner.start(), new) if determiner else _at(scene, new)


def _adverbial(scene: Scene, segment: Segment, thing: Thing, phrases: Phrases) -> Edit:
    words = scene.text[scene.start : scene.end].split()
    subdimension = segment.subdimension.lower()
    as_before = _AS_BEFORE.search(scene.left)
    if as_before:
        return _from(scene, as_before.start(), phrases.defined)
    first = words[0].lower()
    if first in ("not", "to"):
        return _at(scene, "to " + phrases.action)
    of_noun = phrases.by_noun.get(thing.noun or "")
    if thing.form == "participle" and len(words) > 1 and subdimension != "temporal":
        kept = words[1] if first.endswith("ly") else words[0]
        return _at(scene, _join(kept, of_noun or phrases.manner))
    new = of_noun or phrases.by_subdimension.get(subdimension, phrases.manner)
    by = _BY_BEFORE.search(scene.left)
    if by and _ADVERBIAL.match(new):
        return _from(scene, by.start(), new)
    return _at(scene, new or phrases.known)


def _gerund(action: str) -> str:
    first, _, rest = action.partition(" ")
    return _join(first[:-1] + "ing" if first.endswith("e") else first + "ing", rest)


def _join(*parts: str) -> str:
    return " ".join(part for part in parts if part)


def _at(scene: Scene, new: str) -> Edit:
    return Edit(start=scene.start, end=scene.end, new=new)


def _from(scene: Scene, place: int, new: str) -> Edit:
    """Replace the value with what stands before it in its sentence, from a place on."""
    return Edit(start=scene.sentence_start + place, end=scene.end, new=new)
