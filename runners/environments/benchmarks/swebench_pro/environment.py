"""One trial of an instance: the agent works in a container, then its patch is tested in a fresh container."""

from contextlib import AsyncExitStack
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, AskJudge, Environment, Grade, ToolResult
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import Instance
from lhaw_record.runners.environments.benchmarks.swebench_pro.patch import AgentRepository, NoPatch
from lhaw_record.runners.environments.benchmarks.swebench_pro.scoring import checkpoint_results, verdict_of
from lhaw_record.runners.environments.benchmarks.swebench_pro.scripts import Scripts
from lhaw_record.runners.environments.benchmarks.swebench_pro.suite import SuiteRun, Tester
from lhaw_record.runners.environments.benchmarks.workspace_tools import WORKSPACE_TOOLS, call_workspace_tool
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


class SwebenchProEnvironment(Environment):
    """The open container of an agent.

    Args:
        plan: How the agent's patch is tested.
        sandbox: The container.
        repository: The repository in the container.
        closing: Closes the container before the tests begin, so that a trial never holds the memory of two containers.
        facts: Artifacts that describe the environment.
        program_sandbox: The container as the place of a program, or None for the native agent.
    """

    tools = WORKSPACE_TOOLS
    bounds_its_grading = True

    def __init__(
        self,
        plan: SuitePlan,
        sandbox: Sandbox,
        repository: AgentRepository,
        closing: AsyncExitStack,
        facts: tuple[Artifact, ...],
        program_sandbox: ProgramSandbox | None = None,
    ) -> None:
        self.sandbox = program_sandbox
        self.facts = facts
        self._own_sandbox = sandbox
        self._plan = plan
        self._repository = repository
        self._closing = closing
        self._patch: bytes | NoPatch | None = None

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Execute a workspace tool in the agent's container."""
        return await call_workspace_tool(self._own_sandbox, name, arguments)

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Take the agent's patch, close its container, and test the patch in a fresh container."""
        del final_answer, ask_judge  # only the repository counts
        if self._patch is None:
            try:
                self._patch = await self._repository.take_patch()
            except NoPatch as error:
                self._patch = error
            await self._closing.aclose()
        if isinstance(self._patch, NoPatch):
            run = SuiteRun(statuses={}, refusal=f"the agent left no repository to take a patch from: {self._patch}")
            return self._graded(b"", run)
        plan = self._plan
        async with open_machine(plan.provider.image, plan.limits, plan.provider.room) as machine:
            tester = Tester(
                machine,
                plan.instance,
                plan.scripts,
                work_dir=plan.provider.image.work_dir,
                timeout_s=plan.timeout_s,
                has_network=plan.provider.image.network != "none",
            )
            run = await tester.test(self._patch)
        return self._graded(self._patch, run)

    def _graded(self, patch: bytes, run: SuiteRun) -> Grade:
        instance = self._plan.instance
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
                Artifact(name="patch.diff", role="patch", media_type="text/x-diff", content=patch),
                Artifact(
                    name="tests.json",
                    role="test_results",
                    media_type="application/json",
                    content=canonical_json(about),
                ),
                *(
                    Artifact(name=name, role="test_output", media_type="text/plain", content=content)
                    for name, content in run.logs.items()
                ),
            ),
        )
