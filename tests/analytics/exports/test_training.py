"""Trials as training data: rewards with reasons, steps that add up, splits without leaks."""

import json

import pytest

from analytics.exports.training_rows import (
    REWARDS,
    STEPPED,
    TRAINING_VIEWS,
    Timing,
    ask_f1,
    first_ask,
    split_of,
    training_of,
)
from analytics.views.store import connect
from tests.analytics.make_store import Store


def test_ask_f1_is_that_of_the_published_code():
    """Values of HiL-Bench's ``compute_hil_metrics`` for (questions, blockers found, blockers)."""
    published = {
        (0, 0, 3): 0.0,
        (1, 1, 3): 0.5,
        (3, 3, 3): 1.0,
        (4, 2, 3): 0.5714285714285715,
        (5, 0, 2): 0.0,
        (2, 1, 5): 0.28571428571428575,
    }
    assert {case: ask_f1(*case) for case in published} == pytest.approx(published)
    assert ask_f1(1, 2, 2) == 1.0


@pytest.mark.parametrize(
    ("asked_at", "curve", "reward", "verdict"),
    [
        (1, (0.9, 0.9, 0.6, 0.3, 0.0), 0.0, "in_time"),
        (5, (0.9, 0.9, 0.6, 0.3, 0.0), -0.3, "late"),
        (3, (0.9, 0.87, 0.6, 0.3, 0.0), -0.03, "in_time"),
        (1, (0.2, 0.8, 0.8, 0.3, 0.0), -0.6, "early"),
        (14, (0.2, 0.8, 0.8, 0.3, 0.0), -0.8, "late"),
    ],
)
def test_a_question_is_early_or_late_against_the_curve(asked_at, curve, reward, verdict):
    """The value of the last injection before it, less the best one; 5 percentage points are no difference."""
    trial = {"condition": "ask_user", "question_count": 1, "first_ask_action": asked_at, "budget": 10}
    assert first_ask(trial, [curve], 5) == Timing(asked_at * 10.0, pytest.approx(reward), verdict)


def test_without_a_curve_there_is_no_timing():
    """Nobody asked, no budget, no curve, or full prompts that gain nothing: null with that reason."""
    asked = {"condition": "ask_user", "question_count": 1, "first_ask_action": 2, "budget": 4}
    assert first_ask(asked, [], 5).reason == "no_curve"
    assert first_ask(asked, ["no_oracle_gap"], 5).reason == "no_oracle_gap"
    assert first_ask({**asked, "budget": None}, [(1.0,) * 5], 5).reason == "no_budget"
    assert first_ask({**asked, "question_count": 0}, [(1.0,) * 5], 5).reason == "nobody_asked"


@pytest.fixture(scope="module")
def exported():
    """Two tasks; a variant of the first with trials of every kind."""
    store = Store(trials=1)
    store.task("t", (1.0,))
    store.task("u", (1.0,))
    store.variant("t", "v", "goal constraint")
    store.trial("t", "full", 0, is_told=True)
    store.trial("u", "full", 0, is_told=True, scores=(0.0,))
    store.trial("v", "underspecified", 0, is_told=True, scores=(0.0,))
    store.trial(
        "v", "ask_user", 0, is_told=True, actions=("ask_user S1", "bash + ask_user S1", "ask_user S2", "submit")
    )
    store.trial("v", "ask_user", 1, is_told=True)
    store.trial("v", "ask_user", 2, ends="failed", is_told=True)
    store.trial("v", "ask_user", 3, actions=("bash", "submit"))
    connection = connect(store.snapshot(), only=TRAINING_VIEWS)
    yield training_of(connection, None, test_share=0.5, question_cost_pp=10.0)
    connection.close()


def _rows(exported):
    return [
        json.loads(line)
        for name, text in exported.files.items()
        if name.endswith(".jsonl")
        for line in text.splitlines()
    ]


def test_rewards_are_those_of_the_trial(exported):
    """Worked by hand: three questions of 10 points, gain 1; both segments found with them: 2 * 2 / (3 + 2)."""
    rows = {(row["condition"], row["task_id"], row["trial_index"]): row for row in _rows(exported)}
    asked = rows["ask_user", "t", 0]
    expected = {
        "success": 1.0,
        "progress": 1.0,
        "net_value": 0.7,
        "question_precision": 1.0,
        "question_recall": 1.0,
        "ask_f1": 0.8,
    }
    assert {name: asked["rewards"][name] for name in expected} == pytest.approx(expected)
    assert asked["reasons"]["timing"] == "no_budget"
    assert [step["ask_f1"] for step in asked["steps"]] == pytest.approx([2 / 3, -1 / 6, 0.3, 0.0])
    assert [step["net_value"] for step in asked["steps"]] == pytest.approx([-0.1, -0.1, -0.1, 1.0])
    silent = rows["ask_user", "t", 1]
    assert (silent["rewards"]["ask_f1"], silent["reasons"]["question_precision"]) == (0.0, "nobody_asked")
    assert rows["full", "u", 0]["reasons"]["net_value"] == "not_ask_user"


def test_steps_add_up_and_null_has_a_reason(exported):
    """Each step is a reply; the steps of a reward add up to it; a reward is null exactly where a reason is given."""
    for row in _rows(exported):
        assert [row["messages"][step["message_index"]]["role"] for step in row["steps"]] == ["assistant"] * len(
            row["steps"]
        )
        for name in REWARDS:
            assert (row["rewards"][name] is None) == (row["reasons"][name] is not None)
        for name in STEPPED:
            values = [step[name] for step in row["steps"]]
            whole = row["rewards"][name]
            assert values == [None] * len(values) if whole is None else sum(values) == pytest.approx(whole)


def test_missing_data_gets_no_reward(exported):
    """A failed trial and one without its conversation are left out and counted."""
    assert exported.count == 5
    assert exported.left_out == (
        "1 trials without a valid attempt, which get no reward",
        "1 trials whose conversation was rewritten or compacted on the way",
    )


def test_a_task_is_in_one_split():
    """The split depends on the task alone, and its share is the one asked for."""
    splits = [split_of("desk", f"task-{number}", 0.2) for number in range(2000)]
    assert 0.17 < splits.count("test") / len(splits) < 0.23
    assert split_of("desk", "t", 0.0) == "train"
    assert split_of("desk", "t", 1.0) == "test"
