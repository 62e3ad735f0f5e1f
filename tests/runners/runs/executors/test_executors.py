"""Executors without a cluster: what is refused, and what a pool of workers does about one that is lost."""

import sys
from pathlib import Path

import anyio
import msgspec
import pytest

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.reading.trial_index import FinishedTrial
from lhaw_record.runners.agents.trial_record import TrialOutcome
from lhaw_record.runners.base.errors import ExecutorError, ExperimentError
from lhaw_record.runners.experiment.prompts import Prompts
from lhaw_record.runners.runs.executors import ray_executor, ray_pool
from lhaw_record.runners.runs.executors.ray_pool import WorkerPool
from lhaw_record.runners.runs.executors.ray_worker import Assignment, WorkerInfo
from lhaw_record.runners.runs.planning.plan import make_plan
from tests.cli.experiments import write_experiment
from tests.cli.program import called
from tests.runners.runs.executors.fake_ray import FakeRay, RayError, RayTaskError, RuntimeEnvSetupError
from tests.support.toy_plan import EMPTY, ListedBenchmark, experiment

TRIALS = make_plan(experiment(), ListedBenchmark(), Prompts(experiment(), Path(), ""), "exact:1").trials
ASSIGNMENT = Assignment(
    experiment=experiment(),
    path=Path("x.toml"),
    files=None,
    address="shared:/x",
    makers=frozenset(),
    run_id="r",
    plan="p",
    version="1",
)


@pytest.fixture
def no_pauses(monkeypatch):
    """Workers that die while joining are hired again at once."""
    monkeypatch.setattr(ray_pool, "_PAUSES_S", (0.0, 0.0))


def scripts(run, join=None, leave=None):
    """What a worker does; ``run`` gets a trial's id and an attempt."""

    async def joined():
        return WorkerInfo(host="h", node_id="n", writer_id="w", sandbox="process")

    async def runs(trial_id, attempt, budget_actions):
        return await run(trial_id, attempt)

    async def nothing(*_):
        return None

    return {"join": join or joined, "run": runs, "stop": nothing, "leave": leave or nothing}


def raising(error):
    """A method that fails."""

    async def fail(*_):
        raise error

    return fail


async def finishing(trial_id, attempt):
    """An attempt that ends well."""
    trial = next(each for each in TRIALS if each.trial_id == trial_id)
    return TrialOutcome(trial=trial, attempt=attempt, is_valid=True, action_count=3, cost_usd=0.5)


def pool(ray, wanted=1, look=lambda: EMPTY, report=lambda _: None):
    """A pool on a cluster that is none."""
    return WorkerPool(ray=ray, assignment=ASSIGNMENT, wanted=wanted, report=report, look=look)


async def test_an_end_that_was_published_counts_though_its_worker_is_lost():
    """The reply is lost and the end is in the store: the trial is finished and is not paid for again."""
    trial = TRIALS[0]
    ended = FinishedTrial(trial_id=trial.trial_id, attempt=2, action_count=9, cost_usd=0.25)
    index = EMPTY.__class__(
        finished={trial.trial_id: ended}, failed={}, last_attempt={}, budgets=(), registered=frozenset(), spent_usd=0.0
    )
    workers = pool(FakeRay(scripts(raising(RayError("died")))), look=lambda: index)
    async with workers.opened():
        outcome = await workers.run(trial, 2, None)
        other = await workers.run(TRIALS[1], 2, None)
    assert (outcome.is_valid, outcome.action_count, outcome.cost_usd) == (True, 9, 0.25)
    assert not other.is_valid
    assert (other.failure.error_kind, other.failure.is_retry_owed) == ("worker_lost", True)


async def test_a_lost_worker_is_ended_and_replaced():
    """What cannot be reached may still be at work, so it is killed; the next attempt runs in another worker."""
    ray = FakeRay(scripts(raising(RayError("died"))), scripts(finishing))
    said = []
    workers = pool(ray, report=said.append)
    async with workers.opened():
        assert not (await workers.run(TRIALS[0], 1, None)).is_valid
        assert len(ray.killed) == 1
        assert (await workers.run(TRIALS[0], 2, None)).is_valid
    assert "worker 1 on h is lost with 1 running trials, which will run again: died" in said
    assert "worker 2 on h has joined" in said


async def test_how_attempts_of_a_lost_worker_ended_is_asked_when_its_host_has_published():
    """An end was durable on the host and not yet published: the trial is finished, and not paid for again."""
    trial = TRIALS[0]
    ended = FinishedTrial(trial_id=trial.trial_id, attempt=1, action_count=9, cost_usd=0.25)
    looks = [EMPTY]

    async def published():
        looks.append(msgspec.structs.replace(EMPTY, finished={trial.trial_id: ended}))

    ray = FakeRay(scripts(raising(RayError("died"))), scripts(finishing), published=published)
    workers = pool(ray, look=lambda: looks[-1])
    async with workers.opened(), anyio.create_task_group() as tasks:
        tasks.start_soon(workers.run, TRIALS[1], 1, None)
        assert (await workers.run(trial, 1, None)).cost_usd == 0.25
    assert ray.asked == [("n", "w")], "once for all attempts of the worker"


async def test_a_host_that_cannot_publish_what_a_lost_worker_left_is_not_waited_for(monkeypatch):
    """The host is lost, too, or silent: what the store has is all there is, and the attempt is owed again."""
    monkeypatch.setattr(ray_pool, "_PATIENCE_S", 0.05)
    for published in (raising(RayError("no such node")), anyio.sleep_forever):
        ray = FakeRay(scripts(raising(RayError("died"))), scripts(finishing), published=published)
        workers = pool(ray)
        async with workers.opened():
            outcome = await workers.run(TRIALS[0], 1, None)
        assert (outcome.failure.error_kind, outcome.failure.is_retry_owed) == ("worker_lost", True)


async def test_what_a_host_could_not_publish_of_a_lost_worker_is_told():
    """The host's journal is damaged: the run goes on, and says what is left where, and what to do."""
    damaged = raising(RayTaskError(RecordingFailed("journal w-1 is damaged")))
    said = []
    workers = pool(FakeRay(scripts(raising(RayError("died"))), published=damaged), report=said.append)
    async with workers.opened():
        assert (await workers.run(TRIALS[0], 1, None)).failure.is_retry_owed
    told = "lost worker on h could not be published: journal w-1 is damaged; to try again, run there: "
    assert any(f"{told}lhaw-record log recover shared:/x" in line for line in said)


async def test_a_run_stops_when_no_worker_can_record():
    """A worker that cannot record leaves for good; the last one's reason ends the run."""
    ray = FakeRay(scripts(raising(RayTaskError(RecordingFailed("disk full")))))
    workers = pool(ray)
    async with workers.opened():
        assert (await workers.run(TRIALS[0], 1, None)).failure.is_retry_owed
        with pytest.raises(RecordingFailed, match="worker 1 on h: disk full"):
            await workers.run(TRIALS[0], 2, None)


async def test_attempts_go_to_the_worker_with_the_fewest():
    """Four attempts at once on two workers are two on each."""
    counts = [0, 0]
    gate = anyio.Event()

    def counting(place):
        async def run(trial_id, attempt):
            counts[place] += 1
            await gate.wait()
            return await finishing(trial_id, attempt)

        return run

    workers = pool(FakeRay(scripts(counting(0)), scripts(counting(1))), wanted=2)
    async with workers.opened(), anyio.create_task_group() as tasks:
        for trial in TRIALS[:4]:
            tasks.start_soon(workers.run, trial, 1, None)
        await anyio.wait_all_tasks_blocked()
        gate.set()
    assert counts == [2, 2]


async def test_a_machine_that_cannot_do_the_work_ends_the_run_before_it_begins():
    """One of two workers refuses: the reason is the run's error, though the other one is ready."""
    refusal = raising(RayTaskError(ExperimentError("on h2: no bubblewrap")))
    workers = pool(FakeRay(scripts(finishing), scripts(finishing, join=refusal)), wanted=2)
    with pytest.raises(ExperimentError, match="on h2: no bubblewrap"):
        async with workers.opened():
            pytest.fail("it began")


@pytest.mark.usefixtures("no_pauses")
async def test_a_worker_that_dies_before_it_has_joined_is_hired_again():
    """Ray gives a worker to a machine that it does not know yet to be lost: the run begins all the same, with all."""
    dying = scripts(finishing, join=raising(RayError("node died")))
    said = []
    workers = pool(FakeRay(dying, dying, scripts(finishing)), report=said.append)
    async with workers.opened():
        assert (await workers.run(TRIALS[0], 1, None)).is_valid
    assert "worker 2 died before it joined; asking for another: node died" in said
    assert "worker 3 on h has joined" in said


@pytest.mark.usefixtures("no_pauses")
async def test_a_lost_workers_place_is_filled_though_the_next_one_dies_too():
    """A machine falls while another of its workers joins: the run goes on in the one after it."""
    ray = FakeRay(
        scripts(raising(RayError("died"))),
        scripts(finishing, join=raising(RayError("died, too"))),
        scripts(finishing),
    )
    workers = pool(ray)
    async with workers.opened():
        assert not (await workers.run(TRIALS[0], 1, None)).is_valid
        assert (await workers.run(TRIALS[0], 2, None)).is_valid


@pytest.mark.usefixtures("no_pauses")
async def test_workers_that_always_die_end_the_run():
    """No machine can start one: the reason is the run's error, and nobody is hired for ever."""
    ray = FakeRay(scripts(finishing, join=raising(RayError("no such package"))))
    with pytest.raises(ExecutorError, match="worker 3 could not start: no such package"):
        async with pool(ray).opened():
            pytest.fail("it began")
    assert len(ray.killed) == 3


async def test_packages_that_cannot_be_installed_end_the_run():
    """A machine reaches no index: pip's last word and what the machine needs are the error, and nobody tries again."""
    failed = RuntimeEnvSetupError("Failed.\nTraceback\n  ERROR: No matching distribution found for x==1\n")
    ray = FakeRay(scripts(finishing, join=raising(failed)))
    with pytest.raises(ExecutorError, match=r"No matching distribution found for x==1 .*virtualenv"):
        async with pool(ray).opened():
            pytest.fail("it began")
    assert len(ray.killed) == 1


async def test_what_a_worker_could_not_publish_is_an_error_of_the_run():
    """A worker leaves and its last journal stays on its host: the run does not end as if all were well."""
    leave = raising(RayTaskError(RecordingFailed("journal w-1 could not be published")))
    with pytest.raises(RecordingFailed, match="worker 1 on h: journal w-1 could not be published"):
        async with pool(FakeRay(scripts(finishing, leave=leave))).opened():
            pass


async def test_two_drivers_of_one_experiment_exclude_each_other(monkeypatch):
    """The workers of another driver stay: the second run says so and pays for nothing. Other experiments may run."""
    monkeypatch.setattr(ray_pool, "_STRAGGLERS_S", 0.05)
    prefix = ray_pool.prefix_of(ASSIGNMENT)
    with pytest.raises(ExecutorError, match="another driver is running experiment"):
        async with pool(FakeRay(scripts(finishing), names=[f"{prefix}1"])).opened():
            pytest.fail("it began")
    async with pool(FakeRay(scripts(finishing), names=["0123/other/1"])).opened() as _:
        pass


def test_without_ray_the_message_says_what_to_install(tmp_path, monkeypatch):
    """Usage error with the command; nothing is made."""
    monkeypatch.setitem(sys.modules, "ray", None)
    path = write_experiment(tmp_path / "a.toml")
    done = called("run", path, "--store", f"shared:{tmp_path}/shared", "--executor", "ray")
    assert done.returncode == 2
    assert "pip install 'lhaw-record[ray]'" in done.stderr
    assert not (tmp_path / "shared").exists()


def test_a_store_of_one_host_is_refused(tmp_path, monkeypatch):
    """Workers elsewhere could not reach it."""
    monkeypatch.setitem(sys.modules, "ray", object())
    path = write_experiment(tmp_path / "a.toml")
    done = called("run", path, "--store", tmp_path / "store", "--executor", "ray")
    assert done.returncode == 2
    assert "needs a store that every machine can reach" in done.stderr
    assert not (tmp_path / "store").exists()


def test_workers_are_for_a_cluster(tmp_path):
    """``--workers`` without ``--executor ray`` is a usage error, not ignored."""
    done = called("run", write_experiment(tmp_path / "a.toml"), "--workers", "2", "--dry-run")
    assert done.returncode == 2
    assert "--workers needs --executor ray" in done.stderr


@pytest.mark.parametrize(
    ("address", "message"),
    [("127.0.0.1:1", "no Ray cluster answers at 127.0.0.1:1"), ("ray://h:10001", "is the address of a Ray client")],
)
def test_a_cluster_that_is_not_there_is_named(monkeypatch, address, message):
    """An address that nobody listens at is an error at once: Ray itself would try for more than a minute."""
    monkeypatch.setitem(sys.modules, "ray", object())
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ExecutorError, match=message), ray_executor.connected():
        pytest.fail("it connected")
