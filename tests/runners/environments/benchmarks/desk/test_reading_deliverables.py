"""Numbers, phrases and tables are read as a person would read them."""

import io
from decimal import Decimal

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.runners.environments.benchmarks.desk.office_deliverables import (
    CheckpointNotMet,
    OfficeDeliverables,
    UnreadableTableError,
    mentions,
    mentions_number,
    number,
    numbers,
    read_table,
)
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import write_files


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1234.5", "1234.5"),
        ("EUR 1,234.50", "1234.50"),
        ("1.234,50 EUR", "1234.50"),
        ("1 234,50 €", "1234.50"),
        ("1'234.50", "1234.50"),
        ("-17", "-17"),
        ("12,5 %", "12.5"),
        ("12,500", "12500"),
        ("$3.", "3"),
    ],
)
def test_usual_number_formats_are_one_number(text, expected):
    """Grouping, decimal comma, currency and sign do not change a number."""
    assert number(text) == Decimal(expected)


@pytest.mark.parametrize("text", ["", "none", "3 of 4", "E104"])
def test_no_single_number_is_none(text):
    """Nothing, two numbers, or digits inside a word are not a number."""
    assert number(text) is None


@given(st.text())
def test_any_text_is_read(text):
    """No text breaks the reading of numbers or phrases."""
    assert all(isinstance(item, Decimal) for item in numbers(text))
    assert mentions(text, "x y") in (True, False)


def test_phrases_are_whole_words():
    """Case, spacing and Markdown marks are ignored, parts of words are not."""
    assert mentions("# **Incident**  INC-44\n", "incident inc-44")
    assert not mentions("Incident INC-441", "Incident INC-44")
    assert mentions_number("in all 2 298,33 EUR", Decimal("2298.33"))


def test_header_may_stand_lower_and_in_other_words_order():
    """A title row, another column order, extra columns and capitals are accepted."""
    content = b"Report, final\n\nAmount;Extra;Expense ID\n5;;E-1\n\n7;;E-2\n"
    assert read_table("x.csv", content, ("expense_id", "amount")) == [
        {"expense_id": "E-1", "amount": "5"},
        {"expense_id": "E-2", "amount": "7"},
    ]


def test_demanded_delimiter_is_strict():
    """If the prompt names a delimiter, no other is accepted."""
    with pytest.raises(UnreadableTableError, match="no header"):
        read_table("x.csv", b"a,b\n1,2\n", ("a", "b"), ";")


def test_demanded_sheet_is_read_alone(tmp_path):
    """Only the requested sheet is read; a workbook without it is refused."""
    write_files({"x.xlsx": {"Notes": [["a", "b"]] * 12, "Week 9": [["a", "b"], [1, 2.50]]}}, tmp_path)
    left = OfficeDeliverables(tmp_path, "")
    assert left.table("x.xlsx", ("a", "b"), sheet="week 9") == [{"a": "1", "b": "2.5"}]
    with pytest.raises(CheckpointNotMet, match="no sheet Week 10"):
        left.table("x.xlsx", ("a", "b"), sheet="Week 10")


def test_file_name_decides_the_format(tmp_path):
    """CSV text under an XLSX name is not a workbook."""
    (tmp_path / "x.xlsx").write_text("a,b\n1,2\n")
    with pytest.raises(CheckpointNotMet, match="not an XLSX workbook"):
        OfficeDeliverables(tmp_path, "").table("x.xlsx", ("a", "b"))


def test_want_of_memory_is_no_fault_of_the_format(monkeypatch):
    """Running out of memory is not reported as a malformed workbook."""

    def lacking(*_, **__):
        raise MemoryError

    buffer = io.BytesIO()
    openpyxl.Workbook().save(buffer)
    monkeypatch.setattr(openpyxl, "load_workbook", lacking)
    with pytest.raises(MemoryError):
        read_table("x.xlsx", buffer.getvalue(), ("a",))
