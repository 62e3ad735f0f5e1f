"""The images of a task: pulled by name, or built from its folder once for each content."""

from pathlib import Path

import msgspec

from recorder.events.canonical_json import digest
from runners.benchmarks.harbor.task_folder import EnvironmentTable, HarborTask, file_digests
from runners.sandboxes.docker.engine import connected
from runners.sandboxes.docker.images import Images

_BUILT = "lhaw-record/harbor"


class TaskImages(msgspec.Struct, frozen=True, kw_only=True):
    """The images of the agent's container and of the tests' container. They differ only for separate verifiers."""

    agent: str
    verifier: str
    agent_id: str
    verifier_id: str


async def ensure_images(images: Images, task: HarborTask, build_network: str) -> TaskImages:
    """Return the images of a task, pulled or built if the engine lacks them.

    Raises:
        SandboxBoundaryError: An image cannot be pulled or built. The trial is not retried for a build.
    """
    config = task.config
    agent = await _ensure(images, config.environment, task.folder / "environment", build_network)
    verifier = agent
    if config.verifier.is_separate and _has_own_tests(task):
        table = config.verifier.environment or EnvironmentTable()
        verifier = await _ensure(images, table, task.folder / "tests", build_network)
    async with connected() as docker:
        agent_id, verifier_id = [(await images.ensure(docker, name))["Id"] for name in (agent, verifier)]
    return TaskImages(agent=agent, verifier=verifier, agent_id=agent_id, verifier_id=verifier_id)


def definitions(task: HarborTask) -> TaskImages:
    """Return what the harbor package makes the images of a task from: the folders by role, and their content."""
    agent = verifier = task.folder / "environment"
    if task.config.verifier.is_separate and _has_own_tests(task):
        verifier = task.folder / "tests"
    ids = [digest(file_digests(task.folder, (each.name,))) for each in (agent, verifier)]
    return TaskImages(agent=str(agent), verifier=str(verifier), agent_id=ids[0], verifier_id=ids[1])


def _has_own_tests(task: HarborTask) -> bool:
    """Return whether a separate verifier has an image of its own."""
    table = task.config.verifier.environment
    return bool(table and table.docker_image) or (task.folder / "tests" / "Dockerfile").is_file()


async def _ensure(images: Images, table: EnvironmentTable, folder: Path, build_network: str) -> str:
    """Return the name of an image that the engine has."""
    async with connected() as docker:
        if table.docker_image:
            await images.ensure(docker, table.docker_image)
            return table.docker_image
        content = digest(file_digests(folder.parent, (folder.name,)))
        name = f"{_BUILT}:{content[:24]}"
        await images.build(docker, folder, name, timeout_s=table.build_timeout_sec, network=build_network)
        return name
