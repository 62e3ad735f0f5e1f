"""The embedded rewriter: what it removes for certain, what it puts into slots, and what it refuses."""

import pytest

from generators.errors import RewritingFailed
from generators.gate import problems_of
from generators.protocol import Removal
from tests.generators.rewriting.rewriting_cases import REWRITER, rewritten, segment

REFUSED = None

# Each case: the prompt, the value, and the prompt deleted, vaguified and genericized.
CASES = [
    (
        "Add up the sales of the town. Sort the rows by price, cheapest first. Leave nothing out.",
        "price, cheapest first",
        "Add up the sales of the town. Leave nothing out.",
        REFUSED,
        REFUSED,
    ),
    (
        'Set it up for us. Create a new group:\n- Name: "Ten Days"\n- Motto: "Rise"\n- Size: "small"\n',
        "Rise",
        'Set it up for us. Create a new group:\n- Name: "Ten Days"\n- Size: "small"\n',
        REFUSED,
        REFUSED,
    ),
    (
        "Order the laptop (the one with 32 GB of memory) for our new colleague.",
        "the one with 32 GB of memory",
        "Order the laptop for our new colleague.",
        REFUSED,
        REFUSED,
    ),
    (
        "Write the list of suppliers to a file, sorted by price. Do this for all of them.",
        "sorted by price",
        "Write the list of suppliers to a file. Do this for all of them.",
        REFUSED,
        REFUSED,
    ),
    (
        'Go to my home and create a new page titled "Early Birds" in the wiki of the team.',
        "Early Birds",
        "Go to my home and create a new page in the wiki of the team.",
        "Go to my home and create a new page with the usual name in the wiki of the team.",
        REFUSED,
    ),
    (
        "Close all of the issues in the milestone v2.4 and tell me how many there were.",
        "v2.4",
        REFUSED,
        "Close all of the issues in the right milestone and tell me how many there were.",
        REFUSED,
    ),
    (
        "Sum up the sales, save the result to `out_7.csv` and tell the team.",
        "out_7.csv",
        REFUSED,
        REFUSED,
        "Sum up the sales, save the result to a csv file and tell the team.",
    ),
    (
        "Report all of the refunds from 2031-01-02 to 2031-02-03, both days included.",
        "from 2031-01-02 to 2031-02-03, both days included",
        REFUSED,
        "Report all of the refunds in the relevant period.",
        REFUSED,
    ),
    (
        "I move in before 1 September and I need a flat with a balcony.",
        "1 September",
        REFUSED,
        "I move in before the agreed day and I need a flat with a balcony.",
        REFUSED,
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_what_each_severity_makes_of_a_prompt(case):
    """The rules give these prompts, in which the gate finds nothing, and refuse the rest as work for a rewriter."""
    prompt, value, *expected = case
    removed = segment(value, "goal", "target")
    for severity, text in zip(("delete", "vaguify", "genericize"), expected, strict=True):
        removal = Removal(segments=(removed,), severity=severity)
        if text is REFUSED:
            with pytest.raises(RewritingFailed, match="needs a rewriter"):
                REWRITER.rewriting(prompt, removal)
            continue
        rewriting = REWRITER.rewriting(prompt, removal)
        assert rewriting.prompt == text
        assert problems_of(prompt, rewriting, removal) == ()


@pytest.mark.parametrize(
    ("prompt", "value"),
    [
        ("Sum up the sales of the town. Then send it to us.", "Sum up the sales of the town"),
        ("Read all of the files. Use the one from May. It is the newest of them.", "Use the one from May."),
        ("Plan the trip to the coast. The budget is 80 dollars. Tell me the total.", "The budget is 80 dollars."),
        ("Look at each of the files from file_01.txt to the last of them, file_20.txt.", "file_01.txt"),
        ("Save the word file of the team to out_9.docx for me.", "out_9.docx"),
        ('Write the text "the code of it is K-17 (see there)" to the end for me.', "see there"),
        ("Write all of it to a_1.csv, a_2.csv, ... and the rest to me.", "a_1.csv"),
        ("Find running shoes for me. The words running shoe must be in the name.", "running shoe"),
        ("Count all of the words. Order the rows alphabetically by town. That is it.", "town"),
        ("Write the French list to menu_fr.txt, and the other one to menu_it.txt.", "menu_fr.txt"),
        ("Draw all of the visits on 1 September for the team.", "1 September"),
        ('Look for this post of the forum:\n- Title: "Sea"\n- Author: "Bo"\n', "Sea"),
        ("If the order is late, tell the owner of it.", "tell the owner of it"),
        ("Use the columns of the list: name, size, and colour.", "size"),
        ("Find the three oldest pictures in the house for me.", "three"),
        ("Bitte lies die Datei `umsatz_24.csv` und fasse sie dann zusammen.", "umsatz_24.csv"),
        ("Run this for me in the shell:\n\n```\nsort --limit 20 list.txt\n```\n", "20"),
        ("| name of it | limit of it |\n|---|---|\n| size | 20 |\n", "20"),
    ],
)
@pytest.mark.parametrize("severity", ["delete", "vaguify", "genericize"])
def test_what_is_not_certain_is_refused(prompt, value, severity):
    """First sentences, main clauses, enumerations, other languages, code and cells need a rewriter."""
    with pytest.raises(RewritingFailed, match="needs a rewriter"):
        rewritten(prompt, severity, segment(value))


def test_what_stands_twice_is_refused():
    """A value in two sentences, one that other words of the prompt say, and two files that would be called alike."""
    for prompt in (
        "Save the rows to sums.csv and the sums to sums.csv for all of us.",
        "Write the tea list to tea_list.md for all of us.",
    ):
        with pytest.raises(RewritingFailed, match="needs a rewriter"):
            rewritten(prompt, "genericize", segment(prompt.split(" to ")[1].split()[0], "goal", "target"))
    removed = (segment("1 May"), segment("2 June", segment_id="S2"))
    with pytest.raises(RewritingFailed, match="two things would be called"):
        rewritten("Send the rows by 1 May at noon. Send the sums by 2 June at noon.", "vaguify", *removed)


def test_two_segments_go_together():
    """Each is removed at its own place."""
    prompt = "Meet me before 1 September at 19:30 in the hall of the town."
    removed = (segment("1 September"), segment("19:30", segment_id="S2"))
    made = rewritten(prompt, "vaguify", *removed).prompt
    assert made == "Meet me before the agreed day at the usual time in the hall of the town."


def test_a_value_that_is_not_there_is_refused():
    """The message names the value and the segment."""
    with pytest.raises(RewritingFailed, match=r"'x\.csv' of S1 is not in the prompt"):
        rewritten("Read the file for me.", "delete", segment("x.csv"))
