"""What reviewers decide is recorded, folded, selected by and printed."""

from pathlib import Path

import anyio
import pytest

from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.command_line import main
from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.reviewing.messages import DecisionRequest
from lhaw_record.generators.reviewing.reviews import REASONS, read_decisions, reviewable, to_review
from lhaw_record.generators.reviewing.session import review_session
from lhaw_record.generators.selection import SelectionRequest, select_benchmark
from lhaw_record.generators.selection.eligibility import eligible_variants
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import VariantGenerated
from lhaw_record.recorder.reading.reader import read_snapshot
from tests.analytics.make_store import Store as Written
from tests.generators.selection.stores import classified, to_disk

VARIANTS = {f"{task}{number}": "benign delete goal" for task in "abc" for number in (1, 2)}


@pytest.fixture
def store(tmp_path):
    """A store with six benign variants of three tasks."""
    return to_disk(tmp_path / "store", classified(**VARIANTS))


def review(store, reviewer, decisions):
    """Record a sitting: decisions by variant id, such as ``accepted`` or ``rejected unnatural``."""

    async def sit():
        async with review_session(store, reviewer) as session:
            items = {each.variant.variant_id: each for each in reviewable(session.snapshot)}
            for variant_id, words in decisions.items():
                decision, _, reason = words.partition(" ")
                prompt = "Do it." if decision == "edited" else None
                item = items[variant_id]
                asked = DecisionRequest(
                    variant_digest=item.variant_digest, decision=decision, reason=reason or None, prompt=prompt
                )
                await session.decide(item, asked)

    anyio.run(sit)


def waiting(store, reviewer):
    """The ids of the variants that a reviewer has not decided about, in order."""
    snapshot = read_snapshot(store)
    return [each.variant.variant_id for each in to_review(reviewable(snapshot), read_decisions(snapshot), reviewer)]


def rows(store, query):
    """The rows of a query over the views of a store."""
    connection = open_store(store)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def test_reviewers_work_apart_in_one_order(store):
    """Each has all variants to read, in the same mixed order; the other's decisions take none away."""
    everything = waiting(store, "anna")
    assert sorted(everything) == sorted(VARIANTS)
    assert everything != sorted(VARIANTS), "tasks are mixed"
    review(store, "anna", {everything[0]: "accepted", everything[1]: "rejected unnatural"})
    assert waiting(store, "anna") == everything[2:]
    assert waiting(store, "ben") == everything


def test_a_request_with_a_fault_is_not_there_to_review(tmp_path):
    """Nothing was removed from it, so the questions that reviewers answer are not about it."""
    written = classified(a1="benign delete goal")
    written.variant("a", "a-f", "goal", fault="underspecified_follow_up", follow_up="Please change that.")
    assert waiting(to_disk(tmp_path / "store", written), "anna") == ["a1"]


def test_the_last_decision_counts(store):
    """A reviewer may come back to a variant, in another sitting as well."""
    review(store, "anna", {"a1": "rejected unnatural"})
    review(store, "anna", {"a1": "accepted"})
    assert rows(store, "select decision, review_reason, decided_count from variant_reviews") == [("accepted", None, 2)]


@pytest.mark.thorough
def test_an_edit_is_a_variant_that_the_other_reviewer_reads(store):
    """It keeps segments and questions, has no class, names who wrote it, and its author has not to read it."""
    review(store, "anna", {"a1": "edited collateral"})
    (written,) = set(waiting(store, "ben")) - set(VARIANTS)
    assert written.startswith("a1-")
    assert written not in waiting(store, "anna")
    found = rows(
        store, f"select prompt, origin, rewriter, ambiguity_class from variants where variant_id = '{written}'"
    )
    assert found == [("Do it.", "hand_written", "reviewer anna", None)]


@pytest.mark.thorough
def test_an_edit_that_its_author_replaced_is_withdrawn(store):
    """Of two edits of one variant the last one stays; nobody is shown the other, and no selection has it."""
    review(store, "anna", {"a1": "edited collateral"})
    (first,) = set(waiting(store, "ben")) - set(VARIANTS)
    review(store, "ben", {first: "accepted"})
    review(store, "anna", {"a1": "rejected segment"})
    assert set(waiting(store, "anna")) == set(VARIANTS) - {"a1"}
    assert first not in waiting(store, "cleo")
    query = f"select count(*) from variants where variant_id = '{first}'"
    assert rows(store, query) == [(1,)], "what was recorded stays"


@pytest.mark.thorough
def test_the_table_of_two_reviewers_is_printed(store, capsys):
    """Rows of one reviewer, which have no other, stand before those of pairs."""
    review(store, "anna", {"a1": "accepted", "b1": "accepted"})
    review(store, "ben", {"a1": "accepted", "b1": "rejected unnatural"})
    assert main(["tables", str(store), "review_agreement", "--format", "csv"]) == 0
    printed = [line.split(",")[1:4] for line in capsys.readouterr().out.splitlines() if line.startswith("desk")]
    assert printed == [
        ["anna", "", "accepted_pct"],
        ["anna", "ben", "kappa"],
        ["anna", "ben", "agreement_pct"],
        ["ben", "", "accepted_pct"],
    ]


def test_only_accepted_variants_may_be_selected(store):
    """One reviewer is not enough where two are wanted, and one who refuses is enough."""
    review(store, "anna", {"a1": "accepted", "a2": "accepted", "b1": "accepted"})
    review(store, "ben", {"a1": "accepted", "a2": "rejected recoverable"})
    both = eligible_variants(store, "desk", reviewers=2)
    assert [each.variant_id for each in both.candidates] == ["a1"]
    assert (both.excluded["not_reviewed"], both.excluded["not_accepted"]) == (4, 1)


@pytest.mark.thorough
def test_a_selection_of_reviewed_variants(store):
    """Only what enough reviewers accepted and none refused, the rest counted by reason."""
    review(store, "anna", {"a1": "accepted", "a2": "accepted", "b1": "accepted", "b2": "rejected unnatural"})
    review(store, "ben", {"a1": "accepted", "a2": "rejected recoverable", "b2": "accepted"})
    one = eligible_variants(store, "desk", reviewers=1)
    assert [each.variant_id for each in one.candidates] == ["a1", "b1"]
    assert (one.excluded["not_reviewed"], one.excluded["not_accepted"]) == (2, 2)
    both = eligible_variants(store, "desk", reviewers=2)
    assert [each.variant_id for each in both.candidates] == ["a1"]
    assert len(eligible_variants(store, "desk").candidates) == len(VARIANTS)
    request = SelectionRequest(
        name="mine", benchmark="desk", percents={"outcome-critical": 0, "divergent": 0, "benign": 100}, reviewers=1
    )
    selection = anyio.run(select_benchmark, store, request)
    assert {each.variant_id for each in selection.event.variants} == {"a1", "b1"}


@pytest.mark.thorough
def test_variants_that_nobody_read_are_not_selected_as_reviewed(store):
    """They are counted as such."""
    percents = {"outcome-critical": 0, "divergent": 0, "benign": 100}
    reviewed = SelectionRequest(name="other", benchmark="desk", percents=percents, reviewers=1)
    with pytest.raises(GeneratorError, match="6 not_reviewed"):
        anyio.run(select_benchmark, store, reviewed)


def test_a_sitting_is_open_once(store):
    """A second one of the same reviewer is refused; another reviewer's goes on beside it."""

    async def twice(second):
        async with review_session(store, "anna"), review_session(store, second):
            pass

    anyio.run(twice, "ben")
    with pytest.raises(StoreError, match="review-anna"):
        anyio.run(twice, "anna")


def test_a_name_that_no_experiment_can_have_is_refused(store):
    """The message says what a name may be."""
    for name in ("Anna B", "../x", ""):
        with pytest.raises(GeneratorError, match="as a reviewer's name: take lower-case letters"):
            review(store, name, {})


def test_rules_that_cannot_judge_a_variant_say_so_and_find_nothing(tmp_path):
    """What a person wrote with the task was judged with passages that no store has; what rules wrote is judged."""
    written = Written(trials=1)
    written.task("a", (1,))
    for maker in ("written", "rules"):
        variant = written.variant("a", f"by {maker}", severity="delete")
        event = VariantGenerated(variant=variant, variant_digest=variant.variant_digest, rewriter=maker)
        written.add(written.run_id, event)
    store = to_disk(tmp_path / "store", written)
    found = {each.variant.variant_id: each.findings() for each in reviewable(read_snapshot(store))}
    assert found["by written"] == ((), "the store does not have the passages that belong to the segments")
    assert found["by rules"][0]
    assert found["by rules"][1] == ""


def test_every_reason_is_documented():
    """docs/selection.md lists them with their meanings."""
    text = (Path(__file__).resolve().parents[3] / "docs" / "selection.md").read_text(encoding="utf-8")
    for name, meaning in REASONS.items():
        assert f"| `{name}` | {meaning} |" in text
