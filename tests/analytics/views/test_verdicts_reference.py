"""Later gradings and verdicts on new tasks are those that a slow, obvious reading of the same records gives."""

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import CheckpointScored, NewTaskJudged
from tests.analytics import reference_verdicts as slow
from tests.analytics.make_store import Store, scored
from tests.support.depth import at_depth

PLANNED = 2
LAWS = settings(max_examples=at_depth(15, 60))
SEEDS = st.integers(0, 2**32)
ENDS = ("finished",) * 12 + ("failed", "running", "ungraded")


def verdict_store(seed):
    """Two variants, three agents, one of them in both roles; anything is judged and graded again, some things twice."""
    chance = Random(seed)
    store = Store(trials=PLANNED)
    store.task("t", (1.0, 2.0))
    for variant_id in ("v", "w"):
        store.variant("t", variant_id)
    streams = {}
    for variant_id in ("v", "w"):
        for agent, role in (("a", "evaluated"), ("b", "evaluated"), ("b", "classifier"), ("c", "classifier")):
            usual = chance.choice([(0.0, 1.0), (0.0, 1.0), (1.0, 2.0)])
            for index in range(chance.choice([1, 2, 2, 2, 3])):
                for attempt in range(1, chance.randint(1, 2) + 1):
                    stream = _attempt(chance, store, variant_id, agent, role, index, attempt, usual)
                    streams.setdefault((variant_id, agent, role, index), []).append(stream)
    for (variant_id, agent, role, _), attempts in streams.items():
        if chance.random() < 0.3:
            store.start_run(trials=PLANNED)
        if chance.random() < 0.5:
            _grade(chance, store, chance.choice(attempts))
        cell = [found for key, found in streams.items() if key[:3] == (variant_id, agent, role)]
        for _ in range(chance.choice([0, 1, 1, 2])):
            judged = [found[-1] if chance.random() < 0.9 else found[0] for found in cell]
            judged = judged if chance.random() < 0.9 else judged[:1]
            store.judge_new_task(variant_id, judged, chance.choice(["confirmed", "rejected"]), chance.choice("jk"))
    store.envelopes = [_at_one_moment(chance, envelope) for envelope in store.envelopes]
    return store


def _attempt(chance, store, variant_id, agent, role, index, attempt, usual):
    ends = chance.choice(ENDS)
    scores = usual if chance.random() < 0.9 else chance.choice([(0.0, 0.0), (1.0, 2.0)])
    store.trial(
        variant_id,
        "underspecified",
        index,
        agent=agent,
        role=role,
        attempt=attempt,
        scores=scores[:1] if ends == "ungraded" else scores,
        ends="finished" if ends == "ungraded" else ends,
    )
    return store.streams[variant_id, "underspecified", index, agent]


def _grade(chance, store, stream):
    """Some results of a later grading, in a stream of their own or in that of the attempt."""
    for checkpoint in store.tasks["t"].checkpoints:
        for _ in range(chance.choice([0, 1, 1, 2])):
            score = chance.choice([0.0, 0.5, checkpoint.total])
            where, graded = chance.choice([(store.run_id, stream), (store.run_id, stream), (stream, None)])
            event = scored(checkpoint, score, is_primary=False, graded_stream_id=graded)
            fields = {"grading_id": chance.choice(["again", "third"]), "grader": "g2", "details": f"{score} now"}
            trial_id, _, attempt = stream.rpartition("-")
            keys = () if where == store.run_id else (trial_id, int(attempt))
            store.add(where, msgspec.structs.replace(event, **fields), *keys)


def _at_one_moment(chance, envelope):
    """Clocks of several hosts may agree: then the stream and the sequence say which was last."""
    is_said_later = isinstance(envelope.event, NewTaskJudged) or (
        isinstance(envelope.event, CheckpointScored) and not envelope.event.is_primary
    )
    if not is_said_later or chance.random() < 0.5:
        return envelope
    return msgspec.structs.replace(envelope, recorded_at_us=5_000_000)


@pytest.mark.thorough
@LAWS
@given(seed=SEEDS)
def test_later_results_are_those_of_the_reference(seed):
    """Of each grading the last result stands beside the one that counts, or beside none."""
    store = verdict_store(seed)
    connection = connect(store.snapshot(), only={"gradings"})
    try:
        rows = connection.execute("""
            select stream_id, grading_id, checkpoint_id, grader, label, score, total, details, trial_id,
                primary_grader, primary_score, difference
            from gradings""").fetchall()
    finally:
        connection.close()
    assert len(rows) == len({row[:3] for row in rows})
    assert {row[:3]: row[3:] for row in rows} == slow.gradings_of(store.envelopes)


@pytest.mark.sampled(2)
@LAWS
@given(seed=SEEDS)
@pytest.mark.parametrize("judge", [None, "k"])
def test_verdicts_are_those_of_the_reference(judge, seed):
    """A candidate has the last verdict about just its valid trials, of the chosen judge where one is chosen."""
    store = verdict_store(seed)
    parameters = {"judge": judge} if judge else {}
    connection = connect(store.snapshot(), parameters=parameters, only={"new_task_verdicts"})
    try:
        rows = connection.execute("""
            select variant_digest, agent, role, new_task_verdict, judge, reason from new_task_verdicts""").fetchall()
    finally:
        connection.close()
    assert len(rows) == len({row[:3] for row in rows})
    assert {row[:3]: row[3:] for row in rows} == slow.new_task_verdicts_of(store.envelopes, store.live, PLANNED, judge)


def test_the_laws_are_about_something():
    """The random stores hold every case: confirmed, rejected and unjudged ones, and results beside nothing."""
    stores = [verdict_store(seed) for seed in range(20)]
    verdicts = [slow.new_task_verdicts_of(store.envelopes, store.live, PLANNED) for store in stores]
    assert {row[0] for found in verdicts for row in found.values()} == {"confirmed", "rejected", "unjudged"}
    differences = [row[-1] for store in stores for row in slow.gradings_of(store.envelopes).values()]
    assert None in differences
    assert any(differences)
