"""Ledger, flags, shares and verdicts agree with a slow, obvious reading of the same records, whatever a store holds."""

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import ExchangeReading, QuestionAnswered, QuestionAsked, QuestionOption
from lhaw_record.runners.judging.failure_modes import JUDGED
from tests.analytics import reference
from tests.analytics import reference_questions as slow
from tests.analytics.imported import SOURCES, as_imported
from tests.analytics.make_store import Store
from tests.analytics.random_stores import PLANNED
from tests.support.depth import at_depth

VIEWS = {
    "question_ledger",
    "question_flags",
    "question_quality",
    "failure_modes",
    "failure_modes_failed",
    "observed_classes",
    "trials",
}
WORDS = ("read a", "read value 1", "read VALUE 2", "say x", "read a + read b", "submit")
QUESTIONS = (
    "ask_user",
    "ask_user S1",
    "ask_user S2",
    "ask_user S1 S2",
    "ask_user + ask_user S1",
    "ask_user ~S1",
    "ask_user S1 ~S2",
    "ask_user S1 -S2",
    "ask_user -S1",
)
SCORES = ("0", "0.5", "1")
_IMPORTED = 0.15
VERDICTS = ("yes", "no", "no", "not_applicable")


@pytest.mark.thorough
def test_options_that_hold_the_truth_and_recommended_ones_that_do_not():
    """An option is true if it says a value that the question asks for; without options or a target nothing is said."""
    store = Store(trials=1)
    store.task("t")
    store.variant("t", "v")
    store.trial("v", "ask_user", 0, actions=("submit",))
    stream = store.streams["v", "ask_user", 0, "a"]
    right, wrong = QuestionOption(label="right", holds=("S1",)), QuestionOption(label="wrong", holds=("S2",))
    asked = {
        "both": ((right, wrong), "wrong", ("S1",)),
        "one": ((right,), "right", ("S1",)),
        "none": ((wrong,), None, ("S1",)),
        "no_target": ((right, wrong), "right", ()),
        "no_options": ((), None, ("S1",)),
    }
    for place, (name, (options, recommended, asks_for)) in enumerate(asked.items()):
        medium = "built_in" if place else "elicitation"
        facts = {"options": options, "recommended": recommended, "medium": medium}
        store.add(stream, QuestionAsked(question_id=name, question="?", action_index=1, **facts))
        read = ExchangeReading(
            judge="rules/2", request="segments", asks_for=asks_for, gives=(), withheld=(), verdict="right"
        )
        answer = {"answer": "right", "simulator": "exact", "latency_ms": 1.0, "readings": (read,), "picked": ("right",)}
        store.add(stream, QuestionAnswered(question_id=name, **answer))
    query = "select question_id, is_truth_offered, is_recommended_wrong from questions order by question_number"
    with connect(store.snapshot(), only={"questions"}) as opened:
        assert opened.execute(query).fetchall() == [
            ("both", True, True),
            ("one", True, False),
            ("none", False, None),
            ("no_target", None, None),
            ("no_options", None, None),
        ]
        assert opened.execute("select distinct picked from questions").fetchall() == [(["right"],)]
    with connect(store.snapshot(), only={"natural_ask"}) as opened:
        query = "select measure, value from natural_ask where regexp_matches(measure, 'truth|wrong') order by all"
        rows = opened.execute(query)
        assert rows.fetchall() == [("options_with_truth_pct", pytest.approx(200 / 3)), ("recommended_wrong_pct", 50.0)]
    with connect(store.snapshot(), parameters={"medium": "elicitation"}, only={"questions"}) as opened:
        assert opened.execute("select question_id from questions").fetchall() == [("both",)]


def asking_store(seed):
    """Two tasks, three variants with scores, two agents; anything is asked, judged and answered."""
    chance = Random(seed)
    store = Store(trials=PLANNED)
    for task_id in ("t", "u"):
        store.task(task_id, (1.0, 1.0))
    for variant_id, task_id in {"v": "t", "w": "t", "x": "u"}.items():
        scores = " ".join(f"{chance.choice(SCORES)}/{chance.choice(SCORES)}" for _ in range(2))
        dimensions = chance.choice(["goal input", "input input"])
        store.variant(task_id, variant_id, dimensions, scores=scores, ambiguity_class="divergent")
    for agent in ("a", "b"):
        for unit, condition in (
            ("t", "full"),
            ("u", "full"),
            *((name, "ask_user") for name in "vwx"),
            ("v", "full_ask_user"),
        ):
            for index in range(chance.randint(0, 3)):
                _trial(chance, store, unit, condition, index, agent)
        for variant_id in "vwx":
            for index in range(PLANNED):
                scores = chance.choice([(0.0, 0.0), (1.0, 0.0), (1.0, 1.0)])
                store.trial(variant_id, "underspecified", index, agent=agent, scores=scores)
    _judge(chance, store)
    return store


def _trial(chance, store, unit, condition, index, agent):
    words = WORDS if condition == "full" else (*WORDS, *QUESTIONS, *QUESTIONS)
    if agent not in store.agents:  # one for all its trials: another simulator would be another arm
        store.agents[agent] = {"model": chance.choice(["exact", "exact", "dump"])}
    simulator = None if condition == "full" else store.agents[agent]["model"]
    possible = [word for word in words if condition != "full_ask_user" or not word.endswith(("S1", "S2"))]
    for attempt in range(1, chance.randint(1, 2) + 1):
        store.trial(
            unit,
            condition,
            index,
            agent=agent,
            attempt=attempt,
            scores=chance.choices([0.0, 1.0], k=2),
            actions=chance.choices(possible, k=chance.randint(1, 14)),
            ends=chance.choice(["finished"] * 6 + ["failed"]),
            user_simulator=simulator,
        )
        if chance.random() < _IMPORTED:
            as_imported(store, store.streams[unit, condition, index, agent], chance.choice(SOURCES))


def _judge(chance, store):
    for (unit, condition, _, agent), stream in list(store.streams.items()):
        if condition in ("ask_user", "full_ask_user"):
            for judge in chance.choice([(), ("j",), ("j", "k")]):
                verdicts = {flag: chance.choice(VERDICTS) for flag in JUDGED}
                store.judge_questions(stream, verdicts, judge)
        if condition == "underspecified" and chance.random() < 0.7:
            indexes = chance.choice([(0, 1), (0, 1), (0,)])
            streams = [store.streams[unit, condition, index, agent] for index in indexes]
            store.judge_new_task(unit, streams, chance.choice(["confirmed", "rejected"]))


@pytest.mark.thorough
@settings(max_examples=at_depth(12, 50))
@given(seed=st.integers(0, 2**32))
def test_questions_are_read_as_the_reference_reads_them(seed):
    """Every ratio, flag, share and class is that of the reference; a new task stands in no share."""
    store = asking_store(seed)
    trials = reference.trials_of(store.envelopes, store.live)
    connection = connect(store.snapshot(), only=VIEWS)
    try:
        _same_ledger(connection, trials, store.variants)
        _same_flags(connection, trials, store)
        _same_shares(connection, trials, store)
        _same_quality(connection, trials, store.variants)
        _same_new_tasks(connection, trials, store)
    finally:
        connection.close()


def _same_ledger(connection, trials, variants):
    query = """
        select trial_id, question_count, targeting_count, removed_count, requested_count, volunteered_count,
            precision, recall, f1, met_count
        from question_ledger"""
    found = {row[0]: row[1:] for row in connection.execute(query).fetchall()}
    expected = slow.ledger_of(trials, variants)
    assert found.keys() == expected.keys()
    for trial_id, row in expected.items():
        assert all(_near(*pair) for pair in zip(found[trial_id], row, strict=True)), trial_id


def _same_flags(connection, trials, store):
    judged, uses = slow.judged_of(store.envelopes), slow.first_uses_of(trials, store.variants)
    query = "select trial_id, flag, verdict from question_flags"
    found = {(trial_id, flag): verdict for trial_id, flag, verdict in connection.execute(query).fetchall()}
    expected = {
        (trial_id, flag): verdict
        for trial_id, trial in trials.items()
        if trial.state == "valid" and trial.questions
        for flag, verdict in slow.flags_of(trial, store.variants, uses, judged).items()
    }
    assert found == expected


def _same_shares(connection, trials, store):
    judged = slow.judged_of(store.envelopes)
    for table, only_failed in (("failure_modes", False), ("failure_modes_failed", True)):
        rows = connection.execute(f"select agent, category, measure, value, n_units from {table}").fetchall()
        expected = slow.shares_of(trials, store.variants, judged, only_failed=only_failed)
        found = {row[:3]: row[3:] for row in rows}
        assert found.keys() == expected.keys()
        for key, (share, count) in expected.items():
            assert _near(found[key][0], share), key
            assert found[key][1] == count


def _same_quality(connection, trials, variants):
    query = "select agent, user_simulator, measure, value from question_quality"
    found = {row[:3]: row[3] for row in connection.execute(query).fetchall()}
    expected = slow.quality_of(trials, variants)
    assert found.keys() == expected.keys()
    assert all(_near(found[key], value) for key, value in expected.items())


def _same_new_tasks(connection, trials, store):
    query = """
        select agent, variant_id, new_task_verdict, ambiguity_class from observed_classes
        where new_task_verdict <> 'not_applicable'"""
    found = {row[:2]: row[2:] for row in connection.execute(query).fetchall()}
    expected = slow.new_tasks_of(trials, store.envelopes)
    assert {key: verdict for key, (verdict, _) in found.items()} == expected
    for verdict, ambiguity_class in found.values():
        assert ambiguity_class == ("new_task" if verdict == "confirmed" else "outcome-critical")


def _near(value, wanted):
    if value is None or wanted is None:
        return value is None and wanted is None
    return math.isclose(float(value), float(wanted), abs_tol=2e-6)
