"""Finding a removed value in an answer."""

import threading

import pytest

from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.users.simulated_user import answers
from lhaw_record.runners.users.simulated_user.answers import DumpSimulator, ExactSimulator, reveals
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge


def removed(value, subdimension="numeric_bound"):
    """Return a segment with this value."""
    return Segment(segment_id="S1", dimension="constraint", subdimension=subdimension, value=value)


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("1,000", "At most 1000."),
        ("1000", "It is 1,000, no more"),
        ("1000", "1000.0 is the limit"),
        ("1,000.50 EUR", "1000.5 EUR"),
        ("500 ms", "Above 500ms."),
        ("500", "500 ms, please"),
        ("30", "30kg"),
        ("report.xlsx", "Name it Report.xlsx."),
        ("report.xlsx", 'It is "report.xlsx"'),
        ("the Ada room", "Ada  Room, as always"),
        ("by Friday 17:00", "I need it by\nFriday 17:00"),
        ("#482", "Issue #482"),
        ("data/raw", "They are in data/raw, I think."),
        ("finance@acme.example", "finance@acme.example."),
        ("2024-12-31", "2024\u201112\u201131"),
    ],
)
def test_a_value_is_found_in_another_notation(value, answer):
    """Case, spacing, quotes and number format do not hide a value."""
    assert reveals(answer, removed(value))


@pytest.mark.parametrize(
    ("value", "answer"),
    [
        ("500", "1500"),
        ("500", "500.5"),
        ("500", "15,500"),
        ("1000", "1,000,000"),
        ("4.5", "4.55"),
        ("report.xlsx", "old_report.xlsx"),
        ("report.xlsx", "old-report.xlsx"),
        ("report.xlsx", "reports/report.xlsx.bak"),
        ("data/raw", "data/raw/2023"),
        ("EUR", "a neural network"),
        ("report.xlsx", ""),
        (" ", "anything"),
    ],
)
def test_a_part_of_something_longer_is_no_value(value, answer):
    """Only whole words and whole numbers count."""
    assert not reveals(answer, removed(value))


def test_zeros_matter_in_a_version():
    """3.10 is another version than 3.1, but the same number as 3.1 elsewhere."""
    assert not reveals("Use 3.1", removed("3.10", "version"))
    assert reveals("Use 3.10", removed("3.10", "version"))
    assert reveals("Use 3.1", removed("3.10", "numeric_bound"))


@pytest.mark.parametrize("simulator", [ExactSimulator, DumpSimulator])
@pytest.mark.parametrize("length", [10, 200_000])
async def test_a_long_question_does_not_hold_up_the_other_trials(simulator, length, monkeypatch):
    """What a question costs is the agent's choice: it is decided beside the event loop, with the same answer."""
    decided = []
    monkeypatch.setattr(answers, "asked_segments", lambda *_: decided.append(threading.get_ident()) or frozenset())
    knowledge = UserKnowledge(full_prompt="", sent_prompt="", removed=(removed("500"),))
    answer = await simulator().answer("-----BEGIN PRIVATE KEY-----\n" * (length // 10), "", knowledge)
    assert (decided != [threading.get_ident()]) == (length > 10)
    assert answer.text == answers.answer_with(knowledge.removed if simulator is DumpSimulator else ())
