"""Check which tasks of a folder can run on this machine, with their reference solutions and without any model."""

from collections.abc import AsyncIterator, Callable
from typing import Any

from lhaw_record.runners.base.errors import BoundaryError
from lhaw_record.runners.environments.benchmarks.harbor.benchmark import HarborBenchmark
from lhaw_record.runners.environments.benchmarks.harbor.container import HarborVerdict, last_printed
from lhaw_record.runners.environments.benchmarks.harbor.environment import grade_of
from lhaw_record.runners.environments.benchmarks.harbor.oracle import Oracle, solved
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import NO_WORDS
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.variants_file import parameters_of
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.kinds import provider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

CHECK_COLUMNS = ("task_id", "is_fit", "oracle", "empty", "guesses", "reason")


async def check(benchmark: HarborBenchmark, report: Callable[[str], None]) -> AsyncIterator[dict[str, Any]]:
    """Yield one row for each task: the rewards of its solution and of an agent that does nothing, and why it is
    unfit.
    """
    sandbox = await provider(benchmark.needs_sandbox or "auto", DockerImage(name=""), report)
    settings = EnvironmentSettings(sandbox=sandbox, limits=SandboxLimits())
    runnable = {task.task_id for task in benchmark.tasks()}
    for task_id in sorted({*runnable, *benchmark.left_out()}):
        row: dict[str, Any] = {"task_id": task_id, "is_fit": False, "oracle": None, "empty": None, "guesses": ""}
        if task_id not in runnable:
            yield {**row, "reason": benchmark.why_not(task_id)}
            continue
        report(f"checking {task_id}")
        try:
            row |= await _checked(await benchmark.oracle(task_id, settings))
        except (BoundaryError, OSError) as error:  # of this task's files, for instance, which one may not read
            row["reason"] = f"{benchmark.folder_of(task_id)}: {error}"
        yield row


async def _checked(oracle: Oracle) -> dict[str, Any]:
    """Return whether a task is fit: its solution gets full rewards, and doing nothing does not.

    A value of a variant that may be wrong in the solution without a failure tells nothing of who knows it; such
    ``guesses`` are reported, and the task stays fit.
    """
    reasons, found, guesses = list[str](), dict[str, str](), list[str]()
    try:
        verdict = await oracle.verdict(None, False)
        found["empty"] = _shown(verdict)
        if grade_of(oracle.task, verdict).is_success:
            reasons.append(f"an idle agent succeeds; the last output of the tests: {last_printed(verdict.stdout)}")
    except BoundaryError as error:
        reasons.append(f"empty: {error}")
    if not oracle.task.has_solution:
        reasons.insert(0, "it has no solution, so nothing shows that its tests can pass here")
        return {**found, "is_fit": False, "reason": "; ".join(reasons)}
    try:
        solution, _, problem = await solved(oracle, NO_WORDS)
        found |= {"oracle": _shown(solution)} if solution else {}
        if problem is not None:
            reasons.insert(0, f"its solution does not pass here: {problem}")
        for each in parameters_of(oracle.task.variants) if problem is None else ():
            for guess in each.guesses:
                if (await solved(oracle, {each.written: guess}))[2] is None:
                    guesses.append(f"{guess!r} for {each.written!r} passes too")
    except BoundaryError as error:
        reasons.insert(0, f"oracle: {error}")
    return {**found, "is_fit": not reasons, "guesses": "; ".join(guesses), "reason": "; ".join(reasons)}


def _shown(verdict: HarborVerdict) -> str:
    return " ".join(f"{key}={reward:g}" for key, reward in verdict.rewards.items())
