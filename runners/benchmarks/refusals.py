"""What benchmarks on foreign ground refuse in the same words: wrong options, variants of the environment."""

from typing import Any, TypeVar

import msgspec

from recorder.values import Variant
from runners.benchmarks.protocol import EnvironmentSettings
from runners.errors import ExperimentError, SandboxBoundaryError
from runners.key_problems import key_problem
from runners.sandboxes.docker.provider import DockerSandboxProvider

Options = TypeVar("Options", bound=msgspec.Struct)


def decoded(options: dict[str, Any], kind: type[Options], page: str) -> Options:
    """Return a benchmark's own keys of the ``[benchmark]`` table as its struct.

    Args:
        options: The keys as written.
        kind: The struct, which forbids unknown fields.
        page: The page of the docs that explains the keys.

    Raises:
        ExperimentError: A key is unknown, missing or of the wrong type.
    """
    try:
        return msgspec.convert(options, kind)
    except msgspec.ValidationError as error:
        raise ExperimentError(key_problem(error, kind, options, page, under="benchmark")) from error


def docker_of(settings: EnvironmentSettings, benchmark: str) -> DockerSandboxProvider:
    """Return the engine for tasks that have images of their own.

    Raises:
        SandboxBoundaryError: The sandbox is another one; no retry is owed.
    """
    if not isinstance(settings.sandbox, DockerSandboxProvider):
        raise SandboxBoundaryError(
            f"tasks of {benchmark} have images of their own, which the sandbox {settings.sandbox.kind} cannot run; set "
            'sandbox.kind = "docker"',
            kind="needs_docker",
            is_retry_owed=False,
        )
    return settings.sandbox


def refuse_changed_environment(variant: Variant | None, benchmark: str) -> None:
    """Refuse a variant that changes the environment, where environments are somebody else's.

    Raises:
        SandboxBoundaryError: It does; no retry is owed.
    """
    if variant is not None and variant.environment_change is not None:
        raise SandboxBoundaryError(
            f"variant {variant.variant_id} changes its environment ({variant.environment_change.kind}), which "
            f"{benchmark} cannot; leave it out with the key 'variants'",
            kind="unknown_change",
            is_retry_owed=False,
        )
