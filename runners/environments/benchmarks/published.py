"""Read files of benchmarks: text, tables in TOML, and records in JSON, CSV or Parquet. Errors name the place."""

import csv
import gzip
import io
import json
import tomllib
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import key_problem

Table = TypeVar("Table", bound=msgspec.Struct)

CSV_FIELD_LIMIT = 1 << 30  # trajectories reach 741,493 characters; the csv module's own limit is 131,072
RECORD_SUFFIXES = (".jsonl", ".ndjson", ".json", ".csv", ".parquet")


class PublishedError(ExperimentError):
    """A published file or record cannot be used."""


def read_text(path: Path) -> str:
    """Return the text of a file unchanged, including line endings and a byte order mark."""
    content = _read_bytes(path)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise PublishedError(
            f"{path} is not UTF-8 text (byte {error.start} is 0x{content[error.start]:02x}); save it as UTF-8"
        ) from error


def decoded_file(path: Path, kind: type[Table]) -> Table:
    """Return the content of a TOML file."""
    try:
        value = tomllib.loads(read_text(path).removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise PublishedError(f"{path} is not TOML: {error}; correct it") from error
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise PublishedError(f"{path}: {key_problem(error, kind, value)}") from error


def read_records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every record of a file with its place, such as ``path, line 3``. ``.gz`` files are decompressed."""
    is_empty = True
    for placed in _records(path):
        is_empty = False
        yield placed
    if is_empty:
        raise PublishedError(f"{path} has no record; get the file again")


def _records(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix not in RECORD_SUFFIXES:
        raise PublishedError(
            f"{path} is of an unknown kind; its name must end in {', '.join(RECORD_SUFFIXES)} (or .gz)"
        )
    content = _read_bytes(path)
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (OSError, EOFError, zlib.error) as error:
            raise PublishedError(f"{path} is not a complete gzip file: {error}; get the file again") from error
    if suffix == ".parquet":
        yield from _parquet_records(str(path), content)
        return
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PublishedError(f"{path} is not UTF-8 text (byte {error.start}); get the file again") from error
    read = {".csv": _csv_records, ".json": _json_records}.get(suffix, _json_lines)
    yield from read(str(path), text)


def check_encodable(cells: Mapping[str, Any]) -> None:
    """Check that UTF-8 can encode a record. JSON may escape half of a surrogate pair, which UTF-8 cannot encode."""
    for name, value in cells.items():
        try:
            canonical_json(value)
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} has half of a surrogate pair, which no text can have; fix the record") from error


def _read_bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PublishedError(f"cannot read {path}: {error.strerror or error}; name a readable file") from error


def _json_lines(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if line.strip():
            place = f"{name}, line {number}"
            yield place, _record(place, _json(place, line))


def _json_records(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    value = _json(name, text) if text.strip() else []
    records = value if isinstance(value, list) else [value]
    for number, record in enumerate(records, start=1):
        place = f"{name}, record {number}"
        yield place, _record(place, record)


def _json(place: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise PublishedError(f"{place} is not JSON: {error}; get the file again") from error


def _record(place: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise PublishedError(f"{place}: expected an object with the columns of one task, found {type(value).__name__}")
    return value


def _csv_records(name: str, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    previous = csv.field_size_limit(CSV_FIELD_LIMIT)
    try:
        for number, record in enumerate(csv.DictReader(io.StringIO(text, newline=""), strict=True), start=1):
            if None in record or None in record.values():
                raise PublishedError(f"{name}, row {number}: the number of cells differs from the header's")
            yield f"{name}, row {number}", dict(record)
    except csv.Error as error:
        raise PublishedError(f"{name}: broken CSV: {error}; get the file again") from error
    finally:
        csv.field_size_limit(previous)


def _parquet_records(name: str, content: bytes) -> Iterator[tuple[str, dict[str, Any]]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        rows = pq.read_table(pa.BufferReader(content)).to_pylist()
    except pa.ArrowException as error:
        raise PublishedError(f"{name} is not a Parquet file: {error}; get the file again") from error
    for number, record in enumerate(rows, start=1):
        yield f"{name}, row {number}", record
