"""Tests in a container of their own, on containers that break."""

from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.harbor import environment, read_task
from lhaw_record.runners.environments.benchmarks.harbor.container import HarborVerdict
from lhaw_record.runners.environments.benchmarks.harbor.environment import ContainerSetup, verdict
from lhaw_record.runners.environments.benchmarks.harbor.images import TaskImages
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task

ARTIFACTS = {"/srv/out": b"archive"}
AWAY = SandboxBoundaryError("the engine is away", kind="engine_away")
UNFIT = SandboxBoundaryError("no bash", kind="image_unfit", is_retry_owed=False)


class ScriptedContainer:
    """A container whose tests say that they got the artifacts, or that breaks."""

    def __init__(self, error=None):
        """Take the error that its tests end with."""
        self.error, self.got = error, None

    async def collect(self, task):
        """Run no hook."""

    async def artifacts(self, task):
        """Return the artifacts of the agent."""
        return ARTIFACTS

    async def check_services(self):
        """Have none."""

    async def put_artifacts(self, archives):
        """Take the artifacts of the agent."""
        self.got = archives

    async def verify(self, task, *, has_tests):
        """Return a reward for the artifacts."""
        if self.error is not None:
            raise self.error
        return HarborVerdict(rewards={"reward": float(self.got == ARTIFACTS)}, stdout=b"")


@pytest.fixture
def verified(tmp_path, monkeypatch):
    """Return how to run tests whose containers break with these errors, one after the other."""
    config = f'{CONFIG}[verifier]\nenvironment_mode = "separate"\n'
    task = read_task(write_task(tmp_path / "hello", config=config))
    monkeypatch.setattr(environment, "_PAUSE_S", 0.0)

    async def run(*errors):
        opened = [ScriptedContainer(error) for error in errors]

        @asynccontextmanager
        async def open_container(*how):
            yield opened.pop(0)

        monkeypatch.setattr(environment, "open_container", open_container)
        setup = ContainerSetup(
            task=task,
            provider=None,
            images=TaskImages(agent="a", verifiers=("v",), ids={}),
            limits=SandboxLimits(),
            network="none",
            verifier_networks=("none",),
        )
        return (await verdict(setup, 0, ScriptedContainer(), AsyncExitStack())).rewards

    return run


async def test_a_broken_container_of_the_tests_loses_no_trial(verified):
    """The agent's artifacts are kept for another container."""
    assert await verified(AWAY, AWAY, None) == {"reward": 1.0}


@pytest.mark.parametrize("errors", [(AWAY, AWAY, AWAY), (UNFIT,)], ids=["away", "unfit"])
async def test_what_does_not_mend_is_reported(verified, errors):
    """After three containers, or at once where another would break in the same way."""
    with pytest.raises(SandboxBoundaryError) as raised:
        await verified(*errors)
    assert raised.value is errors[-1]
