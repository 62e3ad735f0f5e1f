"""What a test may need and a machine may lack: ``@needs("bubblewrap")`` marks it, and each kind has its remedy."""

import asyncio
import importlib.util
import os
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

PUBLISHED = Path(__file__).resolve().parents[3] / "shared" / "real"
"""Files of the published benchmarks, which are not ours to hand on."""
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


class Need(NamedTuple):
    """A kind of thing.

    Attributes:
        title: As in ``12 tests need ...``.
        remedy: The command that brings it.
        is_here: Tells whether this machine has it.
    """

    title: str
    remedy: str
    is_here: Callable[[], bool]


def browser_program() -> str | None:
    """Return the path of a browser, None where there is none."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def _has_bubblewrap() -> bool:
    from lhaw_record.runners.environments.sandboxes.kinds import problem_with

    return asyncio.run(problem_with("bubblewrap")) is None


def _has_namespaces() -> bool:
    from lhaw_record.runners.environments.sandboxes.kinds import problem_with

    return asyncio.run(problem_with("namespaces")) is None


def _has_docker() -> bool:
    from tests.support.docker import engine_problem

    return engine_problem() is None


def _has_compose() -> bool:
    if shutil.which("docker") is None:
        return False
    found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
    return found.returncode == 0


def _has_published_code() -> bool:
    from tests.published.sources import MCP_ATLAS, MCP_ATLAS_ROWS, SWEBENCH_PRO

    return all(source.is_here for source in (MCP_ATLAS, MCP_ATLAS_ROWS, SWEBENCH_PRO))


def _has_published_tac() -> bool:
    from tests.published.sources import TAC_FOLDER, TAC_PYTHON

    return (TAC_FOLDER / "workspaces" / "base_image" / "eval.py").is_file() and TAC_PYTHON.is_dir()


def _has_servers() -> bool:
    from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
        catalog,
        installed_version,
        servers_directory,
    )

    core = (spec for spec in catalog().servers.values() if spec.is_core)
    return all(installed_version(spec, servers_directory()) is not None for spec in core)


def _can_mount() -> bool:
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder]
        if subprocess.run(command, capture_output=True, check=False).returncode != 0:
            return False
        return subprocess.run(["umount", folder], check=False).returncode == 0


LLM_PYTHON = Path(__file__).resolve().parents[2] / ".envs" / "llm" / "bin" / "python"
"""The environment of a small language model and its server."""

HARBOR_PYTHON = Path(__file__).resolve().parents[2] / ".envs" / "harbor" / "bin" / "python"
"""The environment of Harbor's own classes."""

FORMATS_PYTHON = Path(__file__).resolve().parents[2] / ".envs" / "formats" / "bin" / "python"
"""The environment of the readers of inspect_ai and OpenTelemetry."""

BARE_RAY = Path(__file__).resolve().parents[2] / ".envs" / "ray" / "bin"
"""The programs of an environment with Ray and virtualenv alone, as a machine of somebody's cluster has."""

TRAINING_PYTHON = Path(__file__).resolve().parents[2] / ".envs" / "training" / "bin" / "python"
VERIFIERS_EVAL = TRAINING_PYTHON.parents[2] / "verifiers" / "bin" / "vf-eval"
"""The environment of Hugging Face's datasets and TRL."""

_ENGINE = 'apt-get install docker.io debootstrap && eval "$(tests/support/docker-engine start)"'
NEEDS = {
    "agents": Need("an installed agent", "make test-agents", lambda: False),
    "bubblewrap": Need("bubblewrap", "apt-get install bubblewrap", _has_bubblewrap),
    "chromium": Need("Chromium", "apt-get install chromium", lambda: browser_program() is not None),
    "compose": Need("Docker's compose plugin", "install docker-compose-plugin", _has_compose),
    "docker": Need("a Docker Engine", _ENGINE, _has_docker),
    "llm": Need("a small language model", "make test-llm", LLM_PYTHON.exists),
    "mount": Need("a user who may mount a small disk", "sudo make test", _can_mount),
    "namespaces": Need("namespaces of the kernel", "sudo make test", _has_namespaces),
    "node": Need("Node.js", "apt-get install npm", lambda: shutil.which("node") is not None),
    "process_limits": Need("control groups, or bubblewrap", "apt-get install bubblewrap", lambda: False),
    "published": Need("the published benchmarks' files", f"put them into {PUBLISHED}", PUBLISHED.is_dir),
    "formats": Need("inspect_ai's and OpenTelemetry's readers", "make test-formats", FORMATS_PYTHON.exists),
    "harbor": Need("Harbor's classes", "make test-harbor", HARBOR_PYTHON.exists),
    "published_code": Need("the published evaluators", "make test-published", _has_published_code),
    "published_tac": Need(
        "TheAgentCompany's evaluators", "make test-published, or LHAW_RECORD_TAC_REPOSITORY", _has_published_tac
    ),
    "ray": Need("Ray", "make test-ray", lambda: importlib.util.find_spec("ray") is not None),
    "bare_ray": Need("Ray in an environment of its own", "make test-ray", (BARE_RAY / "ray").exists),
    "root": Need("root", "sudo make test", lambda: os.geteuid() == 0),
    "trainers": Need("datasets and TRL", "make test-training", TRAINING_PYTHON.exists),
    "verifiers": Need("verifiers", "make test-training", VERIFIERS_EVAL.exists),
    "servers": Need("real MCP servers", "make mcp-servers", _has_servers),
}


def needs(*kinds: str) -> pytest.MarkDecorator:
    """Mark tests that are skipped where something is missing."""
    assert set(kinds) <= set(NEEDS)
    return pytest.mark.needs(*kinds)


def require(*kinds: str) -> None:
    """Skip the running test where something is missing."""
    for kind in kinds:
        if not _is_here(kind):
            skip_for(kind)


def skip_for(kind: str) -> None:
    """Skip the running test, which has found that something is missing."""
    need = NEEDS[kind]
    pytest.skip(f"{need.title}: {need.remedy}")


@cache
def _is_here(kind: str) -> bool:
    return NEEDS[kind].is_here()


def may_be_missing_in_ci(report: pytest.TestReport) -> bool:
    """Return whether a test was skipped for what CI cannot get by itself: files that are not ours to hand on."""
    return NEEDS["published"].title in report.longrepr[2]


def skips_told(reports: Iterable[pytest.TestReport]) -> list[str]:
    """Return a line for each reason for which tests were skipped.

    Args:
        reports: Of the skipped tests.
    """
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in reports)
    return [f"{n} {'test needs' if n == 1 else 'tests need'} {reason}" for reason, n in reasons.most_common()]
