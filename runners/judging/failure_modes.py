"""Judge how a trial asked questions: the failure-mode flags that cannot be computed from recorded facts.

Source: LHAW, section 4.4 and appendix J.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    AnyEvent,
    JudgedFlag,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
    QuestionJudged,
)
from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.recorder.events.judging import FlagVerdict
from lhaw_record.recorder.events.values import Segment, Task
from lhaw_record.runners.base.errors import UnusableReply
from lhaw_record.runners.judging.judge_run import LAYOUT, Subject, plain_words
from lhaw_record.runners.judging.stored_trials import StoredTrial, StoredTrials, StreamReader
from lhaw_record.runners.models.llm_jobs.json_replies import json_object
from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate, cut, shortened
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema

_PLACEHOLDERS = ("full_prompt", "sent_prompt", "removed", "questions", "actions", "outcome")
FLAGS: dict[str, tuple[str, str, str]] = {
    "question_quality": ("vague_questions", "compound_questions", "closed_questions"),
    "question_targeting": ("missed_critical_segments", "wrong_dimension_focus", "inferable_information_asked"),
    "information_integration": (
        "ignoring_user_response",
        "incorrect_information_application",
        "partial_information_utilization",
    ),
    "over_clarification": ("redundant_questions", "unnecessary_questions", "excessive_cost"),
    "under_clarification": ("premature_execution", "insufficient_question_depth", "false_confidence"),
    "timing_and_strategy": ("late_clarification", "upfront_question_dump", "inefficient_question_sequence"),
    "response_misinterpretation": (
        "literal_misunderstanding",
        "context_misapplication",
        "implicit_information_missed",
    ),
}
"""Maps each category to its flags, in the order of the source."""
COMPUTED = frozenset(
    {
        "redundant_questions",
        "excessive_cost",
        "insufficient_question_depth",
        "late_clarification",
        "upfront_question_dump",
    }
)
"""The flags that are computed from recorded facts. No judge is asked about them."""
JUDGED: tuple[str, ...] = tuple(flag for flags in FLAGS.values() for flag in flags if flag not in COMPUTED)
"""The flags that a judge decides."""
_WORDS: dict[str, FlagVerdict] = {
    "yes": "yes",
    "no": "no",
    "na": "not_applicable",
    "n/a": "not_applicable",
    "not_applicable": "not_applicable",
}
_PREFIX = "flag_"
FLAGS_FORM = ReplyForm(
    "failure_modes",
    object_schema(
        {
            "flags": object_schema(
                {
                    flag: object_schema(
                        {"verdict": {"type": "string", "enum": ["YES", "NO", "N/A"]}, "reason": {"type": "string"}}
                    )
                    for flag in JUDGED
                }
            )
        }
    ),
)
"""The form of a reply about failure modes."""
_ARGUMENT_CHARACTERS = 1_500
_RESULT_CHARACTERS = 800
_TURN_CHARACTERS = 1_000
_ALL_CHARACTERS = 60_000
_UNKNOWN = "(unknown)"


def read_flags(reply: str) -> tuple[JudgedFlag, ...]:
    """Return the verdict on each judged flag, in the order of ``JUDGED``. Other flags are ignored."""
    said = json_object(reply, "flags")["flags"]
    if not isinstance(said, dict):
        raise UnusableReply('the key "flags" has no object')
    by_name = {str(name).strip().lower().removeprefix(_PREFIX): value for name, value in said.items()}
    missing = [name for name in JUDGED if name not in by_name]
    if missing:
        raise UnusableReply(f"these flags are missing: {', '.join(missing)}")
    return tuple(_flag(name, by_name[name]) for name in JUDGED)


class FailureModes:
    """The judge of questions.

    Args:
        judge: The judge's name in the events, which is its model's name.
        parameters: Generation parameters. Different parameters count as a different judge.
        path: A custom prompt instead of ``data/judges/failure_modes.md``.
    """

    kind = "failure-modes"
    read = staticmethod(read_flags)
    form = FLAGS_FORM

    def __init__(self, judge: str, parameters: Mapping[str, Any], path: Path | None = None) -> None:
        self.template = PromptTemplate(("judges", "failure_modes.md"), path, _PLACEHOLDERS)
        self.prompt_digest = short_digest([self.template.source, dict(parameters), LAYOUT])
        self._judge = judge

    def subjects(self, stored: StoredTrials) -> Sequence[Subject]:
        """Return every valid trial in which the agent asked questions."""
        return [
            Subject(
                trials=(trial,),
                is_judged=(trial.stream_id, self._judge, self.prompt_digest) in stored.judged_questions,
            )
            for trial in stored.trials
            if trial.question_count
        ]

    def question(self, subject: Subject, stored: StoredTrials, reader: StreamReader) -> str:
        trial = subject.last
        task = stored.tasks[trial.started.task_digest]
        variant = stored.variants.get(trial.started.variant_digest or "")
        hidden = None if trial.started.prompt_state == "full" else variant
        events = reader.read(trial.stream_id)
        return self.template.user(
            {
                "full_prompt": task.prompt,
                "sent_prompt": hidden.prompt if hidden else task.prompt,
                "removed": removed_text(hidden.segments if hidden else ()),
                "questions": questions_text(events),
                "actions": actions_text(events),
                "outcome": outcome_text(trial, task),
            }
        )

    def event(self, subject: Subject, verdict: tuple[JudgedFlag, ...]) -> QuestionJudged:
        return QuestionJudged(
            judged_stream_id=subject.last.stream_id,
            judged_trial_id=subject.last.trial_id,
            judge=self._judge,
            prompt_digest=self.prompt_digest,
            flags=verdict,
        )


class _Flag(msgspec.Struct, frozen=True):
    verdict: str
    reason: str


def _flag(name: str, value: Any) -> JudgedFlag:
    try:
        flag = msgspec.convert(value, _Flag)
    except msgspec.ValidationError as error:
        raise UnusableReply(f"{name}: {plain_words(error)}") from error
    word = re.sub(r"[\s-]+", "_", flag.verdict.strip().lower())
    if word not in _WORDS:
        raise UnusableReply(f'{name}: the verdict must be "YES", "NO" or "N/A", not {flag.verdict!r}')
    return JudgedFlag(flag=name, verdict=_WORDS[word], reason=flag.reason)


def removed_text(segments: Sequence[Segment]) -> str:
    return "\n".join(_segment(segment) for segment in segments) or "(nothing is missing)"


def _segment(segment: Segment) -> str:
    scores = (("criticality", segment.criticality), ("guessability", segment.guessability))
    known = ", ".join(f"{name} {'unknown' if value is None else f'{value:g}'}" for name, value in scores)
    return f"- {segment.segment_id}: {segment.value} ({segment.dimension}, {segment.subdimension}; {known})"


def questions_text(events: Iterable[AnyEvent]) -> str:
    """Return every question with its position in the trial, its context and its answer."""
    events = list(events)
    answers = {event.question_id: event for event in events if isinstance(event, QuestionAnswered)}
    asked = [event for event in events if isinstance(event, QuestionAsked)]
    return "\n\n".join(
        _question(number, event, answers.get(event.question_id)) for number, event in enumerate(asked, 1)
    )


def _question(number: int, asked: QuestionAsked, answered: QuestionAnswered | None) -> str:
    position = f"action {asked.action_index}" if asked.action_index is not None else "at an unknown action"
    context = f"\nsaid beside it: {asked.context}" if asked.context else ""
    answer = answered.answer if answered is not None else "(none)"
    state = answered.response_state if answered is not None else "answered"
    shown = answer or (_UNKNOWN if state == "answered" else f"({state})")
    return f"question {number}, {position}: {asked.question}{context}\nanswer: {shown}"


def actions_text(events: Iterable[AnyEvent]) -> str:
    events = list(events)
    results = {event.action_index: event for event in events if isinstance(event, ActionFinished)}
    blocks = [block for event in events for block in _blocks(event, results)]
    return "\n".join(shortened(blocks, _ALL_CHARACTERS)) or "(nothing)"


def _blocks(event: AnyEvent, results: dict[int, ActionFinished]) -> Iterator[str]:
    if isinstance(event, ModelResponded) and event.role == "agent" and event.text:
        yield f"says: {cut(event.text, _TURN_CHARACTERS)}"
    elif isinstance(event, ActionStarted) and event.kind != "text":
        yield f"action {event.action_index}: {event.name} {cut(event.arguments_json, _ARGUMENT_CHARACTERS)}"
        done = results.get(event.action_index)
        if done is not None:
            text = _UNKNOWN if done.result is None else cut(done.result, _RESULT_CHARACTERS)
            yield f"  {'fails' if done.is_error else 'gives'}: {text}"


def outcome_text(trial: StoredTrial, task: Task) -> str:
    """Return how a trial ended and which checkpoints it reached, in one line."""
    scores = [
        f"{checkpoint.label}: {trial.results[checkpoint.checkpoint_id].score:g} of {checkpoint.total:g}"
        for checkpoint in task.checkpoints
    ]
    success = "success" if trial.finished.is_success else "no success"
    return f"{success}, ended by {trial.finished.ended_by or _UNKNOWN}; {'; '.join(scores)}"
