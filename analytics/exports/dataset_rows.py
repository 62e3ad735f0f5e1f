"""Export ``hf``: classified variants, or those of a selection, as rows of the published dataset.

Source: docs/imports.md; LHAW, appendix F.2.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import floor
from pathlib import Path
from typing import Any

from analytics.errors import UnknownName
from analytics.exports.exported import Exported, rows_of
from analytics.store import open as open_store

DATASETS = {"mcp_atlas": "MCP-Atlas", "tac": "TheAgentCompany", "swebench_pro": "SWE-Bench Pro"}
"""The names of the release; another benchmark keeps its own."""
_VARIANTS = """
    select
        stream_id,
        sequence,
        variant_generated.variant as variant,
        variant_generated.variant_digest as digest,
        max(variant_generated.task_digest) over (partition by variant_generated.variant_digest) as task_digest,
        max(variant_generated.terminal_states) over (partition by variant_generated.variant_digest) as terminal_states
    from events
    where type = 'variant_generated' and (?::varchar is null or experiment_id = ?)
    order by recorded_at_us, stream_id, sequence
"""
_TASKS = """
    select stream_id, sequence, benchmark, task_id, task_digest, prompt
    from stg_tasks_registered
    order by recorded_at_us, stream_id, sequence
"""
_CLASSES = "select variant_digest, ambiguity_class, classified_by from ambiguity_classes"
_STATES = """
    select variant_digest, role, agent, terminal_state
    from trials
    where condition = 'underspecified' and trial_state = 'valid'
"""
_SELECTIONS = """
    select
        benchmark,
        selection,
        arg_max(
            { 'classifier': classifier, 'variants': variants }, (recorded_at_us, stream_id, sequence)
        ) as chosen
    from stg_benchmarks_selected
    group by benchmark, selection
    order by benchmark, selection
"""


def dataset_rows(
    store: Path, experiment: str | None = None, *, selection: str | None = None, benchmark: str | None = None
) -> Exported:
    """Return the dataset rows of all variants that have a class, in the order of their registration.

    Args:
        store: The store's directory.
        experiment: Only variants that this experiment registered.
        selection: Only variants of the last selection of this name (of each benchmark), in the order of their choice,
            with the class that they were chosen for.
        benchmark: Of the selections of that name only this benchmark's.

    Raises:
        StoreError: There is no store.
        UnknownName: It has no such selection.
    """
    views = {"stg_tasks_registered", "stg_benchmarks_selected", "ambiguity_classes", "trials"}
    connection = open_store(store, only=views)
    try:
        variants = rows_of(connection, _VARIANTS, [experiment, experiment])
        tasks = rows_of(connection, _TASKS)
        classes = rows_of(connection, _CLASSES)
        states = rows_of(connection, _STATES)
        selections = rows_of(connection, _SELECTIONS)
    finally:
        connection.close()
    labels = {row["variant_digest"]: (row["ambiguity_class"], row["classified_by"]) for row in classes}
    prompts = _Prompts(tasks)
    if selection is None:
        latest = {(row["variant"]["benchmark"], row["variant"]["variant_id"]): row for row in variants}
        return _exported(list(latest.values()), labels, prompts, states)
    chosen = _chosen([row for row in selections if benchmark in (None, row["benchmark"])], selection)
    by_digest = {row["digest"]: row for row in variants}
    found = [by_digest[digest] for digest in chosen if digest in by_digest]
    return _exported(found, labels | chosen, prompts, states, lost=len(chosen) - len(found))


def _chosen(selections: Sequence[Mapping[str, Any]], name: str) -> dict[str, tuple[str, str]]:
    """The class of each variant of a selection, and who gave it, by variant digest."""
    found = [row["chosen"] for row in selections if row["selection"] == name]
    if not found:
        there = ", ".join(dict.fromkeys(row["selection"] for row in selections)) or "none"
        raise UnknownName(f"there is no selection {name!r} in this store; there are: {there}")
    return {
        each["variant_digest"]: (each["ambiguity_class"], row["classifier"])
        for row in found
        for each in row["variants"]
    }


def _exported(
    variants: Iterable[Mapping[str, Any]],
    labels: Mapping[str, tuple[str | None, str | None]],
    prompts: "_Prompts",
    states: Iterable[Mapping[str, Any]],
    *,
    lost: int = 0,
) -> Exported:
    reached = _states(states, {digest: giver for digest, (_, giver) in labels.items()})
    rows, unclassified, without_task, changed = [], 0, 0, 0
    for row in variants:
        variant, prompt = row["variant"], prompts.of(row)
        label, _ = labels.get(row["digest"], (None, None))
        if variant["severity"] == "environment":
            changed += 1
        elif variant["origin"] == "control" or label in (None, "new_task"):
            unclassified += 1
        elif prompt is None:
            without_task += 1
        else:
            rows.append(_row(variant, label, prompt, reached.get(row["digest"]) or row["terminal_states"] or []))
    has_fractions = any(value != floor(value) for state in reached.values() for results in state for value in results)
    return Exported(
        document=rows,
        count=len(rows),
        what="dataset rows",
        left_out=(
            *((f"{lost} selected variants that are not registered",) if lost else ()),
            *((f"{unclassified} variants without an ambiguity class",) if unclassified else ()),
            *((f"{without_task} variants whose task is not registered",) if without_task else ()),
            *((f"{changed} variants that change the environment: the format has prompts only",) if changed else ()),
            *(("fractions of points: terminal_states holds whole numbers, rounded down",) if has_fractions else ()),
        ),
    )


class _Prompts:
    """The full prompt of a variant: of the task that it was made from, where that is recorded; else of its task as
    registered last before it in its stream, else as registered last.
    """

    def __init__(self, tasks: Iterable[Mapping[str, Any]]) -> None:
        self._by_task: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
        for task in tasks:
            self._by_task[task["benchmark"], task["task_id"]].append(task)

    def of(self, row: Mapping[str, Any]) -> str | None:
        """Return the prompt, None where the task is not registered."""
        found = self._by_task.get((row["variant"]["benchmark"], row["variant"]["task_id"]), [])
        found = [task for task in found if task["task_digest"] == row["task_digest"]] or found
        before = [
            task for task in found if task["stream_id"] == row["stream_id"] and task["sequence"] < row["sequence"]
        ]
        return str((before or found)[-1]["prompt"]) if found else None


def _states(rows: Iterable[Mapping[str, Any]], givers: Mapping[str, str | None]) -> dict[str, list[tuple[float, ...]]]:
    """The distinct terminal states of each variant: those of the classifying trials, where there are any, and of these
    those of the agent that gave the class.
    """
    by_rank: dict[str, dict[int, set[tuple[float, ...]]]] = defaultdict(lambda: defaultdict(set))
    for row in rows:
        is_classifying = row["role"] == "classifier"
        rank = is_classifying + (is_classifying and row["agent"] == givers.get(row["variant_digest"]))
        by_rank[row["variant_digest"]][rank].add(tuple(row["terminal_state"]))
    return {digest: sorted(ranked[max(ranked)]) for digest, ranked in by_rank.items()}


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
