"""Rewritten prompts: what JSON and models do to texts is undone, and what is missing is asked for."""

import json

import pytest

from lhaw_record.generators.errors import NotRemovable
from lhaw_record.generators.llm.rewriter import read_rewriting, restored
from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.base.errors import UnusableReply
from tests.support.generation_model import rewriting_reply

ORIGINAL = 'Read a.csv.\n\n- round to 2\n- save as "b.csv"\n'
CHANGED = "Read a.csv.\n\n- round\n- save\n"
SEGMENTS = tuple(
    Segment(segment_id=f"S{number}", value=value, dimension="goal", subdimension="target")
    for number, value in ((1, "2"), (2, "b.csv"))
)
QUESTIONS = [{"segment_id": "S1", "questions": ["How many?"]}, {"segment_id": "S2", "questions": ["Where?", "Which?"]}]


def read(reply, original=ORIGINAL, segments=SEGMENTS):
    """What a reply is read as."""
    return read_rewriting(reply, original, segments)


@pytest.mark.parametrize(
    "prompt",
    [
        CHANGED,
        CHANGED.strip(),
        f"```\n{CHANGED}```",
        f"```markdown\n{CHANGED}\n```\n",
        f"<data>\n{CHANGED}</data>",
        CHANGED.replace("\n", "\\n"),
        CHANGED.replace("\n", "\r\n"),
        f"\n\n{CHANGED}\n\n",
    ],
)
def test_the_form_of_the_original_comes_back(prompt):
    """Fences, tags, escaped or other line breaks and lost ends are mended; nothing else changes."""
    assert read(rewriting_reply(prompt, QUESTIONS)).prompt == CHANGED


def test_a_fence_of_the_original_stays():
    """A prompt that is itself a code block is not unwrapped, and one that is about escapes keeps them."""
    original = "```\nrun 5 times\n```\n"
    assert restored("```\nrun it\n```", original) == "```\nrun it\n```\n"
    original = "Replace \\n by a space.\nIn all files."
    assert restored("Replace \\n by a space.", original) == "Replace \\n by a space."


@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
def test_line_endings_are_those_of_the_original(ending):
    """Windows' and old line endings come back, also at the end."""
    original = ORIGINAL.replace("\n", ending)
    assert restored(CHANGED, original) == CHANGED.replace("\n", ending)


def test_among_mixed_line_endings_each_kept_line_has_its_own():
    """New lines get the usual one."""
    assert restored("a\nc\nnew\nd", "a\r\nb 5\r\nc\nd") == "a\r\nc\nnew\r\nd"
    assert restored("a\nb", "one line") == "a\nb"


@pytest.mark.parametrize(
    "questions",
    [
        QUESTIONS,
        {"S1": ["How many?"], "S2": ["Where?", "Which?"]},
        [{"S1": ["How many?"]}, {"S2": ["Where?", "Which?"]}],
        [
            {"segment_id": " s1", "questions": "How many? "},
            {"segment_id": "S2", "questions": ["Where?", "", "Which?", "Where?"]},
        ],
    ],
)
def test_every_known_form_of_questions_is_read(questions):
    """A list of objects, one object by id, or a list of those; each question once, in the order of the segments."""
    found = read(rewriting_reply(CHANGED, questions)).expected_questions
    assert [(each.segment_id, each.questions) for each in found] == [
        ("S1", ("How many?",)),
        ("S2", ("Where?", "Which?")),
    ]


def test_the_questions_of_a_single_segment_need_no_id():
    """They can be about nothing else."""
    (found,) = read(
        rewriting_reply(CHANGED, [{"segment_id": "1", "questions": ["How many?"]}]), segments=SEGMENTS[:1]
    ).expected_questions
    assert (found.segment_id, found.questions) == ("S1", ("How many?",))


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("Here is the task without the number: Read a.csv.", "no JSON object"),
        (json.dumps({"underspecified_prompt": ""}), 'no text under the key "underspecified_prompt"'),
        (json.dumps({"underspecified_prompt": ["Read"]}), 'no text under the key "underspecified_prompt"'),
        (rewriting_reply(CHANGED, QUESTIONS, ""), 'no text under the key "failure_mode"'),
        (rewriting_reply(CHANGED, QUESTIONS[:1]), "no question for S2"),
        (rewriting_reply(CHANGED, "none"), "no question for S1, S2"),
        (rewriting_reply(CHANGED, QUESTIONS)[:60], "ends before the JSON object does"),
        (rewriting_reply(CHANGED, QUESTIONS)[:-1], "ends before the JSON object does"),
    ],
)
def test_what_lacks_something_is_refused_in_words(reply, problem):
    """A cut-off prompt is never taken for a whole one, and no question or failure mode is made up."""
    with pytest.raises(UnusableReply, match=problem):
        read(reply)


@pytest.mark.thorough
def test_that_it_cannot_be_done_is_an_answer():
    """With its reason, which counts only where no prompt is given."""
    said = read(json.dumps({"underspecified_prompt": "", "impossible": "It is a whole rule\nwithout it."}))
    assert isinstance(said, NotRemovable)
    assert str(said) == "It is a whole rule without it."
    made = json.loads(rewriting_reply(CHANGED, QUESTIONS)) | {"impossible": "hard, but done"}
    assert read(json.dumps(made)).prompt == CHANGED


def test_near_valid_replies_are_read():
    """A raw line break, a comma too many and words around the object cost no second request."""
    reply = (
        rewriting_reply(CHANGED, QUESTIONS).replace("\\n", "\n").replace('"failure_mode"', '"x": 1,, "failure_mode"')
    )
    assert read(f"Here it is:\n{reply}\nDone.").prompt == CHANGED
