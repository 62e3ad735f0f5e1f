"""TheAgentCompany's results: booleans and integers, final scores beside checkpoints, arms, names of images."""

import pytest

from lhaw_record.runners.imports import ImportFailed
from lhaw_record.runners.imports.foreign_trial import Failure
from tests.runners.imports.files import broken_claims, imported, parsed, query, write


def result(*points, final=None, **more):
    """A native result: (result, total) of each checkpoint."""
    found = {"checkpoints": [{"total": total, "result": got} for got, total in points], **more}
    return found if final is None else {**found, "final_score": {"result": final[0], "total": final[1]}}


def only(content, name="eval_x.json", **options):
    """The one trial of a file."""
    (trial,) = parsed("tac-evals", content, name=name, **options).trials
    return trial


@pytest.mark.parametrize("got", [True, 1, 1.0])
def test_a_boolean_is_a_point(got):
    """``true`` and 1 are the same result: one point, never a text."""
    trial = only(result((got, 1), (0, 2)))
    assert [each.score for each in trial.end.results] == [1.0, 0.0]


@pytest.mark.parametrize("name", ["eval_pm-x.json", "eval_pm-x-image.json"])
def test_the_image_suffix_is_no_part_of_the_task(name):
    """A result is of the same task with and without ``-image`` in its file's name."""
    assert only(result((1, 1)), name).task.task_id == "pm-x"


def test_success_is_the_final_score():
    """The scoring strategy decides: all final points with a checkpoint missed is a success, and progress is 1."""
    end = only(result((0, 1), (2, 2), final=(3, 3))).end
    assert (end.is_success, end.final_score, [each.score for each in end.results]) == (True, 3.0, [0.0, 2.0])
    assert not only(result((1, 1), (0, 2), final=(1, 3))).end.is_success


def test_an_error_is_missing_data():
    """A result with an error is a failed trial, whatever points stand beside it; whose fault it was is unknown; null
    is no error.
    """
    failed = only(result((0, 1), error="judge API: 500")).end
    assert isinstance(failed, Failure)
    assert failed.boundary is None
    assert not isinstance(only(result((0, 1), error=None)).end, Failure)


def test_arms_are_agents_unless_they_are_conditions():
    """In a combined file arms of one task are two agents; an arm named as a full condition is that condition."""
    content = {
        "t": {"direct": result((1, 1)), "layer": result((0, 1))},
        "u": {"full_ask_user": result((1, 1))},
        "v": result((1, 1)),
    }
    found = [
        (each.task.task_id, each.agent, each.condition) for each in parsed("tac-evals", content, name="run.json").trials
    ]
    assert found == [
        ("t", "run/direct", "full"),
        ("t", "run/layer", "full"),
        ("u", "run", "full_ask_user"),
        ("v", "run", "full"),
    ]


def test_a_variant_that_is_not_named_is_skipped():
    """A result under an underspecified prompt has no variant here: skipped, with the reason."""
    found = parsed("tac-evals", {"t": {"underspecified": result((1, 1)), "full": result((1, 1))}})
    assert [(each.count, "needs a variant" in each.reason) for each in found.skipped] == [(1, True)]
    assert len(found.trials) == 1


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (result(), "without checkpoints"),
        (result((3, 2)), "not between 0 and its total"),
        (result((True, 2)), "other than one point"),
        (result(("many", 2)), "expected a number"),
        (result((None, 2)), "expected a number"),
    ],
)
def test_contradictions_are_skipped(given, reason):
    """A result that cannot be is left out with its reason, and the others stay."""
    found = parsed("tac-evals", {"a": given, "b": result((1, 1))})
    assert [trial.task.task_id for trial in found.trials] == ["b"]
    assert reason in found.skipped[0].reason


def test_two_files_of_one_task_have_to_agree(tmp_path):
    """With and without ``-image``: equal results count once, different ones refuse the import."""
    write(tmp_path / "r" / "eval_x.json", result((1, 1)))
    write(tmp_path / "r" / "eval_x-image.json", result((1, 1)))
    done = imported("tac-evals", tmp_path / "r", tmp_path / "s")
    assert (done.trials, done.skipped[0].count) == (1, 1)
    write(tmp_path / "r" / "eval_x.json", result((0, 1)))
    with pytest.raises(ImportFailed, match="are the same trial"):
        imported("tac-evals", tmp_path / "r", tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.thorough
def test_imported_results_are_valid_trials(tmp_path):
    """A success, a failure and an error: two valid trials, one missing, and no claim about the store is broken."""
    content = {"a": result((0, 1), (2, 2), final=(3, 3)), "b": result((False, 1)), "c": result((1, 1), error="x")}
    imported("tac-evals", write(tmp_path / "run.json", content), tmp_path / "s")
    rows = query(
        tmp_path / "s",
        "select task_id, trial_state, is_success, checkpoint_progress, terminal_state from trials order by 1",
    )
    assert rows == [
        ("a", "valid", True, 1.0, [0.0, 2.0]),
        ("b", "valid", False, 0.0, [0.0]),
        ("c", "missing", None, None, None),
    ]
    assert broken_claims(tmp_path / "s") == []


def test_score_total_and_timestamp_are_kept():
    """They are the final score where a runner writes no other, and the time is in the report."""
    end = only(result((1, 1), (0, 2), score=2, total=3)).end
    assert (end.final_score, end.final_total, end.is_success) == (2.0, 3.0, False)
    both = result((1, 1), final=(1, 1), score=0, total=1, timestamp="2026-01-02T03:04:05+00:00")
    remarks = parsed("tac-evals", both, name="eval_x.json").remarks
    assert remarks == (
        "x was evaluated at 2026-01-02T03:04:05+00:00",
        "x: score and total differ from final_score, which is used",
    )


def test_the_agent_is_the_folder_that_names_it(tmp_path):
    """The published layout has every agent's files in a folder ``results``, which names none."""
    for agent, score in (("20250101_one", 1), ("20250202_two", 0)):
        result = {"checkpoints": [{"result": score, "total": 1}], "final_score": {"result": score, "total": 1}}
        write(tmp_path / "1.0.0" / agent / "results" / "eval_hr-task.json", result)
    imported("tac-evals", tmp_path / "1.0.0", tmp_path / "s")
    rows = query(tmp_path / "s", "select agent, is_success, started_at_us from trials order by all")
    assert rows == [("20250101_one", True, None), ("20250202_two", False, None)]
