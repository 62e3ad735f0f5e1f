"""Criticality and guessability, with and without environment, checkpoints and trajectory."""

import pytest

from lhaw_record.generators.protocol import Grounding, TrajectoryStep
from tests.generators.extraction.extraction_cases import PROMPT_ONLY, segment, source

ALL = Grounding()
PROMPT = "Use `ledger_new.csv`. Look up people in `staff.xlsx`, then write `audit.csv`. Give late rows the code LR-9."
FILES = {
    "ledger_new.csv": "id,amount",
    "ledger_old.csv": "id,amount",
    "staff.xlsx": "",
    "notes.txt": "LR-9 means late.",
}


def scores(task, value, grounding=ALL):
    """Criticality and guessability of a value."""
    found = segment(task, value, grounding)
    return found.criticality, found.guessability


@pytest.mark.parametrize(
    ("value", "guessability", "why"),
    [
        ("staff.xlsx", 1.0, "the only file of its kind"),
        ("ledger_new.csv", 0.5, "one of two candidates"),
        ("audit.csv", 0.0, "a name that nobody can know"),
        ("LR-9", 0.5, "a file tells it"),
    ],
)
def test_the_environment_tells_what_can_be_guessed(value, guessability, why):
    """A file that is there can be found, and the only one of its kind is obvious; names of outputs cannot be known."""
    assert scores(source(PROMPT, files=FILES), value)[1] == guessability, why


def test_without_the_environment_the_rule_decides():
    """What may not be looked at has no influence."""
    assert scores(source(PROMPT, files=FILES), "staff.xlsx", PROMPT_ONLY)[1] == 0.5
    assert scores(source(PROMPT, files=FILES), "LR-9", PROMPT_ONLY)[1] == 0.0


def test_a_file_that_is_there_is_read_whatever_the_words_say():
    """With the environment, "below it the rows of topics.csv" after "write" is no output."""
    prompt = "Write the agenda, below it one line for each topic in `topics.csv`."
    assert segment(source(prompt, files={"topics.csv": ""}), "topics.csv", ALL).dimension == "input"


@pytest.mark.parametrize("where", ["labels", "notes"])
def test_what_is_graded_is_critical(where):
    """A value that a checkpoint or the notes about grading speak of fails the task when it is wrong."""
    prompt = "Count what is in the `north` folder."
    said = "The rows of north are counted"
    task = source(prompt, labels=(said,)) if where == "labels" else source(prompt, notes=said)
    assert scores(task, "north", PROMPT_ONLY)[0] == 0.5
    assert scores(task, "north", ALL)[0] == 1.0


def test_an_order_is_critical_where_the_order_is_graded():
    """A checkpoint that speaks of the order is about the segment that says which."""
    prompt = "Sort the rows by price, cheapest first."
    assert scores(source(prompt, labels=("rows are in the demanded order",)), "price, cheapest first")[0] == 1.0
    assert scores(source(prompt, labels=("the total is right",)), "price, cheapest first")[0] == 0.5


def test_what_exploring_found_before_it_was_used_can_be_discovered():
    """A result that shows a value before an action uses it makes the value discoverable; a later one does not."""
    prompt = "Give late rows the code LR-9."
    look = TrajectoryStep(name="bash", arguments_json='{"command": "cat rules"}', result="late rows: LR-9")
    use = TrajectoryStep(name="python", arguments_json='{"code": "x = \'LR-9\'"}', result="LR-9 done")
    assert scores(source(prompt, trajectory=(look, use)), "LR-9")[1] == 0.5
    assert scores(source(prompt, trajectory=(use, look)), "LR-9")[1] == 0.0
    assert scores(source(prompt, trajectory=(look, use)), "LR-9", PROMPT_ONLY)[1] == 0.0


def test_synonyms_are_other_forms_of_the_value_and_names_of_what_it_is():
    """The stem of a file and other forms of a date would give the value away; the noun before it helps to ask."""
    assert "late rides" in segment("Use the ledger `late-rides.csv`.", "late-rides.csv").synonyms
    assert "ledger" in segment("Use the ledger `late-rides.csv`.", "late-rides.csv").synonyms
    assert {"5 March 2024", "March 5, 2024"} <= set(
        segment("Let it start on 2024-03-05, please.", "2024-03-05").synonyms
    )
    assert "reason code" in segment("Give late rows the reason code LR-9.", "LR-9").synonyms
