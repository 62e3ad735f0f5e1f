"""Says which format a file looks like, for the error about a file that was given as another one."""

import json
from collections.abc import Mapping
from typing import Any

from lhaw_record.runners.imports.foreign_trial import ImportFailed, SourceFile
from lhaw_record.runners.imports.source_files import decode_json_or_lines


def looks_like(source: SourceFile) -> str | None:
    """Return the name of the format that a file looks like, None if it looks like none."""
    if source.content.startswith(b"PK\x03\x04"):
        return "inspect-eval"
    if source.name.endswith(".csv"):
        return "mcp-atlas-scores" if b"coverage_score" in source.content[:10_000] else None
    try:
        value = json.loads(source.content)
    except ValueError:
        try:
            value = decode_json_or_lines(source)
        except ImportFailed:
            return None
    return _of_list(value) if isinstance(value, list) else _of_object(value) if isinstance(value, dict) else None


def _of_object(value: Mapping[str, Any]) -> str | None:
    given = value.keys()
    if str(value.get("schema_version", "")).startswith("ATIF") or {"agent", "steps"} <= given:
        return "atif"
    if "task_name" in given and "verifier_result" in given:
        return "harbor-job"
    if str(value.get("trajectory_format", "")).startswith("mini-swe-agent") or {"info", "messages"} <= given:
        return "mini-swe-agent"
    if "messages" in given:
        return "openai-messages"
    if given & {"checkpoints", "final_score"}:
        return "tac-evals"
    if value and all(isinstance(each, bool) for each in value.values()):
        return "swebench-pro-results"
    return _of_row(value)


def _of_list(value: list[Any]) -> str | None:
    rows = [each for each in value if isinstance(each, dict)]
    if not rows or len(rows) < len(value):
        return None
    if any(each.get("action") and "args" in each for each in rows):
        return "openhands"
    if all("role" in each for each in rows):
        return "openai-messages"
    return _of_row(rows[0])


def _of_row(row: Mapping[str, Any]) -> str | None:
    if {"variant_id", "task_success"} <= row.keys():
        return "ask-early-trials"
    return "lhaw-dataset" if {"variant_id", "ambiguity_class"} <= row.keys() else None
