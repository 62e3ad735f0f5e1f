"""The embedded rewriter: what it removes for certain, what it puts into slots, and what it refuses."""

import pytest

from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.gate import problems_of
from lhaw_record.generators.protocol import Removal
from tests.generators.rewriting.rewriting_cases import REWRITER, rewritten, segment

# Each case: the prompt, the value, the severity, the new prompt and the question.
CASES = [
    (
        'Go to my home and create a new folder called "Early Birds" in the wiki of the team.',
        "Early Birds",
        "delete",
        "Go to my home and create a new folder in the wiki of the team.",
        "What should the folder be called?",
    ),
    (
        "Create a file called `/srv/notes/tide.txt` that holds the word low.",
        "/srv/notes/tide.txt",
        "delete",
        "Create a file that holds the word low.",
        "What should the file be called, and in which folder should it be?",
    ),
    (
        "Name the top three vans by weight and the town of each.",
        "three",
        "delete",
        "Name the top vans by weight and the town of each.",
        "How many of the top vans do you want?",
    ),
    (
        "Go to the site and book a room for 4 nights, starting from 2 May.",
        "4 nights",
        "vaguify",
        "Go to the site and book a room for a few nights, starting from 2 May.",
        'How many nights do you mean by "a few nights"?',
    ),
    (
        "Show me what they added in the last 4 weeks and who bought it.",
        "last 4 weeks",
        "vaguify",
        "Show me what they added in the last few weeks and who bought it.",
        'How many weeks do you mean by "the last few weeks"?',
    ),
    (
        "Write a `low_3.txt` file with the names.",
        "low_3.txt",
        "delete",
        "Write a file with the names.",
        "What should the file be called?",
    ),
    (
        "Email the plan to bo@hall.example before the end of the week.",
        "bo@hall.example",
        "delete",
        "Email the plan before the end of the week.",
        "Which email address should I send it to?",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[1])
def test_what_the_rules_make_of_a_prompt(case):
    """One severity gives this prompt and asks this question, the gate finds nothing, and the others are refused."""
    prompt, value, severity, text, question = case
    removed = segment(value, "input" if "rates" in value else "goal", "target")
    removal = Removal(segments=(removed,), severity=severity)
    rewriting = REWRITER.rewriting(prompt, removal)
    assert rewriting.prompt == text
    assert rewriting.expected_questions[0].questions == (question,)
    assert "{" not in rewriting.failure_mode
    assert problems_of(prompt, rewriting, removal) == ()
    for other in {"delete", "vaguify", "genericize"} - {severity}:
        with pytest.raises(RewritingFailed, match="needs a rewriter"):
            REWRITER.rewriting(prompt, Removal(segments=(removed,), severity=other))


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
        ("Name the top three vans of the yard, as top_3_vans.csv has them.", "three"),
        ("Count the vans and sort all rows alphabetically by town.", "town"),
        ("Meet on a workday (Monday through Friday) in the hall.", "Monday through Friday"),
        ("Sort the list by last name.", "Sort the list by last name."),
        ("Add up the sales of the town. Sort the rows by price. Leave nothing out.", "price"),
        ('In a document titled "Style of the House", change the font to Times.', "Style of the House"),
        ('Add three songs to an existing playlist called "Sea Shanties".', "Sea Shanties"),
        ('Create a playlist called "Sea Shanties." Play it.', "Sea Shanties."),
        ("Create an event called 'Review' on 5 May to 'Discuss the plan' for us.", "Review"),
        ('Create a new sheet called "Sheet2" for the sums.', "Sheet2"),
        ("Create a file called `a/ai.txt`. It must be at the exact path specified above.", "a/ai.txt"),
        ('We are Group 2. Create a channel called "Group2" for us.', "Group2"),
        ("I did the seating of the plan. Save the plan as seating_plan.pdf for me.", "seating_plan.pdf"),
        ("Create a file with the rows. Create a file called links.txt with the links.", "links.txt"),
        ('Create a group called "Herring" for Bo, who is in the group "Otters".', "Herring"),
        ('Create an event called "Tide Party" on 4 May for us.', "Tide Party"),
        ("Draw the plan in green and show it to me.", "green"),
        ("Flag it if the price is above the order by more than 3.5 percent.", "more than 3.5 percent"),
        ("Keep the top 3 boats of the year in top3.txt for me.", "3 boats"),
        ("Bitte lies die Datei `umsatz_24.csv` und fasse sie dann zusammen.", "umsatz_24.csv"),
        ("Run this for me in the shell:\n\n```\nsort --limit 20 list.txt\n```\n", "20"),
        ("| name of it | limit of it |\n|---|---|\n| size | 20 |\n", "20"),
        ("Add up the numbers in rates.xlsx and tell me the sum.", "rates.xlsx"),
        ("Book the room by the sea for 7 days.", "7 days"),
        ("Book the room by the sea for 4 days and the boat for one day.", "4 days"),
        ("If nobody answers within 5 days, call the house.", "5 days"),
        ("Show me the weather of the next 3 days.", "next 3 days"),
        ("Send the plan to bo@hall.example for me.", "bo@hall.example"),
        ("Email the plan to bo@hall.example and send the map to 555-0100.", "bo@hall.example"),
        ("Send a confirmation email to bo@hall.example for me.", "bo@hall.example"),
        ("Lower all of the prices by 15 percent, but tell nobody.", "15 percent"),
        ("Open the branch of the team and rename the branch to harbour-2.", "harbour-2"),
        ('Make a presentation called "Tides of the Coast" with five slides.', "Tides of the Coast"),
        ("Save the sums in the same format as tide_7.csv for me.", "tide_7.csv"),
        ("Email the plan to bo@hall.example and the map to al@hall.example.", "bo@hall.example"),
        ("Name the top 3 vans by weight and then sort the three.", "3"),
        ("Write a speech about the top 3 vans by weight.", "3"),
        ("Open the Top 5 list and name the top 3 vans by weight.", "3"),
        ("Sum up the sales, save the result to `tide_7.csv` and tell the team.", "tide_7.csv"),
        ("Book the hotel for 3 days and write a funny itinerary.", "3 days"),
        ("Email a note to ida@fern.example asking them to reply.", "ida@fern.example"),
    ],
)
@pytest.mark.parametrize("severity", ["delete", "vaguify", "genericize"])
def test_what_is_not_certain_is_refused(prompt, value, severity):
    """First sentences, main clauses, enumerations, other languages, code and cells need a rewriter."""
    with pytest.raises(RewritingFailed, match="needs a rewriter"):
        rewritten(prompt, severity, segment(value))


def test_two_segments_go_together():
    """Each is removed at its own place."""
    removed = (segment("3"), segment("her@firm.example", segment_id="S2"))
    made = rewritten("List the top 3 posts by votes, and email the list to her@firm.example.", "delete", *removed)
    assert made.prompt == "List the top posts by votes, and email the list."


def test_a_value_that_is_not_there_is_refused():
    """The message names the value and the segment."""
    with pytest.raises(RewritingFailed, match=r"'x\.csv' of S1 is not in the prompt"):
        rewritten("Read the file for me.", "delete", segment("x.csv"))


@pytest.mark.thorough
def test_one_word_of_200_kb_is_refused():
    """The time grows with its length, not with its square."""
    with pytest.raises(RewritingFailed, match="needs a rewriter"):
        rewritten("a" * 200_000 + " save it to tide_7.csv", "genericize", segment("tide_7.csv", "goal", "target"))
