"""What is said of each agent at the end of a run."""

import msgspec
import pytest

from lhaw_record.recorder.events import ActionStarted, QuestionAnswered, QuestionAsked
from lhaw_record.recorder.events.interaction import RevealedSegment
from lhaw_record.runners.agents.trial_record import BehaviourCounter, TrialOutcome
from lhaw_record.runners.runs.outcome_warnings import run_cautions
from tests.runners.runs.test_scheduler import run
from tests.support.toy_plan import PretendingRunner, experiment

QUESTION = "Which day shall I take?"
REVEALED = (RevealedSegment(segment_id="S1", is_requested=True),)


def observed(arguments=(), answers=()):
    """What a trial shows that made some tool calls and got some answers: pairs of text and what they reveal."""
    counter = BehaviourCounter()
    for index, each in enumerate(arguments, 1):
        action = ActionStarted(action_index=index, kind="tool", name="bash", arguments_json=each, model_call_id="c")
        counter.observe(action)
    for index, (text, revealed) in enumerate(answers):
        answer = QuestionAnswered(
            question_id=f"q{index}", answer=text, simulator="exact", latency_ms=1.0, revealed=revealed
        )
        counter.observe(QuestionAsked(question_id=f"q{index}", question=QUESTION))
        counter.observe(answer)
    return counter.behaviour("submitted")


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([["{}"], ["{}"]], ["trials are identical in 1 of 1 cells: copies, not repetitions (temperature 0?)"]),
        ([["{}"], ['{"n":1}']], []),
        ([["{}"], ["{}"], ["{}", "{}"]], []),
        ([[], []], ["no tool was ever called in 2 of 2 trials"]),
    ],
)
async def test_copies_are_no_repetitions(calls, said):
    """Trials of one cell that did the very same are called copies. Trials without a tool call are called idle."""
    assert of_agent(await trials_of(len(calls)), [observed(arguments=each) for each in calls]) == said


@pytest.mark.parametrize(
    ("answers", "said"),
    [
        ([("Take Monday.", REVEALED)], []),
        ([("As you like.", ())], ["the simulated user never revealed anything, to 1 questions"]),
        (
            [("which day shall I take", ()), ("Take Monday.", REVEALED)],
            ["questions were echoed: 1 of 2 answers of the simulated user are the question again"],
        ),
        (
            [(QUESTION, ())],
            [
                "the simulated user never revealed anything, to 1 questions",
                "questions were echoed: 1 of 1 answers of the simulated user are the question again",
            ],
        ),
    ],
)
async def test_a_simulated_user_that_says_nothing_is_named(answers, said):
    """Answers that reveal nothing, and answers that are the question again, are counted."""
    behaviours = [observed(arguments=["{}"], answers=answers)]
    assert of_agent(await trials_of(1), behaviours) == said


@pytest.mark.thorough
async def test_programs_that_crashed_are_counted_by_exit_code():
    """The last line of stderr is that of a trial that has one."""
    seen = observed(arguments=["{}"])
    ends = ((1, ""), (1, "KeyError: 'x'"), (137, ""), None)
    behaviours = [msgspec.structs.replace(seen, crash=end) for end in ends]
    lines = of_agent(await trials_of(4), behaviours)
    assert lines[:2] == [
        "2 of 4 trials ended with exit code 1, graded as they stand; last line of stderr: KeyError: 'x'",
        "1 of 4 trials ended with exit code 137, graded as they stand",
    ]


async def trials_of(count):
    """Planned trials of one cell."""
    runner = PretendingRunner()
    await run(experiment(trials=count), runner)
    cells = [trial for trial, *_ in runner.attempts if (trial.agent.name, trial.condition) == ("a", "full")]
    return [trial for trial in cells if trial.task.task_id == cells[0].task.task_id][:count]


def of_agent(trials, behaviours):
    """The cautions about one agent's valid trials, up to their remedies."""
    outcomes = [
        TrialOutcome(trial=trial, attempt=1, is_valid=True, action_count=1, cost_usd=None, behaviour=behaviour)
        for trial, behaviour in zip(trials, behaviours, strict=True)
    ]
    lines = [line.removeprefix("a: ") for line in run_cautions(outcomes)]
    return [line.partition(", so ")[0] for line in lines]
