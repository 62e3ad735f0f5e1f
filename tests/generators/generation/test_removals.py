"""Which segments are removed together."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.generators.generation.removals import RemovalSettings, choose_removals, priority
from lhaw_record.recorder.events.values import DIMENSIONS, Segment

PROMPT = "Read orders.csv, keep the 20 newest rows of Lisbon, sort them by date, and write report.xlsx for Ada."


def _segment(segment_id, value, dimension="goal", criticality=1.0, guessability=0.0, text=None):
    return Segment(
        segment_id=segment_id,
        value=value,
        text=text,
        dimension=dimension,
        subdimension="target",
        criticality=criticality,
        guessability=guessability,
    )


SEGMENTS = (
    _segment("S1", "orders.csv", "input", guessability=0.5),
    _segment("S2", "20", "constraint"),
    _segment("S3", "Lisbon", "constraint"),
    _segment("S4", "by date", "constraint", criticality=0.5),
    _segment("S5", "report.xlsx", "goal"),
    _segment("S6", "Ada", "context", criticality=0.0),
)


def _ids(removals):
    return ["+".join(each.segment_id for each in removal.segments) for removal in removals]


def test_the_most_important_segment_comes_first_and_dimensions_take_turns():
    """Priority decides first; among equals the next is of another dimension, then comes the earlier in the prompt."""
    removals = choose_removals(PROMPT, SEGMENTS, RemovalSettings(sizes=(1,)))
    # priorities: S1 1/2, S2 1, S3 1, S4 1/2, S5 1, S6 0. S2 first; then S3 counts 1/1.5, so S5 comes, then S3.
    assert _ids(removals) == ["S2", "S5", "S3", "S1", "S4"]


def test_a_segment_of_no_importance_is_never_removed():
    """What is cosmetic, obvious or without a score is no candidate."""
    unscored = _segment("S7", "newest", criticality=None, guessability=None)
    obvious = _segment("S8", "rows", guessability=1.0)
    removals = choose_removals(PROMPT, (*SEGMENTS, unscored, obvious), RemovalSettings(sizes=(1, 2), max_per_task=99))
    assert not {"S6", "S7", "S8"} & {each.segment_id for removal in removals for each in removal.segments}


def test_sizes_take_turns_until_one_has_nothing_left():
    """With one and two segments every other subset has two, as long as there are both."""
    removals = choose_removals(PROMPT, SEGMENTS[:2], RemovalSettings(sizes=(1, 2), max_per_task=9))
    assert [len(removal.segments) for removal in removals] == [1, 2, 1]


def test_every_subset_comes_under_every_severity():
    """Severities are compared on the same removals."""
    removals = choose_removals(PROMPT, SEGMENTS, RemovalSettings(severities=("delete", "vaguify"), max_per_task=3))
    assert [removal.severity for removal in removals] == ["delete", "vaguify"] * 3
    assert _ids(removals)[::2] == _ids(removals)[1::2]


def test_a_subset_is_possible_under_every_severity_or_not_chosen():
    """What cannot be removed in one of the wanted ways takes no place of those that can."""
    wanted = RemovalSettings(sizes=(1,), severities=("delete", "vaguify"), max_per_task=99)
    chosen = choose_removals(
        PROMPT,
        SEGMENTS,
        wanted,
        lambda removal: (removal.severity, removal.segments[0].segment_id) != ("vaguify", "S1"),
    )
    assert set(_ids(chosen)) == set(_ids(choose_removals(PROMPT, SEGMENTS, wanted))) - {"S1"}


def test_segments_that_overlap_are_not_removed_together():
    """Removing "by date" removes "date": two such segments are no pair."""
    nested = (_segment("S1", "by date"), _segment("S2", "date"), _segment("S3", "Ada"))
    removals = choose_removals(PROMPT, nested, RemovalSettings(sizes=(2,)))
    assert _ids(removals) == ["S1+S3", "S2+S3"]


@given(
    st.lists(
        st.tuples(st.sampled_from(DIMENSIONS), st.sampled_from((0.0, 0.5, 1.0)), st.sampled_from((0.0, 0.5, 1.0))),
        max_size=20,
    ),
    st.integers(0, 30),
    st.sampled_from(((1,), (2,), (1, 2), (1, 2, 3, 4))),
)
def test_candidates_are_distinct_worthy_and_few(scores, most, sizes):
    """No subset comes twice, none is above the limit, and the order does not depend on anything but the input."""
    words = [f"w{place}x" for place in range(len(scores))]
    segments = [
        _segment(f"S{place}", word, *score) for place, (word, score) in enumerate(zip(words, scores, strict=True), 1)
    ]
    settings = RemovalSettings(sizes=sizes, max_per_task=most)
    removals = choose_removals(" ".join(words), segments, settings)
    assert len(removals) <= most
    assert len(set(_ids(removals))) == len(removals)
    assert all(priority(each) >= 0.25 for removal in removals for each in removal.segments)
    assert removals == choose_removals(" ".join(words), segments, settings)


@pytest.mark.parametrize("size", [3, 4])
def test_more_than_two_facts_can_be_hidden_at_once(size):
    """The number of segments has no bound but what a prompt has."""
    removals = choose_removals(PROMPT, SEGMENTS[:5], RemovalSettings(sizes=(size,), max_per_task=99))
    assert len(removals) == len(list(combinations(range(5), size)))
