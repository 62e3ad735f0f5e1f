"""The result of an export: a JSON document or a folder of files, with what was left out, and a dataset card."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store


class ExportDocument(msgspec.Struct, frozen=True, kw_only=True):
    """One exported document.

    ``count`` is the number of items, and ``what`` is their name. ``left_out`` says what is missing and why.
    """

    document: Any
    count: int
    what: str
    left_out: tuple[str, ...] = ()

    def to_bytes(self) -> bytes:
        """Encode the document as JSON in UTF-8. Equal documents give equal bytes."""
        return json.dumps(self.document, indent=1, ensure_ascii=False).encode() + b"\n"


class ExportFolder(msgspec.Struct, frozen=True, kw_only=True):
    """One exported folder. ``files`` maps names to contents. ``notes`` is for readers of the folder.

    ``has_events`` says that the store's events belong beside the files, so that our import of this format returns the
    whole store. ``unread`` has further files, which that import does not read.
    """

    files: Mapping[str, bytes]
    count: int
    what: str
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    has_events: bool = False
    unread: Mapping[str, bytes] = {}


def tasks_left_out(store: Path, experiment: str | None = None) -> tuple[str, ...]:
    """Return a sentence that names the tasks that the latest plans lack (``allow_left_out``), or none."""
    query = """select distinct unnest(runs.left_out_tasks) as task_id
        from stg_runs_started as runs inner join int_experiments using (run_id)
        where ?::varchar is null or runs.experiment_id = ? order by all"""
    with open_store(store, only={"stg_runs_started", "int_experiments"}) as connection:
        names = [row["task_id"] for row in rows_of(connection, query, [experiment, experiment])]
    return (f"{len(names)} tasks (allow_left_out): {', '.join(names)}",) if names else ()


Features = Mapping[str, Any]
"""Columns by name: a type name, a mapping for an object, or a list of one of these for a list."""


def card(title: str, text: str, features: Features, files: Mapping[str, str]) -> bytes:
    splits = [{"split": split, "path": name} for split, name in files.items()]
    head = {
        "configs": [{"config_name": "default", "data_files": splits}],
        "dataset_info": {"features": _features(features)},
    }
    return f"---\n{yaml.safe_dump(head, sort_keys=False)}---\n\n# {title}\n\n{text}\n".encode()


def _features(features: Features) -> list[dict[str, Any]]:
    return [{"name": name, **_feature(kind)} for name, kind in features.items()]


def _feature(kind: Any) -> dict[str, Any]:
    if isinstance(kind, str):
        return {"dtype": kind}
    if isinstance(kind, Mapping):
        return {"struct": _features(kind)}
    (inner,) = kind
    return {
        "list": inner if isinstance(inner, str) else _features(inner) if isinstance(inner, Mapping) else _feature(inner)
    }
