"""Every mart has a slow, obvious reading of the same records, and agrees with it on random stores."""

import math
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import TrialFailed, TrialFinished, TrialStarted
from tests.analytics import reference, reference_verdicts
from tests.analytics import reference_marts as slow
from tests.analytics.make_store import called
from tests.analytics.random_stores import PLANNED, random_store
from tests.support.depth import at_depth

LAWS = settings(max_examples=at_depth(10, 40))
SEEDS = st.integers(0, 2**32)
HERE = {
    "actions",
    "ambiguity_classes",
    "arm_cautions",
    "arms",
    "budgets",
    "costs",
    "exclusions",
    "first_asks",
    "injections",
    "questions",
    "task_ask_rates",
    "trial_endings",
    "wasted_actions",
}
ELSEWHERE = {  # the marts that other files compare
    **dict.fromkeys(
        (
            "answer_uses",
            "checkpoints",
            "generation_methods",
            "model_calls",
            "runs",
            "segment_outcomes",
            "segments",
            "selections",
            "tasks",
            "variant_reviews",
            "variants",
        ),
        "test_facts_reference",
    ),
    "discarded_attempts": "test_discarded_reference",
    "trial_notes": "test_trial_notes",
    "gradings": "test_verdicts_reference",
    "new_task_verdicts": "test_verdicts_reference",
    "observed_classes": "test_reference",
    "pass_at_k": "test_reference",
    "question_flags": "test_questions_reference",
    "question_ledger": "test_questions_reference",
    "trials": "test_reference",
    "unit_values": "test_reference",
    "wasted_trials": "test_reference",
}
CLASSES = ("outcome-critical", "divergent", "benign")


def marts_store(seed):
    """A random store, with classifiers, labels, selections, verdicts, budgets, judges, prices and a changed task."""
    chance = Random(seed)
    store = random_store(seed, "task")
    store.variant("t", "labelled", ambiguity_class=chance.choice(CLASSES), classified_by="somebody")
    store.variant("u", "chosen", "context")
    store.variant("u", "bare", "", origin="imported")
    for variant_id in tuple(store.variants):
        for agent in chance.choice([(), ("c",), ("c",), ("c", "d")]):
            for index in range(chance.choice([1, 2, 2, 3])):
                passes = chance.random() < 0.3
                scores = (float(passes),) * len(store.tasks[store.variants[variant_id].task_id].checkpoints)
                fields = {"agent": agent, "role": "classifier", "scores": scores}
                store.trial(variant_id, "underspecified", index, cost_usd=chance.choice([None, 0.02]), **fields)
        streams = [found for (unit, *_, agent), found in store.streams.items() if (unit, agent) == (variant_id, "c")]
        if streams and chance.random() < 0.7:
            store.judge_new_task(variant_id, streams, chance.choice(["confirmed", "rejected"]))
        spent = {
            "broken_usd": chance.choice(["", "unreported", "refused", None, 0.05]),
            "has_details": chance.random() < 0.5,
        }
        store.trial(variant_id, "ask_user", 1, agent="e", ends=chance.choice(["finished", "failed"]), **spent)
        store.trial(variant_id, "ask_user", 0, agent="e", actions=("ask_user S1", "submit"), scores=(1.0, 1.0))
    for name in ("first", "second", "first")[: chance.randint(0, 3)]:
        names = chance.sample(sorted(store.variants), 2)
        store.select(name, dict.fromkeys(names, chance.choice(CLASSES)), chance.choice("cd"))
    for unit in ("t", "u"):
        store.budget(unit, chance.choices(range(1, 20), k=chance.randint(0, 3)), chance.randint(1, 20))
    for stream in chance.sample(sorted(store.streams.values()), chance.randint(0, 2)):
        store.judge_call(stream, chance.choice([None, 0.5]))
    _cut_off(store, chance)
    if chance.random() < 0.5:
        store.start_run(trials=PLANNED, planned=chance.randint(0, 5), finished_before=chance.randint(0, 2))
        store.task("u", (1.0, 1.0), version="2")
        store.trial("u", "full", 9, agent="a", scores=(1.0, 0.0), limits_json='{"turns": 1}', benchmark_version="2")
    return store


def _cut_off(store, chance):
    """Requests without any end, of attempts that go on or were interrupted, and of a judge afterwards."""
    ended = {each.stream_id for each in store.envelopes if isinstance(each.event, TrialFinished | TrialFailed)}
    for each in [each for each in store.envelopes if isinstance(each.event, TrialStarted)]:
        if each.stream_id not in ended and chance.random() < 0.7:
            request = msgspec.structs.replace(called("open"), model=chance.choice(["m", "scripted/balanced"]))
            store.add(each.stream_id, request, each.trial_id, each.attempt)
    if chance.random() < 0.3:
        judged = chance.choice(sorted(store.streams.values()))
        store.add(store.run_id, msgspec.structs.replace(called(f"judge-{judged}.7"), role="judge"))


def test_every_mart_is_compared():
    """No mart is without a reference, and the tests that are said to compare it read it."""
    tests = Path(__file__).parents[1]
    marts = {path.stem for path in (tests.parents[1] / "sql" / "marts").glob("*.sql")}
    assert marts == HERE | ELSEWHERE.keys()
    for mart, module in ELSEWHERE.items():
        (found,) = tests.rglob(f"{module}.py")
        assert f"from {mart}" in found.read_text(encoding="utf-8"), mart


@LAWS
@given(seed=SEEDS)
def test_the_marts_are_those_of_the_reference(seed):
    """Rows, values and unknown values of every mart are what a person would read in the events."""
    store = marts_store(seed)
    trials = reference.trials_of(store.envelopes, store.live)
    verdicts = reference_verdicts.new_task_verdicts_of(store.envelopes, store.live, PLANNED)
    classes = slow.classes_of(store.envelopes, trials, store.variants, PLANNED, verdicts)
    of_digest = {store.variants[name].variant_digest: found for name, found in classes.items()}
    why = slow.screened(store.envelopes, trials, of_digest)
    used = {trial_id: trial for trial_id, trial in trials.items() if why[trial_id] is None}
    wanted = {
        "actions": slow.actions_of(store.envelopes, trials),
        "questions": slow.questions_of(store.envelopes, trials),
        "first_asks": slow.first_asks_of(trials),
        "trial_endings": slow.trial_endings_of(store.envelopes, trials),
        "arm_cautions": slow.arm_cautions_of(store.envelopes, used),
        "injections": slow.injections_of(trials),
        "arms": slow.arms_of(store.envelopes),
        "budgets": slow.budgets_of(store.envelopes),
        "wasted_actions": slow.wasted_actions_of(used),
        "costs": slow.costs_of(store.envelopes, store.live),
        "ambiguity_classes": {(name,): found for name, found in classes.items()},
        "exclusions": slow.exclusions_of(store.envelopes, trials, store.variants, of_digest, PLANNED, 3),
    }
    connection = connect(store.snapshot(), parameters={"reading": "paper"}, only=HERE)
    try:
        for mart, rows in wanted.items():
            _same(mart, connection.execute(QUERIES[mart][1]).fetchall(), QUERIES[mart][0], rows)
    finally:
        connection.close()


@pytest.mark.thorough
@LAWS
@given(seed=SEEDS)
def test_ask_rates_of_tasks(seed):
    """Variants of a task are counted together; one trial of which nobody knows whether it asked hides the rate."""
    store = random_store(seed, "task")
    rows = reference.pass_rows(reference.trials_of(store.envelopes, store.live), PLANNED, 3)
    query = "select agent, task_id, n_units, n_trials, n_missing, n_asking_trials, ask_pct from task_ask_rates"
    connection = connect(store.snapshot(), only={"task_ask_rates"})
    try:
        found = connection.execute(query).fetchall()
    finally:
        connection.close()
    _same("task_ask_rates", found, 2, slow.task_ask_rates_of(rows, store.variants))


QUERIES = {  # how many columns are the key, and the query
    "actions": (
        2,
        """select stream_id, action_index, trial_id, attempt, is_counted, kind, action_name, arguments_json,
        model_call_id, call_id, is_error, result, duration_ms from actions""",
    ),
    "trial_endings": (
        1,
        """select trial_id, ended_by, finish_reason, n_replies, n_cut_replies, n_refused_replies, n_calls_in_text,
        n_split_replies, n_tool_calls, asks from trial_endings""",
    ),
    "arm_cautions": (2, "select split_part(agent, '#', 1) as agent, kind, n, n_all from arm_cautions"),
    "questions": (
        2,
        """select stream_id, question_id, trial_id, attempt, is_counted, question_number, action_index, timing_pct,
        answer, requested_segment_ids, volunteered_segment_ids,
        withheld_segment_ids, rejected_problems from questions""",
    ),
    "first_asks": (
        1,
        "select trial_id, question_count, action_count, first_ask_action, first_ask_pct from first_asks",
    ),
    "injections": (
        1,
        """select trial_id, budget_actions, computed_target_action, target_action, after_action, is_injected,
        action_count, is_collapsed from injections""",
    ),
    "arms": (2, "select agent_name, limits_json, n_trials, model, experiments from arms"),
    "budgets": (2, "select stream_id, sequence, unit_id, budget_actions, computed_budget_actions from budgets"),
    "wasted_actions": (
        2,
        "select trial_id, action_index, number_among_equals, supply, is_wasted from wasted_actions",
    ),
    "costs": (
        2,
        """select stream_id, purpose, n_calls, failed_calls, input_tokens, output_tokens, cached_input_tokens,
        cache_write_tokens, reasoning_tokens, cost_usd, provider_cost_usd, model_seconds from costs""",
    ),
    "ambiguity_classes": (
        1,
        """select variant_id, ambiguity_class, class_source, classified_by, new_task_verdict, reason
        from ambiguity_classes""",
    ),
    "exclusions": (1, "select kind, n from exclusions where benchmark in ('desk', 'all')"),
}


def _same(mart, found, key_columns, wanted):
    keyed = {row[:key_columns]: row[key_columns:] for row in found}
    assert len(keyed) == len(found), mart
    expected = {_tuple(key): _tuple(row) for key, row in wanted.items()}
    assert keyed.keys() == expected.keys(), mart
    for key, row in expected.items():
        assert all(_near(*pair) for pair in zip(keyed[key], row, strict=True)), (mart, key, keyed[key], row)


def _tuple(one):
    return one if isinstance(one, tuple) else (one,)


def _near(value, wanted):
    if value is None or wanted is None or isinstance(wanted, str | bool | list):
        return value == wanted
    return math.isclose(float(value), float(wanted), abs_tol=2e-6)
