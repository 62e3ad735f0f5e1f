"""Making a synthetic store: the run's own events here, the trials in writer processes, sealed when this returns."""

import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import msgspec
from anyio.abc import Process
from anyio.streams.text import TextReceiveStream

from lhaw_record.recorder.errors import RecordingFailed, StoreError
from lhaw_record.recorder.events import AnyEvent, RunFinished, RunStarted, TaskRegistered, VariantGenerated
from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store, check_experiment_id
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.recorder.writing.stream import Stream
from tests.synthetic.design import Design
from tests.synthetic.trials import budget_of

ORACLES = "oracles"
"""What a writer says when its ``full`` trials are there."""


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """What was made."""

    events: int
    trials: int
    tasks: int
    variants: int
    seconds: float


def make_store(
    root: Path,
    design: Design,
    *,
    writers: int = 1,
    on_events: Callable[[int], None] = lambda _: None,
) -> Made:
    """Write a synthetic experiment into a store. Equal designs give equal events, but for times, writers and digests.

    Args:
        root: The store's directory, made if it is not there.
        design: What to write.
        writers: Processes that write trials.
        on_events: Told how many events there are, every now and then.

    Raises:
        StoreError: The directory is something else, or the store has this experiment already.
        RecordingFailed: The disk refuses.
    """
    began_s = time.monotonic()
    store, experiment_id = create_store(root), design.name
    with store.hold_experiment(check_experiment_id(experiment_id)):
        recover(store, experiment_id=experiment_id)
        if any((store.events_dir / f"experiment={experiment_id}").glob("*.parquet")):
            raise StoreError(f"{root} has experiment {experiment_id!r} already; give --experiment another name")
        making = _Making(store, design, writers, on_events)
        anyio.run(making.run)
    return Made(
        events=making.events,
        trials=design.trial_count,
        tasks=len(design.tasks),
        variants=design.variant_count,
        seconds=time.monotonic() - began_s,
    )


class _Making:
    """The maker and its writers."""

    def __init__(self, store: Store, design: Design, writers: int, on_events: Callable[[int], None]) -> None:
        self._store = store
        self._design = design
        self._run_id = f"{design.name}-{digest([design.seed, design.events])[:12]}"
        self._writers = writers
        self._on_events = on_events
        self._without_oracles = writers
        self._has_oracles = anyio.Event()
        self.events = 0

    async def run(self) -> None:
        """Write the whole experiment."""
        async with StoreRecorder(self._store, self._design.name) as recorder:
            stream = recorder.stream(self._run_id)
            await self._record(stream, self._run_started(), *self._registrations())
            try:
                async with anyio.create_task_group() as tasks:
                    processes = [await self._start(number) for number in range(self._writers)]
                    for process in processes:
                        tasks.start_soon(self._listen, process)
                    await self._has_oracles.wait()
                    await self._record(stream, *self._budgets())
                    for process in processes:
                        assert process.stdin is not None
                        await process.stdin.send(b"go on\n")
            except* RecordingFailed as errors:
                raise errors.exceptions[0] from None
            await self._record(stream, self._run_finished())

    async def _record(self, stream: Stream, *events: AnyEvent) -> None:
        await stream.append(*events)
        self._count(len(events))

    def _count(self, events: int) -> None:
        self.events += events
        self._on_events(self.events)

    async def _start(self, number: int) -> Process:
        design = self._design
        numbers = (design.seed, design.events, number, self._writers)
        command = [sys.executable, "-m", "tests.synthetic.share", str(self._store.root), design.name]
        return await anyio.open_process([*command, self._run_id, *map(str, numbers)], stderr=None)

    async def _listen(self, process: Process) -> None:
        """Follow a writer to its end.

        Raises:
            RecordingFailed: It failed.
        """
        assert process.stdout is not None
        rest = ""
        async with process:
            async for text in TextReceiveStream(process.stdout):
                *lines, rest = (rest + text).split("\n")
                for line in lines:
                    self._hear(line)
            if await process.wait() != 0:
                raise RecordingFailed(f"a writer of {self._store.root} failed; remove the directory and try again")

    def _hear(self, line: str) -> None:
        if line != ORACLES:
            self._count(int(line))
            return
        self._without_oracles -= 1
        if not self._without_oracles:
            self._has_oracles.set()

    def _run_started(self) -> RunStarted:
        design = self._design
        config_json = canonical_json(
            {
                "name": design.name,
                "trials": design.trials_per_cell,
                "synthetic": {"seed": design.seed, "events": design.events},
            }
        ).decode()
        return RunStarted(
            run_id=self._run_id,
            config_json=config_json,
            config_digest=digest(config_json),
            code_version=importlib.metadata.version("lhaw-record"),
            packages=(),
            python_version=platform.python_version(),
            platform=platform.platform(),
            cpu_count=os.cpu_count() or 0,
            planned_trials=design.trial_count,
            finished_before=0,
        )

    def _registrations(self) -> list[TaskRegistered | VariantGenerated]:
        tasks = self._design.tasks
        return [
            *(TaskRegistered(task=each.task, task_digest=each.digest) for each in tasks),
            *(
                VariantGenerated(variant=each.variant, variant_digest=each.digest)
                for task in tasks
                for each in task.variants
            ),
        ]

    def _budgets(self) -> list[AnyEvent]:
        return [budget_of(self._design, task, agent) for task in self._design.tasks for agent in self._design.agents]

    def _run_finished(self) -> RunFinished:
        return RunFinished(
            run_id=self._run_id,
            outcome="completed",
            trials_finished=self._design.trial_count,
            trials_failed=0,
            trials_blocked=0,
            trials_left=0,
        )
