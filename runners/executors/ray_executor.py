"""The Ray executor: attempts run in workers on the machines of a cluster; the one scheduler stays in this process.

So concurrency, cost limits, budgets and retries hold over the whole cluster as they hold on one machine.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio.to_thread

from recorder.reader import read_snapshot
from recorder.recorder import Recorder
from recorder.store import Store
from recorder.trial_index import load_trial_index
from runners.errors import ExperimentError
from runners.executors.local import check_prices
from runners.executors.ray_cluster import connected, ray_library
from runners.executors.ray_pool import WorkerPool
from runners.executors.ray_worker import Order, installed_version, plan_digest

if TYPE_CHECKING:
    from runners.run import Prepared, Reporter


class RayExecutor:
    """Executes attempts on a Ray cluster.

    Args:
        workers: How many processes; None: one for each processor of the cluster, at most as many as trials at a time.
    """

    def __init__(self, workers: int | None) -> None:
        self._workers = workers
        self._pool: WorkerPool

    @property
    def sandbox_kind(self) -> str:
        """Where agents work: the same on every machine."""
        return self._pool.sandbox_kind

    async def check(self, prepared: "Prepared", root: Path, reporter: "Reporter") -> None:
        """Find what could stop the run, as far as it can be seen from here; keys and sandboxes are the workers'.

        Raises:
            ExperimentError: Ray is not installed, a price is missing, or the store is of this host only.
        """
        ray_library()
        check_prices(prepared.experiment)
        if not (root / "store.json").exists() or Store(root).address is None:
            raise ExperimentError(
                f"--executor ray needs a store that every machine reaches, and {root} is of this one only; take "
                "--store shared:/DIRECTORY or s3://BUCKET/PREFIX (docs/shared-stores.md)"
            )
        self._reporter = reporter

    @asynccontextmanager
    async def held(self, prepared: "Prepared", store: Store, run_id: str) -> AsyncIterator[None]:
        """Connect, and hold workers that have recovered what earlier ones left on their hosts.

        Raises:
            ExecutorError: There is no cluster, or another run of the experiment is on it, or no worker can start.
            ExperimentError: A machine of the cluster cannot do the work.
        """
        assert store.remote is not None
        assert store.address is not None
        experiment = prepared.experiment
        order = Order(
            experiment=experiment,
            path=prepared.path.resolve(),
            address=store.address,
            makers=await anyio.to_thread.run_sync(lambda: store.remote.makers if store.remote else frozenset()),
            run_id=run_id,
            plan=plan_digest(prepared.plan),
            version=installed_version(),
        )
        with connected() as ray:
            processors = int(ray.cluster_resources().get("CPU", 0))
            wanted = self._workers or max(1, min(processors, experiment.concurrency))
            self._pool = WorkerPool(
                ray=ray,
                order=order,
                wanted=wanted,
                report=self._reporter.workers,
                look=lambda: load_trial_index(read_snapshot(store.root), experiment.name),
            )
            async with self._pool.opened():
                yield

    @asynccontextmanager
    async def runner(self, prepared: "Prepared", recorder: Recorder, run_id: str) -> AsyncIterator[WorkerPool]:
        """Return the workers; each has its own recorder."""
        yield self._pool
