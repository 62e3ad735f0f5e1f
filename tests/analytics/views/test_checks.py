"""Each claim finds the store that breaks it, and nothing in one that does not."""

from collections.abc import Callable

import msgspec
import pytest

from lhaw_record.analytics.views.store import checks, claims, connect
from lhaw_record.recorder.events import (
    ActionFinished,
    ActionStarted,
    CheckpointScored,
    ModelFailed,
    ModelResponded,
    OracleBudgetSet,
    QuestionAnswered,
    QuestionAsked,
    TrialFailed,
    TrialFinished,
    TrialStarted,
    Wire,
)
from lhaw_record.recorder.events.interaction import RevealedSegment
from lhaw_record.recorder.events.values import Checkpoint, Usage
from tests.analytics.make_store import Store, scored


def sound_store():
    """A store without a fault: an oracle with its budget, an injected trial, a question, a failed attempt."""
    store = Store(trials=1)
    store.task("t", (1.0,))
    store.variant("t", "v")
    oracle = store.trial("t", "full", 0, actions=["read a", "submit"])
    store.budget("t", (2,), 2)
    event = msgspec.structs.replace(store.envelopes[-1].event, trial_ids=(oracle,))
    store.envelopes[-1] = msgspec.structs.replace(store.envelopes[-1], event=event)
    store.trial("v", "ask_user", 0, actions=["ask_user S1", "submit"])
    store.trial("v", "ask_user", 1, actions=["read a"], ends="failed")
    store.trial("v", "inject_90", 0, actions=["read a", "submit"], budget=2, injected_after=1)
    return store


def changed(kind, where=lambda event: True, **fields) -> Callable[[Store], None]:
    """Return a fault: the first event of a type for which ``where`` holds gets other fields."""

    def damage(store):
        for place, envelope in enumerate(store.envelopes):
            if isinstance(envelope.event, kind) and where(envelope.event):
                event = msgspec.structs.replace(envelope.event, **fields)
                store.envelopes[place] = msgspec.structs.replace(envelope, event=event)
                return
        raise AssertionError(f"no {kind.__name__} to change")

    return damage


def dropped(kind, where=lambda event: True) -> Callable[[Store], None]:
    """Return a fault: such an event was never written, and the later ones of its stream close the gap."""

    def damage(store):
        place = next(
            place for place, one in enumerate(store.envelopes) if isinstance(one.event, kind) and where(one.event)
        )
        gone = store.envelopes.pop(place)
        for later, one in enumerate(store.envelopes):
            if one.stream_id == gone.stream_id and one.sequence > gone.sequence:
                store.envelopes[later] = msgspec.structs.replace(one, sequence=one.sequence - 1)

    return damage


def appended(make) -> Callable[[Store], None]:
    """Return a fault: one more event in the stream of the trial that asked."""

    def damage(store):
        asked = next(one for one in store.envelopes if isinstance(one.event, QuestionAsked))
        store.add(asked.stream_id, make(), asked.trial_id, asked.attempt)

    return damage


def gap(store):
    """An event was lost without a trace."""
    del store.envelopes[-2]


def _second_budget(store):
    event = next(each.event for each in store.envelopes if isinstance(each.event, OracleBudgetSet))
    store.add(store.run_id, msgspec.structs.replace(event, budget_actions=event.budget_actions + 1))


FAULTS = {
    "sequences_are_gapless": gap,
    "attempts_start_and_end_once": appended(
        lambda: QuestionAnswered(question_id="q1", answer="", simulator="exact", latency_ms=0.0)
    ),
    "finished_attempts_are_graded": dropped(CheckpointScored),
    "results_belong_to_checkpoints": appended(lambda: scored(Checkpoint(checkpoint_id="c9", label=""), 1.0)),
    "action_counts_agree": changed(TrialFinished, action_count=7),
    "actions_are_numbered": changed(ActionStarted, lambda event: event.action_index == 2, action_index=3),
    "actions_finish": dropped(ActionFinished),
    "answers_have_questions": dropped(QuestionAsked),
    "answers_reveal_removed_segments": changed(
        QuestionAnswered, revealed=(RevealedSegment(segment_id="S7", is_requested=True),)
    ),
    "questions_need_the_channel": changed(TrialStarted, lambda event: event.channel == "ask_user", channel="none"),
    "budgets_are_rounded_means": changed(OracleBudgetSet, budget_actions=3),
    "budgets_are_set_once": _second_budget,
    "budgets_count_full_trials": changed(OracleBudgetSet, action_counts=(3,), budget_actions=3),
    "injections_follow_the_budget": changed(TrialStarted, lambda event: event.inject_percent == 90, budget_actions=20),
    "injections_use_the_set_budget": changed(OracleBudgetSet, budget_actions=5),
    "success_agrees_with_points": changed(TrialFinished, is_success=False),
    "replies_have_requests": changed(ModelResponded, call_id="other"),
    "recorded_trials_are_known": changed(TrialFinished, action_count=None),
    "costs_agree": changed(TrialFinished, cost_usd=3.0),
    "tasks_and_variants_are_registered": changed(TrialStarted, variant_digest="other"),
}


def broken_by(store):
    """The names of the claims that do not hold."""
    connection = connect(store.snapshot(), only=set(claims()))
    try:
        return {finding.claim for finding in checks(connection) if finding.rows and finding.columns}
    finally:
        connection.close()


def test_a_sound_store_breaks_nothing():
    """No claim is broken where nothing is wrong."""
    assert broken_by(sound_store()) == set()


@pytest.mark.thorough
@pytest.mark.parametrize(("ended_by", "expected"), [("submitted", {"answers_have_questions"}), ("time_limit", set())])
def test_a_question_may_wait_for_its_answer_when_time_runs_out(ended_by, expected):
    """In a finished attempt every question has its answer, unless the limit struck while the user was thinking."""
    store = sound_store()
    asker = next(one.stream_id for one in store.envelopes if isinstance(one.event, QuestionAsked))
    for place, one in enumerate(store.envelopes):
        if one.stream_id == asker and isinstance(one.event, TrialFinished):
            event = msgspec.structs.replace(one.event, ended_by=ended_by)
            store.envelopes[place] = msgspec.structs.replace(one, event=event)
    dropped(QuestionAnswered)(store)
    assert broken_by(store) == expected


UNKNOWN = [
    (changed(TrialStarted, seed=None), "keys"),
    (changed(TrialStarted, prompts_digest=None), "keys"),
    (changed(TrialFinished, ended_by=None), "end"),
    (changed(TrialFinished, duration_ms=None), "end"),
    (changed(ModelResponded, latency_ms=None), "reply times"),
    (changed(ActionFinished, duration_ms=None), "action times"),
    (changed(QuestionAnswered, revealed=None), "revealed segments"),
]


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("fault", "what"), UNKNOWN)
def test_only_an_import_may_lack_a_value(fault, what):
    """What our own runner always knows is a fault where it was recorded here, and none where it was imported."""
    store = sound_store()
    fault(store)
    assert _unknown(store) == [[what]]
    for place, envelope in enumerate(store.envelopes):
        if isinstance(envelope.event, TrialStarted):
            event = msgspec.structs.replace(envelope.event, origin="elsewhere")
            store.envelopes[place] = msgspec.structs.replace(envelope, event=event)
    assert _unknown(store) == []


def cut_short(event=None) -> Callable[[Store], None]:
    """Return a change: a request of the failed attempt has this end in the place of its reply, or none."""

    def change(store):
        failed = next(one.stream_id for one in store.envelopes if isinstance(one.event, TrialFailed))
        reply = next(
            one for one in store.envelopes if one.stream_id == failed and isinstance(one.event, ModelResponded)
        )
        if event is None:
            dropped(ModelResponded, lambda found: found is reply.event)(store)
        else:
            lost = msgspec.structs.replace(event, call_id=reply.event.call_id)
            store.envelopes[store.envelopes.index(reply)] = msgspec.structs.replace(reply, event=lost)

    return change


LATE = ModelFailed(
    call_id="", role="agent", error_kind="timeout", message="late", is_retried=False, latency_ms=1.0, http_status=408
)


@pytest.mark.thorough
@pytest.mark.parametrize(
    "change",
    [
        changed(
            ModelResponded,
            usage=Usage(input_tokens=None, output_tokens=None, cached_input_tokens=None, cost_usd=0.01),
        ),
        cut_short(),
        cut_short(msgspec.structs.replace(LATE, wire=Wire(sent_sha256="0" * 64))),
    ],
    ids=["no usage", "killed", "too late"],
)
def test_tokens_may_be_unknown_in_trials_of_our_own(change):
    """A server may report no usage, and a request that was sent may have no end or none that says what it used."""
    store = sound_store()
    change(store)
    assert broken_by(store) == set()


def _unknown(store):
    connection = connect(store.snapshot(), only={"recorded_trials_are_known"})
    try:
        return [unknown for _, unknown in connection.execute("from recorded_trials_are_known").fetchall()]
    finally:
        connection.close()


@pytest.mark.sampled(16)
@pytest.mark.parametrize("claim", claims())
def test_a_fault_is_found(claim):
    """Every claim has a fault that breaks it, and says so with rows."""
    store = sound_store()
    FAULTS[claim](store)
    assert claim in broken_by(store)
