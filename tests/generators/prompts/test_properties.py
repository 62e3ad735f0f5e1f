"""Laws of finding values and of the gate, over prompts put together at random."""

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from lhaw_record.generators.gate import problems_of
from lhaw_record.generators.prompts.occurrences import SearchablePrompt, own_place, remaining, replaced
from lhaw_record.generators.protocol import Removal, Rewriting
from tests.generators.prompts.test_occurrences import segment
from tests.support.depth import at_depth

SEVERITIES = st.sampled_from(["delete", "vaguify", "genericize"])
VALUES = st.sampled_from(
    [
        "plan.xlsx",
        "data/in",
        "1,500 EUR",
        "3 days",
        "Ada Berg",
        "2031-05-06",
        "JSON",
        "the unit North",
        "a+b(c)*?",
        "Tea & Tides",
        "sums/tides_9.csv",
        "12 %",
    ]
)
FRAMES = st.sampled_from(
    [
        "Create a new file called {} for the team.",
        "Save the totals as `{}` and tell the team.",
        'Make a channel named "{}" and invite Bo.',
        "If nobody calls within {}, go home.",
        "Lower the fees by {}, but not today.",
        "Read the rows in {} and add them up.",
        "Sort the rows by {}. Then stop.",
        "Flag every row above {} or without a name.",
        "| limit | {} |",
    ]
)
FILLERS = st.sampled_from(
    [
        "Please do this today.",
        "Do not change anything else.",
        "",
        "Thank you!",
        "Bitte nichts ändern.",
        "结果用中文写。",
    ]
)
LINES = st.lists(st.tuples(FRAMES, st.integers(0, 2)), min_size=1, max_size=2)


@st.composite
def prompts(draw):
    """Return a prompt with one or two values in it, and their segments; the first stands in every frame numbered 0."""
    values = draw(st.lists(VALUES, min_size=1, max_size=2, unique=True))
    lines = []
    for frame, which in draw(LINES):
        lines += [frame.format(values[which % len(values)]), draw(FILLERS)]
    text = draw(st.sampled_from(["\n", "\r\n"])).join([draw(FILLERS), *lines])
    removed = tuple(
        segment(value, "constraint", "selection", segment_id=f"S{number}")
        for number, value in enumerate(values, start=1)
        if value in text
    )
    assume(removed)
    return text, removed


def blanked(prompt, removed):
    """Return a prompt without the values, in whatever form they stand."""
    return replaced(prompt, {place: "" for each in removed for place in SearchablePrompt(prompt).occurrences(each)})


@settings(max_examples=at_depth(150, 750))
@given(prompts())
def test_every_occurrence_is_found(made):
    """A prompt without the occurrences of a value holds it in no form, and the values themselves are occurrences."""
    prompt, removed = made
    assert all(own_place(prompt, one) in SearchablePrompt(prompt).occurrences(one) for one in removed)
    assert remaining(SearchablePrompt(prompt), SearchablePrompt(blanked(prompt, removed)), removed) == {}


@settings(max_examples=at_depth(100, 500))
@given(prompts(), SEVERITIES)
def test_the_gate_judges_any_rewriting(made, severity):
    """The rules never raise, and do not find a value that is gone."""
    prompt, removed = made
    rewriting = Rewriting(prompt=blanked(prompt, removed), expected_questions=(), failure_mode="")
    found = {each.check for each in problems_of(prompt, rewriting, Removal(segments=removed, severity=severity))}
    assert "questions_exist" in found or rewriting.prompt.isspace()


@settings(max_examples=at_depth(100, 500))
@given(st.text(max_size=40), st.text(min_size=1, max_size=12).filter(str.strip), st.text(max_size=40), SEVERITIES)
def test_any_text_and_any_part_of_it(before, value, after, severity):
    """Whatever a prompt holds, the gate judges it without a part; nothing is raised."""
    removal = Removal(segments=(segment(value),), severity=severity)
    rewriting = Rewriting(prompt=before + after, expected_questions=(), failure_mode="")
    problems_of(before + value + after, rewriting, removal)


@settings(max_examples=at_depth(100, 1000))
@given(
    value=st.sampled_from(["ten", "5", "20 %", "Ada", "plan.xlsx", "über", "north"]),
    words=st.lists(
        st.sampled_from(["sentence", "tenth", "15", "5.5", "Adaption", "x", "often", "überall"]), max_size=6
    ),
    at=st.integers(0, 6),
    is_there=st.booleans(),
)
def test_a_value_is_its_own_place_where_it_stands_between_spaces_and_nowhere_else(value, words, at, is_there):
    """Longer words and numbers that hold it, before and after it, never count."""
    said = [*words[:at], *([value] if is_there else []), *words[at:]]
    place = own_place(" ".join(said), segment(value))
    assert (place is not None) == is_there
    if is_there:
        assert place[0] == len(" ".join([*words[:at], ""]))
