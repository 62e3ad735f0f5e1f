"""The claim judge: one call per claim, forgiving about wrapping, strict about content, never an invented score."""

import pytest

from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.runners.base.errors import ExperimentError, GraderError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.environment import McpAtlasEnvironment
from lhaw_record.runners.environments.benchmarks.mcp_atlas.judge import ClaimJudge, parse_verdict


class Canned:
    """A judge model that gives prepared replies and keeps what it was asked."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    async def __call__(self, system, user, form=None):
        """Give the next reply."""
        self.asked.append((system, user))
        return self.replies.pop(0)


def judge(path=None, model="openai/x", **parameters):
    """Return a judge."""
    return ClaimJudge(path, model, parameters)


def verdict(label):
    """Return a well-formed reply."""
    return f'{{"label": "{label}", "reason": "It says so.", "confidence": 0.9}}'


TASK = Task(
    benchmark="mcp_atlas",
    benchmark_version="1",
    task_id="t",
    prompt="The prompt.",
    checkpoints=tuple(Checkpoint(checkpoint_id=f"c{n}", label=f"Claim {n}.") for n in (1, 2, 3, 4)),
    environment_digest="e",
)


async def test_one_call_for_each_claim_and_three_labels():
    """The judge sees one claim and the answer, never the prompt; the labels are 1, 0.5 and 0."""
    ask = Canned(*(verdict(label) for label in ("fulfilled", "fulfilled", "fulfilled", "not_fulfilled")))
    grade = await McpAtlasEnvironment(TASK, {}, (), judge()).grade("The answer {claim}.", ask)
    assert [result.score for result in grade.results] == [1.0, 1.0, 1.0, 0.0]
    assert (grade.final_score, grade.final_total, grade.is_success) == (0.75, 1.0, True)
    assert [f"Claim {n}." in user for n, (_, user) in enumerate(ask.asked, start=1)] == [True] * 4
    assert all("The answer {claim}." in user and "The prompt." not in user for _, user in ask.asked)


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("```json\n" + verdict("fulfilled") + "\n```", "fulfilled"),
        ("Let me think {hm}.\n" + verdict("Partially Fulfilled") + " Done.", "partially_fulfilled"),
        ('{"label": "not-fulfilled", "confidence": "0.4"}', "not_fulfilled"),
        ('{"label": "maybe", "reason": "", "confidence": 1}', None),
        ('{"label": "fulfilled", "reason": "", "confidence": 7}', None),
        ("[]", None),
        ("", None),
    ],
)
def test_replies(reply, label):
    """What surrounds the object is forgiven, its content is checked."""
    found = parse_verdict(reply)
    assert (found and found.label) == label


async def test_a_bad_reply_is_asked_again_and_then_fails():
    """One more try; after that the trial fails at ``grader`` and no score is made up."""
    ask = Canned("nonsense", verdict("partially_fulfilled"))
    (only,) = await judge().score(["A claim."], "An answer.", ask)
    assert only.score == 0.5
    with pytest.raises(GraderError, match="no usable verdict in 2 attempts") as caught:
        await judge().score(["A claim."], "An answer.", Canned("nonsense", "more of it"))
    assert caught.value.boundary == "grader"


async def test_an_empty_answer_needs_no_judge():
    """Nothing is asked, and every claim scores nothing."""
    grade = await McpAtlasEnvironment(TASK, {}, (), judge()).grade("  ", Canned())
    assert {result.score for result in grade.results} == {0.0}
    assert not grade.is_success


async def test_the_message_of_an_error_is_no_answer():
    """As in the published program: an answer that begins with ``ERROR:`` scores nothing, whatever it says."""
    grade = await McpAtlasEnvironment(TASK, {}, (), judge()).grade("ERROR: Claim 1. Claim 2.", Canned())
    assert {(result.score, result.details) for result in grade.results} == {(0.0, "the answer begins with ERROR:")}
    ask = Canned(*[verdict("fulfilled")] * 4)
    assert (await McpAtlasEnvironment(TASK, {}, (), judge()).grade(" ERROR: none.", ask)).is_success


def test_an_answer_is_cut_where_the_published_program_cuts_it():
    """The judge is shown 500,000 characters, and told that there were more."""
    shown = judge().user("A claim.", "x" * 500_001)
    assert shown.count("x") == 500_000 + judge().user("A claim.", "").count("x")
    assert shown.endswith("\n\n[TRUNCATED — original response was too long]")


async def test_a_judge_without_a_model_fails_at_grader():
    """A missing judge is no score of zero."""
    with pytest.raises(GraderError, match="no model to ask"):
        await McpAtlasEnvironment(TASK, {}, (), judge()).grade("An answer.", None)


def test_the_wording_can_be_replaced_and_is_part_of_the_name(tmp_path):
    """Another wording is another grader; a wording without its parts is refused."""
    own = tmp_path / "own.md"
    own.write_text("Be strict.\n---\n{claim} / {answer}")
    assert judge(own).name != judge().name
    own.write_text("Be strict.")
    with pytest.raises(ExperimentError, match="line '---'"):
        judge(own)
    with pytest.raises(ExperimentError, match="cannot be read"):
        judge(tmp_path / "no_such.md")


def test_another_model_is_another_judge():
    """Who graded stands with every result and in the identity of the trials: wording, model and its parameters."""
    names = {
        judge(model=model, temperature=temperature).name for model in ("openai/x", "openai/y") for temperature in (0, 1)
    }
    assert len(names) == 4
    assert {name.partition(":")[2] for name in names} == {"openai/x", "openai/y"}
