"""Reads experiment files strictly. The error for a mistake names the file, the key and the remedy."""

import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from lhaw_record.recorder.events.encoding import LARGEST_INTEGER
from lhaw_record.recorder.events.values import LATE_ANSWERS
from lhaw_record.recorder.wording import did_you_mean
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.experiment.tables import Experiment
from lhaw_record.runners.experiment.validation import experiment_problems, program_problems

T = TypeVar("T")
_PAGE = "docs/experiments.md"
_PROGRAM_PAGE = "docs/external-agents.md"
_MOST_NAMES = 12
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_STEP = re.compile(r"\[(?P<index>\d+)\]|(?P<entry>\[\.\.\.\])|(?P<name>[^.\[\]]+)")
_RENAMED = {"ask_user": "asks_by"}
_WORDS = {
    "str": "a text",
    "float": "a number",
    "int": "a whole number",
    "array": "a list",
    "object": "an object with keys",
    "bool": "true or false",
    "null": "null",
}


def load_experiment(path: Path, environment: Mapping[str, str] | None = None) -> Experiment:
    return read_experiment(experiment_text(path), path, environment)


def experiment_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        said = "no such file; name an experiment file (`lhaw-record help experiments` has one to copy, demo needs none)"
        raise ExperimentError(f"{path}: {said}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path}: cannot be read: {error}") from error


def read_experiment(text: str, path: Path, environment: Mapping[str, str] | None = None) -> Experiment:
    filled = _substitute(parsed(text, path), "", path, os.environ if environment is None else environment)
    _split_benchmark_options(filled)
    experiment = converted(filled, Experiment, path, _PAGE)
    named = dict.fromkeys((*experiment.conditions, *(LATE_ANSWERS + name for name in experiment.responses)))
    if len(named) > len(experiment.conditions):
        experiment = msgspec.structs.replace(experiment, conditions=tuple(named))
    problem = next(experiment_problems(experiment), None)
    if problem is not None:
        raise ExperimentError(f"{path}: {problem}")
    return experiment


def read_program(path: Path) -> ProgramSpec:
    """Read the entry of an external program: a TOML file with the keys of :class:`ProgramSpec`."""
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = sorted(each.name for each in path.parent.glob("*.toml"))
        there = (
            f"the TOML files beside it are: {', '.join(beside[:_MOST_NAMES])}" if beside else "no TOML file is there"
        )
        raise ExperimentError(f"{path}: no such file{did_you_mean(path.name, beside)}; {there}") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"{path}: cannot be read: {error}") from error
    spec = converted(parsed(text, path), ProgramSpec, path, _PROGRAM_PAGE)
    problem = next(program_problems(spec), None)
    if problem is not None:
        raise ExperimentError(f"{path}: {problem}")
    return msgspec.structs.replace(spec, name=spec.name or path.stem)


def parsed(text: str, path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ExperimentError(f"{path}: not valid TOML: {error}") from error


def converted(raw: Any, kind: type[T], path: Path, page: str) -> T:
    """Convert the content of a file to a struct. ``page`` documents its keys."""
    try:
        return msgspec.convert(raw, kind)
    except msgspec.ValidationError as error:
        raise ExperimentError(f"{path}: {key_problem(error, kind, raw, page)}") from error


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
        own = ("name", "tasks", "variants", "variants_from", "design", "design_seed", "allow_left_out")
        options = {key: value for key, value in benchmark.items() if key not in own}
        filled["benchmark"] = {key: benchmark[key] for key in own if key in benchmark} | {"options": options}


def key_problem(error: msgspec.ValidationError, kind: Any, raw: Any, page: str = "", under: str = "") -> str:
    """Describe a decoding error in one sentence: the key (``agents[0].modle``), the mistake and the remedy."""
    text, _, path = str(error).partition(" - at `$")
    key, found, kinds = _walked(path.rstrip("`"), kind, raw, under)
    see = f" ({page})" if page else ""
    unknown = re.fullmatch(r"Object contains unknown field `(.*)`", text)
    if unknown:
        names = _known(kinds)
        if (now := _RENAMED.get(unknown[1])) in names:
            return f"unknown key '{_joined(key, unknown[1])}'; write {now} = {_shown(found.get(unknown[1]))}{see}"
        meant = did_you_mean(unknown[1], names)
        return f"unknown key '{_joined(key, unknown[1])}'{meant}; known: {', '.join(names) or 'none'}{see}"
    missing = re.fullmatch(r"Object missing required field `(.*)`", text)
    if missing:
        return f"key '{_joined(key, missing[1])}' is missing; add it{see}"
    shown = f"key '{key}': {_shown(found)}" if key else _shown(found)
    if text.startswith("Invalid enum value"):
        return f"{shown} is not a choice; the choices are: {', '.join(map(str, _choices(kinds)))}"
    expected = re.fullmatch(r"Expected `(?P<kinds>[^`]+)`(?P<bound>.*?)(?:, got `[^`]+`)?", text)
    if expected:
        words = " or ".join(_WORDS.get(word, word) for word in expected["kinds"].split(" | ") if word != "null")
        return f"{shown}, where {words or 'null'}{expected['bound']} is expected"
    return f"{shown}: {text[:1].lower()}{text[1:]}"


def _joined(key: str, name: str) -> str:
    return f"{key}.{name}" if key else name


def _walked(path: str, kind: Any, raw: Any, under: str) -> tuple[str, Any, list[Any]]:
    """Follow one of msgspec's error paths, and return the key there, its value and the types that it may have.

    The path does not name the entry of a table (``services[...].health``), so the first entry that does not fit is
    taken.
    """
    key, value, kinds = under, raw, [kind]
    for step in _STEP.finditer(path):
        if step["name"]:
            key, value = _joined(key, step["name"]), value[step["name"]]
            fields = (field for struct in _structs(kinds) for field in msgspec.structs.fields(struct))
            kinds = [field.type for field in fields if field.encode_name == step["name"]]
            continue
        kinds = [get_args(part)[-1 if step["entry"] else 0] for part in _parts(kinds) if _holds_many(part)]
        if step["index"]:
            key, value = f"{key}[{step['index']}]", value[int(step["index"])]
        else:
            name, value = next((entry for entry in value.items() if not _fits(entry[1], kinds)), ("...", None))
            key = _joined(key, str(name))
    return key, value, kinds


def _parts(kinds: list[Any]) -> Iterator[Any]:
    """Yield the types, with each union replaced by its members."""
    for kind in kinds:
        if get_origin(kind) is Literal or isinstance(kind, type) or _holds_many(kind):
            yield kind
        else:
            yield from _parts(list(get_args(kind)))


def _holds_many(kind: Any) -> bool:
    origin = get_origin(kind)
    return isinstance(origin, type) and issubclass(origin, (list, tuple, Mapping))


def _structs(kinds: list[Any]) -> Iterator[type[msgspec.Struct]]:
    return (part for part in _parts(kinds) if isinstance(part, type) and issubclass(part, msgspec.Struct))


def _fits(value: Any, kinds: list[Any]) -> bool:
    for kind in kinds:
        try:
            msgspec.convert(value, kind)
        except msgspec.ValidationError:
            continue
        return True
    return False


def _known(kinds: list[Any]) -> list[str]:
    return [field.encode_name for struct in _structs(kinds) for field in msgspec.structs.fields(struct)]


def _choices(kinds: list[Any]) -> list[Any]:
    literals = (part for part in _parts(kinds) if get_origin(part) is Literal)
    return list(dict.fromkeys(value for literal in literals for value in get_args(literal) if value is not None))


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."
