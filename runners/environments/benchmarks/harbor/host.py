"""Task folders without Docker: the agent works in the experiment's sandbox, on this machine's own system.

It serves tasks whose Dockerfile only places files: a base, a work directory, and what is copied into it. Whatever else
needs the image refuses the task by name. The tests run in a fresh sandbox with what the agent left in the work
directory.
"""

import os
import platform
import posixpath
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.base.host.scratch import scratch_folder
from lhaw_record.runners.environments.benchmarks.harbor.compose import COMPOSE, has_compose
from lhaw_record.runners.environments.benchmarks.harbor.container import (
    HarborVerdict,
    agent_phase,
    grader_error,
    verdict_of,
)
from lhaw_record.runners.environments.benchmarks.harbor.environment import OraclePass, grade_of
from lhaw_record.runners.environments.benchmarks.harbor.oracle import Oracle, without_verdict
from lhaw_record.runners.environments.benchmarks.harbor.rewards import REWARD_JSON, REWARD_TEXT
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import (
    CONFIG,
    NO_WORDS,
    HarborTask,
    copied,
    resolved,
)
from lhaw_record.runners.environments.benchmarks.protocol import (
    Artifact,
    AskJudge,
    Environment,
    EnvironmentSettings,
    Grade,
    ToolResult,
)
from lhaw_record.runners.environments.benchmarks.workspace_tools import WORKSPACE_TOOLS, call_workspace_tool
from lhaw_record.runners.environments.sandboxes.local.layout import HOME, WORK_DIR, Extra
from lhaw_record.runners.environments.sandboxes.local.providers import IsolatedSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import ProgramCommand, Sandbox, SandboxLimits
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home

_DOCKERFILE = "environment/Dockerfile"
_SYSTEM = ("bin", "sbin", "lib", "lib32", "lib64", "libx32", "usr", "etc", "proc", "dev", "sys", "tmp")
_OURS = ("/opt/agent", HOME, "/logs", "/tests", "/solution")
_REWARDS = tuple(f"/logs/verifier/{name}" for name in (REWARD_TEXT, REWARD_JSON))
_TESTS_PROCESSES = 16384  # the tests are not the agent: no limit of its sandbox may decide a grade


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
    """Return where the files of a task are."""
    for key in _needs(task):
        raise NeedsImage(f"{key} needs Docker" if key.startswith("environment/") else f"{CONFIG}: {key} needs Docker")
    work_dir, copies, is_begun = PurePosixPath("/"), dict[str, Path](), False
    for place, instruction, words in _instructions(task.folder / _DOCKERFILE):
        is_plain = not any(set(word) & set("*?[$\"'") or word.startswith("--") for word in words)
        if instruction == "WORKDIR" and len(words) == 1 and is_plain:
            work_dir = work_dir / words[0]
        elif instruction == "COPY" and len(words) > 1 and is_plain:
            copies |= dict(_copies(task, words, work_dir, copies, place))
        elif instruction == "FROM" and not is_begun:
            is_begun = True
        elif instruction != "LABEL":
            said = " ".join((instruction, *words))[:60]
            raise NeedsImage(f"{place}: {said!r} needs Docker; without it, only one FROM, WORKDIR and plain COPY work")
    root = _normal(work_dir / (task.config.environment.workdir or ""))
    if root.parts[1:2] in ((), *((name,) for name in _SYSTEM)) or _is_taken(root):
        raise NeedsImage(f"the work directory is {root}; without Docker it must be the task's own, such as /app")
    outside = next((path for path in copies if not PurePosixPath(path).is_relative_to(root)), None)
    if outside is not None:
        raise NeedsImage(f"{_DOCKERFILE} copies to {outside}; copying outside the work directory {root} needs Docker")
    inner = {PurePosixPath(path).relative_to(root).as_posix(): source for path, source in copies.items()}
    return Placed(work_dir=str(root), copies=inner)


def refusal_of_host(task: HarborTask) -> str | None:
    """Return why a task cannot run without Docker, or None if it can."""
    try:
        placed(task)
    except NeedsImage as error:
        return str(error)
    return None


@dataclass(kw_only=True, eq=False)
class HostEnvironment(Environment):
    """The open sandbox of an agent.

    Args:
        task: The task.
        test: Runs the tests on the files of a folder, which it may change.
        passed: What the reference solution showed here, or None if it was not tried.
        oracle: How it is tried.
        sandbox: The agent's sandbox.
        facts: Artifacts that describe the environment.
    """

    tools = WORKSPACE_TOOLS
    bounds_its_grading = True

    task: HarborTask
    test: Callable[[Path], Awaitable[HarborVerdict]]
    passed: OraclePass | None
    oracle: Oracle
    sandbox: Sandbox
    facts: tuple[Artifact, ...]

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a workspace tool in the sandbox."""
        return await call_workspace_tool(self.sandbox, name, arguments)

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Run the tests in a fresh sandbox with the files of the work directory."""
        del final_answer, ask_judge  # only what is in the work directory counts
        with scratch_folder() as files:
            await self.sandbox.export(files)
            try:
                return grade_of(self.task, await self.test(files), self.passed)
            except GraderError as error:
                if self.passed is None:
                    raise
                return await without_verdict(self.oracle, error)


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
        self, task: HarborTask, settings: EnvironmentSettings, passed: OraclePass | None
    ) -> AsyncIterator[Environment]:
        """Open the sandbox of an agent."""
        facts = {"system": system_name(), "oracle_passed": passed is not None}
        artifact = Artifact.of_json("environment.json", "environment", facts)
        extra = Extra(links=placed(task).links)
        _check_mounts(extra, settings)
        with scratch_folder() as files:
            await anyio.to_thread.run_sync(_place, task, files)
            async with self._provider.open(files, self._agents(task), settings.access, extra) as sandbox:
                test = partial(self._verdict, task)
                yield HostEnvironment(
                    task=task, test=test, passed=passed, oracle=self.oracle(task), sandbox=sandbox, facts=(artifact,)
                )

    def oracle(self, task: HarborTask) -> Oracle:
        """Return how the reference solution of a task is tried. A pass counts for its run."""

        async def verdict(words: Mapping[str, str] | None, keeps: bool) -> HarborVerdict:
            del keeps  # the tests have a sandbox of their own
            with scratch_folder() as files, scratch_folder() as solved:
                await anyio.to_thread.run_sync(_place, task, files)
                if words is not None:
                    await self._solve(task, files, solved, words)
                return await self._verdict(task, files if words is None else solved)

        return Oracle(task=task, key=None, verdict=verdict)  # what is installed here may change until the next run

    def _agents(self, task: HarborTask) -> SandboxLimits:
        """Return the limits of a task's agent: its own memory replaces that of the experiment, as in Docker."""
        own_mb = task.config.environment.total_memory_mb
        return msgspec.structs.replace(self._limits, memory_mb=own_mb or self._limits.memory_mb)

    async def _solve(self, task: HarborTask, files: Path, solved: Path, words: Mapping[str, str]) -> None:
        """Run the reference solution on the files of a folder, into another one. Its exit code does not matter."""
        variables = {**resolved(task.config.solution.env), "DEBIAN_FRONTEND": "noninteractive"}
        limits = msgspec.structs.replace(self._agents(task), command_seconds=agent_phase(task).timeout_s)
        async with self._with(task, files, limits, "solution", words) as sandbox:
            await sandbox.run_bash(_script("/solution/solve.sh", "/logs/agent/oracle.txt", variables))
            await sandbox.export(solved)

    async def _verdict(self, task: HarborTask, files: Path) -> HarborVerdict:
        """Run the tests on the files of a folder."""
        verifier = task.config.verifier
        limits = msgspec.structs.replace(
            self._limits,
            memory_mb=max(self._agents(task).memory_mb, _half_of_memory_mb()),
            processes=max(self._limits.processes, _TESTS_PROCESSES),
        )
        printed = "/logs/verifier/test-stdout.txt"
        try:
            async with self._with(task, files, limits, "tests") as sandbox:
                script = _script("/tests/test.sh", printed, resolved(verifier.env))
                launch = ProgramCommand(
                    argv=("bash", "-c", script), environment={}, stdin=b"", max_seconds=verifier.timeout_sec
                )
                ran = await sandbox.run_program(launch, anyio.Event())  # nothing runs any more when rewards are read
                stdout = await _read(sandbox, printed) or f"{ran.stdout}{ran.stderr}".encode()
                found = {PurePosixPath(path).name: await _read(sandbox, path) for path in _REWARDS}
        except SandboxBoundaryError as error:
            if not error.is_abuse:
                raise
            raise grader_error(task, f"the tests met a sandbox limit: {error}", "out_of_memory", b"") from error
        if ran.exit_code is None:
            what = f"the tests were stopped after {verifier.timeout_sec:g} s"
            raise grader_error(task, what, "verifier_timeout", stdout)
        left = {name: content for name, content in found.items() if content is not None}
        return verdict_of(task, left, stdout, outlived=ran.left, detached=ran.detached)

    @asynccontextmanager
    async def _with(
        self, task: HarborTask, files: Path, limits: SandboxLimits, part: str, words: Mapping[str, str] = NO_WORDS
    ) -> AsyncIterator[Sandbox]:
        """Open a sandbox on the files of a folder, with a part of the task, such as its tests, and ``/logs``."""
        with scratch_folder() as shown:
            await anyio.to_thread.run_sync(copied, task.folder / part, shown, words)
            links = placed(task).links
            extra = Extra(links=links, shown={f"/{part}": str(shown)}, writable=("/logs",))
            async with self._provider.open(files, limits, None, extra) as sandbox:
                yield sandbox


def host_of(settings: EnvironmentSettings) -> Host:
    """Return the host of an experiment's sandboxes."""
    if not isinstance(settings.sandbox, IsolatedSandboxProvider):
        raise SandboxUnfit(
            f"harbor tasks without Docker need bubblewrap or namespaces, not {settings.sandbox.kind}: only an isolated "
            "sandbox has their tests at /tests",
            kind="needs_isolation",
        )
    return Host(settings.sandbox, settings.limits)


def _check_mounts(extra: Extra, settings: EnvironmentSettings) -> None:
    """Refuse a program that has folders of this machine below the task's work directory."""
    for mount in settings.access.mounts if settings.access else ():
        for work_dir in extra.links:
            if PurePosixPath(mount).is_relative_to(work_dir) or PurePosixPath(work_dir).is_relative_to(mount):
                raise SandboxUnfit(
                    f"the program needs {mount} of this machine, which lies in or around the task's work directory "
                    f"{work_dir}; "
                    "give the task another WORKDIR, or run it with Docker",
                    kind="work_dir_taken",
                )


def _needs(task: HarborTask) -> Iterator[str]:
    """Yield the keys of ``task.toml`` that only an image or a container can honour."""
    config, table = task.config, task.config.environment
    needs = {
        "[[steps]]": config.steps,
        "environment.docker_image": table.docker_image,
        "environment.env": table.env,
        "environment.healthcheck": table.healthcheck,
        "environment.skills_dir": table.skills_dir,
        "agent.user": config.agent.user,
        "verifier.user": config.verifier.user,
        "verifier.environment": config.verifier.is_separate,
        "verifier.collect": config.verifier.collect,
        "environment.network_mode = public, the default, without a solution that shows what works offline,": (
            table.network == "public" and not task.has_solution
        ),
    }
    yield from (key for key, value in needs.items() if value)
    if has_compose(task.folder):
        yield COMPOSE
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
    if begun:
        raise NeedsImage(f"{_DOCKERFILE}, line {start}: the last instruction has no end")


def _copies(
    task: HarborTask, words: list[str], work_dir: PurePosixPath, placed_before: Mapping[str, Path], place: str
) -> Iterator[tuple[str, Path]]:
    """Yield the path and the source of each file that a COPY with these words places."""
    *sources, target = words
    context = (task.folder / "environment").resolve()
    into = _normal(work_dir / target)
    is_there = into == _normal(work_dir) or any(PurePosixPath(each).is_relative_to(into) for each in placed_before)
    is_folder = target.endswith("/") or len(sources) > 1 or (is_there and str(into) not in placed_before)
    for word in sources:
        source = context / word.lstrip("/")
        if not source.resolve().is_relative_to(context) or not source.exists():
            raise NeedsImage(f"{place}: {word} is not in environment/")
        if source.is_file():
            yield str(into / source.name if is_folder else into), source
        for path in sorted(source.rglob("*")) if source.is_dir() else ():
            if path.is_file() and path.resolve().is_relative_to(context):
                yield str(into / path.relative_to(source)), path


def _is_taken(root: PurePosixPath) -> bool:
    """Return whether a folder lies in, or around, one that the sandbox has itself."""
    home = current_python_home()
    own = [*map(PurePosixPath, (*_OURS, home.executable, f"{home.base_prefix}/lib"))]
    around = [PurePosixPath(WORK_DIR)] if str(root) != WORK_DIR else []
    return any(root.is_relative_to(each) or each.is_relative_to(root) for each in (*own, *around))


def _normal(path: PurePosixPath) -> PurePosixPath:
    """Return a path without ``.`` and ``..``."""
    return PurePosixPath(posixpath.normpath(path))


def _place(task: HarborTask, folder: Path) -> None:
    for path, source in placed(task).copies.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def _script(program: str, printed: str, variables: Mapping[str, str]) -> str:
    """Return the command that runs a script of the task from its work directory, as Harbor does."""
    exports = "".join(f"export {name}={quote(value)}; " for name, value in variables.items())
    return f"mkdir -p /logs/agent /logs/verifier /logs/artifacts; {exports}({program}) > {printed} 2>&1 < /dev/null"


async def _read(sandbox: Sandbox, path: str) -> bytes | None:
    try:
        return await sandbox.read_file(path)
    except OSError:
        return None


def system_name() -> str:
    """Return the name of the system that tasks run on here, such as ``debian 12``."""
    try:
        found = platform.freedesktop_os_release()
    except OSError:
        return platform.system()
    return f"{found['ID']} {found.get('VERSION_ID', '')}".strip()


def _half_of_memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 21
