"""The first event of every run: what it was asked to do, with which versions, on which machine."""

import importlib.metadata
import os
import platform
from collections.abc import Iterator

from recorder.canonical import digest
from recorder.events import Package, RunStarted

_RECORDED_PACKAGES = ("lhaw-record", "litellm", "mcp", "anyio", "msgspec", "duckdb", "pyarrow")


def run_started(run_id: str, config_json: str, planned_trials: int = 0, finished_before: int = 0) -> RunStarted:
    """Return the first event of a run on this machine, with this program."""
    return RunStarted(
        run_id=run_id,
        config_json=config_json,
        config_digest=digest(config_json),
        code_version=importlib.metadata.version("lhaw-record"),
        packages=tuple(_packages()),
        python_version=platform.python_version(),
        platform=platform.platform(),
        cpu_count=os.cpu_count() or 0,
        planned_trials=planned_trials,
        finished_before=finished_before,
    )


def _packages() -> Iterator[Package]:
    for name in _RECORDED_PACKAGES:
        try:
            yield Package(name=name, version=importlib.metadata.version(name))
        except importlib.metadata.PackageNotFoundError:
            continue
