"""The decoy rewriter: replaces every occurrence of a value with a wrong one and changes nothing else."""

import datetime as dt
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import cache
from pathlib import PurePosixPath

import msgspec

from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.prompts.occurrences import SearchablePrompt, Span, replaced
from lhaw_record.generators.protocol import Removal, Rewriting, SourceTask
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.users.simulated_user.answers import reveals

DECOYS = "decoys/1"
_QUESTION = "You wrote {decoy}; is that what you mean?"
_FAILURE = "Works with {decoy}, which the prompt says by mistake."
_FILE = re.compile(r"[\w./ -]*[\w-]\.[A-Za-z]\w{0,4}")
_DAY = re.compile(r"(?<!\d)(\d{4})-(\d\d)-(\d\d)(?!\d)")
_CLOCK = re.compile(r"(?<![\d:])([01]?\d|2[0-3]):([0-5]\d)(?=(?::[0-5]\d)?(?!\d))")
_IDENTIFIER = re.compile(r"(?<![\w-])([A-Za-z]+[-_#]?)(\d+)(?![\w.])")
_NUMBER = re.compile(r"(?<![\w.,-])(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?(?!\d|[.,]\d)")
_LATER = dt.timedelta(days=7)
_SHORT = 5  # words; a longer value is a rule, and changing one word does not make another plausible rule
_ALIKE = 0.6  # similarity of file names; an agent would notice a file with a quite different name
_Change = tuple[re.Pattern[str], Callable[[re.Match[str]], str]]


def with_decoys(source: SourceTask, removal: Removal) -> Removal | None:
    """Return the removal with a decoy for every segment, or None if the rules have no decoy for one of them."""
    segments = []
    for segment in removal.segments:
        decoy = decoy_for(segment, source)
        if decoy is None:
            return None
        segments.append(msgspec.structs.replace(segment, decoy=decoy))
    return msgspec.structs.replace(removal, segments=tuple(segments))


class DecoyRewriter:
    """Replaces values with decoys by rules. Implements :class:`lhaw_record.generators.protocol.Rewriter`."""

    name = DECOYS

    def __init__(self) -> None:
        self.digest = digest([DECOYS, decoys_digest()])

    async def rewrite(
        self, source: SourceTask, removal: Removal, caller: ModelCaller | None, problems: Sequence[str] = ()
    ) -> Rewriting:
        """Return the prompt with each segment's value replaced by its decoy. The result is deterministic."""
        original = SearchablePrompt(source.task.prompt)
        places: dict[Span, str] = {}
        for segment in removal.segments:
            places |= _replacements(original, segment)
        return Rewriting(
            prompt=replaced(original.text, places),
            expected_questions=tuple(
                ExpectedQuestions(segment_id=segment.segment_id, questions=(_QUESTION.format(decoy=segment.decoy),))
                for segment in removal.segments
            ),
            failure_mode=" ".join(_FAILURE.format(decoy=segment.decoy) for segment in removal.segments),
        )


def _replacements(original: SearchablePrompt, segment: Segment) -> dict[Span, str]:
    """Return the replacement text for each span of the prompt where the segment's value occurs."""
    places = original.occurrences(segment)
    if not places or segment.decoy is None:
        raise RewritingFailed(f"the value {segment.value!r} of {segment.segment_id} has no place or no decoy")
    return {(start, end): _in_the_form_of(original.text[start:end], segment) for start, end in places}


def _in_the_form_of(text: str, segment: Segment) -> str:
    """Return the decoy in the form that the value has in ``text``: whole, without suffix, or only the file name."""
    value, decoy = segment.value, segment.decoy or ""
    forms: dict[str, str] = {}
    right, wrong = PurePosixPath(value), PurePosixPath(decoy)
    if right.suffix and right.suffix == wrong.suffix:
        forms = {str(right.with_suffix("")): str(wrong.with_suffix("")), right.stem: wrong.stem, right.name: wrong.name}
    forms |= {value.strip("`\"' "): decoy.strip("`\"' "), value: decoy}
    for known, new in forms.items():
        if text.casefold() == known.casefold():
            return new
    raise RewritingFailed(
        f"{segment.segment_id} also occurs in the prompt as {text!r}, for which the decoy {decoy!r} has no form"
    )


class DecoyLists(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The contents of ``data/generation/decoys.toml``.

    ``name_endings`` are added to the stems of output file names. Each of ``lists`` holds words of one kind.
    """

    name_endings: tuple[str, ...]
    lists: tuple[tuple[str, ...], ...]


def decoy_for(segment: Segment, source: SourceTask) -> str | None:
    """Return a plausible wrong value for a segment, or None if the rules have none. The result is deterministic.

    The decoy has the same kind as the right value, occurs nowhere in the prompt and is not another notation of the
    right value. An input file of the task is replaced with a similarly named file of the environment with the same
    suffix, if there is one.
    """
    for decoy in _proposals(segment.value, source):
        shown = msgspec.structs.replace(segment, value=decoy)
        if not reveals(decoy, segment) and not reveals(source.task.prompt, shown):
            return decoy
    return None


def decoys_digest() -> str:
    """Return the digest of the decoy lists."""
    return digest(msgspec.to_builtins(_lists()))


@cache
def _lists() -> DecoyLists:
    text = data_path("generation", "decoys.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), DecoyLists)


def _proposals(value: str, source: SourceTask) -> Iterator[str]:
    """Yield wrong values from the first rule that recognises the kind of the value."""
    if _FILE.fullmatch(value) and not any(value in words for words in _lists().lists):
        yield from _other_files(value, source)
        return
    for pattern, other in _PATTERNS:
        if pattern.search(value):
            yield from _shifted(value, pattern, other)
            return
    if len(value.split()) <= _SHORT and value.count(",") < 2 and " and " not in value:
        yield from _from_lists(value)


def _other_files(value: str, source: SourceTask) -> Iterator[str]:
    """Yield replacements for a file name.

    An input file is replaced with other input files of similar name and the same suffix, most similar first. An output
    file is given other names.
    """
    path = PurePosixPath(value)
    if value in source.files:
        alike = {name: SequenceMatcher(None, name, value).ratio() for name in source.files if name != value}
        others = [name for name, ratio in alike.items() if ratio >= _ALIKE and name.endswith(path.suffix)]
        yield from sorted(others, key=lambda name: (-alike[name], name))
        return
    yield from (str(path.with_stem(path.stem + ending)) for ending in _lists().name_endings)


def _from_lists(value: str) -> Iterator[str]:
    for words in _lists().lists:
        found = [
            (place, match)
            for place, word in enumerate(words)
            for match in re.finditer(rf"(?i)(?<!\w){re.escape(word)}(?!\w)", value)
            if _is_meant(word, match)
        ]
        if len(found) != 1:
            continue
        ((place, match),) = found
        for step in range(1, len(words)):
            other = _in_the_case_of(match[0], words[(place + step) % len(words)])
            yield value[: match.start()] + other + value[match.end() :]


def _is_meant(word: str, match: re.Match[str]) -> bool:
    """Return whether a match has an acceptable case.

    It may be written as listed, in lower case if the listed word is an abbreviation, or capitalised at the start of the
    value.
    """
    return match[0] in (word, word.lower() if word.isupper() else word) or (
        match.start() == 0 and match[0] == word.capitalize() and word.islower()
    )


def _in_the_case_of(word: str, other: str) -> str:
    if word.islower():
        return other.lower()
    return other[:1].upper() + other[1:]


def _shifted(value: str, pattern: re.Pattern[str], other: Callable[[re.Match[str]], str]) -> Iterator[str]:
    """Yield the value with every match changed once, twice and three times, in case an earlier result is in use."""
    for _ in range(3):
        value = pattern.sub(other, value)
        yield value


def _later_day(match: re.Match[str]) -> str:
    try:
        return (dt.date(int(match[1]), int(match[2]), int(match[3])) + _LATER).isoformat()
    except (ValueError, OverflowError):
        return match[0]


def _other_number(match: re.Match[str]) -> str:
    """Return a different number with the same grouping and decimals.

    Adds a quarter, and at least 2 to a whole number; subtracts 1 from a year (1900 to 2099).
    """
    whole, fraction = match[1].replace(",", ""), match[2] or ""
    cents = int(whole + fraction)
    changed = cents * 5 // 4 if fraction else cents + max(2, cents // 4)
    if not fraction and len(match[1]) == len("2025") and match[1].startswith(("19", "20")):
        changed = cents - 1
    digits = str(changed).zfill(len(fraction) + 1)
    front, back = (digits[: -len(fraction)], digits[-len(fraction) :]) if fraction else (digits, "")
    front = f"{int(front):,}" if "," in match[1] else front.zfill(len(whole))
    return f"{front}.{back}" if back else front


_PATTERNS: tuple[_Change, ...] = (
    (_DAY, _later_day),
    (_CLOCK, lambda match: f"{(int(match[1]) + 1) % 24:0{len(match[1])}d}:{match[2]}"),
    (_IDENTIFIER, lambda match: match[1] + str(int(match[2]) + 3).zfill(len(match[2]))),
    (_NUMBER, _other_number),
)
