"""``RuleRewriter``: removes a value where that surely leaves good English and a visible gap, and refuses the rest."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise

import msgspec

from generators.errors import RewritingFailed
from generators.protocol import Removal, Rewriting, SourceTask
from generators.rewriting.forms import NUMBER_WORDS
from generators.rewriting.occurrences import Prompt
from generators.spans import replaced
from recorder.events.canonical_json import digest
from recorder.events.values import Dimension, ExpectedQuestions, Segment, Severity
from recorder.resources import data_path
from runners.models.calls import ModelCaller
from runners.simulated_user.lexicon import stem

NAME = "rules/10"
NEEDS_A_REWRITER = "needs a rewriter"

_FENCE = re.compile(r"(?ms)^[ \t]*(```|~~~).*?(?:^[ \t]*\1[^\n]*$|\Z)|<!--.*?-->")
_BLOCK_EDGE = re.compile(
    r"\n[ \t]*\r?\n|\n(?=[ \t]*(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+\S)|\n(?=[ \t]*(?:#{1,6} |\||```))|\\n"
)
_SENTENCE_END = re.compile(r"(?<![.\s][A-Za-z])(?<!\be\.g)(?<!\bi\.e)(?<!\betc)(?<!\bvs)[.!?]['\")\]\u201d]*(?=\s)")
_MARKER = re.compile(r"[ \t]*(?:(?:[-*+\u2022]|\d{1,3}[.)])[ \t]+)?")
_WRAPPERS = (("`", "`"), ('"', '"'), ("'", "'"), ("\u201c", "\u201d"), ("\u2018", "\u2019"))
_NAME = r"[`\"'\u201c]?[\w./-]*\w\.\w{1,5}\b[`\"'\u201d]?"
_LISTED = re.compile(rf"[^\w.;]{{0,3}}(?:\.\.\.|\u2026|(?:and |or )?{_NAME})")
_LISTED_BEFORE = re.compile(rf"{_NAME}(?:,| and| or|, and|, or) $")
_OPEN_QUOTE = re.compile(r"\u201c[^\u201d]*$|(?:^|[\s(:])'[^']*$")
_PLACE = r"(?:path|location|name|directory|folder|file ?name|file)s?"
_GIVEN = r"(?:exact(?:ly)?|same|specified|given|mentioned|required|correct|above|listed)"
_POINTS_AT = re.compile(
    rf"(?i)\b{_GIVEN} (?:\w+ ){{0,2}}{_PLACE}\b|\b{_PLACE} (?:\w+ ){{0,2}}{_GIVEN}\b"
    r"|\bas (?:above|specified|named)\b|\b(?:above|previously)[ -]"
)
_WORDS = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d+")
_FIRST_GUESSES = frozenset(("output", "out", "result", "answer", "ans", "solut", "report", "summary", "master", "main"))
_FILES = {"txt": "text file", "xlsx": "spreadsheet", "pdf": "PDF file", "png": "PNG file", "jpg": "JPG file"}
_LONGEST_SENTENCE = 2_000
_NAME_CHARS = 200
_IN_CAPITALS = ("csv", "json", "html", "yaml", "xml", "svg", "tsv")


class Slot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place that takes exactly one kind of phrase, as ``data/generation/rewriting.toml`` describes it."""

    severity: Severity
    before: re.Pattern[str]
    value: re.Pattern[str]
    after: re.Pattern[str]
    phrase: str
    question: str
    failure: str
    dimension: Dimension | None = None
    unless: re.Pattern[str] | None = None
    is_name: bool = False
    noun: str | None = None

    def fields(self, left: str, value: str, right: str) -> tuple[int, int, dict[str, str]] | None:
        """Return where ``before`` begins, how far ``after`` reaches, and the fields; None if the place does not fit."""
        before, match = self.before.search(left), self.value.fullmatch(value)
        after = self.after.match(right)
        if not before or not match or not after or (self.unless and self.unless.search(left)):
            return None
        core, groups = value.strip("`\"'\u201c\u201d"), before.groupdict() | match.groupdict() | after.groupdict()
        ending = groups.get("ending") or ""
        kept = groups.get("kept") or ""
        return (
            before.start(),
            after.end(),
            {
                **groups,
                "said": kept[:1].lower() + kept[1:],
                "file": _FILES.get(ending, f"{ending.upper() if ending in _IN_CAPITALS else ending} file"),
                "where": ", and in which folder should it be" if re.search(r"\w/.*\.\w+$", core) else "",
                "format": ", and which format should it have" if ending == "xlsx" else "",
            },
        )


class Change(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """What happens to one segment: the text at ``start:end`` becomes ``new``; an agent would ask ``question``."""

    start: int
    end: int
    new: str
    segment_id: str
    question: str
    failure: str


@cache
def slots() -> tuple[Slot, ...]:
    """Load the bundled slots."""
    raw = tomllib.loads(_text())["slots"]
    for each in raw:
        each["before"] = f"(?:{each['before']})$"
    patterns = ("before", "value", "after", "unless")
    return tuple(
        msgspec.convert({k: re.compile(v) if k in patterns else v for k, v in each.items()}, Slot) for each in raw
    )


def _text() -> str:
    return data_path("generation", "rewriting.toml").read_text(encoding="utf-8")


class RuleRewriter:
    """Removes segments by rules. Implements :class:`generators.protocol.Rewriter`."""

    name = NAME

    def __init__(self) -> None:
        self.digest = digest([NAME, _text()])

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Return the prompt without the segments. The result is deterministic, so a second attempt is refused.

        Raises:
            RewritingFailed: A value is not in the prompt, the rules have no replacement for it, or this is a second
                attempt.
        """
        if problems:
            raise RewritingFailed(f"{NAME} gives the same prompt again, with the same problems: {'; '.join(problems)}")
        return self.rewriting(source.task.prompt, removal)

    def rewriting(self, prompt: str, removal: Removal) -> Rewriting:
        """Rewrite a prompt without the removed segments, and add the expected questions and the failure mode.

        Raises:
            RewritingFailed: A value is not in the prompt, the rules have no replacement for it, or two segments would
                be asked for with the same words.
        """
        original = Prompt(prompt)
        changes = sorted(_change(original, segment, removal.severity) for segment in removal.segments)
        asked = [change.question for change in changes]
        overlaps = any(one.end > other.start for one, other in pairwise(changes))
        if overlaps or len(set(asked)) < len(asked):
            raise RewritingFailed(f"two gaps would be one: {asked[0]!r}; {NEEDS_A_REWRITER}")
        found = {change.segment_id: change for change in changes}
        return Rewriting(
            prompt=replaced(prompt, {(each.start, each.end): each.new for each in changes}),
            expected_questions=tuple(
                ExpectedQuestions(segment_id=each.segment_id, questions=(found[each.segment_id].question,))
                for each in removal.segments
            ),
            failure_mode=" ".join(dict.fromkeys(found[each.segment_id].failure for each in removal.segments)),
        )


def _change(original: Prompt, segment: Segment, severity: Severity) -> Change:
    if not segment.value.strip() or original.own_place(segment) is None:
        raise RewritingFailed(f"the value {segment.value!r} of {segment.segment_id} is not in the prompt")
    places = original.occurrences(segment)
    change = None
    if len(places) == 1 and not _is_said_elsewhere(original.text, segment.value):
        change = next(_changes(original.text, places[0].start, places[0].end, segment, severity), None)
    if change is None:
        raise RewritingFailed(f"no rule is sure how to {severity} {segment.value[:80]!r}; {NEEDS_A_REWRITER}")
    return change


def _is_said_elsewhere(text: str, value: str) -> bool:
    """Return whether a value stands twice, however it is joined, or beside another of its kind: a_1.csv and a_2.csv."""
    core, lower = value.strip("`\"' ./").lower(), text.lower()
    joined = re.sub(r"[\W_]", "", re.sub(r"\.[a-z]\w{1,4}$", "", core).rsplit("/", 1)[-1])
    if not joined or re.sub(r"[\W_]", "", lower).count(joined) > 1:
        return True
    ending = re.search(r"\.[a-z]\w{1,4}$", core)
    return bool(ending) and len(set(re.findall(rf"(?<![\w/.-])[\w/.-]*\w{re.escape(ending[0])}\b", lower))) > 1  # type: ignore[index]


def _changes(text: str, start: int, end: int, segment: Segment, severity: Severity) -> Iterator[Change]:
    """Yield the certain ways to remove a value at its place."""
    for opening, closing in _WRAPPERS:
        if text[:start].endswith(opening) and text.startswith(closing, end):
            start, end = start - 1, end + 1
            break
    low, high = _block(text, start, end)
    if _is_no_prose(text, low, start, end):
        return
    first, last = _sentence(text, low, high, start, end)
    left, right = text[first:start], text[end:last]
    if len(left) > _LONGEST_SENTENCE or left.count('"') % 2 or _OPEN_QUOTE.search(left) or segment.value[-1] in ".!?":
        return  # no sentence, part of a text that is to be written as it stands, or the end of the sentence
    for slot in slots():
        fits = slot.severity == severity and slot.dimension in (None, segment.dimension)
        said = slot.fields(left, text[start:end], right) if fits else None
        if said is None:
            continue
        begin, until, fields = said
        if not _is_open(slot, segment.value, fields, f"{text[: first + begin]} {text[end + until :]}"):
            yield Change(
                start=first + begin,
                end=end,
                new=slot.phrase.format_map(fields),
                segment_id=segment.segment_id,
                question=slot.question.format_map(fields),
                failure=slot.failure.format_map(fields),
            )


def _is_open(slot: Slot, value: str, fields: Mapping[str, str], rest: str) -> bool:
    """Return whether the rest of a prompt gives a value away, points at it, or has another thing that it could be."""
    words = re.findall(r"[a-z]+|\d+", value)
    numbers = [str(NUMBER_WORDS.index(each)) if each in NUMBER_WORDS else each for each in words]
    is_count = "things" in fields or "".join(numbers[:1]).isdigit()
    if is_count and any(each.isdigit() and re.search(rf"(?<!\d){each}(?!\d)", rest) for each in numbers):
        return True
    if not slot.is_name:
        return False
    noun = slot.noun or fields["noun"]
    if slot.severity == "genericize" and (f"the {fields['file']}" if slot.noun else noun) in rest:
        return True
    folder, _, name = value.strip("`\"'\u201c\u201d ").rpartition("/")
    said = {stem(each.lower()) for each in _WORDS.findall(f"{noun} {rest}")}
    own = {stem(each.lower()) for each in _WORDS.findall(re.sub(r"\.\w{1,8}$", "", name))}
    left = own - (_FIRST_GUESSES | said if not folder or folder in rest else said)
    unnamed = rf"(?i)\b(?:an?|one|another|new|each|every) (?:[\w.&-]+ ){{0,3}}{noun}s?\b(?!\S* [`\"'\u201c])"
    return not left or 2 * len(left) <= len(own) or bool(_POINTS_AT.search(rest)) or bool(re.search(unnamed, rest))


def _is_no_prose(text: str, low: int, start: int, end: int) -> bool:
    """Return whether a value is in code, a comment, a table, a heading, a link or a list of names."""
    is_code = any(found.start() <= start < found.end() for found in _FENCE.finditer(text))
    is_part = text.count("`", low, start) % 2 or text[start - 1 : start] in tuple("*_[/")
    is_listed = _LISTED.match(text, end) or _LISTED_BEFORE.search(text, max(low, start - _NAME_CHARS), start)
    is_marked = text[low:start].lstrip()[:1] in ("|", "#", ">")
    return bool(is_code or is_part or is_listed or is_marked)


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
