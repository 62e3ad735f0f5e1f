"""What the rules find, on invented sentences: the value a person would answer, and where it belongs."""

import pytest

from tests.generators.extraction.extraction_cases import found

CASES = [
    # files, folders, addresses
    ("Read `stock_a.csv` first.", "stock_a.csv", "input/identifier"),
    ("Save the plan as plan_v2.docx.", "plan_v2.docx", "goal/target"),
    ("Open /srv/data/march/log.txt and count.", "/srv/data/march/log.txt", "input/location"),
    ("Write everything to out/summary.md.", "out/summary.md", "goal/target"),
    ('Look into the "Shared/Team Files" folder.', "Shared/Team Files", "input/location"),
    ("Summarise https://example.org/2024/bridges for me.", "https://example.org/2024/bridges", "input/location"),
    ("Take C:\\data\\in.xlsx as it is.", "C:\\data\\in.xlsx", "input/location"),
    ("Write a note. The data is in `/srv/tides/raw.csv` now.", "/srv/tides/raw.csv", "input/location"),
    ("Someone has written a script at `/srv/tides/plot.py`.", "/srv/tides/plot.py", "input/location"),
    ('The first sheet should be named "Tide Table" for us.', "Tide Table", "goal/content"),
    ('Send a mail to the team with subject "Low Water" about it.', "Low Water", "goal/content"),
    # time
    ("Count visits from 2024-02-01 to 2024-02-29.", "2024-02-01 to 2024-02-29", "constraint/temporal"),
    ("It must start between 09:00 and 11:30.", "09:00 and 11:30", "constraint/temporal"),
    ("Everything after 3 May 2023 counts.", "3 May 2023", "constraint/temporal"),
    ("Use the figures of the last 6 weeks.", "last 6 weeks", "constraint/temporal"),
    ("Compare Q1 2024 with Q2 2024.", "Q2 2024", "constraint/temporal"),
    # numbers, amounts, rounding
    ("List invoices above $1,250.", "$1,250", "constraint/numeric_bound"),
    ("Flag a gap of more than 7.5%.", "7.5%", "constraint/numeric_bound"),
    ("Show the top 8 suppliers by orders.", "8 suppliers", "constraint/numeric_bound"),
    ('Create a page titled "North Star".', "North Star", "goal/content"),
    ('Add a book:\n- Author: "Bo Lind"', "Bo Lind", "goal/content"),
    ("Ship what weighs under 20 kg.", "20 kg", "constraint/numeric_bound"),
    ("Give the mean rounded to three decimals.", "three decimals", "constraint/precision"),
    ("Round it to the nearest hundred.", "nearest hundred", "constraint/precision"),
    # formats, colours, order
    ("Dates are written DD/MM/YYYY.", "DD/MM/YYYY", "goal/format"),
    ("Give me a semicolon-separated list.", "semicolon-separated", "goal/format"),
    ("Draw a stacked bar chart of it.", "stacked bar chart", "goal/format"),
    ("Return the result as JSON.", "JSON", "goal/format"),
    ("Use the format `<id>: <name>` for each line.", "<id>: <name>", "goal/format"),
    ("The walking time should be in minutes.", "minutes", "goal/format"),
    ("Mark late rows in dark red.", "dark red", "constraint/method"),
    ("Sort the rows by price, cheapest first.", "price, cheapest first", "goal/format"),
    ("List the stations in alphabetical order.", "alphabetical order", "goal/format"),
    # names
    ("Write a table with the columns id, name and due.", "id, name and due", "goal/content"),
    ('Add the columns "Start", "End" and "Room".', '"Start", "End" and "Room"', "goal/content"),
    ("Take the names from the sheet Suppliers.", "sheet Suppliers", "input/identifier"),
    ("Invite Ada Byron, Kurt Weil and Lena Ott.", "Ada Byron, Kurt Weil and Lena Ott", "input/identifier"),
    ("Then inform Ada Byron of the total.", "Ada Byron", "context/conventions"),
    ("Send it to ada@example.org when done.", "ada@example.org", "context/conventions"),
    ("Close ticket OPS-114 afterwards.", "OPS-114", "input/identifier"),
    ("It needs version 3.12.1 of the tool.", "3.12.1", "input/version"),
    ("Only the department Quality is concerned.", "department Quality", "constraint/selection"),
    # what is wanted
    ("What is the longest bridge in my local files?", "local files", "input/source"),
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


REPORT = """\
# Totals of `old_sum` are wrong

## Actual behaviour
Calling `old_sum` with 17 rows gives a `ValueError`, see trace.txt.

2024-05-01 10:11:12 ERROR worker 12 stopped
    at app.Sum.add(Sum.java:40)

## Requirements
- `new_sum` must read totals.csv (e.g. `sample.csv`).
- It accepts `limit: int = 25` and calls `run("fast")`.
"""


def test_what_reports_headings_and_logs_say_is_no_segment():
    """Only what is asked for is: not the title, what is wrong, a pasted log, an example, or a part of code."""
    assert list(found(REPORT)) == ["totals.csv"]


def test_a_description_is_a_request_where_nothing_else_is():
    """A prompt whose only section is its description keeps its segments; a log without a fence is still data."""
    prompt = REPORT.split("## Req", maxsplit=1)[0].replace("Actual behaviour", "Description")
    assert "trace.txt" in found(prompt)
    assert "12" not in found(prompt)


def test_what_is_said_again_is_no_second_segment():
    """A value counts once, at its first place; a file named again without its folder is the same."""
    values = list(found("Read data/in/a.csv. Then sort a.csv. Check data/in/a.csv again."))
    assert values == ["data/in/a.csv"]


def test_a_format_beside_a_file_of_that_format_says_nothing_new():
    """The words "an Excel file" beside report.xlsx cannot be removed alone."""
    assert list(found("Save it as report.xlsx. It must be an Excel file.")) == ["report.xlsx"]
    assert list(found("It must be an Excel file.")) == ["Excel"]


def test_a_file_is_read_or_written_by_the_words_before_it():
    """In one sentence a file that is read and one that is written are told apart."""
    labels = found("Copy the rows of a.csv into b.csv and compare them with c.csv.")
    assert labels["a.csv"] == "input/identifier"
    assert labels["b.csv"] == "goal/target"


@pytest.mark.parametrize(
    ("prompt", "values"),
    [
        ("Speichere den Bericht „Absatz“ vom 03.04.2024 als absatz.pdf.", {"03.04.2024", "absatz.pdf"}),
        ("请从 data/sales.csv 中提取2024年3月的数据并保存为“out.xlsx”。", {"data/sales.csv", "2024年3月", "out.xlsx"}),
        ("Bewaar “totaal” van 01.02.2024 tot sum.txt.", {"01.02.2024", "sum.txt"}),
        ("اقرأ الملف data.csv بتاريخ 2024-05-01", {"data.csv", "2024-05-01"}),
        ("Read cafe\u0301_menu.csv and sort it.", {"cafe\u0301_menu.csv"}),
        ("फ़ाइल बिक्री_रिपोर्ट.csv पढ़ो और नतीजा/अंतिम.xlsx में लिखो।", {"बिक्री_रिपोर्ट.csv", "नतीजा/अंतिम.xlsx"}),
    ],
)
def test_other_languages_give_files_and_dates(prompt, values):
    """Where the words are not English, what has a form of its own is found all the same."""
    assert values <= set(found(prompt)), found(prompt)


def test_what_is_not_asked_for_is_no_segment():
    """What a tracker puts before a title, where links lead, and sections about prizes and licences."""
    prompt = """[HOLD for payment 2024-10-24] [$250] The button is blank after 20 seconds

See the [guide](https://github.com/org/app/blob/main/guide.md) and keep at most 40 rows.

## Prizes
First place gets $5,000 on November 28, 2022.

## Task
Return at least 12 rows."""
    assert set(found(prompt)) == {"20 seconds", "40 rows", "12 rows"}


def test_no_number_is_cut_from_what_it_counts():
    """A bare digit of a compound, or of one thing, is no value; a number with its unit is one."""
    for prompt in ("Find at least 2-bedroom flats.", "Keep up to 1 person a room.", "Walk within two-hop paths."):
        assert found(prompt) == {}
    assert set(found("Use at most 2 HP for it.")) == {"2 HP"}
