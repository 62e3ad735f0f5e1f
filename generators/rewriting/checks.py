"""The checks that every rewritten prompt must pass, whoever rewrote it."""

import json
import re
from collections.abc import Iterator

from generators.protocol import Removal, Rewriting
from generators.rewriting.boundaries import Boundaries
from generators.rewriting.diff import Hunk, hunks
from generators.rewriting.english import english
from generators.rewriting.forms import UNSPACED
from generators.rewriting.losses import is_still_said
from generators.rewriting.occurrences import Prompt, remaining
from generators.rewriting.parsing import Parsing
from generators.rewriting.sentences import changed_sentences
from generators.rewriting.stand_ins import unnatural
from recorder.events import FailedCheck
from recorder.values import Segment

_LEAST_SHARE = 0.25
_FEWEST_WORDS = 2
_WORD = re.compile(rf"[{UNSPACED}]|[^\W{UNSPACED}]+")
_PLACEHOLDER = re.compile(
    r"(?i)[\[<({_*]+\s*(?:removed|redacted|deleted|omitted|hidden|missing|unspecified|unknown|placeholder|insert|value|blank"
    r"|segment|tbd|to be (?:specified|determined)|not specified)\b[^\]>)}\n]{0,30}[\]>)}_*]+"
    r"|\u2026|\.\.\.|_{3,}|\bTBD\b|\bXXX+\b|\{\w+\}|\[\s*\]|\?\?\?"
    r"|(?:here is|here's|below is) the (?:rewritten|underspecified|modified|new|updated)"
    r"|\bunderspecified\b|\brewritten prompt\b"
)
_JSON = re.compile(r"^\s*(?:```(?:json)?\s*)?\{\s*\"")
_RESIDUE = {
    "empty quotes or brackets": re.compile(
        r"(?<!`)``(?!`)|(?<!\")\"\"(?!\")|[\u201c\u201e]\s*[\u201d\u201c]|\u300c\s*\u300d|\u300e\s*\u300f|\u300a\s*\u300b|\u00ab\s*\u00bb|(?<!\w)\(\s*\)|(?<=\s)''(?=\s)|`\s+`(?=[\s.,])"
    ),
    "a doubled word": re.compile(r"(?i)\b(the|a|an|in|on|at|to|of|for|from|with|and|or|by|as|is)\s+\1\b"),
    "two articles": re.compile(r"(?i)\b(?:the|an?)\s+(?:the|an?)\s"),
    "a space before punctuation": re.compile(r"(?<=\w)[ \t]+[,.;:!?](?=\s|$)"),
    "doubled punctuation": re.compile(r"[,;:]\s*[,;.]|(?<!\.)\.[ \t]*\.(?!\.)"),
    "doubled spaces": re.compile(r"(?<=[\w.,;:])[ \t]{2,}(?=\w)"),
    "a hyphen without its other half": re.compile(r"(?<=[\s(])-(?=[a-z])|(?<=[a-z])-(?=\s[a-z])"),
    "a slash without its other half": re.compile(r"(?<=[a-z])/(?=[)\s])"),
    "doubled underscores": re.compile(r"__"),
    "a name without a name": re.compile(r"(?i)\b(?:named|called|titled|entitled)\s*(?=[.,;:!?\n]|$)"),
}
_FENCE = re.compile(r"(?m)^[ \t]*(?:```|~~~)")
_TABLE_ROW = re.compile(r"(?m)^[ \t]*\|.*$")


def problems_of(original: str, rewriting: Rewriting, removal: Removal) -> tuple[FailedCheck, ...]:
    """Return every check that a rewriting fails; none if it may become a variant.

    The messages say what is wrong in words that a rewriter can act on; docs/rewriting.md states every rule.

    Args:
        original: The prompt as the task has it.
        rewriting: What the rewriter gave.
        removal: What was to be removed, and how.
    """
    if rewriting.prompt == original:
        return (FailedCheck(check="is_changed", message="the prompt is the same as before; remove the segments"),)
    if not rewriting.prompt.strip():
        return (FailedCheck(check="is_long_enough", message="the prompt is empty"),)
    before, after = Prompt(original), Prompt(rewriting.prompt)
    changes = hunks(original, rewriting.prompt)
    found = [
        *_remaining_values(before, after, removal),
        *_other_changes(before, changes, removal),
        *_structure(original, rewriting.prompt),
        *_residue(original, rewriting.prompt),
        *_parsing(original, rewriting.prompt, changes),
        *(("reads_well", message) for message in unnatural(original, changes, removal)),
        *_length(original, rewriting.prompt),
        *_questions(before, rewriting, removal),
        *_stand_ins(before, changes, removal),
        *_losses(rewriting.prompt, removal),
        *_placeholders(original, rewriting, changes),
    ]
    return tuple(FailedCheck(check=check, message=message) for check, message in found)


def _remaining_values(before: Prompt, after: Prompt, removal: Removal) -> Iterator[tuple[str, str]]:
    for segment_id, texts in remaining(before, after, removal.segments).items():
        shown = ", ".join(repr(text) for text in dict.fromkeys(texts))
        yield "value_is_gone", f"{shown} of segment {segment_id} is still in the prompt; remove every occurrence"


def _other_changes(before: Prompt, changes: tuple[Hunk, ...], removal: Removal) -> Iterator[tuple[str, str]]:
    boundaries = Boundaries(before, removal.segments)
    for hunk in changes:
        reason = boundaries.objection(hunk)
        if reason:
            shown = f"{before.text[hunk.start : hunk.end][:80]!r} became {hunk.new[:80]!r}"
            yield "nothing_else_changed", f"{shown}: {reason}; leave everything else as it was"


def _structure(original: str, rewritten: str) -> Iterator[tuple[str, str]]:
    if "\r\n" in original and not re.search(r"(?<!\r)\n", original) and re.search(r"(?<!\r)\n", rewritten):
        yield "structure_is_kept", "lines end with \\n where they ended with \\r\\n; keep the line ends"
    if "\r" not in original and "\r" in rewritten:
        yield "structure_is_kept", "lines end with \\r\\n where they ended with \\n; keep the line ends"
    if len(_FENCE.findall(original)) % 2 != len(_FENCE.findall(rewritten)) % 2:
        yield "structure_is_kept", "a code fence lost its other half; keep both"
    widths = {row.count("|") for row in _TABLE_ROW.findall(original)}
    if any(row.count("|") not in widths for row in _TABLE_ROW.findall(rewritten)) and widths:
        yield "structure_is_kept", "a table row has another number of cells; empty the cell instead of removing it"
    if _is_json(original) and not _is_json(rewritten):
        yield (
            "structure_is_kept",
            "the prompt was JSON and is none any more; change what stands inside its strings only",
        )
    for mark, name in (("`", "backtick"), ('"', "quotation mark")):
        if original.count(mark) % 2 == 0 and rewritten.count(mark) % 2:
            yield "structure_is_kept", f"a {name} lost its other half; remove both or keep both"
    for opening, closing in ("()", "[]", "{}"):
        if original.count(opening) == original.count(closing) and rewritten.count(opening) != rewritten.count(closing):
            yield "structure_is_kept", f"a bracket {opening} {closing} lost its other half; remove both or keep both"


def _is_json(text: str) -> bool:
    if not text.lstrip().startswith(("{", "[")):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _residue(original: str, rewritten: str) -> Iterator[tuple[str, str]]:
    for name, pattern in _RESIDUE.items():
        here = [match.group() for match in pattern.finditer(rewritten)]
        if len(here) > sum(1 for _ in pattern.finditer(original)):
            yield "reads_well", f"the prompt has {name} that it did not have ({here[-1]!r}); mend the sentence"


def _parsing(original: str, rewritten: str, changes: tuple[Hunk, ...]) -> Iterator[tuple[str, str]]:
    """Every changed sentence must parse where it did before."""
    parsing = Parsing(english())
    for change in changed_sentences(original, rewritten, changes, english()):
        for fault in parsing.faults(change):
            yield "still_parses", f"{change.after[:80]!r}: {fault}; mend the sentence"


def _length(original: str, rewritten: str) -> Iterator[tuple[str, str]]:
    had, has = len(_WORD.findall(original)), len(_WORD.findall(rewritten))
    if has < _FEWEST_WORDS or has < _LEAST_SHARE * had:
        yield "is_long_enough", f"{has} words are left of {had}; remove no more than the segments"


def _questions(before: Prompt, rewriting: Rewriting, removal: Removal) -> Iterator[tuple[str, str]]:
    asked = {each.segment_id: each.questions for each in rewriting.expected_questions}
    for segment in removal.segments:
        if not any(question.strip() for question in asked.get(segment.segment_id, ())):
            yield "questions_exist", f"segment {segment.segment_id} has no expected question; write one"
    known = {segment.segment_id for segment in removal.segments}
    for segment_id, questions in asked.items():
        if segment_id not in known:
            yield "questions_exist", f"there are questions for {segment_id!r}, which is not removed; leave them out"
        for question in questions:
            for segment in _revealed(before, question, removal):
                yield (
                    "questions_keep_the_secret",
                    f"the question {question!r} holds the value of {segment.segment_id}; ask without it",
                )


def _revealed(before: Prompt, question: str, removal: Removal) -> Iterator[Segment]:
    asked = Prompt(question)
    for segment in removal.segments:
        if asked.occurrences(segment, before):
            yield segment


def _stand_ins(before: Prompt, changes: tuple[Hunk, ...], removal: Removal) -> Iterator[tuple[str, str]]:
    """Under vaguify and genericize something must stand in the place: new words, or the noun that the value named."""
    if removal.severity == "delete":
        return
    boundaries = Boundaries(before, removal.segments)
    for segment in removal.segments:
        if not boundaries.has_stand_in(segment, changes):
            yield (
                "something_stands_in_its_place",
                f"nothing stands in the place of {segment.segment_id}; {removal.severity} it, do not delete it",
            )


def _losses(rewritten: str, removal: Removal) -> Iterator[tuple[str, str]]:
    """Something must be missing: what the rest of the prompt still says in so many words is not."""
    for segment in removal.segments:
        if is_still_said(segment, rewritten, english()):
            message = (
                f"the prompt still says all of {segment.segment_id} elsewhere; remove that too, or another segment"
            )
            yield "something_is_missing", message


def _placeholders(original: str, rewriting: Rewriting, changes: tuple[Hunk, ...]) -> Iterator[tuple[str, str]]:
    for hunk in changes:
        match = _PLACEHOLDER.search(hunk.new)
        if match and match.group() not in original[hunk.start : hunk.end]:
            yield "no_placeholder", f"{match.group()!r} was put in; write a sentence as a person would"
    if _JSON.match(rewriting.prompt) and not _JSON.match(original):
        yield "no_placeholder", "the prompt begins like JSON; give the text of the prompt alone"
