"""The tests of a task in its container, with a machine that says how each command ended."""

import pytest

from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.benchmarks.harbor import read_task
from lhaw_record.runners.environments.benchmarks.harbor.container import TaskContainer
from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult
from lhaw_record.runners.environments.sandboxes.docker.machine import MachineUsage
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task
from tests.support.machine_limits import ENDINGS, FLAGS

ENDED = {"exit_code": 0, "stdout": b"said", "stderr": b""}
FREE, FULL = MachineUsage(memory=0.1, processes=0.1), MachineUsage(memory=0.7, processes=0.7)


class ScriptedMachine:
    """A machine whose commands end well, but for what a test says of one that holds some words."""

    def __init__(self, reward, left, words, **ended):
        """Take the reward file, what is in use before the tests, and how a command with some words ends."""
        self.reward, self.usages, self.words, self.ended = reward, [FREE, left], words, ended

    async def usage(self):
        """Return how much is in use: at the start, then before the tests."""
        return self.usages.pop(0)

    async def run(self, argv, **options):
        """Return how a command ended."""
        return ExecResult(**{**ENDED, **(self.ended if self.words in argv[2] else {})})

    async def put_back(self, folder, archive):
        """Keep nothing."""

    async def get(self, path, limits):
        """Return the reward file."""
        if self.reward is None or path != "/logs/verifier/reward.txt":
            raise FileNotFoundError(path)
        return {"reward.txt": self.reward}


async def verified(tmp_path, *machine, config=CONFIG, **ended):
    """Return the rewards after tests on a scripted machine."""
    task = read_task(write_task(tmp_path / "hello", config=config))
    container = TaskContainer(ScriptedMachine(*machine, **ended), task.config.environment)
    await container.prepare()
    return (await container.verify(task)).rewards


TESTS = "(/tests/test.sh)"
FAILING = [
    ((None, FREE, TESTS), {}, "no_reward"),
    ((b"0", FREE, TESTS), {"exit_code": None, "is_timeout": True}, "verifier_timeout"),
    ((b"0", FREE, TESTS), {"is_out_of_memory": True}, "out_of_memory"),
    ((b"0", FREE, TESTS), {"is_out_of_processes": True}, "out_of_processes"),
    ((b"1", FREE, "chmod +x"), {"exit_code": 1}, "tests_not_prepared"),
]


@pytest.mark.parametrize(("machine", "ended", "kind"), FAILING, ids=[kind for *_, kind in FAILING])
async def test_tests_that_could_not_judge_are_missing_data(tmp_path, machine, ended, kind):
    """No other attempt is owed: only solutions that fail would get one."""
    with pytest.raises(GraderError) as raised:
        await verified(tmp_path, *machine, **ended)
    assert (raised.value.kind, raised.value.is_retry_owed) == (kind, False)


@pytest.mark.parametrize("ending", [ENDINGS[flag] for flag in FLAGS], ids=FLAGS)
async def test_tests_at_a_limit_of_their_machine_are_missing_data(tmp_path, ending):
    """Every limit that a result can tell of, whatever reward was left."""
    with pytest.raises(GraderError):
        await verified(tmp_path, b"0", FREE, TESTS, **ending)


@pytest.mark.parametrize("limit", [flag for flag in FLAGS if flag != "is_timeout"])
async def test_a_limit_that_the_agent_used_up_is_the_agents(tmp_path, limit):
    """The rewards count where what it left running took most of the limit."""
    assert await verified(tmp_path, b"0", FULL, TESTS, **{limit: True}) == {"reward": 0.0}


async def test_memory_that_a_task_sets_is_part_of_the_task(tmp_path):
    """A solution that needs more fails, as in Harbor."""
    config = f"{CONFIG}memory_mb = 100\n"
    assert await verified(tmp_path, b"0", FREE, TESTS, config=config, is_out_of_memory=True) == {"reward": 0.0}
