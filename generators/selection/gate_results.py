"""Runs the gate on the variants of a selection, whatever made them, with what the store tells about them."""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec

from lhaw_record.generators.gate import unjudged_by
from lhaw_record.generators.gate.made_variants import findings_against, why_unjudged
from lhaw_record.generators.selection.provenance import BY_HAND, ChosenVariant


class GateResults(msgspec.Struct, frozen=True, kw_only=True):
    """What the gate says about the variants of a selection.

    Attributes:
        passed: How many it finds nothing against.
        failed: How many it finds something against.
        findings: The number of these variants by finding, most frequent first.
        unjudged: How many the rules cannot judge, by reason.
        judged_by: How many a model judged, by its name.
        left: How many nobody judged on each point that no rule can judge.
    """

    passed: int
    failed: int
    findings: Mapping[str, int]
    unjudged: Mapping[str, int]
    judged_by: Mapping[str, int]
    left: Mapping[str, int]


def gate_results(chosen: Sequence[ChosenVariant]) -> GateResults:
    """Return what the gate says about each variant. It does not see the environment's files, which no store has."""
    passed, failed = 0, 0
    variants = [each.variant for each in chosen]
    findings: Counter[str] = Counter()
    unjudged: Counter[str] = Counter()
    for each in chosen:
        reason = _why_unjudged(each)
        problems = () if reason else findings_against(each.variant, each.original or "", variants)
        found = {problem.check for problem in problems}
        reason = reason or why_unjudged(problems, is_written=each.maker == BY_HAND)
        if reason:
            unjudged[reason] += 1
        elif found:
            failed += 1
            findings.update(found)
        else:
            passed += 1
    return GateResults(
        passed=passed,
        failed=failed,
        findings=dict(sorted(findings.items(), key=lambda item: (-item[1], item[0]))),
        unjudged=dict(sorted(unjudged.items())),
        judged_by=dict(sorted(Counter(each.judgement.judge for each in chosen if each.judgement).items())),
        left=dict(Counter(point for each in chosen for point in _points_left(each))),
    )


def _points_left(each: ChosenVariant) -> tuple[str, ...]:
    is_changed = bool(each.variant.segments) and each.variant.environment_change is None
    return unjudged_by(each.judgement, each.variant.severity) if is_changed else ()


def _why_unjudged(each: ChosenVariant) -> str:
    if each.variant.environment_change is not None or not each.variant.segments:
        return "no segment is removed from the prompt"
    return "" if each.original else "the store does not have the original prompt"
