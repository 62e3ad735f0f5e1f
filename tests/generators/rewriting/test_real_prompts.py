"""The embedded rewriter on the hand-labelled segments of real prompts, and on those of the desk benchmark."""

import pytest

from generators.errors import RewritingFailed
from generators.protocol import Removal
from generators.rewriting import problems_of
from recorder.values import Segment
from runners.users.matcher import matching_segments
from tests.generators.labelled import read_labels, real_prompts
from tests.generators.rewriting.making import REWRITER
from tests.generators.rewriting.test_questions import desk_variants
from tests.support.needs import needs

SEVERITIES = ("delete", "vaguify", "genericize")
has_real_prompts = needs("published")


def real_segments():
    """Return prompt and segment of every label of the development part."""
    prompts = real_prompts()
    for labelled in read_labels("development"):
        prompt = prompts[labelled.benchmark, labelled.task_id]
        for number, gold in enumerate(labelled.segments, start=1):
            yield (
                prompt,
                Segment(
                    segment_id=f"S{number}",
                    value=prompt[gold.start : gold.end],
                    text=prompt[max(0, gold.start - 40) : gold.end],
                    dimension=gold.dimension,
                    subdimension=gold.subdimension,
                ),
            )


def failures(pairs):
    """Return how many rewritings there were, and the checks that failed."""
    count, failed = 0, []
    for prompt, removed in pairs:
        for severity in SEVERITIES:
            count += 1
            removal = Removal(segments=(removed,), severity=severity)
            try:
                failed += [each.check for each in problems_of(prompt, REWRITER.rewriting(prompt, removal), removal)]
            except RewritingFailed:
                failed.append("failed")
    return count, failed


@pytest.mark.thorough
def test_the_segments_of_the_desk_benchmark_pass():
    """Every hand-written segment is removed under every severity; at most 2 % are refused as unnatural."""
    count, failed = failures((prompt, each) for prompt, variant in desk_variants() for each in variant.segments)
    assert count > 200
    assert set(failed) <= {"reads_well"}
    assert len(failed) <= 0.02 * count


@pytest.mark.thorough
@has_real_prompts
@pytest.mark.slow
def test_the_labelled_segments_of_real_prompts_pass():
    """At least 80 % of the labelled segments are removed under each severity; the others are refused, not spoilt."""
    count, failed = failures(real_segments())
    assert count > 800
    assert len(failed) <= 0.2 * count
    allowed = {"still_parses", "reads_well", "something_is_missing", "failed", "something_stands_in_its_place"}
    assert set(failed) <= allowed


@pytest.mark.thorough
@has_real_prompts
def test_the_questions_for_real_prompts_are_recognised():
    """At least 85 % of the first questions are about their segment for the exact matcher; the rest are natural only."""
    asked, known = 0, 0
    for prompt, removed in real_segments():
        try:
            rewriting = REWRITER.rewriting(prompt, Removal(segments=(removed,), severity="delete"))
        except RewritingFailed:
            continue
        asked += 1
        known += bool(matching_segments(rewriting.expected_questions[0].questions[0], "", [removed]))
    assert known >= 0.85 * asked
