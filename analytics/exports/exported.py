"""The result of an export: a JSON document or a folder of files, with what was left out, and a dataset card."""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml


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
    """One exported folder. ``files`` maps names to contents. ``notes`` is for readers of the folder."""

    files: Mapping[str, bytes]
    count: int
    what: str
    left_out: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


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
