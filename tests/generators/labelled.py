"""The hand-labelled segments of real prompts (README.md in labels/), and the prompts where they are here."""

import csv
import hashlib
from functools import lru_cache
from pathlib import Path

import msgspec

from lhaw_record.recorder.events.values import Dimension
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import read_rows

LABELS = Path(__file__).parent / "labels"
REAL = Path(__file__).resolve().parents[3] / "shared" / "real"
SPLITS = ("development", "test", "later")
ROWS_FILES = ("rows_v1_format.csv", "rows_v2_format.csv", "offline_prompts.jsonl")


class GoldSegment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One labelled segment: code points ``[start, end)`` of the stripped prompt, and what it is."""

    start: int
    end: int
    dimension: Dimension
    subdimension: str
    kind: str
    criticality: float
    guessability: float
    is_nested: bool = False


class LabelledPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The labels of one prompt; ``family`` is None where no other prompt shares sentences with it."""

    benchmark: str
    task_id: str
    prompt_sha256: str
    segments: tuple[GoldSegment, ...]
    family: str | None = None


class LabelsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One split."""

    split: str
    prompts: tuple[LabelledPrompt, ...]


def read_labels(split):
    """Return the labelled prompts of one split in file order.

    Raises:
        msgspec.ValidationError: A key is unknown, missing or of the wrong type.
    """
    return msgspec.toml.decode((LABELS / f"{split}.toml").read_bytes(), type=LabelsFile).prompts


@lru_cache(maxsize=1)
def real_prompts(real=REAL):
    """Return the published prompts by (benchmark, task id), white space at both ends stripped.

    Raises:
        FileNotFoundError: The published files are not here.
    """
    prompts = {}
    with (real / "tac" / "tasks_index.csv").open(encoding="utf-8", newline="") as file:
        names = [row["task"] for row in csv.DictReader(file)]
    for name in names:
        prompts["tac", name] = (real / "tac" / "tasks" / name / "task.md").read_bytes().decode("utf-8").strip()
    for row in read_rows([real / "mcpatlas" / name for name in ROWS_FILES]):
        prompts["mcp_atlas", row.task_id] = row.prompt.strip()
    return prompts


def faults(labelled, prompt):
    """Return what is wrong with the labels of one prompt, one sentence each; without a text, only what needs none."""
    where = f"{labelled.benchmark}/{labelled.task_id}"
    if prompt is not None and hashlib.sha256(prompt.encode()).hexdigest() != labelled.prompt_sha256:
        return [f"{where}: the labels are of another prompt"]
    found = []
    segments = labelled.segments
    if [(each.start, -each.end) for each in segments] != sorted({(each.start, -each.end) for each in segments}):
        found.append(f"{where}: segments are out of order or occur twice")
    for number, each in enumerate(segments):
        span = f"{where} [{each.start}, {each.end})"
        if not 0 <= each.start < each.end or (prompt is not None and each.end > len(prompt)):
            found.append(f"{span}: out of range")
        elif prompt is not None and prompt[each.start : each.end] != prompt[each.start : each.end].strip():
            found.append(f"{span}: begins or ends with white space")
        earlier = [other for other in segments[:number] if other.end > each.start]
        if [other for other in earlier if other.end < each.end] or bool(earlier) != each.is_nested:
            found.append(f"{span}: overlaps, or is marked nested and is not")
    return found
