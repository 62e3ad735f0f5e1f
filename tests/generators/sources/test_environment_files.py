"""Files become text: CSV and workbooks as their cells, nothing where there is no text."""

import datetime as dt

import pytest

from lhaw_record.generators.sources.environment_files import files_below, sheets_text, text_of, texts_of
from lhaw_record.runners.environments.benchmarks.desk.workspace_files import write_workbook

SHEETS = {
    "March": [["name", "paid", "on"], ["Ada, Dr.", 12.5, dt.date(2026, 3, 1)], ["Zoë", 3, None]],
    "Notes": [["closed at", dt.datetime.fromisoformat("2026-03-02T09:30:00")], ["share", 0.1 + 0.2]],
}
CELLS = '[March]\nname,paid,on\n"Ada, Dr.",12.5,2026-03-01\nZoë,3,\n[Notes]\nclosed at,2026-03-02T09:30:00\nshare,0.3\n'


def test_a_workbook_reads_the_same_from_its_file_and_from_its_plan(tmp_path):
    """Sheets, dates, numbers and empty cells have one text, whether they come from a real file or from a plan."""
    write_workbook(tmp_path / "book.xlsx", SHEETS)
    assert sheets_text(SHEETS) == CELLS
    read = text_of("book.xlsx", (tmp_path / "book.xlsx").read_bytes())
    assert [line.rstrip(",") for line in read.splitlines()] == [line.rstrip(",") for line in CELLS.splitlines()]


@pytest.mark.parametrize(
    ("name", "content", "text"),
    [
        ("a.csv", b"\xef\xbb\xbfa;b\r\n", "a;b\r\n"),
        ("a.txt", "größer".encode("utf-16"), "größer"),
        ("a.txt", "größer".encode("latin-1"), ""),
        ("a.bin", b"a\0b", ""),
        ("a.xlsx", b"no archive", ""),
        ("a.txt", b"", ""),
        ("a.txt", b"\xff\xfe\x00", ""),
    ],
)
def test_text_and_what_is_none(name, content, text):
    """A byte order mark is not text, line ends are; what cannot be decoded is not guessed."""
    assert text_of(name, content) == text


def test_versioned_folders_and_links(tmp_path):
    """The inside of .git is not an environment's text; every link that is not followed is told with its reason."""
    (tmp_path / "data" / ".git").mkdir(parents=True)
    (tmp_path / "data" / ".git" / "HEAD").write_text("ref")
    (tmp_path / "data" / "b.txt").write_text("b")
    (tmp_path / "data" / "sub").mkdir()
    (tmp_path / "data" / "sub" / "a.txt").write_text("a")
    (tmp_path / "data" / "loop").symlink_to(".")
    (tmp_path / "data" / "out.txt").symlink_to("/etc/hostname")
    found = files_below(tmp_path / "data")
    assert dict(texts_of(found.files).files) == {"b.txt": "b", "sub/a.txt": "a"}
    assert [each.path for each in found.refused] == ["loop", "out.txt"]


def test_links_in_a_circle_are_refused(tmp_path):
    """They lead to no file, and nothing fails."""
    (tmp_path / "one").symlink_to("other")
    (tmp_path / "other").symlink_to("one")
    (tmp_path / "file.txt").write_text("x")
    found = files_below(tmp_path)
    assert (list(found.files), [each.path for each in found.refused]) == (["file.txt"], ["one", "other"])


def test_no_more_than_a_share_of_large_data_is_read(tmp_path):
    """After 20 MB of text only names are given, and which files those are is told."""
    for number in range(12):
        (tmp_path / f"{number:02}.csv").write_bytes(b"x" * 1_900_000)
    texts = texts_of(files_below(tmp_path).files)
    assert texts.too_large == ("10.csv", "11.csv")
    assert texts.files["11.csv"] == ""
    assert len(texts.files["09.csv"]) == 1_900_000
