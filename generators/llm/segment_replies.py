"""Reads the segments that a model proposes, checks each one separately, and gives a reason for each rejection. Pure.

Proposals with equal values are merged into the first. Overlapping segments are all kept, because overlapping segments
are never removed together.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from lhaw_record.generators.protocol import Extraction
from lhaw_record.recorder.events import RejectedSegment
from lhaw_record.recorder.events.values import DIMENSIONS, Segment
from lhaw_record.runners.base.text.normalization import NormalizedText, normalize, normalize_with_places
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema

_DOUBLE = "\u201c\u201d\u201e\u201f\u00ab\u00bb"
_SINGLE = "\u2018\u2019\u201a\u201b\u00b4`"
_QUOTES = str.maketrans(dict.fromkeys(_DOUBLE, '"') | dict.fromkeys(_SINGLE, "'"))
_MARKS = "\"'*" + _DOUBLE + _SINGLE
_NUMBER = re.compile(r"(?<![\d.,])\d{1,3}(?:,\d{3})+(?:\.\d+)?(?!\d)|\d+(?:\.\d+)*")
_FIRST_OF_OTHER_SCRIPTS = "\u0530"  # Latin, Greek and Cyrillic come before it; many later scripts write no spaces

Span = tuple[int, int]


class Places:
    """Finds copied text in one prompt.

    Args:
        prompt: The prompt.
    """

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self._folded: NormalizedText = normalize_with_places(prompt.translate(_QUOTES))
        self._within_numbers = {
            place for match in _NUMBER.finditer(prompt) for place in range(match.start() + 1, match.end())
        }

    def find(self, wanted: str, within: Span | None = None) -> Span | None:
        """Return the span of a copied text in the prompt, without quotes around it.

        Returns None if the text does not occur, or occurs only inside words or numbers.

        Exact matches are preferred to matches after normalization; among equals, matches inside ``within`` come first,
        then the earliest match.
        """
        for candidate in _spellings(wanted):
            exact = (match.span() for match in re.finditer(re.escape(candidate), self.prompt))
            for spans in (exact, self._alike(normalize(candidate.translate(_QUOTES)))):
                found = [span for span in spans if self._stands_alone(span)]
                inside = [span for span in found if within and within[0] <= span[0] and span[1] <= within[1]]
                if found:
                    return (inside or found)[0]
        return None

    def _alike(self, folded: str) -> Iterator[Span]:
        """Yield the spans whose text normalizes to exactly ``folded``. ``200`` does not match inside ``1,200``."""
        for span in self._folded.places(re.compile(re.escape(folded))) if folded else ():
            if normalize(self.prompt[slice(*span)].translate(_QUOTES)) == folded:
                yield span

    def _stands_alone(self, span: Span) -> bool:
        """Return whether neither end of a span lies inside a word or a number. ``20`` in ``20mm`` passes."""
        return not any(
            end in self._within_numbers or _are_joined(self.prompt[end - 1 : end], self.prompt[end : end + 1])
            for end in span
        )


def _spellings(wanted: str) -> Iterator[str]:
    """Yield the text without the quotes that models add, then as given, then with its line breaks unescaped."""
    bare = wanted.strip()
    inner = bare.strip(_MARKS).strip()
    if inner and bare[0] in _MARKS and bare[-1] in _MARKS and not {bare[0], bare[-1]} & set(inner):
        yield inner
    if bare:
        yield bare
    unescaped = bare.replace("\\r", "").replace("\\n", "\n").strip()
    if unescaped not in ("", bare):
        yield unescaped


def _are_joined(left: str, right: str) -> bool:
    """Return whether two characters are letters of one word, in a script that separates words by spaces."""
    return left.isalpha() and right.isalpha() and max(left, right) < _FIRST_OF_OTHER_SCRIPTS


_SCORES = (0.0, 0.5, 1.0)
_LONGEST_VALUE = 300
_UNNAMED = "unspecified"
MOST_SEGMENTS = 10
"""The most segments taken from a reply, by priority. Ties go to the segment proposed first."""


_SCORE = {"type": "number", "enum": list(_SCORES)}
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
SEGMENTS_FORM = ReplyForm(
    "segments",
    object_schema(
        {
            "segments": {
                "type": "array",
                "items": object_schema(
                    {
                        "value": _TEXT,
                        "text": _TEXT,
                        "without": _TEXT,
                        "dimension": {"type": "string", "enum": list(DIMENSIONS)},
                        "subdimension": _TEXT,
                        "criticality": _SCORE,
                        "guessability": _SCORE,
                        "synonyms": _TEXTS,
                        "checkpoint_refs": _TEXTS,
                        "is_used_in_trajectory": {"type": ["boolean", "null"]},
                        "first_use_pct": {"type": ["number", "null"]},
                    }
                ),
            }
        }
    ),
)
"""The form of a reply, for models that take JSON schemas. ``without`` lets a model think and is not read."""


class PromptEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What the model saw besides the prompt. Claims about anything else are ignored."""

    checkpoint_ids: tuple[str, ...] = ()
    has_trajectory: bool = False


class _Refused(Exception):
    """A proposal is invalid; the message says why."""


def read_proposals(proposals: Sequence[Any], prompt: str, shown: PromptEvidence) -> Extraction:
    """Return the valid segments of a reply, in prompt order, and the rejected proposals."""
    places = Places(prompt)
    taken: dict[str, tuple[Span, Segment]] = {}
    rejected: list[RejectedSegment] = []
    for proposal in proposals:
        try:
            span, segment = _read_one(proposal, places, shown)
        except _Refused as refused:
            rejected.append(RejectedSegment(value=_value_of(proposal)[:_LONGEST_VALUE], reason=str(refused)))
            continue
        key = normalize(segment.value)
        if key in taken:
            taken[key] = taken[key][0], _merged(taken[key][1], segment)
            rejected.append(RejectedSegment(value=segment.value, reason="proposed before; merged with that segment"))
        else:
            taken[key] = span, segment
    ranked = sorted(taken.values(), key=lambda each: -_priority(each[1]))
    reason = f"one of more than {MOST_SEGMENTS} segments, and of lower priority than those that are taken"
    rejected += [RejectedSegment(value=segment.value, reason=reason) for _, segment in ranked[MOST_SEGMENTS:]]
    in_order = sorted(ranked[:MOST_SEGMENTS], key=lambda each: each[0])
    return Extraction(
        segments=tuple(
            msgspec.structs.replace(segment, segment_id=f"S{number}")
            for number, (_, segment) in enumerate(in_order, start=1)
        ),
        rejected=tuple(rejected),
    )


def _read_one(proposal: Any, places: Places, shown: PromptEvidence) -> tuple[Span, Segment]:
    """Return the span and the segment that one proposal describes."""
    if not isinstance(proposal, Mapping):
        raise _Refused("it is not a JSON object")
    text = places.find(str(proposal.get("text") or ""))
    span = _place(_value_of(proposal), places, text)
    is_around = text is not None and text[0] <= span[0] and span[1] <= text[1]
    is_used = proposal.get("is_used_in_trajectory") if shown.has_trajectory else None
    return span, Segment(
        segment_id="",
        value=places.prompt[slice(*span)],
        dimension=_dimension(proposal.get("dimension")),
        subdimension=_words(proposal.get("subdimension")) or _UNNAMED,
        text=places.prompt[slice(*text)] if text is not None and is_around else None,
        criticality=_score("criticality", proposal.get("criticality")),
        guessability=_score("guessability", proposal.get("guessability")),
        is_used_in_trajectory=is_used if isinstance(is_used, bool) else None,
        first_use_pct=_share(proposal.get("first_use_pct")) if is_used is True else None,
        checkpoint_refs=_known(proposal.get("checkpoint_refs"), shown.checkpoint_ids),
        synonyms=_synonyms(proposal.get("synonyms"), places, span),
    )


def _value_of(proposal: Any) -> str:
    """Return the proposed value as text, even if it is a number. The text is empty if there is no value."""
    value = proposal.get("value") if isinstance(proposal, Mapping) else proposal
    return "" if value is None else str(value)


def _place(value: str, places: Places, text: Span | None) -> Span:
    if not value.strip():
        raise _Refused("it has no value")
    if len(value) > _LONGEST_VALUE:
        raise _Refused(f"the value has {len(value)} characters; a segment has at most {_LONGEST_VALUE}")
    span = places.find(value, text)
    if span is None:
        is_within = value.strip() in places.prompt
        raise _Refused("the value stands only inside other words" if is_within else "the value is not in the prompt")
    if places.prompt[slice(*span)] == places.prompt.strip():
        raise _Refused("the value is the whole prompt")
    return span


def _dimension(given: Any) -> str:
    name = str(given or "").strip().lower()
    if name not in DIMENSIONS:
        raise _Refused(f"the dimension {given!r} is unknown; known are {', '.join(DIMENSIONS)}")
    return name


def _score(name: str, given: Any) -> float:
    """Return a score that is given as a number or as text."""
    try:
        score = float(given) if isinstance(given, str | int | float) and not isinstance(given, bool) else None
    except ValueError:
        score = None
    if score not in _SCORES:
        raise _Refused(f"{name} is {'missing' if given is None else repr(given)}; it must be 0, 0.5 or 1")
    return score


def _share(given: Any) -> float | None:
    is_share = isinstance(given, int | float) and not isinstance(given, bool) and 0.0 <= given <= 1.0
    return float(given) if is_share else None


def _words(given: Any) -> str:
    """Return a subdimension in snake case. Any name is allowed."""
    return re.sub(r"[\W_]+", "_", str(given or "").strip().lower()).strip("_")


def _known(given: Any, known: Sequence[str]) -> tuple[str, ...]:
    """Return the known checkpoint ids that a proposal names, in the task's order."""
    said = {str(item).strip().casefold() for item in _listed(given)}
    return tuple(checkpoint_id for checkpoint_id in known if checkpoint_id.casefold() in said)


def _synonyms(given: Any, places: Places, value: Span) -> tuple[str, ...]:
    """Return the proposed synonyms as the prompt spells them.

    Synonyms that the prompt lacks, that repeat another one or that contain the value are left out.
    """
    found: dict[str, str] = {}
    for item in _listed(given):
        span = places.find(str(item))
        expression = places.prompt[slice(*span)] if span else ""
        if expression and normalize(places.prompt[slice(*value)]) not in normalize(expression):
            found.setdefault(normalize(expression), expression)
    return tuple(found.values())


def _listed(given: Any) -> Sequence[Any]:
    if isinstance(given, list):
        return given
    return [] if given is None or given == "" else [given]


def _merged(first: Segment, again: Segment) -> Segment:
    uses = [segment.first_use_pct for segment in (first, again) if segment.first_use_pct is not None]
    is_used = [segment.is_used_in_trajectory for segment in (first, again)]
    return msgspec.structs.replace(
        first,
        text=first.text or again.text,
        is_used_in_trajectory=True if True in is_used else first.is_used_in_trajectory,
        first_use_pct=min(uses, default=None),
        checkpoint_refs=tuple(dict.fromkeys(first.checkpoint_refs + again.checkpoint_refs)),
        synonyms=tuple(dict.fromkeys(first.synonyms + again.synonyms)),
    )


def _priority(segment: Segment) -> float:
    return (segment.criticality or 0.0) * (1.0 - (segment.guessability or 0.0))
