"""The common limit of several experiments: kept, used to the full, and shared fairly."""

from pathlib import Path

import anyio

from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.runs.daemon.live import Slots
from lhaw_record.runners.runs.planning.plan import make_plan
from lhaw_record.runners.runs.scheduler import Scheduler
from tests.support.canned_model import MemoryRecording
from tests.support.toy_plan import EMPTY, ListedBenchmark, PretendingRunner, experiment


def scheduled(slots, runner, **changes):
    """A scheduler of a toy experiment that takes part in the slots."""
    described = experiment(**changes)
    plan = make_plan(described, ListedBenchmark(), Prompts(described, Path(), ""), "exact:1")
    made = Scheduler(
        experiment=described,
        plan=plan,
        index=EMPTY,
        runner=runner,
        run_stream=MemoryRecording(),
        on_change=lambda _: slots.changed(),
        may_take=slots.may_take,
    )
    slots.join(made)
    return made


class Watching(PretendingRunner):
    """Notes how many trials run at each start, over all experiments."""

    def __init__(self, slots):
        super().__init__()
        self.slots = slots
        self.seen = []

    async def run(self, trial, attempt, budget_actions):
        """Pretend."""
        self.seen.append(self.slots.taken)
        return await super().run(trial, attempt, budget_actions)


async def run_all(slots, schedulers):
    """Run schedulers at the same time, each leaving at its end."""

    async def one(scheduler):
        await scheduler.run()
        slots.leave(scheduler)

    with anyio.fail_after(600):
        async with anyio.create_task_group() as tasks:
            for scheduler in schedulers:
                tasks.start_soon(one, scheduler)


async def test_the_limit_is_kept_and_used():
    """Three experiments under a limit of four never have five trials, do have four, and all come to their end."""
    slots = Slots(4)
    runner = Watching(slots)
    schedulers = [scheduled(slots, runner, name=name, concurrency=4) for name in ("a", "b", "c")]
    await run_all(slots, schedulers)
    assert max(runner.seen) == 4
    assert [scheduler.summary().outcome for scheduler in schedulers] == ["completed"] * 3


async def test_a_small_experiment_does_not_wait_for_a_large_one():
    """The one that comes later gets half of the slots while both want them, so it ends first."""
    slots = Slots(4)
    runner = PretendingRunner()
    large = scheduled(slots, runner, name="large", trials=12, concurrency=4)
    small = scheduled(slots, runner, name="small", trials=1, concurrency=4)
    order = []

    async def one(scheduler, name):
        await scheduler.run()
        slots.leave(scheduler)
        order.append((name, len(large.finished)))

    with anyio.fail_after(600):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, large, "large")
            tasks.start_soon(one, small, "small")
    assert [name for name, _ in order] == ["small", "large"]
    assert order[0][1] < len(large.planned) / 2


async def test_what_one_does_not_want_the_others_take():
    """A stopped or narrow experiment leaves its share to the others, at once."""
    slots = Slots(6)
    runner = Watching(slots)
    narrow = scheduled(slots, runner, name="narrow", concurrency=1)
    wide = scheduled(slots, runner, name="wide", concurrency=9)
    await run_all(slots, [narrow, wide])
    assert max(runner.seen) == 6
