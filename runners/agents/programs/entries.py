"""Loads the entries of programs, ready-made ones and a user's own, and finds their current version and content."""

import os
import shlex
import subprocess
import tempfile
from pathlib import Path

import msgspec

from lhaw_record.recorder.resources import data_path, expanded
from lhaw_record.runners.agents.programs.installation import (
    SHOWN_DIGITS,
    bin_folder,
    file_sha256,
    install_folder,
    installations,
    is_installed,
    located,
)
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.experiment.decoding import read_program
from lhaw_record.runners.experiment.program import FOUND, ProgramSpec
from lhaw_record.runners.experiment.validation import program_problems

_VERSION_SECONDS = 60.0
_VERSION_CHARACTERS = 200


def entry_paths() -> dict[str, Path]:
    """Return the files of the ready-made entries by name."""
    return {path.stem: path for path in sorted(data_path("agents").glob("*.toml"))}


def load_entry(named: str, base: Path) -> ProgramSpec:
    """Read a ready-made entry by its name, or a user's own entry by its path."""
    path = entry_path(named, base)
    return located(read_program(path), path.parent)


def entry_path(named: str, base: Path) -> Path:
    """Return the path of an entry's file."""
    if named.endswith(".toml"):
        return base / expanded(named)
    known = entry_paths()
    if named not in known:
        beside = base / f"{named}.toml"
        own = (
            f"write {named}.toml for the file in this folder" if beside.is_file() else "or name the path of a TOML file"
        )
        raise ExperimentError(
            f"there is no ready-made program {named!r}; there are: {', '.join(known) or 'none'}; {own}"
        )
    return known[named]


def resolved(program: str | ProgramSpec, base: Path) -> ProgramSpec:
    """Return a program with its current version and content."""
    path = entry_path(program, base) if isinstance(program, str) else None
    spec = program if isinstance(program, ProgramSpec) else read_program(entry_path(program, base))
    mounts = tuple(str(expanded(mount)) for mount in spec.mounts)
    spec = msgspec.structs.replace(spec, **dict.fromkeys(FOUND), mounts=mounts)
    problem = next(program_problems(spec), None)
    if problem is None:
        spec = located(spec, path.parent if path else base)
        problem = _missing_part(spec, path, is_ready_made=isinstance(program, str) and not program.endswith(".toml"))
    if problem is not None:
        raise ExperimentError(problem)
    return msgspec.structs.replace(spec, found_version=found_version(spec), found_content=found_content(spec))


def found_content(spec: ProgramSpec) -> str:
    """Return a text that identifies a program's content, by digests of its installation and files.

    The files are the mounted ones and, in mounted folders, what the command names, such as the agent's script.
    """
    parts = []
    if spec.install_digest:
        if not is_installed(spec):
            raise ExperimentError(f"{install_folder(spec)} no longer has the files that were installed")
        parts.append(f"install {spec.install_digest[:SHOWN_DIGITS]}")
    mounts = [Path(mount) for mount in spec.mounts]
    named = [Path(word) for word in spec.command if any(Path(word).is_relative_to(mount) for mount in mounts)]
    for path in dict.fromkeys((*mounts, *named)):
        if path.is_file():
            try:
                parts.append(f"{path.name} {file_sha256(path)[:SHOWN_DIGITS]}")
            except OSError as error:
                raise ExperimentError(f"key 'mounts': {path} cannot be read: {error.strerror}") from error
    return ", ".join(parts)


def shown_folders(spec: ProgramSpec) -> tuple[str, ...]:
    """Return the paths of this machine that a sandbox must mount.

    These are the entry's mounts, what is installed, and its Python, if that is not below /usr.
    """
    found = [*spec.mounts]
    if spec.install_digest:
        found.append(str(install_folder(spec)))
        found += python_of(install_folder(spec))
    return tuple(dict.fromkeys(found))


def _missing_part(spec: ProgramSpec, path: Path | None, *, is_ready_made: bool) -> str | None:
    """Return which part of a program is missing and how to get it, or None if nothing is missing.

    ``path`` is the file of the program's entry, if it has one.
    """
    if spec.leased:
        return None  # nothing of it runs here
    if not is_installed(spec):
        return _not_installed(spec, path, is_ready_made=is_ready_made)
    program = spec.command[0].replace("{bin}", bin_folder(spec) or "{bin}")
    missing = [each for each in (program, *spec.mounts) if each.startswith("/") and not Path(each).exists()]
    return f"program {spec.name or spec.command[0]}: there is no {missing[0]}" if missing else None


def _not_installed(spec: ProgramSpec, path: Path | None, *, is_ready_made: bool) -> str:
    name = f"program {spec.name or spec.command[0]}"
    if path is None:
        return (
            f"{name} has [install] in a table of the experiment, which cannot be installed; write the table into a "
            f"separate file, name that file in 'program', and run: lhaw-record agents install FILE.toml"
        )
    named = path.stem if is_ready_made else shlex.quote(shown_path(path))
    before = [each for each in installations().values() if each and each.entry == str(path.resolve())]
    state = "has changed since it was installed: its packages or its script" if before else "is not installed"
    return f"{name} {state}; run: lhaw-record agents install {named}"


def shown_path(path: Path) -> str:
    """Return a path as a user would type it: relative if it is below the current folder, otherwise absolute."""
    whole, here = path.resolve(), Path.cwd()
    return str(whole.relative_to(here) if whole.is_relative_to(here) else whole)


def found_version(spec: ProgramSpec) -> str:
    """Return the version that a program prints, or an empty string if the entry has no command for it."""
    if not spec.version:
        return ""
    words = [word.format(bin=bin_folder(spec)) for word in spec.version]
    with tempfile.TemporaryDirectory() as home:
        environment = {"HOME": home, "LANG": "C.UTF-8", "PATH": os.environ.get("PATH", os.defpath)}
        try:
            done = subprocess.run(
                words,
                cwd=home,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_VERSION_SECONDS,
                check=True,
            )
        except (OSError, subprocess.SubprocessError) as error:
            raise ExperimentError(f"program {spec.name or words[0]} does not print its version: {error}") from error
    lines = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in lines if line.strip()), "")[:_VERSION_CHARACTERS]


def python_of(environment: Path) -> list[str]:
    """Return the interpreter of a virtual environment and its library, unless they belong to the system."""
    config = environment / "pyvenv.cfg"
    if not config.is_file():
        return []
    lines = config.read_text(encoding="utf-8").splitlines()
    values = dict(line.split(" = ", 1) for line in lines if " = " in line)
    home = Path(values.get("home", "/usr/bin"))
    return [] if home.resolve().is_relative_to("/usr") else [str(home), str(home.parent / "lib")]
