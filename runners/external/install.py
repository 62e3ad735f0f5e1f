"""Install the packages and the script of an entry into a folder that their digest names; what is there stays there."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from runners.errors import ExperimentError
from runners.external.entries import (
    INSTALLED_MARK,
    Installed,
    install_folder,
    installations,
    is_installed,
)
from runners.external.program import ProgramSpec
from runners.packages import install_npm, install_python


def install_entry(spec: ProgramSpec, entry: Path, say: Callable[[str], None]) -> None:
    """Install an entry's packages, and its script beside them.

    Args:
        spec: The entry, located.
        entry: Its file, from which the script's path starts.
        say: Told what is done.

    Raises:
        ExperimentError: An installer failed, or the script is no longer the located one.
    """
    if spec.install_digest is None:
        say(f"{spec.name}: there is nothing to install")
        return
    root, wanted = install_folder(spec), spec.install
    if is_installed(spec):
        say(f"{spec.name}: installed in {root}")
        return
    _say_what_changed(spec, entry, say)
    say(f"{spec.name}: {' '.join((*wanted.pip, *wanted.npm, wanted.script)).strip()}")
    (root / INSTALLED_MARK).unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    (root / "bin").mkdir(parents=True)
    if wanted.pip or wanted.script:
        install_python(root, wanted.pip, is_new=True)
    if wanted.npm:
        install_npm(root, wanted.npm, runs_scripts=True)
        for program in (root / "node_modules" / ".bin").iterdir():
            (root / "bin" / program.name).symlink_to(program)
    if wanted.script:
        shutil.copy(entry.parent / wanted.script, root / "bin")
    mark = Installed(name=spec.name, entry=str(entry.resolve()), install=wanted)
    (root / INSTALLED_MARK).write_bytes(msgspec.json.encode(mark))
    if not is_installed(spec):
        raise ExperimentError(f"{entry}: its script was changed while it was installed; run the same command again")


def _say_what_changed(spec: ProgramSpec, entry: Path, say: Callable[[str], None]) -> None:
    """Tell that this is another program to the numbers than the one that was installed before."""
    before = [
        folder for folder, found in installations().items() if found is not None and found.entry == str(entry.resolve())
    ]
    if before:
        say(
            f"{spec.name}: changed since it was installed in {before[-1]}, which stays for the trials that it ran in; "
            "what is installed now is another agent, and its trials are new ones"
        )
