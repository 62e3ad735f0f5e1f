"""What is said of each agent's programs at the end of a run."""

import msgspec

from lhaw_record.runners.agents.trial_record import TrialOutcome
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.runs.outcome_warnings import crashes, silent_agents
from tests.runners.runs.test_scheduler import run
from tests.support.toy_plan import PretendingRunner, experiment


async def test_programs_that_crashed_are_counted_by_exit_code():
    """The last line of stderr is that of a trial that has one; trials that are missing are not counted."""
    runner = PretendingRunner()
    await run(experiment(trials=4), runner)
    trials = [trial for trial, *_ in runner.attempts if (trial.agent.name, trial.condition) == ("a", "full")][:4]
    ends = ((1, ""), (1, "KeyError: 'x'"), (137, ""), None)
    outcomes = [
        TrialOutcome(trial=trial, attempt=1, is_valid=True, action_count=1, cost_usd=None, crash=end)
        for trial, end in zip(trials, ends, strict=True)
    ]
    outcomes.append(msgspec.structs.replace(outcomes[2], is_valid=False))
    assert crashes(outcomes) == (
        "a: 2 trials ended with exit code 1, graded anyway; last line of stderr: KeyError: 'x'",
        "a: 1 trials ended with exit code 137, graded anyway",
    )


async def test_a_program_that_never_asks_is_named():
    """Where it asked once, or where nobody could be asked, nothing is said; nor of native agents."""
    runner = PretendingRunner()
    await run(experiment(trials=3), runner)
    trial = runner.attempts[0][0]
    program = msgspec.structs.replace(
        trial, agent=msgspec.structs.replace(trial.agent, program=ProgramSpec(command=("x",)))
    )

    def said(of, *asked):
        ended = [
            TrialOutcome(trial=of, attempt=1, is_valid=True, action_count=1, cost_usd=None, has_asked=each)
            for each in asked
        ]
        return silent_agents(ended)

    assert said(program, False, False)[0].startswith("a asked nothing in 2 trials in which it could; ")
    assert said(program, False, True) == said(program, None) == said(trial, False) == ()
