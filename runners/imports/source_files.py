"""Reads the files of an import and their rewards. Errors name the file and the line."""

import codecs
import csv
import gzip
import hashlib
import io
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.runners.base.text.fields import with_valid_text
from lhaw_record.runners.environments.benchmarks.published import CSV_FIELD_LIMIT
from lhaw_record.runners.imports.foreign_trial import ImportFailed, ParsedFile, SourceFile

_COMMON_FOLDERS = ("results", "result", "evaluation", "evaluations", "outputs", "output")
"""Folders whose name says nothing about what is in them; the one above has the agent's name."""

_HOME = re.compile(rb"[/\\]{1,4}(?:home|Users)[/\\]{1,4}([\w.@-]{2,})")
"""The home folder of a person, in which JSON may write each stroke of a path two or four times."""

_DECODER = json.JSONDecoder()

_VARIABLE = "LHAW_RECORD_MAX_UNPACKED_MB"


def read_sources(path: Path, patterns: Sequence[str]) -> list[SourceFile]:
    """Read one file, or the files below a folder whose names match, sorted by path."""
    if path.is_dir():
        paths = sorted({found for pattern in patterns for found in path.rglob(pattern) if found.is_file()})
        if not paths:
            raise ImportFailed(f"{path} has no file named {' or '.join(patterns)}; name the file or another folder")
        inside = path.resolve()
        for each in paths:
            if not each.resolve().is_relative_to(inside):
                raise ImportFailed(f"{each} is a symbolic link out of {path}; name the file that it points to instead")
        return [_read(each, str(each.relative_to(path))) for each in paths]
    return [_read(path)]


def without_names(sources: Sequence[SourceFile]) -> list[SourceFile]:
    """Return files in which the names of home folders are ``user``, also where a name stands by itself."""
    names = {match[1] for source in sources for match in _HOME.finditer(source.content)} - {b"user"}
    if not names:
        return list(sources)
    longest_first = sorted(map(re.escape, names), key=len, reverse=True)
    name = re.compile(rb"(?<![A-Za-z0-9])(?:" + b"|".join(longest_first) + rb")(?![A-Za-z0-9])")
    return [msgspec.structs.replace(each, content=name.sub(b"user", each.content)) for each in sources]


def most_unpacked_bytes() -> int:
    """Return the limit for a file's unpacked size, because an archive of a few KB could unpack to many GB."""
    given = os.environ.get(_VARIABLE, "4096")
    if not given.isdecimal():
        raise ImportFailed(f"the environment variable {_VARIABLE} is {given!r}; set it to a whole number of MB")
    return int(given) << 20


def too_large(name: str) -> ImportFailed:
    return ImportFailed(
        f"{name} unpacks to more than {most_unpacked_bytes() >> 20} MB; if you trust its author, set the "
        f"environment variable {_VARIABLE} to a higher limit"
    )


def _gunzipped(name: str, content: bytes) -> bytes:
    most = most_unpacked_bytes()
    with gzip.open(io.BytesIO(content)) as file:
        unpacked = file.read(most + 1)
    if len(unpacked) > most:
        raise too_large(name)
    return unpacked


def _read(path: Path, location: str = "") -> SourceFile:
    try:
        if path.exists() and not path.is_file():
            raise ImportFailed(f"{path} is neither a file nor a folder; name one")
        content = path.read_bytes()
    except OSError as error:
        raise ImportFailed(f"cannot read {path}: {error.strerror or error}; name a readable file") from error
    parent = path.resolve().parent
    folder = next((name for name in reversed(parent.parts[1:]) if name not in _COMMON_FOLDERS), parent.name)
    sha256 = hashlib.sha256(content).hexdigest()
    return SourceFile(name=path.name, folder=folder, content=content, sha256=sha256, location=location)


def decode_json(source: SourceFile) -> Any:
    """Decode a file that is one JSON document; a repeated key with different values in one object is an error."""
    try:
        return _loaded(source.content)
    except UnicodeDecodeError as error:
        raise ImportFailed(f"{source.label} is not UTF-8 text (byte {error.start}); expected JSON") from error
    except (ValueError, RecursionError) as error:
        line, first = _second_value(error), source.content.removeprefix(codecs.BOM_UTF8).lstrip()[:1]
        if line is None and first and first not in b'{["':
            raise ImportFailed(f"{source.label} is not JSON, but this format is; was another format meant?") from error
        if line is None:
            raise ImportFailed(f"{source.label} is not a whole JSON document: {unread(error)}") from error
        raise ImportFailed(
            f"{source.label}, line {line}: a second JSON value begins. This format is one JSON document, not JSON "
            "Lines; import the file that its program wrote, or put the lines into one document (docs/imports.md)"
        ) from error


def unread(error: Exception) -> str:
    """Return why JSON could not be read, and the next step."""
    if isinstance(error, RecursionError):
        return "objects or lists are nested too deeply; leave it out"
    return f"{error}; get the file again"


def _second_value(error: Exception) -> int | None:
    """Return the line on which a second JSON value begins, or None if the error has another cause."""
    has_more = isinstance(error, json.JSONDecodeError) and error.msg == "Extra data" and error.lineno > 1
    return error.lineno if has_more and isinstance(error, json.JSONDecodeError) else None


def _loaded(content: bytes) -> Any:
    """Decode JSON, replacing half a surrogate pair, which is not valid text."""
    value = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_without_repeats)
    return with_valid_text(value) if b"\\ud" in content.lower() else value


def _without_repeats(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and found[key] != value:
            raise ValueError(f"key {key!r} occurs twice with different values")
        found[key] = value
    return found


def decode_json_or_lines(source: SourceFile) -> list[Any]:
    """Return the items of a JSON list, a single value as one item, or the lines of JSON Lines."""
    try:
        value = None if source.name.endswith((".jsonl", ".ndjson")) else _loaded(source.content)
    except (ValueError, RecursionError) as error:
        value = None if _second_value(error) else decode_json(source)
    if value is not None:
        return value if isinstance(value, list) else [value]
    lines = [(number, line) for number, line in enumerate(source.content.splitlines(), 1) if line.strip()]
    return [_line(source, number, line) for number, line in lines]


def session_lines(source: SourceFile, remarks: Counter[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield each object of a session's file with its line. Several may be on a line, and the last may be torn.

    Raises:
        ImportFailed: Another line is not JSON, or no object.
    """
    lines = source.content.splitlines()
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "replace").lstrip("\ufeff\0").strip()
        try:
            values = [json.loads(text)] if text else []
        except (ValueError, RecursionError):
            values, rest = list[Any](), text
            while rest:
                try:
                    value, end = _DECODER.raw_decode(rest)
                except (ValueError, RecursionError) as error:
                    if number < len(lines):
                        raise ImportFailed(f"{source.label}, line {number} is not JSON: {unread(error)}") from error
                    remarks[f"{source.label}, line {number}: the last line is incomplete and left out"] += 1
                    break
                values, rest = [*values, value], rest[end:].lstrip()
        for value in values:
            if not isinstance(value, dict):
                raise ImportFailed(f"{source.label}, line {number} is not an object, so it is not a line of a session")
            yield number, with_valid_text(value) if "\\ud" in text.lower() else value


def _line(source: SourceFile, number: int, line: bytes) -> Any:
    try:
        return _loaded(line)
    except (ValueError, RecursionError) as error:
        raise ImportFailed(f"{source.label}, line {number} is not JSON: {unread(error)}") from error


def csv_rows(source: SourceFile, name: Callable[[str], str] = str.lower) -> tuple[list[dict[str, str]], list[str]]:
    """Return the rows of a CSV file by column name, and the column names, as ``name`` converts those of the header.

    Cells are separated by what separates most of the header: commas, semicolons or tabs.
    """
    previous = csv.field_size_limit(CSV_FIELD_LIMIT)
    try:
        text = source.content.decode("utf-8-sig")
        separator = max(",;\t", key=text.partition("\n")[0].count)
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    except (UnicodeDecodeError, csv.Error) as error:
        raise ImportFailed(f"{source.label} is not CSV in UTF-8: {error}; get the file again") from error
    finally:
        csv.field_size_limit(previous)
    columns = [name(column.strip()) for column in lines[0]] if lines else []
    lines = lines[1:]
    if repeated := next((column for column in columns if columns.count(column) > 1), None):
        raise ImportFailed(f"{source.label} has two columns {repeated!r}; rename one")
    broken = next((number for number, line in enumerate(lines, 1) if line and len(line) != len(columns)), None)
    if broken is not None:
        raise ImportFailed(f"{source.label}, row {broken}: the number of cells differs from the header's")
    return [dict(zip(columns, line, strict=True)) for line in lines if line], columns


def read_rewards(path: Path) -> Mapping[str, float]:
    """Return the rewards in a JSON object, by the name or the path of a file."""
    given = decode_json(_read(path))
    if not isinstance(given, dict):
        raise ImportFailed(f"{path}: expected an object that has the reward of each file by its name")
    for name, value in given.items():
        if not isinstance(value, int | float) or not 0 <= value <= 1:
            raise ImportFailed(f"{path}: the reward of {name} is {value!r}, expected a number from 0 to 1")
    return {name: float(value) for name, value in given.items()}


def read_instances(path: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return the rows of a SWE-bench Pro instance file (JSON Lines, optionally gzipped) by instance id."""
    source = _read(path)
    name = path.name.removesuffix(".gz")
    if path.suffix == ".gz":
        try:
            source = msgspec.structs.replace(source, name=name, content=_gunzipped(path.name, source.content))
        except (OSError, EOFError, zlib.error) as error:
            raise ImportFailed(f"{path} is not a whole gzip file: {error}; get the file again") from error
    rows = decode_json_or_lines(source)
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not isinstance(row.get("instance_id"), str):
            raise ImportFailed(f"{path}, row {number} has no instance_id; expected a file of SWE-bench Pro instances")
    return {row["instance_id"]: row for row in rows}


def rewards_by_location(rewards: Mapping[str, float], sources: Sequence[SourceFile]) -> Mapping[str, float]:
    """Return the rewards by the label of a file, with the line if one is given."""
    labels = {source.label for source in sources}
    found: dict[str, float] = {}
    for given, reward in rewards.items():
        stem, colon, line = given.rpartition(":")
        has_line = line.isdecimal() and any(stem in (source.label, source.name) for source in sources)
        name, suffix = (stem, colon + line) if has_line else (given, "")
        meant = [name] if name in labels else sorted(source.label for source in sources if source.name == name)
        if not meant:
            raise ImportFailed(f"--rewards names {given}, which is not a file of this import; correct or remove it")
        if len(meant) > 1:
            raise ImportFailed(f"--rewards names {given}, which may be {' or '.join(meant)}; give the path")
        location = meant[0] + suffix
        if location in found:
            raise ImportFailed(f"--rewards names {location} twice, by its name and by its path; remove one")
        found[location] = reward
    return found


def check_used(rewards: Mapping[str, float], sources: Sequence[SourceFile], found: Sequence[ParsedFile]) -> None:
    """Check that each reward belongs to a trajectory that was found or to a file with skipped trajectories."""
    locations = {trial.location for part in found for trial in part.trials}
    lacking = [source.label for source, part in zip(sources, found, strict=True) if part.skipped]
    for location in rewards:
        is_skipped = any(location == label or location.startswith(f"{label}:") for label in lacking)
        if location not in locations and not is_skipped:
            raise ImportFailed(f"--rewards names {location}, but no trajectory begins there; correct or remove it")
