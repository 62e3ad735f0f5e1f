"""``RuleRewriter``: removes a value where that surely leaves good English and a visible gap, and refuses the rest."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache

import msgspec

from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.protocol import Removal, Rewriting, SourceTask
from lhaw_record.generators.rewriting.forms import NUMBER_WORDS
from lhaw_record.generators.rewriting.occurrences import Prompt
from lhaw_record.generators.spans import replaced
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Severity
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.users.simulated_user.lexicon import stem

NAME = "rules/11"
NEEDS_A_REWRITER = "needs a rewriter"

_SENTENCE_EDGE = re.compile(r"\n|[.!?]['\")]*\s")
_WRAPPERS = (("`", "`"), ('"', '"'), ("'", "'"), ("\u201c", "\u201d"), ("\u2018", "\u2019"))
_PLACE = r"(?:path|location|name|directory|folder|file ?name|file)s?"
_GIVEN = r"(?:exact(?:ly)?|same|specified|given|mentioned|required|correct|above|listed)"
_POINTS_AT = re.compile(
    rf"(?i)\b{_GIVEN} (?:\w+ ){{0,2}}{_PLACE}\b|\b{_PLACE} (?:\w+ ){{0,2}}{_GIVEN}\b"
    r"|\bas (?:above|specified|named)\b|\b(?:above|previously)[ -]"
)
_WORDS = re.compile(r"[A-Z]?[a-z]{2,}|[A-Z]{2,}|\d+")
_FIRST_GUESSES = frozenset(
    ("output", "out", "result", "answer", "ans", "solut", "report", "summary", "master", "main", "index")
)
_REACH_CHARS = 400  # on either side of a value; no place is longer


class Slot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A place that takes exactly one kind of phrase, as ``data/generation/rewriting.toml`` describes it."""

    severity: Severity
    before: re.Pattern[str]
    value: re.Pattern[str]
    after: re.Pattern[str]
    phrase: str
    question: str
    failure: str
    alone: re.Pattern[str] | None = None

    def fields(self, left: str, value: str, right: str) -> tuple[int, int, dict[str, str]] | None:
        """Return where ``before`` begins, how far ``after`` reaches, and the fields; None if the place does not fit."""
        before, match, after = self.before.search(left), self.value.fullmatch(value), self.after.match(right)
        if not before or not match or not after:
            return None
        core, groups = value.strip("`\"'\u201c\u201d"), before.groupdict() | match.groupdict() | after.groupdict()
        where = ", and in which folder should it be" if re.search(r"\w/.*\.\w+$", core) else ""
        return before.start(), after.end(), {**groups, "where": where}


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What happens to one segment: the text at ``start:end`` becomes ``new``; an agent would ask ``question``."""

    start: int
    end: int
    new: str
    question: str
    failure: str


@cache
def slots() -> tuple[Slot, ...]:
    """Load the bundled slots."""
    raw = tomllib.loads(_text())["slots"]
    for each in raw:
        each["before"] = f"(?:{each['before']})$"
    patterns = ("before", "value", "after", "alone")
    return tuple(
        msgspec.convert({k: re.compile(v) if k in patterns else v for k, v in each.items()}, Slot) for each in raw
    )


def _text() -> str:
    return data_path("generation", "rewriting.toml").read_text(encoding="utf-8")


class RuleRewriter:
    """Removes segments by rules. Implements :class:`lhaw_record.generators.protocol.Rewriter`."""

    name = NAME

    def __init__(self) -> None:
        self.digest = digest([NAME, _text()])

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Return the prompt without the segments. The result is deterministic, so a second attempt is refused."""
        if problems:
            raise RewritingFailed(f"{NAME} gives the same prompt again, with the same problems: {'; '.join(problems)}")
        return self.rewriting(source.task.prompt, removal)

    def rewriting(self, prompt: str, removal: Removal) -> Rewriting:
        """Rewrite a prompt without the removed segments, and add the expected questions and the failure mode."""
        original = Prompt(prompt)
        changes = [_change(original, segment, removal.severity) for segment in removal.segments]
        return Rewriting(
            prompt=replaced(prompt, {(each.start, each.end): each.new for each in changes}),
            expected_questions=tuple(
                ExpectedQuestions(segment_id=segment.segment_id, questions=(change.question,))
                for segment, change in zip(removal.segments, changes, strict=True)
            ),
            failure_mode=" ".join(dict.fromkeys(change.failure for change in changes)),
        )


def _change(original: Prompt, segment: Segment, severity: Severity) -> Change:
    place = original.own_place(segment) if segment.value.strip() else None
    if place is None:
        raise RewritingFailed(f"the value {segment.value!r} of {segment.segment_id} is not in the prompt")
    change = _change_at(original.text, *place, segment.value, severity)
    if not change or len(original.occurrences(segment)) > 1 or _is_said_elsewhere(original.text, segment.value):
        raise RewritingFailed(f"no rule is sure how to {severity} {segment.value[:80]!r}; {NEEDS_A_REWRITER}")
    return change


def _is_said_elsewhere(text: str, value: str) -> bool:
    """Return whether a value stands twice, however it is joined: tide_7.csv and Tide 7."""
    name = re.sub(r"\.[a-z]\w{1,4}$", "", value.strip("`\"' ./").lower()).rpartition("/")[2]
    joined = re.sub(r"[\W_]", "", name)
    return not joined or re.sub(r"[\W_]", "", text.lower()).count(joined) > 1


def _change_at(text: str, start: int, end: int, value: str, severity: Severity) -> Change | None:
    """Return the certain way to remove a value at its place, if there is one."""
    for opening, closing in _WRAPPERS:
        if text[:start].endswith(opening) and text.startswith(closing, end):
            start, end = start - 1, end + 1
            break
    left = _SENTENCE_EDGE.split(text[max(0, start - _REACH_CHARS) : start])[-1]
    right = text[end : end + _REACH_CHARS].partition("\n")[0]
    first = start - len(left)
    if left.count('"') % 2 or text.count("```", 0, start) % 2 or value[-1] in ".!?":
        return None  # a text that is to be written as it stands, code, or the end of the sentence
    for slot in slots():
        said = slot.fields(left, text[start:end], right) if slot.severity == severity else None
        if said is None:
            continue
        begin, until, fields = said
        if not _is_told(slot, value, fields, f"{text[: first + begin]} {text[end + until :]}"):
            return Change(
                start=first + begin,
                end=end,
                new=slot.phrase.format_map(fields),
                question=slot.question.format_map(fields),
                failure=slot.failure.format_map(fields),
            )
    return None


def _is_told(slot: Slot, value: str, fields: Mapping[str, str], rest: str) -> bool:
    """Return whether the rest of a prompt gives a value away, points at it, or has another thing that it could be."""
    if (slot.alone and slot.alone.search(rest)) or ("things" in fields and _numbers(value) & _numbers(rest)):
        return True
    noun = fields.get("noun")
    if not noun:
        return False
    name = re.sub(r"\.\w{1,8}$", "", value.strip("`\"'\u201c\u201d ").rpartition("/")[2])
    own = {stem(each.lower()) for each in _WORDS.findall(name)}
    left = own - _FIRST_GUESSES - {stem(each.lower()) for each in _WORDS.findall(f"{noun} {rest}")}
    other = rf"(?:an?|one|another|new|each|every) (?:[\w.&-]+ ){{0,3}}{noun}s?\b|{noun}s? (?:named|called|[`\"'\u201c])"
    is_other = bool(re.search(rf"(?i)\b(?:{other})", rest))
    return not left or 2 * len(left) <= len(own) or is_other or bool(_POINTS_AT.search(rest))


def _numbers(text: str) -> set[int]:
    words = re.findall(r"[a-z]+|\d+", text.lower())
    return {
        int(each) if each.isdigit() else NUMBER_WORDS.index(each)
        for each in words
        if each.isdigit() or each in NUMBER_WORDS
    }
