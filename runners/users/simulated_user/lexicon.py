"""Reduces English text to clauses that ask for something and to comparable terms, and loads the matcher's lexicon."""

import re
import tomllib
from functools import cache
from typing import Any

import msgspec

from lhaw_record.recorder.resources import data_path

SENTENCE_END = re.compile(
    r"(?<=[.!?;:])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|(?<=[!?;])(?=[\u4e00-\u9fff])|\n+|(?:^|\s)\d+[.)]\s+"
)
"""Where a sentence ends. A line or a numbered point is a sentence, and so is the part before a colon."""

_ASKING_WORD = (
    r"(?:what|which|who|whom|whose|where|when|how|is|are|do|does|should|shall|must|may|can|could|will|would|am)"
)
_PREPOSITION = r"(?:by|in|at|on|to|from|for|over|under|above|below|with|of|as|until|since|starting)"
_JOIN = re.compile(
    rf",?\s+(?:and|or|plus|as well as)\s+(?:if so,?\s+)?(?=(?:{_PREPOSITION}\s+)?{_ASKING_WORD}\b)"
    rf"|,\s+(?={_ASKING_WORD}\b)"
)
_REQUEST = re.compile(
    r"\b(?:please (?:specify|tell|provide|clarify|confirm|state|let)|let me know|tell me|i need to know"
    r"|(?:could|can) you (?:specify|clarify|tell|provide)|specify (?:the|which|what))\b"
)
_POINTER = re.compile(r"\b(?:it|its|they|them|this|that|these|those|one|ones|there|here)\b")
_CHECK = re.compile(
    r"^(?:is|are|was) (?:that|this|it|these|they) (?:correct|right|what you (?:want|mean|need))\b|^(?:right|correct)$"
)
_TOKEN = re.compile(r"[a-z0-9]+(?:[._/#@'-]+[a-z0-9]+)*")
_CUE_WORD = re.compile(r"([a-z]{3,})(?:\(\?:([a-z|]+)\))?")
_SUFFIXES = ("ation", "ition", "ance", "ment", "ing", "ed", "ion", "ly")


class Focus(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Something that a clause can ask for, and the patterns that indicate it.

    ``vocabulary`` holds the stems of the words in those patterns. If ``needs_topic`` is true, the clause must also
    mention something about the segment. ``tolerated`` is how many words unrelated to the segment the clause may
    contain. ``hides`` names more general focuses that are ignored when this one is found.
    """

    cues: tuple[re.Pattern[str], ...]
    vocabulary: frozenset[str]
    needs_topic: bool = False
    tolerated: int = 0
    hides: tuple[str, ...] = ()


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A form of value, such as a file name or an amount, with the kinds of question it answers and its nouns."""

    pattern: re.Pattern[str]
    answers: tuple[str, ...]
    nouns: frozenset[str]
    text_pattern: re.Pattern[str] | None = None


class Lexicon(msgspec.Struct, frozen=True, kw_only=True):
    """The matcher's English lexicon, read from ``data/user/matcher.toml``."""

    stop_terms: frozenset[str]
    neutral_terms: frozenset[str]
    phrase_ends: frozenset[str]
    fillers: frozenset[str]
    dismissed: tuple[re.Pattern[str], ...]
    past: tuple[re.Pattern[str], ...]
    roles: dict[str, tuple[re.Pattern[str], ...]]
    focuses: dict[str, Focus]
    leads: dict[str, frozenset[str]]
    answers: dict[str, tuple[str, ...]]
    shapes: tuple[Shape, ...]
    groups: dict[str, frozenset[str]]


@cache
def lexicon() -> Lexicon:
    """Return the bundled lexicon, read once."""
    raw = tomllib.loads(data_path("user", "matcher.toml").read_text(encoding="utf-8"))
    return Lexicon(
        stop_terms=frozenset(raw["stop_words"].split()),
        neutral_terms=frozenset(stem(word) for word in raw["neutral_words"].split()),
        phrase_ends=frozenset(raw["phrase_ends"].split()),
        fillers=frozenset(raw["fillers"].split()),
        dismissed=_patterns(raw["dismissed"]),
        past=_patterns(raw["past"]),
        roles={role: _patterns(patterns) for role, patterns in raw["roles"].items()},
        focuses={
            name: Focus(
                cues=_patterns(entry["cues"]),
                vocabulary=_vocabulary(entry["cues"], entry.get("nouns", "")),
                needs_topic=entry.get("needs_topic", False),
                tolerated=entry.get("tolerated", 0),
                hides=tuple(entry.get("hides", ())),
            )
            for name, entry in raw["focus"].items()
        },
        leads={lead: frozenset(focuses) for lead, focuses in raw["leads"].items()},
        answers={name: tuple(answers) for name, answers in raw["answers"].items()},
        shapes=tuple(_shape(entry) for entry in raw["shapes"]),
        groups=_groups(raw["synonyms"]),
    )


def words(text: str) -> list[str]:
    """Return the lower-case words of a text; a file name, a path or an identifier is one word."""
    return [word.removesuffix("'s") for word in _TOKEN.findall(text.lower().replace("\u2019", "'"))]


def stem(word: str) -> str:
    """Strip the most common English endings from a word: ``rated``, ``rating`` and ``ratings`` give ``rat``.

    Snowball's English stemmer was measured as an alternative. It misses one more of the kept pairs (recall 0.949
    instead of 0.952) and takes 80 times as long.
    """
    if not word.isalpha() or len(word) < 4:
        return word
    if word.endswith("ies"):
        word = word[:-3] + "y"
    elif word.endswith(("ches", "shes", "xes", "sses")):
        word = word[:-2]
    elif word.endswith("s") and not word.endswith(("ss", "us", "is")):
        word = word[:-1]
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            word = word[: -len(suffix)]
            break
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "ls":
        word = word[:-1]
    return word[:-1] if word.endswith("e") and len(word) > 3 else word


def terms(text: str) -> frozenset[str]:
    """Return the stems of a text's content words."""
    known = lexicon()
    return frozenset(stem(word) for word in words(text) if word not in known.stop_terms)


def widen(stems: frozenset[str]) -> frozenset[str]:
    """Return the stems together with all their synonyms."""
    groups = lexicon().groups
    return stems.union(*(groups.get(each, frozenset()) for each in stems))


def _patterns(sources: list[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(source) for source in sources)


def _vocabulary(cues: list[str], nouns: str) -> frozenset[str]:
    """Return the stems of the nouns and of the words in the cues: ``sort(?:s|ed)?`` gives sort, sorts and sorted."""
    spelled = [match for cue in cues for match in _CUE_WORD.findall(cue.replace(r"\b", " "))]
    inflected = [word + ending for word, endings in spelled for ending in ("", *endings.split("|"))]
    return frozenset(stem(word) for word in inflected + nouns.split())


def _shape(entry: dict[str, Any]) -> Shape:
    text_pattern = entry.get("text_pattern")
    return Shape(
        pattern=re.compile(entry["pattern"]),
        answers=tuple(entry["answers"]),
        nouns=frozenset(stem(noun) for noun in entry["nouns"].split()),
        text_pattern=re.compile(text_pattern) if text_pattern else None,
    )


def _groups(lines: list[str]) -> dict[str, frozenset[str]]:
    groups: dict[str, frozenset[str]] = {}
    for line in lines:
        group = frozenset(stem(word) for word in line.split())
        for each in group:
            groups[each] = groups.get(each, frozenset()) | group
    return groups


class Clause(msgspec.Struct, frozen=True, kw_only=True):
    """One asking clause, in lower case and without its question mark, and the text before it.

    ``is_pointing`` is true if the clause refers to that text, as in "which one".
    """

    text: str
    background: str
    is_pointing: bool


def asking_clauses(question: str, context: str) -> list[Clause]:
    """Return every clause of the question that asks for something.

    If a sentence only asks to confirm the one before it ("Is that correct?"), the earlier sentence is used instead.
    """
    clauses: list[Clause] = []
    asked, before = (sentences(text.lower().replace("\u2019", "'")) for text in (question, context))
    for sentence in asked:
        for part in _JOIN.split(sentence) if _is_asking(sentence) else ():
            text = part.rstrip("?.!;, ").strip()
            if _CHECK.search(text) and before:
                clauses.append(Clause(text=before[-1].rstrip("?.!;, "), background="", is_pointing=False))
            elif text:
                clauses.append(Clause(text=text, background=" ".join(before), is_pointing=bool(_POINTER.search(text))))
            before.append(text)
        if not _is_asking(sentence):
            before.append(sentence)
    return clauses


def sentences(text: str) -> list[str]:
    """Split a text into sentences with their end marks."""
    return [part.strip() for part in SENTENCE_END.split(text) if part and part.strip()]


def _is_asking(sentence: str) -> bool:
    return sentence.endswith("?") or bool(_REQUEST.search(sentence))
