"""The events of one trial, from the few facts that are told of it."""

from collections.abc import Iterator

from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    AnyEvent,
    CheckpointScored,
    ClarificationInjected,
    QuestionAnswered,
    QuestionAsked,
    TrialFinished,
    TrialStarted,
)
from tests.reconstruction.told import Told


def events(told: Told, started: TrialStarted) -> Iterator[AnyEvent]:
    """Yield what happened after the start of a trial; one that has more than one action ends by submitting."""
    for place in range(1, told.actions + 1):
        is_question = place in told.asks
        name = "ask_user" if is_question else _name(told, place)
        yield ActionStarted(
            action_index=place,
            kind="tool",
            name=name,
            arguments_json=f'{{"place":{place}}}',
            model_call_id=f"m{place}",
            call_id=f"t{place}",
        )
        if is_question:
            yield QuestionAsked(question_id=f"q{place}", question="which?", call_id=f"t{place}", action_index=place)
            yield QuestionAnswered(question_id=f"q{place}", answer="all", simulator="dump", latency_ms=1.0)
        yield ActionFinished(action_index=place, is_error=False, result="", duration_ms=1.0)
    if started.inject_percent is not None:
        is_injected = told.injected_after is not None
        yield ClarificationInjected(
            status="injected" if is_injected else "skipped",
            inject_percent=started.inject_percent,
            target_action=started.inject_after_action or 1,
            message="by the way",
            segment_ids=("S1",),
            after_action=told.injected_after,
            reason=None if is_injected else "the trial ended first",
        )
    yield CheckpointScored(
        checkpoint_id="c1",
        label="all of it",
        score=told.score,
        total=1.0,
        details="",
        grader="told",
        grading_id="primary",
    )
    yield TrialFinished(
        ended_by="submitted",
        is_success=told.is_success,
        final_answer="",
        action_count=told.actions,
        checkpoint_count=1,
        duration_ms=1.0,
        cost_usd=0.0,
    )


def _name(told: Told, place: int) -> str:
    if place <= told.strays:
        return "stray"
    return "submit" if place == told.actions > 1 else "work"
