"""The local executor: runs attempts as tasks of this process, and their agents in sandboxes on this machine."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread
import msgspec

from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.agents.programs.experiment_programs import check_versions
from lhaw_record.runners.agents.runner import TrialRunner
from lhaw_record.runners.agents.services import Services
from lhaw_record.runners.base.budget import RunBudget
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.refusals import refuse_lack
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits, SandboxProvider
from lhaw_record.runners.experiment.tables import Experiment
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preflight import (
    Refusals,
    check_keys,
    check_prices,
    check_sandbox,
    check_shell_limits,
    choose_sandbox,
    refuse_leased,
    room_notes,
)
from lhaw_record.runners.runs.preparation import PreparedExperiment

if TYPE_CHECKING:
    from lhaw_record.runners.agents.programs.leases import Leases


class LocalExecutor:
    """Executes attempts in this process. Each worker on a cluster also has one.

    Args:
        leases: Those of the daemon. Without them, no agent can be leased.
    """

    def __init__(self, leases: "Leases | None" = None) -> None:
        self._leases = leases
        self._sandbox: SandboxProvider | None = None

    @property
    def sandbox_kind(self) -> str:
        return self._checked.kind

    async def check(self, prepared: PreparedExperiment, root: Path, reporter: Reporter) -> None:
        experiment, refusals = prepared.experiment, Refusals()
        if self._leases is None:
            with refusals:
                refuse_leased(experiment)
        for check in (check_keys, check_prices, check_versions):
            with refusals:
                await anyio.to_thread.run_sync(check, experiment)
        with refusals:
            check_shell_limits(experiment.concurrency)
        with refusals:
            check_sandbox(experiment, prepared.benchmark)
            self._sandbox = await choose_sandbox(experiment, reporter.sandbox)
            for line in room_notes(prepared.plan, prepared.benchmark, self._sandbox, experiment.limits.memory_mb):
                reporter.sandbox(line)
            await prepared.benchmark.check_before_run(self._settings(experiment))
            tasks = {trial.task.task_id: trial.task for trial in prepared.plan.trials}
            refuse_lack(await prepared.benchmark.lacking_tools(tuple(tasks.values()), self._settings(experiment)))
        refusals.raise_all()

    @asynccontextmanager
    async def held(self, prepared: PreparedExperiment, store: Store, run_id: str) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def runner(
        self, prepared: PreparedExperiment, recorder: StoreRecorder, run_id: str, budget: RunBudget
    ) -> AsyncIterator[TrialRunner]:
        """Yield the runner of attempts. If some agent is a program, serve programs meanwhile."""
        experiment = prepared.experiment
        async with AsyncExitStack() as stack:
            server = None
            if any(agent.external and not agent.external.leased for agent in experiment.agents):
                from lhaw_record.runners.agents.programs.program_server import open_program_server

                server = await stack.enter_async_context(open_program_server(has_port=self.sandbox_kind == "process"))
            yield TrialRunner(
                experiment=experiment,
                benchmark=prepared.benchmark,
                prompts=prepared.prompts,
                settings=self._settings(experiment),
                services=Services(
                    experiment, prepared.benchmark, prepared.prompts, recorder.keep, recorder.store.questions_dir
                ),
                recorder=recorder,
                run_id=run_id,
                server=server,
                leases=self._leases,
                budget=budget,
            )

    def _settings(self, experiment: Experiment) -> EnvironmentSettings:
        return EnvironmentSettings(sandbox=self._checked, limits=_sandbox_limits(experiment))

    @property
    def _checked(self) -> SandboxProvider:
        assert self._sandbox is not None, "what runs was checked before"
        return self._sandbox


def _sandbox_limits(experiment: Experiment) -> SandboxLimits:
    of_trial = ("max_turns", "max_user_turns", "max_actions", "max_seconds")
    limits = msgspec.structs.asdict(experiment.limits)
    return SandboxLimits(**{name: limit for name, limit in limits.items() if name not in of_trial})
