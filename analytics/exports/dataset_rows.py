"""Export ``hf``: classified variants as rows of the published dataset. Source: docs/metrics.md 7."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Any

from analytics.exports.exported import Exported, rows_of
from analytics.store import open as open_store

DATASETS = {"mcp_atlas": "MCP-Atlas", "tac": "TheAgentCompany", "swebench_pro": "SWE-Bench Pro"}
"""The names of the release; another benchmark keeps its own."""
_VARIANTS = """
    select stream_id, sequence, variant_generated.variant as variant, variant_generated.variant_digest as digest
    from events
    where type = 'variant_generated' and (?::varchar is null or experiment_id = ?)
    order by recorded_at_us, stream_id, sequence
"""
_TASKS = """
    select stream_id, sequence, benchmark, task_id, prompt
    from stg_tasks_registered
    order by recorded_at_us, stream_id, sequence
"""
_STATES = """
    select variant_digest, role, terminal_state
    from trials
    where condition = 'underspecified' and trial_state = 'valid'
"""


def dataset_rows(store: Path, experiment: str | None = None) -> Exported:
    """Return the dataset rows of all variants that have a class, in the order of their registration.

    Args:
        store: The store's directory.
        experiment: Only variants that this experiment registered.

    Raises:
        StoreError: There is no store.
    """
    connection = open_store(store, only={"stg_tasks_registered", "ambiguity_classes", "trials"})
    try:
        variants = rows_of(connection, _VARIANTS, [experiment, experiment])
        tasks = rows_of(connection, _TASKS)
        classes = rows_of(connection, "select variant_digest, ambiguity_class from ambiguity_classes")
        states = rows_of(connection, _STATES)
    finally:
        connection.close()
    labels = {row["variant_digest"]: row["ambiguity_class"] for row in classes}
    prompts = _Prompts(tasks)
    reached = _states(states)
    latest = {row["variant"]["variant_id"]: row for row in variants}
    rows, unclassified, without_task = [], 0, 0
    for row in latest.values():
        variant, label, prompt = row["variant"], labels.get(row["digest"]), prompts.of(row)
        if variant["origin"] == "control" or label in (None, "new_task"):
            unclassified += 1
        elif prompt is None:
            without_task += 1
        else:
            rows.append(_row(variant, label, prompt, reached.get(row["digest"], [])))
    has_fractions = any(value != floor(value) for state in reached.values() for results in state for value in results)
    return Exported(
        document=rows,
        count=len(rows),
        what="dataset rows",
        left_out=(
            *((f"{unclassified} variants without an ambiguity class",) if unclassified else ()),
            *((f"{without_task} variants whose task is not registered",) if without_task else ()),
            *(("fractions of points: terminal_states holds whole numbers, rounded down",) if has_fractions else ()),
        ),
    )


class _Prompts:
    """The full prompt of a variant: of its task as registered last before it in its stream, else as registered last."""

    def __init__(self, tasks: Iterable[Mapping[str, Any]]) -> None:
        self._by_task: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for task in tasks:
            self._by_task[task["benchmark"], task["task_id"]].append(task)

    def of(self, row: Mapping[str, Any]) -> str | None:
        """Return the prompt, None where the task is not registered."""
        found = self._by_task.get((row["variant"]["benchmark"], row["variant"]["task_id"]), [])
        before = [
            task for task in found if task["stream_id"] == row["stream_id"] and task["sequence"] < row["sequence"]
        ]
        return str((before or found)[-1]["prompt"]) if found else None


def _states(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[tuple[float, ...]]]:
    """The distinct terminal states of each variant: those of the classifying trials, where there are any."""
    by_role: dict[str, dict[str, set[tuple[float, ...]]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        by_role[row["variant_digest"]][row["role"]].add(tuple(row["terminal_state"]))
    found = {}
    for digest, sets in by_role.items():
        every = {state for states in sets.values() for state in states}
        found[digest] = sorted(sets.get("classifier") or every)
    return found


def _row(
    variant: Mapping[str, Any], label: str | None, prompt: str, states: Iterable[Sequence[float]]
) -> dict[str, Any]:
    segments = variant["segments"]
    whole = sorted({tuple(floor(value) for value in state) for state in states})
    return {
        "variant_id": variant["variant_id"],
        "original_task": variant["task_id"],
        "dataset": DATASETS.get(variant["benchmark"], variant["benchmark"]),
        "original_prompt": prompt,
        "underspecified_prompt": variant["prompt"],
        "information_dimension": list(dict.fromkeys(segment["dimension"] for segment in segments)),
        "ambiguity_class": label,
        "removed_segments": [
            {
                "dimension": segment["dimension"],
                "id": segment["segment_id"],
                "subdimension": segment["subdimension"],
                "value": segment["value"],
            }
            for segment in segments
        ],
        "expected_questions": [
            {"questions": list(group["questions"]), "segment_id": group["segment_id"]}
            for group in variant["expected_questions"] or ()
        ],
        "terminal_states": repr(whole),
    }
