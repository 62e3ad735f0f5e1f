"""What the tests of the Docker sandbox share: the engine, a provider on it, and what is left of ours there."""

import os

import pytest

from lhaw_record.runners.environments.sandboxes.channel import ControlChannel
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.images import Images
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from tests.support.docker import BASE_IMAGE, docker, engine_address
from tests.support.needs import needs

needs_engine = needs("docker")


@pytest.fixture(autouse=True)
def engine(monkeypatch):
    """Use the engine of the tests; only where a test module imports this."""
    if engine_address():
        monkeypatch.setenv("DOCKER_HOST", engine_address())


async def nobody_else():
    """Say that no other process holds memory."""
    return 0


def make_provider(report=lambda _: None, **image):
    """Return a provider of the base image with room for many; ``report`` takes lines while images are pulled."""
    name = {"name": BASE_IMAGE, **image}
    return DockerSandboxProvider(DockerImage(**name), MemoryBudget(16_000, nobody_else), Images(report))


def own_names(*options):
    """Return the names of this process's containers that the engine has, as its own client sees them.

    Other processes run tests on the same engine, so nothing but this process's own may be counted or killed.
    """
    mine = f"label=lhaw-record.pid={os.getpid()}"
    return docker("ps", "--all", "--format", "{{.Names}}", "--filter", mine, *options).stdout.split()


def kill_first_attempt(monkeypatch, *requests):
    """Kill the container of a first attempt as it is about to get one of these requests; return its name in a list."""
    ask, killed = ControlChannel.ask, []

    async def ask_after_a_kill(channel, *fields, timeout_s):
        if fields[0] in requests and not killed:
            killed.extend(own_names("--filter", "label=lhaw-record.attempt=1"))  # none while the sandbox is checked
            assert not killed or docker("kill", *killed).returncode == 0
        return await ask(channel, *fields, timeout_s=timeout_s)

    monkeypatch.setattr(ControlChannel, "ask", ask_after_a_kill)
    return killed
