"""What a question about a removed value is made of: what it is called, what it is about, what is done with it."""

import re

import msgspec

from generators.rewriting.english import English
from generators.rewriting.forms import is_equal_to_value
from generators.rewriting.scene import Scene
from generators.rewriting.slots import Slot
from generators.rewriting.values import Thing, predicate_start
from recorder.values import Segment

_WORD = re.compile(r"[^\W\d_][\w'\u2019-]*")
_WORD_OR_BAR = re.compile(r"[^\W\d_][\w'\u2019-]*|\|")
_CLAUSE_EDGE = re.compile(r"[;:!?()]|[.,](?=\s|$)|\n\s*\n")
_NAME = re.compile(r"(?<!\w)[\"'`\u201c][^\"'`\u201d]{1,80}[\"'`\u201d]|\S*[_/@\\]\S*|\S+\.\w{2,5}\b|\bhttps?\S+|\d\S*")
_MOST_TOPIC_WORDS = 4
_EMPTY_NOUNS = frozenset(
    {"name", "names", "one", "ones", "it", "way", "thing", "things", "number", "total", "item", "following", "first"}
    | {"second", "third", "fourth", "fifth", "last", "most", "least", "rest", "others", "other"}
)
_EMPTY_VERBS = frozenset(
    {"want", "need", "know", "tell", "have", "like", "make", "see", "give", "keep", "let", "be", "get"}
)


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of question templates; None where the prompt gives nothing for one."""

    noun: str | None = None
    topic: str | None = None
    verb: str | None = None
    rest: str | None = None
    name: str | None = None


def frame_of(scene: Scene, slot: Slot, thing: Thing, segment: Segment, english: English) -> Frame:
    """Return what stands around a value as the fields of a question."""
    named = re.search(r"(?i)(\w+)\s+(?:named|called|titled|entitled|headed|with names?)\s*$", scene.left)
    beside = slot.noun_after or slot.noun_before or (named[1] if named else None)
    noun = beside if beside and beside.lower() not in _EMPTY_NOUNS else None
    left = _clause_before(_NAME.sub(" | ", scene.left))
    value = " ".join(scene.text[scene.start : scene.end].split())
    own_verb = re.match(r"(?i)to (\w+)\s", value)
    verb: str | None = own_verb[1].lower() if own_verb else _verb(left, english)
    rest = thing.rest or (slot.noun_after if thing.form == "number" else None)
    return Frame(
        noun=(noun or thing.noun or "").lower() or None,
        topic=_subject(value, thing, english) or _topic(left, english) or _topic_after(scene.right, english),
        verb=verb,
        rest=english.plural(rest) if rest else None,
        name=next((each for each in segment.synonyms if not is_equal_to_value(each, segment.value)), None),
    )


def _subject(value: str, thing: Thing, english: English) -> str | None:
    """Return what a clause such as "amounts are in euros" is about."""
    at = predicate_start(value) if thing.form == "clause" else 0
    return _topic(re.sub(r"(?i)\s+(?:is|are)\s*$", "", value[:at].rstrip()), english) if at else None


def _clause_before(left: str) -> str:
    edges = [match.end() for match in _CLAUSE_EDGE.finditer(left)]
    tail = left[edges[-1] :] if edges else left
    return tail if len(_WORD.findall(tail)) > 1 or not edges else left[edges[-2] if len(edges) > 1 else 0 :]


def _topic(left: str, english: English) -> str | None:
    """Return the last noun phrase before a value, as "the report"."""
    phrases: list[list[str]] = [[]]
    before = ""
    for word in _WORD_OR_BAR.findall(left):
        lower = word.lower()
        is_verb_here = english.is_verb(lower) and before in ("", "to", "please", "and", "then", "you", "|")
        before = lower
        if is_verb_here or lower.endswith("est"):
            phrases.append([])
            continue
        is_part = english.is_noun_like(word) or (english.is_adjective(word) and lower not in english.function_words)
        if is_part or (lower in english.nouns_and_verbs and phrases[-1]):
            phrases[-1].append(word)
        else:
            phrases.append([])
    for phrase in reversed(phrases):
        words = phrase[-_MOST_TOPIC_WORDS:]
        while words and (not english.is_noun_like(words[-1]) or _is_no_topic(words[-1], english)):
            words = words[:-1]
        if words and words[-1].lower() not in english.function_words:
            lowered = [word if word[1:] != word[1:].lower() else word.lower() for word in words]
            return "the " + " ".join(lowered)
    return None


def _topic_after(right: str, english: English) -> str | None:
    clause = _CLAUSE_EDGE.split(right, maxsplit=1)[0]
    words = _WORD.findall(_NAME.sub(" | ", clause))
    for index, word in enumerate(words):
        if english.is_noun_like(word) and not _is_no_topic(word, english):
            following = words[index + 1] if index + 1 < len(words) else ""
            both = following and english.is_noun_like(following)
            return "the " + (f"{word} {following}" if both else word).lower()
    return None


def _is_no_topic(word: str, english: English) -> bool:
    return word.lower() in _EMPTY_NOUNS or english.is_adjective(word)


def _verb(left: str, english: English) -> str | None:
    """Return the verb whose object the value is, in its base form."""
    words: list[str] = [word.lower() for word in _WORD.findall(left)]
    leading = english.conjunctions | english.pronouns | english.auxiliaries | {"to", "please", "then", ""}
    for before, word in reversed(list(zip(["", *words], words, strict=False))):
        is_verb = english.is_verb(word) and word not in _EMPTY_VERBS and before in leading
        if is_verb and (word not in english.nouns_and_verbs or before in ("", "to", "please", "and")):
            return word
    return None
