"""Installs packages into separate folders with the ordinary clients: pip or uv, and npm."""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lhaw_record.recorder.errors import refusal
from lhaw_record.runners.base.errors import ExperimentError


@contextmanager
def named_by(variable: str) -> Iterator[None]:
    """Say of an installation that fails which variable names another folder for it."""
    try:
        yield
    except OSError as error:
        raise ExperimentError(f"cannot install into {refusal(error)} ({variable} names the folder)") from error
    except ExperimentError as error:
        if error.__cause__ is None:  # a program is missing, wherever the folder is
            raise
        raise ExperimentError(f"{error} ({variable} names the folder)") from error


def install_python(root: Path, requirements: Sequence[str], *, is_new: bool, version: str = "") -> None:
    """Install packages into an environment. A new one has this version of Python, or the one that runs us.

    Another version is found, or fetched, by uv. Without uv, it must be on PATH.
    """
    uv = shutil.which("uv")
    python = root / "bin" / "python"
    if is_new:
        shutil.rmtree(root, ignore_errors=True)
        if version and uv is not None:
            _run([uv, "venv", "--quiet", "--python", version, str(root)])
        elif found := _runnable(f"python{version}") if version else sys.executable:
            _run([found, "-m", "venv", *([] if requirements and uv is None else ["--without-pip"]), str(root)])
        else:
            raise ExperimentError(f"no python{version} on PATH works; install Python {version}, or uv, which gets it")
    if requirements and uv is not None:
        _run([uv, "pip", "install", "--quiet", "--python", str(python), *requirements])
    elif requirements:
        _run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements])


def _runnable(name: str) -> str | None:
    """Return where a program is, if it also runs: shims, as of pyenv, lie on PATH for versions that are not there."""
    found = shutil.which(name)
    is_well = found and subprocess.run([found, "--version"], check=False, capture_output=True).returncode == 0
    return found if is_well else None


def build_wheel(project: Path, folder: Path) -> Path:
    """Build the wheel of a project's folder, and return its path."""
    uv, before = shutil.which("uv"), set(folder.iterdir())
    if uv is not None:
        _run([uv, "build", "--quiet", "--wheel", "--out-dir", str(folder), str(project)])
    else:
        command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--disable-pip-version-check", "--no-deps"]
        _run([*command, "--wheel-dir", str(folder), str(project)])
    return next(path for path in folder.glob("*.whl") if path not in before)


def install_npm(prefix: Path, packages: Sequence[str], *, runs_scripts: bool = False) -> None:
    """Install packages into a folder's ``node_modules``. npm removes what is there and not in ``packages``."""
    npm = shutil.which("npm")
    if npm is None:
        raise ExperimentError(f"npm is not on PATH; install Node.js 18 or later to install {packages[0]}")
    prefix.mkdir(parents=True, exist_ok=True)
    options = ["--no-audit", "--no-fund", "--save-exact", *([] if runs_scripts else ["--ignore-scripts"])]
    _run([npm, "install", "--prefix", str(prefix), *options, *packages])


def _run(command: list[str]) -> None:
    try:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    except subprocess.CalledProcessError as error:
        raise ExperimentError(
            f"`{' '.join(command[:4])} …` ended with exit code {error.returncode}; its message is above. "
            "Correct the cause and run the same command again"
        ) from error
