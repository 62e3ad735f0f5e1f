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
    work_dir: Annotated[str, msgspec.Meta(pattern="^/")] = "/app"
    history: Literal["past", "published"] = "past"
    test_seconds: Annotated[float, msgspec.Meta(gt=0)] = 3600.0
    test_memory_mb: Annotated[int, msgspec.Meta(ge=1)] | None = None
    test_network: Annotated[str, msgspec.Meta(min_length=1)] = "bridge"


class SwebenchProOptions(InstanceSetup, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]`` that belong to swebench_pro. Paths are relative to the experiment file."""

    instances: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    scripts: str


def read_options(options: dict[str, Any], base: Path) -> SwebenchProOptions:
    """Return the options of an experiment file, with absolute paths."""
    given = {**options, "instances": [options["instances"]]} if isinstance(options.get("instances"), str) else options
    chosen = decoded(given, SwebenchProOptions, "docs/benchmarks/swebench-pro.md")
    if "{tag}" not in chosen.image:
        raise ExperimentError(f"key 'benchmark.image': {chosen.image!r} lacks {{tag}}, which differs by instance")
    folder = (base / chosen.scripts).resolve()
    if not folder.is_dir():
        raise ExperimentError(f"key 'benchmark.scripts': {folder} is not a folder; name the published run_scripts")
    instances = tuple(str((base / path).resolve()) for path in chosen.instances)
    return msgspec.structs.replace(chosen, instances=instances, scripts=str(folder))
