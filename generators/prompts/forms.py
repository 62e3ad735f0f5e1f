"""Lists the forms in which a prompt may write a value: as is, in other notations, as a file stem, as a synonym."""

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.base.text.normalization import UNSPACED, normalize, whole
from lhaw_record.runners.users.simulated_user.lexicon import lexicon
from lhaw_record.runners.users.simulated_user.lexicon import stem as stem_of

_WORD = rf"[^\W{UNSPACED}]"
QUOTES = re.compile(r"[`*\"\u201c\u201d]")
_MARKS = " \t\r\n.,;:!?`*\"'\u201c\u201d\u2018\u2019()[]{}<>"
_ARTICLE = re.compile(r"^(?:the|an?) (?=\S)")
_FILE = re.compile(r"^(?:.*/)?(?P<name>[^/]+\.[a-z][a-z0-9]{0,4})$")
_PLAIN_NUMBER = re.compile(r"^\d+(?:\.\d+)?$")
_SPECIFIC = re.compile(r"\d|[_/@#$%€£]|\w\.\w|[a-z][A-Z]|\b[A-Z]{2,}\b")
_CONCRETE = re.compile(r"\d|[/@$%€£]|\w\.\w")
_TOPIC_WORDS = frozenset({"of", "for", "in", "with", "from", "to", "by", "at", "on", "before", "after", "the"})
_JOINT = re.compile(r"[\s_-]+")
_SPECIFIC_STEM = re.compile(r"[\d_ -]|[a-z][A-Z]")
_MARKED = re.compile(r"[`\"'\u201c\u2018]")
NUMBER_WORDS = (
    *("zero", "one", "two", "three", "four", "five", "six"),
    *("seven", "eight", "nine", "ten", "eleven", "twelve"),
)
_FOLDER_NOUN = r"(?:folder|directory|dir|workspace|path|drive)\b"
_LONGEST_PHRASE_WORDS = 4
_LARGE_NUMBER = 1000
_LONG_NUMBER_CHARS = 3
_MOST_UNIT_WORDS = 2


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """One way to write a value, as a pattern to search in normalized text without quotes, backticks and asterisks.

    Attributes:
        pattern: The pattern.
        needs_company: A match counts only next to a word that was also next to the original value. A small number or
            a single letter means nothing by itself.
        needs_mark: A match counts only in quotes or with a capital letter.
        keep_zeros: The text to search keeps trailing zeros of decimals.
    """

    pattern: re.Pattern[str]
    needs_company: bool = False
    needs_mark: bool = False
    keep_zeros: bool = False


@lru_cache(maxsize=1024)
def forms(segment: Segment) -> tuple[Form, ...]:
    """Return every form of a segment's value, starting with the value itself."""
    is_version = segment.subdimension.lower() == "version"
    value = core(segment.value)
    equal = [core(synonym) for synonym in segment.synonyms if is_equal_to_value(synonym, segment.value)]
    others = [_plain_form(normalize(synonym, keep_zeros=is_version), small=False) for synonym in equal if synonym]
    found = [*_forms_of_value(value, segment, keep_zeros=is_version), *others]
    return tuple(msgspec.structs.replace(form, keep_zeros=form.keep_zeros or is_version) for form in found)


def core(value: str) -> str:
    """Return a value without surrounding quotes, marks and punctuation, and without its article."""
    stripped = value.strip(_MARKS) or value.strip()
    for opening, closing in ("()", "[]", "{}", "<>"):
        if stripped.count(opening) != stripped.count(closing):
            stripped = value.strip(" \t\r\n`\"'\u201c\u201d")
    if value.startswith(("#", ".", "/")) and not stripped.startswith(value[0]):
        stripped = value[0] + stripped
    return _ARTICLE.sub("", stripped) if _ARTICLE.match(stripped) else stripped


def is_equal_to_value(synonym: str, value: str) -> bool:
    """Return whether a synonym reveals the value and does not just name its topic.

    It does in three cases:

    - It differs from the value only in spaces, hyphens and underscores ("sky blue" and "skyblue").
    - It is the initials of the value ("HR" and "Human Resources").
    - It has a form that only a concrete value has (a digit, a file name, a path, an address, a currency or percent
      sign) and is not a phrase: it has at most three words, none of them a preposition.

    Any other synonym names the topic ("ledger", "due date", "file for week 37", "minimum_order"). It may stay in the
    prompt, and a question needs it to say what is missing.
    """
    if _JOINT.sub("", normalize(core(synonym))) == _JOINT.sub("", normalize(core(value))):
        return True
    words = synonym.split()
    initials = "".join(word[0] for word in core(value).split())
    if len(words) == 1 and len(synonym) > 1 and synonym.isupper() and synonym.lower() == initials.lower():
        return True
    is_phrase = len(words) > _MOST_UNIT_WORDS + 1 or any(word.lower() in _TOPIC_WORDS for word in words)
    return bool(_CONCRETE.search(synonym)) and not is_phrase


def _forms_of_value(value: str, segment: Segment, *, keep_zeros: bool) -> Iterator[Form]:
    folded = normalize(value, keep_zeros=keep_zeros)
    if not folded:
        return
    small = _is_small(folded)
    has_article = bool(_ARTICLE.match(segment.value.strip(_MARKS)))
    yield _plain_form(folded, small=small, needs_mark=_needs_mark(value, segment), may_have_article=has_article)
    yield from _numbers(folded, small=small)
    path = _FILE.match(folded)
    if path and path["name"] != folded:
        yield _plain_form(path["name"], small=False)
    stem = re.search(r"([^/]+)\.\w{1,5}$", value)
    if path and stem and _SPECIFIC_STEM.search(stem[1]):
        yield _plain_form(normalize(stem[1]), small=False)
    if "/" in folded and not path and not folded.startswith("http"):
        inner = folded.strip("/")
        if "/" in inner:
            yield _plain_form(inner, small=False)
        elif inner:
            yield Form(pattern=re.compile(rf"{_before(inner)}{re.escape(inner)}(?= {_FOLDER_NOUN})"))
    names = _specific_names(segment.value)
    if len(names) == 1 and 1 < len(folded.split()) <= _LONGEST_PHRASE_WORDS:
        name = normalize(names[0], keep_zeros=keep_zeros)
        yield _plain_form(name, small=_is_small(name))


def _plain_form(folded: str, *, small: bool, needs_mark: bool = False, may_have_article: bool = False) -> Form:
    body = r"\s?".join(re.escape(part) for part in QUOTES.sub("", folded).split(" "))
    article = r"(?:(?<!\w)(?:the|an?)\s)?" if may_have_article else ""
    pattern = re.compile(f"{article}{_before(folded)}{body}{_after(folded)}")
    return Form(pattern=pattern, needs_company=small, needs_mark=needs_mark)


def _before(folded: str) -> str:
    if not folded or re.match(rf"[\W{UNSPACED}]", folded):
        return "" if not folded.startswith("/") else rf"(?<!{_WORD})"
    slash = "" if _may_follow_slash(folded) else rf"(?<!{_WORD}[/\\])"
    return rf"(?<!{_WORD})(?<!{_WORD}[._@-]){slash}"


def _after(folded: str) -> str:
    if not folded or re.match(rf"[\W{UNSPACED}]", folded[-1]):
        return ""
    slash = "" if "/" in folded else rf"(?![/\\]{_WORD})"
    return rf"(?!{_WORD})(?![._@-]{_WORD}){slash}"


def _may_follow_slash(folded: str) -> bool:
    """Return whether a form may be part of a longer path, as file names and paths may."""
    return "/" in folded or bool(_FILE.match(folded))


def _is_small(folded: str) -> bool:
    """Return whether a form is a small number or a single letter, which counts only next to its unit or noun."""
    if _PLAIN_NUMBER.match(folded):
        return len(folded) < _LONG_NUMBER_CHARS or folded == "100"
    return folded in NUMBER_WORDS or len(folded) == 1


def _needs_mark(value: str, segment: Segment) -> bool:
    """Return whether only quoted or capitalised occurrences count, because a name is also an ordinary word.

    This also applies to a single punctuation mark, such as a delimiter.
    """
    if not re.search(r"\w", value):
        return True
    if not value.isalpha() or value.isupper():
        return False
    text = segment.text or segment.value
    found = whole(value).search(text)
    before = text[found.start() - 1 : found.start()] if found and found.start() else segment.value[:1]
    return bool(_MARKED.match(before)) or (value[0].isupper() and is_common(value))


def is_common(word: str) -> bool:
    """Return whether a word is common in questions and prompts."""
    known = lexicon()
    stemmed = stem_of(word.lower())
    return stemmed in known.groups or stemmed in known.neutral_terms or word.lower() in known.stop_terms


def _numbers(folded: str, *, small: bool) -> Iterator[Form]:
    """Yield other ways to write the only number in a value: 1.000 or 1k for 1000, five for 5, 5 percent for 5 %."""
    if folded in NUMBER_WORDS:
        yield _plain_form(str(NUMBER_WORDS.index(folded)), small=True)
    percent = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:%|percent|per cent)", folded)
    if percent:
        yield Form(pattern=re.compile(rf"(?<![\w.]){re.escape(percent[1])} ?(?:%|percent|per cent)(?!\w)"))
    numbers = re.findall(r"(?<![\w.])\d+(?:\.\d+)?(?![\w]|\.\d)", folded)
    if len(numbers) != 1 or len(re.findall(r"[^\W\d_]{2,}", folded)) > _MOST_UNIT_WORDS or "." in numbers[0]:
        return
    number = int(numbers[0])
    if number < len(NUMBER_WORDS):
        unit = folded.replace(numbers[0], NUMBER_WORDS[number], 1)
        yield _plain_form(unit, small=small)
    if number >= _LARGE_NUMBER:
        grouped = f"{number:,}".split(",")
        patterns = [r"[.,' ]?".join(grouped)]
        if number % _LARGE_NUMBER == 0:
            patterns.append(rf"{number // _LARGE_NUMBER} ?(?:k|thousand)")
        pattern = re.compile(rf"(?<![\w.,])(?:{'|'.join(patterns)})(?!\w|[.,]\d)")
        yield from (Form(pattern=pattern), Form(pattern=pattern, keep_zeros=True))


def _specific_names(value: str) -> list[str]:
    """Return the specific names in a phrase: those in quotes or code, else those with a digit, dot or underscore."""
    marked = re.findall(r"`([^`]+)`|\"([^\"]+)\"|\u201c([^\u201d]+)\u201d", value)
    if marked:
        return [next(filter(None, groups)) for groups in marked]
    words = [word.strip(_MARKS) for word in value.split()]
    return [word for word in words if _SPECIFIC.search(word) and not word.isalpha()]
