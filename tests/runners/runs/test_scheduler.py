"""The scheduler: order by data, attempts, money, and stopping."""

from collections import Counter
from pathlib import Path

import anyio
import msgspec
import pytest

from lhaw_record.recorder.events import OracleBudgetSet, TrialFailed
from lhaw_record.recorder.reading.trial_index import FailedTrial
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.experiment.tables import AgentSpec, BudgetSpec, RetrySpec
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.costs import spent_words
from lhaw_record.runners.runs.planning.plan import budgets_of, make_plan
from lhaw_record.runners.runs.scheduler import PriorFailures, Scheduler
from tests.support.canned_model import MemoryRecording
from tests.support.toy_plan import EMPTY, ListedBenchmark, PretendingRunner, experiment


def failing(boundary="model", *, is_retry_owed=True, times=99):
    """A failure for the first attempts."""
    failure = TrialFailed(boundary=boundary, error_kind="x", message="broken", is_retry_owed=is_retry_owed)
    return lambda attempt: failure if attempt <= times else None


class SlowRecording(MemoryRecording):
    """A stream on a slow disk: other trials end while an event is on its way."""

    async def append(self, *events):
        """Keep the events, after a while."""
        await anyio.sleep(0.02)
        await super().append(*events)


async def run(
    described, runner, index=EMPTY, on_change=lambda _: None, stream=None, before=None, benchmark=None, **more
):
    """Schedule an experiment on the listed benchmark; its scheduler and the run's stream."""
    benchmark = benchmark or ListedBenchmark()
    plan = make_plan(described, benchmark, Prompts(described, Path(), ""), "exact:1")
    stream = stream or MemoryRecording()
    scheduler = Scheduler(
        experiment=described,
        plan=plan,
        index=index,
        runner=runner,
        run_stream=stream,
        on_change=on_change,
        prior=before,
        **more,
    )
    await scheduler.run()
    return scheduler, stream


async def test_injected_trials_start_with_the_recorded_budget():
    """No injected trial starts before all its oracles are valid; each knows B; B is recorded once per unit."""
    runner = PretendingRunner(action_count=9)
    scheduler, stream = await run(experiment(), runner)
    assert scheduler.summary().outcome == "completed"
    seen = {}
    for trial, _, budget in runner.attempts:
        seen.setdefault(trial.unit, []).append((trial.condition, budget))
    for order in seen.values():
        conditions = [condition for condition, _ in order]
        assert conditions.index("inject_50") > max(i for i, c in enumerate(conditions) if c == "full")
        assert {budget for condition, budget in order if condition == "inject_50"} == {9}
    budgets = [event for event in stream.events if isinstance(event, OracleBudgetSet)]
    assert len(budgets) == len({(event.agent_digest, event.unit_id) for event in budgets}) == 4


async def test_what_a_budget_releases_runs_however_long_the_budget_takes_to_record():
    """The last other trial ends while the budget is being recorded: the injected trials still run."""
    described = experiment(trials=1, concurrency=100)
    scheduler, stream = await run(described, PretendingRunner(), stream=SlowRecording())
    assert (scheduler.summary().outcome, scheduler.summary().left) == ("completed", 0)
    assert any(isinstance(event, OracleBudgetSet) for event in stream.events)


async def test_concurrency_is_used_and_kept():
    """As many trials at a time as the file says, and no more."""
    runner = PretendingRunner()
    await run(experiment(concurrency=5), runner)
    assert runner.most_at_once == 5


async def test_failed_attempts_are_repeated_and_counted():
    """A retry that is owed happens at once, with the next attempt number, up to max_attempts."""
    runner = PretendingRunner(failures={"underspecified": failing(times=2)})
    scheduler, _ = await run(experiment(retry=RetrySpec(max_attempts=3)), runner)
    assert scheduler.summary().left == 0
    attempts = [attempt for trial, attempt, _ in runner.attempts if trial.condition == "underspecified"]
    assert sorted(attempts) == [1] * 12 + [2] * 12 + [3] * 12


async def test_hopeless_failures_are_not_repeated_and_block_what_needs_them():
    """Without a retry owed a trial is given up; injected trials without oracles are blocked, shown, and never run."""
    runner = PretendingRunner(failures={"full": failing(is_retry_owed=False)})
    scheduler, _ = await run(experiment(retry=RetrySpec(same_failures=0)), runner)
    summary = scheduler.summary()
    assert (summary.outcome, summary.failed, summary.blocked, summary.left) == ("failed", 12, 12, 24)
    assert {trial.condition for trial, _, _ in runner.attempts} == {"full", "underspecified"}


async def test_the_same_failure_again_and_again_stops_the_agent():
    """After six trials given up no more start, and the reason is said; asked for again, they may, counted anew."""
    runner = PretendingRunner(failures=dict.fromkeys(("full", "underspecified", "inject_50"), failing()))
    described = experiment(concurrency=1, trials=9)
    scheduler, _ = await run(described, runner)
    summary = scheduler.summary()
    assert (len(runner.attempts), summary.outcome, summary.finished) == (3 * 6 * len(described.agents), "failed", 0)
    assert all("6 of its trials in a row failed with the same message" in each for each in summary.repeated)
    assert all("on 2 of its 2 tasks, at model (x)" in each for each in summary.repeated)
    assert len(summary.repeated) == len(described.agents)
    scheduler.requeue(scheduler.given_up)
    assert scheduler.wants_more


async def test_an_agent_asked_for_again_is_stopped_again():
    """A requeue in mid-run begins a new row of six."""
    asked = []

    def ask_once(scheduler):
        if scheduler.summary().repeated and not asked:
            asked.append(len(runner.attempts))
            scheduler.requeue(scheduler.given_up)

    described = experiment(agents=experiment().agents[:1], conditions=("underspecified",), concurrency=1, trials=9)
    runner = PretendingRunner(failures={"underspecified": failing(is_retry_owed=False)})
    scheduler, _ = await run(described, runner, on_change=ask_once)
    assert (asked, len(runner.attempts), len(scheduler.summary().repeated)) == ([6], 12, 1)


class BriefTrouble(PretendingRunner):
    """Fails what runs at the start, and the trials of an unfit task."""

    async def run(self, trial, attempt, budget_actions):
        """Pretend."""
        is_early = len(self.attempts) + self._running < 8
        outcome = await super().run(trial, attempt, budget_actions)
        is_unfit = trial.task.task_id == "t0"
        if not (is_early or is_unfit):
            return outcome
        owed = not is_unfit
        failure = TrialFailed(boundary="sandbox", error_kind="x", message="blip", is_retry_owed=owed)
        return msgspec.structs.replace(outcome, is_valid=False, failure=failure)


async def test_short_trouble_and_an_unfit_task_stop_no_agent():
    """Eight running trials fail at once, and one task refuses all of its variants: the other tasks are finished."""
    benchmark = ListedBenchmark(tasks=10, variants_each=8)
    described = experiment(conditions=("underspecified",), concurrency=8, trials=1)
    scheduler, _ = await run(described, BriefTrouble(), benchmark=benchmark)
    summary = scheduler.summary()
    assert (summary.repeated, summary.left) == ((), 8 * len(described.agents))


async def test_a_resumed_run_uses_the_stored_budget_and_runs_the_rest():
    """Finished trials are not run again; the unit's budget comes from its event, not from a new count."""
    described = experiment()
    first, stream = await run(described, PretendingRunner(action_count=9, failures={"inject_50": failing()}))
    index = EMPTY.__class__(
        finished=first.finished,
        failed={},
        last_attempt={trial.trial_id: 3 for trial in first.planned},
        budgets=tuple(event for event in stream.events if isinstance(event, OracleBudgetSet)),
        registered=frozenset(),
        spent_usd=0.0,
    )
    runner = PretendingRunner(action_count=1)
    second, again = await run(described, runner, index)
    assert {trial.condition for trial, _, _ in runner.attempts} == {"inject_50"}
    assert {(attempt, budget) for _, attempt, budget in runner.attempts} == {(4, 9)}
    assert again.events == []
    assert second.summary().left == 0
    benchmark = ListedBenchmark(prompt="Another task {}.")
    changed = make_plan(described, benchmark, Prompts(described, Path(), ""), "exact:1")
    assert budgets_of(changed, index) == {}


async def test_nothing_starts_that_the_limit_cannot_pay():
    """Trials of 1 USD under a limit of 10: none starts that could break it, and the run says so."""
    runner = PretendingRunner(cost_usd=1.0)
    limits = BudgetSpec(max_cost_usd=10.0, max_cost_usd_per_trial=1.0)
    scheduler, _ = await run(experiment(budget=limits), runner)
    summary = scheduler.summary()
    assert summary.outcome == "cost_limit"
    assert summary.spent_usd == len(runner.attempts) == 10


@pytest.mark.thorough
@pytest.mark.parametrize("spent", [0.0, 3.0])
async def test_a_limit_of_models_holds_their_agents_only(spent):
    """Trials of 1 USD under a limit of 5 for one of two models, of which a run before may have spent some."""
    described = experiment(conditions=("underspecified",), trials=9, concurrency=8)
    first, *others = described.agents
    first = msgspec.structs.replace(first, model="provider/dear")
    budget = BudgetSpec(models={"provider/*": 5.0}, max_cost_usd_per_trial=1.0)
    described = msgspec.structs.replace(described, agents=(first, *others), budget=budget)
    runner = PretendingRunner(cost_usd=1.0)
    scheduler, _ = await run(described, runner, spent_on={"provider/dear": spent})
    begun = Counter(trial.agent.name for trial, _, _ in runner.attempts)
    planned = Counter(trial.agent.name for trial in scheduler.planned)
    assert begun == {**planned, first.name: 5 - int(spent)}
    summary = scheduler.summary()
    assert (summary.outcome, summary.spent_limits) == ("cost_limit", ("budget.models.'provider/*'",))


async def test_a_free_failed_attempt_tells_nothing_of_what_a_trial_costs():
    """Trials that the list price puts at 1.56 USD, under a limit of 2: one at a time until one has been finished."""
    price = Price(input_usd_per_million_tokens=10.0, output_usd_per_million_tokens=10.0)
    agent = AgentSpec(name="a", model="m", api_base="http://nowhere", price=price)
    described = experiment(agents=(agent,), conditions=("full",), budget=BudgetSpec(max_cost_usd=2.0))
    runner = PretendingRunner({"full": failing(is_retry_owed=False)}, cost_usd=0.0)
    await run(described, runner)
    assert (runner.most_at_once, len(runner.attempts)) == (1, 6)
    runner = PretendingRunner(cost_usd=0.1)
    await run(described, runner)
    assert (runner.most_at_once, len(runner.attempts)) == (4, 6)


async def test_stopping_lets_running_trials_end():
    """After stop() nothing new starts; what runs is finished and counted."""
    runner = PretendingRunner()

    def stop_at_five(scheduler):
        if len(scheduler.finished) >= 5:
            scheduler.stop()

    scheduler, _ = await run(experiment(), runner, on_change=stop_at_five)
    summary = scheduler.summary()
    assert summary.outcome == "interrupted"
    assert 5 <= summary.finished == len(runner.attempts) <= 9


async def test_concurrency_changes_in_mid_run():
    """retune() counts at once: more trials start, and none is ended."""
    runner = PretendingRunner()

    def widen(scheduler):
        if len(scheduler.finished) == 3:
            scheduler.retune(9)

    scheduler, _ = await run(experiment(concurrency=1), runner, on_change=widen)
    assert (runner.most_at_once, scheduler.summary().left) == (9, 0)


async def test_what_was_given_up_before_is_not_tried_again_until_it_is_asked_for():
    """Trials given up by an earlier run stay failed and block what needs them; requeued in mid-run they are run."""
    described = experiment(retry=RetrySpec(same_failures=0))
    first, _ = await run(described, PretendingRunner(failures={"full": failing(is_retry_owed=False)}))
    index = EMPTY.__class__(
        finished=first.finished,
        failed={
            outcome.trial.trial_id: FailedTrial(
                trial_id=outcome.trial.trial_id,
                attempt=1,
                failed_attempts=1,
                boundary="model",
                error_kind="x",
                message="broken",
                is_retry_owed=False,
            )
            for outcome in first.summary().failures
        },
        last_attempt=dict.fromkeys(first.given_up, 1),
        budgets=(),
        registered=frozenset(),
        spent_usd=0.0,
    )
    before = PriorFailures(given_up=frozenset(first.given_up))
    runner = PretendingRunner()
    second, _ = await run(described, runner, index, before=before)
    assert (runner.attempts, second.summary().failed, second.summary().blocked) == ([], 12, 12)

    def ask(scheduler):
        scheduler.requeue(scheduler.given_up)

    unfinished = msgspec.structs.replace(index, finished={})
    third, _ = await run(described, runner, unfinished, on_change=ask, before=before)
    assert third.summary().left == 0
    assert {attempt for trial, attempt, _ in runner.attempts if trial.condition == "full"} == {2}


@pytest.mark.parametrize(
    ("boundary", "kind", "is_attempted"),
    [
        ("model", "context_window", False),
        ("grader", "bad_request", False),  # the judge of a row's claims
        ("user_simulator", "bad_request", False),
        ("model", "authentication", True),
        ("sandbox", "image_missing", True),
    ],
)
async def test_what_a_model_refused_before_is_not_attempted_again(boundary, kind, is_attempted):
    """Whoever called the model; what somebody may have mended since is attempted."""
    described = experiment(conditions=("full",))
    plan = make_plan(described, ListedBenchmark(), Prompts(described, Path(), ""), "exact:1").trials
    failed = {
        trial.trial_id: FailedTrial(
            trial_id=trial.trial_id,
            attempt=1,
            failed_attempts=1,
            boundary=boundary,
            error_kind=kind,
            message="refused",
            is_retry_owed=False,
        )
        for trial in plan
    }
    index = msgspec.structs.replace(EMPTY, failed=failed, last_attempt=dict.fromkeys(failed, 1))
    runner = PretendingRunner()
    await run(described, runner, index, before=PriorFailures(gives_up_refused=True))
    assert len(runner.attempts) == (len(plan) if is_attempted else 0)


async def test_attempts_of_an_earlier_run_count():
    """A trial that failed twice before a restart is given up after one more failure of three."""
    described = experiment(conditions=("full",), retry=RetrySpec(max_attempts=3))
    every = make_plan(described, ListedBenchmark(), Prompts(described, Path(), ""), "exact:1").trials
    runner = PretendingRunner(failures={"full": failing()})
    before = PriorFailures(attempts={trial.trial_id: 2 for trial in every})
    scheduler, _ = await run(described, runner, before=before)
    assert len(runner.attempts) == len(every) == scheduler.summary().failed


async def test_a_limit_stops_the_run_at_the_first_unknown_cost():
    """Without a limit the run goes on and says how many costs are unknown; with one it stops, for it cannot be kept."""
    free = PretendingRunner(cost_usd=None)
    scheduler, _ = await run(experiment(concurrency=1), free)
    assert (scheduler.summary().outcome, scheduler.summary().unpriced) == ("completed", len(free.attempts))
    assert spent_words(scheduler.spent_usd, scheduler.unpriced) == "cost unknown"
    limited = PretendingRunner(cost_usd=None)
    scheduler, _ = await run(experiment(concurrency=1, budget=BudgetSpec(max_cost_usd=10.0)), limited)
    assert (scheduler.summary().outcome, len(limited.attempts)) == ("cost_unknown", 1)


async def test_a_dead_endpoint_pauses_its_trials_and_charges_no_attempt():
    """Trials of the agent whose endpoint is down are held, the other agent's go on, and the run ends as paused."""

    class Dead(PretendingRunner):
        async def run(self, trial, attempt, budget_actions):
            outcome = await super().run(trial, attempt, budget_actions)
            if trial.agent.name != "a":
                return outcome
            down = TrialFailed(
                boundary="model", error_kind="endpoint_down", message="m at x is down", is_retry_owed=True
            )
            return msgspec.structs.replace(outcome, is_valid=False, failure=down)

    described = experiment(conditions=("full",), retry=RetrySpec(max_attempts=1), concurrency=2)
    scheduler, _ = await run(described, runner := Dead())
    summary = scheduler.summary()
    assert (summary.outcome, summary.pauses, summary.failed) == ("paused", ("m at x is down",), 0)
    assert (summary.finished, summary.left, scheduler.counts()["ready"]) == (6, 6, 6)
    assert len([trial for trial, *_ in runner.attempts if trial.agent.name == "a"]) <= 2


async def test_a_dead_judge_pauses_the_whole_run():
    """Every trial needs it: none begins any more, and none is blamed."""
    down = TrialFailed(boundary="grader", error_kind="endpoint_down", message="j is down", is_retry_owed=True)
    runner = PretendingRunner(failures={"full": lambda _: down})
    scheduler, _ = await run(experiment(concurrency=1, conditions=("full",)), runner)
    assert (scheduler.summary().outcome, scheduler.summary().failed, len(runner.attempts)) == ("paused", 0, 1)
