"""Every check on a rewritten prompt: one rewriting that fails it, and the good one that fails none."""

import msgspec
import pytest

from generators.protocol import Removal, Rewriting
from generators.rewriting import problems_of
from recorder.values import ExpectedQuestions
from tests.generators.rewriting.making import segment

PROMPT = (
    "Please prepare the list of members for Ada.\n\n"
    "1. Open `members.xlsx` and keep everybody who joined before 2019.\n"
    "2. Sort the rows by town, then save them as members_old.csv.\n\n"
    "| column | form |\n|---|---|\n| joined | YYYY-MM-DD |\n\n"
    "The file members.xlsx itself must not change.\n"
)
REMOVED = segment("members.xlsx", text="Open `members.xlsx`", synonyms=("list of members", "MX-2019"))
GOOD = PROMPT.replace("`members.xlsx`", "the file").replace("The file members.xlsx itself", "The file itself")


def problems(prompt=GOOD, *, severity="vaguify", removed=(REMOVED,), questions=None, **changes):
    """Return the names of the checks that a rewriting fails."""
    asked = {"S1": ("Which file should I open?",)} if questions is None else questions
    rewriting = Rewriting(
        prompt=prompt,
        expected_questions=tuple(ExpectedQuestions(segment_id=key, questions=value) for key, value in asked.items()),
        failure_mode="Opens another file.",
    )
    removal = Removal(segments=removed, severity=severity)
    return [each.check for each in problems_of(PROMPT, msgspec.structs.replace(rewriting, **changes), removal)]


@pytest.mark.parametrize("severity", ["delete", "vaguify", "genericize"])
def test_a_good_rewriting_fails_no_check(severity):
    """All occurrences gone, the sentence mended, a question: nothing to object."""
    assert problems(severity=severity) == []


@pytest.mark.parametrize("left", ["members.xlsx", "MEMBERS.XLSX", "\u201cMembers.xlsx\u201d", "MX-2019"])
def test_a_value_that_remains(left):
    """The value in another case, in quotes, or as a synonym that says the same, is found."""
    assert "value_is_gone" in problems(GOOD.replace("The file itself", f"The file {left} itself"))


@pytest.mark.parametrize(
    "prompt",
    [
        GOOD.replace("for Ada", "for Bo"),
        GOOD.replace("Sort the rows by town", "Sort the rows by name"),
        GOOD.replace("Please prepare", "Prepare"),
        GOOD.replace(", then save them as members_old.csv", ""),
        GOOD + "Good luck!\n",
        "Dear assistant! " + GOOD,
    ],
)
def test_something_else_changed(prompt):
    """A word far from every removed value may not change, and nothing may be added elsewhere."""
    assert "nothing_else_changed" in problems(prompt)


def test_a_rewritten_sentence_is_too_much():
    """Inside the sentence no more may change than a phrase."""
    longer = "the file that somebody has put somewhere for you to find and to open without any further help from us"
    assert "nothing_else_changed" in problems(GOOD.replace("Open the file", f"Open {longer}"))


@pytest.mark.parametrize(
    ("prompt", "check"),
    [
        (GOOD.replace("\n", "\r\n"), "structure_is_kept"),
        (GOOD.replace("| YYYY-MM-DD |", "|"), "structure_is_kept"),
        (GOOD.replace("the file and", "`the file and"), "structure_is_kept"),
        (GOOD.replace("the file and", "the (file and"), "structure_is_kept"),
        (GOOD.replace("the file and", "the the file and"), "reads_well"),
        (GOOD.replace("the file and", "`` and"), "reads_well"),
        (GOOD.replace("the file and", "the file , and"), "reads_well"),
        ("Please prepare the list.", "is_long_enough"),
        ("", "is_long_enough"),
        (" \n", "is_long_enough"),
        (PROMPT, "is_changed"),
        (GOOD.replace("the file and", "[removed] and"), "no_placeholder"),
        (GOOD.replace("the file and", "the file \u2026 and"), "no_placeholder"),
        (GOOD.replace("the file and", "{filename} and"), "no_placeholder"),
        ('{"prompt": "Open the file."}', "no_placeholder"),
    ],
)
def test_form_length_and_placeholders(prompt, check):
    """Line ends, tables, quotes and brackets stay whole, the prompt stays a prompt, and nothing stands for a hole."""
    assert check in problems(prompt)


@pytest.mark.parametrize(
    ("rewritten", "failed"),
    [
        ('{"task": "Read orders.csv", "limit":: "out.json"}', True),
        ('{"task": "Read the file", "out": "out.json"}', False),
    ],
)
def test_a_prompt_in_json_stays_json(rewritten, failed):
    """What a program reads must still be readable for it."""
    original = '{"task": "Read orders.csv", "out": "out.json"}'
    removal = Removal(segments=(segment("orders.csv"),), severity="delete")
    made = Rewriting(prompt=rewritten, expected_questions=(), failure_mode="Reads another file.")
    checks = {each.check for each in problems_of(original, made, removal)}
    assert ("structure_is_kept" in checks) == failed


def test_every_segment_has_a_question_and_no_question_tells():
    """A missing or blank question, one for an unknown segment, and one that holds a removed value are found."""
    assert problems(questions={}) == ["questions_exist"]
    assert problems(questions={"S1": (" ",)}) == ["questions_exist"]
    assert problems(questions={"S1": ("Which file?",), "S9": ("Which?",)}) == ["questions_exist"]
    assert problems(questions={"S1": ("Should I open members.xlsx?",)}) == ["questions_keep_the_secret"]
    assert problems(questions={"S1": ("Which list of members should I open?",)}) == []


def test_vague_means_that_something_is_said():
    """A deletion is no vague variant: only the noun that stays beside the hole can stand for the value."""
    removed = segment("before 2019", "constraint", "temporal")
    deleted = PROMPT.replace(" before 2019", "")
    questions = {"S1": ("Which period do you mean?",)}
    assert problems(deleted, severity="delete", removed=(removed,), questions=questions) == []
    vague = problems(deleted, removed=(removed,), questions=questions)
    assert vague == ["something_stands_in_its_place"]
    said = PROMPT.replace("before 2019", "at some point")
    assert problems(said, removed=(removed,), questions=questions) == []


def test_numbers_of_a_list_may_close_up():
    """Where an item goes, the numbers below it may change, and nothing else of these items."""
    prompt = "Do this for the team:\n1. Open a.csv\n2. Sort it\n3. Save it\n"
    removal = Removal(segments=(segment("Open a.csv"),), severity="delete")
    asked = (ExpectedQuestions(segment_id="S1", questions=("Which file should I open?",)),)

    def checks(text):
        rewriting = Rewriting(prompt=text, expected_questions=asked, failure_mode="-")
        return [each.check for each in problems_of(prompt, rewriting, removal)]

    assert checks("Do this for the team:\n1. Sort it\n2. Save it\n") == []
    assert checks("Do this for the team:\n2. Sort it\n3. Save it\n") == []
    assert checks("Do this for the team:\n1. Sort it\n2. Send it\n") == ["nothing_else_changed"]
