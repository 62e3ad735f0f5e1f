"""inspect_ai's logs, read without inspect_ai."""

import pytest

from lhaw_record.recorder.events import ActionFinished, ActionStarted, ModelCalled, ModelResponded
from lhaw_record.runners.base.conversation.deltas import rebuild_requests
from lhaw_record.runners.cli.attempt_text import stream_of
from lhaw_record.runners.imports import ImportFailed
from lhaw_record.runners.imports.foreign_trial import Failure
from lhaw_record.runners.imports.formats import inspect_log
from lhaw_record.runners.imports.trajectory import said_in
from tests.runners.imports.files import (
    broken_claims,
    eval_log,
    imported,
    inspect_header,
    inspect_sample,
    parsed,
    query,
    write,
)


def found_in(*samples, header=None, method=93, **options):
    """What is found in a log of these samples."""
    files = {f"samples/s{number}_epoch_1.json": sample for number, sample in enumerate(samples)}
    content = eval_log({**files, "header.json": header or inspect_header()}, method=method)
    return parsed("inspect-eval", content, name="log.eval", **options)


def only(sample, **options):
    """The one trial of a log with one sample."""
    (trial,) = found_in(sample, **options).trials
    return trial


@pytest.mark.parametrize("method", [93, 8, 0])
def test_every_compression_is_read(method):
    """Logs compressed with zstd, deflated and stored give the same trial."""
    assert only(inspect_sample(), method=method) == only(inspect_sample())


def test_model_and_tool_events_become_calls_and_actions():
    """Requests come from the pool, texts from the attachments, tokens and times from the events."""
    trial = only(inspect_sample())
    requests = rebuild_requests(trial.trajectory)
    assert [[message.content for message in each] for each in requests.values()] == [
        ["How many rows?"],
        ["How many rows?", "let me look", "3 rows.csv"],
    ]
    finished = [event for event in trial.trajectory if isinstance(event, ActionFinished)]
    assert [(event.result, event.duration_ms) for event in finished] == [("3 rows.csv", 250.0), ("", 0.0)]
    replies = [event for event in trial.trajectory if isinstance(event, ModelResponded)]
    assert [(event.usage.input_tokens, event.latency_ms, event.usage.cost_usd) for event in replies] == [
        (10, 500.0, None),
        (20, 500.0, None),
    ]
    assert (trial.seed, trial.end.duration_ms, trial.end.final_answer) == (7, 1500.0, "3 rows")


def test_without_events_the_messages_do():
    """A log whose events were dropped still gives the calls and actions of its messages."""
    kept, whole = only(inspect_sample(events=[])), only(inspect_sample())
    assert list(rebuild_requests(kept.trajectory).values()) == list(rebuild_requests(whole.trajectory).values())


@pytest.mark.parametrize(
    ("value", "score"), [("C", 1.0), ("I", 0.0), ("P", 0.5), ("N", 0.0), (True, 1.0), (0.25, 0.25), (1, 1.0)]
)
def test_values_of_scores(value, score):
    """The letters of inspect_ai, booleans and numbers between 0 and 1 are scores of one point."""
    end = only(inspect_sample(value=value)).end
    assert (end.results[0].score, end.is_success) == (score, score == 1)


def test_errors_missing_scores_and_zero_are_three_things():
    """An error fails at nobody knows which boundary, a missing score at the grader, and a zero is a valid failure."""
    error = only(inspect_sample(error={"message": "RuntimeError('boom')"}, scores={})).end
    unscored = only(inspect_sample(value=None)).end
    assert (error.boundary, error.error_kind) == (None, "RuntimeError")
    assert isinstance(unscored, Failure)
    assert unscored.boundary == "grader"
    broken = only(inspect_sample(error={"message": "boom"}, scores={}))
    assert broken.grader == only(inspect_sample()).grader, "it is missing in the arm of the others"
    header = inspect_header()
    del header["eval"]["scorers"]
    samples = inspect_sample(), inspect_sample(epoch=2, error={"message": "boom"}, scores={})
    assert len({trial.grader for trial in found_in(*samples, header=header).trials}) == 1
    assert not only(inspect_sample(value="I")).end.is_success


def test_a_score_on_no_known_scale_is_skipped():
    """Beyond 0 to 1 the total is unknown: the sample is left out with its reason."""
    found = found_in(inspect_sample(value=17), inspect_sample(2))
    assert len(found.trials) == 1
    assert "its maximum is unknown" in found.skipped[0].reason


def test_epochs_are_repetitions_and_limits_are_endings():
    """Epoch n is trial n - 1; a limit says how the trial ended."""
    trial = only(inspect_sample(3, limit={"type": "time", "limit": 60}))
    assert (trial.trial_index, trial.end.ended_by) == (2, "time_limit")


@pytest.mark.parametrize(("metadata", "index"), [({"trial_index": 2}, 5), ({"task_id": "t"}, None), ({}, 1)])
def test_repetitions_may_be_samples(metadata, index):
    """Metadata may number the trials of a task, each with its epochs; a task that is only named is counted later."""
    header = inspect_header()
    header["eval"]["config"] = {"epochs": 2}
    assert only(inspect_sample(2, metadata=metadata), header=header).trial_index == index


def test_metadata_name_condition_and_variant():
    """Samples may say what they measure; an injected message is found where it stood."""
    asked, acted, told = inspect_sample()["events_data"]["messages"]
    note = {"role": "user", "content": "by the way"}
    metadata = {"condition": "inject_50", "variant_id": "v", "task_id": "t", "inject_after_action": 1}
    sample = inspect_sample(metadata=metadata)
    sample["events_data"]["messages"] = [asked, acted, told, note]
    sample["events"][2]["input_refs"] = [[0, 4]]
    trial = only(sample)
    assert (trial.condition, trial.variant.variant_id, trial.task.task_id) == ("inject_50", "v", "t")
    assert (trial.injected.after_action, trial.injected.message) == (1, "by the way")
    unnamed = only(inspect_sample(metadata={"condition": "ask_user"}))
    assert unnamed.variant.variant_id == unnamed.task.task_id


def test_the_arms_of_a_log_are_of_one_task(tmp_path):
    """A variant's trials get the full prompt from the full ones, so that all are of one version of the task."""
    full = inspect_sample(metadata={"task_id": "t", "trial_index": 0})
    part = inspect_sample(metadata={"task_id": "t", "trial_index": 0, "condition": "underspecified", "variant_id": "v"})
    part["input"] = "How many?"
    files = {"samples/a.json": part, "samples/b.json": full, "header.json": inspect_header()}
    imported("inspect-eval", write(tmp_path / "l.eval", eval_log(files)), tmp_path / "s")
    assert query(tmp_path / "s", "select distinct prompt from stg_tasks_registered") == [("How many rows?",)]
    assert query(tmp_path / "s", "select count(distinct task_digest) from trials") == [(1,)]


@pytest.mark.thorough
def test_imported_samples_are_valid_trials(tmp_path):
    """A log in the store: a success, a failure and missing data, and no claim broken."""
    samples = {"a": inspect_sample(), "b": inspect_sample(2, "I"), "c": inspect_sample(3, error={"message": "x"})}
    content = eval_log(
        {**{f"samples/{name}.json": each for name, each in samples.items()}, "header.json": inspect_header()}
    )
    imported("inspect-eval", write(tmp_path / "l.eval", content), tmp_path / "s")
    rows = query(tmp_path / "s", "select trial_index, trial_state, is_success, action_count from trials order by 1")
    assert rows == [(0, "valid", True, 2), (1, "valid", False, 2), (2, "missing", None, None)]
    assert broken_claims(tmp_path / "s") == []


def test_a_log_that_was_broken_off(tmp_path):
    """Without its end a log is refused with the way to mend it; a killed run's has what it wrote, and says what not."""
    content = eval_log({"samples/a.json": inspect_sample(), "header.json": inspect_header()})
    with pytest.raises(ImportFailed, match="zip -FF"):
        parsed("inspect-eval", content[:-30], name="log.eval")
    damaged = content[:60] + b"\0\0\0\0" + content[64:]
    with pytest.raises(ImportFailed, match="cannot be read"):
        parsed("inspect-eval", damaged, name="log.eval")
    described = {**inspect_header()["eval"], "dataset": {"samples": 2}, "config": {"epochs": 2}}
    start = {"_journal/start.json": {"eval": described}}
    part = parsed("inspect-eval", eval_log({**start, "samples/a.json": inspect_sample()}), name="log.eval")
    assert len(part.trials) == 1
    assert [(each.kind, each.count) for each in part.skipped] == [("samples", 3)]
    with pytest.raises(ImportFailed, match=r"4 samples: the run has not written them.*inspect log recover"):
        imported("inspect-eval", write(tmp_path / "log.eval", eval_log(start)), tmp_path / "s")
    with pytest.raises(ImportFailed, match="not a log of inspect_ai"):
        parsed("inspect-eval", eval_log({"a.json": {}}), name="log.eval")


def span(span_id, kind, parent=None, name="x"):
    """The begin of a span."""
    return {"event": "span_begin", "id": span_id, "parent_id": parent, "type": kind, "name": name}


def generated(span_id, message_id, asked, *, role=None, call=None, **usage):
    """A model call with the ids of its request's messages."""
    message = {"id": message_id, "role": "assistant", "content": message_id}
    if call:
        message["tool_calls"] = [{"id": call, "function": "bash", "arguments": {}, "type": "function"}]
    return {
        "event": "model",
        "model": "openai/gpt-x",
        "role": role,
        "span_id": span_id,
        "input": [{"id": each, "role": "user", "content": each} for each in asked],
        "output": {"choices": [{"message": message, "stop_reason": "stop"}], "usage": usage},
    }


def told(span_id, call):
    """The event of a tool."""
    return {"event": "tool", "id": call, "span_id": span_id, "function": "bash", "result": call}


def roles(*, has_roles):
    """A sample in which a tool asks an expert and starts a sub-agent, and a grader judges an attempt in between."""
    kept = ["q", "a1", "t1", "a2", "a3"]
    events = [
        span("s", "solver"),
        span("a", "agent", "s", "react"),
        generated(
            "a", "a1", ["q"], call="c1", input_tokens=60, input_tokens_cache_read=100, input_tokens_cache_write=25
        ),
        span("t", "tool", "a", "bash"),
        told("a", "c1"),
        generated("t", "e1", ["fresh1"], role="expert" if has_roles else None),
        span("h", "agent", "t", "helper"),
        generated("h", "h1", ["fresh2"], call="c2"),
        told("h", "c2"),
        generated("h", "h2", ["fresh2", "h1", "t2"]),
        generated("a", "a2", ["q", "a1", "t1"]),
        generated("a", "g1", ["fresh3"], role="grader" if has_roles else None),
        generated("a", "a3", ["q", "a1", "t1", "a2"]),
        {"event": "span_begin", "type": "scorers", "id": "z"},
        generated("z", "g2", ["fresh4"], role="grader" if has_roles else None),
    ]
    messages = [{"id": each, "role": "assistant" if each[0] == "a" else "user", "content": each} for each in kept]
    return inspect_sample(messages=messages, events=events, events_data={}, input="q")


@pytest.mark.parametrize("has_roles", [True, False])
def test_whose_a_call_is(has_roles):
    """Calls of graders and helpers are counted apart, those of a sub-agent kept: neither are the agent's actions."""
    found = found_in(roles(has_roles=has_roles))
    (trial,) = found.trials
    called = [event for event in trial.trajectory if isinstance(event, ModelCalled)]
    assert [(each.thread_id, each.call_kind) for each in called] == [
        ("main", "main"),
        ("helper", "sub_agent"),
        ("helper", "sub_agent"),
        ("main", "main"),
        ("main", "main"),
    ]
    started = [event for event in trial.trajectory if isinstance(event, ActionStarted)]
    assert [each.name for each in started] == ["bash", "message", "message"]
    replies = [event for event in trial.trajectory if isinstance(event, ModelResponded)]
    usage = replies[0].usage
    assert (usage.input_tokens, usage.cached_input_tokens, usage.cache_write_tokens) == (185, 100, 25)
    assert sum("are not the agent's" in each for each in found.remarks) == (3 if has_roles else 2)


def test_a_sample_that_its_source_withdrew_does_not_count():
    """inspect_ai marks it with who did so and why; the others of the log stay."""
    withdrawn = inspect_sample(
        invalidation={"timestamp": "2026-01-01T00:00:00Z", "author": "me", "reason": "wrong image"}
    )
    found = found_in(withdrawn, inspect_sample(2))
    assert (len(found.trials), found.skipped[0].reason) == (1, "withdrawn by its source: wrong image")


def test_a_score_on_another_scale_is_no_checkpoint():
    """It is left out in every sample, because the same name must mean the same in all; the rest counts."""
    values = ({"ok": 1, "tokens": 14}, {"ok": 0, "tokens": 1})
    found = found_in(*(inspect_sample(number, value) for number, value in enumerate(values, 1)))
    assert [[each.checkpoint_id for each in trial.task.checkpoints] for trial in found.trials] == [["match/ok"]] * 2
    assert [trial.end.is_success for trial in found.trials] == [True, False]
    assert [(each.kind, each.count) for each in found.skipped] == [("scores", 1)]
    hidden = found_in(inspect_sample(value=7), inspect_sample(2, value=1))
    assert (hidden.trials, [each.kind for each in hidden.skipped]) == ((), ["samples", "samples", "scores"])


def test_the_form_that_is_no_archive_is_named():
    """The .json form of a log is refused with the command that converts it."""
    with pytest.raises(ImportFailed, match="inspect log convert --to eval"):
        parsed("inspect-eval", {"version": 2, "eval": {}, "samples": []}, name="log.json")


@pytest.mark.thorough
def test_a_prompt_in_parts_is_its_text(tmp_path):
    """A picture is no part of the prompt's text; the log's own time is when the trial began."""
    parts = [{"type": "text", "text": "What is it?"}, {"type": "image", "image": "data:image/png;base64,AA=="}]
    asked = [{"id": "m1", "role": "user", "content": parts}]
    sample = inspect_sample(input=asked, started_at="2026-01-01T01:00:00+01:00")
    assert only(sample).task.prompt == "What is it?"
    content = eval_log({"samples/a.json": sample, "header.json": inspect_header()})
    imported("inspect-eval", write(tmp_path / "l.eval", content), tmp_path / "s")
    assert query(tmp_path / "s", "select started_at_us from trials") == [(1767225600000000,)]


def test_each_message_of_a_pool_is_read_once(monkeypatch):
    """A sample of many calls takes time for its messages, not for those of all requests together."""
    pool = [{"id": "q", "role": "user", "content": "q"}]
    events = []
    for number in range(20):
        call = generated("a", f"a{number}", [], call=f"c{number}")
        events += [{**call, "input": [], "input_refs": [[0, len(pool)]]}, told("a", f"c{number}")]
        pool.append(call["output"]["choices"][0]["message"])
        pool.append({"id": f"t{number}", "role": "tool", "content": f"c{number}", "tool_call_id": f"c{number}"})
    read = []
    monkeypatch.setattr(inspect_log, "said_in", lambda given, *rest: (read.extend(given), said_in(given, *rest))[1])
    trial = only(inspect_sample(messages=pool, events=events, events_data={"messages": pool}, input="q"))
    assert len(rebuild_requests(trial.trajectory)) == 20
    assert len(read) < 4 * len(pool)


def test_equal_repetitions_are_trials_of_their_own(tmp_path):
    """Epochs that differ in nothing count each; a stream that was imported is found by its first characters."""
    metadata = {"task_id": "t"}  # so nothing says which repetition an epoch is
    files = {f"samples/r_epoch_{epoch}.json": inspect_sample(epoch=epoch, metadata=metadata) for epoch in (1, 2)}
    content = eval_log({**files, "header.json": inspect_header()})
    imported("inspect-eval", write(tmp_path / "l.eval", content), tmp_path / "s")
    streams = [stream_id for (stream_id,) in query(tmp_path / "s", "select stream_id from trials")]
    assert len(streams) == 2
    assert [stream_of(tmp_path / "s", each[:12]) for each in streams] == streams
