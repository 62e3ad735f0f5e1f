"""``problems_of``: everything that the rules find against a rewriting. What they cannot judge is never passed."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from lhaw_record.generators.gate.facts import added, facts_of
from lhaw_record.generators.gate.natural import faults
from lhaw_record.generators.gate.recoverability import additions, has_words, told_by_files, values_left
from lhaw_record.generators.gate.single_change import collateral, put_in_place, without_trace
from lhaw_record.generators.prompts.diff import hunks
from lhaw_record.generators.prompts.occurrences import SearchablePrompt, remaining
from lhaw_record.generators.protocol import Removal, Rewriting
from lhaw_record.recorder.events import FailedCheck
from lhaw_record.recorder.events.values import Segment, Severity, Variant
from lhaw_record.runners.base.text.language import ENGLISH, language_of
from lhaw_record.runners.base.text.normalization import normalize, whole
from lhaw_record.runners.users.simulated_user.evidence import names_elsewhere
from lhaw_record.runners.users.simulated_user.matcher import asked_segments
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

_EXACT = ("number", "month", "colour")
_NOUNS_WITH_CAPITALS = "de"


class Scene(msgspec.Struct, frozen=True, kw_only=True):
    """The context of a rewriting.

    Attributes:
        segments: All segments of the task.
        files: The texts of the environment's files, by path.
        extents: The passages that a person declared to belong to the removed segments; what they say goes with them.
        siblings: The prompts of the same removal under other severities.
    """

    segments: tuple[Segment, ...] = ()
    files: Mapping[str, str] = {}
    extents: tuple[str, ...] = ()
    siblings: Mapping[Severity, str] = {}


def problems_of(
    original: str, rewriting: Rewriting, removal: Removal, scene: Scene | None = None
) -> tuple[FailedCheck, ...]:
    """Return every finding against a rewriting. If there are none, it may become a variant.

    The messages tell the rewriter what to correct. docs/generating.md lists what is looked for.
    """
    scene = scene or Scene()
    if rewriting.prompt == original:
        return (FailedCheck(check="is_changed", message="the prompt is the same as before; remove the segments"),)
    if not rewriting.prompt.strip():
        return (FailedCheck(check="is_still_a_task", message="the prompt is empty"),)
    if removal.severity == "decoy":
        return _checks(decoy_faults(SearchablePrompt(original), SearchablePrompt(rewriting.prompt), removal))
    found = [
        ("severities_differ", f"{severity} gives the same prompt; write a different one")
        for severity, prompt in scene.siblings.items()
        if severity != removal.severity and prompt == rewriting.prompt
    ]
    found += [
        ("files_keep_the_secret", f"{told}, which tells {segment.segment_id}; remove another segment")
        for segment in removal.segments
        if (told := told_by_files(segment, original, scene.files))
    ]
    language = language_of(original)
    if language == _NOUNS_WITH_CAPITALS:
        original, rewriting, removal, scene = _lower(original, rewriting, removal, scene)
    before, after = SearchablePrompt(original), SearchablePrompt(rewriting.prompt)
    is_free = bool(scene.extents) or language != ENGLISH  # a person wrote the sentence anew, or words bend otherwise
    found += [
        *values_left(before, after, removal),
        *additions(before, after),
        *collateral(before, after, removal, scene.segments, scene.extents),
        *without_trace(before, after, removal),
        *(() if is_free else put_in_place(before, after, removal)),
        *faults(original, rewriting.prompt),
        *question_faults(before, rewriting, removal),
    ]
    return _checks(found)


def _lower(
    original: str, rewriting: Rewriting, removal: Removal, scene: Scene
) -> tuple[str, Rewriting, Removal, Scene]:
    """Return all texts in lower case, because other languages write nouns like names."""

    def low(segments: Sequence[Segment]) -> tuple[Segment, ...]:
        return tuple(
            msgspec.structs.replace(
                each,
                value=each.value.lower(),
                text=each.text and each.text.lower(),
                synonyms=tuple(map(str.lower, each.synonyms)),
            )
            for each in segments
        )

    expected = tuple(
        msgspec.structs.replace(each, questions=tuple(map(str.lower, each.questions)))
        for each in rewriting.expected_questions
    )
    return (
        original.lower(),
        msgspec.structs.replace(rewriting, prompt=rewriting.prompt.lower(), expected_questions=expected),
        msgspec.structs.replace(removal, segments=low(removal.segments)),
        msgspec.structs.replace(scene, segments=low(scene.segments), extents=tuple(map(str.lower, scene.extents))),
    )


def _checks(found: Iterable[tuple[str, str]]) -> tuple[FailedCheck, ...]:
    return tuple(FailedCheck(check=check, message=message) for check, message in dict.fromkeys(found))


def question_faults(before: SearchablePrompt, rewriting: Rewriting, removal: Removal) -> Iterator[tuple[str, str]]:
    """Yield a finding for each segment without a question, and each question that reveals a value or gets no answer."""
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
            answered = asked_segments(question, "", knowledge)
            if question.strip() and answered != (segment_id,):
                told = " and ".join(answered) or "nothing"
                yield "questions_are_answered", f"a user answers {question!r} with {told}; ask for {segment_id} alone"


def _told(
    before: SearchablePrompt, rewritten: str, question: str, segment_id: str, removal: Removal
) -> Iterator[tuple[str, str]]:
    new, asked = added(rewritten, question), facts_of("x " + question)
    said = SearchablePrompt(question)
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


def why_unjudged(found: Sequence[FailedCheck], *, is_written: bool) -> str:
    """Return why findings against a variant say nothing about it; an empty text if they do.

    What a person wrote with the task was judged together with the passages that belong to its segments.
    """
    return "the store does not have the passages that belong to the segments" if found and is_written else ""


def findings_against(variant: Variant, original: str, others: Iterable[Variant]) -> tuple[FailedCheck, ...]:
    """Return what the gate's rules find against a variant. They do not see the environment's files, which no
    store has.
    """
    if variant.fault is not None:
        found = dict.fromkeys(fault_findings(variant, original))
        return tuple(FailedCheck(check=check, message=message) for check, message in found)
    values = [segment.value for segment in variant.segments]
    siblings = {
        other.severity: other.prompt
        for other in others
        if other.task_id == variant.task_id
        and other.severity not in (None, "decoy", variant.severity)
        and [segment.value for segment in other.segments] == values
    }
    rewriting = Rewriting(
        prompt=variant.prompt, expected_questions=variant.expected_questions, failure_mode=variant.failure_mode or ""
    )
    removal = Removal(segments=variant.segments, severity=variant.severity or "delete")
    names = (("names_are_its_own", each) for each in names_elsewhere(original, variant.prompt, variant.segments))
    return problems_of(original, rewriting, removal, Scene(siblings=siblings)) + _checks(names)


def decoy_faults(before: SearchablePrompt, after: SearchablePrompt, removal: Removal) -> Iterator[tuple[str, str]]:
    """Yield a finding for each right value that is left, each decoy that is missing or right, and each other change."""
    yield from _kept_values(before, after, removal.segments)
    yield from _decoys(before, after, removal.segments)
    yield from _other_changes(before, after, removal.segments, may_add=False)


def fault_findings(variant: Variant, original: str) -> Iterator[tuple[str, str]]:
    """Yield a finding for each way in which a request does not have exactly the fault that it is meant to have.

    Conflicting instructions give both values. Otherwise the request does not tell what the user means: a stale or
    unauthorised request says something else instead, and a follow-up only says that something is to change.
    """
    before, after = SearchablePrompt(original), SearchablePrompt(variant.prompt)
    if variant.fault != "conflicting_instructions":
        yield from _kept_values(
            before, SearchablePrompt(f"{variant.prompt}\n\n{variant.follow_up or ''}"), variant.segments
        )
    if variant.fault != "underspecified_follow_up":
        yield from _decoys(before, after, variant.segments)
    for question in (each for expected in variant.expected_questions for each in expected.questions):
        for segment in variant.segments:
            if SearchablePrompt(question).occurrences(segment, before):
                yield "questions_keep_the_secret", f"{question!r} tells {segment.segment_id}"
    yield from _other_changes(before, after, variant.segments, may_add=True)


def _kept_values(
    before: SearchablePrompt, after: SearchablePrompt, segments: Sequence[Segment]
) -> Iterator[tuple[str, str]]:
    for segment_id, texts in remaining(before, after, segments).items():
        yield "value_is_gone", f"{texts[0]!r} of segment {segment_id} is still in the prompt"


def _decoys(
    before: SearchablePrompt, after: SearchablePrompt, segments: Sequence[Segment]
) -> Iterator[tuple[str, str]]:
    for segment in segments:
        name = f"the decoy {segment.decoy!r} of segment {segment.segment_id}"
        if segment.decoy is None or not whole(segment.decoy).search(after.text):
            yield "decoy_is_there", f"{name} is not in the prompt"
        elif normalize(segment.decoy) == normalize(segment.value) or SearchablePrompt(segment.decoy).occurrences(
            segment, before
        ):
            yield "decoy_is_wrong", f"{name} is another notation of the right value"


def _other_changes(
    before: SearchablePrompt, after: SearchablePrompt, segments: Sequence[Segment], *, may_add: bool
) -> Iterator[tuple[str, str]]:
    places = [place for segment in segments for place in before.occurrences(segment)]
    for hunk in hunks(before.text, after.text):
        is_addition = hunk.start == hunk.end and may_add
        if not is_addition and not any(start <= hunk.start and hunk.end <= end for start, end in places):
            yield "nothing_else_changed", f"{before.text[hunk.start : hunk.end][:80]!r} became {hunk.new[:80]!r}"
