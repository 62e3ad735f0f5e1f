"""Stores to select from: classified variants of three tasks, and of every kind that cannot be chosen."""

from collections import defaultdict
from pathlib import Path

import anyio

from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from tests.analytics.make_store import Store as Written
from tests.crash.workload import InProcess

CLASSIFIER = {"agent": "c", "role": "classifier"}
STATES = {"outcome-critical": [(0, 0), (1, 0), (1, 0)], "divergent": [(1, 1), (1, 1), (1, 0)], "benign": [(1, 1)] * 3}
SAME_FAILURE = [(1, 0)] * 3


def classified(**variants: str) -> Written:
    """Return a store with three tasks; a variant a per class, e.g. ``a1="benign delete goal"``, a being its task."""
    written = Written(trials=3)
    for task_id in "abc":
        written.task(task_id, (1, 1), domain=f"domain {task_id}")
    for variant_id, text in variants.items():
        ambiguity_class, severity, *dimensions = text.split()
        written.variant(variant_id[0], variant_id, " ".join(dimensions), severity=severity)
        classify(written, variant_id, STATES[ambiguity_class])
    return written


def classify(written: Written, variant_id: str, states: list[tuple[int, ...]]) -> None:
    """Record the classifying trials of a variant."""
    for index, scores in enumerate(states):
        written.trial(variant_id, "underspecified", index, scores=scores, **CLASSIFIER)


def of_every_kind() -> Written:
    """Return a store in which one variant may be chosen per class, and one of each other kind may not."""
    written = classified(
        a1="outcome-critical delete goal", b1="divergent vaguify input", c1="benign genericize constraint context"
    )
    written.variant("a", "a_control", "", origin="control")
    classify(written, "a_control", STATES["benign"])
    written.variant("a", "a_bare", "")
    classify(written, "a_bare", STATES["benign"])
    written.variant("a", "a_untried", "goal")
    written.variant("a", "a_short", "goal")
    classify(written, "a_short", STATES["benign"][:2])
    written.variant("b", "b_new", "goal")
    classify(written, "b_new", SAME_FAILURE)
    written.judge_new_task(
        "b_new", [written.streams["b_new", "underspecified", index, "c"] for index in range(3)], "confirmed"
    )
    written.variant("b", "b_unjudged", "goal")
    classify(written, "b_unjudged", SAME_FAILURE)
    written.variant("c", "c_labelled", "input", ambiguity_class="benign", classified_by="authors")
    written.reject("c", "c_failed", "value_remains", attempt=1, is_final=False)
    written.reject("c", "c_failed", "value_remains", attempt=2)
    written.reject("c", "c_pending", "value_remains", attempt=1, is_final=False)
    written.reject("c", "c1", "value_remains", attempt=1)
    return written


def to_disk(root: Path, *stores: Written) -> Path:
    """Record what was written down as one store, an experiment after the other, and return its directory."""
    anyio.run(_record, root, *stores)
    return root


async def _record(root: Path, *stores: Written) -> None:
    store = create_store(root)
    for written in stores:
        streams = defaultdict(list)
        for envelope in written.envelopes:
            streams[envelope.stream_id].append(envelope)
        async with StoreRecorder(store, written.experiment, start_sealing=InProcess) as recorder:
            for stream_id, envelopes in streams.items():
                first = envelopes[0]
                stream = recorder.stream(stream_id, trial_id=first.trial_id, attempt=first.attempt)
                await stream.append(*(envelope.event for envelope in envelopes))
