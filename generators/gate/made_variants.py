"""The gate on variants that exist, whatever made them, with what a store tells about them."""

from collections.abc import Iterable, Sequence

from lhaw_record.generators.gate.decision import Scene, problems_of
from lhaw_record.generators.gate.wrong_values import fault_findings
from lhaw_record.generators.protocol import Removal, Rewriting
from lhaw_record.recorder.events import FailedCheck
from lhaw_record.recorder.events.values import Variant


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
    return problems_of(original, rewriting, removal, Scene(siblings=siblings))
