"""The Ray executor: attempts run in workers on a cluster, and the scheduler stays in this process.

Concurrency, cost limits, budgets and retries therefore apply to the whole cluster as they do on one machine. The
environment variable RAY_ADDRESS names the cluster. Without it, the cluster on this machine is used. No cluster is ever
started here.
"""

import os
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

import anyio.to_thread

from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.trial_index import load_trial_index
from lhaw_record.recorder.storage.store import Store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.base.budget import RunBudget
from lhaw_record.runners.base.errors import ExecutorError, ExperimentError
from lhaw_record.runners.runs.executors.ray_pool import WorkerPool
from lhaw_record.runners.runs.executors.ray_shipping import has_them_everywhere, packed, shipped_packages
from lhaw_record.runners.runs.executors.ray_worker import Assignment, installed_version, plan_digest
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preflight import check_prices, refuse_leased
from lhaw_record.runners.runs.preparation import PreparedExperiment

ADDRESS_VARIABLE = "RAY_ADDRESS"
NAMESPACE = "lhaw-record"
_CONNECT_SECONDS = 10.0


class RayExecutor:
    """Executes attempts on a Ray cluster.

    Args:
        workers: The number of worker processes. None for one per processor of the cluster, at most the concurrency.
    """

    def __init__(self, workers: int | None) -> None:
        self._workers = workers
        self._pool: WorkerPool

    @property
    def sandbox_kind(self) -> str:
        return self._pool.sandbox_kind

    async def check(self, prepared: PreparedExperiment, root: Path, reporter: Reporter) -> None:
        """Find problems that would stop the run, as far as this machine shows them.

        Workers check API keys and sandboxes.
        """
        ray_library()
        refuse_leased(prepared.experiment)
        check_prices(prepared.experiment)
        if not (root / "store.json").exists() or Store(root).address is None:
            raise ExperimentError(
                f"--executor ray needs a store that every machine can reach, and {root} is local to this one; use "
                "--store shared:/DIRECTORY or s3://BUCKET/PREFIX (docs/shared-stores.md)"
            )
        self._reporter = reporter

    @asynccontextmanager
    async def held(self, prepared: PreparedExperiment, store: Store, run_id: str) -> AsyncIterator[None]:
        """Connect to the cluster and start workers, which recover what earlier workers left on their hosts.

        Workers get copies of the experiment's files, and of this process's packages if a machine has others.
        """
        assert store.remote is not None
        assert store.address is not None
        experiment = prepared.experiment
        files = await anyio.to_thread.run_sync(packed, prepared)
        for path in files.left_out:
            self._reporter.workers(f"{path} is larger than 1 GB, so every machine must have it at this path")
        makers = await anyio.to_thread.run_sync(lambda: store.remote.makers if store.remote else frozenset())
        async with self._equipped(experiment.benchmark.name) as ray:
            assignment = Assignment(
                experiment=files.experiment,
                path=prepared.path.resolve(),
                files=ray.put(files.archive),
                address=store.address,
                makers=makers,
                run_id=run_id,
                plan=plan_digest(prepared.plan),
                version=installed_version(),
            )
            del files
            processors = int(ray.cluster_resources().get("CPU", 0))
            wanted = self._workers or max(1, min(processors, experiment.concurrency))
            self._pool = WorkerPool(
                ray=ray,
                assignment=assignment,
                wanted=wanted,
                report=self._reporter.workers,
                look=lambda: load_trial_index(read_snapshot(store.root), experiment.name),
            )
            async with self._pool.opened():
                yield

    @asynccontextmanager
    async def _equipped(self, benchmark: str) -> AsyncIterator[Any]:
        """Connect to the cluster. Workers have this process's packages: their machines' or copies of this machine's."""
        with connected() as ray:
            if await has_them_everywhere(ray, benchmark):
                yield ray
                return
        self._reporter.workers(
            "not every machine has the packages of this one, so Ray installs them on each: once per cluster, a "
            "minute or more"
        )
        with TemporaryDirectory() as folder:
            environment = await anyio.to_thread.run_sync(shipped_packages, benchmark, Path(folder))
            with connected(environment) as ray:
                yield ray

    @asynccontextmanager
    async def runner(
        self, prepared: PreparedExperiment, recorder: StoreRecorder, run_id: str, budget: RunBudget
    ) -> AsyncIterator[WorkerPool]:
        yield self._pool


def ray_library() -> ModuleType:
    try:
        import ray
    except ImportError as error:
        raise ExperimentError(
            f"--executor ray needs Ray, which is not installed here ({error}); install it on every machine of the "
            "cluster: pip install 'lhaw-record[ray]'"
        ) from error
    library: ModuleType = ray
    return library


@contextmanager
def connected(runtime_env: dict[str, Any] | None = None) -> Iterator[Any]:
    ray = ray_library()
    address = os.environ.get(ADDRESS_VARIABLE) or "auto"
    _check_listens(address)
    try:
        ray.init(
            address=address,
            namespace=NAMESPACE,
            runtime_env=runtime_env,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except Exception as error:
        where = "of this machine" if address == "auto" else f"at {address}"
        said = str(error).strip().splitlines() or [type(error).__name__]
        raise ExecutorError(
            f"cannot connect to the Ray cluster {where}: {said[0]} Start one with 'ray start --head' and join it from "
            f"the other machines with 'ray start --address=HOST:6379', or set {ADDRESS_VARIABLE}=HOST:6379"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _check_listens(address: str) -> None:
    """Refuse an address where nothing listens, because Ray would keep trying for more than a minute."""
    if "://" in address:
        raise ExecutorError(
            f"{ADDRESS_VARIABLE}={address} is the address of a Ray client; start the run on a machine of the cluster, "
            f"and set {ADDRESS_VARIABLE}=HOST:6379 or leave it unset"
        )
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_CONNECT_SECONDS).close()
    except OSError as error:
        raise ExecutorError(
            f"no Ray cluster answers at {address}, the value of {ADDRESS_VARIABLE} ({error.strerror or error}); start "
            "it there with 'ray start --head', or set another address"
        ) from error
