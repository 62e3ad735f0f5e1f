"""Finds unfinished runs of an experiment. On a shared store, other hosts may be running the same trials now."""

import time

import msgspec
import pyarrow.dataset as ds

from lhaw_record.recorder.reading.reader import Snapshot
from lhaw_record.recorder.reading.typed_rows import datasets

RECENT_S = 3600.0


class OpenRun(msgspec.Struct, frozen=True, kw_only=True):
    """An unfinished run. ``silent_s`` is the time since its writer's last event, by the clocks of both hosts."""

    stream_id: str
    writer_id: str
    silent_s: float


def open_runs(snapshot: Snapshot, experiment_id: str, *, recent_s: float = RECENT_S) -> list[OpenRun]:
    """Return the runs of an experiment that have started but not finished, and that published something recently.

    A host that died also looks like this for a while, and a run that has published nothing yet is invisible. So the
    result is a reason to warn, never to refuse.
    """
    seen: dict[str, int] = {}
    begun: dict[str, str] = {}
    ended: set[str] = set()
    for table in datasets(snapshot):
        rows = table.to_table(
            columns=["type", "stream_id", "writer_id", "recorded_at_us"],
            filter=ds.field("experiment_id") == experiment_id,
        )
        last = rows.group_by("writer_id").aggregate([("recorded_at_us", "max")]).to_pylist()
        for each in last:
            seen[each["writer_id"]] = max(each["recorded_at_us_max"], seen.get(each["writer_id"], 0))
        edges = rows.filter(ds.field("type").isin(["run_started", "run_finished"]))
        for row in edges.to_pylist():
            if row["type"] == "run_started":
                begun[row["stream_id"]] = row["writer_id"]
            else:
                ended.add(row["stream_id"])
    now_s = time.time()
    found = [
        OpenRun(stream_id=stream_id, writer_id=writer_id, silent_s=now_s - seen[writer_id] / 1e6)
        for stream_id, writer_id in sorted(begun.items())
        if stream_id not in ended
    ]
    return [each for each in found if each.silent_s <= recent_s]
