"""Laws of the embedded rewriter, over prompts put together at random."""

import re

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.gate import problems_of
from lhaw_record.generators.protocol import Removal
from lhaw_record.generators.rewriting.occurrences import Prompt, remaining
from tests.generators.rewriting.rewriting_cases import REWRITER, segment
from tests.support.depth import at_depth

REFUSALS = [HealthCheck.filter_too_much]  # the rules refuse most of what is drawn
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


def rewriting_of(prompt, removed, severity):
    """Return the rewriting, or end this example where the rules say that they cannot."""
    try:
        return REWRITER.rewriting(prompt, Removal(segments=removed, severity=severity))
    except RewritingFailed:
        assume(False)


@settings(max_examples=at_depth(150, 750), suppress_health_check=REFUSALS)
@given(prompts(), SEVERITIES)
def test_no_removed_value_remains(made, severity):
    """After a rewriting no value is found in any of its forms."""
    prompt, removed = made
    text = rewriting_of(prompt, removed, severity).prompt
    assert remaining(Prompt(prompt), Prompt(text), removed) == {}


@settings(max_examples=at_depth(150, 750), suppress_health_check=REFUSALS)
@given(prompts(), SEVERITIES)
def test_lines_without_a_value_stay_as_they_are(made, severity):
    """Every line that holds no value is there afterwards, in its order."""
    prompt, removed = made
    left = iter(rewriting_of(prompt, removed, severity).prompt.splitlines())
    places = [place.start for each in removed for place in Prompt(prompt).occurrences(each)]
    start = 0
    for line in prompt.splitlines(keepends=True):
        has_value = any(start <= place < start + len(line) for place in places)
        start += len(line)
        assert has_value or not line.strip() or any(each == line.rstrip("\r\n") for each in left), line


@settings(max_examples=at_depth(150, 750), suppress_health_check=REFUSALS)
@given(prompts(), SEVERITIES)
def test_line_ends_stay(made, severity):
    """A prompt with Windows line ends keeps them, one without gets none."""
    prompt, removed = made
    text = rewriting_of(prompt, removed, severity).prompt
    if "\r\n" in prompt:
        assert not re.search(r"(?<!\r)\n", text)
    else:
        assert "\r" not in text


@settings(max_examples=at_depth(100, 500), suppress_health_check=REFUSALS)
@given(prompts(), SEVERITIES)
def test_what_passes_the_checks_reads_like_text(made, severity):
    """The checks never raise; and no rewriting of the rules breaks quotes, brackets or spaces."""
    prompt, removed = made
    removal = Removal(segments=removed, severity=severity)
    rewriting = rewriting_of(prompt, removed, severity)
    failed = {each.check for each in problems_of(prompt, rewriting, removal)}
    assert failed.isdisjoint({"value_is_gone", "questions_exist", "questions_keep_the_secret", "no_placeholder"})


@settings(max_examples=at_depth(60, 300), suppress_health_check=REFUSALS)
@given(prompts(), SEVERITIES)
def test_the_same_removal_gives_the_same_rewriting(made, severity):
    """Rewriting is a function: prompt and removal decide everything."""
    prompt, removed = made
    assert rewriting_of(prompt, removed, severity) == rewriting_of(prompt, removed, severity)


@settings(max_examples=at_depth(100, 500), suppress_health_check=REFUSALS)
@given(st.text(max_size=40), st.text(min_size=1, max_size=12).filter(str.strip), st.text(max_size=40), SEVERITIES)
def test_any_text_and_any_part_of_it(before, value, after, severity):
    """Whatever a prompt holds, a part of it is taken out or refused with a reason; nothing else is raised."""
    text = before + value + after
    removal = Removal(segments=(segment(value),), severity=severity)
    try:
        rewriting = REWRITER.rewriting(text, removal)
    except RewritingFailed:
        return
    problems_of(text, rewriting, removal)
