"""The ``[benchmark]`` table of an experiment file, as this benchmark reads it."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from runners.benchmarks.refusals import decoded
from runners.benchmarks.swebench_pro.images import PUBLISHED_TEMPLATE, PUBLISHED_USER
from runners.errors import ExperimentError


class Setup(msgspec.Struct, frozen=True, kw_only=True):
    """How instances are run: the keys that are not files.

    ``history`` is what the agent's repository holds: ``past``, nothing that the base commit does not come from, or
    ``published``, what the image has, the solution's commit included. ``test_memory_mb`` None stands for the
    experiment's limit.
    """

    image: str = PUBLISHED_TEMPLATE
    user: str = PUBLISHED_USER
    work_dir: str = "/app"
    history: Literal["past", "published"] = "past"
    test_seconds: float = 3600.0
    test_memory_mb: int | None = None


class SwebenchProOptions(Setup, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]`` that are this benchmark's own; paths are relative to the experiment file."""

    instances: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    scripts: str


def read_options(options: dict[str, Any], base: Path) -> SwebenchProOptions:
    """Return the options of an experiment file, with absolute paths.

    Args:
        options: The keys of ``[benchmark]`` that are the benchmark's own.
        base: The folder of the experiment file.

    Raises:
        ExperimentError: A key is unknown, missing or senseless, or the folder of scripts is not there.
    """
    given = {**options, "instances": [options["instances"]]} if isinstance(options.get("instances"), str) else options
    chosen = decoded(given, SwebenchProOptions, "docs/benchmarks/swebench-pro.md")
    _check(chosen)
    folder = (base / chosen.scripts).resolve()
    if not folder.is_dir():
        raise ExperimentError(f"key 'benchmark.scripts': {folder} is no folder; name the published run_scripts")
    instances = tuple(str((base / path).resolve()) for path in chosen.instances)
    return msgspec.structs.replace(chosen, instances=instances, scripts=str(folder))


def _check(chosen: SwebenchProOptions) -> None:
    if "{tag}" not in chosen.image:
        raise ExperimentError(f"key 'benchmark.image': {chosen.image!r} lacks {{tag}}, which differs by instance")
    if chosen.test_seconds <= 0:
        raise ExperimentError(f"key 'benchmark.test_seconds': {chosen.test_seconds} is no time to run tests in")
    if chosen.test_memory_mb is not None and chosen.test_memory_mb < 1:
        raise ExperimentError(f"key 'benchmark.test_memory_mb': {chosen.test_memory_mb} is no size")
    if not chosen.work_dir.startswith("/"):
        raise ExperimentError(f"key 'benchmark.work_dir': {chosen.work_dir!r} is not absolute")
