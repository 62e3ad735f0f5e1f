"""Removes a value where that is grammatical by construction, and refuses everything else."""

import re
from collections.abc import Iterator
from functools import lru_cache

from generators.errors import RewritingFailed
from generators.protocol import Removal
from generators.rewriting.context import OccurrenceContext, Surroundings
from generators.rewriting.edits import Edit, applied, merged
from generators.rewriting.english import english
from generators.rewriting.occurrences import Prompt
from generators.rewriting.wording import Wording
from recorder.events.values import Segment, Severity

NEEDS_A_REWRITER = "needs a rewriter"

_FIELD = re.compile(r"[ \t]*(?:[-*+\u2022][ \t]+)?[A-Z][\w /-]{0,30}:[ \t]*")
_NUMBERED = re.compile(r"(?m)^(?P<indent>[ \t]*)(?P<number>\d{1,3})(?P<mark>[.)])(?=[ \t])")
_STEP = re.compile(r"[ \t]*\d{1,3}[.)][ \t]+")
_NUMBER_SPOKEN_OF = re.compile(r"(?i)\b(?:steps?|items?|points?|no\.|number|rules?)\s+\d")
_REFERS_BACK = re.compile(
    r"(?i)\b(?:it|its|they|them|their|this|that|these|those|he|she|his|her|him|such|so|then|otherwise|instead|both|also|"
    r"the (?:latter|former|same|other|rest)|for example|e\.g\.|in (?:this|that) case|if (?:not|so))(?!\w)"
)
_REQUEST = re.compile(
    r"(?i)\W*(?:i (?:want|need|would like)|i'd like|we (?:want|need)|(?:can|could|would) you|please)\b"
)
_ADDITION = re.compile(
    r"(?i)(?:\w+(?:ed|ing)|ideally|preferably|with|without|in|by|at|on|from|except|no|not|if possible)\b"
)
_OPENER = re.compile(r"(?i)\W*(?:if|when|because|since|unless|while|although|once|after|before|as|for|given|where)\b")
_NEXT = re.compile(r"\s*[^.!?\n]*")
_COUNTED = re.compile(r"(?i)\b(?:two|three|four|five|six|seven|eight|nine|ten|both|\d+) (?:\w+ )?\w+s\b[^.\n]*:")
_ENUMERATES = re.compile(r",\s+(?:and|or|but)\b")
_AFTER_CLAUSE = re.compile(r"[,.;:!?)]|$")


def without(prompt: str, removal: Removal, wording: Wording) -> str:
    """Return the prompt without the removed values.

    Raises:
        RewritingFailed: For one of the values no removal is certain to be grammatical.
    """
    original, surroundings = Prompt(prompt), Surroundings(prompt)
    edits: list[Edit] = []
    for segment in removal.segments:
        for place in original.occurrences(segment):
            edits += _edits(surroundings.scene(place), segment, removal.severity, wording)
    return applied(prompt, merged(edits))


def _edits(scene: OccurrenceContext, segment: Segment, severity: Severity, wording: Wording) -> list[Edit]:
    is_prose = not scene.is_code and _is_english(scene.text[scene.block_start : scene.block_end])
    if is_prose and severity == "delete":
        found = next(_deletions(scene), None)
    elif is_prose:
        found = _stand_in(scene, segment, severity, wording)
    else:
        found = None
    if found is None:
        raise RewritingFailed(f"no rule is sure how to {severity} {segment.value[:80]!r}; {NEEDS_A_REWRITER}")
    return [found, *_renumbering(scene.text, found)]


@lru_cache(maxsize=16)
def _is_english(block: str) -> bool:
    """Return whether a block is English. A block that repeats a value is asked about for each of its places."""
    return english().is_english(block)


def _deletions(scene: OccurrenceContext) -> Iterator[Edit]:
    """Yield the certain ways to delete a value, the smallest first."""
    text, left, right = scene.text, scene.left, scene.right
    if left.endswith("(") and right.startswith(")"):
        yield Edit(start=scene.start - 1 - left[:-1].endswith(" "), end=scene.end + 1, new="")
    is_bounded = re.search(r"\w,\s+$", left) and _AFTER_CLAUSE.match(right) and _ADDITION.match(text, scene.start)
    if is_bounded and not _ENUMERATES.match(right) and not _ENUMERATES.search(left) and not _OPENER.match(left):
        yield Edit(start=scene.start - len(left) + len(left.rstrip().rstrip(",")), end=scene.end, new="")
    line_start, line_end = text.rfind("\n", 0, scene.sentence_start) + 1, text.find("\n", scene.end) % (len(text) + 1)
    line_end = line_end if line_end >= scene.end else len(text)
    after = text[scene.end : line_end]
    if scene.is_item and _COUNTED.search("\n\n".join(text[:line_start].rstrip().split("\n\n")[-2:])):
        return
    field_start = text.rfind("\n", 0, scene.start) + 1
    is_field = _FIELD.fullmatch(text, field_start, scene.start)
    if (is_field or (scene.is_item and not left.strip())) and not after.strip(" \t\r.;"):
        yield Edit(start=field_start if is_field else line_start, end=min(line_end + 1, len(text)), new="")
    yield from _sentence(scene, line_start, line_end)


def _sentence(scene: OccurrenceContext, line_start: int, line_end: int) -> Iterator[Edit]:
    """Yield the removal of the sentence or list item around a value, if nothing before or after it depends on it."""
    text, start, end = scene.text, scene.sentence_start, scene.sentence_end
    sentence = text[start:end].rstrip()
    following = _NEXT.match(text, end)
    is_first = not text[:start].strip(" \t\r\n-*+#>")
    depends = following and _REFERS_BACK.search(following.group())
    has_end = scene.is_item or re.search(r"[.!]['\")]*$", sentence)
    is_needed = _REQUEST.match(sentence) or sentence.endswith(("?", ":"))
    if is_first or depends or is_needed or scene.is_cell or not has_end:
        return
    opening = re.match(r"\w+", sentence.lower())
    is_step = _STEP.fullmatch(text, line_start, start)
    if is_step and opening and opening.group() in english().verbs:
        return  # the next steps build on it
    is_whole_line = not text[line_start:start].strip(" \t-*+\u20220123456789.)") and not text[end:line_end].strip()
    if is_whole_line and (scene.is_item or not text[line_start:start].strip()):
        yield Edit(start=line_start, end=min(line_end + 1, len(text)), new="")
    elif text[:start].endswith(" "):
        yield Edit(start=len(text[:start].rstrip(" ")), end=end, new="")
    elif text.startswith(" ", end):
        yield Edit(start=start, end=end + 1, new="")


def _stand_in(scene: OccurrenceContext, segment: Segment, severity: Severity, wording: Wording) -> Edit | None:
    """Return the closed-class phrase that takes the value's place, or None where no phrase is certain to fit."""
    value = scene.text[scene.start : scene.end]
    for slot in wording.slots:
        before, match = slot.before.search(scene.left), slot.value.fullmatch(value)
        if before and match and slot.after.match(scene.right):
            phrase = slot.phrases[severity].format_map({**before.groupdict(), **match.groupdict()})
            return Edit(start=scene.sentence_start + before.start(), end=scene.end, new=phrase)
    return None


def _renumbering(text: str, edit: Edit) -> list[Edit]:
    """Return the edits that close up the numbers of a list below an item that goes, unless they are spoken of."""
    item = _NUMBERED.match(text, edit.start)
    if not item or edit.new or edit.end < item.end() or _NUMBER_SPOKEN_OF.search(text):
        return []
    edits, number = [], int(item["number"])
    for following in _NUMBERED.finditer(text, edit.end):
        if following["indent"] != item["indent"]:
            continue
        if int(following["number"]) != number + 1 or following["mark"] != item["mark"]:
            break
        edits.append(Edit(start=following.start("number"), end=following.end("number"), new=str(number)))
        number += 1
    return edits
