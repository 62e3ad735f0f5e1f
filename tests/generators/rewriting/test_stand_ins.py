"""What is put in the place of a value: nothing that no person would write."""

import pytest

from generators.protocol import Removal
from generators.rewriting.diff import hunks
from generators.rewriting.english import english
from generators.rewriting.losses import is_still_said
from generators.rewriting.stand_ins import unnatural
from tests.generators.rewriting.making import segment


def faults(original, rewritten, severity="vaguify", removed=None):
    """Return what is odd about a rewriting."""
    removal = Removal(segments=(removed or segment("x"),), severity=severity)
    return list(unnatural(original, hunks(original, rewritten), removal))


@pytest.mark.parametrize(
    ("original", "rewritten", "fault"),
    [
        ("Start Nimbus now.", "Start something now.", "nobody says it like this"),
        ("Walk to its nearest exit.", "Walk to its relevant exit.", "belongs to somebody"),
        ("All 6 teams met.", "All a certain number of teams met.", "determine one noun"),
        ("Add it to the test data `a.csv` today.", "Add it to the test certain data today.", "behind the noun"),
        ("List mean salary by town.", "List suitable salary by town.", "'salary' has no article"),
        ("Halls over 400 square feet.", "Halls over a certain feet.", "before a plural"),
        ("Halls over 400 square feet.", "Halls over certain feet.", "a unit without a number"),
        ("Find 2h of free time.", "Find a time of free time.", "said again"),
        ("Write a.txt, b.txt, c.txt.", "Write a.txt, a certain file, c.txt.", "one of several names"),
        ("Have columns with headers 'A' and 'B'.", "Have columns with headers certain elements.", "side by side"),
    ],
)
def test_an_odd_stand_in_is_found(original, rewritten, fault):
    """Empty words, doubled articles and adjectives in the wrong place are named."""
    found = faults(original, rewritten)
    assert any(fault in each for each in found), found


@pytest.mark.parametrize(
    ("original", "rewritten"),
    [
        ("Open `a.csv` now.", "Open the file now."),
        ("Save it as a.csv here.", "Save it under the agreed name here."),
        ("Keep bills above 250 EUR.", "Keep bills above a certain amount."),
        ("Ask Ada Berg for it.", "Ask someone for it."),
        ("Check my local files.", "Check my relevant files."),
    ],
)
def test_a_good_stand_in_passes(original, rewritten):
    """What a person would write in its place is no fault."""
    assert faults(original, rewritten) == []


def test_the_second_of_two_keeps_its_preposition():
    """A cut that takes the preposition of two names along leaves the second hanging."""
    original = "Ask for the hours of Ada Berg and Bo Chan today."
    assert faults(original, "Ask for the hours and Bo Chan today.", "delete")
    assert faults(original, "Ask for the hours of Bo Chan today.", "delete") == []
    assert faults("Save it in May and print it.", "Save it and print it.", "delete") == []


def test_half_of_what_was_joined_and_persons():
    """The last noun of two does not stand for both, and a person is not called it."""
    rent = segment("mean rent and standard deviation", "goal", "content")
    original = "Give the mean rent and standard deviation by town."
    assert faults(original, "Give the relevant deviation by town.", removed=rent)
    assert faults(original, "Give the relevant figures by town.", removed=rent) == []
    assert faults("Wait until Ada Berg agrees.", "Wait until it agrees.", removed=segment("Ada Berg"))


@pytest.mark.parametrize(
    ("value", "rest", "is_said"),
    [
        ("shortened version of the paper", "Put it into the shortened version. Keep the paper.", True),
        ("Unit_Prices", "Save it as unit_prices.xlsx.", True),
        ("2011", "Save it as 2011_pie.png.", True),
        ("shortened version of the paper", "Put it into a version. Keep the paper.", False),
        ("net sales of each town", "Show net sales and the town.", False),
        ("unit_prices.xlsx", "Take the unit prices.", False),
        ("teal", "A teal door.", False),
        ("12", "Room 12.", False),
    ],
)
def test_what_the_rest_still_says_is_not_missing(value, rest, is_said):
    """A phrase whose words all stay, the first two together, is not removed; names of files and single words are."""
    assert is_still_said(segment(value), rest, english()) is is_said
