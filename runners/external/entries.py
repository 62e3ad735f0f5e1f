"""The programs of an experiment: ready-made entries, files of one's own, where they are installed, their versions."""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

from recorder.canonical import digest
from recorder.resources import data_path
from runners.errors import ExperimentError
from runners.external.program import InstallSpec, ProgramSpec, problems_of, read_program

AGENTS_VARIABLE = "LHAW_RECORD_AGENTS"
INSTALLED_MARK = "installed.json"
_VERSION_SECONDS = 60.0
_VERSION_CHARACTERS = 200


def entry_paths() -> dict[str, Path]:
    """Return the files of the ready-made entries by their names."""
    return {path.stem: path for path in sorted(data_path("agents").glob("*.toml"))}


def agents_directory() -> Path:
    """Return the folder below which programs are installed, each in one of its own.

    The environment variable decides; without it a checkout uses ``.envs`` beside its sources, and an installed
    package uses the user's data folder.
    """
    chosen = os.environ.get(AGENTS_VARIABLE)
    if chosen:
        return Path(chosen).expanduser().resolve()
    checkout = Path(__file__).resolve().parents[2]
    if (checkout / "pyproject.toml").is_file():
        return checkout / ".envs" / "agents"
    data_home = os.environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data_home) / "lhaw-record" / "agents"


def install_folder(spec: ProgramSpec) -> Path:
    """Return where the packages of an entry are installed."""
    return agents_directory() / spec.name


def bin_folder(spec: ProgramSpec) -> Path:
    """Return what ``{bin}`` stands for."""
    return install_folder(spec) / "bin"


def load_entry(named: str, base: Path) -> ProgramSpec:
    """Read a ready-made entry by its name, or one of a user's own by the path of its file.

    Args:
        named: The name, or a path that ends in ``.toml``.
        base: Where relative paths start.

    Raises:
        ExperimentError: There is none, or it cannot be used.
    """
    return read_program(entry_path(named, base))


def entry_path(named: str, base: Path) -> Path:
    """Return the file of an entry.

    Raises:
        ExperimentError: There is none.
    """
    if named.endswith(".toml"):
        return base / Path(named).expanduser()
    known = entry_paths()
    if named not in known:
        raise ExperimentError(
            f"there is no ready-made program {named!r}; there are: {', '.join(known) or 'none'}; or name the path of a "
            "TOML file of your own"
        )
    return known[named]


def resolved(program: str | ProgramSpec, base: Path) -> ProgramSpec:
    """Return a program with the version that is there now.

    Args:
        program: The name or path of an entry, or an entry itself.
        base: Where relative paths start.

    Raises:
        ExperimentError: There is no such entry, it is not installed, or does not say its version.
    """
    spec = load_entry(program, base) if isinstance(program, str) else program
    spec = msgspec.structs.replace(spec, found_version=None, mounts=tuple(_expanded(path) for path in spec.mounts))
    problem = next(problems_of(spec), None) or _absence(spec)
    if problem is not None:
        raise ExperimentError(problem)
    return msgspec.structs.replace(spec, found_version=found_version(spec))


def found_version(spec: ProgramSpec) -> str:
    """Return what a program says its version is, and what its installed script is; empty where the entry does not ask.

    Raises:
        ExperimentError: It cannot be asked.
    """
    script = bin_folder(spec) / Path(spec.install.script).name
    parts = [f"script {digest(script.read_text(encoding='utf-8'))[:12]}"] if spec.install.script else []
    if spec.version:
        parts.insert(0, _asked_version(spec))
    return ", ".join(parts)


def is_installed(spec: ProgramSpec) -> bool:
    """Return whether exactly the pinned packages of an entry are installed; one without packages always is."""
    if spec.install == InstallSpec():
        return True
    mark = install_folder(spec) / INSTALLED_MARK
    return mark.is_file() and mark.read_bytes() == msgspec.json.encode(spec.install)


def shown_folders(spec: ProgramSpec) -> tuple[str, ...]:
    """Return what a sandbox must show of this machine: the packages, Node where it needs it, and the entry's mounts."""
    found = [*spec.mounts]
    if is_installed(spec) and spec.name and install_folder(spec).is_dir():
        found.append(str(install_folder(spec)))
    if spec.install.npm:
        node = _node()
        found += [str(node.parent.parent)] if node and not node.is_relative_to("/usr/bin") else []
    return tuple(dict.fromkeys(found))


def path_folders(spec: ProgramSpec) -> tuple[str, ...]:
    """Return the folders of programs that belong at the end of PATH."""
    node = _node() if spec.install.npm else None
    return (*((str(bin_folder(spec)),) if spec.name else ()), *((str(node.parent),) if node else ()))


def _absence(spec: ProgramSpec) -> str | None:
    """What is not there of a program."""
    if not is_installed(spec):
        return f"program {spec.name} is not installed; run: lhaw-record agents install {spec.name}"
    program = spec.command[0].replace("{bin}", str(bin_folder(spec)))
    missing = [path for path in (program, *spec.mounts) if path.startswith("/") and not Path(path).exists()]
    return f"program {spec.name or spec.command[0]}: there is no {missing[0]}" if missing else None


def _asked_version(spec: ProgramSpec) -> str:
    words = [word.format_map({"bin": str(bin_folder(spec))}) for word in spec.version]
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
            raise ExperimentError(f"program {spec.name or words[0]} does not say its version: {error}") from error
    lines = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace").split("\n")
    return next((line.strip() for line in lines if line.strip()), "")[:_VERSION_CHARACTERS]


def _expanded(path: str) -> str:
    return str(Path(path).expanduser())


def _node() -> Path | None:
    node = shutil.which("node")
    return Path(node).resolve() if node else None
