"""What counts as a verdict: forgiving about what stands around it, strict about what it says."""

import json

import pytest

from lhaw_record.runners.base.errors import UnusableReply
from lhaw_record.runners.judging.failure_modes import COMPUTED, FLAGS, JUDGED, read_flags
from lhaw_record.runners.judging.new_tasks import read_new_task


def said(**changes):
    """A reply with every judged flag; changes replace or, where None, remove one."""
    flags = {flag: {"verdict": "NO", "reason": "nothing"} for flag in JUDGED} | changes
    return {"flags": {name: value for name, value in flags.items() if value is not None}}


def test_the_catalogue_is_that_of_the_source():
    """Seven categories with three flags each, no name twice; five are computed and the others judged."""
    names = [flag for flags in FLAGS.values() for flag in flags]
    assert [len(flags) for flags in FLAGS.values()] == [3] * 7
    assert len(set(names)) == 21
    assert set(JUDGED) == set(names) - COMPUTED
    assert len(COMPUTED) == 5


def test_flags_come_in_the_order_of_the_catalogue():
    """Every judged flag once, with its verdict and reason, whatever the order of the reply."""
    reply = said(vague_questions={"verdict": "YES", "reason": "names no file"})
    reversed_reply = {"flags": dict(reversed(reply["flags"].items()))}
    flags = read_flags(json.dumps(reversed_reply))
    assert [flag.flag for flag in flags] == list(JUDGED)
    assert (flags[0].verdict, flags[0].reason) == ("yes", "names no file")
    assert {flag.verdict for flag in flags[1:]} == {"no"}


@pytest.mark.parametrize(
    ("word", "verdict"),
    [("YES", "yes"), (" no ", "no"), ("N/A", "not_applicable"), ("not applicable", "not_applicable")],
)
def test_words_of_a_verdict(word, verdict):
    """Case and blanks do not matter."""
    flags = read_flags(json.dumps(said(false_confidence={"verdict": word, "reason": ""})))
    assert next(flag.verdict for flag in flags if flag.flag == "false_confidence") == verdict


def test_names_with_the_prefix_of_the_source_are_understood():
    """``flag_vague_questions`` is vague_questions; flags that nobody asked for are passed over."""
    reply = {f"flag_{name}": value for name, value in said()["flags"].items()}
    reply["flag_redundant_questions"] = {"verdict": "YES", "reason": "computed elsewhere"}
    assert [flag.flag for flag in read_flags(json.dumps({"flags": reply}))] == list(JUDGED)


@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```", "Here you are:\n{}\nI hope this helps."])
def test_what_stands_around_the_object_is_forgiven(around):
    """Code fences and prose around the JSON object do not matter."""
    assert read_flags(around.replace("{}", json.dumps(said())))
    text = json.dumps({"same_answer": True, "completes_task": False, "reason": "r"})
    assert read_new_task(around.replace("{}", text)).verdict == "rejected"


@pytest.mark.parametrize(
    ("reply", "problem"),
    [
        ("", "no JSON object"),
        ("I would say yes.", "no JSON object"),
        ('{"flags": {', "not valid JSON"),
        ('{"flags": []}', 'the key "flags" has no object'),
        (json.dumps(said(false_confidence=None)), "these flags are missing: false_confidence"),
        (
            json.dumps(said(false_confidence={"verdict": "MAYBE", "reason": ""})),
            "false_confidence: the verdict must be",
        ),
        (json.dumps(said(false_confidence={"verdict": "YES"})), "false_confidence: Object missing required field"),
        (json.dumps(said(false_confidence="YES")), "false_confidence: Expected"),
    ],
)
def test_anything_else_is_no_verdict(reply, problem):
    """A reply that lacks something is refused in words that say what; nothing is filled in."""
    with pytest.raises(UnusableReply, match=problem):
        read_flags(reply)


@pytest.mark.parametrize(
    ("same", "completes", "verdict"), [(True, True, "confirmed"), (True, False, "rejected"), (False, True, "rejected")]
)
def test_a_new_task_needs_both(same, completes, verdict):
    """Confirmed only where all trials gave one answer and it completes the prompt as given."""
    reply = json.dumps({"same_answer": same, "completes_task": completes, "reason": "r"})
    assert read_new_task(reply).verdict == verdict


@pytest.mark.parametrize(
    "reply", ['{"same_answer": "yes", "completes_task": true, "reason": ""}', '{"same_answer": true}']
)
def test_a_new_task_verdict_is_not_guessed(reply):
    """Words in place of true and false, or a missing part, are no verdict."""
    with pytest.raises(UnusableReply):
        read_new_task(reply)
