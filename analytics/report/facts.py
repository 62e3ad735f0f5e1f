"""What was run: the experiments of a store, their runs, the machine, how many trials there are and what they cost."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from analytics.report.markup import Markup, grid, tag

if TYPE_CHECKING:
    import duckdb

_RUNS = """
select
    experiment_id,
    strftime(make_timestamp(recorded_at_us), '%Y-%m-%d %H:%M:%S') as started_at,
    run_started.code_version,
    run_started.python_version,
    run_started.platform,
    run_started.cpu_count,
    run_started.planned_trials,
    run_started.finished_before,
    run_started.run_id,
    run_started.config_json,
    run_started.config_digest,
    list_transform(run_started.packages, lambda package: package.name || ' ' || package.version) as packages
from events
where type = 'run_started' and (getvariable('experiment') is null or experiment_id = getvariable('experiment'))
order by recorded_at_us, stream_id
"""
_RUN_HEAD = ("experiment", "started (UTC)", "code", "Python", "platform", "CPUs", "planned", "finished before", "run")

_TRIALS = """
select *, input_tokens + output_tokens as tokens from trial_counts_and_cost where condition = 'all' and purpose = 'all'
"""
_TRIALS_COLUMNS = {
    "benchmark": "benchmark",
    "agent": "agent",
    "role": "role",
    "planned": "n_planned",
    "valid": "n_trials",
    "missing": "n_missing",
    "running": "n_running",
    "tokens": "tokens",
    "USD": "cost_usd",
    "attempts": "attempts",
    "failed": "failed_attempts",
    "failed USD": "failed_cost_usd",
    "model s": "model_seconds",
    "tool s": "tool_seconds",
    "wall s": "wall_seconds",
}


def facts(connection: "duckdb.DuckDBPyConnection", settings: Mapping[str, Any]) -> Markup:
    """Return the facts as HTML: trials and costs, runs, configurations, packages, and the choices of this page."""
    found = connection.execute(_RUNS).fetchall()
    runs = [run[: len(_RUN_HEAD)] for run in found]
    details = sorted({run[-2]: (run[0], *run[-3::2]) for run in found}.values())
    chosen = ", ".join(f"{name} = {'unset' if value is None else value}" for name, value in settings.items())
    return tag(
        "div",
        grid(tuple(_TRIALS_COLUMNS), _trials(connection), caption="Trials and what they cost"),
        grid(_RUN_HEAD, runs, caption="Runs"),
        [_folded(f"Configuration of {name}", _pretty(config)) for name, config, _ in details],
        [_folded(f"Packages of {name}", "\n".join(sorted(names))) for name, _, names in details if names],
        _folded("Choices that the numbers depend on", chosen.replace(", ", "\n")),
    )


def _trials(connection: "duckdb.DuckDBPyConnection") -> list[list[Any]]:
    """Sums over conditions and purposes; sums over everything stand last, and only where they sum something."""
    result = connection.execute(_TRIALS)
    names = [column[0] for column in result.description or ()]
    found = [dict(zip(names, row, strict=True)) for row in result.fetchall()]
    keys = [(row["benchmark"], row["agent"], row["role"]) for row in found]
    parts = sorted((key, row) for key, row in zip(keys, found, strict=True) if "all" not in key)
    sums = [row for key, row in zip(keys, found, strict=True) if set(key) == {"all"} and len(parts) > 1]
    rows = [*(row for _, row in parts), *sums]
    return [[_shown(column, row[column]) for column in _TRIALS_COLUMNS.values()] for row in rows]


def _shown(column: str, value: Any) -> Any:
    if column.endswith("_usd"):
        return "unknown price" if value is None else f"{value:,.4f}"
    if column.endswith("_seconds"):
        return "unknown" if value is None else f"{value:,.0f}"
    if column == "tokens":
        return "unknown" if value is None else value
    return value


def _folded(title: str, text: str) -> Markup:
    return tag("details", tag("summary", title), tag("pre", text, tabindex="0"))


def _pretty(config: str) -> str:
    try:
        return json.dumps(json.loads(config), indent=2, ensure_ascii=False)
    except ValueError:
        return config
