"""The ``[benchmark]`` table of an experiment file, as this benchmark reads it."""

from pathlib import Path
from typing import Any

from runners.benchmarks.published import PublishedError, read_records
from runners.benchmarks.refusals import decoded
from runners.benchmarks.swebench_pro.benchmark import Setup, SwebenchProBenchmark
from runners.benchmarks.swebench_pro.instances import Instance, instance_of
from runners.benchmarks.swebench_pro.scripts import read_scripts
from runners.errors import ExperimentError
from runners.experiment import GraderSpec


class Options(Setup, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All keys; paths are relative to the experiment file."""

    instances: tuple[str, ...]
    scripts: str


def open_swebench_pro(options: dict[str, Any], base: Path, grader: GraderSpec | None = None) -> SwebenchProBenchmark:
    """Return the benchmark that an experiment file describes.

    Args:
        options: The keys of ``[benchmark]`` besides name, tasks and variants.
        base: The folder of the experiment file.
        grader: Leaves no choice: an instance's own tests grade.

    Raises:
        ExperimentError: A key is unknown, missing or senseless, a file cannot be used, or no instance can run.
    """
    del grader
    given = {**options, "instances": [options["instances"]]} if isinstance(options.get("instances"), str) else options
    chosen = decoded(given, Options, "swebench_pro", "docs/benchmarks/swebench-pro.md")
    _check(chosen)
    folder = (base / chosen.scripts).resolve()
    if not folder.is_dir():
        raise ExperimentError(f"key 'benchmark.scripts': {folder} is no folder; name the published run_scripts")
    try:
        instances = _instances([(base / path).resolve() for path in chosen.instances])
    except PublishedError as error:
        raise ExperimentError(f"key 'benchmark.instances': {error}") from error
    scripts = {each: read_scripts(folder, each) for each in instances}
    setup = Setup(**{name: getattr(chosen, name) for name in Setup.__struct_fields__})
    benchmark = SwebenchProBenchmark(tuple(instances.values()), scripts, setup)
    if not benchmark.tasks():
        first = next(iter(instances), None)
        reason = f"; {first}: {benchmark.why_not(first)}" if first else ""
        raise ExperimentError(f"[benchmark] of swebench_pro: none of {len(instances)} instances can run here{reason}")
    return benchmark


def _check(chosen: Options) -> None:
    if "{tag}" not in chosen.image:
        raise ExperimentError(f"key 'benchmark.image': {chosen.image!r} lacks {{tag}}, which differs by instance")
    if chosen.test_seconds <= 0:
        raise ExperimentError(f"key 'benchmark.test_seconds': {chosen.test_seconds} is no time to run tests in")
    if chosen.test_memory_mb is not None and chosen.test_memory_mb < 1:
        raise ExperimentError(f"key 'benchmark.test_memory_mb': {chosen.test_memory_mb} is no size")
    if not chosen.work_dir.startswith("/"):
        raise ExperimentError(f"key 'benchmark.work_dir': {chosen.work_dir!r} is not absolute")


def _instances(paths: list[Path]) -> dict[str, Instance]:
    """The instances by their id, in the order of the files; one that two files have must be the same in both."""
    found: dict[str, Instance] = {}
    for path in paths:
        for place, record in read_records(path):
            instance = instance_of(record, place)
            if found.setdefault(instance.instance_id, instance) != instance:
                raise PublishedError(f"{place}: {instance.instance_id} was there before with other content")
    return found
