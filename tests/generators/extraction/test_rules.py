"""What the rules find, on invented sentences: the value a person would answer, and where it belongs."""

import pytest

from tests.generators.extraction.extraction_cases import found

CASES = [
    # files, folders, addresses
    ("Read `stock_a.csv` first.", "stock_a.csv", "input/identifier"),
    ("Save the plan as plan_v2.docx.", "plan_v2.docx", "goal/target"),
    ("Open /srv/data/march/log.txt and count.", "/srv/data/march/log.txt", "input/location"),
    ("Write everything to out/summary.md.", "out/summary.md", "goal/target"),
    ("Write the answer in /srv/answer.txt.", "/srv/answer.txt", "goal/target"),
    ('List what is in the "Shared/Team Files" folder.', "Shared/Team Files", "input/location"),
    ("Summarise https://example.org/2024/bridges for me.", "https://example.org/2024/bridges", "input/location"),
    ("Take C:\\data\\in.xlsx as it is.", "C:\\data\\in.xlsx", "input/location"),
    ("Write a note. The data is in `/srv/tides/raw.csv` now.", "/srv/tides/raw.csv", "input/location"),
    ('The first sheet should be named "Tide Table" for us.', "Tide Table", "goal/content"),
    ('Send a mail to the team with subject "Low Water" about it.', "Low Water", "goal/content"),
    ('Create a page titled "North Star".', "North Star", "goal/content"),
    ('Count the gaps in the "Depth" column.', "Depth", "input/identifier"),
    ('List the notes in the "Tides" category.', "Tides", "constraint/selection"),
    ('Open the category "Tides" and list the notes.', "Tides", "input/identifier"),
    ('Count the lines that contain the word "ebb".', "ebb", "constraint/selection"),
    # time
    ("Count visits from 2024-02-01 to 2024-02-29.", "2024-02-01 to 2024-02-29", "constraint/temporal"),
    ("It must start between 09:00 and 11:30.", "09:00 and 11:30", "constraint/temporal"),
    ("Make it start after 3 May 2023.", "3 May 2023", "constraint/temporal"),
    ("Use the figures of the last 6 weeks.", "last 6 weeks", "constraint/temporal"),
    ("Compare it with the sales of Q2 2024.", "Q2 2024", "constraint/temporal"),
    ("Book a table for Friday at 7 pm.", "7 pm", "constraint/temporal"),
    # numbers, amounts, rounding
    ("List invoices above $1,250.", "$1,250", "constraint/numeric_bound"),
    ("Flag a gap of more than 7.5%.", "7.5%", "constraint/numeric_bound"),
    ("Show the top 8 suppliers by orders.", "8", "constraint/numeric_bound"),
    ("Ship what weighs under 20 kg.", "20 kg", "constraint/numeric_bound"),
    ("Plan a trip with a budget of $900.", "$900", "constraint/numeric_bound"),
    ("Give the mean rounded to three decimals.", "three decimals", "constraint/precision"),
    ("Round it to the nearest hundred.", "nearest hundred", "constraint/precision"),
    # formats, colours, order
    ("Give me a semicolon-separated list.", "semicolon-separated", "goal/format"),
    ("Return the result as JSON.", "JSON", "goal/format"),
    ("Write each date in the format `DD/MM/YYYY`.", "DD/MM/YYYY", "goal/format"),
    ("Show the walking time in minutes.", "minutes", "goal/format"),
    ("Mark late rows in dark red.", "dark red", "constraint/method"),
    ("Sort the rows by price, cheapest first.", "price, cheapest first", "constraint/method"),
    ("List the stations in alphabetical order.", "alphabetical order", "constraint/method"),
    # names
    ("Write a table with the columns id, name and due.", "id, name and due", "goal/content"),
    ('Add the columns "Start", "End" and "Room".', '"Start", "End" and "Room"', "goal/content"),
    ("Invite Ada Byron, Kurt Weil and Lena Ott.", "Ada Byron, Kurt Weil and Lena Ott", "context/conventions"),
    ("Then inform Ada Byron of the total.", "Ada Byron", "context/conventions"),
    ("Send it to ada@example.org when done.", "ada@example.org", "context/conventions"),
    ("Close ticket OPS-114 afterwards.", "OPS-114", "input/identifier"),
]  # fmt: skip


@pytest.mark.parametrize(("prompt", "value", "label"), CASES)
def test_a_value_is_found_where_it_belongs(prompt, value, label):
    """Each kind of information is found with the span that a person would answer, in its place in the taxonomy."""
    assert found(prompt).get(value) == label, found(prompt)


NOTHING = [
    ("Go to http://office.example.com:8080/ first.", "the address of the environment"),
    ("1. Open it.\n2. Close it.", "the numbers of a list"),
    ("Here is what I saw:\n\nIt did not work.", "prose without anything to remove"),
    ("```\nx = 41\nread('a.csv')\n```", "code is data"),
    ("That is the report. Write the report.", "a bare noun"),
    ("The table stands in old.csv, of 2019, and has at least 40 rows.", "a statement that belongs to no request"),
    ('Search for "mud" and "silt" in the "Sand", "Clay" and "Loam" tabs.', "members of a list of names"),
    ("Someone has written a script at `/srv/plot.py`.", "what somebody did"),
    ("Save the sum of the numbers in 'data.txt'.", "a file that may be read or written"),
    ("I'm planning a trip next month. Show the tides of today.", "the occasion of a request"),
    ("List what changed in the last 6 months (180 days).", "what brackets say again"),
    ("Move the walk from 9:00 to 10:30.", "an old and a new value"),
]


@pytest.mark.parametrize(("prompt", "what"), NOTHING)
def test_what_is_no_segment_is_not_found(prompt, what):
    """Addresses of the environment, numbers of lists, code and bare nouns are no segments."""
    assert found(prompt) == {}, what


def test_the_best_of_two_that_overlap_stays():
    """A date inside a condition is the smaller piece of information, so it is the segment."""
    assert list(found("Take the bills that are due on 2024-07-01.")) == ["2024-07-01"]


def test_wants_conditions_and_names_by_cue_words_are_left_to_a_model():
    """No word before it makes a phrase a segment: such finds were wrong as often as right on unseen prompts."""
    assert found("Calculate the average fare of riders from Norway who have a pass, and never delete a row.") == {}


@pytest.mark.parametrize(
    "report",
    [
        "Totals of `old_sum` are wrong\n\nCalling it with at most 17 rows gives a ValueError. Open trace.txt.",
        "There is a bug in the list. Use at least 3 rows and you can find it in rows.py.",
        "# Tides\n\n## Data\nUse tides.csv.\n\n## Prizes\nSubmit before 3 May 2024.",
    ],
)
def test_a_report_or_a_document_in_sections_is_left_to_a_model(report):
    """What reports what is wrong without asking first, and what has many headings, asks for little of what it says."""
    assert found(report) == {}


def test_a_request_may_speak_of_what_is_wrong():
    """A prompt that begins by asking is a request, whatever follows."""
    assert "totals.csv" in found("Read totals.csv and fix the bug in it.")


@pytest.mark.parametrize(
    ("prompt", "value"),
    [
        ("List the top 3 rows, that is ranks 1, 2 and 3.", "3"),
        ("Plan a trip for 7 days, a week by the sea.", "7 days"),
        ("Look up tides at https://www.ebbland.org/tides, only on Ebbland.", "https://www.ebbland.org/tides"),
        ("Sort the 'group' column by hand. Name the groups.", "group"),
        ("Plan a trip from May 4 to May 6, 2024, for 3 days.", "3 days"),
        ("Use May 2022 to June 2023. Leave out all but May 2022 through June 2023.", "May 2022 to June 2023"),
    ],
)
def test_what_is_said_twice_in_other_words_is_no_segment(prompt, value):
    """Leaving it out once leaves no gap; a literal repeat goes with the value."""
    assert value not in found(prompt)
    assert "40 rows" in found("Keep at most 40 rows. Check that at most 40 rows are there.")


def test_what_is_said_again_is_no_second_segment():
    """A value counts once, at its first place; a file named again without its folder is the same."""
    values = list(found("Read data/in/a.csv. Then sort a.csv. Check data/in/a.csv again."))
    assert values == ["data/in/a.csv"]


def test_a_format_beside_a_file_of_that_format_says_nothing_new():
    """The words "an Excel file" beside report.xlsx cannot be removed alone."""
    assert list(found("Save it as report.xlsx. Write it as an Excel file.")) == ["report.xlsx"]
    assert list(found("Write it as an Excel file.")) == ["Excel"]


def test_a_file_is_read_or_written_by_the_words_before_it():
    """In one sentence a file that is read and one that is written are told apart."""
    labels = found("Copy the rows of tides.csv into ebb.csv and compare them with flow.csv.")
    assert labels["tides.csv"] == "input/identifier"
    assert labels["ebb.csv"] == "goal/target"


def test_other_languages_give_nothing():
    """What a sentence asks for is told by English words; without them nothing is sure."""
    assert found("Speichere den Bericht vom 03.04.2024 als absatz.pdf.") == {}
    assert found("请从 data/sales.csv 中提取2024年3月的数据。") == {}


def test_names_of_files_in_any_script_are_found_whole():
    """Accents that are not composed, and signs of vowels, belong to the name."""
    assert "cafe\u0301_menu.csv" in found("Read cafe\u0301_menu.csv and sort it.")
    assert "बिक्री_रिपोर्ट.csv" in found("Read बिक्री_रिपोर्ट.csv and sort it.")


def test_no_number_is_cut_from_what_it_counts():
    """A bare digit of a compound, or of one thing, is no value; a number with its unit is one."""
    for prompt in (
        "Find at least 2-bedroom flats.",
        "Keep up to 1 person a room.",
        "Walk within two-hop paths.",
        "Add up to 5 MiB.",
        "Spend over $10 billion.",
    ):
        assert found(prompt) == {}
    assert set(found("Use at most 2 HP for it.")) == {"2 HP"}
