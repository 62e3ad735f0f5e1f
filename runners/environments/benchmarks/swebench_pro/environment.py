"""One trial of an instance: the agent works in a container, then its patch is tested in a fresh container."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import msgspec

from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, AskJudge, Environment, Grade, ToolResult
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import Instance, task_of
from lhaw_record.runners.environments.benchmarks.swebench_pro.patch import AgentRepository, NoPatch
from lhaw_record.runners.environments.benchmarks.swebench_pro.scoring import checkpoint_results, verdict_of
from lhaw_record.runners.environments.benchmarks.swebench_pro.scripts import Scripts
from lhaw_record.runners.environments.benchmarks.swebench_pro.suite import SuiteRun, Tester
from lhaw_record.runners.environments.benchmarks.workspace_tools import WORKSPACE_TOOLS, call_workspace_tool
from lhaw_record.runners.environments.grading.confined_grading import grade_without_verdict
from lhaw_record.runners.environments.sandboxes.docker.machine import open_machine
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import ProgramSandbox, Sandbox, SandboxLimits


class SuitePlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a patch is tested. ``provider`` uses the instance's image, and ``limits`` apply to the fresh container."""

    instance: Instance
    scripts: Scripts
    provider: DockerSandboxProvider
    limits: SandboxLimits
    timeout_s: float


@dataclass(eq=False)
class SwebenchProEnvironment(Environment):
    """The open container of an agent.

    Args:
        plan: How the agent's patch is tested.
        own_sandbox: The container.
        repository: The repository in the container.
        closing: Closes the container before the tests begin, so that a trial never holds the memory of two containers.
        facts: Artifacts that describe the environment.
        sandbox: The container as the place of a program, or None for the native agent.
        patch: The agent's patch, once it is taken.
    """

    tools = WORKSPACE_TOOLS
    bounds_its_grading = True

    plan: SuitePlan
    own_sandbox: Sandbox
    repository: AgentRepository
    closing: AsyncExitStack
    facts: tuple[Artifact, ...]
    sandbox: ProgramSandbox | None = None
    patch: bytes | NoPatch | None = None

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a workspace tool in the agent's container."""
        return await call_workspace_tool(self.own_sandbox, name, arguments)

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Take the agent's patch, close its container, and test the patch in a fresh container."""
        del final_answer, ask_judge  # only the repository counts
        if self.patch is None:
            try:
                self.patch = await self.repository.take_patch()
            except NoPatch as error:
                self.patch = error
            await self.closing.aclose()
        if isinstance(self.patch, NoPatch):
            run = SuiteRun(statuses={}, refusal=f"the agent left no repository to take a patch from: {self.patch}")
            return self._graded(b"", run)
        try:
            return self._graded(self.patch, await self._tested(self.patch))
        except GraderError as error:
            if self.plan.instance.patch is None:
                raise
            checkpoints, other = task_of(self.plan.instance).checkpoints, "the published patch"
            grade = await grade_without_verdict(error, checkpoints, self._still_passes, other)
            return msgspec.structs.replace(grade, artifacts=(_kept(self.patch),))

    async def _still_passes(self) -> bool:
        """Return whether the tests pass now on the published patch."""
        instance = self.plan.instance
        try:
            run = await self._tested((instance.patch or "").encode())
        except GraderError:
            return False
        return verdict_of(instance, run.statuses).is_success

    async def _tested(self, patch: bytes) -> SuiteRun:
        """Return what the tests say of a patch in a fresh container."""
        plan = self.plan
        async with open_machine(plan.provider.image, plan.limits, plan.provider.room) as machine:
            tester = Tester(
                machine,
                plan.instance,
                plan.scripts,
                work_dir=plan.provider.image.work_dir,
                timeout_s=plan.timeout_s,
                has_network=plan.provider.image.network != "none",
            )
            return await tester.test(patch)

    def _graded(self, patch: bytes, run: SuiteRun) -> Grade:
        instance = self.plan.instance
        verdict = verdict_of(instance, run.statuses)
        results = checkpoint_results(instance, run.statuses, run.refusal or "the run has no result for it")
        about = {
            "is_patch_applied": run.refusal is None,
            "refusal": run.refusal,
            "exit_code": run.exit_code,
            "fail_to_pass": verdict.fail_to_pass,
            "pass_to_pass": verdict.pass_to_pass,
        }
        return Grade(
            results=results,
            is_success=verdict.is_success,
            artifacts=(
                _kept(patch),
                Artifact.of_json("tests.json", "test_results", about),
                *(
                    Artifact(name=name, role="test_output", media_type="text/plain", content=content)
                    for name, content in run.logs.items()
                ),
            ),
        )


def _kept(patch: bytes) -> Artifact:
    return Artifact(name="patch.diff", role="patch", media_type="text/x-diff", content=patch)
