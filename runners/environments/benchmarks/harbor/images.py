"""The images of a task: pulled by name, or built from its folder once for each content."""

from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.runners.base.errors import SandboxUnfit
from lhaw_record.runners.environments.benchmarks.harbor.compose import (
    COMPOSE,
    MAIN,
    MAIN_IMAGE,
    Build,
    Compose,
    Service,
)
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import (
    EnvironmentTable,
    HarborTask,
    file_digests,
    has_dockerfile,
)
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.images import Images

_BUILT = "lhaw-record/harbor"


class TaskImages(msgspec.Struct, frozen=True, kw_only=True):
    """The images of a task.

    Attributes:
        agent: The image of the agent's container.
        verifiers: The image of the tests' container in each step. It differs only for separate verifiers.
        services: The image of each service beside the agent.
        ids: The engine's id of each of these images.
    """

    agent: str
    verifiers: tuple[str, ...]
    services: dict[str, str] = {}
    ids: dict[str, str]


async def ensure_images(
    images: Images, task: HarborTask, build_network: str, compose: Compose | None = None
) -> TaskImages:
    """Return the images of a task, pulled or built if the engine lacks them."""
    config, folder = task.config, task.folder
    how = {"timeout_s": config.environment.build_timeout_sec, "network": build_network}
    main = compose.main if compose else Service(name=MAIN)
    is_named = config.environment.docker_image or not (main.build or has_dockerfile(task))
    name = (main.image or config.environment.docker_image) if is_named else None
    agent = await _ensure(images, name, main.build or Build(context=folder / "environment"), main.is_pulled, how)
    verifiers = []
    for step in task.steps:
        table = step.config.verifier.environment or EnvironmentTable()
        how_tests = {**how, "timeout_s": table.build_timeout_sec}
        build = Build(context=step.tests_folder) if step.tests_folder else None
        has_own = step.has_tests_image
        verifiers.append(await _ensure(images, table.docker_image, build, True, how_tests) if has_own else agent)
    tags = {MAIN_IMAGE: agent, **({main.image: agent} if main.image else {})}
    services: dict[str, str] = {}
    for each in sorted(compose.services if compose else (), key=lambda each: each.build is None):
        name = None if each.build else tags.get(each.image, each.image)
        services[each.name] = await _ensure(images, name, each.build, each.is_pulled, how)
        tags |= {each.image: services[each.name]} if each.build and each.image else {}
    async with connected() as docker:
        ids = {each: (await images.ensure(docker, each))["Id"] for each in {agent, *verifiers, *services.values()}}
    return TaskImages(agent=agent, verifiers=tuple(verifiers), services=services, ids=ids)


async def _ensure(images: Images, name: str | None, build: Build | None, is_pulled: bool, how: dict[str, Any]) -> str:
    """Return the name of an image that the engine has: a named one, or one that is built."""
    async with connected() as docker:
        if name:
            if not is_pulled and not await images.has(docker, name):
                raise SandboxUnfit(
                    f"the engine has no image {name}, and {COMPOSE} says pull_policy: never; build or load it there as "
                    f"the dataset says (docker build -t {name} …, docker load)",
                    kind="image_missing",
                )
            await images.ensure(docker, name)
            return name
        assert build is not None
        choices = {} if build.dockerfile == "Dockerfile" else {"dockerfile": build.dockerfile}
        choices |= {"target": build.target} if build.target else {}
        choices |= {"buildargs": canonical_json(build.args).decode()} if build.args else {}
        content = digest({**file_digests(build.context.parent, (build.context.name,)), **choices})
        built = f"{_BUILT}:{content[:24]}"
        await images.build(docker, build.context, built, **how, choices=choices)
        return built
