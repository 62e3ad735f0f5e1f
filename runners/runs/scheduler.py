"""The scheduler: runs the unfinished trials of a plan, several at a time.

An injected trial waits for the action budget of its unit, and the budget waits for the unit's ``full`` trials. A trial
that failed because of infrastructure gets another attempt. The trials of leased agents wait until somebody asks for
one. No trial starts that could exceed the experiment's cost limit. While a model's endpoint is down, the trials that
need it are held and none is blamed: the run ends as paused.
"""

import heapq
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from fnmatch import fnmatchcase
from typing import Protocol, TypeVar

import anyio
import anyio.abc
import msgspec

from lhaw_record.recorder.events import TrialFailed
from lhaw_record.recorder.reading.trial_index import FailedTrial, FinishedTrial, TrialIndex
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.agents.planned_trial import BudgetUnit, PlannedTrial
from lhaw_record.runners.agents.trial_record import TrialOutcome, failed_outcome
from lhaw_record.runners.base.budget import cost_of
from lhaw_record.runners.base.errors import EndpointDown, LeaseReturned, RunBudgetSpent
from lhaw_record.runners.experiment.tables import AgentSpec, Experiment
from lhaw_record.runners.models.call_outcomes import REFUSED_KINDS
from lhaw_record.runners.runs.outcome_warnings import RepeatedFailures, crashes, silent_agents
from lhaw_record.runners.runs.planning.plan import Plan, budgets_of, settle_budget
from lhaw_record.runners.runs.planning.plan_table import expected_costs_usd

Lent = TypeVar("Lent")


class AttemptRunner(Protocol):
    """Executes attempts, in this process or elsewhere."""

    async def run(self, trial: PlannedTrial, attempt: int, budget_actions: int | None) -> TrialOutcome:
        """Run one attempt to its closing event."""
        ...


class PriorFailures(msgspec.Struct, frozen=True):
    """The failures of earlier runs that still count: failed attempts by trial, and trials given up.

    If ``gives_up_refused`` is set, trials that a model refused (:func:`is_refused`) are given up, too.
    """

    attempts: Mapping[str, int] = msgspec.field(default_factory=dict)
    given_up: frozenset[str] = frozenset()
    gives_up_refused: bool = False


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended.

    ``outcome`` is completed, interrupted, cost_limit, cost_unknown (a limit that cannot be enforced), paused (a model's
    endpoint is down) or failed (some trials could not be finished). ``unpriced`` counts attempts of unknown cost, which
    are not in ``spent_usd``. Neither are ``unknown_cost_calls``: failed calls that may have been paid for. ``flagged``
    counts trials whose recording is doubtful. ``crashes`` say which programs ended with which exit code, or never
    asked. ``pauses`` are the reasons of a pause. ``repeated`` are the reasons why agents were stopped that failed
    repeatedly. ``spent_limits`` are the keys of cost limits without room, for ``cost_limit``.
    """

    outcome: str
    finished: int
    failed: int
    blocked: int
    left: int
    spent_usd: float
    failures: tuple[TrialOutcome, ...]
    unpriced: int = 0
    unknown_cost_calls: int = 0
    crashes: tuple[str, ...] = ()
    flagged: int = 0
    pauses: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()
    spent_limits: tuple[str, ...] = ()


class Scheduler:
    """Schedules the trials of one run of a plan.

    Args:
        experiment: The experiment, for its concurrency, attempts and cost limits.
        plan: Every planned trial.
        index: What the store had recorded when the run began.
        spent_on: What was spent before on models by name, if the experiment limits that.
        runner: Executes attempts.
        run_stream: The stream in which budgets are recorded.
        on_change: Called with this scheduler after every start and end of a trial, to show progress.
        prior: The failures of earlier runs that still count. None if this run tries everything again.
        may_take: Decides whether this scheduler may start one more trial, in addition to its own limits. If it has
            returned False, the caller must call :meth:`wake` when the answer may have changed.
    """

    def __init__(
        self,
        *,
        experiment: Experiment,
        plan: Plan,
        index: TrialIndex,
        spent_on: Mapping[str, float] | None = None,
        runner: AttemptRunner,
        run_stream: Stream,
        on_change: Callable[["Scheduler"], None] = lambda _: None,
        prior: PriorFailures | None = None,
        may_take: Callable[["Scheduler"], bool] = lambda _: True,
    ) -> None:
        prior = prior or PriorFailures()
        self.concurrency = experiment.concurrency
        self._experiment = experiment
        self._index = index
        self._runner = runner
        self._run_stream = run_stream
        self._on_change = on_change
        self._may_take = may_take
        self._oracles = plan.oracle_trials()
        self._budgets = budgets_of(plan, index)
        self._order = {trial.trial_id: position for position, trial in enumerate(plan.trials)}
        self._trials = {trial.trial_id: trial for trial in plan.trials}
        self._ready: list[int] = []
        self._leasable: set[int] = set()
        self._tasks: anyio.abc.TaskGroup | None = None
        self._waiting: dict[BudgetUnit, list[PlannedTrial]] = {}
        self._attempts_here: Counter[str] = Counter()
        self._tries = Counter(prior.attempts)
        self._given_up = {
            trial.trial_id: failed_outcome(trial, index.failed[trial.trial_id])
            for trial in plan.trials
            if _is_given_up(trial, prior, index)
        }
        self._stop_reason: str | None = None
        self._wake = anyio.Event()
        known = [found.cost_usd for found in index.finished.values() if found.cost_usd is not None]
        self._largest_cost_usd = max(known, default=None)
        self._has_limit = experiment.budget.max_cost_usd is not None or bool(experiment.budget.models)
        expected = expected_costs_usd(experiment, plan, index) if self._has_limit else {}  # looks up list prices
        self._cost_usd = {name: usd or 0.0 for name, usd in expected.items()}
        self._guessed_cost_usd = max(self._cost_usd.values(), default=0.0)
        self._spent_on = Counter(spent_on or {})
        self._has_cost: set[str] = set()  # agents whose cost is known, so that the figure above is known
        for trial in plan.trials:
            found = index.finished.get(trial.trial_id)
            if found is not None and found.cost_usd is not None:
                self._learn(trial.agent.name, found.cost_usd)
        self._broke: dict[str, str] = {}  # the key of the limit that has no room for an agent's trials, by its name
        self.planned = plan.trials
        self.running: dict[str, PlannedTrial] = {}
        self.finished = {trial_id: found for trial_id, found in index.finished.items() if trial_id in self._trials}
        self.finished_before = len(self.finished)
        self.spent_usd = index.spent_usd
        self.unpriced = index.unpriced
        self.unknown_cost_calls = index.unknown_cost_calls
        self._outcomes: list[TrialOutcome] = []
        self._flagged = 0
        self._pauses: dict[str, str] = {}  # why the trials of an agent are held, by its name
        self._held: list[PlannedTrial] = []
        self._repeated = RepeatedFailures(experiment.retry.same_failures, _tasks_of_agents(plan, index))
        self._stuck: dict[str, str] = {}  # why the trials of an agent that fails again and again are held, by its name
        self._began_s = time.monotonic()

    @property
    def left_s(self) -> float | None:
        """The estimated seconds until the run ends, or None before the first trial has finished in it."""
        done = len(self.finished) - self.finished_before
        left = len(self.planned) - len(self.finished)
        return left * (time.monotonic() - self._began_s) / done if done else None

    @property
    def experiment(self) -> Experiment:
        return self._experiment

    @property
    def is_stopping(self) -> bool:
        return self._stop_reason is not None

    def stop(self, reason: str = "interrupted") -> None:
        """Start no more trials. Running trials continue to their end."""
        self._stop_reason = self._stop_reason or reason
        self._wake.set()

    def wake(self) -> None:
        self._wake.set()

    def retune(self, concurrency: int) -> None:
        self.concurrency = concurrency
        self._wake.set()

    @property
    def given_up(self) -> tuple[str, ...]:
        """The ids of failed trials that this run does not attempt again, in the order of the plan."""
        return tuple(trial.trial_id for trial in self.planned if trial.trial_id in self._given_up)

    def requeue(self, trial_ids: Iterable[str]) -> None:
        """Queue given-up trials again, with as many attempts as the experiment allows.

        Agents that were held because they failed again and again may start trials again, too.
        """
        for trial_id in trial_ids:
            if self._given_up.pop(trial_id, None) is not None:
                self._tries[trial_id] = 0
                self._queue(self._trials[trial_id])
        self._stuck.clear()
        self._repeated.clear()
        held, self._held = self._held, []
        for trial in held:
            self._queue(trial)
        self._wake.set()

    @property
    def wants_more(self) -> bool:
        """Whether the scheduler would start one more trial if ``may_take`` allowed it."""
        return bool(self._ready) and len(self.running) < self.concurrency and self._may_start()

    def lease(self, agent: str | None, begin: Callable[[PlannedTrial, int], Lent]) -> Lent | None:
        """Start the next trial that waits for a lease, or return None if none may start now."""
        self._hold_broke()
        free = [
            each.name for each in self._experiment.agents if agent in (None, each.name) and not self._lacking(each)[0]
        ]
        positions = [position for position in self._leasable if self.planned[position].agent.name in free]
        if not positions or self._tasks is None or len(self.running) >= self.concurrency:
            return None
        if not self._may_start() or not self._may_take(self):
            self._wake.set()
            return None
        self._leasable.remove(min(positions))
        trial = self.planned[min(positions)]
        self.running[trial.trial_id] = trial
        lent = begin(trial, self._next_attempt(trial))
        self._tasks.start_soon(self._run_one, trial)
        self._on_change(self)
        return lent

    def owes_leases(self, agent: str | None) -> bool:
        """Return whether a trial may still be leased in this run, now or later. ``agent`` is as in :meth:`lease`."""
        return any(
            _is_leased(trial)
            and agent in (None, trial.agent.name)
            and trial.trial_id not in self.finished
            and trial.trial_id not in self._given_up
            for trial in self.planned
        )

    async def run(self) -> None:
        self._began_s = time.monotonic()
        for trial in self.planned:
            if trial.trial_id not in self.finished and trial.trial_id not in self._given_up:
                self._queue(trial)
        for unit in self._waiting.copy():
            await self._release(unit)
        try:
            async with anyio.create_task_group() as self._tasks:
                while self._may_go_on():
                    self._wake = anyio.Event()
                    self._hold_broke()
                    while self.wants_more and (position := self._next()) is not None and self._may_take(self):
                        self._take(position)
                        trial = self.planned[position]
                        self.running[trial.trial_id] = trial
                        self._tasks.start_soon(self._run_one, trial)
                    self._on_change(self)
                    if self._may_go_on():
                        await self._wake.wait()
        finally:
            self._tasks = None

    def _next(self) -> int | None:
        """Return the position of the first ready trial for which the limits of its models have room, or None."""
        if not self._experiment.budget.models:
            return self._ready[0] if self._ready else None
        lacking = {agent.name for agent in self._experiment.agents if self._lacking(agent)[0]}
        return min(
            (position for position in self._ready if self.planned[position].agent.name not in lacking), default=None
        )

    def _hold_broke(self) -> None:
        """Hold the trials of agents for which a limit of their models can have no room any more."""
        for agent in self._experiment.agents:
            pattern, is_final = self._lacking(agent)
            if is_final and agent.name not in self._broke:
                self._broke[agent.name] = f"budget.models.'{pattern}'"
                self._hold()

    def _lacking(self, agent: AgentSpec) -> tuple[str, bool]:
        """Return the pattern of a limit without room for one more trial of an agent, and whether that is final.

        Each running trial reserves the highest cost of its agent so far. Until a cost is known, only one trial runs.
        """
        for pattern, limit_usd in self._experiment.budget.models.items():
            if not _may_call(self._experiment, agent, pattern):
                continue
            spent_usd = cost_of(pattern, self._spent_on)
            running = [each.agent for each in self.running.values() if _may_call(self._experiment, each.agent, pattern)]
            held_usd = sum(self._each_usd(each) for each in (*running, agent))
            is_tried = not running and agent.name not in self._has_cost
            if spent_usd >= limit_usd or (spent_usd + held_usd > limit_usd and not is_tried):
                return pattern, not running
        return "", False

    def _each_usd(self, agent: AgentSpec) -> float:
        return self._experiment.budget.max_cost_usd_per_trial or self._cost_usd[agent.name]

    def _learn(self, agent: str, cost_usd: float) -> None:
        self._cost_usd[agent] = max(cost_usd, self._cost_usd[agent] if agent in self._has_cost else 0.0)
        self._has_cost.add(agent)

    def _take(self, position: int) -> None:
        if position == self._ready[0]:
            heapq.heappop(self._ready)
        else:
            self._ready.remove(position)
            heapq.heapify(self._ready)

    def _may_go_on(self) -> bool:
        return bool(self.running) or (bool(self._ready or self._leasable) and self._may_start())

    def _may_start(self) -> bool:
        """Return whether one more trial may start: the run was not stopped, and the cost limit has room for it.

        Each running trial reserves what it may cost. Before any cost is known, this is a guess, so one trial starts
        regardless of it and stops itself when the limit is reached (:class:`RunBudget`).
        """
        limit = self._experiment.budget.max_cost_usd
        if limit is None or self._stop_reason is not None:
            return self._stop_reason is None
        known_usd = self._experiment.budget.max_cost_usd_per_trial or self._largest_cost_usd
        each_usd = self._guessed_cost_usd if known_usd is None else known_usd
        if self.spent_usd < limit and self.spent_usd + (len(self.running) + 1) * each_usd <= limit:
            return True
        if self.running:
            return False  # they may cost less than they hold
        if known_usd is None and self.spent_usd < limit:
            return True
        self._stop_reason = "cost_limit"
        return False

    async def _run_one(self, trial: PlannedTrial) -> None:
        attempt = self._next_attempt(trial)
        self._attempts_here[trial.trial_id] += 1
        self._tries[trial.trial_id] += 1
        began = self._repeated.now()
        outcome = await self._runner.run(trial, attempt, self._budgets.get(trial.unit))
        self._pay(outcome)
        is_repeated = False
        self._outcomes.append(outcome)
        self._flagged += outcome.is_flagged
        is_paused = outcome.failure is not None and outcome.failure.error_kind == EndpointDown.KIND
        if outcome.failure is not None and is_paused:
            self._pause(trial, outcome.failure)
        kind = outcome.failure.error_kind if outcome.failure is not None else ""
        is_broke = kind in (RunBudgetSpent.KIND, RunBudgetSpent.MODEL_KIND)
        if is_broke:
            self._tries[trial.trial_id] -= 1
        if kind == RunBudgetSpent.KIND:
            self.stop("cost_limit")
        is_returned = outcome.failure is not None and outcome.failure.error_kind in LeaseReturned.KINDS
        self._tries[trial.trial_id] -= is_returned
        if outcome.is_valid:
            self.finished[trial.trial_id] = FinishedTrial(
                trial_id=trial.trial_id,
                attempt=attempt,
                action_count=outcome.action_count,
                cost_usd=outcome.cost_usd,
                is_success=outcome.is_success,
            )
        elif (
            is_paused
            or is_broke
            or is_returned
            or (
                self._tries[trial.trial_id] < self._experiment.retry.max_attempts
                and outcome.failure is not None
                and outcome.failure.is_retry_owed
            )
        ):
            is_repeated = True
        else:
            self._given_up[trial.trial_id] = outcome
        if not is_repeated and (reason := self._repeated.add(outcome, began)) is not None:
            self._stuck[trial.agent.name] = reason
            self._hold()
        if trial.condition == "full":
            await self._release(trial.unit)
        del self.running[trial.trial_id]  # not earlier: the run must go on until the released trials are queued
        if is_repeated:
            self._queue(trial)
        self._on_change(self)
        self._wake.set()

    def _next_attempt(self, trial: PlannedTrial) -> int:
        return self._index.last_attempt.get(trial.trial_id, 0) + self._attempts_here[trial.trial_id] + 1

    def _pause(self, trial: PlannedTrial, failure: TrialFailed) -> None:
        """Hold every trial that needs the endpoint that is down. The attempt that found it does not count.

        The model of a simulated user or a judge is needed by all trials, so the whole run stops.
        """
        self._tries[trial.trial_id] -= 1
        self._pauses.setdefault(trial.agent.name, failure.message)
        if failure.boundary != "model":
            self.stop("paused")
        self._hold()

    def _hold(self) -> None:
        """Take the trials of held agents out of those that may start."""
        ready = [self.planned[position] for position in (*self._ready, *self._leasable)]
        self._ready, self._leasable = [], set()
        for each in sorted(ready, key=lambda each: self._order[each.trial_id]):
            self._queue(each)

    def _pay(self, outcome: TrialOutcome) -> None:
        """Add the cost of an attempt. Until a trial is finished, a failed attempt can only raise the guess.

        If the cost is unknown, a cost limit can no longer be enforced, so a run with a limit stops. An attempt that
        failed at the boundary ``recorder`` does not stop it.
        """
        cost = outcome.cost_usd or 0.0
        self.spent_usd += cost
        self._spent_on.update(outcome.spent_on)
        if outcome.is_valid:
            self._learn(outcome.trial.agent.name, cost)
        if outcome.is_valid or self._largest_cost_usd is not None:
            self._largest_cost_usd = max(self._largest_cost_usd or 0.0, cost)
        else:
            self._guessed_cost_usd = max(self._guessed_cost_usd, cost)
        self.unpriced += outcome.cost_usd is None
        self.unknown_cost_calls += outcome.unknown_cost_calls
        was_lost = outcome.failure is not None and outcome.failure.boundary == "recorder"
        if outcome.cost_usd is None and self._has_limit and not was_lost:
            self.stop("cost_unknown")

    def _queue(self, trial: PlannedTrial) -> None:
        if trial.needs_budget and trial.unit not in self._budgets:
            self._waiting.setdefault(trial.unit, []).append(trial)
        elif any(trial.agent.name in each for each in (self._pauses, self._stuck, self._broke)):
            self._held.append(trial)
        elif _is_leased(trial):
            self._leasable.add(self._order[trial.trial_id])
        else:
            heapq.heappush(self._ready, self._order[trial.trial_id])

    async def _release(self, unit: BudgetUnit) -> None:
        """Set the unit's budget if its ``full`` trials allow one, and queue the injected trials that wait for it."""
        oracles = self._oracles.get(unit, ())
        # One of them may still become valid in this run.
        is_open = any(each.trial_id not in self.finished and each.trial_id not in self._given_up for each in oracles)
        if unit not in self._budgets and not is_open:
            budget = settle_budget(unit, oracles, self.finished, self._experiment.min_oracle_trials)
            if budget is not None:
                await self._run_stream.append(budget)
                self._budgets[unit] = budget.budget_actions
        if unit in self._budgets:
            for trial in self._waiting.pop(unit, ()):
                self._queue(trial)

    def counts(self) -> Mapping[str, int]:
        """Return how many trials are finished, running, ready, waiting for a budget, and given up."""
        return {
            "finished": len(self.finished),
            "running": len(self.running),
            "ready": len(self._ready) + len(self._leasable) + len(self._held),
            "blocked": sum(len(trials) for trials in self._waiting.values()),
            "failed": len(self._given_up),
        }

    def summary(self) -> RunSummary:
        counts = self.counts()
        left = len(self.planned) - len(self.finished)
        stopped = self._stop_reason or ("paused" if self._pauses else "cost_limit" if self._broke else None)
        keys = ("budget.max_cost_usd",) if self._stop_reason else tuple(dict.fromkeys(self._broke.values()))
        outcome = "completed" if left == 0 else stopped or "failed"
        return RunSummary(
            outcome=outcome,
            finished=len(self.finished) - self.finished_before,
            failed=counts["failed"],
            blocked=counts["blocked"],
            left=left,
            spent_usd=self.spent_usd,
            failures=tuple(self._given_up.values()),
            unpriced=self.unpriced,
            unknown_cost_calls=self.unknown_cost_calls,
            crashes=(*crashes(self._outcomes), *silent_agents(self._outcomes)),
            flagged=self._flagged,
            pauses=tuple(dict.fromkeys(self._pauses.values())),
            repeated=tuple(self._stuck.values()),
            spent_limits=keys,
        )


def _may_call(experiment: Experiment, agent: AgentSpec, pattern: str) -> bool:
    """Return whether a trial of an agent may call a model that a pattern names: its own, the user's, or the judge's."""
    shared = [spec for spec in (experiment.user_simulator.llm, experiment.grader.judge) if spec is not None]
    return any(fnmatchcase(spec.model, pattern) for spec in (agent, *agent.routed.values(), *shared))


def _tasks_of_agents(plan: Plan, index: TrialIndex) -> Counter[str]:
    """Return on how many tasks each agent has trials that are not finished."""
    left = {(trial.agent.name, trial.task.task_id) for trial in plan.trials if trial.trial_id not in index.finished}
    return Counter(name for name, _ in left)


def _is_leased(trial: PlannedTrial) -> bool:
    return trial.agent.external is not None and trial.agent.external.leased


def _is_given_up(trial: PlannedTrial, prior: PriorFailures, index: TrialIndex) -> bool:
    """Return whether a trial was given up in an earlier run and is not to be attempted again."""
    failed = index.failed.get(trial.trial_id)
    if failed is None:
        return False
    return trial.trial_id in prior.given_up or (prior.gives_up_refused and is_refused(failed))


def is_refused(failed: FailedTrial) -> bool:
    """Return whether a model refused what a trial sent, so that another attempt would end in the same way."""
    return not failed.is_retry_owed and failed.error_kind in REFUSED_KINDS
