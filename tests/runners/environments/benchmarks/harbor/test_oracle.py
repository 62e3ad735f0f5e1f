"""The gate: how long a pass of the reference solution counts, with verdicts in place of containers."""

from contextlib import AsyncExitStack
from functools import partial

import pytest

from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.harbor import environment, oracle, read_task
from lhaw_record.runners.environments.benchmarks.harbor.container import HarborVerdict
from lhaw_record.runners.environments.benchmarks.harbor.environment import ContainerSetup, HarborEnvironment
from lhaw_record.runners.environments.benchmarks.harbor.images import TaskImages
from lhaw_record.runners.environments.benchmarks.harbor.oracle import OracleGate, oracle_of
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from tests.runners.environments.benchmarks.harbor.folders import write_task

IMAGES = TaskImages(agent="a", verifiers=("v",), ids={"a": "1", "v": "2"})


def reward(value):
    """Return the verdict of a task with one reward."""
    return HarborVerdict(rewards={"reward": value}, stdout=b"")


@pytest.fixture
def solved(monkeypatch):
    """Return the rewards that the solution gets, one for each time that it runs."""
    rewards = []

    async def verdict(setup, words, keeps):
        assert (words, keeps) == ({}, False)
        return reward(rewards.pop(0))

    monkeypatch.setattr(oracle, "_verdict", verdict)
    return rewards


@pytest.fixture
def setup_in(tmp_path):
    """Return how to set a task up in a network of the engine."""
    task = read_task(write_task(tmp_path / "hello"))

    def make(network, images=IMAGES):
        return ContainerSetup(
            task=task,
            provider=None,
            images=images,
            limits=SandboxLimits(),
            network=network,
            verifier_networks=(network,),
        )

    return make


async def test_a_pass_without_a_network_is_remembered_for_its_images(tmp_path, solved, setup_in):
    """Another run does not run the solution, and one with another image of the tests does."""
    solved.extend([1.0, 1.0])
    await OracleGate(tmp_path / "passes").pass_through(oracle_of(setup_in("none")))
    later = OracleGate(tmp_path / "passes")
    await later.pass_through(oracle_of(setup_in("none")))
    assert solved == [1.0]
    (remembered,) = (tmp_path / "passes").iterdir()
    remembered.write_bytes(b"")  # as after a full disk: not known
    solved.append(1.0)
    await OracleGate(tmp_path / "passes").pass_through(oracle_of(setup_in("none")))
    assert solved == [1.0]
    rebuilt = TaskImages(agent="a", verifiers=("v",), ids={"a": "1", "v": "3"})
    await OracleGate(tmp_path / "passes").pass_through(oracle_of(setup_in("none", rebuilt)))
    assert solved == []


async def test_a_pass_in_a_network_counts_for_its_run(tmp_path, solved, setup_in):
    """Trials of the run begin without another; the next run has its own, and remembers a failure."""
    solved.extend([1.0, 0.0])
    gate = OracleGate(tmp_path / "passes")
    for _ in range(2):
        await gate.pass_through(oracle_of(setup_in("bridge")))
    assert solved == [0.0]
    gate = OracleGate(tmp_path / "passes")
    for _ in range(2):
        with pytest.raises(SandboxBoundaryError, match="does not pass here"):
            await gate.pass_through(oracle_of(setup_in("bridge")))


@pytest.fixture
def graded(tmp_path, monkeypatch, solved, setup_in):
    """Return how to grade a trial of a task with a network, whose tests say this."""
    setup, gate = setup_in("bridge"), OracleGate(tmp_path / "passes")

    async def grade(said):
        async def verdict(setup, task, container, closing):
            if isinstance(said, GraderError):
                raise said
            return said

        monkeypatch.setattr(environment, "verdict", verdict)
        await gate.pass_through(oracle_of(setup))
        check = partial(gate.pass_through, oracle_of(setup))
        return await HarborEnvironment(setup, None, AsyncExitStack(), check_solution=check).grade("", None)

    return grade


async def test_a_failed_trial_counts_while_the_solution_passes(graded, solved):
    """The solution runs again after a trial that failed, and not after a success."""
    solved.extend([1.0, 1.0, 1.0])
    assert (await graded(reward(1.0))).is_success
    assert solved == [1.0, 1.0]
    assert not (await graded(reward(0.0))).is_success
    with pytest.raises(GraderError) as raised:
        await graded(GraderError("no file", kind="no_reward", is_retry_owed=False))
    assert (raised.value.kind, solved) == ("no_reward", [])


@pytest.mark.parametrize("said", [reward(0.0), GraderError("no file", kind="no_reward", is_retry_owed=False)])
async def test_no_trial_fails_because_the_internet_is_away(graded, solved, said):
    """It is missing data, and the task goes on once its solution passes again."""
    solved.extend([1.0, 0.0, 0.0, 1.0])
    with pytest.raises(GraderError) as raised:
        await graded(said)
    assert (raised.value.kind, raised.value.is_retry_owed) == ("oracle_fails", True)
    with pytest.raises(SandboxBoundaryError):
        await graded(said)
    assert (await graded(reward(1.0))).is_success
