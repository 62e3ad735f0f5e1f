"""NormalizedText text, and where its characters stood."""

import re

from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.runners.base.text.normalization import normalize, normalize_with_places

TEXTS = st.text(alphabet=st.sampled_from("aAbZ01 5,.%€$-\u2013\u2019\u00a0\n\tÄä\u0301\u0308éßﬁ中文.kg"), max_size=60)


def places(text, pattern):
    """Return the parts of a text that fold to what a pattern finds."""
    return [text[start:end] for start, end in normalize_with_places(text).places(re.compile(pattern))]


def test_a_match_gives_the_place_in_the_original():
    """Case, spacing, number format and accents are folded, and the place is that of the text as it was."""
    assert places("At most 1,000.50\u00a0EUR.", "1000.5 eur") == ["1,000.50\u00a0EUR"]
    assert places("Wait 500ms or 500 ms", "500 ms") == ["500ms", "500 ms"]
    assert places("Cafe\u0301 and CAFÉ", "café") == ["Cafe\u0301", "CAFÉ"]
    assert places("up  to\n12", "up to 12") == ["up  to\n12"]


@given(TEXTS)
def test_both_ways_fold_alike(text):
    """The text with places is the folded text."""
    assert normalize_with_places(text).text.strip() == normalize(text)


@given(TEXTS)
def test_every_character_has_a_place_in_order(text):
    """Each folded character comes from inside the text, and none from before the one before it."""
    folded = normalize_with_places(text)
    assert len(folded.starts) == len(folded.ends) == len(folded.text)
    assert all(0 <= start <= end <= len(text) for start, end in zip(folded.starts, folded.ends, strict=True))
    assert folded.starts == sorted(folded.starts)


@given(TEXTS)
def test_folding_twice_is_folding_once(text):
    """What is folded is folded."""
    assert normalize(normalize(text)) == normalize(text)
