"""Write a trial as text for a judge: its questions, answers, actions, results, missing details and outcome."""

from collections.abc import Iterable, Iterator, Sequence

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    AnyEvent,
    ModelResponded,
    QuestionAnswered,
    QuestionAsked,
)
from lhaw_record.recorder.events.values import Segment, Task
from lhaw_record.runners.judging.stored_trials import StoredTrial
from lhaw_record.runners.models.llm_jobs.prompt_template import cut, shortened

LAYOUT = 1
"""Part of every prompt digest. Increase it when a change in this module changes what a judge sees."""

_ARGUMENT_CHARACTERS = 1_500
_RESULT_CHARACTERS = 800
_TURN_CHARACTERS = 1_000
_ALL_CHARACTERS = 60_000
_UNKNOWN = "(unknown)"


def removed_text(segments: Sequence[Segment]) -> str:
    """Return the missing details, one line each."""
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
    place = f"action {asked.action_index}" if asked.action_index is not None else "at an unknown action"
    context = f"\nsaid beside it: {asked.context}" if asked.context else ""
    answer = answered.answer if answered is not None else "(none)"
    shown = _UNKNOWN if answer is None else answer
    return f"question {number}, {place}: {asked.question}{context}\nanswer: {shown}"


def actions_text(events: Iterable[AnyEvent]) -> str:
    """Return what the agent said and did, shortened in the middle if it is too long."""
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
