"""Read one published instance as a typed value, name its image, and build its task."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Checkpoint, Task
from lhaw_record.runners.base.text.fields import as_text, literal_or_json, shown
from lhaw_record.runners.environments.benchmarks.published import PublishedError, check_encodable, read_records

BENCHMARK = "swebench_pro"
_PROMPT_COLUMNS = ("problem_statement", "requirements", "interface")


class Instance(msgspec.Struct, frozen=True, kw_only=True):
    """One instance. Test names are unique and in the order of the source.

    ``quoted_columns`` are the columns whose cell was a JSON string within a string. The fields hold the decoded
    content. ``before_tests`` is the command that the source runs before the tests, and ``test_files`` are the files
    that it then tests. Both are None if the source does not have the columns. ``patch`` is the published solution and
    must never be shown to an agent.
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
    """Return the instances of several files in order. An instance that occurs twice must be the same in both places."""
    found: dict[str, Instance] = {}
    for path in paths:
        for place, record in read_records(path):
            instance = instance_of(record, place)
            if found.setdefault(instance.instance_id, instance) != instance:
                raise PublishedError(f"{place}: {instance.instance_id} occurs twice with different content")
    return list(found.values())


def instance_of(record: Mapping[str, Any], place: str) -> Instance:
    """Convert a record to an instance. Column names may have any case."""
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
    """Return a text cell. A null cell gives an empty string, and a missing column gives None."""
    value = cells.get(name, "") or ""
    if not isinstance(value, str):
        raise ValueError(f"{name} is {shown(value)}, expected a text")  # noqa: TRY004 - one error class
    return value if name in cells else None


def _names_if_there(cells: Mapping[str, Any], name: str) -> tuple[str, ...] | None:
    return _names(cells[name], name) if name in cells else None


def _unquoted(value: Any) -> str:
    """Return a cell as text. If the whole text is one JSON string, return the content of that string."""
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
    """Return the test names in a cell: a list, or a text that contains a list in JSON or as a Python literal."""
    found = literal_or_json([] if value in (None, "") else value, column)
    if not isinstance(found, list | tuple) or not all(isinstance(name, str) for name in found):
        raise ValueError(f"{column} is {shown(value)}, expected a list of names of tests")
    return tuple(dict.fromkeys(found))


PUBLISHED_USER = "jefzda"
PUBLISHED_TEMPLATE = "{user}/sweap-images:{tag}"
_TAG_CHARACTERS = 128  # what a registry allows; published tags are cut there
_ID_PREFIX = "instance_"
_NO_VERSION = "-vnan"
# The one repository whose images were uploaded under a shorter name, and its one image that was not.
_SHORTENED = {"element-hq/element-web": "element"}
_EXCEPTION = "instance_element-hq__element-web-ec0f940ef0e8e3b61078f145f34dc40d1938e6c5-vnan"


def image_name(instance: Instance, template: str, user: str) -> str:
    """Return the name of an instance's image."""
    return template.replace("{user}", user).replace("{tag}", instance.image or published_tag(instance))


def published_tag(instance: Instance) -> str:
    """Return the tag that the evaluator derives from the repository and the id, for instances without a tag column."""
    owner, _, repository = instance.repo.lower().partition("/")
    rest = instance.instance_id.replace(_ID_PREFIX, "")
    if instance.instance_id != _EXCEPTION:
        repository = _SHORTENED.get(f"{owner}/{repository}", repository)
        rest = rest.removesuffix(_NO_VERSION)
    return f"{owner}.{repository}-{rest}"[:_TAG_CHARACTERS]


VERSION = "1"


def prompt_of(instance: Instance) -> str:
    """Return the prompt in the format of the benchmark's scaffold: three parts and two headings, some perhaps empty."""
    return (
        f"{instance.problem_statement}\n\n"
        f"Requirements:\n{instance.requirements}\n\n"
        f"New interfaces introduced:\n{instance.interface}"
    )


def task_of(instance: Instance) -> Task:
    """Return the task of an instance. Its terminal state is its fail-to-pass tests ordered by name (docs/metrics.md 1).

    Success also requires the pass-to-pass tests. They are not checkpoints, so the environment digest covers them: a
    different list makes a different task.
    """
    return Task(
        benchmark=BENCHMARK,
        benchmark_version=VERSION,
        task_id=instance.instance_id,
        prompt=prompt_of(instance),
        checkpoints=tuple(
            Checkpoint(checkpoint_id=f"c{number}", label=name)
            for number, name in enumerate(sorted(instance.fail_to_pass), start=1)
        ),
        environment_digest=digest(
            {
                "repo": instance.repo,
                "base_commit": instance.base_commit,
                "image": instance.image,
                "pass_to_pass": sorted(instance.pass_to_pass),
            }
        ),
        domain=instance.repo,
    )
