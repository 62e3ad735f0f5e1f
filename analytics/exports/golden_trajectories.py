"""The export ``trajectories``: the actions of every successful ``full`` trial, grouped by task."""

from collections.abc import Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

from lhaw_record.analytics.exports.attempts import actions
from lhaw_record.analytics.exports.exported import ExportDocument
from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store

FORMAT = "lhaw-record/trajectories-1"
_TRIALS = """
    select
        trials.benchmark, trials.task_id, trials.task_digest, trials.trial_id, trials.stream_id, trials.agent,
        trials.model, trials.trial_index, tasks.prompt, answers.final_answer
    from trials
    inner join tasks on trials.task_digest = tasks.task_digest
    left join stg_trials_finished as answers on trials.stream_id = answers.stream_id
    where
        trials.trial_state = 'valid'
        and trials.condition = 'full'
        and trials.is_success
        and (?::varchar is null or trials.experiment_id = ?)
    order by trials.benchmark, trials.task_id, trials.task_digest, trials.agent, trials.trial_index, trials.trial_id
"""


def golden_trajectories(store: Path, experiment: str | None = None) -> ExportDocument:
    """Return the actions of every successful trial with the full prompt, grouped by task."""
    with open_store(store, only={"trials", "actions", "tasks", "stg_trials_finished"}) as connection:
        trials = rows_of(connection, _TRIALS, [experiment, experiment])
        done = actions(connection)
    without = sum(trial["stream_id"] not in done for trial in trials)
    kept = [trial for trial in trials if trial["stream_id"] in done]
    tasks = [
        {
            "benchmark": key[0],
            "task_id": key[1],
            "task_digest": key[2],
            "prompt": key[3],
            "trajectories": [_trajectory(trial, done[trial["stream_id"]]) for trial in group],
        }
        for key, group in groupby(
            kept, key=lambda each: (each["benchmark"], each["task_id"], each["task_digest"], each["prompt"])
        )
    ]
    return ExportDocument(
        document={"format": FORMAT, "tasks": tasks},
        count=len(kept),
        what="trajectories",
        left_out=(f"{without} successful trials without recorded actions",) if without else (),
    )


def _trajectory(trial: Mapping[str, Any], taken: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "trial_id": trial["trial_id"],
        "agent": trial["agent"],
        "model": trial["model"],
        "trial_index": trial["trial_index"],
        "action_count": len(taken),
        "actions": taken,
        "final_answer": trial["final_answer"],
    }
