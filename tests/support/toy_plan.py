"""A tiny benchmark's plan and a runner of trials that only pretends: for tests of planning and scheduling."""

from lhaw_record.recorder.events.values import Checkpoint, Segment, Task, Variant
from lhaw_record.recorder.reading.trial_index import TrialIndex
from lhaw_record.runners.agents.trial_record import TrialOutcome
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark
from lhaw_record.runners.experiment.tables import AgentSpec, BenchmarkSpec, Experiment

EMPTY = TrialIndex(finished={}, failed={}, last_attempt={}, budgets=(), registered=frozenset(), spent_usd=0.0)


class ListedBenchmark(Benchmark):
    """Tasks and variants without environments."""

    name, version, grader, ends_on_text = "toy", "1", "toy-1", False

    def __init__(self, tasks=2, variants_each=1, prompt="Do it by {} today."):
        self._tasks = [
            Task(
                benchmark="toy",
                benchmark_version="1",
                task_id=f"t{number}",
                prompt=prompt.format(number),
                checkpoints=(Checkpoint(checkpoint_id="c1", label="done"),),
                environment_digest="e",
            )
            for number in range(tasks)
        ]
        self._variants = [
            Variant(
                benchmark="toy",
                task_id=task.task_id,
                variant_id=f"{task.task_id}/v{number}",
                prompt=f"Do it {number}.",
                segments=(Segment(segment_id="S1", value="today", dimension="goal", subdimension="target"),),
                origin="hand_written",
            )
            for task in self._tasks
            for number in range(variants_each)
        ]

    def tasks(self):
        """Every task."""
        return self._tasks

    def variants(self):
        """Every variant."""
        return self._variants

    def system_prompt(self):
        """What the agent is told."""
        return "You work."

    def open(self, task, settings, variant=None):
        """Refuse: a plan opens nothing."""
        raise NotImplementedError


def experiment(**changes):
    """An experiment with two scripted agents under three conditions."""
    settings = {
        "name": "toy",
        "benchmark": BenchmarkSpec(name="toy"),
        "agents": (AgentSpec(name="a", model="scripted/balanced"), AgentSpec(name="b", model="scripted/never")),
        "conditions": ("full", "underspecified", "inject_50"),
        "trials": 3,
        "concurrency": 4,
    }
    return Experiment(**{**settings, **changes})


class PretendingRunner:
    """Ends attempts at once: valid with some action count, or failed as ``failures`` says."""

    def __init__(self, failures=None, action_count=7, cost_usd=1.0):
        self.attempts = []
        self.most_at_once = 0
        self._running = 0
        self._failures = failures or {}
        self._action_count = action_count
        self._cost_usd = cost_usd

    async def run(self, trial, attempt, budget_actions):
        """Pretend."""
        import anyio

        self._running += 1
        self.most_at_once = max(self.most_at_once, self._running)
        await anyio.sleep(0.001)
        self._running -= 1
        self.attempts.append((trial, attempt, budget_actions))
        failure = self._failures.get(trial.condition, lambda _: None)(attempt)
        return TrialOutcome(
            trial=trial,
            attempt=attempt,
            is_valid=failure is None,
            action_count=self._action_count,
            cost_usd=self._cost_usd,
            spent_on={trial.agent.model: self._cost_usd or 0.0},
            failure=failure,
        )
