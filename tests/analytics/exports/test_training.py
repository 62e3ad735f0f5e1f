"""Trials as training data: rewards with reasons, steps that add up, splits without leaks."""

import json

import anyio
import msgspec
import pytest

from lhaw_record.analytics.exports.training_rows import (
    REWARDS,
    STEPPED,
    TRAINING_VIEWS,
    Timing,
    ask_f1,
    first_ask,
    split_of,
    training_of,
    training_rows,
)
from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import ActionStarted, TrialFlagged
from tests.analytics.make_store import Store, called, write_events


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
    assert first_ask({**asked, "first_ask_action": None}, [(1.0,) * 5], 5).reason == "unknown_actions"
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
    yield training_of(connection, test_share=0.5, question_cost_pp=10.0)
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
        "1 trials without a valid attempt and so without a reward",
        "1 trials whose conversation was rewritten or compacted on the way",
    )


def _injected(store, agent, **fields):
    """Trials of an agent on the variant v, whose curve is 1, 1, 0, 0, 0 on a budget of 4 actions."""
    for percent in (10, 30, 50, 70, 90):
        scores = (1.0,) if percent < 50 else (0.0,)
        store.trial("v", f"inject_{percent}", 0, agent=agent, budget=4, injected_after=1, scores=scores, **fields)


def _asks_outside(store, index, call_id):
    """A trial whose second question, between its replies 2 and 3, was not asked by a reply of its conversation."""
    actions = ("ask_user S1", "ask_user S2", "bash", "submit")
    trial_id = store.trial("w", "ask_user", index, is_told=True, actions=actions)
    stream = store.streams["w", "ask_user", index, "a"]
    for place, each in enumerate(store.envelopes):
        if each.stream_id == stream and isinstance(each.event, ActionStarted) and each.event.action_index == 2:
            event = msgspec.structs.replace(each.event, model_call_id=call_id)
            store.envelopes[place] = msgspec.structs.replace(each, event=event)
    if call_id is not None:
        request = msgspec.structs.replace(called(call_id), thread_id="helper", call_kind="sub_agent")
        store.add(stream, request, trial_id, 1)


@pytest.fixture(scope="module")
def timed():
    """A variant with injected trials of several agents, and one that changed, where questions are asked outside."""
    store = Store(trials=1)
    store.task("t", (1.0,))
    store.variant("t", "v", "goal")
    for agent in ("a", "two_simulators", "two_templates", "no_gap"):
        store.trial("t", "full", 0, agent=agent)
        if agent != "no_gap":
            store.trial("v", "underspecified", 0, agent=agent, scores=(0.0,))
        _injected(store, agent)
        store.trial("v", "ask_user", 0, agent=agent, is_told=True, actions=("ask_user S1", "submit"))
        store.trial("v", "ask_user", 1, agent=agent, is_told=True, actions=("bash", "bash", "ask_user S1", "submit"))
    store.trial("v", "ask_user", 0, agent="two_simulators", user_simulator="other", is_told=True)
    _injected(store, "two_templates", prompts_digest="another")
    lost = store.trial("v", "inject_10", 1, budget=4, injected_after=1, is_told=True)
    store.add(store.streams["v", "inject_10", 1, "a"], TrialFlagged(flag="injection_lost", detail="none"), lost, 1)
    store.variant("t", "w", "constraint goal")
    store.trial("w", "underspecified", 0, is_told=True, scores=(1.0,))
    store.trial("w", "ask_user", 0, is_told=True)
    store.variant("t", "w", "constraint goal", prompt="do less")
    store.trial("w", "underspecified", 0, is_told=True, scores=(0.0,))
    store.trial("w", "ask_user", 0, is_told=True)
    _asks_outside(store, 1, "helper-1")
    _asks_outside(store, 2, None)
    connection = connect(store.snapshot(), only=TRAINING_VIEWS)
    yield training_of(connection, test_share=0.0, question_cost_pp=10.0)
    connection.close()


def _asking(timed):
    """The rows under ask_user by variant, agent without digits, and index."""
    rows = [row for row in _rows(timed) if row["condition"] == "ask_user"]
    return {
        (row["variant_id"], row["agent"].partition("#")[0], row["trial_index"]): row
        for row in rows
        if row["first_ask_pct"] is not None or row["variant_id"] == "w"
    }


@pytest.mark.parametrize("agent", ["a", "two_simulators"])
def test_timing_is_that_of_the_injected_trials(timed, agent):
    """Action 1 of 4 has the value of inject_10, action 3 that of inject_70; a second simulator changes nothing."""
    rows = _asking(timed)
    early, late = rows["v", agent, 0], rows["v", agent, 1]
    assert (early["first_ask_pct"], early["rewards"]["timing"], early["first_ask_timing"]) == (25.0, 0.0, "in_time")
    assert (late["first_ask_pct"], late["rewards"]["timing"], late["first_ask_timing"]) == (75.0, -1.0, "late")
    assert [step["timing"] for step in late["steps"]] == [0.0, 0.0, -1.0, 0.0]


@pytest.mark.parametrize(("agent", "reason"), [("no_gap", "unknown_oracle_gap"), ("two_templates", "several_curves")])
def test_a_curve_that_is_not_known_has_its_reason(timed, agent, reason):
    """Without underspecified trials the gap is unknown, not absent; of two templates none is the trial's own."""
    row = _asking(timed)["v", agent, 1]
    assert (row["first_ask_pct"], row["rewards"]["timing"], row["reasons"]["timing"]) == (75.0, None, reason)


def test_trials_that_no_table_uses_get_no_reward(timed):
    """Only the last version of a variant is exported, against its own baseline; the others are counted by reason."""
    assert timed.left_out[:2] == (
        "1 trials that no table uses (injection_lost)",
        "2 trials that no table uses (superseded)",
    )
    rows = [row for row in _rows(timed) if row["variant_id"] == "w" and row["trial_index"] == 0]
    assert [(row["condition"], row["rewards"]["net_value"]) for row in rows] == [
        ("ask_user", 1.0),
        ("underspecified", None),
    ]


@pytest.mark.parametrize("index", [1, 2])
def test_a_question_outside_the_conversation_belongs_to_the_next_reply(timed, index):
    """Of a sub-agent, or of nobody known: its cost and what it revealed are in the step after it."""
    row = _asking(timed)["w", "a", index]
    assert [step["question_count"] for step in row["steps"]] == [1, 0, 1, 0]
    assert [step["net_value"] for step in row["steps"]] == pytest.approx([-0.1, 0.0, -0.1, 1.0])
    assert [step["ask_f1"] for step in row["steps"]] == pytest.approx([2 / 3, 0.0, 1 / 3, 0.0])
    assert (row["rewards"]["net_value"], row["rewards"]["ask_f1"]) == pytest.approx((0.8, 1.0))


@pytest.mark.thorough
def test_an_experiment_has_its_own_baselines(tmp_path):
    """Without asking, experiment one fails and two succeeds: the trial of one gains 1 - 0.1, with two 0.5 - 0.1."""
    store = Store(trials=1, experiment="one")
    store.task("t", (1.0,))
    store.variant("t", "v", "goal")
    store.trial("v", "underspecified", 0, is_told=True, scores=(0.0,))
    store.trial("v", "ask_user", 0, is_told=True, actions=("ask_user S1", "submit"))
    store.experiment = "two"
    store.start_run(trials=1)
    store.trial("v", "underspecified", 1, is_told=True)
    anyio.run(write_events, tmp_path / "s", store.envelopes)
    exported = training_rows(tmp_path / "s", "one", question_cost_pp=10.0)
    values = [row["rewards"]["net_value"] for row in _rows(exported) if row["condition"] == "ask_user"]
    assert (values, exported.count, exported.left_out) == ([pytest.approx(0.9)], 2, ())


def test_a_task_is_in_one_split():
    """The split depends on the task alone, and its share is the one asked for."""
    splits = [split_of("desk", f"task-{number}", 0.2) for number in range(2000)]
    assert 0.17 < splits.count("test") / len(splits) < 0.23
    assert split_of("desk", "t", 0.0) == "train"
    assert split_of("desk", "t", 1.0) == "test"
