"""One trial of a Harbor task: the agent's tools in the task's container, and its rewards as the grade."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import msgspec

from lhaw_record.recorder.events.encoding import valid_text
from lhaw_record.recorder.events.interaction import SandboxLimit
from lhaw_record.runners.base.conversation.messages import ToolDefinition
from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.harbor.compose import Compose
from lhaw_record.runners.environments.benchmarks.harbor.container import (
    NO_NETWORK,
    HarborVerdict,
    TaskContainer,
    agent_phase,
    open_container,
)
from lhaw_record.runners.environments.benchmarks.harbor.images import TaskImages
from lhaw_record.runners.environments.benchmarks.harbor.mcp_servers import SERVER_MB, McpServers
from lhaw_record.runners.environments.benchmarks.harbor.services import open_services, service_memory_mb
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import HarborTask, McpServerTable
from lhaw_record.runners.environments.benchmarks.protocol import (
    Artifact,
    AskJudge,
    CheckpointResult,
    Environment,
    Grade,
    ToolResult,
)
from lhaw_record.runners.environments.benchmarks.workspace_tools import (
    WORKSPACE_TOOLS,
    read_result,
    workspace_call_problem,
)
from lhaw_record.runners.environments.sandboxes.command_output import says_file_limit
from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult
from lhaw_record.runners.environments.sandboxes.docker.program_sandbox import room_of_trial
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from lhaw_record.runners.environments.sandboxes.docker.shell import Phase, new_path
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, ProgramSandbox, SandboxLimits

_BASH, _READ, _WRITE = (each for each in WORKSPACE_TOOLS if each.name != "python")
TOOLS: tuple[ToolDefinition, ...] = (
    msgspec.structs.replace(
        _BASH,
        description="Run a command with bash in the container. Every call starts in the work directory with a new "
        "shell; files and background processes stay. Returns what it prints on standard output and standard error.",
    ),
    _READ,
    _WRITE,
)
_READ_BYTES = 1 << 24
_WATCHED: tuple[SandboxLimit, ...] = ("command_seconds", "memory_mb", "processes", "file_mb")
_TRIES = 3
_PAUSE_S = 10.0


class OraclePass(msgspec.Struct, frozen=True, kw_only=True):
    """What the reference solution of a task showed when it passed.

    Attributes:
        keeps_processes: Whether the tests need what the agent left running, such as a server.
        outlived: Whether something that the tests started outlives them.
    """

    keeps_processes: bool = False
    outlived: bool = False


class ContainerSetup(msgspec.Struct, frozen=True, kw_only=True):
    """How the containers of one task are opened: images by role, limits, networks and services.

    ``verifier_networks`` has the network of separate tests in each step; ``keeps_processes`` says whether what the
    agent left running stays for the tests.
    """

    task: HarborTask
    provider: DockerSandboxProvider
    images: TaskImages
    limits: SandboxLimits
    network: str
    verifier_networks: tuple[str, ...]
    compose: Compose | None = None
    servers: Sequence[McpServerTable] = ()
    keeps_processes: bool = False

    @property
    def has_network(self) -> bool:
        """Whether the agent or the tests have network access."""
        return {self.network, *self.verifier_networks} != {NO_NETWORK}

    @property
    def memory_mb(self) -> int:
        """The total memory of a trial's containers while the agent works, in MiB."""
        return memory_of(self.task, self.compose, self.limits) + SERVER_MB * len(self.servers)

    def within(self, provider: DockerSandboxProvider) -> "ContainerSetup":
        """Return the setup of separate tests. Steps test beside the agent's container, within its memory."""
        return msgspec.structs.replace(self, provider=provider) if self.task.config.steps else self


def memory_of(task: HarborTask, compose: Compose | None, limits: SandboxLimits) -> int:
    """Return the memory of a task's containers while its agent works, in MiB. It includes separate tests of steps."""
    services = compose.services if compose else ()
    own_mb = task.config.environment.total_memory_mb or limits.memory_mb
    tests_mb = tests_memory_mb(task, limits) if task.config.steps else 0
    return own_mb + sum(service_memory_mb(each, limits) for each in services) + tests_mb


def tests_memory_mb(task: HarborTask, limits: SandboxLimits) -> int:
    """Return the memory of the largest container for separate tests, in MiB, or 0."""
    separate = [step.config for step in task.steps if step.config.verifier.is_separate]
    tables = [each.verifier.environment or each.environment for each in separate]
    return max((table.total_memory_mb or limits.memory_mb for table in tables), default=0)


def room_of(
    setup: ContainerSetup, access: ProgramAccess | None = None
) -> AbstractAsyncContextManager[DockerSandboxProvider]:
    """Return the provider with the memory of all containers of a trial, once this machine has it."""
    return room_of_trial(setup.provider, setup.memory_mb, access)


@asynccontextmanager
async def open_task(
    setup: ContainerSetup, provider: DockerSandboxProvider, mounts: Sequence[str] = ()
) -> AsyncIterator[TaskContainer]:
    """Open the agent's container of a task beside its services. Closing it closes them."""
    table, network = setup.task.config.environment, setup.network
    async with AsyncExitStack() as stack:
        beside = None
        if setup.compose is not None:
            outside = "" if network == NO_NETWORK else network
            images, job_s = setup.images.services, table.build_timeout_sec
            services = open_services(provider, setup.compose, images, setup.limits, outside, job_s)
            beside = await stack.enter_async_context(services)
        opened = open_container(provider, setup.images.agent, table, setup.limits, network, mounts, beside)
        container = await stack.enter_async_context(opened)
        if setup.task.config.steps:
            await container.begin(setup.task.steps[0], is_first=True)
        yield container


class Steps:
    """The progress of a trial through the steps of its task. A task without ``[[steps]]`` has one.

    Args:
        setup: The task and how its containers are opened.
        container: The agent's container.
        closing: Closes it.
    """

    def __init__(self, setup: ContainerSetup, container: TaskContainer, closing: AsyncExitStack) -> None:
        self._setup = setup
        self._container = container
        self._closing = closing
        self._steps = setup.task.steps
        self._number = 0
        self._found: list[HarborVerdict] = []

    @property
    def current(self) -> HarborTask:
        """The step that the agent is working on."""
        return self._steps[self._number]

    async def next(self) -> HarborTask | None:
        """Grade the current step and prepare the next one. The last step is not graded here."""
        table = self.current.step
        if table is None or self._number == len(self._steps) - 1:
            return None
        if not table.is_passed((await self._graded()).rewards):
            return None
        self._number += 1
        await self._container.begin(self.current, is_first=False)
        return self.current

    async def verdict(self) -> HarborVerdict:
        """Grade the remaining steps without further work by the agent, and return the rewards of all graded steps."""
        while await self.next() is not None:
            pass
        last = await self._graded()
        if self.current.step is None:
            return last
        pairs = list(zip(self._steps, self._found, strict=False))
        return HarborVerdict(
            left=sum(said.left for _, said in pairs),
            outlived=sum(said.outlived for _, said in pairs),
            detached=sum(said.detached for _, said in pairs),
            rewards={step.checkpoint_of(name): each for step, said in pairs for name, each in said.rewards.items()},
            stdout=b"\n".join(said.stdout for _, said in pairs),
            step_rewards=tuple(said.rewards for _, said in pairs),
        )

    async def _graded(self) -> HarborVerdict:
        if len(self._found) == self._number:
            self._found.append(await verdict(self._setup, self._number, self._container, self._closing))
        return self._found[self._number]


@dataclass(eq=False)
class HarborEnvironment(Environment):
    """The open container of an agent.

    Args:
        setup: The task and how its containers are opened.
        container: The agent's container.
        closing: Closes it before a separate verifier opens its own, so that a trial never holds the memory of both.
        facts: Artifacts that describe the environment.
        sandbox: The sandbox for an agent program in the same container, or None.
        check_solution: Checks that the reference solution passes here, after a time of anyio's clock. None for a task
            without a gate or without a network.
        without_verdict: Returns the grade where the tests give no verdict, or raises. None without a gate.
        skills: The skills of the task, one a line; empty if it has none.
        passed: What the reference solution showed here, or None if it was not tried.
        servers: The MCP servers of the task, or None.
    """

    bounds_its_grading = True

    setup: ContainerSetup
    container: TaskContainer
    closing: AsyncExitStack
    facts: tuple[Artifact, ...] = ()
    sandbox: ProgramSandbox | None = None
    check_solution: Callable[[float], Awaitable[OraclePass]] | None = None
    servers: McpServers | None = None
    passed: OraclePass | None = None
    without_verdict: Callable[[GraderError], Awaitable[Grade]] | None = None
    skills: str = ""

    def __post_init__(self) -> None:
        self.program_tools = self.servers.tools if self.servers else ()
        self.tools = (_with_skills(self.skills), *TOOLS[1:], *self.program_tools)
        self.ask_command = self.setup.task.ask_command
        self._steps = Steps(self.setup, self.container, self.closing)
        self._failed: Grade | None = None

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a workspace tool as the agent's user, or a tool of an MCP server."""
        if self.servers is not None and self.servers.has(name):
            return await self.servers.call(name, arguments)
        problem = workspace_call_problem(TOOLS, name, arguments)
        if problem is not None:
            return ToolResult(text=problem, is_error=True)
        match name:
            case "bash":
                return await self._bash(arguments["command"])
            case "read_file":
                return await self._read(arguments["path"])
            case _:
                return await self._write(arguments["path"], arguments["content"])

    @property
    def _phase(self) -> Phase:
        return msgspec.structs.replace(agent_phase(self._steps.current), timeout_s=self.setup.limits.command_seconds)

    async def next_step(self) -> str | None:
        """Grade the step that the agent handed in, and return the instruction of the next one."""
        try:
            step = await self._steps.next()
        except (GraderError, SandboxBoundaryError) as error:
            self._failed = await self._without_verdict(error)
            return None
        return step.prompt if step else None

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Run the tests in the agent's container, or in a fresh one with its artifacts."""
        del final_answer, ask_judge  # only what is in the container counts
        try:
            grade = self._failed or grade_of(self.setup.task, await self._steps.verdict(), self.passed)
        except (GraderError, SandboxBoundaryError) as error:
            return await self._without_verdict(error)
        if not grade.is_success:
            await self._check_tests()
        return grade

    async def _without_verdict(self, error: GraderError | SandboxBoundaryError) -> Grade:
        """Return the grade of a work whose tests end without a verdict while those of the reference solution do not.

        The work may also have taken all processes, so that nothing can be started beside the tests, or start new ones
        faster than they are ended.
        """
        if isinstance(error, SandboxBoundaryError):
            if error.kind not in ("exec_failed", "exec_undead"):
                raise error
            error = GraderError(f"the tests did not run to the end: {error}", kind=error.kind)
        await self._check_tests()
        if self.without_verdict is None:
            raise error
        await self.closing.aclose()
        return await self.without_verdict(error)

    async def _check_tests(self) -> None:
        """Close the agent's container and check that the tests can still pass."""
        if self.check_solution is None:
            return
        ended = anyio.current_time()
        await self.closing.aclose()
        try:
            await self.check_solution(ended)
        except SandboxBoundaryError as error:
            raise GraderError(f"the agent's grade does not count: {error}", kind=error.kind) from error

    async def _bash(self, command: str) -> ToolResult:
        if "\0" in command:
            return ToolResult(text="a shell command cannot hold a NUL byte", is_error=True)
        limits, output = self.setup.limits, new_path()
        ran = await self.container.bash('bash -c "$1" > "$0" 2>&1 < /dev/null', self._phase, output, command)
        text = await self.container.printed(output, self._phase, limits.output_bytes)
        text = text + (ran.stderr.decode("utf-8", "replace") if ran.exit_code else "")
        note = _note(ran, limits)
        if not note:
            return ToolResult(text=text, limits_watched=_WATCHED)
        separator = "" if not text or text.endswith("\n") else "\n"
        met = _limit_met(ran, text)
        return ToolResult(text=f"{text}{separator}[{note}]", is_error=True, limit_met=met, limits_watched=_WATCHED)

    async def _read(self, path: str) -> ToolResult:
        try:
            content = await self.container.read(path, self._phase, min(_READ_BYTES, self.setup.limits.file_mb << 20))
        except OSError as error:
            return ToolResult(text=f"Cannot read {path}: {error.strerror}.", is_error=True)
        return read_result(path, content)

    async def _write(self, path: str, content: str) -> ToolResult:
        encoded = valid_text(content).encode()
        try:
            await self.container.write(path, encoded, self._phase)
        except OSError as error:
            return ToolResult(text=f"Cannot write {path}: {error.strerror}.", is_error=True)
        return ToolResult(text=f"Wrote {len(encoded)} bytes to {path}.")


def _with_skills(skills: str) -> ToolDefinition:
    """Return the tool that runs commands, with the task's skills in its description; programs find them in folders."""
    told = f"\n\nThe task brings skills. If one applies, read its file first:{skills}" if skills else ""
    return msgspec.structs.replace(TOOLS[0], description=TOOLS[0].description + told)


async def verdict(
    setup: ContainerSetup, number: int, container: TaskContainer, closing: AsyncExitStack
) -> HarborVerdict:
    """Run the tests of a task or step after its agent. If a container of their own breaks, they get another, three in
    all.
    """
    task = setup.task.steps[number]
    await container.collect(task)
    if not task.config.verifier.is_separate:
        try:
            return await container.verify(task, keeps=setup.keeps_processes)
        finally:
            await container.check_services()  # what the tests say of a task without its services does not count
    archives = await container.artifacts(task)
    await container.check_services()
    if not setup.task.config.steps:
        await closing.aclose()
    tries = 1
    while True:
        try:
            return await _verified_apart(setup, number, archives)
        except SandboxBoundaryError as error:
            if tries == _TRIES or not error.is_retry_owed:
                raise
        tries += 1
        await anyio.sleep(_PAUSE_S)


async def _verified_apart(setup: ContainerSetup, number: int, archives: Mapping[str, bytes]) -> HarborVerdict:
    """Return the verdict of the tests in a fresh container with the agent's artifacts."""
    task, image = setup.task.steps[number], setup.images.verifiers[number]
    table = task.config.verifier.environment or task.config.environment
    opened = open_container(setup.provider, image, table, setup.limits, setup.verifier_networks[number])
    async with opened as fresh:
        await fresh.put_artifacts(archives)
        return await fresh.verify(task, has_tests=image != setup.images.agent)


def grade_of(task: HarborTask, found: HarborVerdict, passed: OraclePass | None = None) -> Grade:
    """Return rewards as a grade. It is a success if every reward is at its total.

    With several steps, the final score is Harbor's reward: the mean over all graded steps, or that of the last one. For
    a success it must be at its total, with no step left out.

    A reward that a process of the agent could have written counts as 0: something outlived the tests, and after the
    solution nothing does. Without a solution only what has left the session of the tests is the agent's.
    """
    checkpoints = {each.checkpoint_id: each for each in task.checkpoints}
    steps = task.steps[: len(found.step_rewards) or 1]
    graded = [each for step in steps for each in step.checkpoints]
    names = {each.checkpoint_id for each in graded}
    if set(found.rewards) != names:
        written, declared = (", ".join(sorted(each)) for each in (found.rewards, names))
        raise GraderError(
            f"{task.task_id}: the tests wrote the rewards {written}, but the task declares {declared}; declare them in "
            f"{task.folder / 'checkpoints.toml'} (docs/benchmarks/harbor.md)",
            kind="other_rewards",
            is_retry_owed=False,
        )
    for name, reward in found.rewards.items():
        if reward > checkpoints[name].total:
            raise GraderError(
                f"{task.task_id}: the reward {name} is {reward:g}, above its total of {checkpoints[name].total:g}; "
                f"declare its total in {task.folder / 'checkpoints.toml'} (docs/benchmarks/harbor.md)",
                kind="reward_above_total",
                is_retry_owed=False,
            )
    is_forgeable = bool(found.detached) if passed is None else found.outlived > 0 and not passed.outlived
    results = tuple(_result(name, found.rewards.get(name), task, is_forgeable) for name in checkpoints)
    of_steps = steps[-1:] if task.config.multi_step_reward_strategy == "final" else steps
    counted = [each for step in of_steps for each in step.checkpoints]
    scores = {each.checkpoint_id: each.score for each in results}
    is_full = all(scores[each.checkpoint_id] == each.total for each in counted)
    return Grade(
        results=results,
        is_success=is_full and len(steps) == len(task.steps),
        final_score=sum(scores[each.checkpoint_id] for each in counted) / len(of_steps) if task.config.steps else None,
        final_total=sum(each.total for each in counted) / len(of_steps) if task.config.steps else None,
        artifacts=(
            Artifact.of_json(
                "rewards.json",
                "grading",
                _reported(found, len(of_steps)),
            ),
            Artifact(name="test-stdout.txt", role="grading", media_type="text/plain", content=found.stdout),
        ),
    )


def _reported(found: HarborVerdict, step_count: int) -> dict[str, float]:
    """Return the rewards as Harbor reports them: each by its name, as the mean over the last ``step_count`` steps.

    A step that lacks a reward counts as 0.
    """
    if not found.step_rewards:
        return found.rewards
    steps = found.step_rewards[-step_count:]
    names = dict.fromkeys(name for rewards in steps for name in rewards)
    return {name: sum(rewards.get(name, 0.0) for rewards in steps) / len(steps) for name in names}


def _result(name: str, reward: float | None, task: HarborTask, is_forgeable: bool) -> CheckpointResult:
    if reward is None:
        said = f"an earlier step of {task.task_id} is below its min_reward, so this one did not begin"
        return CheckpointResult(checkpoint_id=name, score=0.0, details=said)
    if is_forgeable:
        said = f"the tests gave {reward:g}, but an agent's process that they started outlived them and could write it"
        return CheckpointResult(checkpoint_id=name, score=0.0, details=f"{said}; counted as 0")
    details = f"the tests gave {reward:g}" + (", counted as 0" if reward < 0 else "")
    return CheckpointResult(checkpoint_id=name, score=max(0.0, reward), details=details)


def _limit_met(ran: ExecResult, printed: str) -> SandboxLimit | None:
    """Return the limit that a command of the agent met, the first of several."""
    met: dict[SandboxLimit, bool] = {
        "command_seconds": ran.is_timeout,
        "memory_mb": ran.is_out_of_memory,
        "processes": ran.is_out_of_processes,
        "file_mb": says_file_limit(ran.exit_code, printed),
    }
    return next((name for name, is_met in met.items() if is_met), None)


def _note(ran: ExecResult, limits: SandboxLimits) -> str:
    """Return what the agent is told about the end of its command; empty if it succeeded."""
    notes = []
    if ran.is_timeout:
        notes.append(f"stopped after {limits.command_seconds:g} s")
    elif ran.exit_code:
        notes.append(f"exit code {ran.exit_code}")
    if ran.is_out_of_memory:
        notes.append("a process was killed for lack of memory")
    if ran.is_out_of_processes:
        notes.append("a process could not start: there are too many")
    return "; ".join(notes)
