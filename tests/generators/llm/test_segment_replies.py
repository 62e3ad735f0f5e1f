"""Proposed segments: each checked by itself, taken as the prompt spells it, or refused with the reason."""

from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lhaw_record.generators.llm.segment_replies import PromptEvidence, read_proposals
from lhaw_record.recorder.events.values import DIMENSIONS

PROMPT = """Read sales.xlsx from Documents/Q3 and sum column B per region.
Round to two decimals (2 decimals), and save it as "summary.csv". Leave out regions below 1,000 EUR.
"""
SHOWN = PromptEvidence(checkpoint_ids=("CP1", "2"), has_trajectory=True)


def proposal(value="summary.csv", **changes):
    """A proposal as it should be; changes replace or, where None, remove a field."""
    fields = {
        "value": value,
        "text": 'save it as "summary.csv"',
        "dimension": "goal",
        "subdimension": "target",
        "criticality": 1,
        "guessability": 0,
        **changes,
    }
    return {name: field for name, field in fields.items() if field is not None}


def read(*proposals, shown=SHOWN, most=30):
    """What is taken of some proposals."""
    with mock.patch("lhaw_record.generators.llm.segment_replies.MOST_SEGMENTS", most):
        return read_proposals(proposals, PROMPT, shown)


def reason_of(*proposals):
    """Why the last of some proposals is refused."""
    return read(*proposals).rejected[-1].reason


def test_segments_are_numbered_by_their_place():
    """Whatever the order of the reply; value and text are exact parts of the prompt, scores are numbers."""
    found = read(proposal(), proposal("Documents/Q3", text=None, dimension="INPUT"), proposal("column B", text=None))
    assert [(each.segment_id, each.value) for each in found.segments] == [
        ("S1", "Documents/Q3"),
        ("S2", "column B"),
        ("S3", "summary.csv"),
    ]
    assert found.segments[0].dimension == "input"
    assert found.segments[2].text == 'save it as "summary.csv"'
    assert (found.segments[2].criticality, found.segments[2].guessability) == (1.0, 0.0)
    assert found.rejected == ()


@pytest.mark.parametrize(("given", "score"), [(1, 1.0), ("1", 1.0), ("1.0", 1.0), (0.5, 0.5), (" 0.5 ", 0.5), (0, 0.0)])
def test_unambiguous_scores_are_taken(given, score):
    """A number and its text are the same."""
    assert read(proposal(criticality=given)).segments[0].criticality == score


@pytest.mark.parametrize("given", [0.7, "high", 2, -1, True, None, [], "0,5", "nan", 1e-9])
def test_other_scores_are_refused_with_the_reason(given):
    """No score is rounded or guessed; the other segments of the reply are taken."""
    found = read(proposal(guessability=given), proposal("column B", text=None))
    assert [segment.value for segment in found.segments] == ["column B"]
    assert [(each.value, each.reason.split(" is ")[0]) for each in found.rejected] == [("summary.csv", "guessability")]
    assert "it must be 0, 0.5 or 1" in found.rejected[0].reason


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (proposal("report.csv"), "not in the prompt"),
        (proposal("al"), "only inside other words"),
        (proposal(""), "no value"),
        (proposal("..."), "not in the prompt"),
        (proposal(None), "no value"),
        (proposal(PROMPT), "the whole prompt"),
        (proposal("x" * 301), "301 characters"),
        (proposal(dimension="output"), "the dimension 'output' is unknown; known are goal, constraint"),
        (proposal(dimension=None), "the dimension None is unknown"),
        ("summary.csv", "not a JSON object"),
        (None, "not a JSON object"),
    ],
)
def test_what_cannot_be_taken_has_a_reason(bad, reason):
    """Each refusal names what is wrong with the one proposal."""
    assert reason in reason_of(bad)
    assert read(bad).segments == ()


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ("numeric_bound", "numeric_bound"),
        ("Numeric bound", "numeric_bound"),
        ("lead-time", "lead_time"),
        ("", "unspecified"),
    ],
)
def test_subdimensions_are_an_open_vocabulary(given, name):
    """An unknown one is kept, in one style."""
    assert read(proposal(subdimension=given)).segments[0].subdimension == name


def test_equal_values_become_one_segment():
    """The first counts, with the references of all; that there was another is recorded."""
    found = read(
        proposal(checkpoint_refs=["CP1"], is_used_in_trajectory=True, first_use_pct=0.5),
        proposal('"Summary.csv"', criticality=0, checkpoint_refs=[2], is_used_in_trajectory=True, first_use_pct=0.25),
    )
    (segment,) = found.segments
    assert (segment.value, segment.criticality) == ("summary.csv", 1.0)
    assert (segment.checkpoint_refs, segment.first_use_pct) == (("CP1", "2"), 0.25)
    assert [each.reason for each in found.rejected] == ["proposed before; merged with that segment"]


def test_overlapping_segments_are_all_taken():
    """What is removed together is chosen later; a path and its last folder are two segments."""
    assert len(read(proposal("Documents/Q3", text=None), proposal("Q3", text=None)).segments) == 2


def test_only_what_was_shown_is_believed():
    """Without checkpoints and trajectory nothing that a reply says about them is taken; unknown ids never are."""
    said = proposal(checkpoint_refs=["cp1", "CP9", 2], is_used_in_trajectory=True, first_use_pct=0.25)
    seen, unseen = read(said).segments[0], read(said, shown=PromptEvidence()).segments[0]
    assert (seen.checkpoint_refs, seen.is_used_in_trajectory, seen.first_use_pct) == (("CP1", "2"), True, 0.25)
    assert (unseen.checkpoint_refs, unseen.is_used_in_trajectory, unseen.first_use_pct) == ((), None, None)


@pytest.mark.parametrize(
    ("is_used", "share", "taken"),
    [(True, 15, (True, None)), (True, "early", (True, None)), (False, 0.5, (False, None)), ("yes", 0.5, (None, None))],
)
def test_a_first_use_that_makes_no_sense_is_left_out(is_used, share, taken):
    """A share outside 0 to 1, or of what is not used, is unknown; the segment is taken all the same."""
    (segment,) = read(proposal(is_used_in_trajectory=is_used, first_use_pct=share)).segments
    assert (segment.is_used_in_trajectory, segment.first_use_pct) == taken


def test_synonyms_are_what_else_in_the_prompt_gives_it_away():
    """As the prompt spells them, each once; the value itself and what is not in the prompt are none."""
    found = read(proposal("two decimals", synonyms=["2 Decimals", "2 decimals", "two decimals", "2 dp"], text=None))
    assert found.segments[0].synonyms == ("2 decimals",)


def test_too_many_segments_are_cut_by_priority():
    """Those of the lowest priority go, with the reason; of equal ones the first stay."""
    low = proposal("column B", text=None, criticality=0.5)
    found = read(low, proposal(), proposal("sales.xlsx", text=None), most=2)
    assert [segment.value for segment in found.segments] == ["sales.xlsx", "summary.csv"]
    assert [(each.value, "more than 2 segments" in each.reason) for each in found.rejected] == [("column B", True)]


@given(
    st.lists(
        st.dictionaries(
            st.sampled_from(
                ["value", "text", "dimension", "criticality", "guessability", "synonyms", "checkpoint_refs"]
            ),
            st.sampled_from(
                ["sales.xlsx", "Q3", "per region", *DIMENSIONS, 0, 1, 0.5, 0.7, None, True, [], ["Q3"], {}]
            ),
        )
        | st.none(),
        max_size=8,
    ),
    st.integers(0, 4),
)
def test_whatever_is_proposed_nothing_wrong_is_taken(proposals, most):
    """Every proposal is taken, merged or refused; what is taken is in the prompt, scored and in order."""
    found = read(*proposals, most=most)
    assert len(found.segments) + len(found.rejected) == len(proposals)
    assert len(found.segments) <= most
    for segment in found.segments:
        assert segment.value in PROMPT
        assert segment.text is None or (segment.text in PROMPT and segment.value in segment.text)
        assert segment.dimension in DIMENSIONS
        assert {segment.criticality, segment.guessability} <= {0.0, 0.5, 1.0}
    assert [segment.segment_id for segment in found.segments] == [f"S{n}" for n in range(1, len(found.segments) + 1)]
