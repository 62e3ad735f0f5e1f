"""The embedded rewriter on the hand-labelled segments of real prompts: how much it does, and that the gate agrees."""

import pytest

from generators.errors import RewritingFailed
from generators.gate import problems_of
from generators.protocol import Removal
from recorder.events.values import Segment
from tests.generators.labelled import read_labels, real_prompts
from tests.generators.rewriting.rewriting_cases import REWRITER
from tests.support.needs import needs

SEVERITIES = ("delete", "vaguify", "genericize")


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


@pytest.mark.thorough
@needs("published")
def test_what_the_rules_make_of_real_prompts_is_little_and_whole():
    """The rules do some of the labelled segments; what they make is never spoilt in structure or told by a question."""
    made, passed, found = 0, 0, set()
    for prompt, removed in real_segments():
        for severity in SEVERITIES:
            removal = Removal(segments=(removed,), severity=severity)
            try:
                rewriting = REWRITER.rewriting(prompt, removal)
            except RewritingFailed:
                continue
            checks = {each.check for each in problems_of(prompt, rewriting, removal)}
            made, passed, found = made + 1, passed + (not checks), found | checks
    assert passed >= 10
    assert 2 * passed >= made / 2
    assert found.isdisjoint({"no_placeholder", "questions_exist", "is_changed"})
