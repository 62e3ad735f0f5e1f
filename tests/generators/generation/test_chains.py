"""The rule for chains: which segment specifies the one before it, and which only stands beside it."""

import pytest

from lhaw_record.generators.generation.removals import chain_pairs, chained
from lhaw_record.recorder.events.values import Segment


def segment(segment_id, value, subdimension="content"):
    """A segment with this value."""
    return Segment(segment_id=segment_id, value=value, dimension="goal", subdimension=subdimension)


@pytest.mark.parametrize(
    ("prompt", "first", "second", "kind"),
    [
        ("Pay on 2025-10-01, written as DD.MM.YYYY.", "2025-10-01", "DD.MM.YYYY", "format"),
        ("Give the average salary rounded to two decimals.", "average salary", "two decimals", "precision"),
        ("State the driving distance in miles.", "driving distance", "miles", "format"),
        ("List the open tickets, the oldest first.", "open tickets", "the oldest first", "format"),
        ("Add the totals (in whole euros).", "totals", "whole euros", "precision"),
    ],
)
def test_what_specifies_the_one_before_is_chained(prompt, first, second, kind):
    """Form, unit, order and rounding that stand directly behind a segment can only be asked for after it."""
    segments = [segment("S1", first), segment("S2", second, kind)]
    assert [each.revealed_after for each in chained(prompt, segments)] == [None, "S1"]
    ((parent, child),) = chain_pairs(prompt, segments)
    assert (parent.value, child.value) == (first, second)


@pytest.mark.parametrize(
    ("prompt", "first", "second", "kind"),
    [
        ("List the open tickets. Round to two decimals.", "open tickets", "two decimals", "precision"),
        ("Read the rules in handbook.md, rounded to two decimals.", "handbook.md", "two decimals", "precision"),
        ("Give the average salary of last year in a long table.", "average salary", "long table", "format"),
        ("Give the average salary in Berlin.", "average salary", "Berlin", "location"),
        ("In miles, state the driving distance.", "driving distance", "miles", "format"),
    ],
)
def test_what_only_stands_beside_is_not(prompt, first, second, kind):
    """Another sentence, a file, words between, another kind of thing, or the other order make no chain."""
    segments = [segment("S1", first), segment("S2", second, kind)]
    assert chained(prompt, segments) == tuple(segments)
    assert chain_pairs(prompt, segments) == []
