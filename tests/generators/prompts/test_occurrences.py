"""Where a value stands in a prompt, and what counts as one of its forms."""

import pytest

from lhaw_record.generators.prompts.forms import is_equal_to_value
from lhaw_record.generators.prompts.occurrences import SearchablePrompt, own_place
from lhaw_record.recorder.events.values import Segment


def segment(value, dimension="input", subdimension="identifier", *, text=None, synonyms=(), segment_id="S1"):
    """Return a segment with this value."""
    return Segment(
        segment_id=segment_id,
        value=value,
        dimension=dimension,
        subdimension=subdimension,
        text=text,
        synonyms=tuple(synonyms),
    )


def found(prompt, removed):
    """Return the texts of all occurrences of a segment's value."""
    return [prompt[start:end] for start, end in SearchablePrompt(prompt).occurrences(removed)]


@pytest.mark.parametrize(
    ("prompt", "value", "expected"),
    [
        ("Use CSV, csv or .csv-files like a.csv.", "CSV", ["CSV", "csv"]),
        ("Take 1,000 rows; 1000 are enough, 1.000 too, 10000 not.", "1,000", ["1,000", "1000", "1.000"]),
        ("Give 5 % off, that is 5 percent, not 15 % or 5.5 %.", "5 %", ["5 %", "5 percent"]),
        ("Wait three days; 3 days is the limit, 30 days not.", "3 days", ["three days", "3 days"]),
        ("Open plan_b.xlsx. The plan_b tab counts, old_plan_b not.", "plan_b.xlsx", ["plan_b.xlsx", "plan_b"]),
        ("Open report.xlsx and write a report.", "report.xlsx", ["report.xlsx"]),
        ("See data/raw and /data/raw/x.csv, not mydata/raw.", "data/raw", ["data/raw", "data/raw"]),
        ("Look in /tmp/a and the tmp/a folder.", "/tmp/a", ["/tmp/a", "tmp/a"]),
        ("The sum (a+b)^2? counts, (a+b)^3 not.", "(a+b)^2?", ["(a+b)^2?"]),
        ("Say `Sky Blue`, skyblue or SKY  BLUE.", "Sky Blue", ["Sky Blue", "skyblue", "SKY  BLUE"]),
        ("打开报告文件\uff0c再看报告。", "报告", ["报告", "报告"]),
    ],
)
def test_a_value_is_found_in_all_its_forms(prompt, value, expected):
    """Other cases, spacings, number formats and file stems are the same value; parts of longer words are not."""
    synonyms = ("skyblue",) if value == "Sky Blue" else ()
    assert found(prompt, segment(value, synonyms=synonyms)) == expected


def test_zeros_of_a_version_count():
    """3.10 is not 3.1 where the value is a version."""
    assert found("Use Python 3.10, not 3.1.", segment("3.10", subdimension="version")) == ["3.10"]
    assert found("Use 3.10 or 3.1.", segment("3.10", subdimension="precision")) == ["3.10", "3.1"]


def test_a_quoted_common_word_is_found_only_where_it_is_marked():
    """A column called Name is not the word name."""
    prompt = "Add the column 'Name' with the name of each person; sort by 'name'."
    assert found(prompt, segment("Name", text="the column 'Name'")) == ["Name", "name"]


def test_the_own_place_comes_from_the_text():
    """Of two places the one inside the segment's text is its own."""
    prompt = "Keep 12 pens. Order 12 books."
    assert own_place(prompt, segment("12", text="Order 12 books")) == (20, 22)


@pytest.mark.parametrize(
    ("prompt", "value", "text", "expected"),
    [
        ("Mark the sentence. Keep ten rows.", "ten", None, "Keep >ten"),
        ("Mark the sentence. Keep ten rows.", "ten", "Mark the sentence. Keep ten rows.", "Keep >ten"),
        ("Attend often; keep ten rows.", "ten", None, "keep >ten"),
        ("Reporting: report by email.", "report", None, ": >report"),
        ("Use old_report and report.", "report", None, "and >report"),
        ("Round 1.5 and 15 to 5.", "5", None, "to >5"),
        ("Sheet Q50, then 50 rows.", "50", None, "then >50"),
        ("Resize to 200 or 20mm.", "20", None, "or >20"),
        ("A rod of 20mm in mm.", "mm", None, "20>mm"),
        ("Nur Excel, keine Exceldatei.", "Excel", None, "Nur >Excel"),
        ("Eine Exceldatei.", "Excel", None, None),
        ("请用中文写总结。", "中文", None, "请用>中文"),
        ("Only a sentence.", "ten", "sentence", None),
    ],
)
def test_the_own_place_is_never_inside_a_word_or_number(prompt, value, text, expected):
    """Nor is the segment's text searched for less than that: the value in it must stand by itself."""
    place = own_place(prompt, segment(value, text=text))
    if expected is None:
        assert place is None
    else:
        before, _, _ = expected.partition(">")
        assert prompt[: place[0]].endswith(before)
        assert prompt[slice(*place)] == value


@pytest.mark.parametrize(
    ("synonym", "value", "is_equal"),
    [
        ("skyblue", "sky blue", True),
        ("HR", "Human Resources", True),
        ("#87CEEB", "skyblue", True),
        ("1000", "a thousand", True),
        ("Q3 2024", "third quarter", True),
        ("ledger", "ledger_q3.csv", False),
        ("due date", "2025-10-06", False),
        ("minimum_order", "nothing is ordered", False),
        ("file for week 37", "w37.csv", False),
        ("PO", "a purchase", False),
    ],
)
def test_which_synonyms_are_the_value(synonym, value, is_equal):
    """A synonym that says what the value is counts as the value; one that names the topic may stay."""
    assert is_equal_to_value(synonym, value) is is_equal
