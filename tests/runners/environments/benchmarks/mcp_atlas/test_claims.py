"""The deterministic matcher: tolerances, notations, and what it refuses to believe."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.runners.environments.benchmarks.mcp_atlas.claims import (
    ClaimScore,
    coverage_of,
    match_claims,
    match_left,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.facts import facts_of
from lhaw_record.runners.environments.grading.confined import ConfinedLimits
from lhaw_record.runners.environments.grading.confined_grading import read_apart
from lhaw_record.runners.environments.grading.deliverables import Deliverables


def score(claim, answer, prompt=""):
    """Return the score of one claim."""
    return match_claims([claim], answer, prompt)[0].score


@pytest.mark.parametrize(
    ("claim", "answer", "expected"),
    [
        # numbers within 5 %
        ("The mean price of a ticket is $100.", "The mean ticket price is 95 dollars.", 1.0),
        ("The mean price of a ticket is $100.", "The mean ticket price is 94 dollars.", 0.0),
        ("The mean price of a ticket is $1,204.50.", "The mean ticket price comes to 1204.5.", 1.0),
        ("The mean price of a ticket is 2.5 million.", "The mean ticket price is 2,500,000.", 1.0),
        ("There are three broken lamps.", "I counted 3 broken lamps.", 1.0),
        # percentages within 1 point, also as a fraction, also as a decrease
        ("The share of late trains is 42.8%.", "The share of late trains is 43.7 percent.", 1.0),
        ("The share of late trains is 42.8%.", "The share of late trains is 43.9%.", 0.0),
        ("The share of late trains is 42.8%.", "The share of late trains is 0.428.", 1.0),
        ("The change of the fare was -18.4%.", "The fare decreased: a change of 18.4%.", 1.0),
        ("The change of the fare was -18.4%.", "The change of the fare was 18.4%.", 0.0),
        # dates and years are exact, in any notation
        ("The fair began on 2023-09-03.", "The fair began on September 3, 2023.", 1.0),
        ("The fair began on 3/9/2023.", "The fair began on 3 September 2023.", 1.0),
        ("The fair began on 2023-09-03.", "The fair began on September 4, 2023.", 0.0),
        ("The fair was founded in 1998.", "The fair was founded in 1999.", 0.0),
        # names that have to agree
        ("The bug is in src/app/main.py.", "The bug is in main.py.", 1.0),
        ("The bug came with commit 4f2a91c07d3e5b68.", "The bug came with commit 4f2a91c07.", 1.0),
        ("The bug came with version 1.2.3.", "The bug came with version 1.2.4.", 0.0),
    ],
)
def test_values(claim, answer, expected):
    """Each kind of value matches within its tolerance and not beyond."""
    assert score(claim, answer) == expected


def test_a_value_without_its_words_is_half():
    """A bare number may be about anything."""
    assert score("The mean age of the nurses is 41.5 years.", "Some figures: 41.5") == 0.5


def test_one_of_two_values_is_half():
    """A claim with two values is partially fulfilled by one of them."""
    assert score("The shop opens at 9 and sells 250 loaves.", "The shop opens at 9 and sells 10 loaves.") == 0.5


def test_a_value_that_the_prompt_states_proves_nothing():
    """Repeating the question is no answer."""
    prompt = "How many of the 250 loaves were sold in 2023?"
    claim = "Of the 250 loaves 198 were sold in 2023."
    assert score(claim, "You ask about 250 loaves in 2023.", prompt) == 0.0
    assert score(claim, "198 of the loaves were sold.", prompt) == 1.0


def test_words_need_what_the_prompt_does_not_say():
    """A claim without values needs its new words; an echo of the prompt has none of them."""
    prompt = "Who designed the opera house in Sydney?"
    claim = "The opera house in Sydney was designed by Jørn Utzon."
    assert score(claim, "Jørn Utzon designed it.", prompt) == 1.0
    assert score(claim, "Somebody designed the opera house in Sydney.", prompt) == 0.0


def test_a_choice_among_the_prompts_own_words_needs_the_right_subject():
    """Of two options that the prompt names, the other one scores nothing."""
    prompt = "Do women or men show the larger gap in the salary data?"
    claim = "Men show the larger gap in the salary data."
    assert score(claim, "Men show the larger gap in the data.", prompt) == 1.0
    assert score(claim, "Women show the larger gap in the data.", prompt) == 0.0
    assert score(claim, "Men do not show the larger gap in the data.", prompt) == 0.0


def test_attribution_is_not_part_of_a_claim():
    """Naming the file that a value is from needs no repetition."""
    assert (
        score('According to "crimes.csv", the mean age of suspects is 48.5.', "The mean age of suspects is 48.5.")
        == 1.0
    )


@pytest.mark.parametrize("answer", ["", "  \n "])
def test_an_empty_answer_scores_nothing(answer):
    """Saying nothing is the agent's doing, on every claim."""
    assert [found.score for found in match_claims(["It is 5.", "Yes, really."], answer, "")] == [0.0, 0.0]


def test_coverage_is_rounded_before_the_threshold():
    """Two thirds are 0.667, three quarters pass, and no claims have no coverage."""
    assert coverage_of([1, 1, 0]) == 0.667
    assert coverage_of([1, 1, 1, 0]) == 0.75
    with pytest.raises(ValueError, match="no coverage"):
        coverage_of([])


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_text_gets_a_score(claim, answer):
    """No text breaks the matcher, and every score is one of three."""
    assert score(claim, answer) in {0.0, 0.5, 1.0}
    assert all(fact.values for fact in facts_of(claim))


def test_every_published_claim_is_fulfilled_by_itself(real_rows):
    """On the published rows the claims are a full answer, and the prompt alone never passes."""
    from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import read_rows

    names = ("rows_v1_format.csv", "rows_v2_format.csv", "offline_prompts.jsonl")
    for row in read_rows([real_rows / name for name in names]):
        full = match_claims(row.claims, "\n".join(row.claims), row.prompt)
        assert coverage_of([found.score for found in full]) == 1.0, row.task_id
        echo = match_claims(row.claims, row.prompt, row.prompt)
        assert coverage_of([found.score for found in echo]) < 0.75, row.task_id


@pytest.mark.thorough
def test_a_final_answer_without_end_is_no_answer():
    """The patterns of names take quadratic time on one long word: a child with limits, and every claim fails."""
    left = Deliverables(None, "x" * 200_000)
    limits = ConfinedLimits(cpu_seconds=1)
    scores, abuse = read_apart(
        match_left, left, ["It is 5.", "It is red."], "", returns=list[ClaimScore], limits=limits
    )
    assert abuse == "the final answer could not be read within 1 s of processor time"
    assert [(score.score, score.reason) for score in scores] == [(0.0, abuse)] * 2


def test_a_long_line_of_numbers_is_an_answer():
    """Thousands of numbers in one sentence are read in linear time: an honest table is no abuse."""
    left = Deliverables(None, "1,1.1 " * 5_000 + "and 1,234.50")
    limits = ConfinedLimits(cpu_seconds=5)
    (score,), abuse = read_apart(match_left, left, ["1,234.50"], "", returns=list[ClaimScore], limits=limits)
    assert (score.score, abuse) == (1.0, None)
