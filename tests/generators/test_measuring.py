"""How an extractor is measured: the rule of matching, the figures, and that only development is open."""

import hashlib

import anyio
import pytest

from lhaw_record.generators.errors import ExtractionFailed
from lhaw_record.generators.protocol import Extraction
from lhaw_record.recorder.events.values import Segment
from tests.generators.labelled import SPLITS, GoldSegment, LabelledPrompt, read_labels
from tests.generators.matching_spans import core, matched, occurrences, overlap
from tests.generators.measure_extractor import (
    PROMPT_ONLY,
    details,
    label_scores,
    main,
    measure,
    recall_by,
    report,
    scored,
    share,
    span_scores,
)
from tests.support.needs import needs

PROMPT = 'Read "sales.csv", sum the amounts above 500 EUR per region and save "totals.csv" by May 5.'


def span(value, prompt=PROMPT):
    """Where a value first stands."""
    start = prompt.index(value)
    return start, start + len(value)


def found(values, golds, prompt=PROMPT):
    """The pairs that count, as (predicted, gold, is_exact)."""
    pairs = matched(prompt, values, [span(gold, prompt) for gold in golds])
    return [(pair.predicted, pair.gold, pair.is_exact) for pair in pairs]


def test_quotes_and_punctuation_around_a_value_do_not_count():
    """A value with its quotes and comma is exactly the value without."""
    assert found(['"sales.csv",'], ["sales.csv"]) == [(0, 0, True)]
    assert core(PROMPT, *span('"sales.csv", ')) == span("sales.csv")


def test_a_value_of_nothing_but_punctuation_stays_itself():
    """A quoted separator can be a segment."""
    assert found(['";"'], [";"], 'Split at ";" only') == [(0, 0, True)]


@pytest.mark.parametrize(
    ("value", "is_match"),
    [("500 EUR", True), ("500", False), ("00 EUR p", True), ("above 500 EUR", True), ("amounts above 500 EUR", False)],
)
def test_half_of_the_characters_in_common_is_a_match(value, is_match):
    """Against "500 EUR": 3/7 and 7/21 are too little, 6/8 and 7/13 are enough."""
    assert bool(found([value], ["500 EUR"])) == is_match


def test_exactly_half_is_enough():
    """The bound belongs to the match: 3 of 6 characters."""
    assert overlap((0, 3), (0, 6)) == 0.5
    assert found(["abc"], ["abcdef"], "abcdef") == [(0, 0, False)]


def test_spans_that_do_not_touch_have_nothing_in_common():
    """Neighbours share no character."""
    assert overlap((0, 3), (3, 6)) == 0.0
    assert overlap((0, 3), (10, 16)) == 0.0


def test_matching_is_one_to_one():
    """Two predictions of one segment are one hit and one false find, and the exact one is the hit."""
    assert found(["above 500 EUR", "500 EUR", "500 EUR per"], ["500 EUR"]) == [(1, 0, True)]
    assert found(["sales.csv"], ["sales.csv", "totals.csv"]) == [(0, 0, True)]


def test_a_long_prediction_takes_only_the_segment_that_it_fits_best():
    """A span over two neighbours counts for the larger of them, once."""
    assert found(["500 EUR per region"], ["500 EUR", "per region"]) == [(0, 1, False)]


def test_any_occurrence_of_a_value_can_match():
    """The label stands at the occurrence with its meaning; to remove a value is to remove all of them."""
    prompt = "Name the sheet: Name"
    pairs = matched(prompt, ["Name"], [(16, 20)])
    assert [(pair.predicted, pair.gold, pair.is_exact) for pair in pairs] == [(0, 0, True)]
    assert occurrences("aaa", "aa") == [(0, 2), (1, 3)]


def test_a_value_that_is_not_in_the_prompt_matches_nothing():
    """Nor does an empty one, or one in another case."""
    assert found(["orders.csv", "", "SALES.csv"], ["sales.csv"]) == []


class Fixed:
    """An extractor that gives the same values for every prompt."""

    name = "fixed/1"
    digest = "0"

    def __init__(self, *segments):
        self.segments = segments

    async def extract(self, source, grounding, caller):
        """Return them; without any, fail."""
        assert (grounding, caller) == (PROMPT_ONLY, None)
        if not self.segments:
            raise ExtractionFailed("nothing to see")
        return Extraction(
            segments=tuple(
                Segment(
                    segment_id=f"S{number}",
                    value=value,
                    dimension=dimension,
                    subdimension=subdimension,
                    criticality=1.0,
                    guessability=0.0,
                )
                for number, (value, dimension, subdimension) in enumerate(self.segments, start=1)
            )
        )


GOLD = (
    ("sales.csv", "input", "identifier", "file_name"),
    ("500 EUR", "constraint", "numeric_bound", "number"),
    ("totals.csv", "goal", "target", "file_name"),
    ("May 5", "constraint", "temporal", "date"),
)


def results(*segments, count=1):
    """The scores of an invented prompt, some times over."""
    labelled = LabelledPrompt(
        benchmark="invented",
        task_id="t",
        prompt_sha256=hashlib.sha256(PROMPT.encode()).hexdigest(),
        segments=tuple(
            GoldSegment(
                start=span(value)[0],
                end=span(value)[1],
                dimension=dimension,
                subdimension=subdimension,
                kind=kind,
                criticality=1.0,
                guessability=0.5,
            )
            for value, dimension, subdimension, kind in GOLD
        ),
    )
    return [anyio.run(scored, Fixed(*segments), labelled, PROMPT)] * count


FOUND = (
    ("sales.csv", "input", "source"),
    ("above 500 EUR", "constraint", "numeric_bound"),
    ("totals.csv", "input", "identifier"),
    ("Read", "goal", "target"),
    ("region", "constraint", "method"),
)


def test_precision_recall_and_f1_in_both_readings():
    """Five found, four labelled: two exact hits, one more by overlap. F1 is 2·2/9 and 2·3/9."""
    one = results(*FOUND)
    exact = {name: value.value for name, value in span_scores(one, is_exact=True)}
    by_overlap = {name: value.value for name, value in span_scores(one, is_exact=False)}
    assert exact == {"precision": 2 / 5, "recall": 2 / 4, "F1": 4 / 9}
    assert by_overlap == {"precision": 3 / 5, "recall": 3 / 4, "F1": 6 / 9}


def test_labels_are_compared_on_matched_segments_only():
    """Of three matched: two of the right dimension, one of them with its subdimension; the scores likewise."""
    measured = {name: value.value for name, value in label_scores(results(*FOUND))}
    assert measured == {
        "dimension": 2 / 3,
        "dimension and subdimension": 1 / 3,
        "criticality": 1.0,
        "guessability": 0.0,
    }


def test_recall_by_kind_counts_each_kind_by_itself():
    """Both file names are found, the date is not."""
    rows = recall_by(results(*FOUND), lambda gold: gold.kind)
    assert [(kind, count, value.value) for kind, count, value in rows] == [
        ("file_name", 2, 1.0),
        ("date", 1, 0.0),
        ("number", 1, 1.0),
    ]


def test_an_extractor_that_fails_has_found_nothing():
    """Its prompt counts in recall; precision is undefined, and the report says how many failed."""
    failed = results()
    values = {name: value.value for name, value in span_scores(failed, is_exact=False)}
    assert values == {"precision": None, "recall": 0.0, "F1": 0.0}
    assert report(failed)[-1].startswith("1 of 1 prompts without a result")


def test_the_interval_is_that_of_prompts():
    """Fewer than five prompts have a value and no interval; unlike ones have one around the value."""
    assert share([1, 1, 1], [2, 2, 2]) == (0.5, None, None)
    value, low, high = share([0, 4, 1, 4, 2], [4, 4, 4, 4, 4])
    assert low < value < high


def test_only_details_show_the_text_of_a_prompt():
    """The tables hold no value; the details name what was missed, by kind, and what was found beside the labels."""
    one = results(*FOUND)
    texts = [value for value, *_ in (*GOLD, *FOUND)]
    assert not [text for text in texts if any(repr(text) in line for line in report(one))]
    lines = details(one)
    assert "- t constraint/temporal: 'May 5'" in lines[lines.index("missed, date (1)") :]
    assert "- t constraint/method: 'region'" in lines[lines.index("found beside the labels") :]


@pytest.mark.parametrize("split", [split for split in SPLITS if split != "development"])
def test_a_closed_split_shows_no_details(split, capsys):
    """Asking for them ends with a usage error before anything is read."""
    with pytest.raises(SystemExit) as ended:
        main(["some.module:Extractor", "--split", split, "--details"])
    assert ended.value.code == 2
    assert f"{split} stays closed" in capsys.readouterr().err


@needs("published")
@pytest.mark.parametrize("split", SPLITS)
def test_every_prompt_of_a_split_is_scored(split):
    """Each has its text and its own labels; an extractor that finds nothing has no precision and a recall of 0."""
    every = anyio.run(measure, Fixed(), split)
    assert [each.labelled for each in every] == list(read_labels(split))
    assert {name: value.value for name, value in span_scores(every, is_exact=False)} == {
        "precision": None,
        "recall": 0.0,
        "F1": 0.0,
    }
