"""Checks that several benchmarks share: unknown options, a sandbox other than docker, and changed environments."""

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.runners.base.errors import ExperimentError, SandboxUnfit
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark, Environment, EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.docker.provider import DockerSandboxProvider
from lhaw_record.runners.experiment.decoding import key_problem

Options = TypeVar("Options", bound=msgspec.Struct)


def decoded(options: dict[str, Any], kind: type[Options], page: str) -> Options:
    """Convert a benchmark's own keys of the ``[benchmark]`` table to its options struct."""
    try:
        return msgspec.convert(options, kind)
    except msgspec.ValidationError as error:
        raise ExperimentError(key_problem(error, kind, options, page, under="benchmark")) from error


def docker_of(settings: EnvironmentSettings, benchmark: str) -> DockerSandboxProvider:
    """Return the Docker provider, for benchmarks whose tasks have their own images."""
    if not isinstance(settings.sandbox, DockerSandboxProvider):
        raise SandboxUnfit(
            f"tasks of {benchmark} have images of their own, which the sandbox {settings.sandbox.kind} cannot run; set "
            'sandbox.kind = "docker"',
            kind="needs_docker",
        )
    return settings.sandbox


def lacking_tools(benchmark: Benchmark, task: Task, environment: Environment) -> frozenset[str]:
    """Return the tools that a task needs and its environment lacks."""
    return benchmark.needed_tools(task.task_id) - {tool.name for tool in environment.tools}


def refuse_lack(lacking: Mapping[str, frozenset[str]]) -> None:
    """Reject tasks whose environments lack tools that they need, so that no agent fails for the lack of one."""
    if lines := [
        f"{task_id} needs {len(tools)} tools that its environment lacks, such as {min(tools)}; leave the task out, or "
        "add the server that has them"
        for task_id, tools in lacking.items()
        if tools
    ]:
        raise SandboxUnfit("\n  ".join(lines), kind="lacks_tools")


def refuse_changed_environment(variant: Variant | None, benchmark: str) -> None:
    """Reject a variant that changes the environment, for benchmarks whose environments cannot be changed."""
    if variant is not None and variant.environment_change is not None:
        raise SandboxUnfit(
            f"variant {variant.variant_id} changes its environment ({variant.environment_change.kind}), which "
            f"{benchmark} does not support; leave it out with the key 'variants'",
            kind="unknown_change",
        )
