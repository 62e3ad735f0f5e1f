"""The open environment of one trial: the task's container, what the agent does there, and the evaluator's verdict.

The published images encrypt the evaluator with a publicly known key, and keep its reference files next to it in clear
text. The agent is root. Everything that only a grader may see is therefore moved out of the container while the agent
works in it.
"""

import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import Task
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, AskJudge, Environment, Grade, ToolResult
from lhaw_record.runners.environments.benchmarks.tac.browser import Browser
from lhaw_record.runners.environments.benchmarks.tac.company import Company
from lhaw_record.runners.environments.benchmarks.tac.model_route import open_route
from lhaw_record.runners.environments.benchmarks.tac.options import TacOptions
from lhaw_record.runners.environments.benchmarks.tac.scoring import grade_of
from lhaw_record.runners.environments.benchmarks.workspace_tools import WORKSPACE_TOOLS, call_workspace_tool
from lhaw_record.runners.environments.grading.confined_grading import grade_without_verdict
from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult
from lhaw_record.runners.environments.sandboxes.docker.files import FileLimits
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine, MachineUsage
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandbox
from lhaw_record.runners.environments.sandboxes.docker.services import free_space_command, is_full
from lhaw_record.runners.environments.sandboxes.protocol import ProgramSandbox

_JSON = "application/json"
_RESULT = FileLimits(total_bytes=4 << 20, entries=1)
_STEP_S = 30.0
_STILL_HEALTHY_S = 15.0
_SAID_CHARACTERS = 800
_STARVED = ("out_of_memory", "out_of_processes", "exec_failed", "exec_undead", "sandbox_out_of_memory")
_NO_NETWORK = "There is no input and no network."
_RUNNING = (
    "ds-janusgraph-exercise",
    "sde-copilot-arena-server-easy-add-suffix",
    "sde-copilot-arena-server-new-endpoint",
    "sde-copilot-arena-server-setup",
    "sde-debug-crashed-server",
    "sde-run-janusgraph",
    "sde-run-rising-wave-locally",
)
"""The published tasks whose evaluators ask a server on localhost, which the agent had to start."""
TOOLS = tuple(
    msgspec.structs.replace(
        tool,
        description=tool.description.replace(
            _NO_NETWORK, "There is no input. The network is for the company's services."
        ),
    )
    for tool in WORKSPACE_TOOLS
)


@dataclass(kw_only=True, eq=False)
class TacEnvironment(Environment):
    """The open environment of one trial.

    Args:
        task: The task.
        options: How the image is used.
        own_sandbox: The task's container.
        sandbox: The container as the place of a program, or None for the native agent.
        company: The services that the task uses.
        browser: The agent's browser, or None if it has none.
        room: The memory budget of the trial's containers.
        variables: The environment variables that tell about the evaluator's model.
        hidden: The folders that were taken out of the container, as archives by path.
        usage_at_start: What the container used before the agent came.
        prompt: The prompt that the agent got.
        facts: Artifacts that describe images and services.
        closing: Closes all of it before another environment opens, so that a trial never holds the memory of both.
        another: Opens a new environment of the task, without an agent.
    """

    bounds_its_grading = True

    task: Task
    options: TacOptions
    own_sandbox: DockerSandbox
    sandbox: ProgramSandbox | None
    company: Company
    browser: Browser | None
    room: MemoryBudget
    variables: Mapping[str, str]
    hidden: Mapping[str, bytes]
    usage_at_start: MachineUsage
    prompt: str
    facts: tuple[Artifact, ...]
    closing: AsyncExitStack
    another: Callable[[], AbstractAsyncContextManager["TacEnvironment"]]

    def __post_init__(self) -> None:
        self.program_tools = tuple(self.browser.tools) if self.browser else ()
        self.tools = (*TOOLS, *self.program_tools)
        self._calls: list[dict[str, Any]] = []

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a tool in the container or the browser, and add the call to the trajectory that the evaluator
        reads.
        """
        if self.browser and any(tool.name == name for tool in self.browser.tools):
            result = await self.browser.call(name, arguments)
        else:
            result = await call_workspace_tool(self.own_sandbox, name, arguments)
        if self.sandbox is None:  # of a program's calls all are told
            self.program_did(name, arguments, result.text)
        return result

    def program_did(self, name: str, arguments: dict[str, Any], result: str) -> None:
        """Add a call to the trajectory that the evaluator reads."""
        self._calls.append({"source": "agent", "action": name, "args": arguments, "observation": result})

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Put the evaluator back, run it on the trajectory, and read the file that it writes.

        What the agent left running is ended, unless the evaluator looks for it. If most of a limit is then taken by it,
        an evaluator that meets the limit and ends well is believed, and one that does not is the agent's doing.
        """
        await self._check_company()
        left = await self._left_running()
        trajectory = trajectory_of(self.prompt, self._calls, final_answer)
        try:
            if self.task.task_id not in _RUNNING:
                await self.own_sandbox.machine.end_all()
                left = await self._left_running()
            await put_back(self.own_sandbox.machine, self.hidden)
            content, said = await self._evaluated(trajectory, ask_judge, has_room=not left)
        except (GraderError, SandboxBoundaryError) as error:
            if left and error.kind in _STARVED:
                raise SandboxBoundaryError(f"{left}; {error}", kind="sandbox_exhausted", is_abuse=True) from error
            if isinstance(error, SandboxBoundaryError) or self.options.asks_directly:  # its model may be what is slow
                raise
            still_grades = partial(self._still_grades, ask_judge)
            grade = await grade_without_verdict(error, self.task.checkpoints, still_grades, "untouched work")
            return msgspec.structs.replace(grade, artifacts=(_kept(trajectory),))
        await self._check_company()
        grade = grade_of(content, self.task.checkpoints)
        return msgspec.structs.replace(
            grade,
            artifacts=(
                _kept(trajectory),
                Artifact(name=self._file("eval"), role="grader_result", media_type=_JSON, content=content),
                Artifact(name="evaluator.txt", role="grader_output", media_type="text/plain", content=said),
            ),
        )

    async def _still_grades(self, ask_judge: AskJudge | None) -> bool:
        """Return whether the evaluator gives a verdict now where nobody has worked."""
        await self.closing.aclose()
        async with self.another() as fresh:
            try:
                await fresh.grade_untouched(ask_judge)
            except GraderError:
                return False
        return True

    async def grade_untouched(self, ask_judge: AskJudge | None) -> Grade:
        """Return what the evaluator says where nobody has worked."""
        await put_back(self.own_sandbox.machine, self.hidden)
        content, _ = await self._evaluated(trajectory_of(self.prompt, [], ""), ask_judge, has_room=True)
        return grade_of(content, self.task.checkpoints)

    async def _check_company(self) -> None:
        """Check that the services are healthy, and have been since the trial began."""
        if self.company.control is not None:
            limit_s = min(_STILL_HEALTHY_S, self.options.health_seconds)
            await self.company.check(self.company.control, limit_s)
            await self.company.check_undisturbed()

    async def _left_running(self) -> str:
        """Return what the agent left of most of a limit, or an empty text."""
        taken = (await self.own_sandbox.machine.usage()).mostly_taken_since(self.usage_at_start)
        found = [f"{share:.0%} of its {name}" for name, share in taken.items()]
        return f"processes that the agent left running used {' and '.join(found)}" if found else ""

    async def _evaluated(self, trajectory: bytes, ask_judge: AskJudge | None, *, has_room: bool) -> tuple[bytes, bytes]:
        """Run the evaluator beside its model, and return its result file and its printed output."""
        clock = TrialClock(self.options.grading_seconds)
        if ask_judge is None or self.options.asks_directly:
            return await self._run_evaluator(trajectory, self.variables, clock, has_room=has_room)
        image = self.options.image_of(self.task.task_id)
        room, model = self.room, self.variables["LITELLM_MODEL"]
        async with open_route(model, image, room, self.own_sandbox.machine, ask_judge, clock) as route:
            try:
                result = await self._run_evaluator(trajectory, route.variables, clock, has_room=has_room)
            except GraderError:
                await route.check()
                raise
            await route.check()
            return result

    async def _run_evaluator(
        self, trajectory: bytes, variables: Mapping[str, str], clock: TrialClock, *, has_room: bool
    ) -> tuple[bytes, bytes]:
        """Run the evaluator. Existing outputs are removed first."""
        machine, outputs = self.own_sandbox.machine, self.options.outputs
        await machine.run(["rm", "-rf", "--", outputs], timeout_s=_STEP_S, user="0", work_dir="/")
        await machine.run(["mkdir", "-p", "--", outputs], timeout_s=_STEP_S, user="0", work_dir="/")
        await machine.put(outputs, {self._file("traj"): trajectory})
        read, written = (posixpath.join(outputs, self._file(kind)) for kind in ("traj", "eval"))
        result = await machine.run(
            [*self.options.evaluator, "--trajectory_path", read, "--result_path", written],
            timeout_s=self.options.grading_seconds,
            clock=clock,
            user="0",
            work_dir=self.options.work_dir,
            environment={**variables, "DECRYPTION_KEY": self.options.decryption_key},
        )
        _check_ended(result, self.options.grading_seconds, has_room=has_room)
        looked = await machine.run(
            ["/bin/sh", "-c", free_space_command("/", self.options.work_dir)], timeout_s=_STEP_S, user="0"
        )
        if self.task.task_id not in _RUNNING:
            await machine.end_all()
        said = (result.stdout + result.stderr).decode(errors="replace")
        if is_full(said, looked.stdout.decode(), quoted=trajectory.decode()):
            raise GraderError(f"the disk was full while the evaluator ran; {last_words(result)}", kind="disk_full")
        self._check_words(result)
        try:
            found = await machine.get(written, _RESULT)
        except FileNotFoundError:
            found = {}
        if len(found) != 1:
            raise GraderError(f"the evaluator left no result at {written}; {last_words(result)}", kind="no_result")
        return found[self._file("eval")], _without_key(result.stdout + result.stderr, variables)

    def _check_words(self, result: ExecResult) -> None:
        """Reject an evaluator that continued without its model: published ones turn such an error into a false."""
        pattern = self.options.failure_words
        found = (
            re.search(pattern, (result.stdout + b"\n" + result.stderr).decode(errors="replace")) if pattern else None
        )
        if found:
            raise GraderError(
                f"the evaluator could not ask its model ({found[0]}) and continued; {self._about_model()}; "
                f"{last_words(result)}",
                kind="swallowed_error",
            )

    def _about_model(self) -> str:
        if not self.variables:
            return 'name it: [grader] kind = "judge" with grader.judge.model and grader.judge.api_key_env'
        return "check that the container reaches it" if self.options.asks_directly else "it did not use its route"

    def _file(self, kind: str) -> str:
        """Return a file name in the original benchmark's form."""
        return f"{kind}_{self.task.task_id}.json"


def _kept(trajectory: bytes) -> Artifact:
    return Artifact(name="trajectory.json", role="trajectory", media_type=_JSON, content=trajectory)


def _without_key(said: bytes, variables: Mapping[str, str]) -> bytes:
    """Return the evaluator's printed output without the API key that it was given.

    Its result file is not changed.
    """
    key = variables.get("LITELLM_API_KEY", "").encode()
    return said.replace(key, b"[redacted]") if key else said


def _check_ended(result: ExecResult, limit_s: float, *, has_room: bool) -> None:
    """Check that an evaluator ended normally, and met no limit of this machine.

    Published evaluators turn any error into a false and go on, so one that ended well is no better, unless the agent
    left it no room.
    """
    if result.is_timeout:
        raise GraderError(f"the evaluator took more than {limit_s:g} s; {last_words(result)}", kind="timeout")
    if result.exit_code == 0 and not has_room:
        return
    if result.is_out_of_memory:
        raise GraderError(f"the evaluator ran out of memory; {last_words(result)}", kind="out_of_memory")
    if result.is_out_of_processes:
        raise GraderError(
            f"the evaluator needed more processes than limits.processes; {last_words(result)}", kind="out_of_processes"
        )
    if result.exit_code != 0:
        raise GraderError(f"the evaluator ended with {result.exit_code}; {last_words(result)}", kind="crash")


def last_words(result: ExecResult) -> str:
    """Return the end of a program's output as one line."""
    words = " ".join((result.stdout + b" " + result.stderr).decode(errors="replace").split())
    return f"its last output: {words[-_SAID_CHARACTERS:]}" if words else "it printed nothing"


_LIMITS = FileLimits(total_bytes=512 << 20)
_REMOVE_S = 60.0


async def take_out(machine: DockerMachine, paths: Sequence[str]) -> dict[str, bytes]:
    """Remove folders from a container and return them as archives by path. Missing folders are skipped."""
    taken = {}
    for path in paths:
        try:
            taken[path] = await machine.take(path, _LIMITS)
        except FileNotFoundError:
            continue
        await _remove(machine, path)
    return taken


async def put_back(machine: DockerMachine, taken: Mapping[str, bytes]) -> None:
    """Put back the folders that :func:`take_out` removed, replacing anything in their place."""
    for path, archive in taken.items():
        await _remove(machine, path)
        await machine.put_back(posixpath.dirname(path), archive)


async def _remove(machine: DockerMachine, path: str) -> None:
    result = await machine.run(["rm", "-rf", "--", path], timeout_s=_REMOVE_S, user="0", work_dir="/")
    if result.exit_code != 0:
        said = result.stderr.decode(errors="replace").strip()
        raise SandboxBoundaryError(f"{path} of a container cannot be removed: {said}", kind="hiding_failed")


def trajectory_of(prompt: str, calls: Sequence[Mapping[str, Any]], final_answer: str) -> bytes:
    """Return the trajectory that an evaluator searches for words: prompt, calls with their results, final answer.

    In the original an agent reads its task from a file, so that the words of the prompt are in the trajectory of every
    agent that did anything, and not in that of one that did nothing.
    """
    read = [{"source": "user", "action": "message", "content": prompt}] if calls else []
    return canonical_json([*read, *calls, {"source": "agent", "action": "finish", "content": final_answer}])
