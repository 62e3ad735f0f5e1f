"""Expected questions: about exactly the removed thing, and recognised by the matcher of the simulated user."""

import re

import pytest

from generators.protocol import Removal
from generators.rewriting.occurrences import Prompt
from runners.benchmarks.desk.registry import desk_tasks
from runners.benchmarks.desk.variants import read_variants, variant_of
from runners.users.matcher import matching_segments
from tests.generators.rewriting.making import REWRITER, rewritten, segment


def desk_variants():
    """Return every hand-written variant of the desk tasks with the well-specified prompt of its task."""
    tasks = desk_tasks()
    return [(task.prompt(), variant_of(task, entry)) for task in tasks for entry in read_variants(task)]


@pytest.mark.parametrize(
    ("prompt", "removed", "question", "failure"),
    [
        (
            "Read orders_may.csv and count the rows.",
            segment("orders_may.csv"),
            "Which file should I use?",
            "Uses another file than the one that is meant, so that everything made from it is wrong.",
        ),
        (
            "Write the totals to sums.md.",
            segment("sums.md", "goal", "target"),
            "What should the file be called?",
            "Hands in the totals under a name of its own choice, so that nobody finds the file that was wanted.",
        ),
        (
            "Round the prices to 3 decimal places.",
            segment("3 decimal places", "constraint", "precision"),
            "How precise should the prices be?",
            "Rounds the prices in another way, so that the figures differ.",
        ),
        (
            "Send it to the department North.",
            segment("the department North", "constraint", "selection"),
            "Which department should I include?",
            "Takes everything, or selects by something else.",
        ),
        (
            "Invite Ada Berg and Bo Chan to lunch.",
            segment("Ada Berg and Bo Chan"),
            "Who should I invite?",
            "Takes other people than those that are meant.",
        ),
    ],
)
def test_a_question_asks_for_the_removed_thing(prompt, removed, question, failure):
    """The first question and the failure mode name what is missing in the words of the prompt."""
    rewriting = rewritten(prompt, "delete", removed)
    assert rewriting.expected_questions[0].questions[0] == question
    assert rewriting.failure_mode == failure


def test_the_questions_of_the_desk_benchmark_are_recognised():
    """At least 95 % of the first questions for hand-written segments are about their segment for the exact matcher."""
    asked, known = 0, 0
    for prompt, variant in desk_variants():
        for removed in variant.segments:
            rewriting = rewritten(prompt, "delete", removed)
            asked += 1
            known += bool(matching_segments(rewriting.expected_questions[0].questions[0], "", [removed]))
    assert asked > 60
    assert known >= 0.95 * asked


def test_no_question_and_no_failure_mode_holds_a_removed_value():
    """Whatever is removed together, neither questions nor failure mode give it away."""
    for prompt, variant in desk_variants():
        rewriting = REWRITER.rewriting(prompt, Removal(segments=variant.segments, severity="vaguify"))
        original = Prompt(prompt)
        for text in (*(q for each in rewriting.expected_questions for q in each.questions), rewriting.failure_mode):
            assert not any(Prompt(text).occurrences(each, original) for each in variant.segments), text


def test_each_segment_has_its_own_questions():
    """Two removed segments have a question each, and neither is about both."""
    prompt = "Read orders_may.csv, keep the department North, and write the totals."
    removed = (segment("orders_may.csv"), segment("the department North", "constraint", "selection", segment_id="S2"))
    expected = REWRITER.rewriting(prompt, Removal(segments=removed, severity="delete")).expected_questions
    assert [each.segment_id for each in expected] == ["S1", "S2"]
    for each in expected:
        assert matching_segments(each.questions[0], "", removed) == (each.segment_id,)


def test_questions_end_with_a_question_mark():
    """Every template is a question, and every field of it is known."""
    from generators.rewriting.frames import Frame
    from generators.rewriting.questions import templates

    fields = set(Frame.__struct_fields__)
    for key, lines in templates().questions.items():
        for line in lines:
            assert line.endswith("?"), (key, line)
            assert set(re.findall(r"\{(\w+)\}", line)) <= fields, (key, line)
