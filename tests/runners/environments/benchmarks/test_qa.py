"""Questions without tools: what a file may say, what counts as a right answer, and what a judge is asked."""

import json
from functools import partial
from pathlib import Path

import anyio
import pytest

from lhaw_record.runners.base.errors import ExperimentError, GraderError
from lhaw_record.runners.environments.benchmarks import open_benchmark
from lhaw_record.runners.environments.benchmarks.qa import QaEnvironment, QaRow
from lhaw_record.runners.experiment.tables import GraderSpec, ModelSpec

CAPITAL = {"id": "capital", "question": "What is the capital of France?", "answers": ["Paris", "Lutetia"]}
TEA = {"id": "tea", "question": "How do I brew it?", "points": ["The water is at 80 degrees.", "It takes 2 minutes."]}
VARIANT = {
    "name": "country",
    "severity": "vaguify",
    "prompt": "What is the capital of that country?",
    "segments": [
        {
            "value": "France",
            "dimension": "input",
            "subdimension": "country",
            "expected_questions": ["Which country do you mean?"],
            "synonyms": ["country"],
        }
    ],
}


def opened(tmp_path, *rows, grader=None, options=None):
    """The benchmark of some rows."""
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(each if isinstance(each, str) else json.dumps(each) for each in rows), encoding="utf-8")
    return open_benchmark("qa", options or {"rows": [path.name]}, tmp_path, grader or GraderSpec())


def graded(row, answer, judge=None, ask=None):
    """The grade of an answer."""
    return anyio.run(partial(QaEnvironment(QaRow(**row), judge).grade, answer, ask))


@pytest.mark.parametrize(
    ("answer", "is_right"),
    [("It is  PARIS.", True), ("Lutetia", True), ("Parisian", False), ("", False), ("I do not know.", False)],
)
def test_one_of_the_answers_is_enough(answer, is_right):
    """It is found as a word of its own, in any case."""
    grade = graded(CAPITAL, answer)
    assert (grade.is_success, [each.score for each in grade.results]) == (is_right, [float(is_right)])


def test_every_point_is_needed():
    """A point is a checkpoint; one of two is progress and no success."""
    whole, half = (
        graded(TEA, text) for text in ("The water is at 80 degrees. It takes 2 minutes.", "It takes 2 minutes.")
    )
    assert (whole.is_success, [each.score for each in whole.results]) == (True, [1.0, 1.0])
    assert half.is_success is False
    assert [each.score for each in half.results][1] == 1.0


def test_a_judge_reads_each_point(tmp_path):
    """With a judge each point is a question to it, but of an empty answer; without its model nothing is graded."""
    asked = []

    async def ask(system, user, form):
        asked.append(user)
        return '{"label": "fulfilled", "reason": "it says so", "confidence": 1.0}'

    spec = GraderSpec(kind="judge", judge=ModelSpec(model="openai/judge"))
    benchmark = opened(tmp_path, TEA, grader=spec)
    assert benchmark.grader.startswith("qa/matcher-1+mcp_atlas/judge-")
    judge = benchmark._judge
    assert graded(TEA, "Hot, but not too hot.", judge, ask).is_success is True
    assert len(asked) == 2
    assert graded(TEA, " ", judge, ask).is_success is False
    assert len(asked) == 2
    with pytest.raises(GraderError, match="no model to ask"):
        graded(TEA, "Hot.", judge, None)


def test_tasks_and_variants_are_those_of_the_file(tmp_path):
    """In the order of the rows; what counts as right is part of a task's version."""
    benchmark = opened(tmp_path, {**CAPITAL, "variants": [VARIANT]}, "", TEA)
    assert [each.task_id for each in benchmark.tasks()] == ["capital", "tea"]
    assert [each.label for each in benchmark.tasks()[1].checkpoints] == TEA["points"]
    (variant,) = benchmark.variants()
    assert (variant.variant_id, variant.segments[0].value) == ("capital/country", "France")
    other = opened(tmp_path, {**CAPITAL, "answers": ["Lyon"]})
    assert other.tasks()[0].task_digest != benchmark.tasks()[0].task_digest
    assert benchmark.files == (Path(tmp_path / "rows.jsonl"),)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([CAPITAL, CAPITAL], None, "two rows have the id 'capital'"),
        ([], None, r"rows.jsonl has no record"),
        ([], {"rows": []}, "there is no row"),
        ([{**CAPITAL, "question": "\ud800"}], None, "line 1: question has half of a surrogate pair"),
        ([CAPITAL, "{"], None, "line 2 is not JSON"),
        ([{**CAPITAL, "points": ["x"]}], None, "line 1: a row needs either answers or points"),
        ([{"id": "x", "question": "y"}], None, "line 1: a row needs either answers or points"),
        ([{**CAPITAL, "answer": "x"}], None, "line 1: Object contains unknown field `answer`"),
        ([CAPITAL], {"rows": ["nowhere.jsonl"]}, r"cannot read .*nowhere.jsonl"),
        ([CAPITAL], {"file": "x"}, "qa has the key rows"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path, rows, options, message):
    """By line and by key."""
    with pytest.raises(ExperimentError, match=message):
        opened(tmp_path, *rows, options=options)


def test_a_variant_that_keeps_its_value_is_refused(tmp_path):
    """By the row and the variant's name."""
    kept = {**VARIANT, "prompt": "What is the capital of France, please?"}
    benchmark = opened(tmp_path, {**CAPITAL, "variants": [kept]})
    with pytest.raises(
        ExperimentError, match="row capital: variant 'country': its prompt still has the value 'France'"
    ):
        benchmark.variants()
