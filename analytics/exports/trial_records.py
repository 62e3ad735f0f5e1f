"""Export ``trials``: the timing paper's trial JSON, one object for each valid trial. Source: Ask Early, A.12.

The fields of the paper come first; agent, benchmark, task_id, oracle_scope, trial_index and seed are ours.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analytics.exports.actions import actions
from analytics.exports.conversations import conversations
from analytics.exports.exported import Exported, rows_of
from analytics.store import open as open_store

_TRIALS = """
    select trials.*, attempts.duration_ms
    from trials
    inner join int_attempts as attempts on trials.stream_id = attempts.stream_id
    where trials.trial_state = 'valid' and (?::varchar is null or trials.experiment_id = ?)
    order by
        trials.benchmark, trials.task_id, trials.variant_id nulls first, trials.agent, trials.condition,
        trials.trial_index, trials.trial_id
"""


def trial_records(store: Path, experiment: str | None = None) -> Exported:
    """Return the valid trials of a store as trial records.

    Args:
        store: The store's directory.
        experiment: Only trials of this experiment.

    Raises:
        StoreError: There is no store.
    """
    connection = open_store(store, only={"trials", "actions", "int_attempts"})
    try:
        trials = rows_of(connection, _TRIALS, [experiment, experiment])
        done, told = actions(connection), conversations(connection)
        ((missing,),) = connection.execute("select count(*) from trials where trial_state <> 'valid'").fetchall()
    finally:
        connection.close()
    records = [_record(trial, done.get(trial["stream_id"], []), told.get(trial["stream_id"], [])) for trial in trials]
    return Exported(
        document=records,
        count=len(records),
        what="trials",
        left_out=(f"{missing} trials without a valid attempt",) if missing else (),
    )


def _record(
    trial: Mapping[str, Any], taken: Sequence[Mapping[str, Any]], messages: list[dict[str, Any]]
) -> dict[str, Any]:
    """One record. Where no injection was planned, what only an injection gives is null; so is what is unknown."""
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
        "duration_seconds": None if trial["duration_ms"] is None else trial["duration_ms"] / 1000,
        "agent": trial["agent_name"],
        "benchmark": trial["benchmark"],
        "task_id": trial["task_id"],
        "oracle_scope": trial["oracle_scope"],
        "trial_index": trial["trial_index"],
        "seed": trial["seed"],
    }
