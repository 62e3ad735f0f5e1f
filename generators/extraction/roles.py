"""Decides from the preceding words whether a prompt reads or writes what it names. What they leave open has no role."""

import re

from lhaw_record.generators.extraction.document import Document
from lhaw_record.generators.extraction.lexicon import Lexicon
from lhaw_record.generators.extraction.rules import Role

_WORDS = re.compile(r"[\w'$/~{}-]+|[.;:!?()]")
_STOPS = frozenset(".;:!?()")
_THERE = frozenset({"as", "to", "into", "onto"})
_FROM = frozenset({"from", "of", "inside", "within", "using", "per", "against", "with"})
_AT = frozenset({"in", "at", "under", "on"})
_NAMED = frozenset({"named", "called", "titled", "entitled"})
_THERE_ALREADY = frozenset({"existing", "already", "has", "have", "had"})
_NOT_SAID_TO_WRITE = frozenset({"provided", "given", "set", "stored", "recorded", "placed", "posted", "uploaded"})
_NO_TARGETS = (["according"], ["link"])
_PERMISSION = frozenset({"permission", "permissions", "access"})
_MOST_BETWEEN = 3
_MOST_SAVED_WORDS = 4


def role_of(document: Document, lexicon: Lexicon, place: int) -> Role | None:
    """Return ``output`` if the words before an offset write what stands there, ``input`` if they read it.

    What decides is the nearest preposition, "named" or verb of the sentence, at most a few nouns away. Where none is
    near, or where it fits both ("save the sum of all the numbers in"), the role is None.
    """
    words = _WORDS.findall(document.lower, document.sentence(place)[0], place)
    if not _PERMISSION.isdisjoint(words):
        return None
    for distance, word in enumerate(reversed(words)):
        before = words[: len(words) - distance - 1]
        if word in _STOPS or distance > _MOST_BETWEEN:
            break
        is_written = any(_is_writing(each, lexicon) for each in before)
        if word in _THERE:
            return "output" if is_written and before[-1:] not in _NO_TARGETS else None
        if word in _NAMED:
            return _role_of_named(before, lexicon)
        if word in _FROM:
            return "input"
        if word in _AT:
            return _role_at(before, lexicon) if is_written else "input"
        if word in lexicon.words["verb_make"]:
            return "output"
        if any(word in lexicon.words[each] for each in ("verb_read", "verb_transfer", "verb_act_on")):
            return "input" if not is_written else None
    return None


def writes(document: Document, lexicon: Lexicon, first: int, place: int) -> bool:
    """Return whether a verb between two offsets writes something or brings it somewhere."""
    return any(_is_writing(word, lexicon) for word in _WORDS.findall(document.lower, first, place))


def _is_writing(word: str, lexicon: Lexicon) -> bool:
    is_verb = word in lexicon.words["verb_write"] or word in lexicon.words["verb_transfer"]
    return is_verb and word not in _NOT_SAID_TO_WRITE


def _role_at(words: list[str], lexicon: Lexicon) -> Role | None:
    """Return ``output`` for what a short object is written in, at or under: "save the answer in"."""
    saved = words[-_MOST_SAVED_WORDS - 1 :]
    if any(word in _FROM | _AT | _STOPS | _THERE_ALREADY for word in saved):
        return None
    is_saved = any(word in lexicon.words["verb_write"] and word not in _NOT_SAID_TO_WRITE for word in saved)
    return "output" if is_saved else None


def _role_of_named(words: list[str], lexicon: Lexicon) -> Role | None:
    """Return the role of what is "named" something: it is written if the nearest verb makes things."""
    if words[-1:] == ["be"]:
        return "output"
    for place, word in reversed(list(enumerate(words))):
        if word in _THERE_ALREADY or word == "from":
            return "input"
        if word in ("add", "insert") and words[place + 1 : place + 2] == ["the"]:
            return None  # something that may be there already
        if word in lexicon.words["verb_make"] or word == "new":
            return "output"
        if word in _STOPS or _is_writing(word, lexicon):
            return None
        if word in lexicon.task_verbs or word in lexicon.words["verb_act_on"]:
            is_new = words[-2:-1] in (["a"], ["an"]) or any(_is_writing(each, lexicon) for each in words)
            return None if is_new else "input"
    return None
