"""The exports ``atif``, a document of Harbor's interchange format for each valid trial, and ``harbor-job``, whole jobs.

Source: harbor 0.25.0, ``harbor.models.trajectories``, ``harbor.models.trial`` and ``harbor.models.job``. Every number
comes from the marts.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import duckdb

from lhaw_record.analytics.exports.attempts import without_attempt
from lhaw_record.analytics.exports.exported import ExportFolder
from lhaw_record.analytics.views.rows import rows_by_stream, rows_of
from lhaw_record.analytics.views.store import open as open_store

VERSION = "ATIF-v1.7"
"""The latest version adds only audio, which no trial has."""

_TRIALS = """
    select trials.*, starts.trial_started.origin as origin
    from trials
    inner join events as starts on trials.stream_id = starts.stream_id and starts.type = 'trial_started'
    where trials.trial_state = 'valid' and (?::varchar is null or trials.experiment_id = ?)
    order by trials.stream_id
"""
_CALLS = """
    select
        calls.*,
        sent.recorded_at_us,
        sent.model_called.shared_count as shared_count,
        sent.model_called.new_messages_json as new_messages_json,
        sent.model_called.tools_json as tools_json
    from model_calls as calls
    inner join events as sent on calls.stream_id = sent.stream_id and calls.sequence = sent.sequence
    where calls.is_counted and calls.role = 'agent' and calls.outcome = 'responded'
    order by calls.stream_id, calls.sequence
"""
_ACTIONS = "select * from actions where is_counted order by stream_id, action_index"
ATIF_VIEWS = ("trials", "actions", "model_calls")
"""The views that a document is read from."""

_KEPT = (
    *("trial_id", "experiment_id", "benchmark", "task_id", "variant_id", "condition", "trial_index", "seed"),
    *("ended_by", "is_success", "checkpoint_progress", "scores", "action_count", "question_count"),
    *("first_ask_action", "inject_percent", "injected_after_action", "instruments"),
)
"""What ``extra`` contains about the trial, because the format has no field for results."""


def atif_documents(store: Path, experiment: str | None = None) -> ExportFolder:
    """Return a document for each valid trial with recorded actions."""
    with open_store(store, only=set(ATIF_VIEWS)) as connection:
        trials = rows_of(connection, _TRIALS, [experiment, experiment])
        documents = _documents(connection, trials)
        missing = without_attempt(connection, experiment)
    silent = len(trials) - len(documents)
    return ExportFolder(
        files={f"{stream_id}.trajectory.json": _json(each) for stream_id, each in documents.items()},
        count=len(documents),
        what="trajectories",
        left_out=(*missing, *([f"{silent} trials without a record of what the agent did"] if silent else [])),
        has_events=True,
    )


def shown_documents(connection: duckdb.DuckDBPyConnection) -> list[dict[str, Any] | None]:
    """Return the document of each trial of a page, None if it has no valid attempt or no recorded action."""
    found = _documents(connection, rows_of(connection, _TRIALS, [None, None]))
    shown = connection.execute("select stream_id from shown_trials order by place").fetchall()
    return [found.get(stream_id) for (stream_id,) in shown]


def harbor_jobs(store: Path, experiment: str | None = None) -> ExportFolder:
    """Return a job for each experiment and condition, with a trial for each valid trial.

    The rewards of a trial are ``reward``, its success, which Harbor's viewer compares, and its checkpoints as shares,
    but for benchmarks with another rule of success: a reader of jobs takes a trial whose rewards are all 1 for one.
    """
    with open_store(store, only={"trials", "actions", "model_calls", "checkpoints"}) as connection:
        trials = rows_of(connection, _TRIALS, [experiment, experiment])
        documents = _documents(connection, trials)
        checkpoints = rows_by_stream(connection, "select * from checkpoints order by stream_id, position")
        missing = without_attempt(connection, experiment)
    shares = {
        trial["stream_id"]: {each["checkpoint_id"]: each["share"] for each in checkpoints[trial["stream_id"]]}
        for trial in trials
    }
    graded_otherwise = {
        trial["benchmark"]
        for trial in trials
        if trial["is_success"] != all(share == 1 for share in shares[trial["stream_id"]].values())
    }
    files: dict[str, bytes] = {}
    unread: dict[str, bytes] = {}
    jobs: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
    for trial in trials:
        stream_id = trial["stream_id"]
        job = _safe(f"{trial['experiment_id']}__{trial['condition']}")
        others = {} if trial["benchmark"] in graded_otherwise else shares[stream_id]
        result = _result(trial, job, {"reward": float(trial["is_success"]), **others})
        jobs[job].append(result)
        place = f"{job}/{result['trial_name']}"
        files[f"{place}/result.json"] = _json(result)
        unread[f"{place}/config.json"] = _json(result["config"])
        unread[f"{place}/verifier/test-stdout.txt"] = "".join(map(_verdict, checkpoints[stream_id])).encode()
        if stream_id in documents:
            files[f"{place}/agent/trajectory.json"] = _json(documents[stream_id])
    for job, results in jobs.items():
        files[f"{job}/result.json"] = _json(_job_result(job, results))
        agents = {each["agent_info"]["name"]: each["config"]["agent"] for each in results}
        datasets = [{"path": source} for source in sorted({each["source"] for each in results})]
        config = {"job_name": job, "jobs_dir": ".", "agents": list(agents.values()), "datasets": datasets}
        unread[f"{job}/config.json"] = _json(config)
    return ExportFolder(
        files=files,
        unread=unread,
        count=len(trials),
        what=f"trials in {len(jobs)} jobs",
        left_out=missing,
        has_events=True,
        notes=("'harbor view FOLDER' shows them",) if trials else (),
    )


def _result(trial: Mapping[str, Any], job: str, rewards: Mapping[str, float]) -> dict[str, Any]:
    """Return the result of a trial in Harbor's form."""
    task = trial["variant_id"] or trial["task_id"]
    name = f"{_safe(task)}__{trial['trial_id'][:12]}"
    provider, slash, model = trial["model"].partition("/")
    times: dict[str, str | None] = {"started_at": None, "finished_at": None}
    if (began := trial["started_at_us"]) is not None:
        ended = None if trial["wall_seconds"] is None else _time(began + round(trial["wall_seconds"] * 1_000_000))
        times = {"started_at": _time(began), "finished_at": ended}
    return {
        "id": _uuid(trial["stream_id"]),
        "task_name": task,
        "trial_name": name,
        "trial_uri": f"lhaw-record:{trial['stream_id']}",
        "task_id": {"path": task},
        "source": trial["benchmark"],
        "task_checksum": trial["variant_digest"] or trial["task_digest"],
        "config": {
            "task": {"path": task, "source": trial["benchmark"]},
            "trial_name": name,
            "trials_dir": job,
            "agent": {"name": trial["agent"], "model_name": trial["model"]},
            "job_id": _uuid(job),
        },
        "agent_info": {
            "name": trial["agent"],
            "version": trial["program"] or "native",
            "model_info": {"name": model, "provider": provider} if slash else {"name": provider},
        },
        "agent_result": {
            "n_input_tokens": trial["agent_input_tokens"],
            "n_cache_tokens": trial["agent_cached_input_tokens"],
            "n_output_tokens": trial["agent_output_tokens"],
            "cost_usd": trial["agent_cost_usd"],
            "metadata": {"lhaw_record": {name: trial[name] for name in _KEPT}},
        },
        "verifier_result": {"rewards": rewards},
        "agent_execution": times,
        **times,
    }


def _job_result(job: str, results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the result of a job: the trials of each agent by reward, each reward's mean as Harbor has it, and totals.

    A total is None if the number of any trial is unknown.
    """
    groups: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for each in results:
        info = each["agent_info"]
        groups[f"{info['name']}__{info['model_info']['name']}__{each['source']}"].append(each)
    evals = {}
    for key, group in groups.items():
        trials: defaultdict[str, defaultdict[float, list[str]]] = defaultdict(lambda: defaultdict(list))
        for each in group:
            for name, value in each["verifier_result"]["rewards"].items():
                trials[name][value].append(each["trial_name"])
        means = {
            name: sum(value * len(names) for value, names in by_value.items()) / len(group)
            for name, by_value in trials.items()
        }
        evals[key] = {"n_trials": len(group), "n_errors": 0, "metrics": [means], "reward_stats": trials}
    spent = ("n_input_tokens", "n_cache_tokens", "n_output_tokens", "cost_usd")
    used = {name: [each["agent_result"][name] for each in results] for name in spent}
    totals = {name: None if None in numbers else sum(numbers) for name, numbers in used.items()}
    started = sorted(each["started_at"] for each in results if each["started_at"])
    finished = sorted(each["finished_at"] for each in results if each["finished_at"])
    return {
        "id": _uuid(job),
        "started_at": started[0] if started else _time(0),
        "finished_at": finished[-1] if finished else None,
        "n_total_trials": len(results),
        "stats": {"n_completed_trials": len(results), "evals": evals, **totals},
    }


def _verdict(checkpoint: Mapping[str, Any]) -> str:
    points = f"{checkpoint['score']:g} of {checkpoint['total']:g}"
    return f"{checkpoint['checkpoint_id']}: {points}. {checkpoint['label']}. {checkpoint['details'] or ''}\n"


def _safe(name: str) -> str:
    return re.sub(r"[^\w.-]", "-", name)


def _uuid(text: str) -> str:
    return str(UUID(sha256(text.encode()).hexdigest()[:32]))


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"


def _documents(connection: duckdb.DuckDBPyConnection, trials: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the documents of trials by stream id, without those whose actions nobody knows."""
    calls, actions = rows_by_stream(connection, _CALLS), rows_by_stream(connection, _ACTIONS)
    found = {
        trial["stream_id"]: _document(trial, calls[trial["stream_id"]], actions[trial["stream_id"]]) for trial in trials
    }
    return {stream_id: document for stream_id, document in found.items() if document is not None}


def _document(
    trial: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], actions: Sequence[Mapping[str, Any]]
) -> dict[str, Any] | None:
    """Return the document of a trial, None if it has no step. Sub-agents are nested documents."""
    acted = {each["model_call_id"] for each in actions}
    apart = {each["thread_id"] for each in calls if each["call_kind"] == "sub_agent" and each["call_id"] not in acted}
    own = [each for each in calls if each["call_kind"] == "main" or each["call_id"] in acted]
    is_timed = trial["origin"] == "recorded"
    steps = list(_steps(own, actions, is_timed=is_timed))
    if not steps:
        return None
    inner = [
        _agents(trial, mine, list(_steps(mine, (), is_timed=is_timed)), thread)
        for thread in sorted(apart)
        if (mine := [each for each in calls if each["thread_id"] == thread and each["call_kind"] == "sub_agent"])
    ]
    totals = {
        "total_prompt_tokens": trial["agent_input_tokens"],
        "total_completion_tokens": trial["agent_output_tokens"],
        "total_cached_tokens": trial["agent_cached_input_tokens"],
        "total_cost_usd": trial["agent_cost_usd"],
        "total_steps": len(steps),
    }
    return {
        **_agents(trial, own, steps, trial["stream_id"]),
        "session_id": trial["stream_id"],
        "final_metrics": _known(totals),
        "extra": {"lhaw_record": {name: trial[name] for name in _KEPT}},
        **({"subagent_trajectories": inner} if inner else {}),
    }


def _agents(
    trial: Mapping[str, Any], calls: Sequence[Mapping[str, Any]], steps: Sequence[dict[str, Any]], name: str
) -> dict[str, Any]:
    """Return the common part of a document: its agent with the initial tools, and its numbered steps."""
    tools = next((each["tools_json"] for each in calls if each["tools_json"]), None)
    agent = {
        "name": trial["agent_name"],
        "version": trial["program"] or "native",
        "model_name": trial["model"],
        "tool_definitions": json.loads(tools) if tools else None,
    }
    numbered = [{"step_id": number, **step} for number, step in enumerate(steps, 1)]
    return {"schema_version": VERSION, "trajectory_id": name, "agent": _known(agent), "steps": numbered}


def _steps(
    calls: Sequence[Mapping[str, Any]], actions: Sequence[Mapping[str, Any]], *, is_timed: bool
) -> Iterator[dict[str, Any]]:
    """Yield the steps of one thread: the new messages of each request, and the reply with its results.

    If a request does not extend its parent, for example after a compaction, it repeats context, and its messages are
    copies. An action without a model call is a separate step after the preceding actions. If the trial has other model
    calls, the agent acted without asking its model.
    """
    served: defaultdict[str | None, list[Mapping[str, Any]]] = defaultdict(list)
    results = {each["action_index"]: each["result"] for each in actions}
    for each in actions:
        served[each["model_call_id"]].append(each)
    lengths: dict[str, int] = {}
    without = {} if not calls else {"llm_call_count": 0}
    bare = served.pop(None, [])
    for call in calls:
        acts = served[call["call_id"]]
        while acts and bare and bare[0]["action_index"] < acts[0]["action_index"]:
            yield {"source": "agent", "message": "", **_acts([bare.pop(0)]), **without}
        parent = call["parent_call_id"]
        is_copy = parent is not None and call["shared_count"] < lengths.get(parent, 0)
        lengths[call["call_id"]] = call["message_count"] + 1
        for message in json.loads(call["new_messages_json"]):
            text = message.get("content", results.get(message.get("result_of_action")))
            if message["role"] in ("system", "user"):
                yield {
                    "source": message["role"],
                    "message": text if isinstance(text, str) else json.dumps(text),
                    **({"is_copied_context": True} if is_copy else {}),
                }
        yield _reply(call, acts, is_timed=is_timed)
    for action in bare:
        yield {"source": "agent", "message": "", **_acts([action]), **without}


def _reply(call: Mapping[str, Any], actions: Sequence[Mapping[str, Any]], *, is_timed: bool) -> dict[str, Any]:
    metrics = {
        "prompt_tokens": call["input_tokens"],
        "completion_tokens": call["output_tokens"],
        "cached_tokens": call["cached_input_tokens"],
        "cost_usd": call["cost_usd"],
    }
    step = {
        "timestamp": _time(call["recorded_at_us"]) if is_timed else None,
        "source": "agent",
        "model_name": call["model"],
        "message": call["reply_text"] or "",
        "reasoning_content": call["reasoning_text"] or None,
        **_acts(actions),
        "metrics": _known(metrics) or None,
        "llm_call_count": 1,
    }
    return _known(step)


def _acts(actions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the tool calls of a step with their results. Text turns have neither."""
    tools = [each for each in actions if each["kind"] != "text"]
    if not tools:
        return {}
    results = [
        {
            "source_call_id": _call_id(each),
            "content": each["result"],
            "extra": {"is_error": each["is_error"], "duration_ms": each["duration_ms"]},
        }
        for each in tools
        if each["result"] is not None
    ]
    return {"tool_calls": [_call(each) for each in tools], **({"observation": {"results": results}} if results else {})}


def _call(action: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool call. Arguments that are not an object do not fit the format and are kept as text in ``extra``."""
    is_object = action["kind"] == "tool"
    return {
        "tool_call_id": _call_id(action),
        "function_name": action["action_name"],
        "arguments": json.loads(action["arguments_json"]) if is_object else {},
        **({} if is_object else {"extra": {"malformed_arguments": action["arguments_json"]}}),
    }


def _call_id(action: Mapping[str, Any]) -> str:
    return action["call_id"] or f"action-{action['action_index']}"


def _time(recorded_at_us: int) -> str:
    return datetime.fromtimestamp(recorded_at_us / 1_000_000, UTC).isoformat()


def _known(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}
