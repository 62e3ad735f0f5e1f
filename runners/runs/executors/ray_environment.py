"""The Python packages of workers: those of their machine if they equal the driver's, otherwise copies of the driver's.

Ray installs the copies: it makes a virtual environment on each machine and keeps it for later runs
(https://docs.ray.io/en/latest/ray-core/handling-dependencies.html). Projects that are installed from a folder or a file
go there as wheels, everything else is taken from the machine's package index in the driver's versions.
"""

import asyncio
import hashlib
import json
import shutil
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import anyio

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.host.packages import build_wheel
from lhaw_record.runners.environments.benchmarks import BENCHMARKS, ENTRY_POINTS

_OURS = "lhaw-record"
_UNPACKED = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"
"""Where a machine has the files of a working directory while Ray installs packages."""
_PACKAGES = Path(__file__).resolve().parents[3]
_PROBE_S = 120.0


async def has_them_everywhere(ray: Any, benchmark: str) -> bool:
    """Return whether each machine of the cluster that could hold a worker has this process's packages.

    A machine that does not answer lacks them, and so does a cluster without machines, as one that grows on demand.
    """
    nodes = [node["NodeID"] for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    there = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
    probe = ray.remote(num_cpus=0, max_retries=0)(packages_digest)
    asked = [probe.options(scheduling_strategy=there(node, soft=False)).remote(benchmark) for node in nodes]
    here = packages_digest(benchmark)
    with anyio.move_on_after(_PROBE_S):
        answers = await asyncio.gather(*asked, return_exceptions=True)  # one is an error if this module is not there
        return bool(answers) and all(answer == here for answer in answers)
    return False


def packages_digest(benchmark: str) -> str:
    """Return the digest of what workers run: our modules, and the versions of all packages that they need."""
    files = [path for name in ("recorder", "runners") for path in sorted((_PACKAGES / name).rglob("*.py"))]
    bundled = (_PACKAGES / "recorder" / "data", _PACKAGES / "recorder" / "examples")  # in a wheel only
    modules = [
        [str(path.relative_to(_PACKAGES)), hashlib.sha256(path.read_bytes()).hexdigest()]
        for path in files
        if not any(path.is_relative_to(folder) for folder in bundled)
    ]
    versions = sorted(f"{each.name}=={each.version}" for each in _needed(benchmark))
    return digest([modules, versions])


def shipped_packages(benchmark: str, folder: Path) -> dict[str, Any]:
    """Return the runtime environment in which Ray gives workers the packages of this process."""
    requirements = [_requirement(each, folder) for each in _needed(benchmark)]
    return {
        "working_dir": str(folder),
        "pip": {
            "packages": sorted(requirements),
            "pip_install_options": ["--disable-pip-version-check", "--no-deps", "--quiet"],
        },
        "config": {"eager_install": False},  # only where a worker starts
    }


def _needed(benchmark: str) -> Iterable[Distribution]:
    """Return our distribution and that of an installed benchmark, with all that they need, but for Ray."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    roots = [] if benchmark in BENCHMARKS else [each.dist for each in entry_points(group=ENTRY_POINTS, name=benchmark)]
    waiting = [(_OURS, frozenset({""})), *((each.name, frozenset({""})) for each in roots if each)]
    extras: dict[str, frozenset[str]] = {}
    found: dict[str, Distribution] = {}
    while waiting:
        name, wanted = waiting.pop()
        name = canonicalize_name(name)
        if name == "ray" or wanted <= extras.get(name, frozenset()):
            continue
        try:
            found[name] = distribution(name)
        except PackageNotFoundError:
            continue  # the package works without it here, and will there
        extras[name] = wanted | extras.get(name, frozenset())
        for text in found[name].requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(needed.marker.evaluate({"extra": extra}) for extra in extras[name]):
                waiting.append((needed.name, frozenset({"", *needed.extras})))
    return found.values()


def _requirement(package: Distribution, folder: Path) -> str:
    """Return what pip installs a package by, after putting its wheel into a folder if the package is from no index.

    Where it comes from is in direct_url.json (https://packaging.python.org/en/latest/specifications/direct-url/).
    """
    origin = json.loads(package.read_text("direct_url.json") or "{}")
    if not origin:
        return f"{package.name}=={package.version}"
    url, below = str(origin["url"]), origin.get("subdirectory")
    fragment = f"#subdirectory={quote(below)}" if below else ""
    if "vcs_info" in origin:
        return f"{package.name} @ {origin['vcs_info']['vcs']}+{url}@{origin['vcs_info']['commit_id']}{fragment}"
    if not url.startswith("file:"):
        return f"{package.name} @ {url}{fragment}"
    place = Path(unquote(urlsplit(url).path))
    if not place.exists():
        raise ExperimentError(
            f"{package.name} {package.version} was installed from {place}, which is gone, so it cannot be sent to "
            "machines of the cluster that lack it; install it on every machine, or here again"
        )
    if below and place.is_file():
        raise ExperimentError(
            f"{package.name} {package.version} was installed from the folder {below} of the archive {place}, which "
            "cannot be sent to machines of the cluster that lack it; install it from a folder, or on every machine"
        )
    file = build_wheel(place / (below or ""), folder) if place.is_dir() else Path(shutil.copy(place, folder))
    content = folder / hashlib.sha256(file.read_bytes()).hexdigest()[:12]  # Ray knows an environment by these texts
    content.mkdir()
    return f"{_UNPACKED}/{content.name}/{file.rename(content / file.name).name}"
