"""A small generation that can be killed: extract, then rewrite each segment, recording what is decided.

    python -m tests.generators.llm.generation_setup STORE URL APPENDS

runs it over a store until so many appends are durable and then kills itself; with 0 it runs to its end.
"""

import os
import signal
import sys
from pathlib import Path
from typing import Any

import anyio

from lhaw_record.generators.llm import LlmExtractor, LlmRewriter
from lhaw_record.generators.protocol import Grounding, Removal, SourceTask
from lhaw_record.recorder.events import AnyEvent, SegmentsExtracted, VariantGenerated
from lhaw_record.recorder.events.values import Variant
from lhaw_record.recorder.reading.reader import read_envelopes, read_snapshot
from lhaw_record.recorder.recovery.recovery import recover
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.models.litellm_library import close_clients
from lhaw_record.runners.models.llm_jobs.paid_work import PaidWork
from lhaw_record.runners.models.recorded_replies import load_recorded_replies
from tests.generators.llm.question_setup import MODEL, PARAMETERS, caller_of
from tests.support.generation_model import source_of

EXPERIMENT = "generation"
PROMPTS = {
    "a": "Read sales.csv and write the totals to out.csv.\n",
    "b": "Send minutes.md to Ann before 9:30.\n",
    "c": "Count the rows of log.txt in 2024.\n",
}


class Killing:
    """A stream that kills its process once so many appends are durable."""

    def __init__(self, stream: Any, appends: int) -> None:
        self._stream = stream
        self._left = appends

    async def append(self, *events: AnyEvent) -> None:
        """Append, and perhaps die."""
        await self._stream.append(*events)
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


async def generate(root: Path, url: str, appends: int) -> None:
    """Do what the store does not have yet."""
    store = create_store(root)
    recover(store, experiment_id=EXPERIMENT)
    recorded = load_recorded_replies(read_snapshot(root), EXPERIMENT)
    events = [each.event for each in read_envelopes(root)]
    extracted = {event.task_id: event for event in events if isinstance(event, SegmentsExtracted)}
    made = {event.variant.variant_id for event in events if isinstance(event, VariantGenerated)}
    extractor, rewriter = LlmExtractor(MODEL, PARAMETERS), LlmRewriter(MODEL, PARAMETERS)
    async with StoreRecorder(store, EXPERIMENT) as recorder:
        recording = Killing(recorder.stream(f"run-{os.getpid()}"), appends)
        work = PaidWork(concurrency=3)

        def extraction(name: str, source: SourceTask) -> Any:
            async def extract() -> float | None:
                caller = caller_of(url, recording, "extractor", f"extract-{name}", recorded=recorded)
                found = await extractor.extract(source, Grounding(), caller)
                extracted[name] = SegmentsExtracted(
                    benchmark="own",
                    task_id=name,
                    task_digest=source.task.task_digest,
                    extractor=extractor.name,
                    extractor_digest=extractor.digest,
                    grounding=(),
                    segments=found.segments,
                    usage=caller.usage_with_recalled,
                )
                await recording.append(extracted[name])
                return caller.total_usage.cost_usd

            return extract

        def rewriting(name: str, source: SourceTask, removal: Removal) -> Any:
            async def rewrite() -> float | None:
                caller = caller_of(url, recording, "rewriter", f"rewrite-{name}", recorded=recorded)
                rewritten = await rewriter.rewrite(source, removal, caller)
                variant = Variant(
                    benchmark="own",
                    task_id=source.task.task_id,
                    variant_id=name,
                    prompt=rewritten.prompt,
                    segments=removal.segments,
                    origin="generated",
                )
                await recording.append(VariantGenerated(variant=variant, variant_digest=variant.variant_digest))
                return caller.total_usage.cost_usd

            return rewrite

        sources = {name: source_of(prompt) for name, prompt in PROMPTS.items()}
        await work.run([extraction(name, source) for name, source in sources.items() if name not in extracted])
        await work.run(
            [
                rewriting(f"{name}-{segment.segment_id}", source, Removal(segments=(segment,), severity="delete"))
                for name, source in sources.items()
                for segment in extracted[name].segments
                if f"{name}-{segment.segment_id}" not in made
            ]
        )
    await close_clients()


if __name__ == "__main__":
    anyio.run(generate, Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
