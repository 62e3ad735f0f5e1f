"""Records what a reviewer decides. A decision is durable before the next variant is shown."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import anyio.to_thread

from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.reviewing.messages import DecisionRequest
from lhaw_record.generators.reviewing.reviews import REASONS, Reviewable, edited
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import VariantGenerated, VariantReviewed
from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.storage.store import Store, check_experiment_id
from lhaw_record.recorder.writing.stream import Stream
from lhaw_record.runners.runs.run_record import WorkCounts, held, recorded_run


class ReviewSession:
    """One sitting of one reviewer.

    Args:
        stream: Where the decisions are recorded.
        reviewer: The reviewer's name.
        snapshot: The store when the sitting began.
        counts: The number of decisions, which the session updates.
    """

    def __init__(self, stream: Stream, reviewer: str, snapshot: Snapshot, counts: WorkCounts) -> None:
        self.reviewer = reviewer
        self.snapshot = snapshot
        self._stream = stream
        self._counts = counts

    async def decide(self, item: Reviewable, decision: DecisionRequest) -> VariantReviewed:
        """Record a decision about a variant. Return its event. A prompt in its place is registered as a variant."""
        _check(item, decision)
        registered = [] if decision.prompt is None else [self._registered(item, decision.prompt)]
        reviewed = VariantReviewed(
            benchmark=item.variant.benchmark,
            task_id=item.variant.task_id,
            variant_id=item.variant.variant_id,
            variant_digest=item.variant_digest,
            reviewer=self.reviewer,
            decision=decision.decision,
            reason=decision.reason,
            note=decision.note,
            edited_digest=registered[0].variant_digest if registered else None,
            shown_s=decision.shown_s,
        )
        await self._stream.append(*registered, reviewed)
        self._counts.to_do += 1
        self._counts.done += 1
        return reviewed

    def _registered(self, item: Reviewable, prompt: str) -> VariantGenerated:
        from lhaw_record.generators.prompts.diff import prompt_diff

        variant = edited(item, prompt)
        return VariantGenerated(
            variant=variant,
            variant_digest=variant.variant_digest,
            task_digest=item.task.task_digest,
            rewriter=f"reviewer {self.reviewer}",
            rewriter_digest=item.variant_digest,
            diff=prompt_diff(item.task.prompt, prompt),
        )


def _check(item: Reviewable, decision: DecisionRequest) -> None:
    if (decision.reason is None) != (decision.decision == "accepted"):
        raise GeneratorError("a rejected or edited variant needs a reason, and an accepted one has none")
    if decision.reason is not None and decision.reason not in REASONS:
        raise GeneratorError(f"unknown reason {decision.reason!r}; the reasons are {', '.join(REASONS)}")
    if (decision.prompt is None) != (decision.decision != "edited"):
        raise GeneratorError("an edited variant needs its new prompt, and only an edited variant has one")
    if decision.prompt is not None:
        item.check_edit(decision.prompt)


def experiment_of(reviewer: str) -> str:
    """Return the experiment in which a reviewer's decisions are recorded."""
    try:
        if reviewer:
            return check_experiment_id(f"review-{reviewer}")
    except StoreError:
        pass
    raise GeneratorError(
        f"{reviewer!r} is not usable as a reviewer's name: take lower-case letters, digits, '.', '_' and '-'"
    )


@asynccontextmanager
async def review_session(store: Path, reviewer: str) -> AsyncIterator[ReviewSession]:
    """Open a sitting of a reviewer, in an experiment of its own: ``review-`` and the name.

    So several reviewers can work in one store at the same time.
    """
    experiment_id = experiment_of(reviewer)
    with ExitStack() as stack:

        def hold() -> tuple[Store, Snapshot]:
            Store(store)  # a mistyped name must not create a store
            opened = create_store(store)
            return opened, stack.enter_context(held(opened, (experiment_id,)))

        opened, snapshot = await anyio.to_thread.run_sync(hold)
        counts = WorkCounts(0)
        async with recorded_run(opened, experiment_id, "review", {"reviewer": reviewer}, counts) as stream:
            yield ReviewSession(stream, reviewer, snapshot, counts)
            counts.outcome = "completed"
