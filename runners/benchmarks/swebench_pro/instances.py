"""One published instance as a typed value: texts, and tests as names, in whichever of three ways they are written."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from runners.benchmarks.published import PublishedError, check_encodable, read_records
from runners.imports.fields import as_text, literal_or_json, shown

BENCHMARK = "swebench_pro"
_PROMPT_COLUMNS = ("problem_statement", "requirements", "interface")


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance. Tests are names without repetition, in the order of the source.

    ``quoted_columns`` are those whose cell was a JSON string in a string; they hold what it says.
    ``before_tests`` is what the source runs before the tests, and ``test_files`` what it runs of them; both None where
    the source leaves the columns out. ``patch`` is the published solution; never show it to an agent.
    """

    instance_id: str
    repo: str
    base_commit: str
    problem_statement: str
    requirements: str
    interface: str
    fail_to_pass: tuple[str, ...]
    pass_to_pass: tuple[str, ...]
    language: str | None = None
    image: str | None = None
    before_tests: str | None = None
    test_files: tuple[str, ...] | None = None
    patch: str | None = None
    quoted_columns: tuple[str, ...] = ()


def read_instances(paths: Sequence[Path]) -> list[Instance]:
    """Return the instances of several files in their order; one that two files have must be the same in both.

    Raises:
        PublishedError: A file cannot be used, or two records of one instance differ.
    """
    found: dict[str, Instance] = {}
    for path in paths:
        for place, record in read_records(path):
            instance = instance_of(record, place)
            if found.setdefault(instance.instance_id, instance) != instance:
                raise PublishedError(f"{place}: {instance.instance_id} was there before with other content")
    return list(found.values())


def instance_of(record: Mapping[str, Any], place: str) -> Instance:
    """Return a record as an instance; names of columns in any case.

    Args:
        record: One record of a published file.
        place: Where it stands, for messages.

    Raises:
        PublishedError: A column is missing, or a cell is not what it should be.
    """
    cells = {str(key).strip().lower(): value for key, value in record.items()}
    try:
        check_encodable(cells)
        texts = {name: _unquoted(_cell(cells, name)) for name in _PROMPT_COLUMNS}
        return Instance(
            instance_id=as_text(_cell(cells, "instance_id"), "instance_id"),
            repo=as_text(_cell(cells, "repo"), "repo"),
            base_commit=as_text(_cell(cells, "base_commit"), "base_commit"),
            problem_statement=as_text(texts["problem_statement"], "problem_statement"),
            requirements=texts["requirements"],
            interface=texts["interface"],
            fail_to_pass=_names(_cell(cells, "fail_to_pass"), "fail_to_pass"),
            pass_to_pass=_names(_cell(cells, "pass_to_pass"), "pass_to_pass"),
            language=_text_if_there(cells, "repo_language") or None,
            image=_text_if_there(cells, "dockerhub_tag") or None,
            before_tests=_text_if_there(cells, "before_repo_set_cmd"),
            test_files=_names_if_there(cells, "selected_test_files_to_run"),
            patch=_text_if_there(cells, "patch") or None,
            quoted_columns=tuple(name for name in _PROMPT_COLUMNS if texts[name] != (cells[name] or "")),
        )
    except ValueError as error:
        raise PublishedError(f"{place}: {error}") from error


def _cell(cells: Mapping[str, Any], name: str) -> Any:
    if name not in cells:
        raise ValueError(f"no column {name}; found: {', '.join(cells)}; name a file of whole published instances")
    return cells[name]


def _text_if_there(cells: Mapping[str, Any], name: str) -> str | None:
    """A text as it is, empty for null; None without the column."""
    value = cells.get(name, "") or ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value)}, expected a text")  # noqa: TRY004 - one error class
    return value if name in cells else None


def _names_if_there(cells: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    return _names(cells[name], name) if name in cells else None


def _unquoted(value: Any) -> str:
    """A text; where it is a JSON string from the first to the last character, what that string says."""
    text = "" if value is None else value
    if not isinstance(text, str):
        raise ValueError(f"{shown(value)} where a text is expected")  # noqa: TRY004 - one error class
    stripped = text.strip()
    if len(stripped) > 1 and stripped.startswith('"') and stripped.endswith('"'):
        try:
            said = json.loads(stripped)
        except ValueError:
            return text
        return said if isinstance(said, str) else text
    return text


def _names(value: Any, column: str) -> tuple[str, ...]:
    """The tests that a cell lists: a list, or JSON or a Python literal of one in a text."""
    found = literal_or_json([] if value in (None, "") else value, column)
    if not isinstance(found, list | tuple) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{column} is {shown(value)}, expected a list of names of tests")
    return tuple(dict.fromkeys(found))
