"""The difference of two prompts, by words."""

from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.generators.prompts.diff import hunks, marked, plain_marks, prompt_diff

WORDS = st.lists(st.sampled_from(["a", "b", "the", "file", ",", ".", "\n", "x.csv"]), max_size=40).map(" ".join)


def test_a_change_is_marked_where_it_was_made():
    """Removed and added words stand in brackets, everything else as it is."""
    spans = marked("Save it as a.csv in the folder.", "Save it in the right folder.")
    assert plain_marks(spans) == "Save it [-as a.csv -]in the{+ right+} folder."


def test_the_stored_diff_gives_places_and_words():
    """A hunk has its place in both texts, what was removed, what was added, and a little around it."""
    diff = prompt_diff("Read a.csv.\nThen stop.", "Read the file.\nThen stop.")
    assert diff == "@@ -5,5 +5,8 @@\n Read \n-a.csv\n+the file\n .\\nThen stop."


def test_equal_prompts_have_no_diff():
    """Nothing changed, nothing stored."""
    assert prompt_diff("Same.", "Same.") == ""


def test_changes_in_a_long_text_are_found_one_by_one():
    """The words around each place occur once."""
    original = "".join(f"Read file {n}, with two decimals. " for n in range(700))
    assert len(hunks(original, original.replace(", with two decimals", ""))) == 700


@given(WORDS, WORDS)
def test_both_prompts_can_be_made_from_the_spans(original, rewritten):
    """Same and removed give the original, same and added the rewritten prompt."""
    spans = marked(original, rewritten)
    assert "".join(span.text for span in spans if span.kind != "added") == original
    assert "".join(span.text for span in spans if span.kind != "removed") == rewritten
