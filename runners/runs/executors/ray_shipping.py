"""What travels to the workers of a Ray cluster: the files that an experiment names, and Python packages.

The files are one archive. Below any folder of another machine, their names lead to them. A machine that has other
packages than the driver gets copies: Ray makes a virtual environment on each machine and keeps it for later runs
(https://docs.ray.io/en/latest/ray-core/handling-dependencies.html). Projects that are installed from a folder or a file
go there as wheels, everything else is taken from the package index of the machine in the versions of the driver.
"""

import asyncio
import hashlib
import io
import json
import os
import shutil
import tarfile
from collections.abc import Callable, Iterable, Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import anyio
import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.sharing.address import store_address
from lhaw_record.runners.agents.programs.entries import entry_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.host.packages import build_wheel
from lhaw_record.runners.environments.benchmarks import BENCHMARKS, ENTRY_POINTS
from lhaw_record.runners.experiment.decoding import load_experiment, read_program
from lhaw_record.runners.experiment.tables import BenchmarkSpec, Experiment, StoreSpec
from lhaw_record.runners.runs.preparation import PreparedExperiment

_OURS = "lhaw-record"
_UNPACKED = "${RAY_RUNTIME_ENV_CREATE_WORKING_DIR}"
"""Where a machine has the files of a working directory while Ray installs packages."""
_PACKAGES = Path(__file__).resolve().parents[3]
_PROBE_S = 120.0
_MOST_BYTES = 1 << 30
"""In place of a larger file or folder, the archive has a link to its path here, which every machine must have."""


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
    source = Path(unquote(urlsplit(url).path))
    if not source.exists():
        raise ExperimentError(
            f"{package.name} {package.version} was installed from {source}, which is gone, so it cannot be sent to "
            "machines of the cluster that lack it; install it on every machine, or here again"
        )
    if below and source.is_file():
        raise ExperimentError(
            f"{package.name} {package.version} was installed from the folder {below} of the archive {source}, which "
            "cannot be sent to machines of the cluster that lack it; install it from a folder, or on every machine"
        )
    file = build_wheel(source / (below or ""), folder) if source.is_dir() else Path(shutil.copy(source, folder))
    content = folder / hashlib.sha256(file.read_bytes()).hexdigest()[:12]  # Ray knows an environment by these texts
    content.mkdir()
    return f"{_UNPACKED}/{content.name}/{file.rename(content / file.name).name}"


class PackedFiles(msgspec.Struct, frozen=True, kw_only=True):
    """An experiment with its files.

    Attributes:
        experiment: The experiment, with relative paths to what is in the archive, and programs as in its file.
        archive: A tar archive of the files, each under its path here.
        left_out: The files and folders that are too large for it.
    """

    experiment: Experiment
    archive: bytes
    left_out: tuple[Path, ...]


def packed(prepared: PreparedExperiment) -> PackedFiles:
    """Return an experiment with the files that its tables, its benchmark and the entries of its programs name."""
    base = prepared.path.resolve().parent
    experiment = prepared.experiment
    benchmark, prompts = experiment.benchmark, experiment.prompts

    def full_path(name: str | Path) -> Path:
        return Path(os.path.normpath(base / name))

    known = {full_path(path).resolve() for path in prepared.benchmark.files}
    of_options = {text for text in _texts(benchmark.options) if Path(os.path.realpath(full_path(text))) in known}
    names: set[str | Path] = {*prepared.benchmark.files, *of_options, *_files_of(benchmark), *_texts(prompts)}
    agents = list(load_experiment(prepared.path).agents)  # with names of programs, where the prepared ones have entries
    for index, agent in enumerate(agents):
        if isinstance(agent.program, str) and agent.program.endswith(".toml"):
            entry = entry_path(agent.program, base)
            names |= {entry, entry.parent / (read_program(entry).install.script or entry.name)}
            agents[index] = msgspec.structs.replace(agent, program=os.path.relpath(entry, base))
    named = {full_path(name) for name in names if os.path.lexists(full_path(name))}  # a bundled design is none

    def relative(text: str) -> str:
        return os.path.relpath(full_path(text), base) if text.startswith("/") and full_path(text) in named else text

    archive, left_out = _archived(named)
    return PackedFiles(
        experiment=msgspec.structs.replace(
            experiment,
            agents=tuple(agents),
            benchmark=_mapped(benchmark, relative),
            prompts=_mapped(prompts, relative),
        ),
        archive=archive,
        left_out=left_out,
    )


def unpack(archive: bytes, root: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        # The argument ``filter`` is missing in Python 3.11 before 3.11.4.
        files.extraction_filter = lambda member, _: member
        files.extractall(root)  # noqa: S202  the driver made it


def _files_of(benchmark: BenchmarkSpec) -> Iterator[str]:
    origin = benchmark.variants_from
    if isinstance(origin, str):
        yield origin
    elif isinstance(origin, StoreSpec) and isinstance(store_address(origin.store), Path):
        yield origin.store
    if benchmark.design:
        yield benchmark.design


def _archived(named: set[Path]) -> tuple[bytes, tuple[Path, ...]]:
    """Return the archive of some files and folders, and those that it lacks.

    Content is stored under the path that links lead to. Where a name is another path, the archive has a link there.
    """
    real = {path.resolve() for path in named}
    tops = {path for path in real if real.isdisjoint(path.parents)}
    content = io.BytesIO()
    try:
        left_out = tuple(sorted(path for path in tops if _size_bytes(path) > _MOST_BYTES))
        with tarfile.open(fileobj=content, mode="w") as archive:
            for path in sorted(tops.difference(left_out)):
                archive.add(path, filter=_without_owner)
            for path in left_out:
                archive.addfile(_link(path, str(path)))
            for path in sorted(named - real):
                if (tops | named).isdisjoint(path.parents):  # otherwise the link is in the archive
                    archive.addfile(_link(path, os.path.relpath(path.resolve(), path.parent)))
    except OSError as error:
        raise ExperimentError(
            f"{error.filename} cannot be read ({error.strerror}), so it cannot be sent to workers"
        ) from error
    return content.getvalue(), left_out


def _link(path: Path, target: str) -> tarfile.TarInfo:
    link = tarfile.TarInfo(str(path).lstrip("/"))
    link.type, link.linkname = tarfile.SYMTYPE, target
    return link


def _without_owner(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _size_bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() else sum(each.lstat().st_size for each in path.rglob("*"))


def _texts(value: Any) -> Iterator[str]:
    """Yield each text among the values of a table."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        yield from _texts(msgspec.structs.asdict(value))
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a table with each text among its values changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **_mapped(msgspec.structs.asdict(value), change))
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    return type(value)(_mapped(each, change) for each in value) if isinstance(value, list | tuple) else value
