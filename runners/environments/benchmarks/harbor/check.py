"""Check which tasks of a folder can run on this machine, with their reference solutions and without any model."""

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from lhaw_record.runners.base.errors import BoundaryError
from lhaw_record.runners.environments.benchmarks.harbor.benchmark import HarborBenchmark
from lhaw_record.runners.environments.benchmarks.harbor.container import last_printed
from lhaw_record.runners.environments.benchmarks.harbor.environment import grade_of
from lhaw_record.runners.environments.benchmarks.harbor.oracle import Oracle
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.harbor_machine import harbor_provider
from lhaw_record.runners.environments.sandboxes.kinds import provider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits, SandboxProvider

CHECK_COLUMNS = ("task_id", "is_fit", "oracle", "empty", "reason")


async def check(
    benchmark: HarborBenchmark,
    report: Callable[[str], None],
    environment: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> AsyncIterator[dict[str, Any]]:
    """Yield one row for each task: the rewards of its solution and of an agent that does nothing, and why it is
    unfit.
    """
    sandbox: SandboxProvider
    if environment is not None:
        sandbox = harbor_provider(environment, options or {}, report)
    else:
        sandbox = await provider(benchmark.needs_sandbox or "auto", DockerImage(name=""), report)
    settings = EnvironmentSettings(sandbox=sandbox, limits=SandboxLimits())
    runnable = {task.task_id for task in benchmark.tasks()}
    for task_id in sorted({*runnable, *benchmark.left_out()}):
        row: dict[str, Any] = {"task_id": task_id, "is_fit": False, "oracle": None, "empty": None}
        if task_id not in runnable:
            yield {**row, "reason": benchmark.why_not(task_id)}
            continue
        report(f"checking {task_id}")
        try:
            oracle = await benchmark.oracle(task_id, settings)
        except BoundaryError as error:
            yield {**row, "reason": str(error)}
            continue
        yield {**row, **await _checked(oracle)}


async def _checked(oracle: Oracle) -> dict[str, Any]:
    """Return whether a task is fit: its solution gets full rewards, and doing nothing does not."""
    reasons, found = [], {}
    for name in ("oracle", "empty"):
        if name == "oracle" and not oracle.task.has_solution:
            reasons.append("it has no solution, so nothing shows that its tests can pass here")
            continue
        try:
            verdict = await oracle.verdict(name == "oracle")
            found[name] = " ".join(f"{key}={reward:g}" for key, reward in verdict.rewards.items())
            is_success = grade_of(oracle.task, verdict).is_success
        except BoundaryError as error:
            reasons.append(f"{name}: {error}")
            continue
        if is_success != (name == "oracle"):
            what = "doing nothing is a success" if is_success else "its solution does not pass here"
            reasons.append(f"{what}; the tests said at last: {last_printed(verdict.stdout)}")
    return {**found, "is_fit": not reasons, "reason": "; ".join(reasons)}
