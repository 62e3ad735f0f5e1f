"""What was put in the place of a value reads as a person would write it, by rules on the words around it."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from generators.protocol import Removal
from generators.rewriting.diff import Hunk
from generators.rewriting.english import English, english
from recorder.values import Segment, Severity

_EMPTY = re.compile(
    r"(?i)\b(?:something|someone|some things?|items?|(?:certain|suitable) things)\b|^\s*the information\b"
)
_NO_DELETION = re.compile(
    r"(?i)^\s*(?:to )?(?:proceed|be right|it applies|something happened|a rule applies|in some way|some"
    r"|an? (?!\w*(?:file|folder|document|spreadsheet|image|database|report)\b)[\w ]+)\s*$"
)
_QUOTED = re.compile(r"\"[^\"\n]{1,80}\"|\u201c[^\u201d\n]{1,80}\u201d|(?<![\w'])'[^'\n]{1,80}'(?!\w)")
_VERSUS = re.compile(r"(?i)\s*(?:vs\b|versus\b)")
_ADJECTIVE = re.compile(r"(?i)^\s*(?:certain|suitable|relevant|appropriate|specific)\b")
_DETERMINER = re.compile(
    r"(?i)\b(?:an?|the|its|their|his|her|my|our|your|each|every|this|that|these|those|all|no|any|some"
    r"|[\w-]+['\u2019]s?)\s*$"
)
_OTHERS = re.compile(r"(?i)\b(?:its|their|his|her|(?!(?:let|it|that|there|here|what)['\u2019])[\w-]+['\u2019]s?)\s*$")
_DETERMINED_NOUN = re.compile(r"(?i)\b(?:the|an?|my|our|your|this|that|each|every)\s+(?P<noun>[\w-]+)\s*$")
_OWN_DETERMINER = re.compile(r"(?i)^\s*(?:the|an?|some)\b")
_PLURAL_STAND_IN = re.compile(r"(?i)^\s*(?:(?:certain|suitable)\s+)?(?P<noun>elements|names|items|things)\b")
_OPEN_ARTICLE = re.compile(r"(?i)\ban? (?:certain|suitable)\s*$")
_AFTER_NAME = re.compile(r"\.\w{2,5}[`\"'\u201d]?(?P<comma>,)?(?P<joint> (?:and|or))?\s*$")
_BEFORE_NAME = re.compile(r",\s+[`\"'\u201c]?[\w/-]+\.\w{2,5}\b")
_JOINED = re.compile(r"(?i)\b(?P<noun>[\w-]+)\s+(?:and|or)\s+[^\"'`]*?(?P<last>[\w-]+)$")
_CLAUSE = re.compile(r"\b(?:it applies|conditions hold|rule applies|happened)\s*$")
_JOINT = re.compile(r"\s*(?:and|or)\s+(?P<next>\w+)")
_PERSON = re.compile(r"(?:[A-Z][\w'\u2019-]+ ){1,2}[A-Z][\w'\u2019-]+")
_LAST_WORD = re.compile(r"([\w'\u2019-]+)\s+$")
_MARKS = ".,;:?!)"
_NEAR_CHARS = 40


class _Place(msgspec.Struct, frozen=True):
    """What was put in, what stood there, and what stands on both sides of it."""

    new: str
    old: str
    before: str
    after: str
    severity: Severity

    @property
    def next_word(self) -> str:
        """The first word behind the place, in lower case."""
        return (self.after.split(maxsplit=1)[:1] or [""])[0].strip(_MARKS).lower()

    @property
    def is_determined(self) -> bool:
        """Whether an article or the like stands before it, with a noun or an adjective between at most."""
        return bool(_DETERMINER.search(self.before) or _DETERMINED_NOUN.search(self.before))


def unnatural(original: str, changes: Sequence[Hunk], removal: Removal) -> Iterator[str]:
    """Yield what is odd about the words that were put in, in words that a rewriter can act on.

    Args:
        original: The prompt as the task has it.
        changes: Where the rewritten one differs.
        removal: How the values were removed.
    """
    known = english()
    for segment in removal.segments:
        if _is_half(segment, {_place(original, hunk, removal).next_word for hunk in changes}, known):
            yield f"of what {segment.value[:40]!r} joins only half is left; remove all of it"
    quoted = [match.span() for match in _QUOTED.finditer(original)]
    for hunk in changes:
        if any(low < hunk.start and hunk.end < high and high - low - 2 > hunk.end - hunk.start for low, high in quoted):
            yield f"{original[hunk.start : hunk.end][:40]!r} is half of what stands in quotes; remove all of it"
    has_person = any(_PERSON.fullmatch(segment.value) for segment in removal.segments)
    for place in (_place(original, hunk, removal) for hunk in changes):
        if not place.new.strip():
            yield from _of_holes(place, known)
            continue
        where = f"{place.before[-20:]!r} and {place.new.strip()!r}: "
        if has_person and place.new.strip().lower() == "it":
            yield where + "a person is not called it"
        for faults in (_of_words, _of_determiners, _of_nouns):
            yield from (where + fault for fault in faults(place, known))


def _place(original: str, hunk: Hunk, removal: Removal) -> _Place:
    before = original[max(0, hunk.start - _NEAR_CHARS) : hunk.start]
    after = original[hunk.end : hunk.end + _NEAR_CHARS]
    return _Place(hunk.new, original[hunk.start : hunk.end], before, after, removal.severity)


def _is_half(segment: Segment, next_words: set[str], known: English) -> bool:
    """Whether of two things that a value joins the last noun is left: "mean rent and standard [deviation]"."""
    joined = _JOINED.search(segment.value) if segment.dimension == "goal" else None
    if joined is None or known.is_adjective(joined["noun"]) or joined["noun"].endswith("est"):
        return False
    return joined["last"].lower() in next_words


def _of_holes(place: _Place, known: English) -> Iterator[str]:
    """Yield what a deletion leaves of two joined things: the second without the preposition of both."""
    if _VERSUS.match(place.after):
        yield f"{place.before[-20:]!r} and {place.after[:20]!r}: a comparison has lost one of its sides"
    joint = _JOINT.match(place.after)
    is_preposition = (place.old.split(maxsplit=1) or [""])[0].lower() in known.prepositions
    if joint and is_preposition and (not joint["next"][0].islower() or joint["next"] in known.determiners):
        yield f"{place.before[-20:]!r} and {place.after[:20]!r}: the second of two has lost its preposition"


def _of_words(place: _Place, known: English) -> Iterator[str]:
    """Yield words that say nothing, and such as are said twice."""
    empty = _EMPTY.search(place.new)
    is_said = empty is not None and not _EMPTY.search(place.old)
    if empty and is_said and (place.severity == "delete" or empty[0].lower() != "someone"):
        yield "nobody says it like this; name what kind of thing it is, or take the whole phrase out"
    if place.severity == "delete" and _NO_DELETION.match(place.new) and place.old.strip():
        yield "a deletion puts nothing vague in its place; take the whole phrase out"
    if place.new.split()[-1] == "number" and place.next_word.isalpha() and place.next_word not in known.function_words:
        yield "a number before its noun"
    if re.match(r"(?i)\s*(?:\w+\s+)?possible\b", place.after) and re.search(
        r"(?i)\b(?:least|most|\w+est)\b", place.old
    ):
        yield "'possible' wants a superlative"
    noun = place.new.split()[-1]
    if re.match(rf"(?i)\s+of\s+(?:\w+\s+)?{re.escape(noun)}\b", place.after):
        yield f"{noun!r} is said again at once"
    after_name = _AFTER_NAME.search(place.before)
    is_second = after_name and (after_name["comma"] or (after_name["joint"] and place.severity == "delete"))
    if (is_second or _BEFORE_NAME.match(place.after)) and re.match(r"(?i)\s*(?:an?|the)\s", place.new):
        yield "one of several names is left unnamed; take it out"


def _of_determiners(place: _Place, known: English) -> Iterator[str]:
    """Yield articles and the like that are one too many, or do not fit."""
    if _OTHERS.search(place.before) and _ADJECTIVE.match(place.new):
        yield "a thing that belongs to somebody is not called certain or suitable"
    if _DETERMINER.search(place.before) and _OWN_DETERMINER.match(place.new):
        yield "two words that determine one noun"
    if _ADJECTIVE.match(place.new) and len(place.new.split()) == 1 and place.next_word in known.measures:
        yield "a unit without a number"
    is_one = known.is_noun_like(place.next_word) and not known.is_plural(place.next_word)
    if (
        place.new.rstrip().endswith("number of")
        and is_one
        and not known.is_adjective(place.next_word)
        and place.next_word != "decimal"
    ):
        yield "a number of one thing"
    if _CLAUSE.search(place.new) and (place.before.split() or [""])[-1].lower() in known.prepositions - {
        "before",
        "after",
    }:
        yield "a clause where a noun is wanted"
    second = (place.after.split()[1:2] or [""])[0].strip(_MARKS).lower()
    is_plural = known.is_plural(place.next_word) or (known.is_adjective(place.next_word) and known.is_plural(second))
    if _OPEN_ARTICLE.search(place.new) and is_plural:
        yield "an article before a plural"


def _of_nouns(place: _Place, known: English) -> Iterator[str]:
    """Yield nouns without an article, and nouns and adjectives in the wrong place."""
    determined = _DETERMINED_NOUN.search(place.before)
    noun = determined["noun"].lower() if determined else ""
    adjective = _ADJECTIVE.match(place.new)
    if adjective and noun and (known.is_noun_like(noun) or noun in known.nouns_and_verbs):
        yield "an adjective stands behind the noun that begins the phrase"
    if adjective and not place.is_determined:
        own = (place.new[adjective.end() :].split() or [place.next_word])[-1].strip(_MARKS).lower()
        is_counted = own.isalpha() and known.is_noun_like(own) and not known.is_plural(own)
        if is_counted and own not in known.mass_nouns:
            yield f"{own!r} has no article"
    last = _LAST_WORD.search(place.before)
    is_bare = _PLURAL_STAND_IN.match(place.new) or (place.severity == "delete" and re.match(r"(?i)\s*an?\s", place.new))
    if is_bare and last and known.is_noun_like(last[1]) and not known.is_adjective(last[1]):
        yield "two nouns side by side"
