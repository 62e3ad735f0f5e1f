"""The kept set of labelled rewritings, and what the gate is worth on it."""

import re
from collections import Counter
from pathlib import Path

import pytest

from lhaw_record.generators.gate.calibration import SETS, labelled, rates_on


def test_the_kept_set_is_large_and_mostly_blind():
    """At least 300 rewritings that are older than the rules, of every kind of fault; one set has turned demands."""
    blind = labelled("unseen")
    assert len(blind) >= 300
    faults = Counter(each.fault for each in blind)
    assert faults[""] >= 100
    assert set(faults) == {
        *("", "recoverable", "recoverable_from_files", "broken", "collateral", "added"),
        *("dangling", "placeholder", "question_tells"),
    }
    assert sum(bool(each.fault) for each in labelled("seen")) == 13
    assert {each.fault for each in labelled("inverted")} == {"", "inverted"}


@pytest.mark.parametrize("name", SETS)
def test_every_rewriting_is_of_its_prompt(name):
    """Each value is in its prompt, each rewriting differs from it, and none is there twice."""
    kept = labelled(name)
    for each in kept:
        assert all(segment.value in each.original for segment in each.removal.segments)
        assert each.rewriting.prompt != each.original
    assert len({(e.rewriting.prompt, e.rewriting.expected_questions, e.removal.severity) for e in kept}) == len(kept)


@pytest.mark.thorough
def test_what_is_known_is_found():
    """The faults that helped to write the rules are found, and no good rewriting of these sets is refused."""
    for name in ("seen", "inverted", "otherwise", "desk"):
        found = rates_on(name)
        assert (found.missed, found.refused) == (0, 0), name


@pytest.mark.thorough
def test_the_page_prints_the_rates():
    """docs/generating.md says what the gate misses and refuses, as it is measured now."""
    page = (Path(__file__).parents[3] / "docs" / "generating.md").read_text(encoding="utf-8")
    for name in SETS:
        found = rates_on(name)
        row = re.search(rf"(?m)^\| {name}[^|]*\|(.*)\|$", page)
        assert row, name
        cells = [cell.strip() for cell in row[1].split("|")]
        assert cells == [
            str(found.prompts),
            _rate(found.missed, found.bad, found.missed_interval),
            _rate(found.refused, found.good, found.refused_interval),
        ]


def _rate(errors, of, interval):
    if not of:
        return "-"
    low_high = f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval and errors else ""
    return f"{errors} of {of}{low_high}"
