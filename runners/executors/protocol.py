"""What a run needs of whatever executes its attempts. The scheduler stays in the process that was started."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from recorder.recorder import Recorder
from recorder.store import Store
from runners.scheduler import RunsTrials

if TYPE_CHECKING:
    from runners.run import Prepared, Reporter


class Executor(Protocol):
    """Executes the attempts of one run. Its methods are called once each, in this order."""

    async def check(self, prepared: "Prepared", root: Path, reporter: "Reporter") -> None:
        """Find what could stop the run, before anything is made or recorded.

        Raises:
            ExperimentError: The experiment cannot be executed so; the message has the remedy.
        """
        ...

    def held(self, prepared: "Prepared", store: Store, run_id: str) -> AbstractAsyncContextManager[None]:
        """Hold the processes that execute, where there are others than this one; their hosts recover what they left.

        Raises:
            ExecutorError: There is no cluster, or its machines cannot do the work.
        """
        ...

    def runner(self, prepared: "Prepared", recorder: Recorder, run_id: str) -> AbstractAsyncContextManager[RunsTrials]:
        """Return what the scheduler gives attempts to.

        Args:
            prepared: The planned experiment.
            recorder: The recorder of this process.
            run_id: The run that the attempts belong to.
        """
        ...

    @property
    def sandbox_kind(self) -> str:
        """Where agents work."""
        ...
