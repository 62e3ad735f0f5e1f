"""Collect the timelines of single trials in chunks, so that the page unpacks only one chunk to show a trial."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from lhaw_record.analytics.report.trials import cut_sql
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.storage.blobs import load_blob
from lhaw_record.recorder.storage.store import Store

if TYPE_CHECKING:
    import duckdb

CHUNK_TRIALS = 64

# One query per part of a timeline: the first column is the trial's place, the rest is one entry of the part.
_PARTS = {
    "attempts": """
        select shown.place, attempts.attempt, attempts.attempt_state, attempts.stream_id, attempts.ended_by,
            round(attempts.duration_ms / 1000, 3), failed.boundary, failed.error_kind, {message}, failed.is_retry_owed
        from shown_trials as shown
        inner join int_attempts as attempts on shown.trial_id = attempts.trial_id
        left join stg_trials_failed as failed on attempts.stream_id = failed.stream_id
        order by shown.place, attempts.attempt, attempts.stream_id
    """,
    "actions": """
        select shown.place, started.action_index, started.kind, started.action_name, {arguments},
            finished.is_error, {result}, round(finished.duration_ms, 1), started.model_call_id, wasted.is_wasted,
            finished.stream_id is null, if(attempts.is_imported, null, round(started.elapsed_ms / 1000, 1))
        from shown_trials as shown
        inner join int_attempts as attempts on shown.stream_id = attempts.stream_id
        inner join stg_actions_started as started on shown.stream_id = started.stream_id
        left join stg_actions_finished as finished
            on started.stream_id = finished.stream_id and started.action_index = finished.action_index
        left join wasted_actions as wasted
            on shown.trial_id = wasted.trial_id and shown.trial_state = 'valid'
            and started.action_index = wasted.action_index
        order by shown.place, started.action_index
    """,
    "calls": """
        select shown.place, called.call_id, called.role, {reply}, coalesce(replies.input_tokens, failed.input_tokens),
            coalesce(replies.output_tokens, failed.output_tokens),
            round(coalesce(replies.cost_usd, failed.cost_usd, if(failed.used_nothing, 0, null)), 6),
            round(coalesce(replies.latency_ms, failed.latency_ms), 1), {reasoning}, replies.reasoning_tokens,
            called.thread_id, called.call_kind, called.thread_change, called.parent_call_id, called.shared_count,
            coalesce(replies.served_model, called.model), replies.finish_reason, failed.error_kind, {failure},
            tools.number as tools, parameters.number as parameters,
            list_transform(replies.tool_calls, lambda each: [each.call_id, each.name, {call}])
        from shown_trials as shown
        inner join stg_models_called as called on shown.stream_id = called.stream_id
        left join stg_models_responded as replies
            on called.stream_id = replies.stream_id and called.call_id = replies.call_id
        left join stg_models_failed as failed
            on called.stream_id = failed.stream_id and called.call_id = failed.call_id
        left join request_texts as tools on called.tools_json = tools.text
        left join request_texts as parameters on called.parameters_json = parameters.text
        order by shown.place, called.sequence
    """,
    "questions": """
        select shown.place, asked.action_index, {question}, {context}, {answer}, answered.simulator,
            list_transform(judged.gives, lambda id: [id, if(list_contains(judged.asks_for, id), '', 'volunteered')])
        from shown_trials as shown
        inner join stg_questions_asked as asked on shown.stream_id = asked.stream_id
        left join stg_questions_answered as answered
            on asked.stream_id = answered.stream_id and asked.question_id = answered.question_id
        left join int_exchange_readings as judged
            on asked.stream_id = judged.stream_id and asked.question_id = judged.question_id and judged.is_chosen
        order by shown.place, asked.sequence
    """,
    "injections": """
        select shown.place, told.injection_status, told.inject_percent, told.target_action, told.after_action,
            {told}, told.segment_ids, told.skip_reason
        from shown_trials as shown
        inner join stg_clarifications_injected as told on shown.stream_id = told.stream_id
        order by shown.place, told.sequence
    """,
    "checkpoints": """
        select shown.place, scored.checkpoint_id, {label}, scored.score, scored.total, {details}
        from shown_trials as shown
        inner join stg_checkpoints_scored as scored on shown.stream_id = scored.stream_id and scored.is_primary
        order by shown.place, scored.sequence
    """,
    "notes": """
        select shown.place, noted.attempt, noted.author, noted.cause, {note}
        from shown_trials as shown
        inner join trial_notes as noted on shown.trial_id = noted.trial_id
        order by shown.place, noted.attempt, noted.author
    """,
    "answers": """
        select shown.place, {final}
        from shown_trials as shown
        inner join stg_trials_finished as finished on shown.stream_id = finished.stream_id
        where finished.final_answer <> ''
        order by shown.place
    """,
    "artifacts": """
        select
            shown.place, stored.artifact_stored.role, stored.artifact_stored.name, stored.artifact_stored.size_bytes,
            stored.artifact_stored.sha256
        from shown_trials as shown
        inner join events as stored on shown.stream_id = stored.stream_id
        where stored.type = 'artifact_stored' and stored.artifact_stored.media_type like 'text/%'
        order by shown.place, stored.sequence
    """,
    "messages": """
        select told.place, told.call_id, told.role, shared.number, if(shared.number is null, {content}, null),
            told.result_of_action, told.tool_calls, told.tool_call_id
        from request_messages as told
        left join request_texts as shared on told.content = shared.text
        order by told.place, told.sequence, told.position
    """,
}
VIEWS = (
    *("trials", "tasks", "variants", "segments", "trial_notes", "wasted_actions", "int_attempts", "int_trials"),
    *("int_trials_evaluated", "int_variants", "int_exchange_readings", "stg_trials_failed", "stg_trials_finished"),
    *("stg_models_called", "stg_models_responded", "stg_models_failed", "stg_actions_started", "stg_actions_finished"),
    *("stg_questions_asked", "stg_questions_answered", "stg_clarifications_injected", "stg_checkpoints_scored"),
)
"""The views from which the timelines, prompts and the list of trials are read."""

_TEXTS = {
    "message": "failed.message",
    "arguments": "started.arguments_json",
    "result": "finished.result",
    "reply": "replies.reply_text",
    "reasoning": "replies.reasoning_text",
    "failure": "failed.message",
    "call": "each.arguments_json",
    "content": "told.content",
    "question": "asked.question",
    "context": "asked.context",
    "answer": "answered.answer",
    "told": "told.message",
    "label": "scored.label",
    "details": "scored.details",
    "final": "finished.final_answer",
    "note": "noted.note",
}


def timelines(
    connection: "duckdb.DuckDBPyConnection", length: int, store: Store | None = None
) -> Iterator[list[dict[str, Any]]]:
    """Yield chunks of ``CHUNK_TRIALS`` timelines in the order of the trial list, without empty parts.

    The texts of artifacts, such as the output of a program, are read from ``store``; without it they are left out.
    """
    texts = {name: cut_sql(column, length) for name, column in _TEXTS.items()}
    (row,) = connection.execute("select count(*) from shown_trials").fetchall()
    parts = {name: _entries(connection, query.format(**texts)) for name, query in _PARTS.items()}
    parts["artifacts"] = ((*row[:-1], _end(store, row[-1], length)) for row in parts["artifacts"] if store)
    ahead = {name: next(entries, None) for name, entries in parts.items()}
    for first in range(0, int(row[0]), CHUNK_TRIALS):
        chunk: list[dict[str, Any]] = [{} for _ in range(min(CHUNK_TRIALS, int(row[0]) - first))]
        for name, entries in parts.items():
            entry = ahead[name]
            while entry is not None and entry[0] < first + CHUNK_TRIALS:
                chunk[entry[0] - first].setdefault(name, []).append(entry[1:])
                entry = next(entries, None)
            ahead[name] = entry
        yield chunk


def _end(store: Store, sha256: str, length: int) -> str:
    """Return the end of a text in the store, where a program says why it ended."""
    try:
        text = load_blob(store, sha256).decode(errors="replace")
    except (OSError, StoreError) as error:
        return f"cannot be read: {error}"
    return text if len(text) <= length else f"({len(text)} characters) … {text[-length:]}"


def _entries(connection: "duckdb.DuckDBPyConnection", query: str) -> Iterator[tuple[Any, ...]]:
    """Return an iterator over the rows of a query.

    The rows are first read into Arrow, because a connection can have only one open result.
    """
    rows = connection.sql(query).to_arrow_table()
    return (tuple(row.values()) for batch in rows.to_batches(max_chunksize=4096) for row in batch.to_pylist())


def request_texts(connection: "duckdb.DuckDBPyConnection", length: int) -> list[str]:
    """Return the texts that several requests share, truncated, by the numbers that timelines refer to."""
    query = f"select {cut_sql('text', length)} from request_texts order by number"  # noqa: S608 - numbers of ours
    return [text for (text,) in connection.execute(query).fetchall()]


def prompts(connection: "duckdb.DuckDBPyConnection", length: int) -> dict[str, Any]:
    """Return the prompts of the shown tasks and variants by digest, truncated to ``length`` characters.

    Variants also have their removed segments and severity.
    """
    tasks = connection.execute(
        f"""
        select task_digest, {cut_sql("prompt", length)}
        from tasks semi join shown_trials using (task_digest) order by task_digest
        """  # noqa: S608 - numbers of ours
    ).fetchall()
    variants = connection.execute(
        f"""
        with removed as (
            select
                variant_digest,
                list([segment_id, dimension, subdimension, segment_value] order by position) as segments
            from segments
            group by variant_digest
        )

        select variants.variant_digest, {cut_sql("prompt", length)}, coalesce(removed.segments, []), variants.severity
        from variants
        semi join shown_trials on variants.variant_digest = shown_trials.variant_digest
        left join removed on variants.variant_digest = removed.variant_digest
        order by variants.variant_digest
        """  # noqa: S608 - numbers of ours
    ).fetchall()
    return {"tasks": dict(tasks), "variants": {digest: facts for digest, *facts in variants}}
