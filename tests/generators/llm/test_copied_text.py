"""Where a model's copy stands in a prompt: exact, folded, as whole words, or nowhere."""

import unicodedata

import pytest

from lhaw_record.generators.llm.segment_replies import Places


def found(prompt, wanted, within=None):
    """The part of a prompt that a text is found as."""
    span = Places(prompt).find(wanted, within)
    return prompt[slice(*span)] if span else None


@pytest.mark.parametrize(
    ("prompt", "wanted", "place"),
    [
        ("Save it as report.csv.", "report.csv", "report.csv"),
        ("Save it as `report.csv`.", "`report.csv`", "report.csv"),
        ("Make the “totals” sheet", '"totals"', "totals"),
        ("Make the “totals” sheet", 'the "totals" sheet', "the “totals” sheet"),
        ("Ann\u2019s share of it", "Ann's share", "Ann\u2019s share"),
        ("from 1\u20132 pm on", "1-2 pm", "1\u20132 pm"),
        ("in two\r\n  decimals", "two decimals", "two\r\n  decimals"),
        ("in two\ndecimals", "two\\ndecimals", "two\ndecimals"),
        ("at 10\u00a0EUR each", "10 EUR", "10\u00a0EUR"),
        ("Use the Berlin office", "use the berlin office", "Use the Berlin office"),
        ("budget of 1,200 EUR", "1200 EUR", "1,200 EUR"),
        ("Speichere 結果.xlsx bitte", "結果.xlsx", "結果.xlsx"),
        ("보고서.csv를 저장", "보고서.csv", "보고서.csv"),
        ("delete *.tmp files", "*.tmp", "*.tmp"),
        ("call __init__ first", "__init__", "__init__"),
        ("limit of 20mm", "20", "20"),
        ("the content of tables 3,4,5", "tables 3", "tables 3"),
        ("join the names with ;", ";", ";"),
    ],
)
def test_the_exact_part_of_the_prompt_is_given(prompt, wanted, place):
    """Marks around it, other spaces, quotes, case or number format hide no value; the prompt's spelling counts."""
    assert found(prompt, wanted) == place


def test_unicode_forms_are_the_same():
    """A value in composed letters is found in a prompt of decomposed ones, and the other way round."""
    composed = "Cafe\u0301 Zürich"
    for left, right in (("NFC", "NFD"), ("NFD", "NFC")):
        prompt = f"Meet at {unicodedata.normalize(left, composed)} today"
        assert found(prompt, unicodedata.normalize(right, composed)) == unicodedata.normalize(left, composed)


@pytest.mark.parametrize(
    ("prompt", "wanted"),
    [
        ("start with the party", "art"),
        ("15 rows", "5"),
        ("a factor of 3.5", "3"),
        ("a factor of 3.5", "5"),
        ("1,200 rows", "200"),
        ("Save it.", "report.csv"),
        ("Save it.", ""),
        ("Save it.", "``"),
        ("Save it.", "\\n"),
    ],
)
def test_parts_of_words_and_other_texts_are_nowhere(prompt, wanted):
    """What stands only inside words or numbers, or not at all, has no place."""
    assert found(prompt, wanted) is None


def test_of_several_places_the_one_in_the_given_text_counts():
    """Without a text around it the first whole word counts."""
    prompt = "The start: art of 5 pages.\nThen the art of 7 pages."
    places = Places(prompt)
    line = places.find("Then the art of 7 pages.")
    assert places.find("art") == (11, 14)
    assert places.find("art", line) == (36, 39)
    assert places.find("5 pages", line) == (18, 25)
