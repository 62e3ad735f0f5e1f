"""Source ``own``: reads a user's tasks in either form and names their benchmark."""

import re
from collections.abc import Iterator
from pathlib import Path

from lhaw_record.generators.sources.own.folders import read_folder
from lhaw_record.generators.sources.own.lines import read_lines
from lhaw_record.generators.sources.reading import Finding, error
from lhaw_record.generators.sources.task_checks import CheckedSource, LocatedTask
from lhaw_record.runners.environments.benchmarks import BENCHMARKS
from lhaw_record.runners.environments.benchmarks.swebench_pro import BENCHMARK as SWEBENCH_PRO
from lhaw_record.runners.environments.benchmarks.tac import BENCHMARK as TAC
from lhaw_record.runners.imports.formats.lhaw_dataset import BENCHMARKS as RELEASED

_LINES = (".jsonl", ".ndjson")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_TAKEN = frozenset((*BENCHMARKS, TAC, SWEBENCH_PRO))
_SIGNS = re.compile(r"[\W_]+")
_RELEASED = {_SIGNS.sub("", name.lower()): name for name in (*RELEASED.values(), *RELEASED)}


class OwnSource(CheckedSource):
    """Tasks from a folder or a JSON Lines file.

    Args:
        path: The folder or file.
        benchmark: The name of the benchmark that the tasks belong to.
    """

    def __init__(self, path: Path, benchmark: str) -> None:
        self._path = path
        self.benchmark = benchmark

    def found(self) -> Iterator[LocatedTask | Finding]:
        """Yield the tasks, folders sorted by name and lines in file order, and where they break docs/own-tasks.md."""
        if self._path.is_dir():
            yield from read_folder(self._path, self.benchmark)
        elif self._path.suffix.lower() in _LINES:
            yield from read_lines(self._path, self.benchmark)
        else:
            yield error(f"{self._path} is neither a folder nor named {' or '.join(_LINES)}; rename it")


def default_name(path: Path) -> str:
    """Return the default benchmark name: the folder's name, or the file's name without its suffix."""
    resolved = path.resolve()
    return resolved.stem if resolved.suffix.lower() in _LINES else resolved.name


def name_problem(name: str) -> str | None:
    """Return why a benchmark name is invalid, or None if it is valid."""
    if name in _TAKEN:
        return f"{name!r} is the name of another benchmark"
    released = _RELEASED.get(_SIGNS.sub("", name.lower()))
    if released is not None:
        return f"{name!r} is the name of {released} in the released dataset, whose variants would be taken for yours"
    if not _NAME.fullmatch(name):
        return f"{name!r} is no name of letters, digits, '.', '_' and '-'"
    return None
