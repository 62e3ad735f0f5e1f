"""A store with variants of a dataset of task folders, to be exported."""

import anyio
import msgspec

from lhaw_record.recorder.events import TaskRegistered, VariantGenerated
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Segment, Variant
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import is_task_folder, read_task, task_of


def register_variants(store, dataset, kinds=None):
    """Record a variant without its first word of each task of a dataset, and return them by task.

    ``kinds`` are further variants of each: fields by name.
    """
    variants = {}
    found = (task_of(read_task(folder)) for folder in sorted(filter(is_task_folder, dataset.iterdir())))
    tasks = [task for task in found if task.prompt]

    async def record():
        async with StoreRecorder(create_store(store), "lab") as recorder:
            stream = recorder.stream("run-1")
            for task in tasks:
                first, _, rest = task.prompt.partition(" ")
                segment = Segment(segment_id="S1", value=first, dimension="goal", subdimension="x")
                variant = Variant(
                    benchmark="harbor",
                    task_id=task.task_id,
                    variant_id=f"{task.task_id}/no first/word",
                    prompt=rest,
                    segments=(segment,),
                    origin="hand_written",
                    severity="delete",
                )
                variants[task.task_id] = variant
                await stream.append(TaskRegistered(task=task, task_digest=task.task_digest))
                others = [
                    msgspec.structs.replace(variant, variant_id=f"{task.task_id}/{name}", **fields)
                    for name, fields in (kinds or {}).items()
                ]
                for each in (variant, *others):
                    event = VariantGenerated(variant=each, variant_digest=digest(each), task_digest=task.task_digest)
                    await stream.append(event)

    anyio.run(record)
    return variants
