"""Installs programs. Each installation has a folder named by a digest of its packages and script, so old ones are kept.

A changed script, or an entry with the same name in another project, gets a different folder. So an old copy is never
run by mistake.
"""

import fcntl
import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.resources import installation_folder
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.host.packages import install_npm, install_python, named_by
from lhaw_record.runners.experiment.program import InstallSpec, ProgramSpec

AGENTS_VARIABLE = "LHAW_RECORD_AGENTS"
INSTALLED_MARK = "installed.json"
SHOWN_DIGITS = 12


class InstallationMark(msgspec.Struct, frozen=True, kw_only=True):
    """The mark in an installation folder, with the entry's name and file and what the entry installs."""

    name: str
    entry: str
    install: InstallSpec


def install_missing(spec: ProgramSpec, entry: Path) -> None:
    """Install an entry if it is missing. A lock lets one process of this machine install at a time."""
    agents_directory().mkdir(parents=True, exist_ok=True)
    with (agents_directory() / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        install_entry(spec, entry, lambda _: None)


@named_by(AGENTS_VARIABLE)
def install_entry(spec: ProgramSpec, entry: Path, say: Callable[[str], None]) -> None:
    """Install an entry's packages, and copy its script beside them."""
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
        install_python(root, wanted.pip, is_new=True, version=wanted.python)
    if wanted.npm:
        install_npm(root, wanted.npm, runs_scripts=True)
        for program in (root / "node_modules" / ".bin").iterdir():
            (root / "bin" / program.name).symlink_to(program)
    if wanted.script:
        shutil.copy(entry.parent / wanted.script, root / "bin")
    mark = InstallationMark(name=spec.name, entry=str(entry.resolve()), install=wanted)
    (root / INSTALLED_MARK).write_bytes(msgspec.json.encode(mark))
    if not is_installed(spec):
        raise ExperimentError(f"{entry}: its script changed during the installation; run the same command again")


def agents_directory() -> Path:
    """Return the folder that contains the installation folders of all programs."""
    return installation_folder(AGENTS_VARIABLE, "agents")


def install_folder(spec: ProgramSpec) -> Path:
    """Return the folder where a located entry's packages and script are installed."""
    assert spec.install_digest, "only an entry that installs something has a folder"
    return agents_directory() / f"{spec.name}-{spec.install_digest[:SHOWN_DIGITS]}"


def bin_folder(spec: ProgramSpec) -> str:
    """Return the folder with an entry's installed programs, which is the value of ``{bin}``, or an empty string."""
    return str(install_folder(spec) / "bin") if spec.install_digest else ""


def located(spec: ProgramSpec, folder: Path) -> ProgramSpec:
    """Return the entry with the digest of what it installs. The digest is None if the entry installs nothing."""
    if spec.install == InstallSpec():
        return msgspec.structs.replace(spec, install_digest=None)
    try:
        install_digest = install_digest_of(spec, folder / spec.install.script)
    except OSError as error:
        raise ExperimentError(
            f"program {spec.name}: key 'install.script': {error.filename} cannot be read: {error.strerror}"
        ) from error
    return msgspec.structs.replace(spec, install_digest=install_digest)


def install_digest_of(spec: ProgramSpec, script: Path) -> str:
    """Return a digest of an entry's packages, and of its script if it has one."""
    install = spec.install
    content = (script.name, file_sha256(script)) if install.script else None
    return digest([sorted(install.pip), sorted(install.npm), content, install.python])


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_installed(spec: ProgramSpec) -> bool:
    """Return whether a located entry is installed and its script is unchanged."""
    if spec.install_digest is None:
        return True
    folder = install_folder(spec)
    if installed_in(folder) is None:
        return False
    try:
        return install_digest_of(spec, folder / "bin" / Path(spec.install.script).name) == spec.install_digest
    except OSError:
        return False


def installed_in(folder: Path) -> InstallationMark | None:
    """Return the mark in a folder, or None if it is unfinished or another version of this program made it."""
    try:
        return msgspec.json.decode((folder / INSTALLED_MARK).read_bytes(), type=InstallationMark)
    except (OSError, msgspec.DecodeError):
        return None


def installations() -> dict[Path, InstallationMark | None]:
    """Return every installation folder with its mark, sorted by path."""
    folders = sorted(path.parent for path in agents_directory().glob(f"*/{INSTALLED_MARK}"))
    return {folder: installed_in(folder) for folder in folders}


def _say_what_changed(spec: ProgramSpec, entry: Path, say: Callable[[str], None]) -> None:
    """Tell the user that a changed program counts as a different agent from the one installed before."""
    before = [
        folder for folder, found in installations().items() if found is not None and found.entry == str(entry.resolve())
    ]
    if before:
        say(
            f"{spec.name}: changed since it was installed in {before[-1]}, which is kept for its trials; "
            "the new installation counts as another agent with its own trials"
        )
