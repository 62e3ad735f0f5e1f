"""Weighs how near a question comes to each removed segment: by its words, and by its meaning if there is an encoder.

A question is compared with all that a variant says about a segment: its names, its likely questions, the words that
replace it in the prompt, and the clause around them. What else the question might be about counts against it:
the other segments, what the prompt still says, and questions that every task gets. ``data/user/evidence.toml`` has the
weights; docs/matcher.md says where they come from.
"""

import re
import tomllib
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from functools import cache, lru_cache
from typing import Any

import msgspec
import numpy as np

from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.text.normalization import whole
from lhaw_record.runners.users.simulated_user.encoder import Encoder
from lhaw_record.runners.users.simulated_user.lexicon import SENTENCE_END, lexicon, sentences, stem, words
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge
from lhaw_record.runners.users.simulated_user.readings import is_for_everything

_LONGEST_QUESTION = 4_000
_LONGEST_WHOLE = 600
_MOST_PARTS = 24
_SHORTEST_QUOTATION = 5
_LONGEST_NAME_WORDS = 4
_MOST_AT_ONCE = 3
_CLAUSE_END = re.compile(r"[,;:]\s+|\s+(?:and|but|so|und|et|y)\s+")
_TOKEN = re.compile(r"\w+|[^\w\s]|\s+")
_WORD = re.compile(r"\w+")
_MARKUP = re.compile(r"</?[A-Za-z][^<>]{0,80}>|[*`#>|]+")
_CODE = re.compile(r"[(){}\[\]=_/]")
_HAN = re.compile(r"[\u3040-\u30ff\u4e00-\u9fff]")

Similarity = Callable[[Sequence[str], Sequence[str]], Any]
"""Compares each text of a list with each text of a second list: one row per text, one column per second text."""


class _Clue(msgspec.Struct, frozen=True, kw_only=True):
    """What is said about one segment, and where it is missing in the prompt."""

    segment_id: str
    questions: tuple[str, ...]
    names: tuple[str, ...]
    clause: tuple[str, ...]
    placeholder: tuple[str, ...]


class Part(msgspec.Struct, frozen=True):
    """Something that a message may ask for: a part that asks, one of things it joins, a piece of it, or the message."""

    text: str
    kind: str = "part"  # or "joined", "piece", "whole"

    @property
    def is_for_several(self) -> bool:
        """Whether it says that it is about more than one thing ("What are the two codes?")."""
        return bool(_pattern("several").search(self.text))


@cache
def evidence_data() -> dict[str, Any]:
    """Return the weights, the patterns and the questions of every task, read once."""
    return tomllib.loads(data_path("user", "evidence.toml").read_text(encoding="utf-8"))


@cache
def _pattern(name: str, table: str = "patterns") -> re.Pattern[str]:
    return re.compile("|".join(evidence_data()[table][name]), re.IGNORECASE)


def without_quotations(question: str, sent_prompt: str) -> str:
    """Return a question without markup and without the prompt's own sentences, cut to a length that a person reads."""
    text = unicodedata.normalize("NFKC", question)
    for sentence in SENTENCE_END.split(unicodedata.normalize("NFKC", sent_prompt)):
        if len(sentence.split()) >= _SHORTEST_QUOTATION or len(_HAN.findall(sentence)) >= 2 * _SHORTEST_QUOTATION:
            text = text.replace(sentence.strip(), "\n")
    return _MARKUP.sub(" ", text)[:_LONGEST_QUESTION].strip()


def asks(sentence: str) -> bool:
    """Return whether a sentence asks for something, or proposes it."""
    return bool(_pattern("asking").search(sentence) or _pattern("premise").search(sentence))


def is_request(message: str) -> bool:
    """Return whether a message asks for something or proposes it, and does not begin by ordering something else.

    A few words, which may name what is wanted, need no form.
    """
    if len(_WORD.findall(message)) <= _LONGEST_NAME_WORDS and not _CODE.search(message):
        return True
    said = sentences(message)
    rest = [each for each in said if not _pattern("command").search(each)]
    return said[:1] == rest[:1] and any(asks(each) or _pattern("request").search(each) for each in rest)


def asking_parts(question: str, context: str) -> list[str]:
    """Return each thing that a question asks for or proposes, as a text of its own.

    A part that says nothing by itself ("What should I take?") is joined to the last sentence that only tells.
    """
    parts = list[str]()
    before = context.strip().splitlines()[-1:] if context.strip() else []
    said = sentences(question)[:_MOST_PARTS]
    for sentence in said:
        is_asking = len(said) == 1 or asks(sentence)
        for piece in _pattern("join").split(sentence) if is_asking else ():
            text = _pattern("confirmation").sub("", piece).strip(" ,.?!-\u2013")
            if not _has_content(text) and before:
                text = f"{before[-1]} {text}".strip()
            if text and not is_for_everything(text):
                parts.append(text)
        if not is_asking:
            before.append(sentence)
    return list(dict.fromkeys(parts or said))


def possible_questions(message: str, context: str) -> list[Part]:
    """Return what a message may ask for: each of its parts, pieces of these, and all of it at once."""
    parts = [Part(text) for text in asking_parts(message, context)]
    pieces = [
        Part(text.strip(" ,.?!-\u2013"), kind)
        for kind in ("piece", "joined")
        for part in parts
        for text in _pattern(kind).split(part.text)
        if text and _has_content(text) and text != part.text
    ]
    whole = [Part(message.strip(" ,.?!"), "whole")] if len(message) < _LONGEST_WHOLE else []
    distinct = {part.text: part for part in (*pieces, *whole, *parts) if part.text}
    return [part for part in (*parts, *whole, *pieces) if distinct.get(part.text) is part][:_MOST_PARTS]


def _has_content(text: str) -> bool:
    return bool(_content_words(text)) or (len(text.split()) <= 3 and bool(text))


@lru_cache(maxsize=4096)
def _content_words(text: str) -> frozenset[str]:
    """Return the stems of a text's words that do not belong to any question, and pairs of signs of Chinese."""
    known, found = lexicon(), set[str]()
    for word in _WORD.findall(text.lower()):
        if _HAN.search(word):
            found.update(word[at : at + 2] for at in range(max(len(word) - 1, 1)))
        elif word not in known.stop_terms and stem(word) not in known.neutral_terms:
            found.add(stem(word))
    return frozenset(found)


def near_segments(
    message: str,
    parts: Sequence[Part],
    by_rules: Sequence[frozenset[str]],
    knowledge: UserKnowledge,
    encoder: Encoder | None,
) -> frozenset[str]:
    """Return the ids of the segments that some part is surely about.

    A part is about one segment, unless the rules find several in it. If the prompts do not show where something is
    missing, nothing can speak against a segment, and the rules alone decide. They are also believed if nobody wrote
    likely questions. ``by_rules`` has the segments that each part asks for by the rules.
    """
    named = frozenset[str]().union(*by_rules)
    if not parts or not is_placed(knowledge):
        return named
    believed = frozenset[str]() if knowledge.expected else named
    kind = "rules" if encoder is None else "encoder"
    weights, found = evidence_data()["weights"][kind], features(message, parts, by_rules, knowledge, encoder)
    hostility = weighed(weights["hostile"], {name: each.max() for name, each in found.items()})
    if hostility + message_vector(message, encoder) @ weights["message"] > 0:
        return believed
    scores = weighed(weights["asked"], found)
    near = frozenset(
        segment.segment_id
        for part, score, best, by_rule in zip(parts, scores, scores.argmax(axis=1), by_rules, strict=True)
        for at, segment in enumerate(knowledge.removed)
        if score[at] > 0 and (at == best or part.is_for_several or segment.segment_id in by_rule)
    )
    is_list = len(near) > _MOST_AT_ONCE * max(1, sum(map(asks, sentences(message))))
    return believed if is_list else near | believed


def message_vector(message: str, encoder: Encoder | None) -> Any:
    """Return what a message says independently of its topic: its meaning, or the general words in it."""
    if encoder is not None:
        return encoder.vectors([message])[0]
    said = {stem(word) for word in words(message)}
    return np.array([word in said for word in evidence_data()["general_words"].split()]) / max(len(said), 1) ** 0.5


def is_placed(knowledge: UserKnowledge) -> bool:
    """Return whether the two prompts show for each removed segment where it is missing."""
    changes = _changes(knowledge.full_prompt, knowledge.sent_prompt)
    return bool(knowledge.removed) and all(
        _place(segment, knowledge.full_prompt, changes) for segment in knowledge.removed
    )


def names_elsewhere(full_prompt: str, sent_prompt: str, segments: tuple[Segment, ...]) -> Iterator[str]:
    """Yield a sentence on each name of a segment that means something else too.

    Such a name is also another segment's, or stands where nothing is missing in the prompt that was sent.
    """
    kept = _clues(full_prompt, sent_prompt, segments, ())[1] if sent_prompt != full_prompt else ()
    for segment in segments:
        others = {name.casefold() for each in segments if each is not segment for name in each.synonyms}
        for name in segment.synonyms:
            said = whole(name.casefold())
            place = next((repr(each) for each in kept if said.search(each.casefold())), None)
            if where := "another segment's names" if name.casefold() in others else place:
                yield f"the name {name!r} of {segment.segment_id} is in {where} too; reword it"


def weighed(weights: Mapping[str, float], found: Mapping[str, Any]) -> Any:
    """Return the log odds that evidence gives."""
    return sum(weights[name] * values for name, values in found.items()) + weights["bias"]


def features(
    message: str,
    parts: Sequence[Part],
    by_rules: Sequence[frozenset[str]],
    knowledge: UserKnowledge,
    encoder: Encoder | None,
) -> dict[str, Any]:
    """Return the evidence for each part and segment, by name. Every weight belongs to one of these names."""
    clues, kept = _clues(knowledge.full_prompt, knowledge.sent_prompt, knowledge.removed, knowledge.expected)
    for_all = np.ones(len(clues))
    found = {
        "rules": np.array([[clue.segment_id in named for clue in clues] for named in by_rules], dtype=float),
        **{kind: np.outer([part.kind == kind for part in parts], for_all) for kind in ("joined", "piece", "whole")},
        "asking": np.outer([asks(part.text) for part in parts], for_all),
        "crowd": np.full((len(parts), len(clues)), min(len(parts), _MOST_PARTS) / _MOST_PARTS),
        **_fitting(parts, clues, knowledge.sent_prompt),
    }
    meaning: dict[str, Similarity] = {} if encoder is None else {"meaning": encoder.similarity}
    for kind, similarity in {"word": _word_similarity, **meaning}.items():
        compared = _compared(message, parts, clues, kept, similarity)
        found.update({f"{kind}_{name}": value for name, value in compared.items()})
    return found


def _fitting(parts: Sequence[Part], clues: Sequence[_Clue], prompt: str) -> dict[str, Any]:
    """Return whether parts ask for the kind of thing that a segment is, and whose words they are in."""
    there, rows = _content_words(prompt), []
    for part in parts:
        said = _content_words(part.text)
        for clue in clues:
            own = frozenset[str]().union(*map(_content_words, (*clue.questions, *clue.names, *clue.placeholder)))
            shares = (len(words) / max(len(said), 1) for words in (said & own, (said & own) - there, said & there))
            rows.append((*_kind_shared(part.text, clue.questions), *shares, min(len(said - own - there), 4) / 4))
    names = ("kind", "other_kind", "said_own", "said_only_own", "said_there", "said_nowhere")
    return dict(zip(names, np.array(rows).T.reshape(-1, len(parts), len(clues)), strict=True))


def _kind_shared(text: str, questions: Sequence[str]) -> tuple[float, bool]:
    """Return how many of a segment's questions ask for a kind of thing as a text does (when, who …), and if none do."""
    kinds = _kinds(text) if questions else frozenset[str]()
    share = max((sum(kind in _kinds(each) for each in questions) / len(questions) for kind in kinds), default=0.0)
    return share, bool(kinds) and not share


@lru_cache(maxsize=4096)
def _kinds(text: str) -> frozenset[str]:
    return frozenset(kind for kind in evidence_data()["kinds"] if _pattern(kind, "kinds").search(text))


def _compared(
    message: str, parts: Sequence[Part], clues: Sequence[_Clue], kept: Sequence[str], similarity: Similarity
) -> dict[str, Any]:
    texts = [part.text for part in parts]
    for_one = np.array([[not part.is_for_several] for part in parts], dtype=float)

    def nearest(others: Sequence[str], count: int = 1) -> Any:
        """Return how near each text is to the nearest of some others, on average over so many of these (0: all)."""
        return np.sort(similarity(texts, others), axis=1)[:, -count:].mean(axis=1) if others else np.zeros(len(texts))

    def by_clue(*fields: str, count: int = 1) -> Any:
        said = [[text for field in fields for text in getattr(clue, field)] for clue in clues]
        return np.stack([nearest(each, count) for each in said], axis=1)

    def others(values: Any) -> Any:
        nearest_other = [np.delete(values, at, axis=1).max(axis=1, initial=0) for at in range(len(clues))]
        return for_one * np.stack(nearest_other, axis=1)

    def same(others: Sequence[str], count: int = 1) -> Any:
        return np.repeat(nearest(others, count)[:, None], len(clues), axis=1)

    hostile, general = evidence_data()["hostile_messages"], evidence_data()["general_questions"]
    own = {field: by_clue(field) for field in ("questions", "names", "clause", "placeholder")}
    on_average = by_clue("questions", "names", count=0)
    against = {
        "others": others(np.maximum(own["questions"], own["names"])),
        "other_places": others(np.maximum(own["clause"], own["placeholder"])),
        "kept": same(kept),
        "general": same(general),
    }
    for_it, against_it = np.maximum.reduce([*own.values()]), np.maximum.reduce([*against.values(), same(hostile)])
    nearest_hostile = np.sort(similarity([*sentences(message)[:_MOST_PARTS], message], hostile), axis=1)
    return {
        **own,
        **against,
        "three": by_clue("questions", "names", count=3),
        "average": on_average,
        "average_lead": on_average - others(on_average),
        "general_average": same(general, 0),
        "own": for_it,
        "hostile": np.full(for_it.shape, nearest_hostile[:, -1].max()),
        "hostiles": np.full(for_it.shape, nearest_hostile[:, -5:].mean(axis=1).max()),
        "lead": np.minimum(for_it - against_it, 0),
    }


@lru_cache(maxsize=64)
def _clues(
    full_prompt: str, sent_prompt: str, removed: tuple[Segment, ...], expected: tuple[Any, ...]
) -> tuple[tuple[_Clue, ...], tuple[str, ...]]:
    """Return what is said about each segment, and the clauses of the prompt in which nothing is missing."""
    changes = _changes(full_prompt, sent_prompt)
    clauses = _clause_spans(sent_prompt)
    places = {segment.segment_id: _place(segment, full_prompt, changes) for segment in removed}
    clues = []
    for segment in removed:
        place = places[segment.segment_id]
        around = sorted((b - a, a, b) for a, b in clauses if place and a <= place[1] and b >= place[0])[:1]
        clues.append(
            _Clue(
                segment_id=segment.segment_id,
                questions=tuple(
                    q for each in expected if each.segment_id == segment.segment_id for q in each.questions
                ),
                names=(
                    *segment.synonyms,
                    *filter(None, (segment.text, segment.value, segment.decoy)),
                    segment.subdimension.replace("_", " "),
                ),
                clause=tuple(sent_prompt[a:b] for _, a, b in around),
                placeholder=tuple(filter(str.strip, [sent_prompt[slice(*place)]] if place else [])),
            )
        )
    missing = [place for place in places.values() if place]
    kept = tuple(sent_prompt[a:b] for a, b in clauses if not any(a < end and b > start for start, end in missing))
    return tuple(clues), kept


@lru_cache(maxsize=64)
def _changes(full_prompt: str, sent_prompt: str) -> list[tuple[int, int, int, int]]:
    """Return where the two prompts differ: from and to in the full one, from and to in the one that was sent."""
    if not full_prompt or full_prompt == sent_prompt:
        return []
    was, now = _TOKEN.findall(full_prompt), _TOKEN.findall(sent_prompt)
    was_at, now_at = (np.cumsum([0, *map(len, tokens)]).tolist() for tokens in (was, now))
    merged: list[list[int]] = []
    for kind, a, b, c, d in SequenceMatcher(None, was, now, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        if merged and a - merged[-1][1] <= 3:
            merged[-1][1], merged[-1][3] = b, d
        else:
            merged.append([a, b, c, d])
    return [(was_at[a], was_at[b], now_at[c], now_at[d]) for a, b, c, d in merged]


def _place(segment: Segment, full_prompt: str, changes: Sequence[tuple[int, int, int, int]]) -> tuple[int, int] | None:
    """Return from where to where the prompt that was sent has something else in the segment's place."""
    for said in filter(None, (segment.text, segment.value)):
        for found in whole(said).finditer(full_prompt):
            touched = [(c, d) for a, b, c, d in changes if a < found.end() and b > found.start()]
            if touched:
                return touched[0][0], touched[-1][1]
    return None


def _clause_spans(text: str) -> list[tuple[int, int]]:
    """Return from where to where each sentence goes, and each of its clauses that is more than a word or two."""
    found = list[tuple[int, int]]()
    for start, end in _pieces(text, 0, len(text), SENTENCE_END):
        found.append((start, end))
        clauses = [each for each in _pieces(text, start, end, _CLAUSE_END) if each[1] - each[0] > 12]
        found.extend(clauses if len(clauses) > 1 else ())
    return found


def _pieces(text: str, start: int, end: int, divider: re.Pattern[str]) -> list[tuple[int, int]]:
    cuts = [start, *(at for match in divider.finditer(text, start, end) for at in match.span()), end]
    return [(a, b) for a, b in zip(cuts[::2], cuts[1::2], strict=True) if text[a:b].strip()]


def _word_similarity(texts: Sequence[str], others: Sequence[str]) -> Any:
    """Return the cosine of the texts' words, beginnings and inner parts of words, in any script."""
    rows, columns = [_word_vector(each) for each in texts], [_word_vector(each) for each in others]
    products = [[sum(weight * b.get(key, 0.0) for key, weight in a.items()) for b in columns] for a in rows]
    return np.round(np.array(products), 4)


@lru_cache(maxsize=4096)
def _word_vector(text: str) -> dict[str, float]:
    known, vector = lexicon(), dict[str, float]()
    for word in _WORD.findall(text.lower()):
        root = stem(word)
        if _HAN.search(word):
            vector.update({f"han {word[at : at + 2]}": 1.0 for at in range(len(word) - 1)})
        elif word in evidence_data()["question_words"]:
            vector[f"asks {word}"] = 0.5
        elif word in known.stop_terms:
            vector[root] = 0.12
        else:
            vector[root] = 1.0
            vector.update({f"in {f'#{root}#'[at : at + 4]}": 0.35 for at in range(len(root) - 1)})
    length = sum(weight * weight for weight in vector.values()) ** 0.5 or 1.0
    return {key: weight / length for key, weight in vector.items()}
