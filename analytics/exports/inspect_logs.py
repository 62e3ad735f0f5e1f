"""The export ``inspect``: an inspect_ai log (.eval) for each experiment, benchmark, agent and condition.

A log is a zip archive of JSON files, so inspect_ai is not needed. Every number comes from the marts.

Source: inspect_ai 0.3, ``inspect_ai.log.EvalLog`` and its recorder of .eval files.
"""

import io
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from itertools import groupby
from pathlib import Path
from typing import Any

from lhaw_record.analytics.exports.attempts import Said, conversations, without_attempt
from lhaw_record.analytics.exports.exported import ExportFolder
from lhaw_record.analytics.views.rows import rows_by_stream, rows_of
from lhaw_record.analytics.views.store import open as open_store

_TRIALS = """
    select trials.*, tasks.prompt as task_prompt, variants.prompt as variant_prompt, answers.final_answer
    from trials
    left join tasks on trials.task_digest = tasks.task_digest
    left join variants on trials.variant_digest = variants.variant_digest
    left join stg_trials_finished as answers on trials.stream_id = answers.stream_id
    where trials.trial_state = 'valid' and (?::varchar is null or trials.experiment_id = ?)
    order by trials.experiment_id, trials.benchmark, trials.agent, trials.condition, trials.task_id,
        trials.variant_id nulls first, trials.trial_index, trials.trial_id
"""
_CHECKPOINTS = "select * from checkpoints order by stream_id, position"
_QUESTIONS = "select * from questions where is_counted order by stream_id, question_number"
_CALLS = """
    select calls.*, sent.recorded_at_us
    from model_calls as calls
    inner join events as sent on calls.stream_id = sent.stream_id and calls.sequence = sent.sequence
    where calls.is_counted and calls.role = 'agent' and calls.outcome = 'responded'
"""
_ACTIONS = "select * from actions where is_counted"
_GROUP = ("experiment_id", "benchmark", "agent", "condition")
_KEPT = (
    *("trial_id", "experiment_id", "benchmark", "task_id", "variant_id", "condition", "agent", "agent_name"),
    *("strategy", "persona", "program", "instruments", "seed", "ended_by", "ambiguity_class", "severity", "dimensions"),
    *("action_count", "question_count", "first_ask_action", "inject_percent", "settings_digest", "grader"),
)
"""What ``metadata`` contains about the trial, because the format has no field for it."""


def inspect_logs(store: Path, experiment: str | None = None) -> ExportFolder:
    """Return the logs. A sample is a valid trial; its epoch is its number within the same task or variant."""
    views = {"trials", "tasks", "variants", "checkpoints", "questions", "stg_trials_finished"} | {
        "model_calls",
        "actions",
    }
    with open_store(store, only=views) as connection:
        trials = rows_of(connection, _TRIALS, [experiment, experiment])
        checkpoints, questions = rows_by_stream(connection, _CHECKPOINTS), rows_by_stream(connection, _QUESTIONS)
        calls, actions = rows_by_stream(connection, _CALLS), rows_by_stream(connection, _ACTIONS)
        said = conversations(connection)
        missing = without_attempt(connection, experiment)
    files = {}
    for key, group in groupby(trials, key=lambda trial: tuple(trial[name] for name in _GROUP)):
        epochs: defaultdict[str, int] = defaultdict(int)
        samples = []
        for trial in group:
            stream = trial["stream_id"]
            sample_id = trial["variant_id"] or trial["task_id"]
            epochs[sample_id] += 1
            sample = _sample(trial, said.get(stream, []), checkpoints[stream], questions[stream])
            events = _events(trial, sample, said.get(stream, []), calls[stream], actions[stream])
            pool = {"messages": sample["messages"], "calls": []}
            samples.append(
                {"id": sample_id, "epoch": epochs[sample_id], **sample, "events": events, "events_data": pool}
            )
        name = re.sub(r"[^\w.-]", "-", "_".join(key))
        files[f"{name}-{sha256(repr(key).encode()).hexdigest()[:8]}.eval"] = _archive(key, trials, samples)
    return ExportFolder(
        files=files,
        count=len(trials),
        what=f"samples in {len(files)} logs",
        left_out=missing,
        has_events=True,
    )


def _sample(
    trial: Mapping[str, Any],
    said: Sequence[Said],
    checkpoints: Sequence[Mapping[str, Any]],
    questions: Sequence[Mapping[str, Any]],
) -> dict[str, Any]:
    started = trial["started_at_us"]
    asked = ("question", "context", "answer", "action_index", "requested_segment_ids")
    metadata = {name: trial[name] for name in _KEPT}
    return {
        "input": trial["variant_prompt"] or trial["task_prompt"] or "",
        "target": "",
        "messages": [_message(each, f"m{number}") for number, each in enumerate(said)],
        "output": _output(trial),
        "scores": _scores(trial, checkpoints),
        "metadata": {
            **metadata,
            **({"inject_after_action": trial["injected_after_action"]} if trial["inject_percent"] else {}),
            "cost_usd": trial["agent_cost_usd"],
            "questions": [{name: each[name] for name in asked} for each in questions],
        },
        "model_usage": _usage(trial),
        "started_at": None if started is None else datetime.fromtimestamp(started / 1_000_000, UTC).isoformat(),
        "total_time": trial["wall_seconds"],
        "working_time": trial["charged_seconds"],
        "uuid": trial["trial_id"],
    }


def _message(said: Said, message_id: str) -> dict[str, Any]:
    """Return a chat message in inspect_ai's form. Reasoning is a part of the content."""
    message = said.message
    text = message.get("content")
    content: Any = text if isinstance(text, str) else "" if text is None else json.dumps(text)
    if said.reasoning:
        content = [{"type": "reasoning", "reasoning": said.reasoning}, {"type": "text", "text": content}]
    found = {"id": message_id, "role": message["role"], "content": content}
    if message["role"] == "assistant":
        found["source"] = "generate"
        found["tool_calls"] = [_call(each) for each in message.get("tool_calls") or ()] or None
    elif message["role"] == "tool":
        found["tool_call_id"] = message.get("tool_call_id")
    return found


def _call(call: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool call. Arguments that are not a JSON object go to ``parse_error``, as in inspect_ai."""
    given = call["function"]["arguments"]
    try:
        arguments = json.loads(given)
    except ValueError:
        arguments = None
    fault = {} if isinstance(arguments, dict) else {"parse_error": f"no JSON object: {given}"}
    return {
        "id": call["id"],
        "function": call["function"]["name"],
        "arguments": arguments if isinstance(arguments, dict) else {},
        "type": "function",
        **fault,
    }


def _output(trial: Mapping[str, Any]) -> dict[str, Any]:
    answer = {"role": "assistant", "content": trial["final_answer"] or "", "source": "generate"}
    return {"model": trial["model"], "choices": [{"message": answer, "stop_reason": "stop"}]}


def _scores(trial: Mapping[str, Any], checkpoints: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return success first, as the headline, then progress and each checkpoint as a share of its points."""
    return {
        "success": {"value": float(trial["is_success"]), "answer": trial["final_answer"] or None},
        **({} if trial["checkpoint_progress"] is None else {"progress": {"value": trial["checkpoint_progress"]}}),
        **{
            f"checkpoint/{each['checkpoint_id']}": {
                "value": each["score"] / each["total"] if each["total"] else 0.0,
                "explanation": each["details"] or None,
                "metadata": {"label": each["label"], "score": each["score"], "total": each["total"]},
            }
            for each in checkpoints
        },
    }


def _events(
    trial: Mapping[str, Any],
    sample: Mapping[str, Any],
    said: Sequence[Said],
    calls: Sequence[Mapping[str, Any]],
    actions: Sequence[Mapping[str, Any]],
) -> list[dict[str, Any]]:
    """Return the transcript that inspect_ai's viewer shows: each reply, each tool's result, each score.

    A request is a range of ``events_data``, which has every message once.
    """
    by_id = {each["call_id"]: each for each in calls}
    acts = {each["call_id"]: each for each in actions if each["call_id"]}
    begun = sample["started_at"] or _UNKNOWN_TIME
    now = 0.0

    def event(kind: str, number: int | str, **fields: Any) -> dict[str, Any]:
        at = (datetime.fromisoformat(begun) + timedelta(seconds=now)).isoformat()
        return {"event": kind, "uuid": f"{kind}-{number}", "timestamp": at, "working_start": now, **fields}

    given = {"id": trial["variant_id"] or trial["task_id"], "input": sample["input"], "target": ""}
    found = [event("sample_init", 0, sample=given)]
    for number, (each, message) in enumerate(zip(said, sample["messages"], strict=True)):
        if each.call_id is not None:
            call = by_id.get(each.call_id, {})
            if sample["started_at"] and call:
                now = max(now, (call["recorded_at_us"] - trial["started_at_us"]) / 1_000_000)
            nothing: dict[str, Any] = {"tools": [], "tool_choice": "auto", "config": {}, "input": []}
            model, output = call.get("model") or trial["model"], _reply(message, call, trial["model"])
            range_of = {"input_refs": [[0, number]], "working_time": _seconds(call.get("latency_ms"))}
            found.append(event("model", number, model=model, **nothing, **range_of, output=output))
            now += _seconds(call.get("latency_ms")) or 0.0
            asked = {one["id"]: one for one in message.get("tool_calls") or ()}
        elif message["role"] == "tool" and (one := asked.pop(message["tool_call_id"], None)):
            act = acts.get(one["id"], {})
            wrong = {"error": {"type": "unknown", "message": message["content"]}} if act.get("is_error") else {}
            took = _seconds(act.get("duration_ms"))
            what = {"id": one["id"], "function": one["function"], "arguments": one["arguments"]}
            found.append(event("tool", number, **what, result=message["content"], working_time=took, **wrong))
            now += took or 0.0
    found += [event("score", name, score=score, scorer=name) for name, score in sample["scores"].items()]
    return found


def _reply(message: Mapping[str, Any], call: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return the output of a model call, with its tokens and cost if they are known."""
    reason = _STOPS.get(call.get("finish_reason") or "stop", "unknown")
    output: dict[str, Any] = {"model": model, "choices": [{"message": message, "stop_reason": reason}]}
    usage = _tokens({name: call.get(name) for name in _TOKENS})
    return {**output, "usage": {**usage, "total_cost": call.get("cost_usd")}} if usage else output


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


_STOPS = {"stop": "stop", "tool_calls": "tool_calls", "length": "max_tokens", "content_filter": "content_filter"}


def _usage(trial: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agent's tokens by model."""
    usage = _tokens({name: trial[f"agent_{name}"] for name in _TOKENS})
    return {trial["model"]: usage} if usage else {}


_TOKENS = ("input_tokens", "output_tokens", "cached_input_tokens", "cache_write_tokens", "reasoning_tokens")


def _tokens(counts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a count of tokens, or nothing if it is unknown, because the format cannot express that.

    inspect_ai's input tokens are without those that were read from a cache or written to it.
    """
    sent, received = counts["input_tokens"], counts["output_tokens"]
    if sent is None or received is None:
        return {}
    more = {
        "input_tokens_cache_read": counts["cached_input_tokens"],
        "input_tokens_cache_write": counts["cache_write_tokens"],
        "reasoning_tokens": counts["reasoning_tokens"],
    }
    rest = sent - (more["input_tokens_cache_read"] or 0) - (more["input_tokens_cache_write"] or 0)
    return {"input_tokens": rest, "output_tokens": received, "total_tokens": sent + received, **more}


def _total_usage(samples: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the sums of the samples' tokens by model, or nothing if any sample's tokens are unknown."""
    used = [each["model_usage"] for each in samples]
    if not all(used):
        return {}
    by_model: defaultdict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for each in used:
        for model, usage in each.items():
            by_model[model].append(usage)
    return {
        model: {field: _sum_known([usage[field] for usage in found]) for field in found[0]}
        for model, found in by_model.items()
    }


def _sum_known(counts: Sequence[int | None]) -> int | None:
    known = [each for each in counts if each is not None]
    return sum(known) if len(known) == len(counts) else None


_UNKNOWN_TIME = "1970-01-01T00:00:00+00:00"
"""The format requires a time."""


def _completed_at(sample: Mapping[str, Any]) -> str:
    """Return when a sample ended, or when it began if its duration is unknown."""
    return (datetime.fromisoformat(sample["started_at"]) + timedelta(seconds=sample["total_time"] or 0)).isoformat()


def _archive(key: Sequence[str], trials: Sequence[Mapping[str, Any]], samples: Sequence[dict[str, Any]]) -> bytes:
    """Return the zip archive of one log."""
    experiment, benchmark, agent, condition = key
    model = next(trial["model"] for trial in trials if tuple(trial[name] for name in _GROUP) == tuple(key))
    timed = [each for each in samples if each["started_at"]]
    begun = min((each["started_at"] for each in timed), default=_UNKNOWN_TIME)
    log_id = sha256(repr(key).encode()).hexdigest()[:22]
    epochs = max(each["epoch"] for each in samples)
    mean = sum(each["scores"]["success"]["value"] for each in samples) / len(samples)
    header = {
        "version": 2,
        "status": "success",
        "eval": {
            "eval_id": log_id,
            "run_id": experiment,
            "created": begun,
            "task": f"{benchmark}-{condition}",
            "task_id": log_id,
            "task_version": 0,
            "dataset": {
                "name": benchmark,
                "samples": len({each["id"] for each in samples}),
                "sample_ids": sorted({each["id"] for each in samples}),
            },
            "model": model,
            "config": {"epochs": epochs},
            "metadata": {"agent": agent, "condition": condition, "experiment_id": experiment, "lhaw_record": 1},
        },
        "plan": {"name": "plan", "steps": []},
        "results": {
            "total_samples": len(samples),
            "completed_samples": len(samples),
            "scores": [{"name": "success", "scorer": "success", "metrics": {"mean": {"name": "mean", "value": mean}}}],
        },
        "stats": {
            "started_at": begun,
            "completed_at": max(map(_completed_at, timed), default=begun),
            "model_usage": _total_usage(samples),
        },
    }
    kept = ("id", "epoch", "input", "target", "metadata", "scores", "model_usage", "total_time", "working_time", "uuid")
    summaries = [{**{name: each[name] for name in kept}, "completed": True} for each in samples]
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        _add(archive, "_journal/start.json", {name: header[name] for name in ("version", "eval", "plan")})
        for each in samples:
            _add(archive, f"samples/{each['id']}_epoch_{each['epoch']}.json", each)
        _add(archive, "summaries.json", summaries)
        _add(archive, "header.json", header)
    return content.getvalue()


def _add(archive: zipfile.ZipFile, name: str, value: Any) -> None:
    """Add a file with a fixed date, so that equal trials give equal bytes."""
    entry = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    archive.writestr(entry, json.dumps(value, ensure_ascii=False))
