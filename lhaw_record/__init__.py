"""Record what agents do with underspecified tasks, and measure it.

:func:`open` returns a store's views, tables and figures, and :func:`run` runs an experiment. The command line is
:mod:`lhaw_record.command_line`.
"""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from lhaw_record.analytics.opened import OpenStore
    from lhaw_record.analytics.views.parameters import Setting

if sys.platform == "win32":
    _REFUSAL = "lhaw-record does not run on Windows: use it in WSL or in a container"
    if Path(sys.argv[0]).stem in ("lhaw-record", "-m"):  # the program; who imports the package may go on without it
        sys.exit(_REFUSAL)
    raise ImportError(_REFUSAL)

__all__ = ["open", "run"]

_PROGRESS_LINE = re.compile(r" *\d+ s  ")
_ROOT = str(Path(__file__).resolve().parents[1])


def open(path: str | Path, parameters: "Mapping[str, Setting] | None" = None) -> "OpenStore":  # noqa: A001 - lhaw_record.open
    """Open a store in Python: ``lhaw_record.open("stores/demo").trials.df()``. See :mod:`lhaw_record.analytics.opened`.

    Args:
        path: The store's directory or shared address.
        parameters: Analysis parameters that differ from their defaults, for example ``{"k": 1}``.

    Raises:
        AnalyticsError: A parameter does not exist or does not allow the given value.
        StoreError: There is no store.
    """
    from lhaw_record.analytics.opened import OpenStore
    from lhaw_record.recorder.sharing.address import open_address, store_address

    return OpenStore(open_address(store_address(str(path))), parameters or {})


def run(experiment: str | Path, store: str | Path | None = None, arguments: Sequence[str] = ()) -> None:
    """Run an experiment in a separate process and show its progress. Finished trials are not run again.

    A notebook updates the progress in place; otherwise a line is printed every few seconds.

    Args:
        experiment: The experiment file.
        store: The store to record to. None means the default of ``lhaw-record run``.
        arguments: Further arguments for ``lhaw-record run``.

    Raises:
        RunnerError: The run failed. Its messages are printed.
    """
    where = [] if store is None else ["--store", str(store)]
    command = [sys.executable, "-m", "lhaw_record", "run", str(experiment), *where, *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [_ROOT, os.environ.get("PYTHONPATH")]))}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", env=environment
    ) as process:
        assert process.stdout is not None
        show = _notebook_line() if "ipykernel" in sys.modules else None
        for line in process.stdout:
            if show is None or not show(line):
                print(line, end="", flush=True)
    if process.returncode:
        from lhaw_record.runners.base.errors import RunnerError

        raise RunnerError(f"'run {experiment}' ended with exit code {process.returncode}; see its messages above")


def _notebook_line() -> "Callable[[str], bool]":
    """Return a function that replaces the displayed progress line, and returns False for any other line."""
    from IPython.display import display  # only where a notebook's kernel runs

    shown = None
    block: list[str] = []

    def show(line: str) -> bool:
        nonlocal shown
        if _PROGRESS_LINE.match(line):
            block[:] = [line]
        elif block and line.startswith(" "):
            block.append(line)  # a model's endpoint, below it
        else:
            block.clear()
            return False
        content = {"text/plain": "".join(block).rstrip()}
        if shown is None:  # below what was printed before, such as the plan
            shown = display(content, raw=True, display_id=True)
        else:
            shown.update(content, raw=True)
        return True

    return show
