"""Checks the expected questions of a removal: they exist, keep the value, and the ``exact`` user answers them."""

from collections.abc import Iterator

from lhaw_record.generators.gate.facts import added, facts_of
from lhaw_record.generators.gate.recoverability import has_words
from lhaw_record.generators.prompts.occurrences import Prompt
from lhaw_record.generators.protocol import Removal, Rewriting
from lhaw_record.runners.users.simulated_user.answers import asked_segments
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

_EXACT = ("number", "month", "colour")


def question_faults(before: Prompt, rewriting: Rewriting, removal: Removal) -> Iterator[tuple[str, str]]:
    """Yield a finding for each segment without a question, and each question that tells a value or gets no answer."""
    asked = {each.segment_id: each.questions for each in rewriting.expected_questions}
    for segment in removal.segments:
        if not any(question.strip() for question in asked.get(segment.segment_id, ())):
            yield "questions_exist", f"segment {segment.segment_id} has no expected question; write one"
    known = {segment.segment_id for segment in removal.segments}
    knowledge = UserKnowledge(
        full_prompt=before.text,
        sent_prompt=rewriting.prompt,
        removed=removal.segments,
        expected=rewriting.expected_questions,
    )
    for segment_id, questions in asked.items():
        if segment_id not in known:
            yield "questions_exist", f"there are questions for {segment_id!r}, which is not removed; leave them out"
            continue
        for question in questions:
            yield from _told(before, rewriting.prompt, question, segment_id, removal)
            if question.strip() and segment_id not in asked_segments(question, "", knowledge):
                yield "questions_are_answered", f"no user would answer {question!r} with {segment_id}; ask for it"


def _told(
    before: Prompt, rewritten: str, question: str, segment_id: str, removal: Removal
) -> Iterator[tuple[str, str]]:
    new, asked = added(rewritten, question), facts_of("x " + question)
    said = Prompt(question)
    for segment in removal.segments:
        concrete = [each for each in facts_of("x " + segment.value) if each.is_hard and each.kind != "code"]
        is_number = segment.segment_id == segment_id and any(
            each.kind in ("number", "month", "colour") for each in concrete
        )
        tells = any(each.is_hard and any(each.key == one.key for one in concrete) for each in new) or any(
            (each.kind, each.key) == (one.kind, one.key)
            for each in asked
            for one in concrete
            if one.kind in ("number", "colour")
        )
        is_said = said.occurrences(segment, before) or (
            has_words(segment.value, question) and not has_words(segment.value, rewritten)
        )
        if tells or is_said or (is_number and any(each.kind in _EXACT for each in new)):
            yield (
                "questions_keep_the_secret",
                f"the question {question!r} tells the value of {segment.segment_id}; ask without it",
            )
            return
