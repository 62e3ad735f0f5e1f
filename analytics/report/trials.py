"""Choose which trials the page lists and where texts are truncated, and pack the data into the page."""

import base64
import gzip
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from lhaw_record.recorder.events.values import CONDITIONS

if TYPE_CHECKING:
    import duckdb

COLUMNS = (
    *("trial_id", "outcome", "benchmark", "task_id", "variant_id", "ambiguity_class", "agent", "role", "condition"),
    *("trial_index", "checkpoint_progress", "action_count", "question_count", "tokens", "cost_usd", "task"),
    *("variant", "arms", "is_used", "dimensions", "segments_removed", "severity", "fault", "strategy", "persona"),
    *("ended_by", "user_simulator", "domain", "experiment_id", "noted"),
)
"""The columns of the list.

``arms`` are the agents under which the tables count the trial, one per line, if they differ from ``agent``. ``is_used``
says whether means of the tables include the trial. ``noted`` lists the causes that its notes name.
"""

MOST_TRIALS = 20_000
"""The largest number of trials on a page. In a larger store, each cell lists the same number of its first trials."""

LENGTHS = (20_000, 8_000, 4_000, 2_000, 1_000, 500, 300, 200, 120, 60)
BUDGET_CHARACTERS = 32_000_000
"""The limit in characters for the texts of all trials together. They compress to about a quarter of it."""

# A trial is shown by the attempt that counts, or by its latest one if none counts.
_SHOWN = """
create or replace temporary table shown_trials as
with ranked as (
    select
        *,
        row_number() over (
            partition by benchmark, task_id, variant_id, agent, condition, role order by trial_index, trial_id
        ) as number_in_cell
    from trials
    where getvariable('experiment') is null or experiment_id = getvariable('experiment')
),

chosen as (
    select * from ranked
    qualify row_number() over (order by number_in_cell, trial_id) <= $most
)

select
    row_number() over (
        order by
            trials.benchmark, trials.task_id, trials.variant_id nulls first, trials.agent,
            list_position($conditions, trials.condition), trials.condition, trials.role, trials.trial_index,
            trials.trial_id
    ) - 1 as place,
    kept.keys_stream_id as stream_id,
    trials.* exclude (stream_id, number_in_cell)
from chosen as trials
inner join int_trials as kept on trials.trial_id = kept.trial_id
"""

# The new content of each request of a shown attempt.
_REQUEST_MESSAGES = """
create or replace temporary table request_messages as
with sent as (
    select
        shown.place,
        called.call_id,
        called.sequence,
        from_json(
            called.new_messages_json,
            '[{"role": "VARCHAR", "content": "VARCHAR", "result_of_action": "BIGINT", "tool_calls": "VARCHAR",
            "tool_call_id": "VARCHAR"}]'
        ) as messages
    from shown_trials as shown
    inner join stg_models_called as called on shown.stream_id = called.stream_id
)

select
    sent.place,
    sent.call_id,
    sent.sequence,
    told.position,
    told.message.role,
    told.message.content,
    told.message.result_of_action,
    told.message.tool_calls,
    told.message.tool_call_id
from sent, unnest(sent.messages) with ordinality as told(message, position)
"""

# Tools, parameters and texts that several requests share, such as system prompts, which the page stores once.
_REQUEST_TEXTS = """
create or replace temporary table request_texts as
with used as (
    select content as text, false as is_shared from request_messages where content is not null
    union all
    select unnest([tools_json, parameters_json]), true from stg_models_called semi join shown_trials using (stream_id)
)

select text, row_number() over (order by text) - 1 as number
from used
where text is not null
group by text
having count(*) > 1 or bool_or(is_shared)
"""

# Usage comes from the attempt that counts, or from all failed attempts. It is not shown while a trial runs.
_LIST = """
with used as (
    select trial_id, string_agg(distinct agent, chr(10) order by agent) as arms, bool_or(is_measured) as is_measured
    from int_trials_evaluated
    group by trial_id
),

noted as (
    select trial_id, string_agg(distinct coalesce(cause, 'remark'), ', ' order by coalesce(cause, 'remark')) as noted
    from trial_notes
    group by trial_id
)

select
    shown.trial_id,
    case
        when shown.trial_state = 'valid' then if(shown.is_success, 'success', 'no success')
        when shown.trial_state = 'running' then 'running'
        else 'missing'
    end as outcome,
    shown.benchmark,
    shown.task_id,
    shown.variant_id,
    shown.ambiguity_class,
    shown.agent,
    shown.role,
    shown.condition,
    shown.trial_index,
    round(shown.checkpoint_progress, 6),
    shown.action_count,
    shown.question_count,
    case shown.trial_state
        when 'valid' then
            shown.agent_input_tokens + shown.agent_output_tokens
            + shown.user_simulator_tokens + shown.grader_and_judge_tokens
        when 'missing' then shown.failed_tokens
    end,
    round(case shown.trial_state when 'valid' then shown.cost_usd when 'missing' then shown.failed_cost_usd end, 6),
    shown.task_digest,
    shown.variant_digest,
    nullif(used.arms, shown.agent),
    coalesce(used.is_measured, false),
    array_to_string(shown.dimensions, ' '),
    len(variants.segments),
    shown.severity,
    shown.fault,
    shown.strategy,
    shown.persona,
    shown.ended_by,
    shown.user_simulator,
    shown.domain,
    shown.experiment_id,
    coalesce(noted.noted, 'no note')
from shown_trials as shown
left join noted on shown.trial_id = noted.trial_id
left join used on shown.trial_id = used.trial_id
left join int_variants as variants on shown.variant_digest = variants.variant_digest
order by shown.place
"""


def choose_trials(connection: "duckdb.DuckDBPyConnection", most: int = MOST_TRIALS) -> tuple[int, int]:
    """Create the temporary table ``shown_trials`` with at most ``most`` trials, and two tables of their requests.

    Return the number of trials in the store (or in the chosen experiment) and the number in the table.
    """
    connection.execute(_SHOWN, {"conditions": list(CONDITIONS), "most": most}).fetchall()
    connection.execute(_REQUEST_MESSAGES).fetchall()
    connection.execute(_REQUEST_TEXTS).fetchall()
    (row,) = connection.execute(
        """
        select count(*), (select count(*) from shown_trials) from trials
        where getvariable('experiment') is null or experiment_id = getvariable('experiment')
        """
    ).fetchall()
    return int(row[0]), int(row[1])


def trial_list(connection: "duckdb.DuckDBPyConnection") -> dict[str, Any]:
    """Return the columns ``COLUMNS`` of the shown trials, in the form that :func:`columnar` produces."""
    return columnar(COLUMNS, connection.execute(_LIST).fetchall())


class TextTruncation(msgspec.Struct, frozen=True, kw_only=True):
    """The length to which texts are truncated, and the total number of characters before and after."""

    length: int
    characters: int
    kept_characters: int

    def __str__(self) -> str:
        """Return the sentence that explains the truncation on the page."""
        if self.kept_characters == self.characters:
            return "Every text is complete."
        return (
            f"Texts are cut after {self.length:,} characters, so that all of them together stay below "
            f"{BUDGET_CHARACTERS:,}; a cut text ends in … and its full length. The store has the full text."
        )


def choose_length(connection: "duckdb.DuckDBPyConnection", budget: int = BUDGET_CHARACTERS) -> TextTruncation:
    """Choose the longest of ``LENGTHS`` that keeps the shown attempts' texts within a budget, else the shortest."""
    sums = ", ".join(f"sum(least(n, {length}))" for length in LENGTHS)
    query = f"""
        with lengths as (
            select length(arguments_json) as n from stg_actions_started semi join shown_trials using (stream_id)
            union all
            select length(result) from stg_actions_finished semi join shown_trials using (stream_id)
            union all
            select length(reply_text) from stg_models_responded semi join shown_trials using (stream_id)
            union all
            select length(reasoning_text) from stg_models_responded semi join shown_trials using (stream_id)
            where reasoning_text is not null
            union all
            select stored.artifact_stored.size_bytes from events as stored semi join shown_trials using (stream_id)
            where stored.type = 'artifact_stored' and stored.artifact_stored.media_type like 'text/%'
            union all
            select length(content) from (select distinct content from request_messages where content is not null)
        )
        select sum(n), {sums} from lengths
    """  # noqa: S608 - numbers of ours
    (row,) = connection.execute(query).fetchall()
    total, *kept = (int(each or 0) for each in row)
    chosen = next((place for place, each in enumerate(kept) if each <= budget), len(LENGTHS) - 1)
    return TextTruncation(length=LENGTHS[chosen], characters=total, kept_characters=kept[chosen])


def cut_sql(column: str, length: int) -> str:
    """Return an SQL expression that truncates a text column. Truncated texts end in ``…`` and their full length."""
    return (
        f"case when length({column}) > {length} then left({column}, {length}) || ' … (' || length({column}) "
        f"|| ' characters)' else {column} end"
    )


def packed(value: Any) -> str:
    """Pack a value into base64 text, which ``unpack`` in data/page/static/unpack.js reads.

    Equal values give equal texts, because the compressed data contains no timestamp.
    """
    data = gzip.compress(msgspec.json.encode(value), compresslevel=6, mtime=0)
    return base64.b64encode(data).decode("ascii")


def columnar(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> dict[str, Any]:
    """Convert rows to columns by name. A column with few distinct texts becomes ``{of: values, at: indexes}``."""
    lists = [list(column) for column in zip(*rows, strict=True)] or [[] for _ in columns]
    return {name: _column(values) for name, values in zip(columns, lists, strict=True)}


def _column(values: list[Any]) -> Any:
    places: dict[Any, int] = {}
    if not all(value is None or isinstance(value, str) for value in values):
        return values
    codes = [places.setdefault(value, len(places)) for value in values]
    return {"of": list(places), "at": codes} if len(places) * 2 < len(values) else values
