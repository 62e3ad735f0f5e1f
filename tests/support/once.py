"""What is dear to make and only read afterwards: the worker that needs it first makes it, the others wait for it."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """Return a folder that is made once in a run of the tests, however many workers there are.

    Args:
        factory: The fixture ``tmp_path_factory``; workers have folders of their own in a common one.
        name: The folder's.
        make: Fills the folder.
    """
    own = factory.getbasetemp()
    common = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, finished = common / name, common / f"{name}.finished"
    with (common / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not finished.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            make(folder)
            finished.touch()
    return folder
