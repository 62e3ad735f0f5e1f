"""Reads experiment files strictly. The error for a mistake names the file, the key and the remedy."""

import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.encoding import LARGEST_INTEGER
from lhaw_record.recorder.wording import did_you_mean
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding_errors import key_problem
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.experiment.tables import Experiment
from lhaw_record.runners.experiment.validation import experiment_problems, program_problems

_PAGE = "docs/experiments.md"
_PROGRAM_PAGE = "docs/external-agents.md"
_MOST_NAMES = 12
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")


def load_experiment(path: Path, environment: Mapping[str, str] | None = None) -> Experiment:
    """Read an experiment file."""
    return read_experiment(experiment_text(path), path, environment)


def experiment_text(path: Path) -> str:
    """Return the text of an experiment file."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ExperimentError(f"{path}: no such file; name an experiment file such as experiments/demo.toml") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path}: cannot be read: {error}") from error


def read_experiment(text: str, path: Path, environment: Mapping[str, str] | None = None) -> Experiment:
    """Decode the text of an experiment file."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{path}: not valid TOML: {error}") from error
    filled = _substitute(raw, "", path, os.environ if environment is None else environment)
    _split_benchmark_options(filled)
    try:
        experiment = msgspec.convert(filled, Experiment)
    except msgspec.ValidationError as error:
        raise ExperimentError(f"{path}: {key_problem(error, Experiment, filled, _PAGE)}") from error
    problem = next(experiment_problems(experiment), None)
    if problem is not None:
        raise ExperimentError(f"{path}: {problem}")
    return experiment


def read_program(path: Path) -> ProgramSpec:
    """Read the entry of an external program: a TOML file with the keys of :class:`ProgramSpec`."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        beside = sorted(each.name for each in path.parent.glob("*.toml"))
        there = (
            f"the TOML files beside it are: {', '.join(beside[:_MOST_NAMES])}" if beside else "no TOML file is there"
        )
        raise ExperimentError(f"{path}: no such file{did_you_mean(path.name, beside)}; {there}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path}: cannot be read: {error}") from error
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{path}: not valid TOML: {error}") from error
    try:
        spec = msgspec.convert(raw, ProgramSpec)
    except msgspec.ValidationError as error:
        raise ExperimentError(f"{path}: {key_problem(error, ProgramSpec, raw, _PROGRAM_PAGE)}") from error
    problem = next(program_problems(spec), None)
    if problem is not None:
        raise ExperimentError(f"{path}: {problem}")
    return msgspec.structs.replace(spec, name=spec.name or path.stem)


def _substitute(value: Any, key: str, path: Path, environment: Mapping[str, str]) -> Any:
    """Fill in environment variables, and refuse integers beyond 64 bits, which ``tomllib`` accepts."""
    if isinstance(value, dict):
        return {name: _substitute(item, f"{key}.{name}".lstrip("."), path, environment) for name, item in value.items()}
    if isinstance(value, list):
        return [_substitute(item, f"{key}[{index}]", path, environment) for index, item in enumerate(value)]
    if isinstance(value, int) and not -LARGEST_INTEGER <= value <= LARGEST_INTEGER:
        raise ExperimentError(f"{path}: key '{key}': {value} is too large; whole numbers have 64 bits")
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
    """Move the keys that belong to the benchmark itself into ``options``. The benchmark checks them."""
    benchmark = filled.get("benchmark")
    if isinstance(benchmark, str):
        filled["benchmark"] = {"name": benchmark}
    elif isinstance(benchmark, dict):
        own = ("name", "tasks", "variants", "variants_from", "design", "design_seed")
        options = {key: value for key, value in benchmark.items() if key not in own}
        filled["benchmark"] = {key: benchmark[key] for key in own if key in benchmark} | {"options": options}
