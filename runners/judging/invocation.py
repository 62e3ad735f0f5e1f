"""One invocation of a judge: whom it asks about which stored trials, what it may take, and the runs that record it."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from recorder.redaction import Redactor
from recorder.store import Store
from recorder.stream import Stream
from runners.afterwards import Counts, recorded_run
from runners.models.calls import ModelCaller
from runners.models.protocol import Model
from runners.models.retry import RetryPolicy
from runners.paid_work import Job, PaidWork

Thing = TypeVar("Thing")


class JudgeSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Which trials are judged, by what, and what it may take. ``max_cost_usd`` bounds one invocation."""

    model: Model
    parameters: Mapping[str, Any]
    config: Mapping[str, Any]
    redactor: Redactor
    experiment_id: str | None = None
    agents: tuple[str, ...] = ()
    concurrency: int = 4
    max_cost_usd: float | None = None
    retry: RetryPolicy = RetryPolicy()
    request_timeout_s: float = 600.0

    def caller(self, stream: Stream, about: str) -> ModelCaller:
        """Return what calls the model about one stream of trial events, recording the calls in another."""
        return ModelCaller(
            model=self.model,
            recording=stream,
            role="judge",
            thread_id=f"judge-{about}",
            parameters=self.parameters,
            retry=self.retry,
            request_timeout_s=self.request_timeout_s,
        )


async def judge_each(
    store: Store,
    things: Iterable[Thing],
    experiment_of: Callable[[Thing], str],
    settings: JudgeSettings,
    work: PaidWork,
    job: Callable[[Thing, Stream, Counts], Job],
) -> None:
    """Do what there is to judge, in a recorded run for each experiment, until the work is stopped.

    Args:
        store: The store; the caller holds the locks of the experiments.
        things: What is judged; experiments come in the order of their first.
        experiment_of: The experiment that a thing belongs to.
        settings: What the runs are recorded with.
        work: Does the jobs.
        job: Makes the job that judges one thing, records into the stream and keeps the counts.

    Raises:
        RecordingFailed: An event could not be made durable.
    """
    by_experiment: dict[str, list[Thing]] = {}
    for thing in things:
        by_experiment.setdefault(experiment_of(thing), []).append(thing)
    for experiment_id, chosen in by_experiment.items():
        if work.stop_reason is not None:
            return
        counts = Counts(len(chosen))
        async with recorded_run(store, experiment_id, settings.config, counts, redactor=settings.redactor) as stream:
            await work.run(job(thing, stream, counts) for thing in chosen)
            counts.outcome = work.stop_reason or ("failed" if counts.failed else "completed")
