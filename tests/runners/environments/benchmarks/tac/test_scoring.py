"""What an evaluator leaves becomes a grade: checkpoints and final score apart, and no score from anything else."""

import json
from pathlib import Path

import pytest

from lhaw_record.recorder.events.values import Checkpoint
from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.benchmarks.tac.environment import _check_ended, trajectory_of
from lhaw_record.runners.environments.benchmarks.tac.scoring import grade_of, strategy_of
from tests.support.machine_limits import ENDINGS, GOES_ON, ended
from tests.support.needs import needs

REAL = Path(__file__).parents[6] / "shared" / "real" / "tac" / "eval_results"


def result(*checkpoints, final=None, **more):
    """Return a result file; a checkpoint is (result, total)."""
    final = final or (sum(got for got, _ in checkpoints), sum(of for _, of in checkpoints))
    shaped = [{"result": got, "total": of} for got, of in checkpoints]
    return json.dumps({"checkpoints": shaped, "final_score": {"result": final[0], "total": final[1]}, **more}).encode()


def checkpoints(*totals):
    """Return a task's checkpoints."""
    return [Checkpoint(checkpoint_id=f"c{at}", label="x", total=float(of)) for at, of in enumerate(totals, 1)]


def test_booleans_and_integers_are_points():
    """True and 1 are the same, false and 0 too; a result that is not there is neither."""
    grade = grade_of(result((True, 1), (False, 1), (2, 3), final=(3, 5)), checkpoints(1, 1, 3))
    assert [(each.checkpoint_id, each.score) for each in grade.results] == [("c1", 1.0), ("c2", 0.0), ("c3", 2.0)]
    assert (grade.is_success, grade.final_score, grade.final_total) == (False, 3.0, 5.0)


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (b"", "garbage"),
        (b"[]", "garbage"),
        (b'{"final_score": {"total": 1, "result": 1}}', "garbage"),
        (b'{"checkpoints": [{"total": 1, "result": 1}]}', "garbage"),
        (result((None, 1), final=(0, 1)), "garbage"),
        (result((2, 1)), "garbage"),
        (result((True, 2), final=(1, 2)), "garbage"),
        (result((1, 1), error="no model"), "evaluator_error"),
        (result((1, 1), (1, 1)), "other_checkpoints"),
        (result((1, 2)), "other_checkpoints"),
        (b'{"checkpoints": [], "final_score": {"total": 1, "result": 1}}', "other_checkpoints"),
    ],
)
def test_nothing_else_is_a_grade(content, kind):
    """Garbage, an error, a missing result and other checkpoints than the task's are the grader's failure, not zero."""
    with pytest.raises(GraderError) as caught:
        grade_of(content, checkpoints(1))
    assert caught.value.kind == kind


@pytest.mark.parametrize(
    ("points", "final", "strategy"),
    [
        ([(1, 1), (0, 2)], (1, 3), "plain_sum"),
        ([(0, 1), (0, 1), (2, 2)], (4, 4), "bonus_for_completing_final"),
        ([(0, 2), (1, 1), (0, 3)], (3, 6), "bonus_for_completing_any"),
        ([(0, 2), (0, 1)], (2, 3), "unknown"),
        ([(0, 2), (1, 1)], (2, 3), "unknown"),
        ([(1, 1)], (1, 2), "unknown"),
    ],
)
def test_the_strategies_of_the_original(points, final, strategy):
    """A final score is explained by the plain sum, a bonus of the original, or not at all, and then it says so."""
    assert strategy_of(points, final) == strategy


@needs("published")
def test_every_real_result_is_a_grade():
    """Each published result gives its own points and final score, explained by a strategy."""
    count = 0
    for path in sorted(REAL.glob("*.json")):
        for arms in json.loads(path.read_text()).values():
            for given in arms.values():
                totals = [each["total"] for each in given["checkpoints"]]
                grade = grade_of(json.dumps(given).encode(), checkpoints(*totals))
                assert [each.score for each in grade.results] == [
                    float(each["result"]) for each in given["checkpoints"]
                ]
                assert grade.final_score == given["final_score"]["result"]
                assert not any("unknown" in each.details for each in grade.results)
                count += 1
    assert count == 8


def test_an_agent_that_did_nothing_did_not_read_its_task():
    """Evaluators search the trajectory for words of the prompt, which the original's agents read from a file."""
    call = {"source": "agent", "action": "bash", "args": {"command": "ls"}, "observation": ""}
    assert b"/Documents/Budget" in trajectory_of("Open /Documents/Budget.", [call], "done")
    assert json.loads(trajectory_of("Open /Documents/Budget.", [], "done")) == [
        {"source": "agent", "action": "finish", "content": "done"}
    ]


@pytest.mark.parametrize("ending", [*ENDINGS.values(), *GOES_ON.values()], ids=str)
def test_an_evaluator_at_a_limit_of_its_machine_is_missing_data(ending):
    """Stopped or not: published evaluators go on after an error, and count a false."""
    with pytest.raises(GraderError) as caught:
        _check_ended(ended(**ending), 60.0, has_room=True)
    assert caught.value.is_retry_owed
    _check_ended(ended(), 60.0, has_room=True)
