"""The published dataset's rows become tasks and labelled variants."""

import pytest

from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.runners.imports import ImportFailed
from lhaw_record.runners.imports.formats import lhaw_dataset as dataset
from tests.runners.imports.files import dataset_row, imported, parsed, query, source, two_segment_row, write


def variants(*rows):
    """The variants that rows give."""
    return [each for each in parsed("lhaw-dataset", list(rows)).registered if isinstance(each, Variant)]


def test_a_row_becomes_a_task_and_a_labelled_variant():
    """Nothing of a row is lost; the class is the dataset's, the rest stays null."""
    task, variant = parsed("lhaw-dataset", [dataset_row()]).registered
    assert isinstance(task, Task)
    assert (task.benchmark, task.prompt, task.checkpoints) == ("mcp_atlas", "List crimes since 2001 as CSV.", ())
    assert (variant.origin, variant.ambiguity_class, variant.classified_by) == (
        "imported",
        "outcome-critical",
        "lhaw-dataset",
    )
    (segment,) = variant.segments
    assert (segment.segment_id, segment.value, segment.dimension, segment.subdimension) == (
        "S1",
        "since 2001",
        "constraint",
        "temporal",
    )
    assert (segment.criticality, segment.guessability, variant.severity) == (None, None, None)
    assert variant.expected_questions[0].questions == ("Since when?",)


def test_an_unclassified_row_has_no_class():
    """No class is invented, nor somebody who gave it."""
    (variant,) = variants(dataset_row(ambiguity_class="unclassified"))
    assert (variant.ambiguity_class, variant.classified_by) == (None, None)


@pytest.mark.parametrize("variant_id", ["0123456789abcdef01234567::V_S3_delete", "hr_job_V10_goal", "finance_pay_V_S3"])
def test_ids_are_opaque(variant_id):
    """Each of the three forms of variant_id is kept as it is."""
    assert variants(dataset_row(variant_id))[0].variant_id == variant_id


def test_both_forms_of_expected_questions_are_one():
    """A list of groups, a list of maps and one map give the same questions."""
    forms = ([{"segment_id": "S1", "questions": ["a?"]}], [{"S1": ["a?"]}], {"S1": ["a?"]})
    found = {variants(dataset_row(expected_questions=form))[0].expected_questions for form in forms}
    assert len(found) == 1


@pytest.mark.parametrize("name", ["desk", "my.tasks-2", "Tactics", "swe"])
def test_other_benchmarks_keep_their_names(name):
    """A row of a benchmark that the release does not have stands under the name that it has here."""
    assert variants(dataset_row(dataset=name))[0].benchmark == name


@pytest.mark.parametrize(
    "name", ["mcp-atlas", "MCP Atlas", "tac", "The_Agent_Company", "SWE-Bench", "swebench_pro", "", 7]
)
def test_another_spelling_of_a_released_name_is_refused(name):
    """It would be another benchmark for every table; so would half of one."""
    with pytest.raises(ImportFailed, match=r"unknown benchmark .* known: MCP-Atlas, TheAgentCompany, SWE-Bench Pro"):
        variants(dataset_row(dataset=name))


def test_an_id_is_one_within_its_benchmark():
    """Two benchmarks may have variants of one id; two different rows of one benchmark may not."""
    rows = [dataset_row("v"), dataset_row("v", dataset="desk", underspecified_prompt="Do it.")]
    assert [each.benchmark for each in variants(*rows)] == ["mcp_atlas", "desk"]
    with pytest.raises(ImportFailed, match="rows 1 and 2 are both 'v' and differ"):
        variants(rows[0], {**rows[0], "underspecified_prompt": "Do it."})


def test_a_bare_dimension_is_a_list_of_one():
    """``information_dimension`` may be one text."""
    assert variants(dataset_row(information_dimension="constraint")) == variants(dataset_row())


@pytest.mark.parametrize(
    ("cell", "states"),
    [("[ (1, 1) ]", [(1, 1)]), ("[(0,), (1,)]", [(0,), (1,)]), ("[]", []), ("[[1, 0]]", [(1, 0)])],
)
def test_terminal_states_are_literals(cell, states):
    """A text with the literal of a list of tuples is read."""
    assert dataset.terminal_states(cell) == states


@pytest.mark.parametrize(
    "cell", ["__import__('os').getcwd()", "[(1, 0.5)]", "(1, 1)", "[(True,)]", "x", None, "[" * 500]
)
def test_terminal_states_are_never_evaluated(cell):
    """Anything but a literal list of integer tuples is an error, and no code runs."""
    with pytest.raises(ValueError, match="terminal_states"):
        dataset.terminal_states(cell)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dataset": "SWE-bench"}, "unknown benchmark 'SWE-bench'"),
        ({"ambiguity_class": "outcome_critical"}, "ambiguity_class"),
        ({"information_dimension": ["Goal"]}, "information_dimension"),
        ({"removed_segments": "S1"}, "removed_segments"),
        ({"terminal_states": "[(1, 1"}, "terminal_states"),
        ({"original_prompt": ""}, "original_prompt"),
    ],
)
def test_a_row_of_another_shape_names_itself(fields, message):
    """One wrong cell refuses the file, with row and column."""
    with pytest.raises(ImportFailed, match=f"row 2: .*{message}"):
        parsed("lhaw-dataset", [two_segment_row(), dataset_row(**fields)])


def test_equal_ids_need_equal_rows():
    """The same row twice counts once; two different rows of one id refuse the file."""
    found = parsed("lhaw-dataset", [dataset_row(), dataset_row()])
    assert len(found.registered) == 2
    assert [(each.kind, each.count) for each in found.skipped if each.kind == "rows"] == [("rows", 1)]
    with pytest.raises(ImportFailed, match="rows 1 and 2 are both"):
        parsed("lhaw-dataset", [dataset_row(), dataset_row(ambiguity_class="benign")])


def test_it_says_what_it_checked():
    """The remarks compare digest and counts with the release, whether they agree or not."""
    remarks = parsed("lhaw-dataset", [dataset_row()]).remarks
    assert remarks[0] == "SHA-256 is not that of the released test.json"
    assert any(
        "outcome-critical 1 (released: benign 70, divergent 94, outcome-critical 121)" in each for each in remarks
    )


def test_the_released_file_must_have_the_released_counts(monkeypatch):
    """With the digest of the release other counts mean that it was misread: an error."""
    monkeypatch.setattr(dataset, "RELEASED_SHA256", source([dataset_row()]).sha256)
    with pytest.raises(ImportFailed, match="misreads"):
        parsed("lhaw-dataset", [dataset_row()])


def test_labels_reach_the_views(tmp_path):
    """After an import the class of a variant is the dataset's label."""
    imported("lhaw-dataset", write(tmp_path / "d.json", [dataset_row(), two_segment_row()]), tmp_path / "s")
    rows = query(tmp_path / "s", "select benchmark, ambiguity_class, classified_by from ambiguity_classes order by 1")
    assert rows == [("mcp_atlas", "outcome-critical", "lhaw-dataset"), ("tac", "benign", "lhaw-dataset")]
