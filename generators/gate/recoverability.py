"""Finds text that still reveals a removed value: the value, a part of it, another notation, an addition, or a file."""

import calendar
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from lhaw_record.generators.gate.facts import CODED, TextFact, added, facts_of, fold, is_same_word, lost, words
from lhaw_record.generators.gate.quantities import THINGS, dimensions, durations, in_base_units, quantities
from lhaw_record.generators.prompts.diff import hunks
from lhaw_record.generators.prompts.occurrences import SearchablePrompt, own_place, remaining
from lhaw_record.generators.protocol import Removal
from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.base.text.normalization import whole
from lhaw_record.runners.users.simulated_user.answers import reveals

_FILE = re.compile(r"[\w./-]+\.(?P<ending>[a-z][a-z0-9]{1,4})$")
_NUMBER = re.compile(r"\d{1,9}")
_DATE = re.compile(
    r"(?:\d(?:st|nd|rd|th)?(?: of)? |day,? )[A-Z][a-z]{2,8}\b|\b\d{1,4}[-/.]\d{1,2}[-/.]\d{2,4}\b"
    r"|\b[A-Z][a-z]{2,8} \d{1,2}\b|\b[A-Z][a-z]+day\b"
)
_ENDINGS = frozenset(
    ("csv", "md", "txt", "json", "xlsx", "py", "toml", "pdf", "docx", "png", "html", "xml", "yaml", "https", "http")
)
_YEAR = re.compile(r"(?:19|20)\d\d")
_MONTHS = {name.lower(): str(number) for number, name in enumerate(calendar.month_abbr) if number}
_LONGEST_NAME_WORDS = 4
_ASIDE = re.compile(r"\s*\((?!or\b)[^()]*\)")
_MULTIPLIED = re.compile(r"(?<![\w.,])(\d+(?:,\d{3})*(?:\.\d+)?)\s?([kKM]|(?i:thousand|million|billion))\b")
_MULTIPLIERS = {"k": 1_000, "t": 1_000, "m": 1_000_000, "b": 1_000_000_000}
_PERCENT = re.compile(r"(?<![\w.,])(\d+(?:\.\d+)?)\s?(?:%|per ?cent\b)", re.IGNORECASE)
_HALF_DAY = re.compile(r"(?<![\w:.])(1[0-2]|0?\d)(?:[:.]([0-5]\d))?\s?([ap])\.?m\b\.?", re.IGNORECASE)
_BOUND = re.compile(
    r"\b(more|greater|less|fewer) than (\d{1,3}(?:,\d{3})+|\d+|two|three|four|five|six|seven|eight|nine|ten)"
    r"(?![.,]?\d)\b",
    re.IGNORECASE,
)
_SPOKEN_TIME = re.compile(
    r"(?:at )?(?:(?P<part>half|(?:a )?quarter) (?P<side>past|to) )?(?P<hour>\w+)(?: o['\u2019]clock)?"
    r"(?: in the (?P<half>morning|afternoon|evening))?"
)
_HOUR = re.compile(r"0?[1-9]|1[0-2]")
_NOON = 12
_MIDNIGHT = re.compile(r"(\d{4}-\d\d-\d\d)[T ]00:00(?::00(?:\.0+)?)?(?:Z|[+-]00:?00)?(?![\d:])")
_SECONDS = re.compile(r"\b(\d?\d:\d\d):00\b")
_RANGE = re.compile(r"(?<![\w.,:/-])(\d{1,4})\s?(?:to|through|-|\u2013)\s?(\d{1,4})(?![\w:/-]|[.,]\d)", re.IGNORECASE)
_DECIMALS = re.compile(r"\b(\d+|no|one|two|three|four) (?:decimal|digit)", re.IGNORECASE)
_LONG_NAME_CHARS = 6
_FEWEST_LETTERS = 2
_AROUND_CHARS = 25
_LONGEST_RANGE = 50
_NEARBY_CHARS = 60
_SHORTEST_PART_CHARS = 3
_JOINT = re.compile(r"[_-]+")
_ENDING = re.compile(r"\.[a-z]\w{0,4}$")
_NAME_PARTS = re.compile(r"(?<=[a-z])(?=[A-Z])|[_.-]+")
_ROLE = re.compile(
    r"(?i)\b(?:you are|you're|act(?:ing)? as|imagine you are|pretend to be|in your role as|take the role of)"
    r" (?:an?|the|our|my)\b|\bas (?:an?|our|the) (?:[\w-]+ ){0,2}"
    r"(?:expert|specialist|analyst|engineer|assistant|developer|accountant|consultant|professional|manager)\b"
)
"""Words that say who the agent is to be."""


def values_left(before: SearchablePrompt, after: SearchablePrompt, removal: Removal) -> Iterator[tuple[str, str]]:
    """Yield a finding for each removed value that is still in the prompt, whole, in part or in other words."""
    for segment_id, texts in remaining(before, after, removal.segments).items():
        shown = ", ".join(repr(text) for text in dict.fromkeys(texts))
        yield "value_is_gone", f"{shown} of segment {segment_id} is still in the prompt; remove every occurrence"
    gone, new = lost(before.text, after.text), added(before.text, after.text)
    changes = list(hunks(before.text, after.text))
    put_in = " | ".join(each.new for each in changes)
    around = " | ".join(
        before.text[max(0, each.start - _AROUND_CHARS) : each.start]
        + each.new
        + before.text[each.end : each.end + _AROUND_CHARS]
        for each in changes
        if each.new.strip()
    )
    more, lasting = quantities(after.text) - quantities(before.text), durations(after.text)
    for segment in removal.segments:
        kept = parts_kept(segment.value, gone, new)
        if _is_kind(segment.value, kept, after.text):
            kept = ()
        kept = kept or _said_otherwise(segment.value, put_in, around, new)
        is_duration = len(segment.value.split()) <= _LONGEST_NAME_WORDS and durations(segment.value) & lasting
        is_told = quantities(segment.value).keys() & more.keys() or is_duration
        if not kept and (is_told or _is_inside(segment.value, after.text)):
            kept = (segment.value,)
        if kept:
            yield (
                "value_is_gone",
                f"{', '.join(map(repr, kept))} still tells {segment.segment_id}; write what is left without it",
            )


def _is_inside(value: str, text: str) -> bool:
    """Return whether a value is part of a longer name, or its words occur in inflected forms."""
    core = fold(value.strip("`\"' .,"))
    if " " not in core:
        return len(core) > _SHORTEST_PART_CHARS and bool(_NUMBER.search(core)) and core in fold(text)
    return has_words(core, text)


def names_with(value: str, text: str) -> Iterator[tuple[int, int]]:
    """Yield what must go with a value of the quoted texts, paths and identifiers that hold it.

    That is all of a name of which the value is half or more, and otherwise the words of the value only.
    """
    known = {each.key for each in facts_of(value)}
    for found in CODED.finditer(text):
        if not _is_inside(value, found.group()):
            continue
        facts = facts_of(found.group())
        held = [each for each in facts if each.key in known]
        if 2 * len(held) >= len(facts):
            yield found.span()
        else:
            yield from ((at := found.start() + each.start, at + len(each.text)) for each in held)


def has_words(words_of_value: str, text: str) -> bool:
    """Return whether two or more words occur together in a text, in any form of them and however joined."""
    said, whole = ([each.key for each in facts_of(_JOINT.sub(" ", fold(each)))] for each in (words_of_value, text))
    return len(said) > 1 and any(whole[at : at + len(said)] == said for at in range(len(whole)))


def parts_kept(value: str, gone: Sequence[TextFact], new: Sequence[TextFact]) -> tuple[str, ...]:
    """Return the parts of a value that the rewriting did not lose, or put back in another form.

    No number or date of a value may be left, and no part of a name. A value that is mainly a path, an address or a
    quotation, or consists of common words, may be left in part.
    """
    facts = facts_of(value)
    exact = [each for each in facts if each.kind == "number" or each.text[:1].isdigit() or each.kind == "colour"]
    if _DATE.search(value):
        exact += [each for each in facts if each.kind == "month"]
    named = [each for each in facts if each.kind in ("name", "month")] if _is_name(value) else []
    telling = exact or named
    coded = [each for each in facts if each.kind == "code" and each.text not in _ENDINGS]
    if len(coded) == 1 and _FILE.fullmatch(value.strip("`\"' ")):
        return ()  # the word of a file's name may be said: "the agenda" does not tell agenda.md
    whole = coded if 2 * len(coded) >= len(facts) else facts
    kept = [each for each in telling or whole if not _is_lost(each, gone) or _is_said_again(each, new)]
    return tuple(each.text for each in kept) if kept and (telling or len(kept) == len(whole)) else ()


def _is_kind(value: str, kept: tuple[str, ...], text: str) -> bool:
    """Return whether only the kind of thing is left of a name, as a common noun: "an airport" for Bath Airport."""
    *first, last = value.split()
    is_kind = bool(first) and last.istitle() and kept == (last,)
    return is_kind and re.search(rf"\b{re.escape(last.lower())}\b", text) is not None


def _said_otherwise(value: str, put_in: str, around: str, new: Sequence[TextFact]) -> tuple[str, ...]:
    """Return how what was put in says a value by its sound or its letters, or as a number of decimals."""
    core = value.strip("`\"' ./#@")
    if " " not in core and has_words(_NAME_PARTS.sub(" ", _ENDING.sub("", core.rsplit("/", 1)[-1])), put_in):
        return (core,)
    said, letters = fold(put_in), "".join(filter(str.isalnum, fold(core)))
    if (
        value != core
        and len(letters) >= _LONG_NAME_CHARS
        and " " not in core
        and letters in re.sub(r"[^a-z0-9|]", "", said)
    ):
        return (core,)
    file = _FILE.fullmatch(core)
    stem = re.escape(fold(core.rsplit("/", 1)[-1].rsplit(".", 1)[0])) if file else ""
    if stem and re.search(rf"\b(?:named|called|titled|entitled)\b[^.;|]{{0,40}}\b{stem}\b", fold(around)):
        return (core,)
    initials = "".join(word[0] for word in re.findall(r"[a-z]+|\|", fold(around)))
    if core.isupper() and core.isalpha() and len(core) > _FEWEST_LETTERS and core.lower() in initials:
        return (core,)
    decimals = _DECIMALS.search(value)
    number = decimals and _counted(decimals)
    told = {word for count, names in words().precision if count == number for word in names.split()}
    return tuple(each.text for each in new if fold(each.text) in told)


def is_told(segment: Segment, guess: str, original: SearchablePrompt) -> bool:
    """Return whether somebody's guess is a removed value, in any notation.

    Numbers, days and colours must all be there and no others, but a year may be missing; of other values every word
    that says something, in any form of it. Multiplied numbers, shares, times and ranges are compared by what they come
    to; what the guess adds in brackets does not count.
    """
    if not guess.strip():
        return False
    value, bare = _multiplied(segment.value), _multiplied(_ASIDE.sub("", guess))
    one, other = dimensions(value), dimensions(bare)
    if one and other and not one & other:
        return False  # 30 days are not 30 minutes
    if (one & other) - {THINGS}:
        return _says(in_base_units(value), in_base_units(bare))
    plain, plain_guess = _plain(value), _plain(bare)
    if any(_says(plain, each) for each in _times(bare)):
        return True
    if plain != value and plain_guess != bare:
        return _says(plain, plain_guess)  # "9 am" is not "9 pm", though the digits are the same
    if not _exacts(value) and (reveals(guess, segment) or SearchablePrompt(guess).occurrences(segment, original)):
        return True
    return _says(value, _multiplied(guess)) or _says(value, bare) or _says(plain, plain_guess)


def _says(value: str, guess: str) -> bool:
    """Return whether a guess has the exact facts of a value and no others, or else all of its words."""
    exact, told = _exacts(value), _exacts(guess, has_day=bool(_DATE.search(value)))
    if exact:
        needed = {each for each in exact if not _YEAR.fullmatch(each)} or exact
        return needed <= told <= exact | {each for each in told if _YEAR.fullmatch(each)}
    content, said = _content(value), facts_of("x " + guess)[1:]
    return bool(content) and all(any(_is_same(each, other) for other in said) for each in content)


def _exacts(text: str, *, has_day: bool | None = None) -> set[str]:
    """Return the numbers, colours and, with a day of a month, the months of a text in one notation."""
    is_dated = bool(_DATE.search(text)) if has_day is None else has_day
    return {_exact(each) for each in facts_of("x " + text)[1:] if _is_exact(each, has_day=is_dated)}


def _content(value: str) -> tuple[TextFact, ...]:
    """Return the facts of a value without generic words, or all facts if every one is generic."""
    facts = facts_of("x " + value)[1:]
    return tuple(each for each in facts if fold(each.text) not in words().generic) or facts


def _plain(text: str) -> str:
    """Return a text with multiplied numbers, shares, times of day and ranges written out: 9 am as 09:00, 50% as 0.5."""
    text = _SECONDS.sub(r"\1", _MIDNIGHT.sub(r"\1", text))
    text = _HALF_DAY.sub(lambda found: f"{int(found[1]) % 12 + 12 * (found[3] in 'pP'):02}:{found[2] or '00'}", text)
    text = _BOUND.sub(_included, text)
    text = _PERCENT.sub(lambda found: format(Decimal(found[1]) / 100, "f"), text)
    return _RANGE.sub(_listed, text)


def _multiplied(text: str) -> str:
    """Return a text with multiplied numbers and numbers of decimals in digits: 1.5 million as 1500000."""
    text = _DECIMALS.sub(lambda found: found[0].replace(found[1], _counted(found), 1), text)
    return _MULTIPLIED.sub(
        lambda found: format(Decimal(found[1].replace(",", "")) * _MULTIPLIERS[found[2][0].lower()], "f"), text
    )


def _counted(found: re.Match[str]) -> str:
    """Return a number of decimals in digits."""
    number = found[1].lower()
    return words().decimals.get(number) or words().numbers.get(number, number)


def _included(found: re.Match[str]) -> str:
    """Return a bound without its own number as one with it: more than four as at least 5."""
    number = Decimal(words().numbers.get(found[2].lower(), "0") if found[2].isalpha() else found[2].replace(",", ""))
    return f"at least {number + 1}" if found[1].lower() in ("more", "greater") else f"at most {number - 1}"


def _times(text: str) -> tuple[str, ...]:
    """Return the times of day that a text in words may mean, before and after noon: nine o'clock, half past five."""
    found = _SPOKEN_TIME.fullmatch(text.strip(" .?"))
    hour = words().numbers.get(found["hour"].lower(), found["hour"]) if found else ""
    if not found or not _HOUR.fullmatch(hour):
        return ()
    minutes = {"half": 30, "quarter": 15}.get((found["part"] or "").split(" ")[-1].lower(), 0)
    at = int(hour) % _NOON * 60 + (-minutes if found["side"] == "to" else minutes)
    half = found["half"] or ""
    halves = (0,) if half == "morning" else (_NOON,) if half else (0, _NOON)
    return tuple(f"{(at // 60 + each) % (2 * _NOON):02}:{at % 60:02}" for each in halves)


def _listed(found: re.Match[str]) -> str:
    first, last = int(found[1]), int(found[2])
    return ", ".join(map(str, range(first, last + 1))) if 0 < last - first <= _LONGEST_RANGE else found[0]


def additions(before: SearchablePrompt, after: SearchablePrompt) -> Iterator[tuple[str, str]]:
    """Yield a finding for everything concrete that the rewriting says and the original does not.

    A vague or generic replacement holds no number, month, colour or name of its own. One that does reveals the value in
    another form, or is wrong.
    """
    if len(roles := _ROLE.findall(after.text)) > len(_ROLE.findall(before.text)):
        yield "adds_nothing", f"{roles[0]!r} gives the agent a role; leave it out"
    known = {each.key for each in facts_of(before.text)}
    for each in added(before.text, after.text):
        if each.kind in ("number", "month", "colour") or (each.kind in ("name", "code") and each.key not in known):
            yield "adds_nothing", f"{each.text!r} is concrete and new; say it vaguely, or leave it out"


def told_by_files(segment: Segment, prompt: str, files: Mapping[str, str]) -> str | None:
    """Return how the environment's files reveal a removed value, or None if no rule finds that they do.

    They do if the value is a file and no other has its ending, or the number of lines of a file that the rest of the
    prompt names.
    """
    core = segment.value.strip("`\"' .,")
    path = _FILE.fullmatch(core)
    alike = [name for name in files if path and name.endswith("." + path["ending"])]
    if path and alike and all(f"/{name}".endswith(f"/{core}") for name in alike):
        return f"{alike[0]} is the only file of its kind"
    number = _NUMBER.search(segment.value)
    for name, text in files.items():
        lines = [line for line in text.splitlines() if line.strip()]
        if number and len(lines) == int(number.group()) and _is_near(name, segment, prompt):
            return f"{name} has {number.group()} lines"
    return None


def _is_near(name: str, segment: Segment, prompt: str) -> bool:
    start, end = own_place(prompt, segment) or (0, 0)
    near = range(start - _NEARBY_CHARS, end + _NEARBY_CHARS + 1)
    return end > 0 and any(each.start() in near and each.end() in near for each in whole(name).finditer(prompt))


def _is_name(value: str) -> bool:
    """Return whether every content word of a value is a name: "Dana Whitfield", "the Nordic collection"."""
    content = [each for each in facts_of("x " + value) if each.kind not in ("number", "colour")]
    return any(each.kind in ("name", "month") for each in content[1:]) and len(value.split()) <= _LONGEST_NAME_WORDS


def _is_exact(fact: TextFact, *, has_day: bool) -> bool:
    return fact.kind in ("number", "colour") or (fact.kind == "month" and has_day)


def _exact(fact: TextFact) -> str:
    """Return an exact fact in one notation: a month as its number, unless it is a day of the week."""
    return _MONTHS.get(fact.key, fact.key) if fact.kind == "month" else fact.key


def _is_lost(fact: TextFact, gone: Sequence[TextFact]) -> bool:
    return any(each.key == fact.key for each in gone)


def _is_said_again(fact: TextFact, new: Sequence[TextFact]) -> bool:
    return any(_is_same(fact, each) for each in new)


def _is_same(one: TextFact, other: TextFact) -> bool:
    if "number" in (one.kind, other.kind):
        return one.kind == other.kind and one.key == other.key
    left, right = fold(one.text), fold(other.text)
    if is_same_word(left, right):
        return True
    return any({one.key, left} & group and {other.key, right} & group for group in words().same)
