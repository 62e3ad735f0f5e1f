"""The text about checkpoints is read in every spelling that published folders have."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.runners.environments.benchmarks.tac import read_checkpoints

PLAIN = """# Checkpoints

This task has 4 points in total.

## Checkpoint 1 (1pt)

The ledger is opened.

## Checkpoint 2 (3pts)

The report has
three columns:

- a
- b
"""


def priced(text):
    """Points and labels of a text."""
    return [(each.points, each.label) for each in read_checkpoints(text).items]


def test_headings_give_points_labels_and_what_stands_below():
    """A checkpoint has the points of its heading, the first paragraph as label, and all of its section as body."""
    found = read_checkpoints(PLAIN)
    assert [(each.title, each.points, each.label) for each in found.items] == [
        ("Checkpoint 1 (1pt)", 1.0, "The ledger is opened."),
        ("Checkpoint 2 (3pts)", 3.0, "The report has three columns:"),
    ]
    assert found.items[1].body == "The report has\nthree columns:\n\n- a\n- b"
    assert (found.stated_points, found.stated_count) == (4, None)


@pytest.mark.parametrize(
    ("heading", "points"),
    [
        ("## Checkpoint 1 (1 point)", 1.0),
        ("## Checkpoint 1 (2 points)", 2.0),
        ("## Checkpoint 1 (2 point)", 2.0),
        ("## Checkpoint 1 [2pts]", 2.0),
        ("## Checkpoing 1 (2pts)", 2.0),
        ("## Checkpint 3 (1pt)", 1.0),
        ("## Final Checkpoint (3pt)", 3.0),
        ("## Final checkpoint (3pt)", 3.0),
        ("### checkpoint 10: the end (0.5 pts) ##", 0.5),
        ("## Checkpoint 1", None),
    ],
)
def test_every_spelling_of_a_heading(heading, points):
    """Misspelt words, other brackets and a final checkpoint are headings of checkpoints like the others."""
    assert priced(f"# Checkpoints\n\n{heading}\n\nIt is done.\n") == [(points, "It is done.")]


def test_a_heading_of_something_else_ends_a_section():
    """What stands below another heading belongs to no checkpoint; the page's title is none."""
    text = "# Checkpoints\n\nintro (2pts)\n\n## Checkpoint 1 (1pt)\n\nDone.\n\n## Notes\n\nNot graded.\n"
    assert priced(text) == [(1.0, "Done.")]
    assert "Not graded" not in read_checkpoints(text).items[0].body


def test_a_heading_inside_a_code_block_is_text():
    """A line that begins with # inside a fence is no heading."""
    assert priced("## Checkpoint 1 (1pt)\n\n```\n## Checkpoint 2 (5pt)\n```\n")[0][0] == 1.0
    assert len(priced("## Checkpoint 1 (1pt)\n\n```\n## Checkpoint 2 (5pt)\n```\n")) == 1


def test_a_numbered_list_is_read_where_there_are_no_headings():
    """Numbered lines that begin with points are checkpoints; other numbered lines are not."""
    text = "The task has 3 points in total\n1. [2pts] The cell is blue\n2. (1 point) The sum is right\n3. a remark"
    assert priced(text) == [(2.0, "The cell is blue"), (1.0, "The sum is right")]
    assert read_checkpoints(text).stated_points == 3


@pytest.mark.parametrize(
    ("sentence", "points", "count"),
    [
        ("This task has 5 points in total.", 5, None),
        ("This task is worth a total of 4 points.", 4, None),
        ("This task has 2 checkpoints in total.", None, 2),
        ("There are 8 checkpoints in total.", None, 8),
        ("Good luck.", None, None),
    ],
)
def test_the_totals_that_a_text_states(sentence, points, count):
    """What the text says about its own totals is kept apart from what its checkpoints add up to."""
    found = read_checkpoints(f"# Checkpoints\n{sentence}\n")
    assert (found.stated_points, found.stated_count) == (points, count)


def test_line_ends_and_a_byte_order_mark_change_nothing():
    """A file written on Windows has the same checkpoints, labels and bodies."""
    assert read_checkpoints("\ufeff" + PLAIN.replace("\n", "\r\n")) == read_checkpoints(PLAIN)


def test_a_section_without_text_is_labelled_by_its_heading():
    """A checkpoint always has a label."""
    assert priced("## Checkpoint 1 (1pt)\n## Checkpoint 2 (1pt)\n\nDone.\n")[0] == (1.0, "Checkpoint 1 (1pt)")


@given(st.text(alphabet="#Checkpoint 12()[]pts.\n`-\r", max_size=200))
def test_any_text_can_be_read(text):
    """No text is an error; every checkpoint that is found has a label on one line."""
    assert all(each.label and "\n" not in each.label for each in read_checkpoints(text).items)
