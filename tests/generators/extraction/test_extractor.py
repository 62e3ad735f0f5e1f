"""What every extraction promises, whatever the prompt: exact substrings, in order, apart, the same every time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.generators.extraction import RuleExtractor
from lhaw_record.generators.protocol import Extractor
from tests.generators.extraction.extraction_cases import found, segments

PIECES = [
    "Write `a_1.csv` with the columns id, name and 'due date'",
    "round to two decimals, ",
    "from 2024-01-02 to 2024-03-04",
    "\r\n- keep only rows where x is 5 ",
    "\n\n# Title\n",
    "```python\nf(12)\n```\n",
    "| a | b |\n|---|---|\n| 1 | two |\n",
    " 数据.csv ",
    " “quoted term” ",
    "https://example.org/a/b?c=1 ",
    "If it rains, the order is late. ",
    "what is the average of each branch? ",
    "\u200b\u202e\x00",
    "İ ß ﬁ ",
    "the the of of and and ",
    '"', "'", "`", "(", "[", "/", "\\", ":", "…", "\u2013",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join) | st.text(max_size=200))
def test_segments_are_substrings_in_order_and_apart(prompt):
    """Value and text stand in the prompt, the value in its text; ids go by place; scores are 0, 0.5 or 1."""
    place = 0
    for number, each in enumerate(segments(prompt), start=1):
        assert each.segment_id == f"S{number}"
        assert each.text is not None
        assert each.value == each.value.strip() != ""
        assert each.value in each.text
        assert each.text in prompt
        place = prompt.index(each.value, place) + len(each.value)
        assert {each.criticality, each.guessability} <= {0.0, 0.5, 1.0}
        assert each.dimension in ("goal", "constraint", "input", "context")


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_the_same_prompt_gives_the_same_segments(prompt):
    """Extraction depends on nothing but the task."""
    assert segments(prompt) == segments(prompt)


@pytest.mark.parametrize("prompt", ["", "   \r\n ", "Hello.", "Thank you for your help yesterday evening"[:24]])
def test_a_prompt_without_anything_to_remove_gives_no_segment(prompt):
    """An empty prompt and one that asks for nothing are no error."""
    assert segments(prompt) == ()


def test_windows_line_ends_give_the_same_values():
    """A prompt with CRLF has the segments of the same prompt with LF."""
    prompt = "Read a.csv.\n\n- Sort by price, cheapest first\n- Keep rows from 2024-01-01\n  to 2024-02-01\n"
    windows = prompt.replace("\n", "\r\n")
    assert [each.replace("\r", "") for each in found(windows)] == list(found(prompt))


def test_a_value_that_also_stands_inside_a_word_keeps_its_own_place():
    """The text of a segment leads to the value where it stands for itself."""
    prompt = "For case RX-4071, list services with at least 4 calls."
    four = next(each for each in segments(prompt) if each.value == "4 calls")
    assert prompt.index(four.text) + four.text.index("4 calls") == prompt.index("4 calls")


def test_a_number_behind_a_digit_of_another_kind_is_no_error():
    """Characters that are digits and no figures, such as a superscript, do not disturb the search for words."""
    assert segments("at least \u00b90") == ()


def test_a_long_prompt_is_read_whole():
    """100 kB are no limit: what stands at the end is found."""
    filler = "The pasted minutes of that meeting follow here and say nothing of use. " * 1500
    assert len(filler) > 100_000
    assert "last.csv" in found(filler + "Save it as last.csv.")


HOSTILE = [
    "a",
    " ",
    "\n",
    "/a",
    '"',
    "Abc Def ",
    "2024-",
    ".",
    "`",
    "the following ",
    "create a report and ",
    "a_",
    "(",
    "- ",
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("piece", HOSTILE)
def test_text_that_is_no_prompt_ends_without_an_error(piece):
    """No pattern runs away on long runs of one character or word: each of these takes a fraction of a second."""
    assert len(segments(piece * (50_000 // len(piece)))) < 10


def test_it_is_an_extractor_with_a_name_and_a_digest():
    """The recorded name is rules/9, and the digest is the same for every instance."""
    extractor: Extractor = RuleExtractor()
    assert extractor.name == "rules/9"
    assert extractor.digest == RuleExtractor().digest
