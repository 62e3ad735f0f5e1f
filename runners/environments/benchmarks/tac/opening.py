"""Open a task's container in order: services healthy, init script run, evaluator hidden, prompt in place."""

import posixpath
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Literal

import msgspec

from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.base.errors import SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.refusals import docker_of
from lhaw_record.runners.environments.benchmarks.tac import model_route
from lhaw_record.runners.environments.benchmarks.tac.browser import Browser, open_browser
from lhaw_record.runners.environments.benchmarks.tac.company import CONTROL, Company, open_company, turn
from lhaw_record.runners.environments.benchmarks.tac.environment import TacEnvironment, last_words, take_out
from lhaw_record.runners.environments.benchmarks.tac.folders import PublishedTask
from lhaw_record.runners.environments.benchmarks.tac.options import TacOptions
from lhaw_record.runners.environments.sandboxes.docker.config import CAPABILITY_NUMBERS
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.program_sandbox import open_program_sandbox, room_of_trial
from lhaw_record.runners.environments.sandboxes.docker.shell import MachineShell

_READ_S = 60.0
_SETUP: tuple[Literal["NET_RAW"], ...] = ("NET_RAW",)  # the published init script finds the company with ping


def memory_mb(options: TacOptions, services: Sequence[str], sandbox_mb: int, *, has_model: bool) -> int:
    """Return the total memory of a trial's containers, in MiB: agent, browser, company, and model route."""
    parts = [sandbox_mb, options.browser.memory_mb if options.browser else 0]
    if services:
        parts.append(CONTROL.memory_mb)
    if services and not options.services_host:
        parts += [options.services[name].total_memory_mb for name in services]
    if has_model and not options.asks_directly:
        parts.append(model_route.LIMITS.memory_mb)
    return sum(parts)


class CompanyOpening(msgspec.Struct, frozen=True):
    """Opens one trial's container.

    Args:
        task: The task.
        published: The task's published folder.
        options: The options of the benchmark.
        model: The environment variables that tell the evaluator about its model.
        prompt: The prompt for the agent.
    """

    task: Task
    published: PublishedTask
    options: TacOptions
    model: Mapping[str, str]
    prompt: str

    @asynccontextmanager
    async def open(self, settings: EnvironmentSettings) -> AsyncIterator[TacEnvironment]:
        """Open the container and the company that it uses. Closing leaves nothing behind."""
        provider, services, options = docker_of(settings, "tac"), self.published.services, self.options
        image = options.image_of(self.task.task_id)
        async with connected() as docker:
            image_ids = {name: (await provider.images.ensure(docker, name))["Id"] for name in self._images}
        total_mb = memory_mb(options, services, settings.limits.memory_mb, has_model=bool(self.model))
        access = settings.access
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(turn(options.services_host if services else ""))
            provider = await stack.enter_async_context(room_of_trial(provider, total_mb, access))
            room = provider.room
            company = await stack.enter_async_context(open_company(options, services, image, room, provider.images))
            agents = provider.with_image(
                name=image,
                work_dir=options.work_dir,
                is_own_machine=True,
                network=company.network,
                setup_capabilities=_SETUP,
                shared_folders=(options.work_dir,) if options.browser else (),
            )
            sandbox = await stack.enter_async_context(agents.open(None, settings.limits, access))
            hidden = await self._initialised(sandbox.machine, company)
            browser = None
            if options.browser:
                browser = await stack.enter_async_context(
                    open_browser(options.browser, options.work_dir, room, sandbox.machine, settings)
                )
            program_sandbox = None
            if access is not None:
                shell = MachineShell(sandbox.machine, options.work_dir, {})
                dropped = [CAPABILITY_NUMBERS[name] for name in _SETUP]
                opened = open_program_sandbox(
                    agents, shell, settings.limits, access, user="0", dropped_capabilities=dropped
                )
                program_sandbox = await stack.enter_async_context(opened)
            yield TacEnvironment(
                task=self.task,
                options=options,
                own_sandbox=sandbox,
                sandbox=program_sandbox,
                company=company,
                browser=browser,
                room=room,
                variables=self.model,
                hidden=hidden,
                usage_at_start=await sandbox.machine.usage(),
                prompt=self.prompt,
                facts=(self._facts(image_ids, company, browser),),
                closing=stack,
                another=partial(self.open, msgspec.structs.replace(settings, access=None)),
            )

    @property
    def _images(self) -> tuple[str, ...]:
        browser = self.options.browser
        return (self.options.image_of(self.task.task_id), *((browser.image,) if browser else ()))

    def _facts(self, image_ids: Mapping[str, str], company: Company, browser: Browser | None) -> Artifact:
        """Return an artifact that records which images a trial used."""
        own, *others = ({"name": name, "id": image_ids[name]} for name in self._images)
        described: dict[str, Any] = {"image": own, "server": company.server, "services": dict(company.images)}
        if browser is not None:
            tools = [tool.name for tool in browser.tools]
            described["browser"] = {**others[0], "server": browser.server, "tools": tools}
        return Artifact.of_json("images.json", "environment", described)

    async def _initialised(self, machine: DockerMachine, company: Company) -> dict[str, bytes]:
        """Run the init script, check the services, remove the evaluator, write the prompt.

        Returns the removed folders as archives, by path.
        """
        options = self.options
        await self._check_instruction(machine)
        # Only simulated colleagues need the model here, and the agent can read their processes' environment.
        model = self.model if self.published.colleagues else {}
        result = await machine.run(
            options.init,
            timeout_s=options.init_seconds,
            user="0",
            work_dir=options.work_dir,
            environment={"SERVER_HOSTNAME": company.server, **model},
        )
        if result.exit_code != 0:
            how = f"took over {options.init_seconds:g} s" if result.is_timeout else f"ended with {result.exit_code}"
            raise SandboxBoundaryError(
                f"{' '.join(options.init)} of {self.task.task_id} {how}; {last_words(result)}", kind="init_failed"
            )
        await company.check(machine, options.health_seconds)
        hidden = await take_out(machine, options.hidden)
        folder, name = posixpath.split(options.instruction)
        await machine.put(folder, {name: self.prompt.encode()})
        return hidden

    async def _check_instruction(self, machine: DockerMachine) -> None:
        """Check that the image's instruction equals the folder's prompt.

        Otherwise variants would belong to another task.
        """
        result = await machine.run(["cat", self.options.instruction], timeout_s=_READ_S, user="0", work_dir="/")
        words = result.stdout.decode(errors="replace").split()
        if result.exit_code != 0 or words != self.task.prompt.split():
            raise SandboxUnfit(
                f"{self.options.instruction} of the image is not the task.md of the folder {self.task.task_id}; use "
                f"folders and images of one release",
                kind="other_task",
            )
