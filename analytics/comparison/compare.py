"""``lhaw-record compare``: the difference between two groups of trials.

The difference is paired over the units that both groups have. Groups without common tasks are compared by their means,
and the test exchanges whole tasks between them.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from lhaw_record.analytics.comparison.groups import SPLITS, Group, check_groups, parse_group
from lhaw_record.analytics.errors import BadParameter
from lhaw_record.analytics.tables.notes import MOST_HANG_UPS, background, instruments_of, notes_for
from lhaw_record.analytics.views.parameters import Setting
from lhaw_record.analytics.views.rows import rows_of
from lhaw_record.analytics.views.store import open as open_store
from lhaw_record.recorder.cli.output import print_rows, say

if TYPE_CHECKING:
    import duckdb

COLUMNS = (
    *("a", "b", "difference", "low", "high", "p_value", "p_holm"),
    *("n_units", "n_dropped", "n_clusters", "n_trials", "n_missing", "method", "reason"),
    *("worst", "best", "worst_low", "best_high"),
)

VIEWS = {"int_arm_values", "int_variant_dimensions", "exclusions", "int_agent_arms", "stg_models_called"}
"""The views that a connection passed to :func:`compare` must have."""

_FULL_PROMPT = {"full", "full_ask_user"}

_QUERY = """
with values_of_both as (
    select
        *,
        {is_a} as is_a,
        if($by_task, task_id, unit_id) as pair_id
    from int_arm_values
    where
        measure = $measure and ({is_a} or {is_b})
        and unit_kind = if(list_contains($by_variant::varchar[], benchmark), 'variant', 'task')
),

pairs as (
    select
        {keys},
        any_value(task_id) as task_id,
        any_value(ambiguity_class) as ambiguity_class,
        any_value(variant_digest) as variant_digest,
        any_value(cluster_id) as cluster_id,
        avg(unit_value) filter (where is_a) as a,
        avg(unit_value) filter (where not is_a) as b,
        avg(least) filter (where is_a) as a_least,
        avg(most) filter (where is_a) as a_most,
        avg(least) filter (where not is_a) as b_least,
        avg(most) filter (where not is_a) as b_most,
        sum(n_missing) > 0 as is_incomplete,
        list({{'cell_id': cell_id, 'n': n_trials}}) filter (where unit_value is not null) as trials,
        list({{'cell_id': cell_id, 'n': n_missing}}) as missing,
        case when count(distinct is_a) < 2 then 'one_arm_only' else min(reason) end as reason,
        count(distinct is_a) = 2 as is_common
    from values_of_both
    group by {keys}
),

parts as (
    select 'all' as part, 0 as position, * from pairs
    {parts}
),

placed as (
    select
        *,
        a - b as difference
    from parts
),

kinds as (
    select
        count(a) > 0 and count(b) > 0 and not list_has_any(
            list(cluster_id) filter (where a is not null), list(cluster_id) filter (where b is not null)
        ) as is_unpaired
    from placed
    where part = 'all'
),

used as (
    select
        placed.*,
        kinds.is_unpaired,
        if(kinds.is_unpaired, coalesce(placed.a, placed.b), placed.difference) as used_value,
        if(kinds.is_unpaired, coalesce(a_least, b_most), a_least - b_most) as low_value,
        if(kinds.is_unpaired, coalesce(a_most, b_least), a_most - b_least) as high_value,
        bool_or(is_incomplete) over (partition by part) as has_missing
    from placed
    cross join kinds
),

weighted as (
    select
        *,
        used_value is not null as is_used,
        {weight} as weight,
        {bound_weight} as bound_weight
    from used
),

tested as (
    select
        part,
        count(*) as n_all_units,
        sum(weight * a) filter (where is_used) / sum(weight) filter (where is_used and a is not null) as a,
        sum(weight * b) filter (where is_used) / sum(weight) filter (where is_used and b is not null) as b,
        unit_estimate($gain_kind, weight * difference, weight, min(reason), cluster_id) as paired,
        contrast_estimate(
            $kind,
            {items}
        ) as unpaired,
        missing_bounds(
            $gain_kind,
            if(is_unpaired, null, bound_weight * low_value),
            if(is_unpaired, null, bound_weight * high_value),
            bound_weight,
            has_missing,
            cluster_id
        ) as paired_bounds,
        {{
            'worst': contrast_estimate($kind, {low_items}),
            'best': contrast_estimate($kind, {high_items})
        }} as unpaired_bounds,
        list_distinct(flatten(list(trials) filter (where is_used))) as trials,
        list_distinct(flatten(list(missing))) as missing,
        bool_or(is_common) as has_common,
        bool_or(is_unpaired) as is_unpaired
    from weighted
    group by part
),

estimated as (
    select
        *,
        if(
            unpaired.value is null,
            paired,
            struct_update(unpaired, n_dropped := n_all_units - unpaired.n_units)
        ) as estimate,
        if(unpaired_bounds.worst.value is null, paired_bounds, unpaired_bounds) as bounds
    from tested
)

select
    part,
    round(a, 6) as a,
    round(b, 6) as b,
    estimate.value + 0 as difference,
    estimate.low,
    estimate.high,
    significant(estimate.p_value) as p_value,
    significant(
        holm(
            if(part <> 'all', estimate.p_value, null),
            list(if(part <> 'all', estimate.p_value, null)) over ()
        )
    ) as p_holm,
    estimate.n_units,
    estimate.n_dropped,
    estimate.n_clusters,
    coalesce(list_sum(list_transform(trials, lambda cell: cell.n)), 0)::bigint as n_trials,
    coalesce(list_sum(list_transform(missing, lambda cell: cell.n)), 0)::bigint as n_missing,
    estimate.method,
    estimate.reason,
    unnest(bounds_beside(estimate, bounds, n_missing)),
    has_common,
    is_unpaired
from estimated
order by part <> 'all', part
"""

_ASKING = """
with streams as (
    select distinct {is_a} as is_a, trials.stream_id, arms.medium
    from int_trials_evaluated as trials
    inner join int_agent_arms as arms on trials.benchmark = arms.benchmark and trials.agent = arms.agent
    where trials.stream_id is not null and ({is_a} or {is_b})
),

offered as (
    select distinct
        calls.stream_id,
        unnest((calls.tools_json -> '$[*].name') || (calls.tools_json -> '$[*].function.name')) ->> '$' as tool
    from stg_models_called as calls
    inner join streams on calls.stream_id = streams.stream_id
    where calls.role = 'agent' and calls.call_kind = 'main' and calls.tools_json is not null
)

select
    streams.is_a,
    list(distinct streams.medium order by streams.medium) as media,
    list(distinct coalesce(started.host, 'none') order by coalesce(started.host, 'none')) as hosts,
    coalesce(list(distinct offered.tool order by offered.tool) filter (where offered.tool is not null), []) as tools
from streams
inner join stg_trials_started as started on streams.stream_id = started.stream_id
left join offered on streams.stream_id = offered.stream_id
group by streams.is_a
order by streams.is_a desc
"""
"""How each group asks, and what else a medium or a host changes."""

_ITEMS = """list(
                {{
                    'cluster': hash(cluster_id),
                    'is_a': (coalesce({side}) is not null)::double,
                    'above': {weight} * {value},
                    'below': {weight}
                }}
            ) filter (where is_unpaired and {value} is not null{only})"""
"""The units of groups without a common task: as measured, or with all missing trials counted against a or for it."""

_ONE_AGENT = "1.0::double"
_POOLED = """agent_weight(
            if(
                min(if(used_value is null, null, agent)) over (partition by part)
                = max(if(used_value is null, null, agent)) over (partition by part),
                agent,
                'all'
            ),
            agent, row(benchmark, task_id), used_value, row(part, is_unpaired and a is not null)
        )"""

_PART = "union all select {column}::varchar as part, 0 as position, * from pairs"
_DIMENSION_PART = """union all
    select dimensions.dimension as part, dimensions.position, pairs.*
    from pairs
    inner join int_variant_dimensions as dimensions on pairs.variant_digest = dimensions.variant_digest"""


def compare(
    connection: "duckdb.DuckDBPyConnection",
    a: Group,
    b: Group,
    *,
    measure: str = "pass_at_1",
    by: str | None = None,
    allow_hang_ups: bool = False,
    allow_mixed_instruments: bool = False,
) -> list[dict[str, Any]]:
    """Compute the mean difference a - b over the units that both groups have.

    The first row covers all units. With ``by``, one row per part follows, and ``p_holm`` corrects for the number of
    parts. Several agents in one row are averaged within tasks, then tasks (parameter ``pooled``). The units are
    normally variants. They are tasks if both groups use the full prompt, which all variants of a task share, and in
    benchmarks in which one of the agents ran no variants. If the groups share tasks but no units, tasks are paired,
    each with the mean of its units in either group (``is_by_task``).

    With all missing trials counted against a, and for it, the difference is ``worst`` and ``best``; the interval from
    ``worst_low`` to ``best_high`` holds it wherever they would have ended. Amounts have no such bounds.

    P-value and interval come from sign flips of whole clusters (tasks). If tasks are paired, or variants share the full
    prompt of one group, the inference is that of a loss. If no cluster has units of both groups (``is_unpaired``), the
    row has the difference of their means, and the inference uses the permutation of whole clusters between the groups
    and the two groups' own intervals.
    """
    query = "select distinct agent, condition from int_arm_values order by agent, condition"
    check_groups(a, b, by, connection.execute(query).fetchall(), _left_out(connection))
    if not allow_hang_ups:
        _check_hang_ups(connection, a, b)
    left_open = [name for name in Group._fields if getattr(a, name) is None]
    values = _named_values(a, b)
    is_a, is_b = _test(a, "a"), _test(b, "b")
    if not allow_mixed_instruments:
        _check_instruments(instruments_of(connection, f"({is_a} or {is_b})", values))
    kind = "percent" if measure.endswith("_pct") else "amount" if measure == "questions_per_trial" else "level"
    is_loss = (a.condition in _FULL_PROMPT) != (b.condition in _FULL_PROMPT)
    values |= {"kind": kind, "gain_kind": _kind_of_difference(kind, is_loss=is_loss)}
    values |= {"measure": measure, "by_variant": _by_variant(connection, a, b, values)}
    parts = "" if by is None else _DIMENSION_PART if by == "dimension" else _PART.format(column=SPLITS[by])
    keys = ", ".join(["benchmark", "pair_id", *left_open])
    weight = _POOLED if "agent" in left_open else _ONE_AGENT
    bound_weight = weight.replace("used_value", "low_value").replace("and a is", "and a_least is")
    items = {"items": _ITEMS.format(side="a", weight="weight", value="used_value", only="")}
    for name in ("low", "high"):
        items[f"{name}_items"] = _ITEMS.format(
            side="a_least", weight="bound_weight", value=f"{name}_value", only=" and has_missing"
        )
    query = _QUERY.format(
        is_a=is_a, is_b=is_b, keys=keys, parts=parts, weight=weight, bound_weight=bound_weight, **items
    )
    rows = rows_of(connection, query, values | {"by_task": False})
    if rows[0]["difference"] is None and not rows[0]["has_common"]:
        by_task = rows_of(
            connection, query, values | {"by_task": True, "gain_kind": _kind_of_difference(kind, is_loss=True)}
        )
        if by_task[0]["difference"] is not None:
            if by in ("class", "dimension"):
                raise BadParameter(f"the arms have no variant in common, so tasks are paired, and tasks have no {by}")
            return _marked(by_task, is_by_task=True)
    return _marked(rows, is_by_task=False)


def _check_instruments(found: Sequence[str]) -> None:
    """Refuse to compare trials of several versions of the instruments."""
    if len(found) > 1:
        raise BadParameter(
            f"the trials were recorded with several versions of the instruments ({'; '.join(found)}), so a difference "
            "may be due to the versions; --allow-mixed-instruments compares them anyway"
        )


def _kind_of_difference(kind: str, *, is_loss: bool) -> str:
    name = "loss" if is_loss else "gain"
    return {"percent": f"percent_{name}", "amount": f"free_{name}"}.get(kind, name)


def _marked(rows: Sequence[Mapping[str, Any]], *, is_by_task: bool) -> list[dict[str, Any]]:
    return [
        {**{name: value for name, value in row.items() if name != "has_common"}, "is_by_task": is_by_task}
        for row in rows
    ]


def print_comparison(
    store: Path,
    arms: Sequence[str],
    *,
    measure: str,
    by: str | None,
    allow_hang_ups: bool = False,
    allow_mixed_instruments: bool = False,
    settings: Mapping[str, Setting],
    form: str,
    out: TextIO,
) -> None:
    """Print a comparison of two groups, and notes on standard error, such as what was left out."""
    a, b = (parse_group(text) for text in arms)
    with open_store(store, parameters=settings, only=VIEWS) as connection:
        found = compare(
            connection,
            a,
            b,
            measure=measure,
            by=by,
            allow_hang_ups=allow_hang_ups,
            allow_mixed_instruments=allow_mixed_instruments,
        )
        media = media_notes(connection, a, b)
        parameters = (*(("k",) if measure.endswith("_k") else ()), *(("per",) if by == "dimension" else ()))
        pooled = ("pooled",) if a.agent is None else ()
        chosen = (*parameters, *pooled, "permutations", "seed", "cluster")
        notes = notes_for(background(connection), "compare", chosen, found)
    keys = ("part",) if by else ()
    columns = [name for name in COLUMNS if by or name != "p_holm"]
    rows = [{**row, **{name: _digits(row[name]) for name in ("p_value", "p_holm")}} for row in found]
    print_rows(rows if form == "table" else found, (*keys, *columns), form, out)
    over = "paired units"
    if any(row["is_by_task"] for row in found):
        over = "paired tasks: the groups have no variant in common, so the variants may differ in more than the group"
    elif any(row["is_unpaired"] for row in found):
        over = "all units: the groups have no task in common"
    said = [f"a: {a}", f"b: {b}", f"difference: mean of {measure} of a minus b over {over}", *media, *notes]
    say("\n".join(f"  {line}" for line in said))


def _check_hang_ups(connection: "duckdb.DuckDBPyConnection", a: Group, b: Group) -> None:
    """Refuse agents that left so many of their model calls that they may have chosen which trials count."""
    query = "select agent, benchmark, n, n_all from arm_cautions where kind = 'hung_up' order by all"
    for agent, benchmark, n, n_all in connection.execute(query).fetchall():
        if 100 * n > MOST_HANG_UPS * n_all and (agent in (a.agent, b.agent) or a.agent is None):
            raise BadParameter(
                f"{n} of {n_all} attempts of {agent} in {benchmark} ended because the agent closed its model call or "
                f"never made one, more than {MOST_HANG_UPS:g} %, so it may have chosen which trials count; "
                "--allow-hang-ups compares it anyway"
            )


def media_notes(connection: "duckdb.DuckDBPyConnection", a: Group, b: Group) -> list[str]:
    """Say in what else two groups differ that ask through different media, or under different hosts."""
    groups, values = (("a", a), ("b", b)), _named_values(a, b)
    tests = {f"is_{side}": _test(group, side, "trials.") for side, group in groups}
    found = rows_of(connection, _ASKING.format(**tests), values)
    if len(found) < 2 or all(found[0][name] == found[1][name] for name in ("media", "hosts")):
        return []
    media, hosts = ([", ".join(each[name]) for each in found] for name in ("media", "hosts"))
    notes = [f"media: a asks through {media[0]}, b through {media[1]}"]
    if hosts[0] != hosts[1]:
        notes.append(f"a ran in the host {hosts[0]}, b in {hosts[1]}; a host changes more than the way of asking")
    for (side, _), one, other in zip(groups, found, reversed(found), strict=True):
        if only := sorted({*one["tools"]} - {*other["tools"]}):
            notes.append(f"tools that only {side} offered to its models: {', '.join(only)}")
    return notes


def _left_out(connection: "duckdb.DuckDBPyConnection") -> dict[str, str]:
    """Map each agent whose trials cannot be compared to the reason."""
    query = """select agent,
            case when bool_and(stream_id in (select discarded_stream_id from stg_trials_discarded where not is_undone))
                then 'discarded' else string_agg(distinct role, ' and ') end
        from stg_trials_started
        where agent not in (select agent from int_arm_values) group by agent order by agent"""
    discarded = "all its trials are set aside; 'lhaw-record discard STORE --undo' includes them again"
    reasons = {
        "discarded": discarded,
        "classifier": "it is a classifier: its trials give variants their class and are in no table",
    }
    other = "none of its trials counts here; 'lhaw-record tables STORE trial_counts_and_cost' and the notes say why"
    return {agent: reasons.get(role, other) for agent, role in connection.execute(query).fetchall()}


def _by_variant(connection: "duckdb.DuckDBPyConnection", a: Group, b: Group, values: Mapping[str, Any]) -> list[str]:
    """Return the benchmarks to compare by variant. All others are compared by task.

    A benchmark is compared by task if both groups use the full prompt, which belongs to the task, or if one of the
    two agents ran no variants.
    """
    own = "true"
    if {a.condition, b.condition} <= _FULL_PROMPT:
        own = "condition in ('full', 'full_ask_user') and cell_id like '%|variant|%'"
    have = f"count_if({_test(a, 'a')}) > 0 and count_if({_test(b, 'b')}) > 0" if a.condition is None else "true"
    query = f"""select benchmark from int_arm_values
        where unit_kind = 'variant' and {own} group by benchmark having {have} order by benchmark"""  # noqa: S608
    used = {name: value for name, value in values.items() if f"${name}" in query}
    return [benchmark for (benchmark,) in connection.execute(query, used).fetchall()]


def _named_values(a: Group, b: Group) -> dict[str, Any]:
    """Return what both groups name, by the parameters of their tests."""
    sides = (("a", a), ("b", b))
    return {f"{side}_{name}": value for side, group in sides for name, value in group._asdict().items() if value}


def _test(group: Group, side: str, view: str = "") -> str:
    tests = [f"{view}{name} = ${side}_{name}" for name, value in group._asdict().items() if value is not None]
    return f"({' and '.join(tests)})"


def _digits(p_value: float | None) -> str | None:
    return None if p_value is None else f"{p_value:.6g}"
