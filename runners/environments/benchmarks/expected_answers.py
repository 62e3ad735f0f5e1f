"""Check a variant's expected questions: the simulated user must answer each one with a well-formed answer."""

import re
from collections.abc import Iterator

import msgspec

from lhaw_record.recorder.events.values import Segment, Task, Variant
from lhaw_record.runners.users.simulated_user.evidence import names_elsewhere
from lhaw_record.runners.users.simulated_user.matcher import asked_segments, matching_segments, words_of_segment
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

_DANGLING_END = re.compile(r"[,;:(\[{-]$|\b(?:a|an|and|as|at|by|for|from|in|of|on|or|than|that|the|to|with)$")
_DANGLING_START = re.compile(r"^(?:[,;:.!?)\]}]|(?:and|or|but|than)\b)")
_PAIRS = (("(", ")"), ("[", "]"), ("{", "}"), ("\u201c", "\u201d"))
_QUOTES = ('"', "`")


def answer_remarks(variant: Variant, full_prompt: str) -> Iterator[str]:
    """Yield each name that means something else too, and what :func:`question_remarks` yields."""
    for remark in names_elsewhere(full_prompt, variant.prompt, variant.segments):
        yield f"{variant.variant_id}: {remark} (docs/matcher.md)"
    yield from question_remarks(variant)


def question_remarks(variant: Variant) -> Iterator[str]:
    """Yield the first expected question of each segment if the rules find none of its questions in other words, with
    the synonym that mends it.
    """
    segments = {segment.segment_id: segment for segment in variant.segments}
    for expected in variant.expected_questions:
        segment = segments.get(expected.segment_id)
        if segment and not any(
            segment.segment_id in matching_segments(question, "", variant.segments) for question in expected.questions
        ):
            for question in expected.questions[:1]:
                name = f"{variant.variant_id}: expected question {question!r} of segment {segment.segment_id}"
                yield f"{name} would not be recognised reworded: {_unseen(question, segment)} (docs/matcher.md)"


def answer_problems(variant: Variant, task: Task) -> Iterator[str]:
    """Yield the problems with a variant's expected questions and with the values that answer them."""
    segments = {segment.segment_id: segment for segment in variant.segments}
    for segment in variant.segments:
        yield from (f"segment {segment.segment_id} {each}" for each in _unclean(segment, task.prompt))
    for expected in variant.expected_questions:
        if expected.segment_id not in segments:
            yield f"it has expected questions for {expected.segment_id}, which is not one of its segments"
            continue
        for question in expected.questions:
            yield from _unanswered(question, segments[expected.segment_id], variant)


def _unanswered(question: str, segment: Segment, variant: Variant) -> Iterator[str]:
    """Ask an expected question as an agent would, and yield what goes wrong."""
    knowledge = UserKnowledge(
        full_prompt="", sent_prompt=variant.prompt, removed=variant.segments, expected=variant.expected_questions
    )
    asked = asked_segments(question, "", knowledge)
    listed = {each.segment_id for each in variant.expected_questions if question in each.questions}
    name = f"expected question {question!r} of segment {segment.segment_id}"
    if segment.segment_id not in asked:
        yield f"{name} is not answered; write it as one question, without others around it"
    for other in sorted(set(asked) - listed):
        yield f"{name} is answered with segment {other} too; word it so that it does not ask for {other}"


def _unseen(question: str, segment: Segment) -> str:
    """Return which words of a question the matcher misses, and what to change so that it finds the question."""
    found = words_of_segment(question, segment)
    known = ", ".join(word for word, is_known in found.items() if is_known) or "none"
    missed = [word for word, is_known in found.items() if not is_known]
    if not missed:
        return f"the matcher recognises its words {known}, but not that it asks for such a value; reword the question"
    for synonym in (*missed, " ".join(missed)):
        told = msgspec.structs.replace(segment, synonyms=(*segment.synonyms, synonym))
        if matching_segments(question, "", [told]):
            remedy = f"add {synonym!r} to the segment's synonyms"
            break
    else:
        remedy = "reword the question, or add words of it to the segment's synonyms or text"
    return f"the matcher recognises its words {known}, but not {', '.join(missed)}; {remedy}"


def _unclean(segment: Segment, prompt: str) -> Iterator[str]:
    """Yield why a value would not make a well-formed answer, judged by its form alone."""
    value = segment.value
    if value != value.strip():
        yield f"begins or ends with a space: {value!r}"
    if _DANGLING_START.search(value) or _DANGLING_END.search(value):
        yield f"begins or ends in the middle of a phrase: {value!r}"
    if any(value.count(mark) % 2 for mark in _QUOTES) or any(value.count(a) != value.count(b) for a, b in _PAIRS):
        yield f"has half of a pair of quotes or brackets: {value!r}"
    if value.strip() and value in prompt and not _stands_whole(value, prompt):
        yield f"is cut out of the middle of a word: {value!r}"


def _stands_whole(value: str, prompt: str) -> bool:
    """Return whether the value occurs in the prompt between word boundaries. A file name counts as one word."""
    before = r"(?<!\w)(?<!\w[./@-])" if value[0].isalnum() else ""
    after = r"(?!\w)(?![./@-]\w)" if value[-1].isalnum() else ""
    return re.search(before + re.escape(value) + after, prompt) is not None
