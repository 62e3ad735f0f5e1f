"""Test a patch in a fresh container: apply it, add the test files, execute the run script and the parser.

A full pass is always accepted. Any other result counts only if the machinery worked. If a suite hangs, is killed, runs
out of memory or disk, loses the network while it installs something, or cannot be started, or if its parser fails, the
result is no verdict: missing data, unless the suite passes on the published patch at that time.
"""

import shlex
from dataclasses import dataclass

import msgspec

from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import Instance
from lhaw_record.runners.environments.benchmarks.swebench_pro.scoring import parsed_statuses, verdict_of
from lhaw_record.runners.environments.benchmarks.swebench_pro.scripts import (
    PARSER,
    RUN_SCRIPT,
    Scripts,
    command_before_tests,
    lost_network_pattern,
    suite_command,
)
from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult
from lhaw_record.runners.environments.sandboxes.docker.files import FileLimits
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.services import free_space_command, is_full, names_limit

_FOLDER = "workspace"
_GIT_S = 300.0
_PARSER_S = 300.0
_LOOK_S = 30.0
_SEARCH_S = 300.0
_LOG_BYTES = 200_000
_KILLED = (137, 152, 153)  # a shell's exit codes for SIGKILL, SIGXCPU and SIGXFSZ, which a system sends at a limit
_NOT_STARTED = (126, 127)  # a shell's exit codes for a program that it cannot execute or find
_GIT_ENVIRONMENT = {"GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}


class SuiteRun(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of testing a patch: ``statuses`` by test name, or ``refusal`` if the patch could not be tested."""

    statuses: dict[str, str]
    refusal: str | None = None
    exit_code: int | None = None
    logs: dict[str, bytes] = {}


@dataclass(eq=False)
class Tester:
    """Runs the tests of one instance on a patch.

    Args:
        machine: A fresh container of the instance's image.
        instance: The instance.
        scripts: The instance's scripts.
        work_dir: The folder of the repository.
        timeout_s: The time limit of the run script, in seconds.
        has_network: Whether the container has a network.
    """

    machine: DockerMachine
    instance: Instance
    scripts: Scripts
    work_dir: str
    timeout_s: float
    has_network: bool = True

    async def test(self, patch: bytes) -> SuiteRun:
        """Test a patch and return the outcome."""
        commit = self.instance.base_commit
        await self._must(f"git reset -q --hard {commit} && git checkout -q {commit}", "has no base commit")
        if patch:
            refusal = await self._apply(patch)
            if refusal is not None:
                return SuiteRun(statuses={}, refusal=refusal)
        before = command_before_tests(self.instance)
        if before:
            await self._must(before, "does not get the files of its tests")
        await self.machine.put("/", {f"{_FOLDER}/{RUN_SCRIPT}": self.scripts.run_script})
        ran = await self._shell(suite_command(self.instance), self.timeout_s)
        await self.machine.end_all()
        logs = await self._logs()
        if ran.is_timeout:
            raise self._error(f"the run script was stopped after {self.timeout_s:.0f} s", "suite_timeout")
        try:
            statuses = await self._parsed()
        except GraderError as error:
            await self._check_machinery(ran, logs, {})
            raise self._with_logs(error, logs) from error
        if not verdict_of(self.instance, statuses).is_success:
            await self._check_machinery(ran, logs, statuses)
        return SuiteRun(statuses=statuses, exit_code=ran.exit_code, logs=logs)

    async def _apply(self, patch: bytes) -> str | None:
        """Apply the whole patch, or nothing if a part does not apply.

        Return None, or git's message if it does not apply.
        """
        await self.machine.put("/", {f"{_FOLDER}/patch.diff": patch})
        applied = await self._shell(f"git apply /{_FOLDER}/patch.diff", _GIT_S)
        if applied.exit_code == 0:
            return None
        said = _gits_own(applied.stderr)
        if await self._has_full_disk(said):
            raise self._error("the disk was full when the patch was applied", "engine_disk_full")
        is_stopped = applied.is_timeout or applied.is_out_of_memory or applied.is_out_of_processes
        if is_stopped or applied.exit_code in _KILLED or names_limit(said):
            raise self._error("git could not apply the patch: it was stopped", "patch_stopped")
        return f"the patch does not apply: {_last_line(applied.stderr + applied.stdout)}"

    async def _parsed(self) -> dict[str, str]:
        # The parser is added only now, so that nothing in the tests can have changed it.
        await self.machine.put("/", {f"{_FOLDER}/{PARSER}": self.scripts.parser})
        folder = f"/{_FOLDER}"
        command = f"rm -rf {folder}/output.json; python {folder}/{PARSER} {folder}/stdout.log {folder}/stderr.log "
        ended = await self._shell(command + f"{folder}/output.json", _PARSER_S)
        await self.machine.end_all()
        if ended.is_timeout:
            raise self._error(f"the parser was stopped after {_PARSER_S:.0f} s", "parser_timeout")
        if ended.exit_code != 0:
            words = _last_line(ended.stderr + ended.stdout)
            raise self._error(f"the parser ended with exit code {ended.exit_code}: {words}", "parser_crash")
        try:
            files = await self.machine.get(f"{folder}/output.json", FileLimits(entries=2))
        except FileNotFoundError as error:
            raise self._error("the parser wrote no output.json", "parser_garbage") from error
        return parsed_statuses(files.get("output.json", b""))

    async def _check_machinery(self, ran: ExecResult, logs: dict[str, bytes], statuses: dict[str, str]) -> None:
        """Raise GraderError if tests failed or are missing for a reason other than the patch."""
        if ran.is_out_of_memory:
            raise self._error(
                "the tests were killed for lack of memory; raise benchmark.test_memory_mb", "out_of_memory"
            )
        if ran.is_out_of_processes:
            raise self._error(
                "the tests needed more processes than they may have; raise limits.processes", "out_of_processes"
            )
        if await self._has_full_disk(_text(ran)):
            raise self._error("the disk of the container was full after the tests", "engine_disk_full")
        if ran.exit_code in _KILLED:
            raise self._error(f"the run script was killed (exit code {ran.exit_code})", "suite_killed")
        await self._check_network()
        if not statuses and (ran.exit_code in _NOT_STARTED or not any(logs.values())):
            words = _last_line(b"".join(logs.values())) or "no output"
            raise self._error(f"the run script ended with exit code {ran.exit_code}: {words}", "suite_crash")

    async def _check_network(self) -> None:
        """Raise GraderError if an installer that the run script calls lost the network."""
        pattern = lost_network_pattern(self.scripts.run_script)
        if not pattern:
            return
        logs = f"/{_FOLDER}/stderr.log /{_FOLDER}/stdout.log"  # whole: installers speak first
        command = f"cat {logs} | tr '\\000\\r' '\\n\\n' | LC_ALL=C grep -E -m 1 -e {shlex.quote(pattern)}"
        looked = await self._shell(command, _SEARCH_S)
        if looked.exit_code == 0:
            remedy = "check that the registry can be reached from benchmark.test_network"
            if not self.has_network:
                remedy = 'benchmark.test_network = "none" gives it none; choose a network, or leave this instance out'
            raise self._error(
                f"the run script installs packages and lost the network ({_last_line(looked.stdout)}); {remedy}",
                "no_network",
                is_retry_owed=self.has_network,
            )
        if looked.exit_code != 1:  # not grep's "no such line"
            words = _last_line(_text(looked).encode())
            raise self._error(f"the output cannot be searched for a lost network: {words}", "logs_unread")

    async def _has_full_disk(self, said: str) -> bool:
        looked = await self._shell(free_space_command(self.work_dir, f"/{_FOLDER}"), _LOOK_S)
        return is_full(said, looked.stdout.decode())

    async def _logs(self) -> dict[str, bytes]:
        """Return the end of each log of the run script, by file name."""
        found = {}
        for name in ("stdout.log", "stderr.log"):
            tail = await self._shell(f"tail -c {_LOG_BYTES} /{_FOLDER}/{name}", _LOOK_S)
            found[name] = tail.stdout
        return found

    async def _must(self, command: str, what: str) -> None:
        done = await self._shell(command, _GIT_S)
        if done.exit_code != 0:
            words = _last_line(done.stderr + done.stdout)
            kind = "engine_disk_full" if await self._has_full_disk(_text(done)) else "repository"
            raise self._error(f"the repository at {self.work_dir} {what} (exit code {done.exit_code}): {words}", kind)

    async def _shell(self, command: str, timeout_s: float) -> ExecResult:
        argv = ("/bin/bash", "-c", command)
        return await self.machine.run(argv, timeout_s=timeout_s, work_dir=self.work_dir, environment=_GIT_ENVIRONMENT)

    def _with_logs(self, error: GraderError, logs: dict[str, bytes]) -> GraderError:
        words = _last_line(logs["stderr.log"]) or _last_line(logs["stdout.log"]) or "nothing"
        return GraderError(
            f"{error}; the last output of the run script: {words}", kind=error.kind, is_retry_owed=error.is_retry_owed
        )

    def _error(self, what: str, kind: str, *, is_retry_owed: bool = True) -> GraderError:
        return GraderError(f"{self.instance.instance_id}: {what}", kind=kind, is_retry_owed=is_retry_owed)


def _text(ended: ExecResult) -> str:
    return (ended.stderr + ended.stdout).decode("utf-8", "replace")


def _gits_own(output: bytes) -> str:
    """Return the lines in which git says what failed. Others quote the patch, so the agent wrote what they name."""
    lines = output.decode("utf-8", "replace").splitlines()
    return "\n".join(line for line in lines if line.startswith(("fatal:", "error:")))


def _last_line(output: bytes) -> str:
    lines = output.decode("utf-8", "replace").strip().splitlines()
    return lines[-1][:300] if lines else ""
