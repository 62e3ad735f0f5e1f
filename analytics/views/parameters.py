"""The analysis parameters, with their defaults, allowed values, meanings and sources.

Queries read parameters with ``getvariable``. Parameters are set when a connection is opened, because most views are
computed at that moment. To use other values, open another connection.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, get_args

import msgspec

from lhaw_record.analytics.errors import BadParameter, UnknownName
from lhaw_record.recorder.events.interaction import Medium
from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.recorder.wording import did_you_mean

if TYPE_CHECKING:
    import duckdb

Setting = str | int | float | bool | None


class AnalysisParameter(msgspec.Struct, frozen=True, kw_only=True):
    """One analysis parameter.

    ``allowed`` lists the possible texts; it is empty if the list is open. ``low`` and ``high`` are inclusive bounds for
    numbers. A list (``is_list``) is a comma-separated text of ``parts``.
    """

    name: str
    default: Setting
    meaning: str
    source: str
    allowed: tuple[Setting, ...] = ()
    low: float | None = None
    high: float | None = None
    is_list: bool = False
    parts: tuple[str, ...] = ()

    @property
    def sql_type(self) -> str:
        """The SQL type of the default. An unset default is a text."""
        kinds: dict[type, str] = {bool: "boolean", int: "bigint", float: "double"}
        return kinds.get(type(self.default), "varchar")

    @property
    def choices(self) -> tuple[Setting, ...]:
        """The allowed values, if they are a closed list."""
        return (False, True) if isinstance(self.default, bool) else self.allowed


PARAMETERS: tuple[AnalysisParameter, ...] = (
    AnalysisParameter(
        name="k",
        default=3,
        low=1,
        high=1000,
        meaning="trials drawn in pass@k and pass^k",
        source="docs/metrics.md 2",
    ),
    AnalysisParameter(
        name="reading",
        default="default",
        allowed=("default", "paper", "readme", "complete_cases", "pass_at_k", "primary_dimension"),
        meaning="a named set of parameter values; a parameter that is set explicitly overrides it",
        source="docs/metrics.md 5 and 7",
    ),
    AnalysisParameter(
        name="class_rule",
        default="paper",
        allowed=("paper", "readme"),
        meaning="class if all trials succeed (c = n) in several terminal states: divergent (paper) or benign (readme)",
        source="docs/metrics.md 2",
    ),
    AnalysisParameter(
        name="classifier_agent",
        default=None,
        meaning="agent whose trials and selections give the class of unlabelled variants; unset: the only classifier; "
        "vote: the class that most classifiers give",
        source="docs/metrics.md 2",
    ),
    AnalysisParameter(
        name="classifier_experiment",
        default=None,
        meaning="experiment whose classifier trials count; unset: every experiment",
        source="docs/metrics.md 2",
    ),
    AnalysisParameter(
        name="reuse_classifying_trials",
        default=False,
        meaning="also use the trials that gave the class in the evaluated tables",
        source="docs/metrics.md 2",
    ),
    AnalysisParameter(
        name="keep_flagged",
        default=False,
        meaning="keep trials whose injected message did not reach the agent (flag injection_lost)",
        source="docs/metrics.md 1",
    ),
    AnalysisParameter(
        name="per",
        default="variant_dimension",
        allowed=("variant_dimension", "segment", "primary"),
        meaning="a variant counts in each of its dimensions, once per removed segment, or only in its first dimension",
        source="docs/metrics.md 3 and 4",
    ),
    AnalysisParameter(
        name="intention_to_treat",
        default=True,
        meaning="trials that ended before their injection count under the planned condition (true) or nowhere (false)",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="timing_measure",
        default="pass_at_1",
        allowed=("pass_at_1", "checkpoint_progress", "pass_at_k"),
        meaning="the measure for gains from injections, points of no return and windows",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="voi_cases",
        default="available",
        allowed=("complete", "available"),
        meaning="units with the full prompt and all injections (complete), or every unit of a cell (available)",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="kendall_cells",
        default="injected",
        allowed=("injected", "all"),
        meaning="ranked cells: variants under inject_p (injected), or also under full and underspecified (all)",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="cluster",
        default="task",
        allowed=("task", "domain"),
        meaning="what intervals and tests treat as independent: tasks, or domains with all of their tasks (in "
        "swebench_pro, a domain is a repository)",
        source="docs/metrics.md 5",
    ),
    AnalysisParameter(
        name="pooled",
        default="tasks",
        allowed=("tasks", "units"),
        meaning="mean in rows of agent all: over agents in each task, then over tasks; or over (variant, agent) pairs",
        source="docs/metrics.md 5",
    ),
    AnalysisParameter(
        name="flipped",
        default="tasks",
        allowed=("tasks", "units"),
        meaning="point of no return. tasks: flip the signs of whole tasks, correct by Holm, take the end of the "
        "unbroken run of significant timings, and show a window only after a shown gain. units: flip each unit, "
        "correct by Bonferroni, take the latest significant timing, and always show a window",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="ask_scale",
        default="budget",
        allowed=("budget", "own_length"),
        meaning="scale of the time of a first question in the optimal window: the unit's budget, as for injections, or "
        "the number of the trial's own actions",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="window_pp",
        default=5.0,
        low=0,
        high=100,
        meaning="percentage points by which the value in the optimal window may be below that of the first injection",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="wasted_match",
        default="arguments",
        allowed=("arguments", "name"),
        meaning="two actions are the same if their names and canonical arguments are equal, or only their names",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="wasted_supply",
        default="max",
        allowed=("max", "set", "single", "sum"),
        meaning="how often an action with the full prompt can be a counterpart: its highest count in one trace (max), "
        "without limit (set), its count in the first trace (single), or its count in all traces (sum)",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="wasted_uninjected",
        default=False,
        meaning="in wasted compute, trials that ended before their injection count fully (true) or not at all (false)",
        source="docs/metrics.md 4",
    ),
    AnalysisParameter(
        name="experiment",
        default=None,
        meaning="only trials of this experiment; unset: the whole store",
        source="ours",
    ),
    AnalysisParameter(
        name="user_simulator",
        default=None,
        meaning="of the trials that could ask, use only those with this simulator; unset: all",
        source="ours",
    ),
    AnalysisParameter(
        name="settings",
        default=None,
        is_list=True,
        meaning="for agents with several settings, only these settings: the six digits after the # in an agent's name, "
        "separated by commas; unset: all, as separate agents",
        source="docs/metrics.md 5",
    ),
    AnalysisParameter(
        name="exclude_endings",
        default=None,
        is_list=True,
        parts=get_args(EndedBy),
        meaning="endings (see docs/metrics.md 1) whose trials count nowhere, separated by commas; unset: none",
        source="docs/metrics.md 1",
    ),
    AnalysisParameter(
        name="judge",
        default=None,
        meaning="judge whose verdicts count, by its model's name; unset: the last verdict on each trial or variant",
        source="docs/judging.md",
    ),
    AnalysisParameter(
        name="medium",
        default=None,
        is_list=True,
        parts=get_args(Medium),
        meaning="media whose questions count, separated by commas; unset: all",
        source="docs/metrics.md 1",
    ),
    AnalysisParameter(
        name="exchange_judge",
        default=None,
        meaning="judge of what a question asks for and what its answer gives: rules, or a judge's name in the events; "
        "unset: the simulated user's own judge, or rules if it has none",
        source="docs/metrics.md 3",
    ),
    AnalysisParameter(
        name="confidence",
        default=0.95,
        low=0.5,
        high=0.999,
        meaning="coverage of every interval; a test's level is 1 - confidence",
        source="docs/metrics.md 5",
    ),
    AnalysisParameter(
        name="draws",
        default=2000,
        low=100,
        high=100_000,
        meaning="bootstrap draws",
        source="docs/metrics.md 5",
    ),
    AnalysisParameter(
        name="seed",
        default=20260210,
        low=0,
        high=2**31,
        meaning="seed of all random draws for intervals and tests",
        source="docs/metrics.md 5",
    ),
    AnalysisParameter(
        name="permutations",
        default=10_000,
        low=100,
        high=1_000_000,
        meaning="most sign choices in a permutation test: all choices, or this many random choices if there are more",
        source="docs/metrics.md 4 and 5",
    ),
    AnalysisParameter(
        name="over_clarifier_pct",
        default=40.0,
        low=0,
        high=100,
        meaning="an agent that asks in at least this share of its trials is an over-clarifier",
        source="docs/metrics.md 3",
    ),
    AnalysisParameter(
        name="under_clarifier_pct",
        default=10.0,
        low=0,
        high=100,
        meaning="an agent that asks in less than this share of its trials is an under-clarifier",
        source="docs/metrics.md 3",
    ),
    AnalysisParameter(
        name="reference_agents",
        default=None,
        is_list=True,
        meaning="agents whose full trials select tasks, separated by commas; unset: all evaluated agents",
        source="docs/metrics.md 6",
    ),
    AnalysisParameter(
        name="selection_progress_pct",
        default=50.0,
        low=0,
        high=100,
        meaning="smallest mean progress of the reference agents for which a task is selected",
        source="docs/metrics.md 6",
    ),
    AnalysisParameter(
        name="trial",
        default=None,
        meaning="id of the trial that the table trajectory shows; unset: none",
        source="docs/metrics.md 6",
    ),
)

READINGS: dict[str, dict[str, Setting]] = {
    "default": {},
    "paper": {
        "intention_to_treat": False,
        "voi_cases": "complete",
        "timing_measure": "pass_at_k",
        "ask_scale": "own_length",
        "pooled": "units",
        "flipped": "units",
        "medium": "mcp",
    },
    "readme": {"class_rule": "readme"},
    "complete_cases": {"intention_to_treat": False, "voi_cases": "complete"},
    "pass_at_k": {"timing_measure": "pass_at_k"},
    "primary_dimension": {"per": "primary"},
}
"""The parameters that each reading sets. ``paper`` is what both papers did."""

_BY_NAME = {parameter.name: parameter for parameter in PARAMETERS}


def set_parameters(connection: "duckdb.DuckDBPyConnection", chosen: Mapping[str, Setting] | None = None) -> None:
    """Set every parameter of a connection to its chosen value or its default."""
    values = values_of(chosen or {})
    for parameter in PARAMETERS:
        value = _literal(values[parameter.name])
        connection.execute(f"set variable {parameter.name} = {value}::{parameter.sql_type}").fetchall()


def values_of(chosen: Mapping[str, Setting]) -> dict[str, Setting]:
    """Return the value of every parameter: the chosen value, else the value of the chosen reading, else the default."""
    for name, value in chosen.items():
        check(name, value)
    given = {**READINGS[str(chosen.get("reading", "default"))], **chosen}
    values = {parameter.name: given.get(parameter.name, parameter.default) for parameter in PARAMETERS}
    lists = {parameter.name: _parts(values[parameter.name]) for parameter in PARAMETERS if parameter.is_list}
    return values | {name: ",".join(parts) or None for name, parts in lists.items()}


def check(name: str, value: Setting) -> None:
    """Check that a parameter exists and that it allows a value."""
    parameter = _parameter(name)
    if parameter.choices and value not in parameter.choices:
        choices = ", ".join(map(str, parameter.choices))
        raise BadParameter(f"{name} = {value!r} is not possible; choose one of: {choices}")
    if parameter.parts and (unknown := [part for part in _parts(value) if part not in parameter.parts]):
        hint = did_you_mean(unknown[0], parameter.parts)
        raise BadParameter(f"{name}: there is no {unknown[0]!r}{hint}; known: {', '.join(parameter.parts)}")
    if parameter.low is not None and parameter.high is not None:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise BadParameter(f"{name} = {value!r} is not a number; give one from {parameter.low} to {parameter.high}")
        if not parameter.low <= value <= parameter.high:
            raise BadParameter(f"{name} = {value!r} is out of range; give one from {parameter.low} to {parameter.high}")


def _parts(value: Setting) -> list[str]:
    return [part.strip() for part in str(value or "").split(",") if part.strip()]


def parse_settings(settings: Sequence[str]) -> dict[str, Setting]:
    """Parse ``name=value`` texts into parameter values of the right types."""
    found: dict[str, Setting] = {}
    for setting in settings:
        name, has_value, text = setting.partition("=")
        if not has_value:
            raise BadParameter(f"{setting!r} has no value; write NAME=VALUE")
        found[name.strip()] = _typed(name.strip(), text.strip())
    return found


def current(connection: "duckdb.DuckDBPyConnection") -> dict[str, Setting]:
    """Return the current value of every parameter on a connection, including defaults."""
    columns = ", ".join(f"getvariable('{parameter.name}')" for parameter in PARAMETERS)
    (row,) = connection.execute(f"select {columns}").fetchall()
    return {parameter.name: value for parameter, value in zip(PARAMETERS, row, strict=True)}


def reading_of(values: Mapping[str, Setting]) -> str:
    """Return the name of the reading with these values, and the parameters that differ from it, if any."""
    name = str(values["reading"])
    usual = values_of({"reading": name})
    return ", ".join([name, *(f"{key} = {value}" for key, value in values.items() if value != usual[key])])


def _typed(name: str, text: str) -> Setting:
    sql_type = _parameter(name).sql_type
    try:
        if sql_type == "boolean":
            return {"true": True, "false": False}[text.lower()]
        return int(text) if sql_type == "bigint" else float(text) if sql_type == "double" else text
    except (KeyError, ValueError):
        wanted = {"boolean": "true or false", "bigint": "a whole number", "double": "a number"}[sql_type]
        raise BadParameter(f"{name} takes {wanted}, not {text!r}") from None


def _parameter(name: str) -> AnalysisParameter:
    if name not in _BY_NAME:
        raise UnknownName(f"there is no parameter {name!r}{did_you_mean(name, _BY_NAME)}; known: {', '.join(_BY_NAME)}")
    return _BY_NAME[name]


def _literal(value: Setting) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return str(value).lower()
