"""Foreign files made up for tests, in exactly the shapes that their programs write; and importing them."""

import csv
import hashlib
import io
import json
import re
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa

from lhaw_record.analytics.views.store import checks
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.runners.imports import FORMATS, Import, Options, run_import
from lhaw_record.runners.imports.foreign_trial import KnownRecords, ParsedFile, SourceFile

REAL = Path(__file__).resolve().parents[4] / "shared" / "real"
MCP_TASK = "0123456789abcdef01234567"


def source(content: Any, name: str = "file.json", folder: str = "runs") -> SourceFile:
    """A file with this content: text and bytes as they are, anything else as JSON."""
    text = content if isinstance(content, str | bytes) else json.dumps(content)
    content = text.encode() if isinstance(text, str) else text
    return SourceFile(name=name, folder=folder, content=content, sha256=hashlib.sha256(content).hexdigest())


def parsed(
    format_name: str, content: Any, known: KnownRecords | None = None, name: str = "file.json", **options: Any
) -> ParsedFile:
    """What a parser finds in a file."""
    (found,) = FORMATS[format_name].parse([source(content, name)], Options(**options), known or KnownRecords())
    return found


def write(path: Path, content: Any) -> Path:
    """Write a file, JSON unless it is text or bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(source(content).content)
    return path


def imported(format_name: str, path: Path, store: Path, *, is_dry_run: bool = False, **options: Any) -> Import:
    """Import a file."""
    return run_import(
        FORMATS[format_name], path, store, experiment_id="e", options=Options(**options), is_dry_run=is_dry_run
    )


def query(store: Path, text: str) -> list[tuple[Any, ...]]:
    """The rows of a query over one view of a store."""
    (view,) = re.findall(r" from (\w+)", text)
    connection = open_store(store, only={view})
    try:
        return connection.execute(text).fetchall()
    finally:
        connection.close()


def broken_claims(store: Path) -> list[str]:
    """The claims about a store that do not hold."""
    connection = open_store(store)
    try:
        return [finding.claim for finding in checks(connection)]
    finally:
        connection.close()


def dataset_row(variant_id: str = f"{MCP_TASK}::V_S1_delete", **fields: Any) -> dict[str, Any]:
    """One row of the published dataset's shape."""
    return {
        "variant_id": variant_id,
        "original_task": MCP_TASK,
        "dataset": "MCP-Atlas",
        "original_prompt": "List crimes since 2001 as CSV.",
        "underspecified_prompt": "List crimes.",
        "information_dimension": ["constraint"],
        "ambiguity_class": "outcome-critical",
        "removed_segments": [
            {"dimension": "constraint", "id": "S1", "subdimension": "temporal", "value": "since 2001"}
        ],
        "expected_questions": [{"questions": ["Since when?"], "segment_id": "S1"}],
        "terminal_states": "[(0, 0), (1, 0)]",
        **fields,
    }


def two_segment_row(variant_id: str = "hr_task_V10_goal", **fields: Any) -> dict[str, Any]:
    """A row with two removed segments, of another benchmark, with an id of the paper's form."""
    return dataset_row(
        variant_id,
        **{
            "original_task": "hr-task",
            "dataset": "TheAgentCompany",
            "information_dimension": ["goal", "input"],
            "ambiguity_class": "benign",
            "removed_segments": [
                {"dimension": "goal", "id": "S1", "subdimension": "format", "value": "as CSV"},
                {"dimension": "input", "id": "S3", "subdimension": "location", "value": "/Documents"},
            ],
            "expected_questions": [
                {"questions": ["Which format?", "CSV?"], "segment_id": "S1"},
                {"questions": ["Where is it?"], "segment_id": "S3"},
            ],
            **fields,
        },
    )


def early_trial(
    condition: str = "oracle", *, length: int = 4, before: int | None = None, **fields: Any
) -> dict[str, Any]:
    """One trial JSON of the timing paper's shape; ``before`` actions came before the injection."""
    trial = {
        "variant_id": f"{MCP_TASK}::V_S1_delete",
        "model": "gpt-x",
        "condition": condition,
        "injection_point": None,
        "actions": [
            {
                "action_name": "read_file",
                "parameters": {"path": f"{number}.csv"},
                "result": f"rows {number}",
                "is_pre_injection": None if before is None else number <= before,
            }
            for number in range(1, length + 1)
        ],
        "conversation": [],
        "task_success": True,
        "total_actions": length,
        "pre_injection_actions": before,
        "post_injection_actions": None if before is None else length - before,
        "duration_seconds": 12.5,
    }
    return {**trial, **fields}


def conversation(trial: dict[str, Any], injected: str = "") -> list[dict[str, Any]]:
    """The chat of a trial: one call a turn, the injected message where the marks say."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "List crimes."}]
    for number, action in enumerate(trial["actions"], 1):
        call = {"name": action["action_name"], "arguments": json.dumps(action["parameters"])}
        calls = [{"id": f"c{number}", "type": "function", "function": call}]
        messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": action["result"]})
        if injected and number == trial["pre_injection_actions"]:
            messages.append({"role": "user", "content": injected})
    return [*messages, {"role": "assistant", "content": "Two crimes."}]


def scored_row(scores: tuple[float, ...] = (1.0, 0.5), **fields: Any) -> dict[str, str]:
    """One row of a scored CSV of MCP-Atlas."""
    claims = [f"claim {number}" for number, _ in enumerate(scores)]
    covered = {1.0: True, 0.5: "partial", 0.0: False}
    details = [
        {"claim": c, "score": s, "covered": covered[s], "reason": "r"} for c, s in zip(claims, scores, strict=True)
    ]
    calls = [{"tool_name": "git_git_log", "parameters": {"n": 3}, "response": "abc", "error": None}]
    return {
        "TASK": MCP_TASK,
        "ENABLED_TOOLS": '["git_git_log"]',
        "PROMPT": "List crimes since 2001.",
        "TRAJECTORY": "[]",
        "GTFA_CLAIMS": json.dumps(claims),
        "script_model_response": "Two crimes.",
        "raw_conversation_history": "",
        "trajectory": json.dumps(calls),
        "errors": "",
        "trajectory_time": "3.5",
        "num_retry": "0",
        "coverage_score": str(round(sum(scores) / len(scores), 3)) if scores else "",
        "coverage_details_json": json.dumps({"per_claim": details}),
        "evaluation_confidence": "0.9",
        **fields,
    }


def as_csv(*rows: dict[str, str]) -> str:
    """Rows as CSV."""
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]))
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def eval_log(files: dict[str, Any], *, method: int = 93) -> bytes:
    """A zip archive of JSON files as inspect_ai writes it: compressed with zstd (93), deflated (8) or stored (0)."""
    body, directory = b"", b""
    for name, value in files.items():
        content = json.dumps(value).encode()
        deflate = zlib.compressobj(wbits=-zlib.MAX_WBITS)
        packed = {
            93: lambda content=content: pa.compress(content, codec="zstd", asbytes=True),
            8: lambda content=content, deflate=deflate: deflate.compress(content) + deflate.flush(),
            0: lambda content=content: content,
        }[method]()
        sizes = (zlib.crc32(content), len(packed), len(content), len(name), 0)
        central = struct.pack("<4s6H3I5H2I", b"PK\x01\x02", 20, 20, 0, method, 0, 0, *sizes, 0, 0, 0, 0, len(body))
        directory += central + name.encode()
        body += struct.pack("<4s5H3I2H", b"PK\x03\x04", 20, 0, method, 0, 0, *sizes) + name.encode() + packed
    end = struct.pack("<4s4H2IH", b"PK\x05\x06", 0, 0, len(files), len(files), len(directory), len(body), 0)
    return body + directory + end


def inspect_header(**fields: Any) -> dict[str, Any]:
    """The header of a log with one scorer."""
    described = {
        "task": "toy",
        "task_version": 0,
        "model": "openai/gpt-x",
        "model_generate_config": {"seed": 7},
        "packages": {"inspect_ai": "0.3.285"},
        "scorers": [{"name": "match"}],
    }
    return {"version": 2, "status": "success", "eval": described, "results": {"headline": {"score": "match"}}, **fields}


def inspect_sample(epoch: int = 1, value: Any = "C", **fields: Any) -> dict[str, Any]:
    """A sample with one tool call and an answer, its messages in the pool of its events."""
    asked = {"id": "m1", "role": "user", "content": "How many rows?"}
    call = {"id": "call_1", "function": "bash", "arguments": {"cmd": "wc"}, "type": "function"}
    acted = {"id": "m2", "role": "assistant", "content": "let me look", "tool_calls": [call]}
    told = {"id": "m3", "role": "tool", "content": "attachment://f00d", "tool_call_id": "call_1", "function": "bash"}
    answered = {"id": "m4", "role": "assistant", "content": [{"type": "text", "text": "3 rows"}]}
    return {
        "id": "rows",
        "epoch": epoch,
        "input": "How many rows?",
        "messages": [asked, acted, told, answered],
        "output": {"completion": "3 rows"},
        "scores": {"match": {"value": value}},
        "metadata": {},
        "total_time": 1.5,
        "attachments": {"f00d": "3 rows.csv"},
        "events_data": {"messages": [asked, acted, told]},
        "events": [
            _model_event([[0, 1]], acted, 10),
            {"event": "tool", "id": "call_1", "function": "bash", "result": "attachment://f00d", "working_time": 0.25},
            _model_event([[0, 3]], answered, 20),
            {"event": "span_begin", "type": "scorers"},
            _model_event([[0, 1]], answered, 999),
        ],
        **fields,
    }


def _model_event(refs: list[list[int]], message: dict[str, Any], tokens: int) -> dict[str, Any]:
    output = {
        "choices": [{"message": message, "stop_reason": "stop"}],
        "usage": {"input_tokens": tokens, "output_tokens": 5},
    }
    return {
        "event": "model",
        "model": "openai/gpt-x",
        "input": [],
        "input_refs": refs,
        "output": output,
        "working_time": 0.5,
    }
