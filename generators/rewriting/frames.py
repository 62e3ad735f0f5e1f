"""What a question about a removed value is made of: what it is called, what it is said of, what is done with it."""

import re
from collections.abc import Sequence

import msgspec

from generators.rewriting.english import English
from generators.rewriting.forms import is_equal_to_value
from generators.rewriting.scene import Scene
from generators.rewriting.slots import Slot
from generators.rewriting.values import Thing, predicate_start
from recorder.values import Segment

_WORD = re.compile(r"[^\W\d_][\w'\u2019-]*|\||\d[\w.]*|[,(]")
_CLAUSE_EDGE = re.compile(r"[;:!?()]|[.](?=\s|$)|\n\s*\n")
_NAME = re.compile(r"(?<!\w)[\"'`\u201c][^\"'`\u201d]{1,80}[\"'`\u201d]|\S*[_/@\\]\S*|\S+\.\w{2,5}\b|\bhttps?\S+")
_DEFINED = re.compile(
    r"(?i)^(?:\W|while\s|whereas\s|and\s)*(?P<subject>[^,;:]{3,60}?)\s+"
    r"(?:(?:is|are)\s+(?:defined\s+as|considered(?:\s+(?:to\s+be|as))?|regarded\s+as|treated\s+as)|means?|counts?\s+as)\b[^,;:]{0,60}$"
)
_MOST_TOPIC_WORDS = 4
_MOST_SUBJECT_WORDS = 5
_SHORTEST_NAME_CHARS = 5
_SHORTEST_WORD_CHARS = 3
_EMPTY_NOUNS = frozenset(
    {"name", "names", "one", "ones", "it", "way", "thing", "things", "number", "total", "item", "following", "first"}
    | {"second", "third", "fourth", "fifth", "last", "most", "least", "rest", "others", "other", "order", "help"}
    | {"bunch", "lot", "example", "reference", "same", "more", "less"}
)
_NO_TOPICS = _EMPTY_NOUNS | {"place", "case", "kind", "type"}
_OWNER = re.compile(
    r"(?i)(?P<noun>[a-z]{3,})\s+(?:who|that|which)\s+"
    r"(?:(?:is|are|was|were|has|have|had|do|does|did|not|both|an?|the)\s+){0,3}$"
)
_EMPTY_VERBS = frozenset(
    {"want", "need", "know", "tell", "have", "like", "make", "see", "give", "keep", "let", "be", "get", "put", "do"}
)
_PLACE_NOUNS = frozenset({"folder", "directory", "drive", "path", "bucket", "subfolder"})
_FILE_NOUNS = frozenset({"file", "spreadsheet", "document", "image", "database"})


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of question templates; None where the prompt gives nothing for one."""

    noun: str | None = None
    topic: str | None = None
    container: str | None = None
    subject: str | None = None
    verb: str | None = None
    act: str | None = None
    rest: str | None = None
    name: str | None = None


def frame_of(scene: Scene, slot: Slot, thing: Thing, segment: Segment, english: English) -> Frame:
    """Return what stands around a value as the fields of a question."""
    left = _clause_before(scene.left)
    value = " ".join(scene.text[scene.start : scene.end].split())
    words = _WORD.findall(_NAME.sub(" | ", left))
    own_verb = re.match(r"(?i)to (\w+)\s", value)
    governing = _governing_verb(words, english)
    topic, acted = _topic(words, english)
    topic = _subject(value, thing, english) or topic
    if thing.noun in _FILE_NOUNS and (topic or "").rpartition(" ")[2] in _PLACE_NOUNS:
        topic = None
    rest = thing.rest or (slot.noun_after if thing.form == "number" else None)
    is_counted = bool(rest) and english.is_noun_like(rest or "") and (rest or "") not in _EMPTY_NOUNS
    last = (topic or "").rpartition(" ")[2]
    return Frame(
        noun=_noun(scene, slot, thing, english),
        topic=topic,
        container=topic if last in english.containers else None,
        subject=_defined(left),
        verb=own_verb[1].lower() if own_verb else governing,
        act=f"{acted} {topic}" if acted and topic else None,
        rest=english.plural(rest) if rest and is_counted else None,
        name=next((each for each in segment.synonyms if _may_be_said(each, segment.value, english)), None),
    )


def _noun(scene: Scene, slot: Slot, thing: Thing, english: English) -> str | None:
    """Return what the value is called: the noun beside it, else that of its kind, in lower case."""
    named = re.search(r"(?i)(\w+)\s+(?:named|called|titled|entitled|headed|with names?)\s*$", scene.left)
    owner = _OWNER.search(scene.left)
    if owner and english.is_noun_like(owner["noun"]):
        return owner["noun"].lower()
    for beside in (slot.noun_after or "", slot.noun_before or "", named[1] if named else ""):
        noun = beside.lower()
        is_elsewhere = thing.noun in _FILE_NOUNS and noun in _PLACE_NOUNS
        is_name = beside[:1].isupper() and noun not in english.kind_nouns and not english.is_plural(noun)
        is_noun = len(noun) > _SHORTEST_WORD_CHARS - 1 and noun not in _EMPTY_NOUNS and english.is_noun_like(noun)
        if is_noun and not is_elsewhere and not is_name:
            return noun if noun not in english.measures else None
    noun = (thing.noun or "").lower()
    if not noun and re.search(r"(?i)\b(?:in|at|near)\s+$", scene.left) and scene.text[scene.start].isupper():
        return "place"
    return noun if noun and not noun.endswith(("ing", "est")) and noun not in _EMPTY_NOUNS - {"number"} else None


def _may_be_said(name: str, value: str, english: English) -> bool:
    """Whether another name of what a value is may stand in a question: a noun that says nothing of the value itself."""
    own, other = (re.sub(r"[\W_]+", "", text.lower()) for text in (value, name))
    words = name.lower().split()
    last = words[-1] if words else ""
    is_form_of_verb = last not in english.kind_nouns and english.base(last) is not None
    if (
        name != name.lower()
        or is_equal_to_value(name, value)
        or is_form_of_verb
        or any(word.endswith("ing") for word in words)
    ):
        return False
    is_compared = any(each.startswith(f"{last} ") for each in english.comparators)
    is_verb = english.is_verb(last) and last not in english.kind_nouns | english.nouns_and_verbs
    if (
        len(last) < _SHORTEST_WORD_CHARS
        or is_compared
        or is_verb
        or english.is_adjective(last)
        or last in _EMPTY_NOUNS - {"order", "columns"}
    ):
        return False
    return not (len(other) >= _SHORTEST_NAME_CHARS and other in own)


def _defined(left: str) -> str | None:
    """Return what a sentence such as "late arrival is defined as arriving after" defines."""
    match = _DEFINED.search(left)
    if match is None or len(match["subject"].split()) > _MOST_SUBJECT_WORDS:
        return None
    subject = re.sub(r"(?i)^(?:the|an?)\s+", "", match["subject"].strip(" *-\n"))
    return subject[:1].lower() + subject[1:] if subject[1:2].islower() else subject


def _subject(value: str, thing: Thing, english: English) -> str | None:
    """Return what a clause such as "amounts are in euros" is about."""
    at = predicate_start(value) if thing.form == "clause" else 0
    words = _WORD.findall(re.sub(r"(?i)\s+(?:is|are)\s*$", "", value[:at].rstrip())) if at else []
    return _noun_phrase(words, english)[0] if words else None


def _clause_before(left: str) -> str:
    edges = [match.end() for match in _CLAUSE_EDGE.finditer(_NAME.sub(lambda found: "|" * len(found.group()), left))]
    return left[edges[-1] :] if edges else left


def _governing_verb(words: Sequence[str], english: English) -> str | None:
    """Return the verb whose object the value is, in its base form: nothing but articles stands between them."""
    at = len(words)
    while at and words[at - 1].lower() in english.determiners | {
        "me",
        "us",
        "only",
        "just",
        "also",
        "exactly",
        "out",
        "up",
    }:
        at -= 1
    word = words[at - 1].lower() if at else ""
    before = words[at - 2].lower() if at > 1 else ""
    is_noun_too = word in english.nouns_and_verbs and before not in ("", "to", "please", "and", "|")
    return word if _is_verb_here(word, before, english) and word not in _EMPTY_VERBS and not is_noun_too else None


def _is_verb_here(word: str, before: str, english: English) -> bool:
    leading = english.conjunctions | english.pronouns | english.auxiliaries | {"to", "please", "then", "", ",", "also"}
    return english.is_verb(word) and before in leading


def _topic(words: Sequence[str], english: English) -> tuple[str | None, str | None]:
    """Return the noun phrase that a value is said of, as "the report", and the verb whose object it is.

    Between the two stand only words of closed classes and participles: "the report, written as", "the report in the".
    """
    glue = english.prepositions | english.determiners | english.auxiliaries | english.adverbs | {"to", "as", "not"}
    at = len(words)
    while at:
        word = words[at - 1].lower()
        is_participle = word in english.leading_participles or (word.endswith("ed") and len(word) > 4)
        if word not in glue and not is_participle:
            break
        at -= 1
    if at == len(words):
        return None, None
    return _noun_phrase(words[:at], english)


def _noun_phrase(words: Sequence[str], english: English) -> tuple[str | None, str | None]:
    """Return the noun phrase at the end of some words, if an article or a plural shows that it is one, and its verb."""
    at = len(words)
    while at and len(words) - at <= _MOST_TOPIC_WORDS and _is_part(words, at - 1, english):
        at -= 1
    phrase, before = words[at:], words[at - 1].lower() if at else ""
    if not phrase or len(phrase) > _MOST_TOPIC_WORDS:
        return None, None
    last = phrase[-1].lower()
    is_named = len(phrase) > 1 and last in ("name", "names")
    is_empty = last in english.irregular_participles or (last in _NO_TOPICS and not is_named)
    if not english.is_noun_like(last) or is_empty or english.is_adjective(last) or last.endswith("ing"):
        return None, None
    if not (
        before in english.determiners
        or before in ("", "|")
        or english.is_plural(last)
        or _is_verb_here(before, "", english)
    ):
        return None, None
    before_article = at - 1 if before in english.determiners else at
    verb = words[before_article - 1].lower() if before_article else ""
    ahead = words[before_article - 2].lower() if before_article > 1 else ""
    if verb == "answer":
        return None, None
    lowered = [word if word[1:] != word[1:].lower() else word.lower() for word in phrase]
    acted = verb if _is_verb_here(verb, ahead, english) and verb not in _EMPTY_VERBS else None
    if phrase[0].lower() in ("more", "most", "less", "fewer", "same") or any(word[0].isupper() for word in phrase[:1]):
        return None, None
    article = before if before in ("each", "every") else "the"
    return f"{article} {' '.join(lowered)}", acted


def _is_part(words: Sequence[str], at: int, english: English) -> bool:
    word, before = words[at], words[at - 1].lower() if at else ""
    lower = word.lower()
    if word in ("|", ",", "(") or word[0].isdigit() or lower in english.function_words:
        return False
    if lower not in english.nouns_and_verbs | english.kind_nouns and _is_verb_here(lower, before, english):
        return False
    if lower in english.verbs and before in ("", "to", "please", "and", "then", "you") and at < len(words) - 1:
        return False
    is_gerund_before_noun = lower.endswith("ing") and english.base(lower) is None and at < len(words) - 1
    is_noun = english.is_noun_like(word) or lower in english.nouns_and_verbs
    return is_noun or english.is_adjective(word) or is_gerund_before_noun
