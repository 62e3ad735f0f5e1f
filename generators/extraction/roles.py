"""Decides from the preceding words whether a prompt reads or writes a file or folder."""

import re
from collections.abc import Sequence

from generators.extraction.candidate import Candidate
from generators.extraction.document import Document
from generators.extraction.lexicon import Lexicon
from generators.extraction.rules import Role

_WORDS = re.compile(r"[\w']+")
_NEAR_WORDS = 3
_FAR_WORDS = 6
_JOINED_WORDS = 5
_LEADING_THERE = (["as"], ["into"], ["onto"], ["to"])
_THERE = (["at"], ["in"], ["under"])
_LIES = tuple(
    [each] for each in ("is", "are", "lies", "lie", "live", "lives", "listed", "located", "found", "available")
)
_NAMED = tuple([each] for each in ("named", "called", "titled", "labelled", "labeled"))
_NOT_ASKED = ("has", "have", "had", "a", "an")
_WEAK_INPUT = frozenset({"get", "take", "see"})
_WEAK_OUTPUT = frozenset({"provided", "set", "given"})


def is_written(
    document: Document, lexicon: Lexicon, span: tuple[int, int], name: str, earlier: Sequence[Candidate]
) -> bool:
    """Return whether the task writes a file, folder or quoted term. If False, the task reads it.

    Args:
        document: The prompt.
        lexicon: Supplies the verbs.
        span: The start and end of the name in the prompt.
        name: What it is, such as ``file``, ``folder`` or ``quoted``.
        earlier: The candidates before it in the prompt.
    """
    start = span[0]
    begin = document.sentence(start)[0]
    before = next(
        (each for each in reversed(earlier) if begin <= each.start < start and each.kind in ("file_name", "path")), None
    )
    if before is not None:
        words = _WORDS.findall(document.lower, before.end, start)
        if words[-1:] in _LEADING_THERE and _brings(_WORDS.findall(document.lower, begin, before.start), lexicon):
            return True
        if not any(word in lexicon.words["verb_write"] or word in lexicon.words["verb_read"] for word in words):
            has_comma = "," in document.text[before.end : start]
            return before.is_output and _goes_with(words, name, has_comma=has_comma)
        begin = before.end
    return _by_verbs(_WORDS.findall(document.lower, begin, start), lexicon, is_text=name == "quoted")


def role_of(document: Document, lexicon: Lexicon, place: int) -> Role:
    """Return ``output`` if the nearest verb before an offset writes, or after "as", "to" or "into", else ``input``."""
    words = _WORDS.findall(document.lower, document.sentence(place)[0], place)
    if words[-1:] in _LEADING_THERE:
        return "output"
    for word in reversed(words):
        if word in lexicon.words["verb_read"]:
            return "input"
        if word in lexicon.words["verb_write"]:
            return "output"
    return "input"


def _brings(words: Sequence[str], lexicon: Lexicon) -> bool:
    """Return whether the last verb in the words moves something, as in "copy a.csv into"."""
    verbs = (word for word in reversed(words) if word in lexicon.task_verbs or word in lexicon.words["verb_transfer"])
    return next(verbs, "") in lexicon.words["verb_transfer"]


def _goes_with(words: Sequence[str], name: str, *, has_comma: bool) -> bool:
    """Return whether a name has the same role as the file before it, judging by the words between them."""
    if name in ("quoted", "folder") or words[:1] == ["as"]:
        return True
    return len(words) < _JOINED_WORDS and (has_comma or not {"and", "or", "as"}.isdisjoint(words))


def _by_verbs(words: Sequence[str], lexicon: Lexicon, *, is_text: bool) -> bool:
    """Return whether the words before a name show that the task writes it. The nearest words count first.

    What "is at" a place or "should be named" something needs no other verb; who "has written" a file is somebody else.
    """
    if words[-1:] in _THERE and words[-2:-1] in _LIES:
        return False
    if (words[-1:] in _NAMED and words[-2:-1] == ["be"]) or (words[-1:] == ["subject"] and "see" not in words):
        return True
    leads_there = False
    for distance, word in enumerate(reversed(words)):
        is_near, before = distance < _NEAR_WORDS, words[-distance - 2] if distance + 1 < len(words) else ""
        is_source = is_near and word in ("from", "per") and not leads_there
        if is_source or (word == "to" and distance == 1 and words[-1] == "according"):
            return False
        if word.endswith(("ed", "en")) and before in _NOT_ASKED:
            return False
        leads_there = leads_there or (is_near and word in ("as", "into", "onto", "to"))
        if word in lexicon.words["verb_transfer"]:
            return leads_there
        if word in lexicon.words["verb_read"] and not (word in _WEAK_INPUT and distance > _FAR_WORDS):
            return False
        if word in lexicon.words["verb_write"] or (is_text and word in lexicon.words["content_cue"]):
            return word not in _WEAK_OUTPUT
    return False
