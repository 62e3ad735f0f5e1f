"""One open environment of one trial: the row's enabled tools on running servers, and the grading of its answer."""

import hashlib
import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from recorder.canonical import canonical_json
from recorder.values import Task
from runners.benchmarks.mcp_atlas.cells import RecordedCall
from runners.benchmarks.mcp_atlas.claims import PASS_COVERAGE, ClaimScore, coverage_of, match_left
from runners.benchmarks.mcp_atlas.confinement import DATA_MOUNT
from runners.benchmarks.mcp_atlas.judge import ClaimJudge
from runners.benchmarks.mcp_atlas.server import RunningServer
from runners.benchmarks.mcp_atlas.world import mount_pattern, translated
from runners.benchmarks.protocol import Artifact, AskJudge, CheckpointResult, Grade, ToolResult
from runners.conversation import ToolDefinition
from runners.deliverables import Deliverables
from runners.errors import GraderError
from runners.grading import grade_apart

MAX_RESULT_CHARACTERS = 1 << 20


class OfferedTool(msgspec.Struct, frozen=True):
    """One enabled tool: the server that has it, and the name that it has there."""

    server: RunningServer
    tool: str


class McpAtlasEnvironment:
    """The open environment of one trial.

    Args:
        task: The task; its checkpoints are the row's claims.
        offered: The tools by the names of the row.
        recorded: The reference's calls, to compare live results with.
        judge: Grades claims with a model; None for the deterministic matcher.
        data_at: Where the data really lies, for servers that are not confined; None when it is at ``/data``.
        facts: What is recorded of the servers.
    """

    tools_are_servers: Literal[True] = True

    def __init__(
        self,
        task: Task,
        offered: dict[str, OfferedTool],
        recorded: Sequence[RecordedCall],
        judge: ClaimJudge | None,
        data_at: str | None = None,
        facts: tuple[Artifact, ...] = (),
    ) -> None:
        self._task = task
        self._offered = offered
        self._judge = judge
        self._data_at = data_at
        self.facts = facts
        self._recorded: dict[bytes, list[str]] = {}
        for call in recorded:
            if call.result is not None:
                self._recorded.setdefault(_call_key(call.name, call.arguments), []).append(call.result)
        self.tools = tuple(_definition(name, tool) for name, tool in offered.items())

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call a tool on its server; the result says which process ran it and whether it equals the reference's.

        Raises:
            ToolBoundaryError: The server died or gave no answer in time.
        """
        offered = self._offered.get(name)
        if offered is None:
            return ToolResult(text=f"There is no tool {name!r} here.", is_error=True)
        sent = arguments if self._data_at is None else translated(arguments, mount_pattern(), self._data_at)
        answer = await offered.server.call(offered.tool, sent)
        text = answer.text
        if self._data_at is not None:
            text = translated(text, re.compile(re.escape(self._data_at)), DATA_MOUNT)
        reference = self._take_reference(name, arguments)
        return ToolResult(
            text=_bounded(text),
            is_error=answer.is_error,
            server=offered.server.name,
            server_pid=offered.server.pid,
            reference_result_sha256=None if reference is None else hashlib.sha256(reference.encode()).hexdigest(),
            is_same_as_reference=None if reference is None else reference == text,
        )

    async def grade(self, final_answer: str, ask_judge: AskJudge | None) -> Grade:
        """Score every claim against the final answer; what the agent left in the data does not count.

        Raises:
            GraderError: A judge is wanted and there is none, or it gave no usable verdict.
        """
        if self._judge is None or not final_answer.strip():
            left = Deliverables(None, final_answer)
            return await grade_apart(grade_claims, left, self._task, checkpoints=self._task.checkpoints)
        if ask_judge is None:
            raise GraderError(
                "the claim judge has no model to ask; set [grader.judge]", kind="no_judge", is_retry_owed=False
            )
        claims = [checkpoint.label for checkpoint in self._task.checkpoints]
        return _grade(self._task, await self._judge.score(claims, final_answer, ask_judge))

    def _take_reference(self, name: str, arguments: dict[str, Any]) -> str | None:
        """Return the recorded result of the same call; of several equal calls each is used once, the last one on."""
        results = self._recorded.get(_call_key(name, arguments))
        if not results:
            return None
        return results.pop(0) if len(results) > 1 else results[0]


def grade_claims(left: Deliverables, task: Task) -> Grade:
    """Grade a final answer with the matcher: what a child is called with."""
    return _grade(task, match_left(left, [checkpoint.label for checkpoint in task.checkpoints], task.prompt))


def _grade(task: Task, scores: Sequence[ClaimScore]) -> Grade:
    coverage = coverage_of([score.score for score in scores])
    results = tuple(
        CheckpointResult(checkpoint_id=checkpoint.checkpoint_id, score=score.score, details=score.reason)
        for checkpoint, score in zip(task.checkpoints, scores, strict=True)
    )
    return Grade(results=results, is_success=coverage >= PASS_COVERAGE, final_score=coverage, final_total=1.0)


def _call_key(name: str, arguments: dict[str, Any]) -> bytes:
    return canonical_json([name, arguments])


def _definition(name: str, offered: OfferedTool) -> ToolDefinition:
    listed = next(tool for tool in offered.server.tools if tool.name == offered.tool)
    return ToolDefinition(name=name, description=listed.description or "", input_schema=dict(listed.input_schema))


def _bounded(text: str) -> str:
    if len(text) <= MAX_RESULT_CHARACTERS:
        return text
    half = MAX_RESULT_CHARACTERS // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half} characters left out …]\n{text[-half:]}"
