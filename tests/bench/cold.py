"""Programs measured in processes of their own, with the store's files in the page cache or dropped from it."""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tests.bench.neighbours import Neighbours

ROOT = Path(__file__).parents[2]
PROGRAM = (sys.executable, "-m", "lhaw_record")
TIMED = Path(__file__).with_name("timed.py")


class ProgramFailed(Exception):
    """A program that was to be measured failed; what it took means nothing."""


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """What one program took from its start to its exit.

    ``peak_bytes`` is that of its largest process; ``others_cpus`` is how many CPUs everything else on the machine used
    meanwhile, None where that cannot be told.
    """

    wall_s: float
    cpu_s: float
    peak_bytes: int
    others_cpus: float | None = None


def run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> tuple[Taken, str]:
    """Run a program; what it took, and what it printed. It may keep its bytecode, as an installed program does.

    Args:
        command: The program and its arguments.
        environment: Its environment; default this one.

    Raises:
        ProgramFailed: It failed.
    """
    with tempfile.TemporaryDirectory(prefix="bench-") as directory:
        result = Path(directory) / "taken.json"
        neighbours = Neighbours()
        timed = [sys.executable, str(TIMED), str(result), *command]
        inherited = os.environ if environment is None else environment
        own = {name: value for name, value in inherited.items() if name != "PYTHONDONTWRITEBYTECODE"}
        done = subprocess.run(timed, capture_output=True, text=True, check=False, cwd=ROOT, env=own)
        if done.returncode != 0:
            raise ProgramFailed(f"{' '.join(command[:6])} ... failed: {done.stderr[-1000:]}")
        taken = msgspec.json.decode(result.read_bytes(), type=Taken)
    return msgspec.structs.replace(taken, others_cpus=neighbours.cpus(taken.cpu_s)), done.stdout


def drop_from_cache(root: Path) -> None:
    """Have the operating system forget what it keeps of a directory's files, so that they come from the disk again.

    A disk that belongs to a virtual machine may still be in the memory of its host.
    """
    for path in root.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)  # what is not on the disk yet cannot be dropped
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def load_into_cache(root: Path) -> None:
    """Read every file of a directory once, so that what is read next comes from memory."""
    for path in root.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 22):
                    pass
