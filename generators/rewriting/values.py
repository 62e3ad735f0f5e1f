"""What a removed value is as a piece of language: its form, and the noun that can be said instead."""

import re

import msgspec

from generators.rewriting.english import English, any_of
from generators.rewriting.forms import core
from generators.rewriting.value_forms import Form, form_of, is_clause
from generators.rewriting.wording import Kind, Wording
from recorder.values import Segment

_NUMBER = re.compile(
    r"(?i)^(?P<number>[-+]?\d[\d.,\u00a0 ]*(?:st|nd|rd|th)?|one|two|three|four|five|six|seven|eight|nine|ten|eleven"
    r"|twelve|a dozen)(?: (?:or|and) (?:more|less|fewer|higher|lower|above|below|over|up))?"
    r"(?:[ -](?P<rest>(?!of\b|or\b|and\b)[a-z][\w-]*(?: [a-z][\w-]*){0,2}))?$"
)
_ORDINAL = re.compile(
    r"(?i)^(?:\d+(?:st|nd|rd|th)|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last)$"
)
_YEAR = re.compile(r"^(?:19|20)\d\d$")
_NAMED = re.compile(
    r"^(?:(?:the|this|our|my|a|an) )?(?P<noun>[A-Za-z]+) "
    r"(?:[\"'`#]?[A-Z][\w-]*[\"'`]?(?: [A-Z][\w-]*)?|\d[\w.:-]*|#\w+|[\"'`\u201c][^\"'`]+[\"'`\u201d]"
    r"|[\w-]*[_\d][\w-]*)$"
)
_PERSON = re.compile(r"^(?:[A-Z][\w'\u2019-]+\.? ){1,2}[A-Z][\w'\u2019-]+$")
_WORD = re.compile(r"[^\W_][\w'\u2019-]*")
_PERSONAL_VERB = re.compile(r"(?i)\b(?:inform|notify|invite|tell|ask|contact|email|saw|meet|met|thank)\s+$")
_SYMBOLS = re.compile(r"\w[+*=<>|^~]|[+*=<>|^~]\w|[{}\\]")
_LIST = re.compile(r",\s+(?:and\s|or\s)?|\s(?:and|or|&|versus|vs\.?)\s")
_MARKED_ITEM = re.compile(r"^[\"'`\u201c\u2018].*[\"'`\u201d\u2019]$|^\S*[A-Z_/\d]\S*(?:\s\S*[A-Z]\S*)*$")
_PHRASE_END = re.compile(
    r"(?i)(?<=\w)\s+(?:of|that|which|who|whom|where|when|for|in|on|at|with|to|from|by|about|as|after|before|under|between"
    r"|per|until|during|beyond|above|below|over|against|across|within|without|than|aged|born|while|if|the|an?|my|our|your|their|its|related|located|based|called|named|containing"
    r"|using|made)\b|\s*[(,:;]"
)
_OPENING = re.compile(r"(?i)^(?:(?:only|just|exactly|the|an?|this|that|these|those|my|our|your|their|its)\s+)+(?=\w)")
_QUANTIFIERS = frozenset({"one", "some", "each", "all", "most", "any", "none", "both", "many", "rest", "bunch", "lot"})
_HARD = re.compile(
    r"\b(?:UTC|GMT)[+-]\d+(?::\d\d)?|(?<=\w )[A-Z][a-z'\u2019-]+ [A-Z][a-z'\u2019-]+\b"
    r"|`[^`\n]+`|\"[^\"\n]+\"|\u201c[^\u201d\n]+\u201d"
    r"|\bhttps?://\S+|[\w.+-]+@[\w-]+\.\w+|(?:[\w-]+)?/[\w./-]+|\b[\w-]+\.[A-Za-z]{2,5}\b"
    r"|\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?)?|\b\d{1,2}/\d{1,2}/\d{2,4}|\b\d{1,2}:\d\d\b"
    r"|[$€£]\s?\d[\d.,]*\d|[$€£]\d|\b\d[\d.,]*(?<=\d)\s?(?:%|percent\b|(?:EUR|USD|GBP|CHF|euros?|dollars?)\b)"
    r"|\b[A-Z]+-?\d[\w-]*\b|#\w+|\b\d+(?:\.\d+)?\b"
)
_DATE_FORMAT = re.compile(r"(?i)\b(?:yyyy|dd|mm|hh)\b")
_COPULA = re.compile(r"^(?!it\b|there\b).{1,60}?\b(?:is|are)\s+(?=\S)")
_WHOLE_KINDS = frozenset(
    {"image", "spreadsheet", "document", "database", "file", "folder", "url", "email", "period", "date", "month"}
    | {"color", "placeholder", "language", "format"}
)
_NO_FOLDERS = frozenset({"content", "format", "selection", "method"})
_PLURAL_KINDS = frozenset({"language", "day", "color"})
_PLURAL_NOUNS = {"content": "elements", "acceptance": "criteria", "temporal": "periods", "target": "files"}


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """A value as language. ``noun`` is None where nothing more than "something" can be said.

    ``is_head``: the noun is the one of the value's own phrase. ``is_clause``: the value goes on to a verb after it.
    ``number`` and ``rest``: the two parts of "3 sheets".
    """

    form: Form
    noun: str | None = None
    is_plural: bool = False
    is_head: bool = False
    is_clause: bool = False
    number: str = ""
    rest: str = ""

    @property
    def is_ordinal(self) -> bool:
        """Whether it is a number that says which one."""
        return self.form == "number" and bool(_ORDINAL.match(self.number))


def thing_of(value: str, left: str, segment: Segment, english: English, wording: Wording) -> Thing:
    """Return what a value is.

    Args:
        value: The value as it stands in the prompt, with its quotes.
        left: What its sentence holds before it.
        segment: What it is the value of.
        english: The words.
        wording: The kinds.
    """
    whole = " ".join(value.split())
    whole = re.sub(rf"(?i)(?<=\w)\s+(?:{_comparators_after(english)})$", "", whole)
    plain = " ".join(core(whole).split())
    kind = wording.kind_of(whole) or wording.kind_of(plain)
    if kind and kind.name == "folder" and segment.subdimension.lower() in _NO_FOLDERS:
        kind = None
    named = _NAMED.match(whole)
    if named and named["noun"].lower() in english.kind_nouns and not (kind and kind.name == "placeholder"):
        return Thing(form="name", noun=named["noun"].lower())
    if kind and kind.name in ("amount", "percentage") and _NUMBER.match(plain):
        return Thing(form="name", noun=kind.noun)
    return (
        _number(plain, kind, segment)
        or _several(whole, kind, segment, english)
        or _kind(whole, plain, left, kind, english)
        or _phrase(whole, plain, left, kind, segment, english, wording)
    )


def _comparators_after(english: English) -> str:
    return any_of(each for each in english.after_comparators if each.startswith(("or ", "and ")))


def hard_parts(value: str) -> list[tuple[int, int]]:
    """Return the places in a phrase of what is concrete in it: names in quotes or code, files, numbers, dates, codes.

    Nothing is returned where the whole value is one such part.
    """
    found = [match.span() for match in _HARD.finditer(value) if not _DATE_FORMAT.search(match.group())]
    words = [match for match in _WORD.finditer(value) if not any(low <= match.start() < high for low, high in found)]
    return found if words else []


def predicate_start(value: str) -> int:
    """Return where the predicate of a clause such as "quantity is in packs" begins; 0 where there is none."""
    match = _COPULA.match(value)
    return match.end() if match and not re.match(r"(?i)(?:if|when|where)\b", value) else 0


def last_noun(value: str, english: English) -> str | None:
    """Return the last word of a phrase if it is a noun."""
    words = _WORD.findall(value)
    return words[-1] if words and english.is_noun_like(words[-1]) else None


def _number(plain: str, kind: Kind | None, segment: Segment) -> Thing | None:
    match = _NUMBER.match(plain)
    if match and match["rest"] and _YEAR.match(match["number"]):
        return None
    if match is None:
        return Thing(form="number", noun="number", number=plain) if _ORDINAL.match(plain) else None
    rest = match["rest"] or ""
    noun = {"precision": "precision", "temporal": "time"}.get(segment.subdimension.lower(), "number")
    if kind and kind.name not in ("count", "number"):
        noun = kind.noun
    return Thing(form="number", noun=None if rest and noun == "number" else noun, number=match["number"], rest=rest)


def _several(whole: str, kind: Kind | None, segment: Segment, english: English) -> Thing | None:
    if whole.lower().partition(" ")[0] in english.leading_participles | {"from", "between"}:
        return None
    items = [item.strip() for item in _LIST.split(whole) if item.strip()]
    marked = sum(bool(_MARKED_ITEM.match(item)) for item in items)
    if len(items) < 2 or (len(items) == 2 and marked < 2):
        return None
    if all(_PERSON.match(item) for item in items):
        return Thing(form="list", noun="people", is_plural=True)
    noun = english.plural(kind.noun) if kind else _PLURAL_NOUNS.get(segment.subdimension.lower())
    is_short = all(len(item.split()) <= 6 for item in items)
    return Thing(form="list", noun=noun, is_plural=True) if is_short else None


def _kind(whole: str, plain: str, left: str, kind: Kind | None, english: English) -> Thing | None:
    if kind is None or (len(plain.split()) > 2 and kind.name not in _WHOLE_KINDS):
        return None
    if len(plain.split()) > 1 and not whole.startswith(("/", "`", '"', "'")) and _is_no_noun(whole, left, english):
        return None
    if len(plain.split()) > 3 and kind.name in ("date", "period") and english.is_noun_like(plain.partition(" ")[0]):
        return None
    items = [item for item in _LIST.split(whole) if item.strip()]
    if kind.name in _PLURAL_KINDS and (len(items) > 1 or plain.lower().endswith("days")):
        return Thing(form="name", noun=english.plural(kind.noun), is_plural=True)
    return Thing(form="name", noun=kind.noun)


def _is_no_noun(whole: str, left: str, english: English) -> bool:
    return form_of(whole, left, english) not in ("name", "noun")


def _phrase(
    whole: str, plain: str, left: str, kind: Kind | None, segment: Segment, english: English, wording: Wording
) -> Thing:
    form = form_of(whole, left, english)
    fallback = kind.noun if kind else wording.default_noun(segment)
    if form not in ("noun", "name"):
        return Thing(form=form, noun=fallback)
    noun = _head(plain, english)
    is_name = whole[:1] in "`\"'\u201c" or _is_proper_name(plain) or bool(_SYMBOLS.search(plain))
    if noun and len(plain.split()) > 1 and not is_name:
        return Thing(
            form="noun", noun=noun, is_plural=english.is_plural(noun), is_head=True, is_clause=is_clause(plain)
        )
    if _PERSON.match(plain) and _PERSONAL_VERB.search(left):
        return Thing(form="name", noun="person")
    return Thing(form="name" if is_name else "noun", noun=fallback)


def _is_proper_name(plain: str) -> bool:
    words = plain.split()
    is_title = all(word[:1].isupper() or word[:1].isdigit() or word in ("of", "the", "and", "&") for word in words)
    return is_title and len(words) < 6


def _head(phrase: str, english: English) -> str | None:
    """Return the noun of a noun phrase: the last word before what qualifies it."""
    opening = _OPENING.match(phrase)
    rest = phrase[opening.end() :] if opening else phrase
    while True:
        end = _PHRASE_END.search(rest)
        front = rest[: end.start()] if end else rest
        words = _WORD.findall(front)
        while len(words) > 1 and (words[-1].endswith("ed") or re.search(r"\d", words[-1])):
            words.pop()
        if not words:
            return None
        if end and re.match(r"\s+to\s+last\b", rest[end.start() :]):
            rest = rest[end.start() + 3 :]
            continue
        if words[-1].lower() in _QUANTIFIERS and end:
            rest = re.sub(r"(?i)^\s*of\s+(?:(?:the|these|those|my|our|its|their)\s+)?", "", rest[end.start() :])
            continue
        return words[-1] if _can_be_head(words, english) else None


def _can_be_head(words: list[str], english: English) -> bool:
    last = words[-1].lower()
    if last in english.function_words or last[0].isdigit() or last.endswith(("ed", "ly")):
        return False
    return english.is_noun_like(last) or len(words) > 1 or (english.base(last) is not None and not last.endswith("ing"))
