"""The interface of executors, which execute a run's attempts here or on other machines.

The scheduler stays in this process.
"""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Protocol

from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.base.budget import RunBudget
from lhaw_record.runners.runs.preparation import PreparedExperiment
from lhaw_record.runners.runs.reporter import Reporter
from lhaw_record.runners.runs.scheduler import AttemptRunner


class Executor(Protocol):
    """Executes the attempts of one run. Each method is called once, in the order below."""

    async def check(self, prepared: PreparedExperiment, root: Path, reporter: Reporter) -> None:
        """Find problems that would stop the run, before anything is created or recorded.

        Raises:
            ExperimentError: The experiment cannot be executed in this way. The message has the remedy.
        """
        ...

    def held(self, prepared: PreparedExperiment, store: Store, run_id: str) -> AbstractAsyncContextManager[None]:
        """Hold the worker processes, if there are any. Their hosts first recover what earlier workers left.

        Raises:
            ExecutorError: There is no cluster, or its machines cannot run the experiment.
        """
        ...

    def runner(
        self, prepared: PreparedExperiment, recorder: StoreRecorder, run_id: str, budget: RunBudget
    ) -> AbstractAsyncContextManager[AttemptRunner]:
        """Provide the scheduler with the runner of attempts, as a context manager.

        Args:
            prepared: The planned experiment.
            recorder: The recorder of this process.
            run_id: The run that the attempts belong to.
            budget: What the run may spend. Attempts in other processes cannot see it.
        """
        ...

    @property
    def sandbox_kind(self) -> str:
        """The kind of sandbox that agents work in."""
        ...
