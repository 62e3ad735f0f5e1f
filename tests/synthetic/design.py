"""The design of a synthetic experiment: how many agents, tasks, variants and indexes a number of events asks for."""

from collections.abc import Iterator
from functools import cached_property
from math import ceil
from typing import NamedTuple

from lhaw_record.recorder.events.canonical_json import digest, short_digest
from lhaw_record.recorder.events.values import INJECT_PERCENTAGES, prompt_state_and_channel
from tests.synthetic.tasks import VERSION, SyntheticTask, SyntheticVariant, make_task
from tests.synthetic.texts import Texts

EVENTS_PER_TRIAL = 60
MOST_TASKS = 240
VARIANTS_PER_TASK = 4
FEWEST_TRIALS_PER_CELL = 3
GRADER = "synthetic-checks/1"
SIMULATOR = "exact"
LIMITS = {"command_seconds": 60.0, "max_seconds": 1800.0, "max_turns": 60, "memory_mb": 1024, "processes": 128}
ON_VARIANTS = ("underspecified", "ask_user", *(f"inject_{percentage}" for percentage in INJECT_PERCENTAGES))


class Agent(NamedTuple):
    """A kind of agent: how well it works, how often and how early it asks, and what its tokens cost."""

    name: str
    role: str
    skill: float
    ask_rate: float
    asks_at: float
    usd_per_million_input: float

    @property
    def model(self) -> str:
        """The name of its model."""
        return f"synthetic/{self.name}"

    @property
    def digest(self) -> str:
        """What identifies it in its trials."""
        return digest(self)


EVALUATED = (
    Agent("careful", "evaluated", 0.985, 0.75, 0.12, 3.0),
    Agent("balanced", "evaluated", 0.975, 0.35, 0.3, 2.5),
    Agent("hasty", "evaluated", 0.95, 0.07, 0.5, 0.3),
)
REFERENCE = Agent("reference", "classifier", 0.995, 0.0, 0.0, 3.0)


class Trial(NamedTuple):
    """One planned trial; ``variant`` is None where the prompt is full."""

    trial_id: str
    task: SyntheticTask
    variant: SyntheticVariant | None
    agent: Agent
    condition: str
    trial_index: int

    @property
    def inject_percent(self) -> int | None:
        """The percentage of an injected trial, else None."""
        return int(self.condition.removeprefix("inject_")) if self.condition.startswith("inject_") else None


class Design:
    """Every trial of a synthetic experiment. Whole cells only, so the number of events is met about.

    More events are more variants, four to a task, until there are 240 tasks; then they are more indexes.

    Args:
        seed: Of everything in it.
        events: How many events it shall have, about.
        name: Of the experiment, and of its benchmark: experiments in one store share no task.
    """

    def __init__(self, seed: int, events: int, name: str = "synthetic") -> None:
        self.name = name
        self.seed = seed
        self.events = events
        trials = events / EVENTS_PER_TRIAL
        self.agents = EVALUATED[: 1 if trials < 200 else 2 if trials < 800 else 3]
        per_variant = len(ON_VARIANTS) * len(self.agents) + 1 + len(self.agents) / VARIANTS_PER_TASK
        fewest_indexes = ceil(trials / (per_variant * MOST_TASKS * VARIANTS_PER_TASK))
        self.trials_per_cell = max(FEWEST_TRIALS_PER_CELL, fewest_indexes)
        self.variant_count = max(1, round(trials / (per_variant * self.trials_per_cell)))

    @cached_property
    def texts(self) -> Texts:
        """The pools of lines that its texts are cut from."""
        return Texts(self.seed)

    @cached_property
    def tasks(self) -> tuple[SyntheticTask, ...]:
        """Its tasks; the last one may have fewer variants than the others."""
        left = self.variant_count
        tasks: list[SyntheticTask] = []
        while left > 0:
            tasks.append(make_task(self.name, len(tasks), min(left, VARIANTS_PER_TASK), self.seed, self.texts))
            left -= VARIANTS_PER_TASK
        return tuple(tasks)

    @property
    def trial_count(self) -> int:
        """How many trials it has."""
        per_task = len(self.agents) * len(self.tasks)
        per_variant = (len(ON_VARIANTS) * len(self.agents) + 1) * self.variant_count
        return (per_task + per_variant) * self.trials_per_cell

    def oracle_trials(self, task: SyntheticTask, agent: Agent) -> list[Trial]:
        """Return the ``full`` trials of a unit: an agent on a task."""
        return [self._trial(task, None, agent, "full", index) for index in range(self.trials_per_cell)]

    def other_trials(self, task: SyntheticTask) -> Iterator[Trial]:
        """Yield every other trial of a task, index by index, so that cells fill evenly."""
        for index in range(self.trials_per_cell):
            for variant in task.variants:
                yield self._trial(task, variant, REFERENCE, "underspecified", index)
                for agent in self.agents:
                    for condition in ON_VARIANTS:
                        yield self._trial(task, variant, agent, condition, index)

    def _trial(
        self, task: SyntheticTask, variant: SyntheticVariant | None, agent: Agent, condition: str, index: int
    ) -> Trial:
        prompt_state, channel = prompt_state_and_channel(condition)
        key = {
            "experiment": self.name,
            "benchmark": self.name,
            "benchmark_version": VERSION,
            "task_digest": task.digest,
            "variant_digest": variant.digest if variant else None,
            "prompt_state": prompt_state,
            "channel": channel,
            "agent_digest": agent.digest,
            "grader": GRADER,
            "limits": LIMITS,
            "user_simulator": SIMULATOR if channel == "ask_user" else None,
            "trial_index": index,
            "seed": index,
        }
        return Trial(short_digest(key), task, variant, agent, condition, index)
