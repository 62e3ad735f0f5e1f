"""Questions that a variant's author expects: answered as written and as good as written, with their segment alone."""

import anyio
import msgspec
import pytest

from lhaw_record.generators.gate.decision import findings_against
from lhaw_record.recorder.events.values import ExpectedQuestions
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import desk_tasks, environment_variants
from lhaw_record.runners.environments.benchmarks.expected_answers import answer_problems, answer_remarks
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator
from lhaw_record.runners.users.simulated_user.matcher import asked_segments
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge
from tests.runners.users.simulated_user.people import BOUND, NAME, OTHER_QUESTION, VARIANT, knowing

DESK = DeskBenchmark()
VARIANTS = [*DESK.variants(), *(variant for task in desk_tasks() for variant in environment_variants(task))]
ASKED = [
    pytest.param(variant, expected.segment_id, question, id=f"{variant.variant_id}-{expected.segment_id}-{number}")
    for variant in VARIANTS
    for expected in variant.expected_questions
    for number, question in enumerate(expected.questions)
]
EXPECTED = (
    ExpectedQuestions(segment_id="S1", questions=("Has the boss a favourite title?", "Boss?")),
    ExpectedQuestions(segment_id="S2", questions=("There are small ones. Which of them do not matter?",)),
)


def expecting(*removed):
    """What the user of the payments task knows, with questions that the matcher does not understand."""
    return msgspec.structs.replace(knowing(*removed), expected=EXPECTED)


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("variant", "segment_id", "question"), ASKED)
def test_the_questions_of_the_author_are_answered(variant, segment_id, question):
    """Each expected question of each variant of desk gives its segment, and no other than it is expected for."""
    segment = next(each for each in variant.segments if each.segment_id == segment_id)
    knowledge = UserKnowledge(
        full_prompt="",
        sent_prompt=variant.prompt,
        removed=variant.segments,
        expected=variant.expected_questions,
        revealed=frozenset(filter(None, [segment.revealed_after])),
    )
    answer = anyio.run(ExactSimulator().answer, question, "", knowledge)
    assert [each.segment_id for each in answer.revealed] == [segment_id]
    assert segment.value in answer.text


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("Has the boss a favourite title?", ("S1",)),
        ("has  the boss a favourite title", ("S1",)),
        ("Could you please tell me: has the boss a favourite title?", ("S1",)),
        ("Thanks. Has the boss a favourite title? It matters to me.", ("S1",)),
        ("There are small ones; which of them do not matter?", ("S2",)),
        ("Has the boss a favourite title? Below what amount should payments be skipped?", ("S1", "S2")),
        ("Boss?", ("S1",)),
        ("Which column holds the dates? Boss?", ("S1",)),
        ("Which of them do not matter?", ("S2",)),
        ("Which colour do you like?", ()),
        (OTHER_QUESTION, ()),
    ],
)
def test_as_good_as_written_is_enough_and_near_is_too(question, asked):
    """Case, marks, articles and politeness are nothing; half of a question is near enough, another question is not."""
    assert asked_segments(question, "", expecting(NAME, BOUND)) == asked


def test_what_is_not_removed_is_not_given():
    """An expected question for a segment that this variant still has asks for nothing."""
    assert asked_segments("Has the boss a favourite title?", "", expecting(BOUND)) == ()


@pytest.mark.sampled(20)
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.variant_id)
def test_the_variants_of_desk_have_clean_answers(variant):
    """Their questions would be found in other words too, and their values can be said as they stand."""
    task = next(each for each in DESK.tasks() if each.task_id == variant.task_id)
    assert [*answer_problems(variant, task), *answer_remarks(variant, task.prompt)] == []


@pytest.mark.parametrize(
    ("names", "others", "where"),
    [
        (("file name", "where to save", "mar"), (), []),
        (("Payments", "file name"), (), ["Sum the payments."]),
        (("file name",), ("limit", "File name"), ["another segment's names"] * 2),
        (("file name",), ("save the result",), []),
    ],
)
def test_names_that_mean_something_else_too_are_remarked(names, others, where):
    """Whole words of the prompt where nothing is missing, and names of two segments, in whatever case."""
    removed = tuple(msgspec.structs.replace(a, synonyms=b) for a, b in ((NAME, names), (BOUND, others)))
    sent = "Sum the payments. Make a summary. Save the result."
    full = f"{sent[:-1]} as overview.xlsx. Skip payments below 1,000 EUR."
    variant = msgspec.structs.replace(VARIANT, prompt=sent, segments=removed)
    remarks = list(answer_remarks(variant, full))
    findings = [each for each in findings_against(variant, full, ()) if each.check == "names_are_its_own"]
    assert len(remarks) == len(findings) == len(where)
    assert all(place in remark for place, remark in zip(where, remarks, strict=True))


def test_a_value_that_can_be_said_is_not_complained_of():
    """Whole words, a sentence, a file name beside a longer one, a quotation, a value in a word elsewhere."""
    task = DESK.tasks()[0]
    for value, prompt in (
        ("ledger", "Take the ledgers, or the ledger."),
        ("Keep to it.", "Keep to it. Then stop."),
        ("a.csv", "Neither ba.csv nor a.csv.gz: `a.csv`."),
        ('the "big" one (or two)', 'Take the "big" one (or two)!'),
        ("section A", "Read section A."),
    ):
        segment = msgspec.structs.replace(NAME, value=value)
        variant = msgspec.structs.replace(VARIANTS[0], segments=(segment,), expected_questions=())
        assert list(answer_problems(variant, msgspec.structs.replace(task, prompt=prompt))) == []


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("\u54ea\u4e2a\u6587\u4ef6\uff1f", ("S1",)),
        ("\u622a\u6b62\u65e5\u671f\u662f\u54ea\u5929\uff1f", ()),
        ("\u30c9\u30ad\u30e5\u30e1\u30f3\u30c8\u306f\uff1f", ()),
    ],
)
def test_a_script_without_known_words_equals_only_itself(question, found):
    """An expected question in Chinese is met by that question, and by no other that the rules cannot read."""
    expected = (ExpectedQuestions(segment_id="S1", questions=("\u54ea\u4e2a\u6587\u4ef6?",)),)
    knowledge = msgspec.structs.replace(knowing(NAME, BOUND), expected=expected)
    assert asked_segments(question, "", knowledge) == found
