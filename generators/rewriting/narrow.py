"""Removes a value where that is grammatical by construction, and refuses everything else."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping

import msgspec

from generators.errors import RewritingFailed
from generators.protocol import Removal
from generators.rewriting.english import english
from generators.rewriting.occurrences import Prompt
from generators.rewriting.wording import wording
from recorder.events.values import Segment, Severity

NEEDS_A_REWRITER = "needs a rewriter"

_FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)")
_BLOCK_EDGE = re.compile(
    r"\n[ \t]*\r?\n|\n(?=[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+\S)|\n(?=[ \t]*(?:#{1,6} |\||```))|\\n"
)
_SENTENCE_END = re.compile(r"(?<![.\s][A-Za-z])(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?]['\")\]\u201d]*(?=\s)")
_MARKER = re.compile(r"[ \t]*(?:(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+)?")
_WRAPPERS = (("`", "`"), ('"', '"'), ("'", "'"), ("\u201c", "\u201d"), ("\u2018", "\u2019"))
_NAME = r"[`\"'\u201c]?[\w./-]*\w\.\w{1,5}\b[`\"'\u201d]?"
_LISTED = re.compile(rf"[^\w.;]{{0,3}}(?:\.\.\.|\u2026|(?:and |or )?{_NAME})")
_LISTED_BEFORE = re.compile(rf"{_NAME}(?:,| and| or|, and|, or) $")
_FIELD = re.compile(r"[ \t]*(?:[-*+\u2022][ \t]+)(?P<label>[A-Z][\w-]*(?: [\w-]+){0,2}):[ \t]*")
_MAKES = re.compile(r"(?i)\b(?:create|add|register|set up|write|make|open)\b[^\n]*:[ \t]*\r?$")
_OPEN_QUOTE = re.compile(r"\u201c[^\u201d]*$|(?:^|[\s(:])'[^']*$")
_PARTICIPLE = re.compile(r"(?:sorted|ordered|ranked|arranged|grouped|rounded|separated|formatted|written)\b")
_STATES_FORM = re.compile(
    r"(?P<verb>Sort|Order|Rank|Arrange|Group|Round)(?: (?:it|them|(?P<what>(?:the|all) [a-z]+)))?(?: (?:by|in|to))? ?"
)
_DONE = {"Sort": "sorted", "Order": "ordered", "Rank": "ranked", "Arrange": "arranged", "Group": "grouped"}
_REFERS_BACK = re.compile(
    r"(?i)\b(?:it|its|they|them|their|this|that|these|those|such|so|then|otherwise|instead|both|also|each|ties?|which|"
    r"the (?:latter|former|same|other|rest|order)|for example|e\.g\.|if (?:not|so))(?!\w)"
)
_STEM = re.compile(r"^.*/|\.\w{1,5}$|[^\w]+|_+")
_SIBLINGS = 2  # file_1.txt and file_20.txt give each other back
_AFTER_CLAUSE = re.compile(r"[,.;:!?]|$")


class Change(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What happens to one segment: the text at ``start:end`` becomes ``new``; an agent would ask ``question``."""

    start: int
    end: int
    new: str
    segment_id: str
    question: str | None


def without(prompt: str, removal: Removal) -> tuple[str, Mapping[str, str | None]]:
    """Return the prompt without the removed values, and for each segment the question that fits the gap, if one does.

    Raises:
        RewritingFailed: For one of the values no removal is certain to be grammatical.
    """
    original = Prompt(prompt)
    changes = sorted(_change(original, segment, removal.severity) for segment in removal.segments)
    put_in = Counter(change.new.split(" ", 1)[-1] for change in changes if change.new)
    for change, following in zip(changes, [*changes[1:], None], strict=True):
        stand_in = change.new.split(" ", 1)[-1]
        is_twice = put_in[stand_in] > 1 or (stand_in.startswith("the ") and stand_in in prompt)
        if (following and following.start < change.end) or (change.new and is_twice):
            raise RewritingFailed(f"two things would be called {change.new!r}; {NEEDS_A_REWRITER}")
    for change in reversed(changes):
        prompt = prompt[: change.start] + change.new + prompt[change.end :]
    return prompt, {change.segment_id: change.question for change in changes}


def _change(original: Prompt, segment: Segment, severity: Severity) -> Change:
    places = original.occurrences(segment)
    change, words = None, _STEM.sub(" ", segment.value.strip("`\"' ./")).lower().split()
    said = re.findall(r"[^\W_]+", original.text.lower())
    is_said = sum(said[at : at + len(words)] == words for at in range(len(said))) > 1
    name = re.sub(r"\d+", r"\\d+", re.escape(segment.value.strip("`\"' ").rsplit("/", 1)[-1].lower()))
    siblings = set(re.findall(name, original.text.lower())) if re.search(r"[a-z_-]\\d", name) else set()
    ending = re.search(r"\.[a-z]\w{1,4}$", segment.value.strip("`\"' ").lower())
    alike = (
        re.findall(rf"\w{re.escape(ending[0])}\b", original.text.lower()) if ending else ()
    )  # menu_it.txt, menu_fr.txt
    is_alone = len(siblings) < _SIBLINGS and len(alike) < _SIBLINGS
    if len(places) == 1 and not is_said and is_alone:  # what is said twice can be had back
        change = next(_changes(original.text, places[0].start, places[0].end, segment, severity), None)
    if change is None:
        raise RewritingFailed(f"no rule is sure how to {severity} {segment.value[:80]!r}; {NEEDS_A_REWRITER}")
    return change


def _changes(text: str, start: int, end: int, segment: Segment, severity: Severity) -> Iterator[Change]:
    """Yield the certain ways to remove a value at its place, the smallest first."""
    for opening, closing in _WRAPPERS:
        if text[:start].endswith(opening) and text.startswith(closing, end):
            start, end = start - 1, end + 1
            break
    low, high = _block(text, start, end)
    if _is_no_prose(text, low, high, start, end):
        return
    first, last = _sentence(text, low, high, start, end)
    left, right = text[first:start], text[end:last]
    if left.count('"') % 2 or _OPEN_QUOTE.search(left):
        return  # part of a text that is to be written as it stands

    def change(begin: int, until: int, new: str = "", question: str | None = None) -> Change:
        return Change(start=begin, end=until, new=new, segment_id=segment.segment_id, question=question)

    for slot in wording().slots:
        said = slot.fields(left, text[start:end], right) if slot.dimension in (None, segment.dimension) else None
        if said is not None and severity in slot.phrases:
            begin, fields = said
            phrase, question = slot.phrases[severity].format_map(fields), slot.question.format_map(fields)
            yield change(first + begin, end, phrase, question)
    if severity == "delete":
        for begin, until, asked in _deletions(text, first, last, start, end):
            yield change(begin, until, question=asked)


def _is_no_prose(text: str, low: int, high: int, start: int, end: int) -> bool:
    """Return whether a value is in code, a table, a heading, a link, a list of names or another language."""
    is_code = any(found.start() <= start < found.end() for found in _FENCE.finditer(text))
    is_part = text.count("`", low, start) % 2 or text[start - 1 : start] in tuple("*_[/")
    is_listed = _LISTED.match(text, end) or _LISTED_BEFORE.search(text, low, start)
    is_marked = text[low:start].lstrip()[:1] in ("|", "#", ">")
    return bool(is_code or is_part or is_listed or is_marked) or not english().is_english(text[low:high])


def _deletions(text: str, first: int, last: int, start: int, end: int) -> Iterator[tuple[int, int, str | None]]:
    """Yield the spans that may go with a value: an aside, a participle, a field, a sentence about order or rounding.

    The third item is the question that fits, if one does.
    """
    left, right = text[first:start], text[end:last]
    if re.search(r"[a-z] \($", left) and right.startswith(")") and re.search(r"[^\W\d_]{2}", text[start:end]):
        yield start - 2, end + 1, None
    is_said_of_it = re.search(r"\w, $", left) and _PARTICIPLE.match(text, start)
    if is_said_of_it and _AFTER_CLAUSE.match(right) and not re.match(r", (?:and|or|but)\b", right):
        yield start - 2, end, None
    line, line_end = text.rfind("\n", 0, start) + 1, text.find("\n", end) % (len(text) + 1)
    field = _FIELD.fullmatch(text, line, start)
    if field and not text[end:line_end].strip(" \t\r.;"):
        words = field["label"].lower().split()
        above, below = text[:line].splitlines(), text[line_end + 1 :].split("\n", 1)[0]
        parent = next((each for each in reversed(above) if not _FIELD.match(each)), "")
        has_sibling = _FIELD.match(below) or (above and above[-1] is not parent)
        is_noun = not any(word in english().function_words for word in words) and words[-1] not in ("note", "notes")
        if is_noun and _MAKES.search(parent) and has_sibling:
            yield line, min(line_end + 1, len(text)), f"What should the {field['label'].lower()} be?"
    following = text[last : last + 200].lstrip(" ").split("\n", 1)[0]
    is_end = text[last - 1] == "." and text[:first].endswith(" ") and text[:first].strip()
    stated = _STATES_FORM.fullmatch(text, first, start)  # the value says all that the sentence says
    if stated and right == "." and is_end and not _REFERS_BACK.search(following):
        how = _DONE.get(stated["verb"], "rounded")
        yield len(text[:first].rstrip(" ")), last, f"How should {stated['what'] or 'the result'} be {how}?"


def _block(text: str, start: int, end: int) -> tuple[int, int]:
    """Return the span of the paragraph, list item or heading around a value."""
    low, high = 0, len(text)
    for edge in _BLOCK_EDGE.finditer(text):
        if edge.end() <= start:
            low = edge.end()
        elif edge.start() >= end:
            high = edge.start()
            break
    return low, high


def _sentence(text: str, low: int, high: int, start: int, end: int) -> tuple[int, int]:
    marker = _MARKER.match(text, low, start)
    first, last = marker.end() if marker else low, high
    for found in _SENTENCE_END.finditer(text, low, high):
        if found.end() <= start:
            first = found.end()
        elif found.start() >= end:
            last = found.end()
            break
    first += len(text[first:start]) - len(text[first:start].lstrip())
    return first, len(text[:last].rstrip())
