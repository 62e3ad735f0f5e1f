"""An experiment file: what to run, decoded strictly. Every mistake is named with its file, its key and the remedy."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal

import msgspec

from recorder.canonical import canonical_json
from recorder.errors import StoreError
from recorder.store import check_experiment_id
from recorder.values import CONDITIONS
from runners.errors import ExperimentError
from runners.external.program import ProgramSpec, problems_of
from runners.models.prices import Price

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file: an unknown key is an error."""


class StoreSpec(_Table, frozen=True):
    """Variants of a store: those of a selection, or all that an experiment registered; one of the two."""

    store: str
    selection: str | None = None
    experiment: str | None = None


class BenchmarkSpec(_Table, frozen=True):
    """Which tasks and variants; None means all that there are. ``options`` are the benchmark's own keys.

    ``variants_from`` names a dataset file or a store with other variants than the benchmark's own, and ``design``
    which of them, by counts and ``design_seed``.
    """

    name: str
    tasks: tuple[str, ...] | None = None
    variants: tuple[str, ...] | None = None
    variants_from: str | StoreSpec | None = None
    design: str | None = None
    design_seed: int = 0
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class AgentSpec(_Table, frozen=True):
    """One agent. ``price`` is for models that litellm's table lacks, or where yours differs from it.

    ``program`` is a ready-made entry's name, the path of an entry's file, or an entry; None for the native agent.
    """

    name: str
    model: str
    strategy: str = "none"
    persona: str = "none"
    role: Literal["evaluated", "classifier"] = "evaluated"
    conditions: tuple[str, ...] | None = None
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    api_base: str | None = None
    api_key_env: str | None = None
    price: Price | None = None
    program: str | ProgramSpec | None = None

    @property
    def external(self) -> ProgramSpec | None:
        """The program, once the experiment is planned; None for the native agent."""
        assert not isinstance(self.program, str), "a plan replaces the names of programs by their entries"
        return self.program


class LimitsSpec(_Table, frozen=True):
    """What a trial may use: turns, actions (None is no limit), seconds in all and per command, megabytes, processes."""

    max_turns: int = 60
    max_actions: int | None = None
    max_seconds: float = 1800.0
    command_seconds: float = 60.0
    memory_mb: int = 1024
    processes: int = 128


class BudgetSpec(_Table, frozen=True):
    """What may be spent, in USD: by one trial (it ends with ``cost_limit``) and by the whole experiment."""

    max_cost_usd: float | None = None
    max_cost_usd_per_trial: float | None = None


class RetrySpec(_Table, frozen=True):
    """How often a trial that infrastructure ended is attempted, and how a model request is repeated."""

    max_attempts: int = 3
    request_attempts: int = 6
    request_timeout_s: float = 600.0


class SandboxSpec(_Table, frozen=True):
    """Where agents work. ``process`` isolates nothing: only scripted models may use it without the flag.

    ``image`` and ``cpus`` (processors for each container; None for all) are docker's.
    """

    kind: Literal["auto", "bubblewrap", "docker", "process"] = "auto"
    image: str | None = None
    cpus: float | None = None
    allow_unisolated: bool = False


class ModelSpec(_Table, frozen=True):
    """A model with a role beside the agent: the ``llm`` user simulator, or a judge."""

    model: str
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)
    api_base: str | None = None
    api_key_env: str | None = None
    price: Price | None = None


class UserSimulatorSpec(_Table, frozen=True):
    """Who answers questions: exact, dump or llm; ``llm`` needs a model."""

    kind: Literal["exact", "dump", "llm"] = "exact"
    llm: ModelSpec | None = None


class GraderSpec(_Table, frozen=True):
    """How claims are graded where a benchmark leaves the choice: by a deterministic matcher or an LLM judge."""

    kind: Literal["default", "matcher", "judge"] = "default"
    judge: ModelSpec | None = None


class PromptsSpec(_Table, frozen=True):
    """Files that replace bundled wordings; paths are relative to the experiment file."""

    system: str | None = None
    program: str | None = None
    injection: str | None = None
    user_simulator: str | None = None
    strategies: dict[str, str] = msgspec.field(default_factory=dict)
    personas: dict[str, str] = msgspec.field(default_factory=dict)


class Experiment(_Table, frozen=True):
    """A whole experiment file. ``sessions`` of each agent and condition, dealt over tasks, stand in place of trials."""

    name: str
    benchmark: BenchmarkSpec
    agents: tuple[AgentSpec, ...]
    conditions: tuple[str, ...]
    trials: int = 3
    sessions: int | None = None
    deal_seed: int = 0
    seeds: tuple[int, ...] | None = None
    concurrency: int = 4
    oracle_scope: Literal["task", "variant"] = "task"
    min_oracle_trials: int | None = None
    ask_notice: Literal["none", "paper"] = "none"
    limits: LimitsSpec = LimitsSpec()
    budget: BudgetSpec = BudgetSpec()
    retry: RetrySpec = RetrySpec()
    sandbox: SandboxSpec = SandboxSpec()
    user_simulator: UserSimulatorSpec = UserSimulatorSpec()
    grader: GraderSpec = GraderSpec()
    prompts: PromptsSpec = PromptsSpec()

    def seed_of(self, trial_index: int) -> int:
        """Return the seed of a trial index; by default the index itself."""
        return self.seeds[trial_index] if self.seeds else trial_index

    def config_json(self) -> str:
        """Return the normalised file as canonical JSON, defaults included; it holds names of keys, never keys."""
        return canonical_json(self).decode()


def load_experiment(path: Path, environment: Mapping[str, str] | None = None) -> Experiment:
    """Read an experiment file.

    Args:
        path: A TOML file.
        environment: Values for ``${NAME}``; the process's own if None.

    Raises:
        ExperimentError: It cannot be used; the message names file, key and remedy.
    """
    return read_experiment(experiment_text(path), path, environment)


def experiment_text(path: Path) -> str:
    """Return the text of an experiment file.

    Raises:
        ExperimentError: There is none, or it cannot be read.
    """
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ExperimentError(f"{path}: no such file; name an experiment file such as experiments/demo.toml") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path}: cannot be read: {error}") from error


def read_experiment(text: str, path: Path, environment: Mapping[str, str] | None = None) -> Experiment:
    """Decode the text of an experiment file.

    Args:
        text: TOML.
        path: The file that it came from, for messages.
        environment: Values for ``${NAME}``; the process's own if None.

    Raises:
        ExperimentError: It cannot be used; the message names file, key and remedy.
    """
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{path}: not valid TOML: {error}") from error
    filled = _substitute(raw, "", path, os.environ if environment is None else environment)
    _split_benchmark_options(filled)
    try:
        experiment = msgspec.convert(filled, Experiment)
    except msgspec.ValidationError as error:
        raise ExperimentError(f"{path}: {_readable(str(error))}") from error
    problem = next(_problems(experiment), None)
    if problem is not None:
        raise ExperimentError(f"{path}: {problem}")
    return experiment


def _substitute(value: Any, key: str, path: Path, environment: Mapping[str, str]) -> Any:
    if isinstance(value, dict):
        return {name: _substitute(item, f"{key}.{name}".lstrip("."), path, environment) for name, item in value.items()}
    if isinstance(value, list):
        return [_substitute(item, f"{key}[{index}]", path, environment) for index, item in enumerate(value)]
    if not isinstance(value, str):
        return value

    def replace(match: re.Match[str]) -> str:
        name, default = match.groups()
        if default is not None:
            return environment.get(name) or default
        if name not in environment:
            raise ExperimentError(f"{path}: key '{key}' needs the environment variable {name}; run: export {name}=...")
        return environment[name]

    return _VARIABLE.sub(replace, value)


def _split_benchmark_options(filled: dict[str, Any]) -> None:
    """Move the benchmark's own keys into ``options``; the benchmark checks them itself."""
    benchmark = filled.get("benchmark")
    if isinstance(benchmark, str):
        filled["benchmark"] = {"name": benchmark}
    elif isinstance(benchmark, dict):
        own = ("name", "tasks", "variants", "variants_from", "design", "design_seed")
        options = {key: value for key, value in benchmark.items() if key not in own}
        filled["benchmark"] = {key: benchmark[key] for key in own if key in benchmark} | {"options": options}


def _readable(message: str) -> str:
    """Turn msgspec's words into ours: ``$.agents[0].modle`` becomes ``agents[0].modle``."""
    text, _, place = message.partition(" - at `$")
    key = place.rstrip("`").lstrip(".")
    unknown = re.match(r"Object contains unknown field `(.*)`", text)
    if unknown:
        where = f"{key}.{unknown[1]}" if key else unknown[1]
        return f"unknown key '{where}'; remove it, or see docs/experiments.md for the keys there are"
    missing = re.match(r"Object missing required field `(.*)`", text)
    if missing:
        where = f"{key}.{missing[1]}" if key else missing[1]
        return f"key '{where}' is missing; add it (docs/experiments.md has an example)"
    return f"key '{key}': {text[:1].lower()}{text[1:]}"


def _problems(experiment: Experiment) -> Iterator[str]:
    """What no type can say; the first is shown."""
    try:
        check_experiment_id(experiment.name)
    except StoreError as error:
        yield f"key 'name': {error}"
    for index, agent in enumerate(experiment.agents):
        yield from _condition_problems(f"agents[{index}].conditions", agent.conditions or ())
    yield from _condition_problems("conditions", experiment.conditions)
    yield from _agent_problems(experiment)
    origin = experiment.benchmark.variants_from
    if isinstance(origin, StoreSpec) and (origin.selection is None) == (origin.experiment is None):
        yield "key 'benchmark.variants_from': a store needs either 'selection' or 'experiment' beside it"
    for key, value in (("trials", experiment.trials), ("concurrency", experiment.concurrency)):
        if value < 1:
            yield f"key '{key}': at least 1"
    if experiment.limits.max_actions is not None and experiment.limits.max_actions < 1:
        yield "key 'limits.max_actions': at least 1; leave it out for no limit"
    yield from _session_problems(experiment)
    if experiment.seeds is not None and len(experiment.seeds) < experiment.trials:
        yield f"key 'seeds': {experiment.trials} trials need as many seeds, {len(experiment.seeds)} are given"
    yield from _sandbox_problems(experiment.sandbox)
    if experiment.user_simulator.kind == "llm" and experiment.user_simulator.llm is None:
        yield "key 'user_simulator.llm': the llm simulator needs a model; add [user_simulator.llm] with model = ..."
    if experiment.grader.kind == "judge" and experiment.grader.judge is None:
        yield "key 'grader.judge': a judge needs a model; add [grader.judge] with model = ..."


def _agent_problems(experiment: Experiment) -> Iterator[str]:
    names = [agent.name for agent in experiment.agents]
    if not names:
        yield "key 'agents': name at least one agent in an [[agents]] table"
    for name in names:
        if names.count(name) > 1:
            yield f"key 'agents': two agents are named {name!r}; give each its own name"
    for index, agent in enumerate(experiment.agents):
        if isinstance(agent.program, ProgramSpec):
            yield from (f"agents[{index}].program, {problem}" for problem in problems_of(agent.program))
        conditions = agent.conditions or experiment.conditions
        injected = [condition for condition in conditions if condition.startswith("inject_")]
        if injected and "full" not in conditions:
            yield f"key 'conditions': {injected[0]} needs the action budget of 'full' trials; add \"full\""


def _session_problems(experiment: Experiment) -> Iterator[str]:
    if experiment.sessions is None:
        return
    if experiment.sessions < 1:
        yield "key 'sessions': at least 1"
    if experiment.seeds is not None:
        yield "key 'seeds': sessions are seeded by their turn; remove one of 'seeds' and 'sessions'"
    if any(each.startswith("inject_") for agent in experiment.agents for each in agent.conditions or ()) or any(
        each.startswith("inject_") for each in experiment.conditions
    ):
        yield "key 'sessions': an injection needs the 'full' trials of its own cell; use 'trials' instead"


def _sandbox_problems(sandbox: SandboxSpec) -> Iterator[str]:
    if sandbox.kind == "docker" and not sandbox.image:
        yield "key 'sandbox.image': docker needs an image with python3 and bash; docs/sandboxes.md says how to make one"
    for key in ("image", "cpus"):
        if sandbox.kind != "docker" and getattr(sandbox, key) is not None:
            yield f"key 'sandbox.{key}': it is for docker only; remove it, or set sandbox.kind = \"docker\""
    if sandbox.cpus is not None and not 0.01 <= sandbox.cpus <= 1024:
        yield f"key 'sandbox.cpus': {sandbox.cpus:g} is no number of processors; from 0.01 on"


def _condition_problems(key: str, conditions: tuple[str, ...]) -> Iterator[str]:
    for condition in conditions:
        if conditions.count(condition) > 1:
            yield f"key '{key}': {condition!r} stands there twice; remove one"
        if condition not in CONDITIONS:
            yield f"key '{key}': unknown condition {condition!r}; known: {', '.join(CONDITIONS)}"
