"""Install the packages of an entry into a folder of its own; what is there in its pinned versions is left alone."""

import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from runners.errors import ExperimentError
from runners.external.entries import INSTALLED_MARK, install_folder, is_installed
from runners.external.program import ProgramSpec
from runners.packages import install_npm, install_python


def install_entry(spec: ProgramSpec, entry: Path, say: Callable[[str], None]) -> None:
    """Install an entry's packages, and its script beside them.

    Args:
        spec: The entry.
        entry: Its file, from which the script's path starts.
        say: Told what is done.

    Raises:
        ExperimentError: An installer failed, or the script is missing.
    """
    root, wanted = install_folder(spec), spec.install
    if is_installed(spec):
        say(f"{spec.name}: installed in {root}" if root.is_dir() else f"{spec.name}: there is nothing to install")
        return
    script = entry.parent / wanted.script if wanted.script else None
    if script is not None and not script.is_file():
        raise ExperimentError(f"{entry}: key 'install.script': there is no {script}")
    say(f"{spec.name}: {' '.join((*wanted.pip, *wanted.npm, wanted.script)).strip()}")
    (root / INSTALLED_MARK).unlink(missing_ok=True)
    shutil.rmtree(root, ignore_errors=True)
    (root / "bin").mkdir(parents=True)
    if wanted.pip or script:
        install_python(root, wanted.pip, is_new=True)
    if wanted.npm:
        install_npm(root, wanted.npm, runs_scripts=True)
        for program in (root / "node_modules" / ".bin").iterdir():
            (root / "bin" / program.name).symlink_to(program)
    if script is not None:
        shutil.copy(script, root / "bin" / script.name)
    (root / INSTALLED_MARK).write_bytes(msgspec.json.encode(wanted))
