"""The exports ``trials``, in the format of the timing paper, and ``trajectories``: the actions of successful trials.

The paper's fields come first, then agent, benchmark, task_id, oracle_scope, trial_index and seed.

Source: Ask Early, A.12.
"""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from lhaw_record.analytics.exports.attempts import actions, conversations, without_attempt
from lhaw_record.analytics.exports.exported import ExportDocument
from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store

_TRIALS = """
    select *
    from trials
    where trial_state = 'valid' and (?::varchar is null or experiment_id = ?)
    order by benchmark, task_id, variant_id nulls first, agent, condition, trial_index, trial_id
"""


def trial_records(store: Path, experiment: str | None = None) -> ExportDocument:
    """Return one record for each valid trial of a store."""
    with open_store(store, only={"trials", "actions"}) as connection:
        trials = rows_of(connection, _TRIALS, [experiment, experiment])
        done, said = actions(connection), conversations(connection)
        missing = without_attempt(connection, experiment)
    records = [
        _record(trial, done.get(trial["stream_id"], []), [each.message for each in said.get(trial["stream_id"], [])])
        for trial in trials
    ]
    return ExportDocument(
        document=records,
        count=len(records),
        what="trials",
        left_out=missing,
    )


def _record(
    trial: Mapping[str, Any], taken: Sequence[Mapping[str, Any]], messages: list[dict[str, Any]]
) -> dict[str, Any]:
    """Build the record of a trial. Unknown values are null. Injection fields are null if no injection was planned."""
    percent, count = trial["inject_percent"], trial["action_count"]
    before = None if percent is None else trial["injected_after_action"] if trial["is_injected"] else count
    return {
        "variant_id": trial["variant_id"],
        "model": trial["model"],
        "condition": trial["condition"],
        "injection_point": None if percent is None else percent / 100,
        "actions": [
            {
                "action_name": action["action_name"],
                "parameters": action["arguments"],
                "result": action["result"],
                "is_pre_injection": None if before is None else action["action_index"] <= before,
            }
            for action in taken
        ]
        if count is not None
        else None,
        "conversation": messages,
        "task_success": trial["is_success"],
        "total_actions": count,
        "pre_injection_actions": before,
        "post_injection_actions": None if before is None or count is None else count - before,
        "duration_seconds": trial["wall_seconds"],
        "agent": trial["agent_name"],
        "benchmark": trial["benchmark"],
        "task_id": trial["task_id"],
        "oracle_scope": trial["oracle_scope"],
        "trial_index": trial["trial_index"],
        "seed": trial["seed"],
        "instruments": trial["instruments"],
    }


FORMAT = "lhaw-record/trajectories-1"
_SUCCESSES = """
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
        trials = rows_of(connection, _SUCCESSES, [experiment, experiment])
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
