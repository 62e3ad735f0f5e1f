"""The marts that show recorded facts agree with a slow, obvious reading of the same records on random stores."""

from random import Random

import msgspec
import pytest
from hypothesis import given, settings

from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import (
    ModelCalled,
    ModelFailed,
    ModelResponded,
    Package,
    RunFinished,
    RunStarted,
    VariantGenerated,
    Wire,
)
from lhaw_record.recorder.events.canonical_json import digest as digest_of
from lhaw_record.recorder.events.generation import GateJudgement
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Usage
from tests.analytics import reference, reference_verdicts
from tests.analytics import reference_facts as slow
from tests.analytics.imported import SOURCES, as_imported
from tests.analytics.random_stores import PLANNED
from tests.analytics.reference_marts import classes_of
from tests.analytics.views.test_marts_reference import SEEDS, _same, marts_store
from tests.support.depth import at_depth

ACTIONS = (
    *("ask_user S1", "ask_user S1 S1 ~S2", "ask_user ~S1 S9", "ask_user", "ask_user value 1"),
    *("ask_user S1 S2 S3", "read 2025-10-01 12000", "read 2025-10-01", "write out.csv", "write Out.csv 1,2000"),
    *("read value 1", "write my VALUE 2!", "broken value 1", "say value 1", "read value 1 + read a", "submit"),
)
JUDGED = GateJudgement(judge="reader", judge_digest="0", judged=("reads_naturally",))
QUERIES = {  # how many columns are the key, and the query
    "tasks": (
        1,
        """select task_digest, task_id, benchmark_version, is_latest, prompt, checkpoint_count, total_points,
        variant_count from tasks""",
    ),
    "variants": (
        1,
        """select variant_digest, variant_id, task_digest, is_latest, severity, segment_count, dimensions, failure_mode,
        ambiguity_class, class_source, classified_by, new_task_verdict, reason, rewriter, diff from variants""",
    ),
    "segments": (
        2,
        """select variant_digest, position, variant_id, segment_id, severity, dimension, segment_value, criticality,
        guessability, priority, expected_questions from segments""",
    ),
    "checkpoints": (
        2,
        "select trial_id, checkpoint_id, position, condition, label, score, total, share, grader from checkpoints",
    ),
    "selections": (
        2,
        """select selection, position, variant_id, task_id, ambiguity_class, classifier, class_wanted, class_chosen
        from selections""",
    ),
    "runs": (
        1,
        "select run_id, outcome, finished_at_us, planned_trials, attempts_started, trials_finished, packages from runs",
    ),
    "model_calls": (
        2,
        """select stream_id, call_id, trial_id, is_counted, role, outcome, call_kind, finish_reason, error_kind,
        latency_ms, input_tokens, cost_usd from model_calls""",
    ),
    "answer_uses": (
        3,
        """select stream_id, question_id, segment_id, is_requested, asked_action, is_used, first_use_action,
        actions_until_use, was_used_before, reason from answer_uses""",
    ),
    "segment_outcomes": (
        4,
        """select benchmark, task_id, dimension, segment_value, criticality, guessability, missing_trials, wrong_trials,
        lost_trials, measured_criticality, measured_guessability from segment_outcomes""",
    ),
    "generation_methods": (
        3,
        """select step, method, method_digest, n_tasks, n_accepted, n_refused, n_judged, acceptance_rate, attempts,
        agreement, cost_usd from generation_methods""",
    ),
    "variant_reviews": (
        2,
        """select variant_digest, reviewer, benchmark, task_id, variant_id, decision, review_reason, note,
        edited_digest, shown_s, decided_count from variant_reviews""",
    ),
    "trials": (
        1,
        "select trial_id, ambiguity_class, severity, dimensions, limits_json, grader, sandbox from trials",
    ),
}


def facts_store(seed):
    """A random store in which segments have scores, variants are registered again, runs end, and answers are used."""
    store, chance = marts_store(seed), Random(seed)
    scored = {
        "severity": chance.choice([None, "delete", "decoy"]),
        "failure_mode": chance.choice([None, "wrong date"]),
        "expected_questions": (ExpectedQuestions(segment_id="S2", questions=("which?", "what?")),),
    }
    store.variant("t", "scored", "input goal input", "1/0 0.5/0.5 0/1", **scored)
    store.variant("t", "scored again", "context", "1/0.5")
    _dated(store)
    generated = store.variant("t", "made", "goal", origin="generated")
    for method in chance.sample(["model", "rules/1"], chance.randint(0, 2)):
        made = {"rewriter": method, "rewriter_digest": digest_of(method), "task_digest": store.tasks["t"].task_digest}
        made["judgement"] = chance.choice([None, JUDGED])
        store.add(store.run_id, VariantGenerated(variant=generated, variant_digest=generated.variant_digest, **made))
    for name in chance.choices(sorted(store.variants), k=9):
        variant = store.variants[name]
        digest = chance.choice([None, "0" * 64, store.tasks[variant.task_id].task_digest])
        made = {"rewriter": f"rules/{len(store.envelopes)}", "diff": "-a"} if chance.random() < 0.5 else {}
        again = VariantGenerated(variant=variant, variant_digest=variant.variant_digest, task_digest=digest, **made)
        store.add(store.run_id, again)
    store.variant("u", "scored again", "goal", "0.5/0")  # another variant with the id of an earlier one
    store.select("quotas", {"v": "benign", "x": "divergent"}, wanted={"benign": 3})
    for _ in range(chance.randint(0, 6)):
        dimensions = " ".join(chance.choices(["goal", "input", "context"], k=chance.randint(0, 3)))
        extractor = chance.choice(["rules/1", "model", "other", "written"])
        store.extract(chance.choice("tu"), dimensions, extractor=extractor, rejected=chance.choice(["", "elsewhere"]))
        made = {"attempt": chance.randint(1, 3), "is_final": chance.random() < 0.5}
        made["rewriter"] = chance.choice(["model", "rules/1", "written"])
        store.reject("t", chance.choice(["never", "made"]), "value_remains", **made)
    for place in range(chance.randint(0, 5)):
        _asked(store, f"rewritten-{place}", chance.choice(["never", "made"]), chance)
    for _ in range(chance.randint(0, 9)):
        decision, reason = chance.choice([("accepted", None), ("rejected", "unnatural"), ("edited", "collateral")])
        store.review(chance.choice(sorted(store.variants)), chance.choice(["anna", "ben"]), decision, reason)
    for unit in ("dated", "scored", "v"):
        for index in range(20, 23):
            actions = chance.choices(ACTIONS, k=chance.randint(0, 8))
            store.trial(unit, "ask_user", index, agent="a", actions=actions, scores=(1.0, 1.0))
            if chance.random() < 0.3:
                as_imported(store, store.streams[unit, "ask_user", index, "a"], chance.choice(SOURCES))
    _end_runs(store, chance)
    return store


def _asked(store, call_id, variant, chance):
    """A rewriter's request: replied to, of no use, cut off with and without usage, refused, late, never sent, open."""
    made = {"call_id": call_id, "role": "rewriter"}
    request = {"call_kind": "main", "model": "m", "parameters_json": "{}", "request_digest": "0", "shared_count": 0}
    asked = ModelCalled(
        **made, **request, thread_id=f"rewrite-{variant}", message_count=1, new_messages_json="[]", tools_json=None
    )
    store.add(store.run_id, asked)
    cost = chance.choice([0.25, 0.5, None])
    if chance.random() < 0.4:
        used = Usage(input_tokens=1, output_tokens=1, cost_usd=cost)
        store.add(store.run_id, ModelResponded(**made, text="", finish_reason="stop", latency_ms=1.0, usage=used))
        return
    if chance.random() < 0.1:
        return
    status, is_sent = chance.choice([(None, True), (None, False), (429, True), (504, True)])
    usage = Usage(input_tokens=1, cost_usd=cost) if chance.random() < 0.6 else None
    wire = Wire(sent_sha256="0" * 64 if is_sent else None)
    how = {"error_kind": "malformed_rewriting", "message": "", "is_retried": False, "latency_ms": 1.0}
    store.add(store.run_id, ModelFailed(**made, **how, http_status=status, wire=wire, usage=usage))


def _dated(store):
    """A variant whose values are a text with a date and a number, a file, and one that is too short to be found."""
    values = ("by 2025-10-01, for 12,000 EUR", "out.csv", "ab")
    segments = tuple(
        Segment(segment_id=f"S{place}", value=value, dimension="input", subdimension="any")
        for place, value in enumerate(values, 1)
    )
    variant = msgspec.structs.replace(store.variants["scored"], variant_id="dated", segments=segments)
    store.variants["dated"] = variant
    store.add(store.run_id, VariantGenerated(variant=variant, variant_digest=variant.variant_digest))


def _end_runs(store, chance):
    """One more run with packages; then some runs end and some are held open."""
    store.start_run(trials=PLANNED)
    started = [each for each in store.envelopes if isinstance(each.event, RunStarted)]
    for each in started:
        if chance.random() < 0.5:
            counts = dict.fromkeys(("trials_failed", "trials_blocked", "trials_left"), 0)
            end = RunFinished(run_id=each.event.run_id, outcome="completed", trials_finished=3, **counts)
            store.add(each.stream_id, end)
        elif chance.random() < 0.5:
            store.live.add(each.stream_id)
    last = store.envelopes.index(started[-1])
    packages = (Package(name="b", version="2"), Package(name="a", version="1"))
    event = msgspec.structs.replace(started[-1].event, packages=packages)
    store.envelopes[last] = msgspec.structs.replace(started[-1], event=event)


@settings(max_examples=at_depth(8, 40))
@given(seed=SEEDS)
@pytest.mark.thorough
def test_recorded_facts_are_those_of_the_reference(seed):
    """Rows, values and unknown values are what a person would read in the events."""
    store = facts_store(seed)
    trials = reference.trials_of(store.envelopes, store.live)
    verdicts = reference_verdicts.new_task_verdicts_of(store.envelopes, store.live, PLANNED)
    variants = slow.registered(store.envelopes)
    classes = classes_of(store.envelopes, trials, variants, PLANNED, verdicts)
    wanted = {
        "tasks": slow.tasks_of(store.envelopes, variants),
        "variants": slow.variants_of(store.envelopes, classes),
        "segments": slow.segments_of(variants),
        "checkpoints": slow.checkpoints_of(store.envelopes, trials),
        "selections": slow.selections_of(store.envelopes, variants),
        "segment_outcomes": slow.segment_outcomes_of(trials, variants),
        "generation_methods": slow.generation_methods_of(store.envelopes, store.live),
        "variant_reviews": slow.variant_reviews_of(store.envelopes),
        "runs": slow.runs_of(store.envelopes, store.live),
        "model_calls": slow.model_calls_of(store.envelopes, trials),
        "answer_uses": slow.answer_uses_of(store.envelopes, trials, variants),
        "trials": slow.trials_shown(trials, variants, classes),
    }
    connection = connect(store.snapshot(), parameters={"reading": "paper"}, only=set(wanted))
    try:
        for mart, rows in wanted.items():
            _same(mart, connection.execute(QUERIES[mart][1]).fetchall(), QUERIES[mart][0], rows)
    finally:
        connection.close()
