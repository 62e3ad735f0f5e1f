"""Finds bundled files in an installed wheel or at the top of a checkout, and the folders of this user."""

import os
from pathlib import Path

from lhaw_record.recorder.errors import RecorderError

_PACKAGE = Path(__file__).resolve().parent


def data_path(*parts: str) -> Path:
    """Return the path of a bundled data file or folder."""
    return _bundled("data", *parts)


def experiment_path(name: str) -> Path:
    """Return the path of a bundled experiment file, for example ``demo.toml``."""
    return _bundled("experiments", name)


def pages() -> dict[str, Path]:
    """Return the pages of the documentation by name: ``models`` is docs/models.md."""
    folder = _bundled("docs")
    return {path.relative_to(folder).with_suffix("").as_posix(): path for path in sorted(folder.rglob("*.md"))}


def bundled_texts() -> dict[str, Path]:
    """Return the bundled texts by the names that pages give them, such as ``data/user/responses.toml``."""
    paths = [path for name in ("data", "experiments") for path in sorted(_bundled(name).rglob("*"))]
    top = _bundled("data").parent
    return {path.relative_to(top).as_posix(): path for path in paths if path.suffix in (".md", ".toml")}


def home() -> Path:
    """Return the home directory, ``/`` for a user id without a name and without HOME, as Docker does."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def expanded(path: str | Path) -> Path:
    """Return a path with a home directory in the place of ``~``."""
    try:
        return Path(path).expanduser()
    except RuntimeError as error:
        raise RecorderError(f"{path}: that home directory is unknown; set HOME, or write the whole path") from error


def user_name() -> str:
    """Return who calls, for what is recorded about it."""
    import getpass

    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a user id without a name, in a container
        return f"user {os.getuid()}"


def user_folder(kind: str) -> Path:
    """Return this user's folder of the program. The kind is ``cache``, ``state`` or ``data``."""
    usual = {"cache": ".cache", "state": ".local/state", "data": ".local/share"}[kind]
    return Path(os.environ.get(f"XDG_{kind.upper()}_HOME") or home() / usual, "lhaw-record")


def installation_folder(variable: str, name: str) -> Path:
    """Return the folder of what the program installs: the variable's, ``.envs`` of a checkout, or the user's."""
    if chosen := os.environ.get(variable):
        return expanded(chosen).resolve()
    checkout = _PACKAGE.parent
    return (checkout / ".envs" if (checkout / "pyproject.toml").is_file() else user_folder("data")) / name


def _bundled(folder: str, *parts: str) -> Path:
    installed = _PACKAGE / folder
    root = installed if installed.is_dir() else _PACKAGE.parent / folder
    path = root.joinpath(*parts)
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; reinstall lhaw-record")
    return path
