"""What a lost worker left on its host: that host publishes it, if it lives, before the driver asks how attempts ended.

An end that is durable there and not published would otherwise be published after its trial has run, and been paid for,
once more. The worker's replacement cannot be waited for: it may come on another host, or late, or never.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import anyio

from recorder.events import TrialFailed
from recorder.recovery import recover
from recorder.sharing.address import open_address, store_address
from recorder.trial_index import TrialIndex
from runners.executors.ray_worker import Joined, Order, store_of
from runners.plan import PlannedTrial
from runners.trial import TrialOutcome, failed_outcome

_PATIENCE_S = 30.0
"""For how long a run waits for the host of a lost worker, which may be cut off."""
_LOOK_S = 0.1


async def wait_for_host(ray: Any, order: Order, joined: Joined, report: Callable[[str], None]) -> None:
    """Return when a lost worker's host has published what it left, or when it cannot.

    Args:
        ray: The library, connected.
        order: What the worker was to do.
        joined: The worker.
        report: Says what its host could not publish.
    """
    there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(joined.node_id, soft=False)
    publishing = ray.remote(publish_left).options(num_cpus=0, scheduling_strategy=there)
    errors = ray.exceptions
    with anyio.move_on_after(_PATIENCE_S), suppress(errors.RayError):  # the host is lost, too
        try:
            await publishing.remote(order, joined.writer_id)
        except errors.RayTaskError as error:
            report(
                f"what a worker left on {joined.host} is not published: {error.cause}; "
                f"'lhaw-record log recover {order.address}' there tries again"
            )


def publish_left(order: Order, writer_id: str) -> None:
    """Recover what a dead worker left on this host, which a child of it may still be publishing.

    Raises:
        RecorderError: The store cannot be reached or written, or a journal is damaged.
    """
    store = store_of(order, open_address(store_address(order.address)))
    give_up_at = time.monotonic() + _PATIENCE_S
    while any(name.writer_id == writer_id for name in store.journals()) and time.monotonic() < give_up_at:
        recover(store, experiment_id=order.experiment.name)
        time.sleep(_LOOK_S)


def outcome_of_lost(index: TrialIndex, trial: PlannedTrial, attempt: int, worker: str) -> TrialOutcome:
    """Say how an attempt of a lost worker ended: its end may be published, and only its reply lost.

    Args:
        index: What is published.
        trial: What was attempted.
        attempt: Its number.
        worker: The worker's name, for the message.
    """
    found, failed = index.finished.get(trial.trial_id), index.failed.get(trial.trial_id)
    if found is not None and found.attempt == attempt:
        return TrialOutcome(
            trial=trial,
            attempt=attempt,
            is_valid=True,
            action_count=found.action_count or 0,
            cost_usd=found.cost_usd,
        )
    if failed is not None and failed.attempt == attempt:
        return failed_outcome(trial, failed)
    lost = TrialFailed(boundary="recorder", error_kind="worker_lost", message=f"{worker} was lost", is_retry_owed=True)
    return TrialOutcome(trial=trial, attempt=attempt, is_valid=False, action_count=0, cost_usd=None, failure=lost)
