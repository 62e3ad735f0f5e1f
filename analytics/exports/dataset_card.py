"""The README.md of an exported dataset, from which ``datasets`` reads the files of each split and the type of each
column. Without types it would guess them from the first rows, and fail where a column is null there.

Source: the dataset cards of Hugging Face (``configs``, ``dataset_info``).
"""

from collections.abc import Mapping
from typing import Any

import yaml

Features = Mapping[str, Any]
"""Columns by name: the name of a type, a mapping for an object, or a list of one of these for a list."""


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
