"""One container of a Harbor task: the phases from its start to its rewards, in Harbor's order.

Harbor starts every command with ``bash -c`` in the work directory, as the phase's user, with ``environment.env``. A
task's image needs bash and the usual tools of a Linux system, but no Python.
"""

import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import yaml

from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.base.host.scratch import scratch_folder
from lhaw_record.runners.environments.benchmarks.harbor.compose import MAIN
from lhaw_record.runners.environments.benchmarks.harbor.rewards import REWARD_JSON, REWARD_TEXT, NoReward, read_rewards
from lhaw_record.runners.environments.benchmarks.harbor.services import Beside
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import (
    NO_WORDS,
    EnvironmentTable,
    HarborTask,
    Healthcheck,
    copied,
    resolved,
)
from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult
from lhaw_record.runners.environments.sandboxes.docker.files import FileLimits, folder_archive
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine, MachineUsage, open_machine
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from lhaw_record.runners.environments.sandboxes.docker.shell import MachineShell, Phase, last_line, new_path
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

NO_NETWORK = "none"
"""The engine's name of no network."""
_LOGS = "/logs"
_VERIFIER = f"{_LOGS}/verifier"
_TESTS = "/tests"
_STDOUT = f"{_VERIFIER}/test-stdout.txt"
_PREPARE_S = 60.0
_SOLUTION_S = 3600.0  # of a task that sets no limit; all its trials wait for its solution
_ARTIFACTS = FileLimits(total_bytes=256 << 20)
_STDOUT_BYTES = 200_000


# The path and the beginning of each skill.
_SKILLS = r"""for each in "$0"/*/SKILL.md; do
[ -f "$each" ] && printf "%s\0" "$each" && head -c 65536 -- "$each" && printf "\0"; done; true"""
# Where programs look for skills below their HOME, as Harbor's agents have it.
_GIVE_SKILLS = """[ -d "$0" ] || exit 0
for each in .agents .claude .config/goose .config/opencode .gemini .qwen; do
mkdir -p "$1/$each/skills" && cp -r -- "$0"/. "$1/$each/skills"; done"""
_HEAD = re.compile(r"---\s*\n(.*?)\n---", re.DOTALL)


# Each process as its number and start, so that a number that is used again is another process. Only bash itself is
# used; a process may have spaces in its name, so fields are counted from the end.
_LOOK = r"""
look() {
  local line words=()
  read -r line 2> /dev/null < "/proc/$1/stat" && read -r -a words <<< "${line##*)}"
  [ "${words[0]:-Z}" != Z ] && parent=${words[1]} session=${words[3]} born=${words[19]}
}
"""
_LIST = 'for each in /proc/[0-9]*; do look "${each#/proc/}" && echo "${each#/proc/}:$born"; done; true'
_PROCESSES = _LOOK + _LIST
# The same, once the container's first process has a child: the engine lets commands in before. After 5 s it has none.
_OWN_PROCESSES = f"""{_LOOK}
has_begun() {{
  local each
  for each in /proc/[0-9]*; do
    [ "$each" != "/proc/$$" ] && look "${{each#/proc/}}" && [ "$parent" -ge 1 ] && return 0
  done
  return 1
}}
for try in {{1..100}}; do has_begun && break; sleep 0.05; done
{_LIST}"""
# Ends what is neither in the list $0 nor in $1, nor below one of them (but not below process 1, which adopts), nor we.
# A fork may be faster than one round.
_END_OTHERS = f"""{_LOOK}
spared() {{
  local at=$1 up=
  while look "$at"; do
    case " $ours " in *" $at "*) return 0 ;; esac
    case "$own" in *"
$at:$born
"*) [ "$at" != 1 ] || [ -z "$up" ]; return ;; esac
    up=$at at=$parent
  done
  return 1
}}
own="
$0
$1
" ours= at=$$
while [ "$at" -gt 1 ] && look "$at"; do ours="$ours $at" at=$parent; done
look $$; mine=$session
for round in 1 2 3 4 5 6 7 8 9; do
  found=
  for each in /proc/[0-9]*; do
    each=${{each#/proc/}}
    spared "$each" || {{ look "$each" && found=1 && kill -9 "$each" 2> /dev/null && echo "$session $mine"; }}
  done
  [ -n "$found" ] || break
done
"""


class HarborVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What the tests of a task wrote and printed.

    Attributes:
        rewards: The rewards by checkpoint.
        stdout: What the tests printed.
        step_rewards: The rewards of each graded step by the names that its tests gave them; empty without steps.
        left: How many processes of the agent were ended before the tests.
        outlived: How many processes outlived the tests and were ended, and could have written the rewards.
        detached: How many of these had left the session of the tests.
    """

    rewards: dict[str, float]
    stdout: bytes
    step_rewards: tuple[dict[str, float], ...] = ()
    left: int = 0
    outlived: int = 0
    detached: int = 0


class TaskContainer(MachineShell):
    """A running container of a task's image.

    Args:
        machine: The container.
        table: The environment that it has: of the task, or of its verifier.
        beside: The services beside it, or None.
    """

    def __init__(self, machine: DockerMachine, table: EnvironmentTable, beside: Beside | None = None) -> None:
        super().__init__(machine, table.workdir, resolved(table.env))
        self._table = table
        self._beside = beside
        self._usage_at_start = MachineUsage(memory=0.0, processes=0.0)
        self._own = ""

    async def prepare(self) -> None:
        """Make the folders of logs, and wait until the container is healthy."""
        folders = " ".join(f"{_LOGS}/{name}" for name in ("agent", "verifier", "artifacts"))
        made = await self.bash(f"mkdir -p {folders} && chmod 777 {folders}", self.root(_PREPARE_S))
        if made.exit_code != 0:
            words = (made.stderr + made.stdout).decode("utf-8", "replace").strip()
            raise SandboxUnfit(
                f"the image cannot make {_LOGS} with bash (exit code {made.exit_code}): {words}", kind="image_unfit"
            )
        if self._table.healthcheck is not None:
            ill = await self._illness(self._table.healthcheck, "")
            if ill is not None:
                raise SandboxBoundaryError(f"the container is {ill}", kind="unhealthy")
        self._usage_at_start = await self.machine.usage()
        self._own = (await self.bash(_OWN_PROCESSES, self.root(_PREPARE_S))).stdout.decode()

    async def skills(self, task: HarborTask) -> str:
        """Return what ``skills_dir`` has, one skill a line: its name, when it applies, and its file."""
        if not self._table.skills_dir:
            return ""
        found = await self.bash(_SKILLS, agent_phase(task), self._table.skills_dir)
        words = found.stdout.decode("utf-8", "replace").split("\0")
        return "".join(_skill_line(path, text) for path, text in zip(words[::2], words[1::2], strict=False))

    async def give_skills(self, task: HarborTask, home: str) -> None:
        """Copy what ``skills_dir`` has to where programs look for skills."""
        if self._table.skills_dir:
            await self.bash(_GIVE_SKILLS, agent_phase(task), self._table.skills_dir, home)

    async def begin(self, step: HarborTask, *, is_first: bool) -> None:
        """Prepare a step: clear the last step's tests and logs, place the files, run ``setup.sh``, check health."""
        if not is_first:
            await self._renew(_TESTS, _VERIFIER, f"{_LOGS}/agent")
        phase = msgspec.structs.replace(agent_phase(step), timeout_s=_SOLUTION_S)
        files, table, problem = step.own_folder / "workdir", step.step, None
        assert table is not None
        if files.is_dir():
            place = (await self.bash("pwd", phase)).stdout.decode().strip() or "/"
            given = new_path()
            await self.upload(files, given)  # in two steps, so that the folder itself keeps owner and mode
            copy = 'shopt -s dotglob nullglob; cp -a -- "$0"/* "$1"; rm -rf "$0"'
            await self.bash(copy, self.root(_PREPARE_S), given, place)
            if (files / "setup.sh").is_file():
                ran = await self.bash(f"bash {shlex.quote(f'{place}/setup.sh')}", phase)
                problem = None if ran.exit_code == 0 else f"setup.sh fails: {last_line(ran)}"
        if problem is None and table.healthcheck is not None:
            problem = await self._illness(table.healthcheck, phase.user)
        if problem is not None:
            raise SandboxBoundaryError(
                f"{step.task_id}: before the step {table.name} its container is not ready: {problem}",
                kind="step_not_prepared",
                is_retry_owed=is_first,
            )

    async def upload(self, folder: Path, target: str) -> None:
        """Copy what is in a host folder into a container folder. Files keep their modes and belong to root."""
        async with folder_archive(folder, target.strip("/")) as archive:
            await self.machine.put_back("/", archive)

    async def _upload_input(self, folder: Path, target: str, words: Mapping[str, str] = NO_WORDS) -> None:
        with scratch_folder() as copy:
            await anyio.to_thread.run_sync(copied, folder, copy, words)
            await self.upload(copy, target)

    async def check_services(self) -> None:
        """Check that the services beside the container were as they should be since the trial began."""
        if self._beside is not None:
            await self._beside.check()

    async def solve(self, task: HarborTask, words: Mapping[str, str]) -> ExecResult:
        """Run the reference solution, with some words replaced, as Harbor's oracle agent does."""
        await self._upload_input(task.solution, "/solution", words)
        await self.bash("chmod +x /solution/solve.sh", self.root(_PREPARE_S))
        variables = {**resolved(task.config.solution.env), "DEBIAN_FRONTEND": "noninteractive"}
        phase = msgspec.structs.replace(agent_phase(task), environment=variables)
        return await self.bash(f"(/solution/solve.sh) > {_LOGS}/agent/oracle.txt 2>&1", phase)

    async def collect(self, task: HarborTask) -> None:
        """Run the hooks between the agent and the tests. As in Harbor, a hook that fails changes nothing."""
        for hook in task.config.verifier.collect:
            user = "" if hook.user is None else str(hook.user)
            await self.bash(hook.command, Phase(user=user, environment={}, timeout_s=hook.timeout_sec))

    async def artifacts(self, task: HarborTask) -> dict[str, bytes]:
        """Return what a separate verifier gets: an archive for each path of ``artifacts`` that exists, by its path."""
        found = {}
        for path in dict.fromkeys((f"{_LOGS}/artifacts", *task.config.artifact_paths)):
            try:
                found[path] = await self.machine.take(path, _ARTIFACTS)
            except FileNotFoundError:
                continue
        return found

    async def put_artifacts(self, archives: Mapping[str, bytes]) -> None:
        """Put the artifacts of another container at the same paths."""
        for path, archive in archives.items():
            parent = Path(path).parent.as_posix()
            await self.bash(f"mkdir -p {shlex.quote(parent)}", self.root(_PREPARE_S))
            await self.machine.put_back(parent, archive)

    async def verify(self, task: HarborTask, *, has_tests: bool = False, keeps: bool = False) -> HarborVerdict:
        """Run the tests in folders of their own and return their rewards. Their exit code does not matter.

        What the agent left running is ended before, unless the tests need it (``keeps``); what outlives the tests is
        ended before their rewards are read.
        """
        verifier = task.config.verifier
        ended = () if keeps else await self._end_others()
        await self._renew(_VERIFIER, *(() if has_tests else (_TESTS,)))
        for folder in () if has_tests else task.tests:
            await self._upload_input(folder, _TESTS)
        prepare = "chmod +x /tests/test.sh"
        prepared = await self.bash(prepare, self.root(_PREPARE_S))
        if prepared.exit_code != 0:
            words = prepared.stderr + prepared.stdout
            raise grader_error(task, "the tests could not be prepared", "tests_not_prepared", words)
        left = await self.machine.usage()
        phase = Phase(
            user=str(verifier.user) if verifier.user is not None else "",
            environment=resolved(verifier.env),
            timeout_s=verifier.timeout_sec,
        )
        running = "" if not keeps else (await self.bash(_PROCESSES, self.root(_PREPARE_S))).stdout.decode()
        # In the same shell, so that nothing is left that could write a reward after the tests.
        ran = await self.bash(f"(/tests/test.sh) > {_STDOUT} 2>&1\n{_END_OTHERS}", phase, self._own, running)
        outlived = [*_sessions(ran.stdout), *(await self._end_others(running) if phase.user or ran.is_timeout else ())]
        stdout = await self._stdout()
        if ran.is_timeout:
            raise grader_error(task, f"the tests were stopped after {phase.timeout_s:g} s", "verifier_timeout", stdout)
        self._check_limits(task, ran, left, stdout)
        files: dict[str, bytes] = {}
        for name in (REWARD_TEXT, REWARD_JSON):
            try:
                files |= await self.machine.get(f"{_VERIFIER}/{name}", FileLimits(total_bytes=1 << 20, entries=2))
            except FileNotFoundError:
                continue
        detached = len(outlived) - outlived.count("tests")
        return verdict_of(task, files, stdout, left=len(ended), outlived=len(outlived), detached=detached)

    async def _end_others(self, kept: str = "") -> list[str]:
        """End every process but those of the image, those to keep, and ourselves. Return for each whose session it had.

        Raises:
            SandboxBoundaryError: They could not be ended, so that they may write what is read next.
        """
        ended = await self.bash(f"{_END_OTHERS}\ntrue", self.root(_PREPARE_S), self._own, kept)
        if ended.exit_code != 0:
            raise SandboxBoundaryError(
                "a container cannot end its leftover processes; it may have reached its limit of processes",
                kind="exec_failed",
            )
        return _sessions(ended.stdout)

    def _check_limits(self, task: HarborTask, ran: ExecResult, left: MachineUsage, stdout: bytes) -> None:
        """Check that no limit of the experiment stopped a test, unless the agent left less than half of it.

        The memory that a task itself sets is part of the task, as in Harbor.
        """
        taken = left.mostly_taken_since(self._usage_at_start)
        is_out_of_memory = ran.is_out_of_memory and self._table.total_memory_mb is None
        met = {"memory": is_out_of_memory, "processes": ran.is_out_of_processes}
        name = next((name for name, is_met in met.items() if is_met and name not in taken), None)
        if name is None:
            return
        what = f"the tests needed more than limits.{'memory_mb' if name == 'memory' else name}"
        raise grader_error(task, what, f"out_of_{name}", stdout)

    async def _stdout(self) -> bytes:
        printed = await self.bash(f"tail -c {_STDOUT_BYTES} {_STDOUT}", self.root(_PREPARE_S))
        return printed.stdout

    async def _renew(self, *folders: str) -> None:
        """Make folders new, whatever is in their place; those that are mounts become empty."""
        for each in folders:
            empty = f"shopt -s dotglob nullglob; rm -rf {each} 2> /dev/null || rm -rf {each}/*"
            await self.bash(f"{empty}; mkdir -p {each} && chmod 777 {each}", self.root(_PREPARE_S))

    async def _illness(self, check: Healthcheck, user: str) -> str | None:
        """Run a health check until it succeeds and return None, or what it said.

        Failures in the start period do not count, as for Docker's own.
        """
        phase = Phase(user=user, environment={}, timeout_s=check.timeout_sec)
        failures, started = 0, anyio.current_time()
        while True:
            done = await self.bash(check.command, phase)
            if done.exit_code == 0:
                return None
            is_starting = anyio.current_time() - started < check.start_period_sec
            failures += not is_starting
            if failures >= check.retries:
                return f"not healthy after {failures} checks of {check.command!r}: {last_line(done)}"
            await anyio.sleep(check.start_interval_sec if is_starting else check.interval_sec)


@asynccontextmanager
async def open_container(
    provider: DockerSandboxProvider,
    image: str,
    table: EnvironmentTable,
    limits: SandboxLimits,
    network: str,
    mounts: Sequence[str] = (),
    beside: Beside | None = None,
) -> AsyncIterator[TaskContainer]:
    """Open a healthy container of a task's image, with its entry point. Closing it leaves nothing behind."""
    inner = beside.network if beside else network
    chosen = provider.with_image(name=image, network=inner, cpus=table.cpus or provider.image.cpus)
    own = msgspec.structs.replace(limits, memory_mb=table.total_memory_mb or limits.memory_mb)
    async with open_machine(
        chosen.image,
        own,
        provider.room,
        keeps_entrypoint=True,
        environment={**(beside.main.environment if beside else {}), **resolved(table.env)},
        mounts=mounts,
        aliases=(MAIN,) if beside else (),
        volumes=beside.mounts if beside else (),
        outside=network if beside and network != NO_NETWORK else "",
    ) as machine:
        container = TaskContainer(machine, table, beside)
        await container.prepare()
        yield container


def _sessions(printed: bytes) -> list[str]:
    """Return for each process that ``_END_OTHERS`` ended whether it was in the session of the shell, the ``tests``."""
    pairs = [line.split() for line in printed.decode("utf-8", "replace").splitlines()]
    return ["tests" if own == session else "other" for session, own in (pair for pair in pairs if len(pair) == 2)]


def _skill_line(path: str, text: str) -> str:
    """Return the line of a skill, or nothing if it does not begin with its name and description, as in Harbor."""
    head = _HEAD.match(text)
    try:
        about = yaml.safe_load(head[1]) if head else None
    except yaml.YAMLError:
        return ""
    if not isinstance(about, dict) or not {"name", "description"} <= about.keys():
        return ""
    return f"\n- {about['name']}: {about['description']} ({path})"


def agent_phase(task: HarborTask) -> Phase:
    """Return who the agent is, with the task's own time limit, or an hour."""
    agent = task.config.agent
    timeout_s = agent.timeout_sec if agent.timeout_sec is not None else _SOLUTION_S
    user = "" if agent.user is None else str(agent.user)
    return Phase(user=user, environment={}, timeout_s=timeout_s)


def verdict_of(
    task: HarborTask, files: Mapping[str, bytes], stdout: bytes, *, left: int = 0, outlived: int, detached: int
) -> HarborVerdict:
    """Return the verdict of the files that tests left.

    Where something outlived the tests, files without a reward mean 0: it could have spoiled them.
    """
    try:
        rewards = read_rewards(files)
    except NoReward as error:
        if not outlived:
            raise grader_error(task, str(error), error.kind, stdout) from error
        rewards = dict.fromkeys(task.reward_names, 0.0)
    return HarborVerdict(rewards=rewards, stdout=stdout, left=left, outlived=outlived, detached=detached)


def grader_error(task: HarborTask, what: str, kind: str, stdout: bytes) -> GraderError:
    """Return the error of tests that gave no verdict, with the last line that they printed."""
    # Another attempt would be a new draw for those that fail their tests, and for no others.
    message = f"{task.task_id}: {what}; the last output of the tests: {last_printed(stdout)}"
    return GraderError(message, kind=kind, is_retry_owed=False)


def last_printed(stdout: bytes) -> str:
    """Return the last line that tests printed, for a message."""
    said = stdout.decode("utf-8", "replace").strip().splitlines()
    return said[-1][:300] if said else "nothing"
