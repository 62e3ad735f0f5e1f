"""What a store knows that an import can lean on: variants by id, tasks, budgets, and which streams are there."""

import pyarrow as pa
import pyarrow.dataset as ds

from recorder.canonical import digest
from recorder.events import Envelope, OracleBudgetSet, TaskRegistered, VariantGenerated, type_name
from recorder.reader import Snapshot
from recorder.schema import from_row
from recorder.segments import where_now
from runners.imports.facts import Known

_TYPES = (TaskRegistered, VariantGenerated, OracleBudgetSet)


def load_known(snapshot: Snapshot) -> Known:
    """Return the latest variant of each id, the latest task of each (benchmark, id), and all budgets of a store."""
    names = [type_name(cls) for cls in _TYPES]
    envelopes: list[Envelope] = []
    tables: list[pa.Table | ds.Dataset] = [ds.dataset(where_now(path)) for path in snapshot.segments]
    for table in (*tables, ds.dataset(snapshot.open_rows)):
        schema = table.schema
        columns = [name for name in schema.names if name in names or not pa.types.is_struct(schema.field(name).type)]
        rows = table.to_table(columns=columns, filter=ds.field("type").isin(names)).to_pylist()
        envelopes += [from_row(row) for row in rows]
    envelopes.sort(key=lambda each: (each.recorded_at_us, each.stream_id, each.sequence))
    events = [envelope.event for envelope in envelopes]
    return Known(
        variants={each.variant.variant_id: each.variant for each in events if isinstance(each, VariantGenerated)},
        tasks={
            (each.task.benchmark, each.task.task_id): each.task for each in events if isinstance(each, TaskRegistered)
        },
        budgets=tuple(each for each in events if isinstance(each, OracleBudgetSet)),
        registered=frozenset(
            digest(each.task if isinstance(each, TaskRegistered) else each.variant)
            for each in events
            if isinstance(each, TaskRegistered | VariantGenerated)
        ),
    )
