"""The review workbench on the daemon's page: what it adds to the API, and its two pages."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager

import anyio
import anyio.to_thread
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from lhaw_record.generators.errors import GeneratorError
from lhaw_record.generators.gate import judged_words
from lhaw_record.generators.prompts.diff import marked
from lhaw_record.generators.prompts.occurrences import SearchablePrompt
from lhaw_record.generators.reviewing.messages import (
    Comparison,
    ComparisonRequest,
    DecisionRequest,
    Listed,
    Nothing,
    Own,
    Piece,
    RemovedSegment,
    ReviewList,
    ReviewRequest,
)
from lhaw_record.generators.reviewing.reviews import REASONS, Reviewable, VariantOutcome, choices
from lhaw_record.generators.reviewing.session import experiment_of
from lhaw_record.generators.reviewing.sittings import Sitting, Sittings
from lhaw_record.recorder.errors import RecordingFailed, StoreInUse
from lhaw_record.recorder.events import VariantReviewed
from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.html_templates import render
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.wording import CONDITION_LABELS
from lhaw_record.runners.base.errors import ungrouped
from lhaw_record.runners.runs.daemon.daemon import Daemon
from lhaw_record.runners.runs.daemon.endpoints import ApiEndpoint, Extension
from lhaw_record.runners.runs.daemon.messages import DaemonRefusal
from lhaw_record.runners.runs.daemon.pages import shown


@asynccontextmanager
async def review_extension(daemon: Daemon) -> AsyncIterator[Extension]:
    """Add the review workbench to a daemon. When the daemon stops, the open sittings end."""
    with ungrouped():
        async with anyio.create_task_group() as tasks:
            sittings = Sittings(daemon.store.root, tasks)
            yield Extension(subject=sittings, endpoints=ENDPOINTS, pages=_pages(daemon))
            sittings.end()


@asynccontextmanager
async def _sitting(sittings: Sittings, reviewer: str) -> AsyncIterator[Sitting]:
    """Yield a reviewer's session, and turn errors into refusals that say on the page what to do."""
    try:
        experiment_of(reviewer)
    except GeneratorError as error:
        raise DaemonRefusal(str(error), kind="bad_name", status=422) from error
    try:
        async with sittings.of(reviewer) as sitting:
            yield sitting
    except StoreInUse as error:
        message = f"{reviewer} has a session open elsewhere, which must end first ({error})"
        raise DaemonRefusal(message, kind="in_use", status=409) from error
    except RecordingFailed as error:
        message = f"the decision is not recorded: {error}; free disk space, then decide again"
        raise DaemonRefusal(message, kind="not_recorded", status=507) from error
    except GeneratorError as error:
        raise DaemonRefusal(str(error), kind="bad_decision", status=422) from error


async def _open(sittings: Sittings, reviewer: str, wanted: ReviewRequest) -> ReviewList:
    async with _sitting(sittings, reviewer) as sitting:
        reading = await sitting.read(wanted.benchmark, wanted.experiment)
    own = {digest: each.decision for digest, each in reading.own.items()}
    return ReviewList(
        variants=tuple(Listed(variant_digest=each, decision=own.get(each)) for each in reading.order),
    )


async def _compare(sittings: Sittings, reviewer: str, question: ComparisonRequest) -> Comparison:
    async with _sitting(sittings, reviewer) as sitting:
        item, own, outcomes = await sitting.find(question.variant_digest)
        if item is None:
            raise _unknown(question.variant_digest)
        return await anyio.to_thread.run_sync(comparison, item, question.prompt, own, outcomes)


async def _decide(sittings: Sittings, reviewer: str, decision: DecisionRequest) -> Own:
    async with _sitting(sittings, reviewer) as sitting:
        item, _, _ = await sitting.find(decision.variant_digest)
        if item is None:
            raise _unknown(decision.variant_digest)
        recorded = await sitting.decide(item, decision)
    if recorded is None:
        message = "you have decided about this variant on another page; decide again here to replace that decision"
        raise DaemonRefusal(message, kind="decided_elsewhere", status=409)
    return _own(recorded)


async def _close(sittings: Sittings, reviewer: str, _: Nothing) -> Nothing:
    await sittings.close(reviewer)
    return Nothing()


def comparison(
    item: Reviewable, prompt: str | None, own: VariantReviewed | None, outcomes: Sequence[VariantOutcome]
) -> Comparison:
    """Return what a reviewer sees of a variant."""
    variant = item.variant
    findings, unjudged = item.findings(prompt)
    is_unread = prompt is not None or not variant.segments or variant.environment_change is not None
    return Comparison(
        variant_digest=item.variant_digest,
        task_id=variant.task_id,
        kind=variant.severity or variant.origin,
        prompt=variant.prompt if prompt is None else prompt,
        changes_environment=variant.environment_change is not None,
        pieces=tuple(_pieces(item.task.prompt, variant.prompt if prompt is None else prompt, variant.segments)),
        segments=tuple(
            RemovedSegment(dimension=each.dimension, subdimension=each.subdimension, value=each.value, decoy=each.decoy)
            for each in variant.segments
        ),
        questions=tuple(question for group in variant.expected_questions for question in group.questions),
        findings=findings,
        unjudged=unjudged,
        judged="" if is_unread else judged_words(item.judgement, variant.severity, variant.prompt),
        outcomes=tuple(outcomes),
        own=None if own is None else _own(own),
    )


def _pieces(original: str, prompt: str, segments: Sequence[Segment]) -> Iterator[Piece]:
    """Yield both prompts in one, cut where something was changed and where the value of a segment begins or ends."""
    searched = SearchablePrompt(original)
    places = sorted(
        (*span, number) for number, segment in enumerate(segments) for span in searched.occurrences(segment)
    )
    at = 0
    for span in marked(original, prompt):
        if span.kind == "added":
            yield Piece(kind="added", text=span.text)
            continue
        end = at + len(span.text)
        while at < end:
            start, stop, number = next((each for each in places if each[1] > at), (end, end, 0))
            is_value = start <= at
            cut = min(end, stop if is_value else start)
            yield Piece(kind=span.kind, text=original[at:cut], segment=number if is_value else None)
            at = cut


def _own(recorded: VariantReviewed) -> Own:
    return Own(decision=recorded.decision, reason=recorded.reason, note=recorded.note)


def _unknown(variant_digest: str) -> DaemonRefusal:
    message = f"the store has no variant {variant_digest[:12]} to review; load the page again"
    return DaemonRefusal(message, kind="unknown", status=404)


ENDPOINTS = (
    ApiEndpoint(
        path="/api/reviews/{name}",
        operation="review",
        summary="Open the sitting of a reviewer, and list the variants to decide about.",
        request=ReviewRequest,
        response=ReviewList,
        handler=_open,
        errors=(409, 507),
    ),
    ApiEndpoint(
        path="/api/reviews/{name}/comparison",
        operation="compare",
        summary="What a reviewer sees of a variant, or of an edited prompt, with the gate's findings.",
        request=ComparisonRequest,
        response=Comparison,
        handler=_compare,
        errors=(404, 409, 507),
    ),
    ApiEndpoint(
        path="/api/reviews/{name}/decisions",
        operation="decide",
        summary="Accept, reject or edit a variant. The same decision again changes nothing.",
        request=DecisionRequest,
        response=Own,
        handler=_decide,
        errors=(404, 409, 507),
    ),
    ApiEndpoint(
        path="/api/reviews/{name}/close",
        operation="close",
        summary="Close a reviewer's session, so that the review can continue in another process.",
        request=Nothing,
        response=Nothing,
        handler=_close,
    ),
)


def _pages(daemon: Daemon) -> tuple[Route, ...]:
    def page(template: str, title: str, **values: object) -> Response:
        return HTMLResponse(render(f"page/{template}.html", title=title, facts=daemon.facts(), **values))

    async def start(_: Request) -> Response:
        benchmarks, experiments = await anyio.to_thread.run_sync(lambda: choices(read_snapshot(daemon.store.root)))
        return page("review_start", "Review", benchmarks=benchmarks, experiments=experiments)

    async def workbench(request: Request) -> Response:
        reviewer = request.path_params["reviewer"]
        return page("review", f"Review by {reviewer}", reviewer=reviewer, reasons=REASONS, labels=CONDITION_LABELS)

    return (
        Route("/review", shown(start)),
        Route("/review/{reviewer}", shown(workbench)),
    )
