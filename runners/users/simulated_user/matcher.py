"""Decides which removed segments a question is about, without a language model: :func:`asked_segments`.

The author of a variant lists which questions ask for which segment. A question that equals one of them, apart from
politeness and articles, needs no guessing. All others are weighed in ``evidence.py``, where this module's rules are one
voice; they decide alone where the prompts do not show the place of a segment. docs/matcher.md has the accuracy.
"""

import re
from collections.abc import Sequence
from itertools import takewhile

import msgspec

from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.base.text.normalization import whole
from lhaw_record.runners.users.simulated_user.encoder import Encoder
from lhaw_record.runners.users.simulated_user.evidence import (
    Part,
    asks,
    is_request,
    near_segments,
    possible_questions,
    without_quotations,
)
from lhaw_record.runners.users.simulated_user.lexicon import (
    Clause,
    Lexicon,
    asking_clauses,
    lexicon,
    sentences,
    stem,
    terms,
    widen,
    words,
)
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge
from lhaw_record.runners.users.simulated_user.readings import is_for_everything

_VERSION = 4
"""The version of the rules, the weights and what is weighed; raised when any question may be read in another way."""


_FEWEST_WORDS = 3
_POLITE = re.compile(
    r"^(?:(?:and|so|also|ok|okay|hi|hello|thanks|sorry|just|please|kindly|quick question|one question)\b[\s,:-]*"
    r"|(?:could|can|would|will) you (?:please |kindly )?(?:tell me|clarify|confirm|specify|let me know|say)\b[\s,:-]*"
    r"|(?:please )?(?:tell me|clarify|let me know)\b[\s,:-]*"
    r"|i (?:need|want|would like) to know\b[\s,:-]*)+"
)
_UNSAID = frozenset({"a", "an", "the", "please", "exactly"})
_HEAD = re.compile(
    r"\b(?:which|what|whose)(?:'s| is| are)?\s+(?:of\s+)?(?:the\s+)?(?P<phrase>(?:[\w#@./'-]+\s*){1,4})"
    r"|\bis there (?:an?|one|any)\s+(?P<existing>(?:[\w-]+\s*){1,4})"
)
_HOW_MANY = re.compile(r"\b(?:how many|number of)\s+(?P<noun>[\w-]+)")
_COUNTED = re.compile(
    r"(?:\d|\b(?:one|two|three|four|five|six|seven|eight|nine|ten|dozen|hundred|thousand)\b)"
    r"\s*((?!per\b)[a-z]+(?: (?!per\b)[a-z]+)?)"
)
_OPEN_CHOICE = re.compile(r"\b(?:should|do|must|shall) (?:i|we) (?P<verb>\w+)\b.*\bor (?:some|any|another)")
_LEAD = re.compile(r"^(?:(?:and|so|then|to|for|from|at|by|in|on) )?(?P<word>\w+)")
_YES_OR_NO = re.compile(r"^(?:should|do|does|must|is|are|shall|may|can)\b")
_WISH = re.compile(r"\b(?:do you (?:want|need|prefer)|would you like|should (?:i|we) (?:also )?(?:add|include))\b")
_MY_ACTION = re.compile(r"\b(?:who|whom|what|where|which)\b.*\b(?:should|do|must|shall|can|may) (?:i|we) (?P<verb>\w+)")
_DEONTIC = re.compile(
    r"\b(?:should|must|may|shall|do (?:i|you|we)|need|want|like|prefer|expect|supposed|desired|required|to be)\b"
)
_LONGEST_NAME_WORDS = 4
_PRONOUNS = frozenset({"one", "ones"})
_PART = re.compile(r"[a-z]+|\d+")


class _Profile(msgspec.Struct, frozen=True, kw_only=True):
    """The terms and patterns by which the matcher recognises a segment."""

    answers: frozenset[str]
    topic: frozenset[str]
    value_terms: frozenset[str]
    counted_terms: frozenset[str]
    frame_terms: frozenset[str]
    synonyms: tuple[frozenset[str], ...]
    shapes: tuple[re.Pattern[str], ...]
    is_goal: bool
    nouns: frozenset[str]
    role: str | None


def judge_of(encoder: Encoder | None) -> str:
    """Return the name under which events say who decided what a question asks for, and in which languages it can."""
    return f"rules/{_VERSION}[en]" if encoder is None else f"encoder/{_VERSION}-{encoder.digest[:12]}[de,en,es,fr,zh]"


def asked_segments(
    question: str, context: str, knowledge: UserKnowledge, encoder: Encoder | None = None
) -> tuple[str, ...]:
    """Return the ids of the removed segments that a question asks for, in the order of ``knowledge.removed``."""
    asked = sentences(question)
    normal = [_normal(sentence) for sentence in asked]
    found: set[str] = set()
    is_known = [False] * len(asked)
    for expected in knowledge.expected:
        for wanted in expected.questions:
            for found_at in _positions(tuple(_normal(sentence) for sentence in sentences(wanted)), normal):
                found.add(expected.segment_id)
                is_known[found_at] = [True] * (found_at.stop - found_at.start)
    rest = [each for each, known in zip(asked, is_known, strict=True) if not known and (not found or asks(each))]
    if rest:
        around = " ".join((context, *(sentence for sentence, known in zip(asked, is_known, strict=True) if known)))
        message, parts, by_rules = parts_of(" ".join(rest) if found else question, around, knowledge)
        found.update(near_segments(message, parts, by_rules, knowledge, encoder))
    found |= knowledge.offered
    return tuple(segment.segment_id for segment in knowledge.removed if segment.segment_id in found)


def parts_of(question: str, context: str, knowledge: UserKnowledge) -> tuple[str, list[Part], list[frozenset[str]]]:
    """Return what of a question is the agent's own, what that may ask for, and the segments that it asks for by rules.

    A question for everything at once or about the user's own instructions, and a message that is no request, ask for
    nothing.
    """
    own = without_quotations(question, knowledge.sent_prompt)
    if is_for_everything(own) or not is_request(own):
        return own, [], []
    parts = possible_questions(own, context)
    around = f"{context}\n{own}"
    return own, parts, [frozenset(matching_segments(f"{each.text}?", around, knowledge.removed)) for each in parts]


def _positions(wanted: tuple[tuple[str, ...], ...], asked: list[tuple[str, ...]]) -> list[slice]:
    """Return where an expected question's sentences occur consecutively.

    An expected question of fewer than three words only matches if it is all that was asked.
    """
    length = len(wanted)
    if sum(map(len, wanted)) < _FEWEST_WORDS and length != len(asked):
        return []
    return [slice(at, at + length) for at in range(len(asked) - length + 1) if tuple(asked[at : at + length]) == wanted]


def _normal(sentence: str) -> tuple[str, ...]:
    """Return the words of a sentence without case, punctuation, articles and polite phrases.

    A script whose words the rules do not know gives the whole sentence, so that it equals only itself.
    """
    found = tuple(word for word in words(_POLITE.sub("", sentence.lower())) if word not in _UNSAID)
    return found or (sentence.lower().strip(" ?!.\uff1f\u3002"),)


def matching_segments(question: str, context: str, segments: Sequence[Segment]) -> tuple[str, ...]:
    """Return the ids of the segments that the question asks for, in the order of ``segments``.

    Each segment is decided independently, so the result for one never depends on the others. A question is about a
    segment if one of its asking clauses wants the kind of thing that the segment's value is (a file name, a date, a
    limit …) and mentions nothing unrelated to the segment, up to a small tolerance. Questions that ask for permission,
    for general knowledge, about the past or for "anything else" are about no segment.
    """
    clauses = [clause for clause in asking_clauses(question, context) if not _is_dismissed(clause.text)]
    return tuple(segment.segment_id for segment in segments if _is_asked_for(segment, clauses))


def words_of_segment(question: str, segment: Segment) -> dict[str, bool]:
    """Map each content word of a question's asking clauses to whether it is one of the segment's topic words."""
    topic, known = _profile(segment).topic, lexicon()
    spoken = [word for clause in asking_clauses(question, "") for word in words(clause.text)]
    return {
        word: stem(word) in topic
        for word in spoken
        if word not in known.stop_terms and stem(word) not in known.neutral_terms
    }


def _is_asked_for(segment: Segment, clauses: Sequence[Clause]) -> bool:
    """Return whether a clause asks for the segment, either by its value or by the decoy that the agent saw."""
    profiles = [_profile(segment), *([_profile(_as_shown(segment))] if segment.decoy else ())]
    return any(_is_about(clause, profile) for profile in profiles for clause in clauses)


def _as_shown(segment: Segment) -> Segment:
    decoy = segment.decoy or segment.value
    text = whole(segment.value).sub(lambda _: decoy, segment.text) if segment.text else None
    return msgspec.structs.replace(segment, value=decoy, text=text)


def _is_dismissed(text: str) -> bool:
    return any(pattern.search(text) for pattern in lexicon().dismissed)


def _is_past(text: str) -> bool:
    return any(pattern.search(text) for pattern in lexicon().past)


def _profile(segment: Segment) -> _Profile:
    known = lexicon()
    text = segment.text or segment.value
    answers = set(known.answers.get(segment.subdimension.lower(), known.answers["default"]))
    nouns: set[str] = set()
    shapes: list[re.Pattern[str]] = []
    for shape in known.shapes:
        if shape.pattern.search(segment.value) and (shape.text_pattern is None or shape.text_pattern.search(text)):
            answers |= set(shape.answers)
            nouns |= shape.nouns
            if shape.pattern.pattern.startswith("^"):
                shapes.append(shape.pattern)
    phrase = " ".join((text, segment.value, *segment.synonyms)).lower()
    own_topic = terms(phrase) | terms(" ".join(_PART.findall(phrase)))
    return _Profile(
        answers=frozenset(answers),
        topic=widen(own_topic | nouns),
        value_terms=terms(segment.value),
        counted_terms=widen(terms(" ".join(_COUNTED.findall(segment.value.lower())))),
        frame_terms=widen(terms(whole(segment.value).sub(" ", text) if segment.value else text)),
        synonyms=tuple(terms(synonym) for synonym in segment.synonyms),
        shapes=tuple(shapes),
        is_goal=segment.dimension == "goal",
        nouns=widen(frozenset(nouns)) | _nouns_beside_value(text, segment.value),
        role=_role(text.lower(), known) or ("input" if segment.dimension == "input" else None),
    )


def _nouns_beside_value(text: str, value: str) -> frozenset[str]:
    """Return the stems of the value's words and of the preceding word: "table orders_2023" makes the value a table."""
    found = whole(value).search(text) if value else None
    beside = words(text[: found.start()])[-1:] if found else []
    own = words(value)
    if len(own) > _LONGEST_NAME_WORDS:
        own = []
    return widen(frozenset(stem(word) for word in beside + own if word not in lexicon().stop_terms))


def _role(text: str, known: Lexicon) -> str | None:
    roles = [role for role, patterns in known.roles.items() if any(pattern.search(text) for pattern in patterns)]
    return roles[0] if len(roles) == 1 else None


def _is_about(clause: Clause, profile: _Profile) -> bool:
    role = _role(clause.text, lexicon())
    if role and profile.role and role != profile.role:
        return False
    asked = frozenset(
        term
        for term in terms(clause.text) - lexicon().neutral_terms
        if not any(shape.search(term) for shape in profile.shapes)
    )
    if _names_synonym(clause, profile):
        return True
    if _is_past(clause.text) and not (asked and asked <= profile.topic):
        return False
    return (
        _proposes_value(clause, asked, profile)
        or _names_action(clause, asked, profile)
        or _wants_value(clause, asked, profile)
        or ("entity" in profile.answers and _wants_entity(clause, asked, profile))
    )


def _names_synonym(clause: Clause, profile: _Profile) -> bool:
    """Return whether the clause asks for the segment by a synonym. A one-word synonym must itself be asked for."""
    if _lead(clause.text) in lexicon().leads:
        return False
    asked_for = frozenset(stem for head in _heads(clause.text) for stem in head)
    everything = terms(clause.text)
    for synonym in profile.synonyms:
        said = everything if len(synonym) > 1 else asked_for
        if synonym and all(widen(frozenset({term})) & said for term in synonym):
            return True
    return False


def _lead(text: str) -> str:
    match = _LEAD.search(text)
    return match.group("word") if match else ""


def _proposes_value(clause: Clause, asked: frozenset[str], profile: _Profile) -> bool:
    """Return whether the clause proposes the value, or much of a long one ("Saved as report.xlsx, right?")."""
    foreign = len(asked - profile.topic)
    if profile.value_terms and profile.value_terms <= terms(clause.text):
        return foreign <= 1
    offered = len(asked & profile.value_terms)
    is_wish = " or " in clause.text or _WISH.search(clause.text)
    return bool(_YES_OR_NO.search(clause.text)) and offered >= (1 if is_wish else 2) and 2 * foreign <= offered


def _names_action(clause: Clause, asked: frozenset[str], profile: _Profile) -> bool:
    """Return whether the clause asks for the object of the segment's own verb ("Who should I invite?").

    In an open choice ("Should I invite Ada, Bo or somebody else?") the proposed names do not count as unrelated words.
    """
    choice = _OPEN_CHOICE.search(clause.text)
    if choice and stem(choice.group("verb")) in profile.frame_terms:
        return True
    action = _MY_ACTION.search(clause.text)
    return action is not None and stem(action.group("verb")) in profile.frame_terms and asked <= profile.topic


def _wants_value(clause: Clause, asked: frozenset[str], profile: _Profile) -> bool:
    """Return whether the clause asks, on the segment's own topic, for the kind of thing that the value is."""
    counted = _HOW_MANY.search(clause.text)
    if counted and stem(counted.group("noun")) in profile.counted_terms:
        return True
    possible = lexicon().leads.get(_lead(clause.text), profile.answers)
    return any(_fits(name, clause, asked, profile) for name in _focuses(clause) & profile.answers & possible)


def _fits(name: str, clause: Clause, asked: frozenset[str], profile: _Profile) -> bool:
    focus = lexicon().focuses[name]
    heads = _heads(clause.text)
    own_nouns = focus.vocabulary | profile.nouns
    if heads and not any(own_nouns.intersection(head) or _is_own_topic(name, head, profile) for head in heads):
        return False
    topical = asked - focus.vocabulary
    shared = len(topical & profile.topic) + _shared_with_background(clause, profile)
    foreign = len(topical - profile.topic)
    if focus.needs_topic and not shared:
        return False
    if foreign and profile.is_goal and not _DEONTIC.search(clause.text):
        return False
    return foreign <= max(shared, focus.tolerated)


def _is_own_topic(name: str, head: list[str], profile: _Profile) -> bool:
    """Return whether "which X" or "what is X" asks to narrow down or define the segment's own topic."""
    return name in ("selection", "meaning") and profile.topic.issuperset(head)


def _shared_with_background(clause: Clause, profile: _Profile) -> int:
    return len(terms(clause.background) & profile.topic) if clause.is_pointing else 0


def _focuses(clause: Clause) -> frozenset[str]:
    """Return what the clause asks for; specific cues hide general ones (a date format is not a date)."""
    known = lexicon()
    found = {name for name, focus in known.focuses.items() if any(cue.search(clause.text) for cue in focus.cues)}
    hidden = {name for each in found for name in known.focuses[each].hides}
    return frozenset(found - hidden)


def _wants_entity(clause: Clause, asked: frozenset[str], profile: _Profile) -> bool:
    """Return whether the clause asks "which X" and the value is an X.

    If X is a noun for the value itself, the clause may contain one unrelated word. If X is another noun from the
    segment, it may contain none: "which records are duplicates" does not ask where the records come from.
    """
    foreign = len(asked - profile.topic)
    explained = profile.topic | profile.nouns
    for head in _heads(clause.text):
        shared = len((asked & profile.topic).difference(head)) + _shared_with_background(clause, profile)
        if head[-1] in _PRONOUNS:
            return bool(shared) and foreign <= (1 if _DEONTIC.search(clause.text) else 0)
        is_explained = explained.issuperset(head) or (head[-1] in profile.nouns and _DEONTIC.search(clause.text))
        if is_explained and foreign <= (max(shared, 1) if head[-1] in profile.nouns else 0):
            return True
    return False


def _heads(text: str) -> list[list[str]]:
    """Return the stems of each noun phrase that follows "which", "what", "whose" or "is there a"."""
    known = lexicon()
    phrases = (words(match.group("phrase") or match.group("existing")) for match in _HEAD.finditer(text))
    heads = (
        [
            stem(word)
            for word in takewhile(lambda word: word not in known.phrase_ends, each)
            if word not in known.fillers
        ]
        for each in phrases
    )
    return [head for head in heads if head]
