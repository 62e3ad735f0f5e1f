"""The gate in front of a task: its reference solution must get full rewards here before an agent's trial counts.

Tests that install something from the internet give a reward of 0, and no error, where there is none. With the gate such
a task is refused as unfit here, and nobody is scored 0 for it. The internet may be gone later, so where a task has a
network, a trial that is no success counts only if the solution passes once more after it.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.files.disk import Disk, publish
from lhaw_record.recorder.resources import user_folder
from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.environments.benchmarks.harbor.compose import COMPOSE
from lhaw_record.runners.environments.benchmarks.harbor.container import HarborVerdict, last_printed
from lhaw_record.runners.environments.benchmarks.harbor.environment import (
    ContainerSetup,
    OraclePass,
    Steps,
    grade_of,
    open_task,
    room_of,
)
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import (
    STEPS,
    HarborTask,
    beside_digests,
    file_digests,
)
from lhaw_record.runners.environments.grading.confined_grading import grade_without_verdict
from lhaw_record.runners.environments.grading.grade import Grade

_OVER = -1.0  # the time of a pass that counts no more
_RULES = 2  # counts up when a pass means something else


class Oracle(msgspec.Struct, frozen=True, kw_only=True):
    """How the reference solution of one task is tried.

    Attributes:
        task: The task.
        key: The digest of all that a pass depends on; None if a pass counts for its run only.
        verdict: Returns the verdict on a fresh environment: with the solution, in which some words are replaced, or
            (None) as an agent that does nothing leaves it; what it left running is ended or kept. Raises what grading
            raises.
    """

    task: HarborTask
    key: str | None
    verdict: Callable[[Mapping[str, str] | None, bool], Awaitable[HarborVerdict]]


class OracleGate:
    """Lets the trials of a task begin once its reference solution has passed on this machine.

    A pass without a network is remembered by content, for later runs and for other processes; any other pass, and the
    failure of a task that has not passed before, for this run only.

    Args:
        folder: Where passes are remembered.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._turns: dict[str, anyio.Lock] = {}
        self._passes: dict[str, tuple[float, OraclePass]] = {}
        self._refusals: dict[str, SandboxBoundaryError] = {}

    async def pass_through(self, oracle: Oracle, since: float = 0.0) -> OraclePass:
        """Return what the task's solution showed when it passed here; run it first if that is not known."""
        task_id = oracle.task.task_id
        async with self._turns.setdefault(task_id, anyio.Lock()):
            if task_id in self._refusals:
                raise self._refusals[task_id]
            place = self._folder / oracle.key if oracle.key else None
            if place is not None and (known := await anyio.to_thread.run_sync(_remembered, place)) is not None:
                return known
            has_passed, began = task_id in self._passes, anyio.current_time()
            if has_passed and self._passes[task_id][0] >= since:
                return self._passes[task_id][1]
            try:
                found = await _check(oracle)
            except SandboxBoundaryError as error:
                if error.kind == "oracle_fails" and has_passed:
                    self._passes[task_id] = (_OVER, OraclePass())
                elif error.kind == "oracle_fails":
                    self._refusals[task_id] = error
                raise
            self._passes[task_id] = (began, found)
            if place is not None:
                await anyio.to_thread.run_sync(_remember, place, found)
            return found


def oracle_of(setup: ContainerSetup, without: Sequence[str] = ()) -> Oracle:
    """Return how the reference solution of a task is tried in its containers."""
    images = setup.images
    names = ("task.toml", "checkpoints.toml", "tests", "solution", STEPS)
    key = digest(
        {
            "rules": _RULES,
            "keeps_processes": setup.keeps_processes,
            "files": file_digests(setup.task.folder, names),
            "images": [images.ids[each] for each in (images.agent, *images.verifiers)],
            "network": [setup.network, *setup.verifier_networks],
            "memory_mb": setup.limits.memory_mb,
            "processes": setup.limits.processes,
            **(_services_key(setup, without) if setup.compose else {}),
        }
    )
    return Oracle(task=setup.task, key=None if setup.has_network else key, verdict=partial(_verdict, setup))


def _services_key(setup: ContainerSetup, without: Sequence[str]) -> dict[str, Any]:
    return {
        "compose": file_digests(setup.task.folder, (COMPOSE,)),
        "services": {name: setup.images.ids[image] for name, image in setup.images.services.items()},
        "beside": beside_digests(setup.task, without),
    }


async def _verdict(setup: ContainerSetup, words: Mapping[str, str] | None, keeps: bool) -> HarborVerdict:
    setup = msgspec.structs.replace(setup, keeps_processes=keeps or setup.keeps_processes)
    async with AsyncExitStack() as closing:
        provider = await closing.enter_async_context(room_of(setup))
        container = await closing.enter_async_context(open_task(setup, provider))
        steps = Steps(setup.within(provider), container, closing)
        step: HarborTask | None = None if words is None else steps.current
        while step is not None:
            await container.solve(step, words or {})
            step = await steps.next()
        return await steps.verdict()


async def _check(oracle: Oracle) -> OraclePass:
    found, keeps, problem = await solved(oracle, {})
    if problem is not None or found is None:
        raise _unfit(str(problem))
    return OraclePass(keeps_processes=keeps, outlived=found.outlived > 0)


async def solved(oracle: Oracle, words: Mapping[str, str]) -> tuple[HarborVerdict | None, bool, str | None]:
    """Run the solution with some words replaced. If its tests fail, run it once more and keep what it left running.

    Return the verdict, whether processes were kept, and why the solution does not pass.
    """
    found, problem = await _tried(oracle, words, keeps=False)
    keeps = problem is not None and (found is None or found.left > 0)
    if keeps:
        found, problem = await _tried(oracle, words, keeps=True)
    return found, keeps, problem


async def without_verdict(oracle: Oracle, error: GraderError) -> Grade:
    """Return the grade of an agent on whose work the tests gave no verdict, if the solution still passes."""

    async def still_passes() -> bool:
        return (await solved(oracle, {}))[2] is None

    return await grade_without_verdict(error, oracle.task.checkpoints, still_passes, "the reference solution")


async def _tried(oracle: Oracle, words: Mapping[str, str], *, keeps: bool) -> tuple[HarborVerdict | None, str | None]:
    task = oracle.task
    try:
        found = await oracle.verdict(words, keeps)
        grade = grade_of(task, found, OraclePass(outlived=True))
    except GraderError as error:
        return None, str(error)
    if grade.is_success:
        return found, None
    rewards = ", ".join(f"{name} {reward:g}" for name, reward in found.rewards.items())
    said = last_printed(found.stdout)
    return found, f"{task.task_id}: its rewards are {rewards}; the last output of the tests: {said}"


def _unfit(what: str) -> SandboxBoundaryError:
    return SandboxUnfit(
        f"the reference solution does not pass here, so the task is unfit on this machine: {what}; 'lhaw-record "
        f"harbor FOLDER' checks every task; give tests that need the internet a network",
        kind="oracle_fails",
    )


def _remembered(place: Path) -> OraclePass | None:
    try:
        return msgspec.json.decode(place.read_bytes(), type=OraclePass)
    except (FileNotFoundError, msgspec.DecodeError):
        return None


def _remember(place: Path, found: OraclePass) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    publish(Disk(), place, msgspec.json.encode(found))


def passes_folder() -> Path:
    """Return the folder of this user in which passes are remembered."""
    return user_folder("cache") / "harbor-oracles"
