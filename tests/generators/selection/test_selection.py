"""Selecting from a store: who can be chosen and who cannot, one event, and the class that it gives."""

import anyio
import msgspec
import pytest

from lhaw_record.analytics.views.build_order import named_in
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.generation.generation_index import load_generation_index
from lhaw_record.generators.selection import (
    REASONS,
    SelectionRequest,
    eligible_variants,
    latest_selections,
    select_benchmark,
)
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import BenchmarkSelected, Envelope, RunFinished, RunStarted, TrialStarted
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes, read_snapshot
from lhaw_record.recorder.reading.registrations import Registrations
from lhaw_record.recorder.storage.creation import create_store
from tests.analytics import reference
from tests.analytics.make_store import Store as Written
from tests.analytics.random_stores import PLANNED, random_store
from tests.generators.selection.stores import SAME_FAILURE, STATES, classified, classify, of_every_kind, to_disk

WISH = SelectionRequest(name="mine", benchmark="desk", max_variants=10)


def select(root, request=WISH, experiment_id=None):
    """Select and record."""
    return anyio.run(lambda: select_benchmark(root, request, experiment_id=experiment_id))


def found(root, request):
    """Select without recording."""
    return anyio.run(lambda: select_benchmark(root, request, is_recorded=False))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A store with a variant of every kind."""
    return to_disk(tmp_path_factory.mktemp("selecting") / "s", of_every_kind())


def rows(root, query, **parameters):
    """The rows of a query."""
    connection = open_store(root, parameters=parameters, only=named_in(query))
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_variants_with_a_class_are_offered(root):
    """By label or by the classifier's trials; c = 0 with one state is outcome-critical, and counted as unjudged."""
    offered = eligible_variants(root, "desk")
    assert {each.variant_id: each.ambiguity_class for each in offered.candidates} == {
        "a1": "outcome-critical",
        "b1": "divergent",
        "c1": "benign",
        "b_unjudged": "outcome-critical",
        "c_labelled": "benign",
    }
    assert (offered.classifier, offered.trials, offered.unjudged) == ("c", 3, {"b_unjudged"})
    c1 = next(each for each in offered.candidates if each.variant_id == "c1")
    assert (c1.task_id, c1.dimensions, c1.segment_count, c1.severity) == (
        "c",
        ("constraint", "context"),
        2,
        "genericize",
    )


@pytest.mark.thorough
def test_the_others_are_counted_by_their_reason(root):
    """Each kind once; a variant that was given up and then made, or may still be made, is none of them."""
    assert eligible_variants(root, "desk").excluded == {
        "control": 1,
        "no_segments": 1,
        "no_class": 1,
        "trials_incomplete": 1,
        "new_task": 1,
        "failed_checks": 1,
    }
    assert set(eligible_variants(root, "desk").excluded) < set(REASONS)


@pytest.mark.thorough
def test_the_latest_version_counts(tmp_path):
    """A variant that changed, and one whose task changed after it was made from it, are not chosen as they were."""
    written = classified(a1="benign delete goal", b1="benign delete goal")
    old = written.tasks["b"]
    written.variant("a", "a1", "input", severity="delete")  # not tried since
    made = written.envelopes
    place = next(
        i for i, each in enumerate(made) if getattr(getattr(each.event, "variant", None), "variant_id", "") == "b1"
    )
    event = msgspec.structs.replace(made[place].event, task_digest=old.task_digest)
    made[place] = msgspec.structs.replace(made[place], event=event)
    root = to_disk(tmp_path / "s", written)
    assert [each.variant_id for each in eligible_variants(root, "desk").candidates] == ["b1"]
    assert eligible_variants(root, "desk").excluded == {"no_class": 1}
    written.task("b", (1, 1, 1))
    again = to_disk(tmp_path / "t", written)
    assert (eligible_variants(again, "desk").candidates, eligible_variants(again, "desk").excluded) == (
        (),
        {"superseded": 1, "no_class": 1},
    )


def test_one_event_says_everything(root, tmp_path):
    """Chosen variants and classes, quotas, exclusions, seed; in a closed run under the named experiment."""
    copy = to_disk(tmp_path / "s", of_every_kind())
    selection = select(copy, experiment_id="lab")
    (envelope,) = [each for each in read_envelopes(copy) if isinstance(each.event, BenchmarkSelected)]
    event = envelope.event
    assert (event, envelope.experiment_id) == (selection.event, "lab")
    assert (event.selection, event.benchmark, event.seed, event.max_variants, event.classifier) == (
        "mine",
        "desk",
        0,
        10,
        "c",
    )
    assert [(each.ambiguity_class, each.wanted, each.chosen) for each in event.quotas] == [
        ("outcome-critical", 4, 2),
        ("divergent", 3, 1),
        ("benign", 3, 2),
    ]
    assert {each.reason: each.count for each in event.excluded} == dict(eligible_variants(copy, "desk").excluded)
    own = [each.event for each in read_envelopes(copy) if each.stream_id == envelope.stream_id]
    assert [type(each) for each in own] == [RunStarted, BenchmarkSelected, RunFinished]
    assert own[2].outcome == "completed"
    assert (selection.shortfalls, selection.unjudged) == ({"outcome-critical": 2, "divergent": 2, "benign": 1}, 1)
    assert verify(copy).findings == ()


@pytest.mark.thorough
def test_selecting_again_adds_nothing_until_something_changes(tmp_path):
    """The same selection is recorded once; another content under its name is recorded, and is the one that counts."""
    root = to_disk(
        tmp_path / "s", classified(a1="benign delete goal", b1="benign delete goal", c1="benign delete input")
    )
    request = SelectionRequest(name="mine", benchmark="desk", percents={"benign": 100}, max_variants=2)
    first = select(root, request)
    assert (first.is_known, select(root, request).is_known) == (False, True)
    other = select(root, msgspec.structs.replace(request, max_variants=3))
    assert not other.is_known
    events = [each.event for each in read_envelopes(root) if isinstance(each.event, BenchmarkSelected)]
    assert len(events) == 2
    assert latest_selections(read_snapshot(root)) == {("desk", "mine"): other.event}


def test_the_selection_gives_the_class(tmp_path):
    """Views use the class of the selection from then on, whatever later trials of the classifier say."""
    written = classified(a1="benign delete goal", b1="divergent delete goal")
    root = to_disk(tmp_path / "s", written)
    before = "select variant_id, ambiguity_class, class_source, classified_by from ambiguity_classes order by all"
    assert rows(root, before) == [("a1", "benign", "classifier", "c"), ("b1", "divergent", "classifier", "c")]
    select(root)
    after = [("a1", "benign", "selection", "c"), ("b1", "divergent", "selection", "c")]
    assert rows(root, before) == after
    later = Written(experiment="later")
    later.run_id = "later-run"
    later.tasks["a"], later.variants["a1"] = written.tasks["a"], written.variants["a1"]
    for index in range(3, 6):
        later.trial("a1", "underspecified", index, scores=(0, 0), agent="c", role="classifier")
    to_disk(root, later)
    assert rows(root, "select ambiguity_class, n_success from observed_classes where variant_id = 'a1'") == [
        ("divergent", 3)
    ]
    assert rows(root, before) == after


@pytest.mark.thorough
def test_it_must_be_clear_whose_trials_classify(tmp_path):
    """Two classifying agents: one must be named; one that has no classifying trials is refused with those that have."""
    written = classified(a1="benign delete goal")
    for index, scores in enumerate(STATES["divergent"]):
        written.trial("a1", "underspecified", index, scores=scores, agent="d", role="classifier")
        written.trial("a1", "underspecified", index, scores=scores, agent="e")
    root = to_disk(tmp_path / "s", written)
    with pytest.raises(GeneratorError, match="agents c, d classified variants; name one of them with --classifier"):
        eligible_variants(root, "desk")
    assert [each.ambiguity_class for each in eligible_variants(root, "desk", classifier="c").candidates] == ["benign"]
    assert [each.ambiguity_class for each in eligible_variants(root, "desk", classifier="d").candidates] == [
        "divergent"
    ]
    with pytest.raises(GeneratorError, match=r"agent 'e' has no classifying trials \(there are: c, d\)"):
        eligible_variants(root, "desk", classifier="e")
    select(root, msgspec.structs.replace(WISH, classifier="d"))
    query = "select ambiguity_class, classified_by, n_success from ambiguity_classes"
    assert rows(root, query) == [("divergent", "d", 2)], "beside the class stand the trials that gave it"
    assert rows(root, query, classifier_agent="c") == [("benign", "c", 3)]


@pytest.mark.thorough
def test_several_classifying_agents_vote(tmp_path):
    """What most of them say is the class, and a tie is counted as such."""
    written = classified(a1="benign delete goal", b1="benign delete input", c1="benign delete context")
    for variant_id, said in {"a1": "outcome-critical benign", "b1": "divergent", "c1": "benign benign"}.items():
        for agent, name in zip("de", said.split(), strict=False):
            for index, scores in enumerate(STATES[name]):
                written.trial(variant_id, "underspecified", index, scores=scores, agent=agent, role="classifier")
    root = to_disk(tmp_path / "s", written)
    offered = eligible_variants(root, "desk", classifier="vote")
    assert {each.variant_id: each.ambiguity_class for each in offered.candidates} == {"a1": "benign", "c1": "benign"}
    assert (offered.classifier, offered.excluded) == ("vote", {"classifiers_tie": 1})
    chosen = select(root, msgspec.structs.replace(WISH, classifier="vote", percents={"benign": 100}))
    assert chosen.event.classifier == "vote"
    query = "select ambiguity_class, classified_by, n_trials from ambiguity_classes where class_source = 'selection'"
    assert rows(root, query) == [("benign", "vote", 9)] * 2


@pytest.mark.thorough
def test_variants_can_be_those_of_an_experiment(tmp_path):
    """Only what was registered there is looked at, also what failed there."""
    here, there = classified(a1="benign delete goal"), Written(experiment="other")
    there.task("b", (1, 1))
    there.variant("b", "b1", "goal")
    classify(there, "b1", STATES["benign"])
    there.reject("b", "b2", "value_remains")
    root = to_disk(tmp_path / "s", here, there)
    offered = eligible_variants(root, "desk", experiment="other")
    assert ([each.variant_id for each in offered.candidates], offered.excluded) == (["b1"], {"failed_checks": 1})
    assert eligible_variants(root, "desk", experiment="e").excluded == {}


@pytest.mark.thorough
def test_a_withdrawal_is_one_of_its_experiment(tmp_path):
    """What another experiment made and keeps stays; what only runs registered beside it goes with it."""
    here, there, run = (Written(experiment=name, trials=3) for name in ("here", "there", "run"))
    for written in (here, there, run):
        written.task("a", (1, 1))
    for variant_id, makers in (("a1", (here, there)), ("a2", (here,))):
        for written in (*makers, run):
            fields = {"rewriter": "rules/4", "rewriter_digest": "0"} if written is not run else {}
            maker = written if written is not run else makers[-1]
            variant = written.variant("a", variant_id, prompt=f"{variant_id} {maker.experiment}")
            event = msgspec.structs.replace(written.envelopes[-1].event, variant=variant, **fields)
            written.envelopes[-1] = msgspec.structs.replace(written.envelopes[-1], event=event)
        here.reject("a", variant_id, "recoverable_by_paraphrase", attempt=0)
    classify(there, "a1", STATES["benign"])
    root = to_disk(tmp_path / "s", there, here, run)
    offered = {name: eligible_variants(root, "desk", experiment=name) for name in (None, "here", "there", "run")}
    assert {name: [each.variant_id for each in found.candidates] for name, found in offered.items()} == {
        None: ["a1"],
        "here": [],
        "there": ["a1"],
        "run": ["a1"],
    }
    assert {name: found.excluded for name, found in offered.items()} == {
        None: {"withdrawn": 1},
        "here": {"withdrawn": 2},
        "there": {},
        "run": {"withdrawn": 1},
    }
    listed = {name: load_generation_index(read_snapshot(root), name).variants.values() for name in (None, "here")}
    prompts = {name: {each.variant.prompt for each in found} for name, found in listed.items()}
    assert prompts == {None: {"a1 there"}, "here": set()}
    registrations = Registrations.read(read_snapshot(root))
    run_from = {name: [*registrations.of_experiment(name)] for name in (None, "here", "there", "run")}
    assert {name: [(e.experiment_id, e.event.variant.prompt) for e in found] for name, found in run_from.items()} == {
        None: [("there", "a1 there"), ("run", "a1 there")],
        "here": [],
        "there": [("there", "a1 there")],
        "run": [("run", "a1 there")],
    }


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"percents": {"benign": 60, "divergent": 60}}, "do not add up to 100"),
        ({"percents": {"benign": 130, "divergent": -30}}, "do not add up to 100"),
        ({"percents": {"new_task": 100}}, "the quotas name 'new_task'"),
        ({"max_variants": 0}, "0 variants cannot be selected"),
        ({"benchmark": "tac"}, "no variants of benchmark tac"),
    ],
)
def test_wishes_that_cannot_be_met_are_refused(root, changes, message):
    """Each with its own sentence, and nothing is recorded."""
    with pytest.raises(GeneratorError, match=message):
        found(root, msgspec.structs.replace(WISH, **changes))


@pytest.mark.thorough
def test_nothing_to_choose_is_an_error_and_records_nothing(tmp_path):
    """The message counts why; a store that is not there is not made; a bad name is refused."""
    written = classified()
    written.variant("a", "a1", "goal")
    root = to_disk(tmp_path / "s", written)
    with pytest.raises(GeneratorError, match="no variant that can be chosen: 1 no_class"):
        select(root)
    assert latest_selections(read_snapshot(root)) == {}
    with pytest.raises(StoreError, match="is not a store"):
        select(tmp_path / "nowhere")
    assert not (tmp_path / "nowhere").exists()
    with pytest.raises(StoreError, match="'Mine' is not usable"):
        select(root, msgspec.structs.replace(WISH, name="Mine"))


def test_a_running_experiment_is_left_alone(root):
    """Who holds the experiment's lock is named, and nothing is recorded."""
    with create_store(root).hold_experiment("busy"), pytest.raises(StoreError, match="busy"):
        select(root, experiment_id="busy")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(4))
def test_random_stores_offer_what_a_slow_reading_does(seed, tmp_path):
    """The candidates and their classes are those of the reference, whatever became of the trials."""
    written = random_store(seed, "task")
    written.envelopes[:] = map(_classifying, written.envelopes)
    root = to_disk(tmp_path / "s", written)
    classes = reference.classes_of(reference.trials_of(written.envelopes, set()), PLANNED, "paper")
    expected = {variant: found for (agent, variant), found in classes.items() if agent == "a" and found}
    offered = eligible_variants(root, "desk")
    assert {each.variant_id: each.ambiguity_class for each in offered.candidates} == expected
    assert len(offered.candidates) + sum(offered.excluded.values()) == len(written.variants)


def _classifying(envelope: Envelope) -> Envelope:
    """The same event, agent a being the classifier."""
    event = envelope.event
    if not isinstance(event, TrialStarted) or event.agent != "a":
        return envelope
    return msgspec.structs.replace(envelope, event=msgspec.structs.replace(event, role="classifier"))


@pytest.mark.thorough
def test_an_unjudged_variant_is_counted_until_a_judge_speaks(tmp_path):
    """Rejected it is outcome-critical and no longer counted."""
    written = classified()
    written.variant("a", "a1", "goal")
    classify(written, "a1", SAME_FAILURE)
    before = to_disk(tmp_path / "s", written)
    assert found(before, WISH).unjudged == 1
    written.judge_new_task(
        "a1", [written.streams["a1", "underspecified", index, "c"] for index in range(3)], "rejected"
    )
    after = to_disk(tmp_path / "t", written)
    assert (found(after, WISH).unjudged, len(found(after, WISH).chosen)) == (0, 1)
