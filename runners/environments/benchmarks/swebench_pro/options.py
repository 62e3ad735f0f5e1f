"""The keys of ``[benchmark]`` in an experiment file that belong to swebench_pro."""

from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.refusals import decoded
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import PUBLISHED_TEMPLATE, PUBLISHED_USER


class InstanceSetup(msgspec.Struct, frozen=True, kw_only=True):
    """How instances are run: the options that do not name files.

    ``history`` says what the agent's repository contains. With ``past``, it has only the base commit and its ancestors.
    With ``published``, it has everything that the image has, including the solution's commit. If ``test_memory_mb`` is
    None, the experiment's limit applies. ``test_network`` is the engine's network for the tests: some published run
    scripts install packages, and the original's have a network.
    """

    image: str = PUBLISHED_TEMPLATE
    user: str = PUBLISHED_USER
    work_dir: str = "/app"
    history: Literal["past", "published"] = "past"
    test_seconds: float = 3600.0
    test_memory_mb: int | None = None
    test_network: str = "bridge"


class SwebenchProOptions(InstanceSetup, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]`` that belong to swebench_pro. Paths are relative to the experiment file."""

    instances: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    scripts: str


def read_options(options: dict[str, Any], base: Path) -> SwebenchProOptions:
    """Return the options of an experiment file, with absolute paths."""
    given = {**options, "instances": [options["instances"]]} if isinstance(options.get("instances"), str) else options
    chosen = decoded(given, SwebenchProOptions, "docs/benchmarks/swebench-pro.md")
    _check(chosen)
    folder = (base / chosen.scripts).resolve()
    if not folder.is_dir():
        raise ExperimentError(f"key 'benchmark.scripts': {folder} is not a folder; name the published run_scripts")
    instances = tuple(str((base / path).resolve()) for path in chosen.instances)
    return msgspec.structs.replace(chosen, instances=instances, scripts=str(folder))


def _check(chosen: SwebenchProOptions) -> None:
    if "{tag}" not in chosen.image:
        raise ExperimentError(f"key 'benchmark.image': {chosen.image!r} lacks {{tag}}, which differs by instance")
    if chosen.test_seconds <= 0:
        raise ExperimentError(f"key 'benchmark.test_seconds': {chosen.test_seconds} must be greater than 0")
    if chosen.test_memory_mb is not None and chosen.test_memory_mb < 1:
        raise ExperimentError(f"key 'benchmark.test_memory_mb': {chosen.test_memory_mb} must be at least 1")
    if not chosen.test_network:
        raise ExperimentError("key 'benchmark.test_network': name a network of the engine, or none")
    if not chosen.work_dir.startswith("/"):
        raise ExperimentError(f"key 'benchmark.work_dir': {chosen.work_dir!r} is not absolute")
