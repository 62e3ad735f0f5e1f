"""Whether a changed sentence still parses: each kind of hole is found, and a mended sentence passes."""

import pytest

from generators.rewriting.diff import hunks
from generators.rewriting.english import english
from generators.rewriting.parsing import Parsing
from generators.rewriting.sentences import Change, changed_sentences

PARSING = Parsing(english())


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("Put it in the blue folder.", "Put it in the.", "without a noun"),
        ("Name the largest town.", "Name the largest.", "without a noun"),
        ("Sort it by town.", "Sort it by.", "without what it belongs to"),
        ("Take it from the list in April.", "Take it from in April.", "without what it belongs to"),
        ("Keep towns and rivers.", "Keep towns and.", "without what it joins"),
        ("You need to count them.", "You need to.", "'to' stands before"),
        ("Flag bills that do not match.", "Flag bills that do.", "without its verb"),
        ("The first row is a header.", "The first row is.", "without what it says"),
        ("Find halls of more than 40 square feet.", "Find halls of more than square feet.", "a number"),
        ("Those with less than one year of work.", "Those with less than year of work.", "a number"),
        ('Fill the gaps by putting "0"s.', "Fill the gaps by putting s.", "'s' stands alone"),
        ("Give dates in the format MM-DD.", "Give dates in the format.", "names none"),
        ("It must be at least on floor seven.", "It must be at least.", "bounds nothing"),
        ("Draw 50 and 200-day means.", "Draw 50 means.", "50 has lost the unit"),
        ("Keep it in folder named old of the team.", "Keep it in folder of the team.", "neither name nor article"),
        ("Watch it and count how many cars pass.", "Watch it and count the details.", "can be counted"),
        ("See the film, released in 1970.", "See the film, released.", "without what it introduces"),
        ("Save the table in the folder.", "Save in the folder.", "nothing that it acts on"),
        ("Tell me if the profit was enough.", "Tell me if the profit.", "the clause after 'if' has no verb"),
        ("Tell me which town shows the larger gap.", "Tell me what the larger gap.", "the clause after 'what'"),
        ("Count either towns or rivers.", "Count either towns.", "announces two things"),
        ("Show the number of people by town.", "Show the number by town.", "'number' has lost"),
        ("It has the same colour as the door.", "It has the colour.", "the same as"),
        ("Save A and B as a.csv and b.csv, respectively.", "Save A and B as a.csv, respectively.", "'respectively'"),
        ("See how sales compare on Mondays versus Fridays.", "See how sales compare on Fridays.", "a comparison"),
        ("Wait for Ada's reply.", "Wait for 's reply.", "'s belongs to nobody"),
        ("The inspector counts every late visitor.", "The inspector, every late visitor.", "the sentence has no verb"),
    ],
)
def test_a_hole_is_found(before, after, fault):
    """What a cut leaves dangling is named in words that a rewriter can act on."""
    found = PARSING.faults(Change(before, after))
    assert any(fault in each for each in found), found


def test_what_points_back_to_what_is_gone():
    """A possessive behind a cut has lost its owner."""
    change = Change(
        "Draw the plan of old mills and their wheels.", "Draw the plan and their wheels.", (" and their wheels.",)
    )
    assert PARSING.faults(change) == ("what follows points back to what is gone",)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("Open the `may.csv` file and count the rows.", "Open the file and count the rows."),
        ("Save it as a.csv in the shared folder.", "Save it in the shared folder."),
        ("Late is defined as arriving after 09:15.", "Late is defined as arriving after a certain time."),
        ("Which town in my list has a port?", "Which town has a port?"),
        ("Sort the rows by town, then log in.", "Sort the rows, then log in."),
        ("Round up their hours to the nearest integer.", "Round up their hours."),
        ("Count what they ask for in May.", "Count what they ask for."),
        ("Invite Ada Berg, Bo Chan and Cy Dorn.", "Invite people."),
        ("An expense that has no receipt, code N-7;", "An expense that has no receipt;"),
    ],
)
def test_a_whole_sentence_has_no_fault(before, after):
    """Sentences that a person would write pass, also with a preposition at their end."""
    assert PARSING.faults(Change(before, after)) == ()


def test_what_the_author_left_out_is_no_fault():
    """Only what the original did not lack counts."""
    assert (
        PARSING.faults(Change("In the last row for of the table, sort by.", "In the last row for of the, sort by."))
        != ()
    )
    assert PARSING.faults(Change("In the row for of the table, sort by.", "In the row for of the list, sort by.")) == ()


def test_only_changed_sentences_are_looked_at():
    """A sentence is taken once with all its changes; code, tables and sentences that are gone are not."""
    original = (
        "Open a.csv in May. Keep the rest.\n\n```\nx = a.csv\n```\n\n| in | a.csv |\n\nThen close a.csv in June.\n"
    )
    rewritten = original.replace("Open a.csv in May.", "Open it.").replace("a.csv", "it")
    found = list(changed_sentences(original, rewritten, hunks(original, rewritten), english()))
    assert [(each.before, each.after) for each in found] == [
        ("Open a.csv in May.", "Open it."),
        ("Then close a.csv in June.", "Then close it in June."),
    ]


def test_what_and_based_on_leads_up_to():
    """A clause that "and based on" leads up to may not be gone."""
    before = "Find the file, and based on the first sheet, create a second one."
    assert PARSING.faults(Change(before, "Find the file, and based on the first sheet.")) != ()
    assert PARSING.faults(Change(before, "Find the file, and based on the sheet, create a second one.")) == ()
