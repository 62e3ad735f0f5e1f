"""The files that an experiment names, in one archive. Below any folder of another machine, its names lead to them."""

import io
import os
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.sharing.address import store_address
from lhaw_record.runners.agents.programs.entries import entry_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import load_experiment, read_program
from lhaw_record.runners.experiment.tables import BenchmarkSpec, Experiment, StoreSpec
from lhaw_record.runners.runs.preparation import PreparedExperiment

_MOST_BYTES = 1 << 30
"""In place of a larger file or folder, the archive has a link to its path here, which every machine must have."""


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

    def place(name: str | Path) -> Path:
        return Path(os.path.normpath(base / name))

    known = {place(path).resolve() for path in prepared.benchmark.files}
    of_options = {text for text in _texts(benchmark.options) if Path(os.path.realpath(place(text))) in known}
    names: set[str | Path] = {*prepared.benchmark.files, *of_options, *_files_of(benchmark), *_texts(prompts)}
    agents = list(load_experiment(prepared.path).agents)  # with names of programs, where the prepared ones have entries
    for index, agent in enumerate(agents):
        if isinstance(agent.program, str) and agent.program.endswith(".toml"):
            entry = entry_path(agent.program, base)
            names |= {entry, entry.parent / (read_program(entry).install.script or entry.name)}
            agents[index] = msgspec.structs.replace(agent, program=os.path.relpath(entry, base))
    named = {place(name) for name in names if os.path.lexists(place(name))}  # a bundled design is none

    def relative(text: str) -> str:
        return os.path.relpath(place(text), base) if text.startswith("/") and place(text) in named else text

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
    """Unpack an archive below a folder. Modes and links are kept."""
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        # The argument ``filter`` is missing in Python 3.11 before 3.11.4.
        files.extraction_filter = lambda member, _: member
        files.extractall(root)  # noqa: S202  the driver made it


def _files_of(benchmark: BenchmarkSpec) -> Iterator[str]:
    """Yield the names of a table's dataset or store, and of its design."""
    origin = benchmark.variants_from
    if isinstance(origin, str):
        yield origin
    elif isinstance(origin, StoreSpec) and isinstance(store_address(origin.store), Path):
        yield origin.store
    if benchmark.design:
        yield benchmark.design


def _archived(named: set[Path]) -> tuple[bytes, tuple[Path, ...]]:
    """Return the archive of some files and folders, and those that it lacks.

    Content stands under the path that links lead to. Where a name is another path, the archive has a link there.
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
    """Return the size of a file, or of all files below a folder."""
    return path.stat().st_size if path.is_file() else sum(each.lstat().st_size for each in path.rglob("*"))


def _texts(value: Any) -> Iterator[str]:
    """Yield each text in a table, but no key."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, msgspec.Struct):
        yield from _texts(msgspec.structs.asdict(value))
    elif isinstance(value, dict | list | tuple):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _texts(each)


def _mapped(value: Any, change: Callable[[str], str]) -> Any:
    """Return a table with each text, but no key, changed."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, msgspec.Struct):
        return msgspec.structs.replace(value, **_mapped(msgspec.structs.asdict(value), change))
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    return type(value)(_mapped(each, change) for each in value) if isinstance(value, list | tuple) else value
