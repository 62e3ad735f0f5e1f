"""Task folders without Docker: the agent works in the experiment's sandbox, on this machine's own system.

It serves tasks whose Dockerfile only places files: a base, a work directory, and what is copied into it. Whatever else
needs the image refuses the task by name. The tests run in a fresh sandbox with what the agent left in the work
directory.
"""

import posixpath
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any

import anyio.to_thread
import msgspec

from recorder.events.canonical_json import canonical_json, digest
from runners.benchmarks.harbor.container import Verdict, agent_phase, grader_error
from runners.benchmarks.harbor.environment import grade_of
from runners.benchmarks.harbor.oracle import Oracle
from runners.benchmarks.harbor.rewards import REWARD_JSON, REWARD_TEXT, NoReward, read_rewards
from runners.benchmarks.harbor.task_folder import CONFIG, HarborTask, file_digests, resolved
from runners.benchmarks.protocol import Artifact, AskJudge, Environment, EnvironmentSettings, Grade, ToolResult
from runners.benchmarks.workspace_tools import WORKSPACE_TOOLS, call_workspace_tool
from runners.errors import SandboxBoundaryError
from runners.host.scratch import scratch_folder
from runners.sandboxes.local.isolated import IsolatedSandboxProvider
from runners.sandboxes.local.layout import HOME, WORK_DIR, Extra
from runners.sandboxes.protocol import Sandbox, SandboxLimits

_DOCKERFILE = "environment/Dockerfile"
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "proc", "dev", "sys", "tmp")
_OURS = ("/opt/agent", HOME, "/logs", "/tests", "/solution")
_REWARDS = tuple(f"/logs/verifier/{name}" for name in (REWARD_TEXT, REWARD_JSON))
_LEAST_TESTS_MB, _TESTS_PROCESSES = 4096, 512  # the tests are not the agent: its limits must not decide a grade
_OS_RELEASE = Path("/etc/os-release")


class NeedsImage(Exception):
    """A task cannot run without its image; the message names the key or the line."""


class Placed(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a task: ``copies`` maps paths below its work directory to files of its folder."""

    work_dir: str
    copies: Mapping[str, Path]

    @property
    def links(self) -> dict[str, str]:
        """The task's own name of the work directory."""
        return {} if self.work_dir == WORK_DIR else {self.work_dir: WORK_DIR}


def placed(task: HarborTask) -> Placed:
    """Return where the files of a task are.

    Raises:
        NeedsImage: The task cannot run without its image.
    """
    for key in _needs(task):
        raise NeedsImage(f"{CONFIG}: {key} needs Docker")
    work_dir, copies = PurePosixPath("/"), dict[str, Path]()
    for place, instruction, words in _instructions(task.folder / _DOCKERFILE):
        is_plain = not any(set(word) & set("*?[$\"'") or word.startswith("--") for word in words)
        if instruction == "WORKDIR" and len(words) == 1 and is_plain:
            work_dir = work_dir / words[0]
        elif instruction == "COPY" and len(words) > 1 and is_plain:
            copies |= dict(_copies(task, words[:-1], work_dir, words[-1], place))
        elif instruction not in ("FROM", "LABEL"):
            said = " ".join((instruction, *words))[:60]
            raise NeedsImage(f"{place}: {said!r} needs Docker; without it there are FROM, WORKDIR and plain COPY")
    root = _normal(work_dir / (task.config.environment.workdir or ""))
    if root.parts[1:2] in ((), *((name,) for name in _SYSTEM)) or any(map(root.is_relative_to, _OURS)):
        raise NeedsImage(f"the work directory is {root}; without Docker it must be one of its own, such as /app")
    outside = next((path for path in copies if not PurePosixPath(path).is_relative_to(root)), None)
    if outside is not None:
        raise NeedsImage(
            f"{_DOCKERFILE} copies to {outside}, which is not in the work directory {root} and needs Docker"
        )
    inner = {PurePosixPath(path).relative_to(root).as_posix(): source for path, source in copies.items()}
    return Placed(work_dir=str(root), copies=inner)


def refusal_of_host(task: HarborTask) -> str | None:
    """Return why a task cannot run without Docker, or None if it can."""
    try:
        placed(task)
    except NeedsImage as error:
        return str(error)
    return None


class HostEnvironment(Environment):
    """The open sandbox of an agent.

    Args:
        task: The task.
        sandbox: The agent's sandbox.
        test: Runs the tests on the files of a folder, which it may change.
        facts: Artifacts that describe the environment.
    """

    tools = WORKSPACE_TOOLS
    bounds_its_grading = True
    sandbox: Sandbox

    def __init__(
        self,
        task: HarborTask,
        sandbox: Sandbox,
        test: Callable[[Path], Awaitable[Verdict]],
        facts: tuple[Artifact, ...],
    ) -> None:
        self.sandbox = sandbox
        self.facts = facts
        self._task = task
        self._test = test

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a workspace tool in the sandbox.

        Raises:
            SandboxBoundaryError: The sandbox failed.
        """
        return await call_workspace_tool(self.sandbox, name, arguments)

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Run the tests in a fresh sandbox with the files of the work directory.

        Raises:
            GraderError: The tests were stopped, left no usable reward, or other rewards than the task declares.
            SandboxBoundaryError: A sandbox broke.
        """
        del final_answer, ask_judge  # only what is in the work directory counts
        with scratch_folder() as files:
            await self.sandbox.export(files)
            return grade_of(self._task, await self._test(files))


class Host:
    """Opens the sandboxes of tasks on this machine's own system.

    Args:
        provider: The experiment's sandboxes.
        limits: Their limits.
    """

    def __init__(self, provider: IsolatedSandboxProvider, limits: SandboxLimits) -> None:
        self._provider = provider
        self._limits = limits

    @asynccontextmanager
    async def open(
        self, task: HarborTask, settings: EnvironmentSettings, oracle_passed: bool
    ) -> AsyncIterator[Environment]:
        """Open the sandbox of an agent.

        Raises:
            SandboxBoundaryError: It does not start.
        """
        facts = {"system": _system(), "oracle_passed": oracle_passed}
        artifact = Artifact(
            name="environment.json", role="environment", media_type="application/json", content=canonical_json(facts)
        )
        extra = Extra(links=placed(task).links)
        _check_mounts(extra, settings)
        with scratch_folder() as files:
            await anyio.to_thread.run_sync(_place, task, files)
            async with self._provider.open(files, self._limits, settings.way, extra) as sandbox:
                yield HostEnvironment(task, sandbox, lambda left: self._verdict(task, left), (artifact,))

    def oracle(self, task: HarborTask) -> Oracle:
        """Return how the reference solution of a task is tried."""
        names = ("task.toml", "checkpoints.toml", "environment", "tests", "solution")
        limits = {"memory_mb": self._limits.memory_mb, "processes": self._limits.processes}
        key = digest({"files": file_digests(task.folder, names), "system": _system(), **limits})

        async def verdict(solves: bool) -> Verdict:
            with scratch_folder() as files, scratch_folder() as solved:
                await anyio.to_thread.run_sync(_place, task, files)
                if solves:
                    await self._solve(task, files, solved)
                return await self._verdict(task, solved if solves else files)

        return Oracle(task=task, key=key, has_network=False, verdict=verdict)

    async def _solve(self, task: HarborTask, files: Path, solved: Path) -> None:
        """Run the reference solution on the files of a folder, into another one. Its exit code does not matter."""
        variables = {**resolved(task.config.solution.env), "DEBIAN_FRONTEND": "noninteractive"}
        limits = msgspec.structs.replace(self._limits, command_seconds=agent_phase(task).timeout_s)
        async with self._with(task, files, limits, "solution") as sandbox:
            await sandbox.run_bash(_script("/solution/solve.sh", "/logs/agent/oracle.txt", variables))
            await sandbox.export(solved)

    async def _verdict(self, task: HarborTask, files: Path) -> Verdict:
        """Run the tests on the files of a folder.

        Raises:
            GraderError: They were stopped, or left no usable reward.
            SandboxBoundaryError: The sandbox broke.
        """
        verifier = task.config.verifier
        limits = msgspec.structs.replace(
            self._limits,
            memory_mb=max(self._limits.memory_mb, task.config.environment.total_memory_mb or 0, _LEAST_TESTS_MB),
            processes=max(self._limits.processes, _TESTS_PROCESSES),
            command_seconds=verifier.timeout_sec,
        )
        async with self._with(task, files, limits, "tests") as sandbox:
            printed = "/logs/verifier/test-stdout.txt"
            ran = await sandbox.run_bash(_script("/tests/test.sh", printed, resolved(verifier.env)))
            if ran.is_timeout:
                what = f"the tests were stopped after {verifier.timeout_sec:g} s"
                raise grader_error(task, what, "verifier_timeout", ran.output.encode())
            stdout = await _read(sandbox, printed) or ran.output.encode()
            found = {PurePosixPath(path).name: await _read(sandbox, path) for path in _REWARDS}
        try:
            rewards = read_rewards({name: content for name, content in found.items() if content is not None})
        except NoReward as error:
            raise grader_error(task, str(error), error.kind, stdout) from error
        return Verdict(rewards=rewards, stdout=stdout)

    @asynccontextmanager
    async def _with(self, task: HarborTask, files: Path, limits: SandboxLimits, part: str) -> AsyncIterator[Sandbox]:
        """Open a sandbox on the files of a folder, with a part of the task, such as its tests, and ``/logs``."""
        with scratch_folder() as shown:
            await anyio.to_thread.run_sync(_readable_copy, task.folder / part, shown)
            links = placed(task).links
            extra = Extra(links=links, shown={f"/{part}": str(shown)}, writable=("/logs",))
            async with self._provider.open(files, limits, None, extra) as sandbox:
                yield sandbox


def host_of(settings: EnvironmentSettings) -> Host:
    """Return the host of an experiment's sandboxes.

    Raises:
        SandboxBoundaryError: They cannot show the tests at their path. The trial is not retried.
    """
    if not isinstance(settings.sandbox, IsolatedSandboxProvider):
        raise SandboxBoundaryError(
            f"harbor tasks without Docker need bubblewrap or namespaces, not {settings.sandbox.kind}: only an isolated "
            "sandbox has their tests at /tests",
            kind="needs_isolation",
            is_retry_owed=False,
        )
    return Host(settings.sandbox, settings.limits)


def _check_mounts(extra: Extra, settings: EnvironmentSettings) -> None:
    """Refuse a program that has folders of this machine below the task's work directory.

    Raises:
        SandboxBoundaryError: It has.
    """
    for mount in settings.way.mounts if settings.way else ():
        for work_dir in extra.links:
            if PurePosixPath(mount).is_relative_to(work_dir):
                raise SandboxBoundaryError(
                    f"the program needs {mount} of this machine, which lies in the task's work directory {work_dir}; "
                    "give the task another WORKDIR, or run it with Docker",
                    kind="work_dir_taken",
                    is_retry_owed=False,
                )


def _needs(task: HarborTask) -> Iterator[str]:
    """Yield the keys of ``task.toml`` that only an image or a container can honour."""
    config, table = task.config, task.config.environment
    needs = {
        "environment.docker_image": table.docker_image,
        "environment.env": table.env,
        "environment.healthcheck": table.healthcheck,
        "agent.user": config.agent.user,
        "verifier.user": config.verifier.user,
        "verifier.environment": config.verifier.is_separate,
        "verifier.collect": config.verifier.collect,
    }
    yield from (key for key, value in needs.items() if value)
    if (task.folder / "environment" / ".dockerignore").exists():
        yield "environment/.dockerignore"


def _instructions(dockerfile: Path) -> Iterator[tuple[str, str, list[str]]]:
    """Yield the place, the name and the words of each instruction."""
    text, begun, start = dockerfile.read_text(encoding="utf-8", errors="replace"), "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        start, begun = (start, begun) if begun else (number, "")
        begun += line.rstrip().removesuffix("\\") + " "
        if not line.rstrip().endswith("\\"):
            name, *words = begun.split()
            yield f"{_DOCKERFILE}, line {start}", name.upper(), words
            begun = ""


def _copies(
    task: HarborTask, sources: list[str], work_dir: PurePosixPath, target: str, place: str
) -> Iterator[tuple[str, Path]]:
    """Yield the path and the source of each file that a COPY places."""
    context = (task.folder / "environment").resolve()
    into = _normal(work_dir / target)
    for word in sources:
        source = context / word.lstrip("/")
        if not source.resolve().is_relative_to(context) or not source.exists():
            raise NeedsImage(f"{place}: {word} is not in environment/")
        if source.is_file():
            is_folder = target.endswith(("/", ".")) or len(sources) > 1
            yield str(into / source.name if is_folder else into), source
        for path in sorted(source.rglob("*")) if source.is_dir() else ():
            if path.is_file() and path.resolve().is_relative_to(context):
                yield str(into / path.relative_to(source)), path


def _normal(path: PurePosixPath) -> PurePosixPath:
    """Return a path without ``.`` and ``..``."""
    return PurePosixPath(posixpath.normpath(path))


def _place(task: HarborTask, folder: Path) -> None:
    for path, source in placed(task).copies.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _readable_copy(source: Path, target: Path) -> None:
    """Copy a folder so that the user inside of the sandbox can read it and start its scripts."""
    shutil.copytree(source, target, dirs_exist_ok=True)
    for path in (target, *target.rglob("*")):
        path.chmod(0o755 if path.is_dir() or path.suffix == ".sh" else path.stat().st_mode | 0o444)


def _script(program: str, printed: str, variables: Mapping[str, str]) -> str:
    """Return the command that runs a script of the task from its work directory, as Harbor does."""
    exports = "".join(f"export {name}={quote(value)}; " for name, value in variables.items())
    return f"mkdir -p /logs/agent /logs/verifier /logs/artifacts; {exports}({program}) > {printed} 2>&1 < /dev/null"


async def _read(sandbox: Sandbox, path: str) -> bytes | None:
    try:
        return await sandbox.read_file(path)
    except OSError:
        return None


def _system() -> str:
    """Return what identifies the system that the tasks run on."""
    return _OS_RELEASE.read_text(encoding="utf-8", errors="replace") if _OS_RELEASE.exists() else ""
