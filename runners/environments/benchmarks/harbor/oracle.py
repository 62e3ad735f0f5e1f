"""The gate in front of a task: its reference solution must get full rewards here before an agent's trial counts.

Tests that install something from the internet give a reward of 0, and no error, where there is none. With the gate such
a task is refused as unfit here, and nobody is scored 0 for it. The internet may be gone later, so where a task has a
network, a trial that is no success counts only if the solution passes once more after it.
"""

import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.harbor.compose import COMPOSE
from lhaw_record.runners.environments.benchmarks.harbor.container import HarborVerdict, last_printed
from lhaw_record.runners.environments.benchmarks.harbor.environment import (
    ContainerSetup,
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
from lhaw_record.runners.environments.sandboxes.harbor_machine import HarborSandboxProvider

_PASSED = "the reference solution passes\n"
_OVER = -1.0  # the time of a pass that counts no more


class Oracle(msgspec.Struct, frozen=True, kw_only=True):
    """How the reference solution of one task is tried.

    Attributes:
        task: The task.
        key: The digest of all that a pass depends on; None if a pass counts for its run only.
        verdict: Returns the verdict on a fresh environment: with the solution, or as an agent that does nothing leaves
            it. Raises what grading raises.
    """

    task: HarborTask
    key: str | None
    verdict: Callable[[bool], Awaitable[HarborVerdict]]


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
        self._passes: dict[str, float] = {}
        self._refusals: dict[str, SandboxBoundaryError] = {}

    async def pass_through(self, oracle: Oracle, since: float = 0.0) -> None:
        """Return if the task's solution passes here, after running it if that is not known."""
        task_id = oracle.task.task_id
        async with self._turns.setdefault(task_id, anyio.Lock()):
            if task_id in self._refusals:
                raise self._refusals[task_id]
            place = self._folder / oracle.key if oracle.key else None
            if place is not None and await anyio.to_thread.run_sync(place.is_file):
                return
            has_passed, began = task_id in self._passes, anyio.current_time()
            if has_passed and self._passes[task_id] >= since:
                return
            try:
                await _check(oracle)
            except SandboxBoundaryError as error:
                if error.kind == "oracle_fails" and has_passed:
                    self._passes[task_id] = _OVER
                elif error.kind == "oracle_fails":
                    self._refusals[task_id] = error
                raise
            self._passes[task_id] = began
            if place is not None:
                await anyio.to_thread.run_sync(_remember, place)


def oracle_of(setup: ContainerSetup, without: Sequence[str] = ()) -> Oracle:
    """Return how the reference solution of a task is tried in its containers."""
    images = setup.images
    names = ("task.toml", "checkpoints.toml", "tests", "solution", STEPS)
    key = digest(
        {
            "files": file_digests(setup.task.folder, names),
            "images": [images.ids[each] for each in (images.agent, *images.verifiers)],
            "network": [setup.network, *setup.verifier_networks],
            "memory_mb": setup.limits.memory_mb,
            "processes": setup.limits.processes,
            **(_services_key(setup, without) if setup.compose else {}),
        }
    )
    is_remembered = not setup.has_network and not isinstance(setup.provider, HarborSandboxProvider)
    return Oracle(task=setup.task, key=key if is_remembered else None, verdict=partial(_verdict, setup))


def _services_key(setup: ContainerSetup, without: Sequence[str]) -> dict[str, Any]:
    return {
        "compose": file_digests(setup.task.folder, (COMPOSE,)),
        "services": {name: setup.images.ids[image] for name, image in setup.images.services.items()},
        "beside": beside_digests(setup.task, without),
    }


async def _verdict(setup: ContainerSetup, solves: bool) -> HarborVerdict:
    async with AsyncExitStack() as closing:
        provider = await closing.enter_async_context(room_of(setup))
        container = await closing.enter_async_context(open_task(setup, provider))
        steps = Steps(setup.within(provider), container, closing)
        step: HarborTask | None = steps.current if solves else None
        while step is not None:
            await container.solve(step)
            step = await steps.next()
        return await steps.verdict()


async def _check(oracle: Oracle) -> None:
    task = oracle.task
    try:
        found = await oracle.verdict(True)
        grade = grade_of(task, found)
    except GraderError as error:
        raise _unfit(str(error)) from error
    if not grade.is_success:
        rewards = ", ".join(f"{name} {reward:g}" for name, reward in found.rewards.items())
        raise _unfit(f"{task.task_id}: its rewards are {rewards}; the tests said at last: {last_printed(found.stdout)}")


def _unfit(what: str) -> SandboxBoundaryError:
    return SandboxBoundaryError(
        f"the reference solution does not pass here, so the task is unfit on this machine: {what}; 'lhaw-record "
        "harbor FOLDER' checks every task, and tests that need the internet need a network with it",
        kind="oracle_fails",
        is_retry_owed=False,
    )


def _remember(place: Path) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(_PASSED, encoding="utf-8")


def passes_folder() -> Path:
    """Return the folder of this user in which passes are remembered."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "lhaw-record" / "harbor-oracles"
