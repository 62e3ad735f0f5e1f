"""Decoys: a wrong value of the same kind, everywhere the right one stood, and what is refused as one."""

import msgspec
import pytest

from lhaw_record.generators.errors import RewritingFailed
from lhaw_record.generators.gate import problems_of
from lhaw_record.generators.generation.decoys import DecoyRewriter, decoy_for, with_decoys
from lhaw_record.generators.protocol import Removal, Rewriting, SourceTask
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Task
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator
from lhaw_record.runners.users.simulated_user.protocol import UserKnowledge

FILES = {"sales/orders_march.csv": "", "sales/orders_april.csv": "", "notes.md": ""}


def source(prompt, files=FILES):
    """A task with this prompt and these files."""
    task = Task(
        benchmark="mine", benchmark_version="1", task_id="t", prompt=prompt, checkpoints=(), environment_digest=""
    )
    return SourceTask(task=task, files=files)


def segment(value, segment_id="S1", dimension="input", subdimension="target", **more):
    """A segment with this value."""
    return Segment(segment_id=segment_id, value=value, dimension=dimension, subdimension=subdimension, **more)


@pytest.mark.parametrize(
    ("value", "decoy"),
    [
        ("sales/orders_march.csv", "sales/orders_april.csv"),
        ("notes.md", None),
        ("summary.xlsx", "summary_draft.xlsx"),
        ("2025-03-28", "2025-04-04"),
        ("from 2025-03-28 to 2025-03-31", "from 2025-04-04 to 2025-04-07"),
        ("09:30", "10:30"),
        ("23:15", "00:15"),
        ("INC-0099", "INC-0102"),
        ("4 products", "6 products"),
        ("1,200 EUR", "1,500 EUR"),
        ("38.50 EUR", "48.12 EUR"),
        ("0.5 percent", "0.6 percent"),
        ("in 2025", "in 2024"),
        ("dark blue", "dark green"),
        ("as a csv", "as a json"),
        ("the largest first", "the smallest first"),
        ("DD.MM.YYYY", "MM/DD/YYYY"),
        ("department Sales", "department Engineering"),
        ("the Cold Store", None),
        ("Ada Byron", None),
        ("month, region and revenue", None),
    ],
)
def test_a_decoy_is_of_the_same_kind(value, decoy):
    """Files, dates, times, codes, numbers and words of a list become others of their kind; the rest has no decoy."""
    assert decoy_for(segment(value), source(f"Do it with {value} today.")) == decoy


def test_a_decoy_stands_nowhere_in_the_prompt():
    """A value that the prompt has anyway is passed over: 6 is taken, so it is 8."""
    assert decoy_for(segment("4"), source("Take 4 of the 6 rows.")) == "8"


async def test_a_decoy_stands_wherever_the_value_stood():
    """Every occurrence is replaced, a file also without its ending, and nothing else changes."""
    prompt = "Write summary.xlsx. Then mail summary.xlsx; the subject is summary, the summary of all."
    removal = with_decoys(source(prompt), Removal(segments=(segment("summary.xlsx"),), severity="decoy"))
    rewriting = await DecoyRewriter().rewrite(source(prompt), removal, None)
    assert "summary.xlsx" not in rewriting.prompt
    assert rewriting.prompt.count("summary_draft.xlsx") == 2
    assert problems_of(prompt, rewriting, removal) == ()
    assert "summary_draft.xlsx" in rewriting.expected_questions[0].questions[0]


async def test_a_value_without_a_decoy_is_refused():
    """A segment that has none cannot be rewritten."""
    with pytest.raises(RewritingFailed, match="no decoy"):
        await DecoyRewriter().rewrite(
            source("Ask Ada Byron."), Removal(segments=(segment("Ada Byron"),), severity="decoy"), None
        )


@pytest.mark.parametrize(
    ("decoy", "prompt", "check"),
    [
        ("31.12.2025", "Pay by 2025-12-24 or by 31.12.2025.", "value_is_gone"),
        ("2025-12-31", "Pay by the end.", "decoy_is_there"),
        ("2025-12-31", "Pay at once by 2025-12-31.", "nothing_else_changed"),
    ],
)
def test_every_check_can_fail(decoy, prompt, check):
    """A value left behind, a decoy that is not there, and another change are found."""
    removal = Removal(segments=(segment("2025-12-24", decoy=decoy),), severity="decoy")
    rewriting = Rewriting(
        prompt=prompt, expected_questions=(ExpectedQuestions(segment_id="S1", questions=("When?",)),), failure_mode=""
    )
    assert check in [each.check for each in problems_of("Pay by 2025-12-24.", rewriting, removal)]


def test_another_notation_is_no_decoy():
    """1000.00 is no wrong value for 1,000."""
    removal = Removal(segments=(segment("1,000 EUR", decoy="1000.00 EUR"),), severity="decoy")
    rewriting = Rewriting(prompt="Pay 1000.00 EUR.", expected_questions=(), failure_mode="")
    assert "decoy_is_wrong" in [each.check for each in problems_of("Pay 1,000 EUR.", rewriting, removal)]


@pytest.mark.parametrize("question", ["Which file should I read?", "Should I really read orders_april.csv?"])
async def test_the_user_corrects_a_decoy_when_asked(question):
    """Asked what to take, or whether the decoy is meant, the user owns up to it and gives the right value."""
    wrong = segment("orders_march.csv", text="Read orders_march.csv", subdimension="version", decoy="orders_april.csv")
    knowledge = UserKnowledge(full_prompt="", sent_prompt="Read orders_april.csv.", removed=(wrong,))
    answer = await ExactSimulator().answer(question, "", knowledge)
    assert [each.segment_id for each in answer.revealed] == ["S1"]
    assert "orders_march.csv" in answer.text
    assert "slip" in answer.text
    right = msgspec.structs.replace(knowledge, removed=(msgspec.structs.replace(wrong, decoy=None),))
    assert "slip" not in (await ExactSimulator().answer("Which file should I read?", "", right)).text
