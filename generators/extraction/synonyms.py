"""Finds synonyms of a value: other ways to write it, which would reveal it, and names that a question may use for it.

The names come from the rule and from the noun before the value: for "the reason code NR-7", a question may ask for the
"reason code".
"""

import re
from collections.abc import Iterator

from lhaw_record.generators.extraction.candidate import Candidate
from lhaw_record.generators.extraction.document import Document
from lhaw_record.generators.extraction.lexicon import Lexicon

_STEM = re.compile(r"(?:^|[/\\])([^/\\]+)\.\w{1,8}$")
_ISO = re.compile(r"^(\d{4})-(\d\d)-(\d\d)$")
_NAMED_BY_NOUN = {
    "file_name": ("{noun}", "{noun} file"),
    "path": ("{noun}", "{noun} file", "{noun} folder"),
    "date": ("{noun}", "{noun} date"),
    "number": ("{noun}",),
    "identifier": ("{noun}",),
    "quoted_term": ("{noun}",),
    "person": ("{noun}",),
    "url": ("{noun}",),
}
_PLAIN_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*$")
_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_FURTHEST_WORDS = 6
_MOST_NOUNS = 2


def wordings(
    document: Document, lexicon: Lexicon, candidate: Candidate, written: Candidate | None = None
) -> tuple[str, ...]:
    """Return the synonyms of a segment: first other ways to write its value, then names for it."""
    value = document.text[candidate.start : candidate.end]
    found = list(_other_forms(value))
    noun = _noun_before(document, lexicon, candidate.start)
    if noun:
        found += [pattern.format(noun=noun) for pattern in _NAMED_BY_NOUN.get(candidate.kind, ())]
    if candidate.kind == "person" and written is not None:
        stem = _STEM.search("/" + document.text[written.start : written.end])
        found += [f"recipient of the {re.sub(r'[^a-zA-Z]+', ' ', stem[1]).strip()}"] if stem else []
    return tuple(dict.fromkeys(each for each in (*found, *candidate.synonyms) if each.lower() != value.lower()))


def _other_forms(value: str) -> Iterator[str]:
    stem = _STEM.search(value)
    if stem and re.search(r"[_-]", stem[1]):
        yield re.sub(r"[_-]+", " ", stem[1])
    date = _ISO.match(value)
    if date and 1 <= int(date[2]) <= len(_MONTHS):
        month, day = _MONTHS[int(date[2]) - 1], int(date[3])
        yield f"{day} {month} {date[1]}"
        yield f"{month} {day}, {date[1]}"


def _noun_before(document: Document, lexicon: Lexicon, place: int) -> str | None:
    """Return the nearest one or two nouns before an offset in its sentence, or None."""
    begin = document.sentence(place)[0]
    number = document.token_at(place) - 1
    run: list[str] = []
    until = place
    for _ in range(_FURTHEST_WORDS):
        if number < 0 or document.tokens[number].start < begin:
            break
        token = document.tokens[number]
        between = document.text[token.end : until]
        until = token.start
        if re.search(r"[.;:!?()\n]", between) or (run and between.strip()):
            break
        if lexicon.is_noun(token.word) and _PLAIN_WORD.match(token.word):
            run.append(document.text[token.start : token.end])
            if len(run) == _MOST_NOUNS:
                break
        elif run:
            break
        number -= 1
    return " ".join(reversed(run)) or None
