"""Finds errors of form in a rewriting: leftovers, lost halves, words that do not fit together or refer to nothing."""

import json
import re
from collections.abc import Container, Iterator

from lhaw_record.generators.gate.facts import words
from lhaw_record.generators.prompts.diff import hunks
from lhaw_record.generators.prompts.occurrences import Spans
from lhaw_record.runners.base.text.language import ENGLISH, language_of
from lhaw_record.runners.base.text.normalization import UNSPACED

_LEAST_SHARE = 0.25
_FEWEST_WORDS = 2
_CLAUSE_CHARS = 80
_WORD = re.compile(rf"[{UNSPACED}]|[^\W_{UNSPACED}]+")
_PLACEHOLDER = re.compile(
    r"(?i)\[[a-z ]{3,40}\](?!\()|<[a-z][a-z ]{2,30}>|\u2026|\.\.\.|_{3,}|\bTBD\b|\bXXX+\b|\{\w+\}|\[\s*\]|\?\?\?"
    r"|\ba (?:certain|specific|particular|given) (?:percentage|percent|number|amount|value|threshold|limit|share)\b"
    r"|\((?:removed|redacted|unspecified|unknown|missing|not specified)\)"
    r"|(?:here is|here's|below is) the (?:rewritten|underspecified|modified|new|updated)"
    r"|\bunderspecified\b|\brewritten prompt\b"
)
_RESIDUE = {
    "empty quotes or brackets": re.compile(
        r"(?<!`)``(?!`)|(?<!\")\"\"(?!\")|[\u201c\u201e]\s*[\u201d\u201c]|\u300c\s*\u300d|\u00ab\s*\u00bb|(?<!\w)\(\s*\)|(?<=\s)''(?=\s)"
    ),
    "a doubled word": re.compile(r"(?i)\b(the|a|an|in|on|at|to|of|for|from|with|and|or|by|as|is)\s+\1\b"),
    "two articles": re.compile(r"(?i)\b(?:the|an?)\s+(?:the|an?)\s"),
    "a space before punctuation": re.compile(r"(?<=\w)[ \t]+[,.;:!?](?=\s|$)"),
    "doubled punctuation": re.compile(r"[,;:]\s*[,;.]|(?<!\.)\.[ \t]*\.(?!\.)"),
    "doubled spaces": re.compile(r"(?<=[\w.,;:])[ \t]{2,}(?=\w)"),
    "a hyphen without its other half": re.compile(r"(?<=[\s(])-(?=[a-z])|(?<=[a-z])-(?=\s[a-z])"),
    "a mark without what it marks": re.compile(r"(?<=\s)[#@%\u20ac$\u00a3](?=[\s.,;]|$)"),
    "a name without a name": re.compile(r"(?i)\b(?:named|called|titled|entitled)\s*(?=[.,;:!?\n]|$)"),
    "a field without a value": re.compile(
        r"(?m)^[ \t]*(?:[-*][ \t]+)?[A-Z][\w ]{1,30}:[ \t]*\n(?=[ \t]*(?:[-*][ \t]+)?(?:[A-Z][\w ]{1,30}:|\n))"
    ),
    "the wrong article": re.compile(
        r"\b(?:[Aa] (?=[aeio]\w)(?!one\b|once\b|eu)|[Aa]n (?=[bcdfgjklmnpqrstvwxyz][a-z]))"
    ),
    "an article before a plural": re.compile(
        r"(?i)\b(?:an?|one)(?: (?:suitable|certain|appropriate|proper|specific))?"
        r" \w+(?:ers|ors|ples|tions|ments|ings|ates|imes)\b"
    ),
    "an earlier talk with the time of something else": re.compile(
        r"(?i)\b(?:I|we) (?:mentioned|discussed|talked about|agreed on|told you about) (?:on|by) (?:the )?"
        r"(?:\d|\w{3,6}day\b|(?:jan|feb|mar|apr|may|june?|july?|aug|sep|oct|nov|dec)[a-z]*\.? \d)"
    ),
    "a comparison with nothing": re.compile(
        r"(?i)\b(?:an?|the) (?:number|amount|value) or (?:more|less|fewer)\b|\btimes[.,;]"
    ),
    "a unit without its number": re.compile(
        r"(?i)\b(?:for|within|after|every|least|most|wait) "
        r"(?:days|hours|minutes|seconds|weeks|months|ms|kg|km|litres|meters|percent|EUR|USD)\b"
        r"|\b(?:to|with|of) (?:decimal places|decimals|significant (?:figures|digits))\b"
    ),
}
_IN_ANY_LANGUAGE = frozenset(
    {"empty quotes or brackets", "a space before punctuation", "doubled punctuation", "doubled spaces"}
    | {"a mark without what it marks", "a field without a value"}
)
_BOTH = r"\bboth (?:days|dates|ends|months|weeks|years|values)\b"
_LATTER = r"\b(?:the former|the latter)\b"
_DANGLING = {
    _BOTH: rf"\b(?:from|between|to|and|period|range|dates|days)\b[^.]*{_BOTH}",
    _LATTER: rf"\b(?:and|or)\b[^.]*\.?[^.]*{_LATTER}",
}
_FENCE = re.compile(r"(?m)^[ \t]*(?:```|~~~)")
_TABLE_ROW = re.compile(r"(?m)^[ \t]*\|.*$")
_PAIR = re.compile(r"([^\W\d_][\w'\u2019]*)(?:([ \t]+)([^\W\d_][\w'\u2019]*)|[ \t]*((?!\.\w)[.,;:!?)\n]|$))")
_STRANDED = re.compile(
    r"(?i)(?<=\w )(?:I|we|you|he|she|they)(?:['\u2019]\w+| have| had| just| already)* "
    r"(?:talked|spoke|chatted|wrote|heard|asked(?: \w+)?|told \w+|referred|agreed|started|worked) "
    r"(?:about|for|from|of|on|to|with)$"
)
"""A clause that may end with its preposition, after what it is about: "the file we talked about"."""
_COPULAS = ("is", "are", "was", "were")
_JOINTS = ("and", "or", "but")
_SHE = re.compile(r"\b(?:she|he|her|him|his|hers)\b", re.IGNORECASE)
_SENTENCE = re.compile(r"[^.!?\n]+[.!?]?")
_LOWER_START = re.compile(r"(?:[.!?]\s+|^\s*)([a-z]\w*)")
INLINE_FIELD = re.compile(
    r"(?m)(?:^|(?<=[,;.] ))(?=((?P<label>[A-Za-z][\w ]{1,24}\.?): [^,;:\n]+?(?:[,;]|\.?$|\.(?=\s))))"
)
"""A field in a line of text, such as ", phone number: 555-0100,"; group 1 is all of it."""
_LAST_JOINT = re.compile(r"(?:^|\s)(and|or|but)\s*$")
_VERBATIM = re.compile(r"\bfollowing \w+:\s*[\"'\u201c]?$")


def faults(original: str, rewritten: str) -> Iterator[tuple[str, str]]:
    """Yield a finding for each fault of form that the rewritten prompt has and the original does not.

    Which words cannot meet, and which refer to what, is known of English words only.
    """
    yield from _structure(original, rewritten)
    is_english = language_of(original) == ENGLISH
    yield from _residue(original, rewritten, _RESIDUE if is_english else _IN_ANY_LANGUAGE)
    if is_english:
        yield from _loose_words(original, rewritten)
        yield from _dangling(original, rewritten)
    had, has = len(_WORD.findall(original)), len(_WORD.findall(rewritten))
    if has < _FEWEST_WORDS or has < _LEAST_SHARE * had:
        yield "is_still_a_task", f"{has} words are left of {had}; remove no more than the segments"


def _structure(original: str, rewritten: str) -> Iterator[tuple[str, str]]:
    if ("\r\n" in original) != ("\r\n" in rewritten) and "\n" in original and "\n" in rewritten:
        yield "structure_is_kept", "the lines end in another way; keep the line ends"
    if len(_FENCE.findall(original)) % 2 != len(_FENCE.findall(rewritten)) % 2:
        yield "structure_is_kept", "a code fence lost its other half; keep both"
    widths = {row.count("|") for row in _TABLE_ROW.findall(original)}
    if widths and any(row.count("|") not in widths for row in _TABLE_ROW.findall(rewritten)):
        yield "structure_is_kept", "a table row has another number of cells; empty the cell instead of removing it"
    if _is_json(original) != _is_json(rewritten):
        yield "structure_is_kept", "the prompt is JSON in one of its forms only; change what stands inside strings"
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


def _residue(original: str, rewritten: str, names: Container[str]) -> Iterator[tuple[str, str]]:
    for name, pattern in _RESIDUE.items():
        here = [match.group() for match in pattern.finditer(rewritten)]
        if name in names and len(here) > sum(1 for _ in pattern.finditer(original)):
            yield "reads_well", f"the prompt has {name} that it did not have ({here[-1]!r}); mend the sentence"
    known = [match.group() for match in _PLACEHOLDER.finditer(original)]
    for match in _PLACEHOLDER.finditer(rewritten):
        if match.group() not in known:
            yield "no_placeholder", f"{match.group()!r} was put in; write a sentence as a person would"


def _loose_words(original: str, rewritten: str) -> Iterator[tuple[str, str]]:
    """Yield a finding for each pair of neighbours that no sentence has: "from .", "in for", "the must"."""
    known = set(_pairs(original))
    for pair in dict.fromkeys(_pairs(rewritten)):
        if pair not in known and _is_impossible(*pair):
            yield "reads_well", f"{' '.join(pair).strip()!r} cannot stand together; mend the sentence"
    starts = {match[1] for match in _LOWER_START.finditer(original)}
    for match in _LOWER_START.finditer(rewritten):
        if match[1] not in starts:
            yield "reads_well", f"a sentence begins with {match[1]!r}; begin it with a capital letter"


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    at = 0
    while match := _PAIR.search(text, at):
        at = match.end(1)
        if not _STRANDED.search(text, max(0, at - _CLAUSE_CHARS), at):
            yield match[1].lower(), (match[3] or match[4] or "").lower()


def _is_impossible(left: str, right: str) -> bool:
    known = words()
    if not right or not right[0].isalpha():
        return left in known.cannot_end and right != "\n" and not (left in known.strict_prepositions and right == "?")
    if left in _COPULAS:
        return right in _JOINTS
    if left in known.strict_determiners:
        return right in known.cannot_follow_determiner
    return left in known.strict_prepositions and right in known.cannot_follow_preposition


def _dangling(original: str, rewritten: str) -> Iterator[tuple[str, str]]:
    """Yield a finding for each word that refers to something that was removed."""
    for phrase, needed in _DANGLING.items():
        if re.search(phrase, rewritten) and re.search(needed, original) and not re.search(needed, rewritten):
            yield "refers_to_something", f"{re.search(phrase, rewritten).group()!r} refers to nothing; remove it, too"  # type: ignore[union-attr]
    pronoun, had = _SHE.search(rewritten), _SHE.search(original)
    if pronoun and had and _has_person(original[: had.start()]) and not _has_person(rewritten[: pronoun.start()]):
        yield "refers_to_something", f"{pronoun.group()!r} refers to nobody who was named; name a role"
    bare = {tuple(each.split()[:4]) for each in _SENTENCE.findall(original) if "," not in each}
    for sentence in _SENTENCE.findall(rewritten):
        first = sentence.split(maxsplit=1)[0].lower() if sentence.split() else ""
        is_new = tuple(sentence.split()[:4]) not in bare  # a colon or nothing may stand for the comma
        if first in ("if", "when", "because", "unless") and "," not in sentence and is_new:
            yield "reads_well", f"{sentence.strip()[:80]!r} is no whole sentence; remove it, or say what follows"


def _has_person(text: str) -> bool:
    named = re.search(r"\b[A-Z][a-z\u00e0-\u00ff]+ [A-Z][a-z\u00e0-\u00ff]+", text)
    return bool(named) or any(word.lower() in words().persons for word in _WORD.findall(text))


def left_over(before: str, after: str, values: Spans, removed: Spans) -> Iterator[tuple[str, str]]:
    """Yield a finding for each thing that has lost the one that it belongs to."""
    for hunk in hunks(before, after):
        joint, lead = _LAST_JOINT.search(before[hunk.start : hunk.end]), before[: hunk.start]
        is_lost = joint is not None and not removed.has(hunk.start + joint.start(1))
        if joint and is_lost and not _LAST_JOINT.search(hunk.new) and (lead + hunk.new).rstrip().endswith(","):
            yield "nothing_else_changed", f"{joint[1]!r} is gone before {before[hunk.end :][:30]!r}; keep it"
        if hunk.new.strip() and values.touches(hunk.start, hunk.end) and _VERBATIM.search(lead):
            yield "reads_well", f"{hunk.new.strip()[:80]!r} is read as the text itself; say it before the colon"
    for field in INLINE_FIELD.finditer(before):
        label = rf"(?<!\w){re.escape(field['label'])}\s*[,;.]"
        if values.touches(*field.span(1)) and re.search(label, after) and not re.search(label, before):
            yield "reads_well", f"{field['label']!r} has no value; remove it, too"
