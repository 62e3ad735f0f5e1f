"""Expected questions: about exactly the removed thing, and recognised by the matcher of the simulated user."""

import asyncio
import re

import pytest

from generators.errors import RewritingFailed
from generators.extraction import RuleExtractor
from generators.protocol import Grounding, Removal
from generators.rewriting.occurrences import Prompt
from generators.rewriting.questions import says_twice
from generators.sources.desk import DeskSource
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
            "How should the prices be rounded?",
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


def generated_questions():
    """Return every first and second question for the desk: hand-written segments and those that the rules find."""
    extractor = RuleExtractor()
    pairs = [(prompt, each) for prompt, variant in desk_variants() for each in variant.segments]
    for source in DeskSource().tasks():
        found = asyncio.run(extractor.extract(source, Grounding(), None)).segments
        pairs += [(source.task.prompt, each) for each in found]
    for prompt, removed in pairs:
        try:
            rewriting = REWRITER.rewriting(prompt, Removal(segments=(removed,), severity="delete"))
        except RewritingFailed:
            continue
        yield prompt, removed, rewriting.expected_questions[0].questions


def test_no_generated_question_says_a_word_twice_or_tells_the_value():
    """Every segment of the desk has a question; none is a tautology, tells the value, or has an empty field."""
    count = 0
    for prompt, removed, questions in generated_questions():
        assert questions, removed.value
        for question in questions:
            count += 1
            assert question.endswith("?"), question
            assert not says_twice(question), question
            assert not re.search(r"\b(?:None|the the|which the|the (?:it|one|f))\b", question), question
            assert not Prompt(question).occurrences(removed, Prompt(prompt)), (question, removed.value)
    assert count > 250


def test_a_tautology_is_one():
    """What says a word twice is left out, in whatever number it stands."""
    assert says_twice("Which rule applies to the rule?")
    assert says_twice("Which column should the columns be in?")
    assert not says_twice("Which file should the totals be written to?")
    templates = {line for lines in questions_of_file() for line in lines}
    assert not any(says_twice(re.sub(r"\{\w+\}", "", line)) for line in templates)


def questions_of_file():
    """Return the lists of the bundled question templates."""
    from generators.rewriting.questions import templates

    return templates().questions.values()


@pytest.mark.parametrize(
    ("prompt", "removed", "question"),
    [
        (
            "Late arrival is defined as not leaving on time.",
            segment("not leaving on time", "context", "terminology"),
            "What do you mean by late arrival?",
        ),
        (
            "Find the towns that have no harbour.",
            segment("no harbour", "constraint", "selection", text="Find the towns that have no harbour."),
            "Which towns should I include?",
        ),
        (
            "In the report, have columns with names 'A' and 'B'.",
            segment("'A' and 'B'", "goal", "content"),
            "Which columns do you want?",
        ),
        (
            "Write the responses to answers.docx.",
            segment("answers.docx", "goal", "target"),
            "What should the document be called?",
        ),
        (
            "The plan lies under the /work directory called plan.md.",
            segment("plan.md"),
            "Which file should I use?",
        ),
    ],
)
def test_a_question_uses_the_phrase_around_the_value(prompt, removed, question):
    """What is defined, whose property it is, and what the thing is called where it stood, are in the question."""
    assert question in rewritten(prompt, "delete", removed).expected_questions[0].questions


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
