"""Finds bundled files in an installed wheel or at the top of a checkout."""

from pathlib import Path

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


def data_texts() -> dict[str, Path]:
    """Return the bundled texts by the names that pages give them, such as ``data/user/responses.toml``."""
    folder = _bundled("data")
    paths = (path for path in sorted(folder.rglob("*")) if path.suffix in (".md", ".toml"))
    return {f"data/{path.relative_to(folder).as_posix()}": path for path in paths}


def _bundled(folder: str, *parts: str) -> Path:
    installed = _PACKAGE / folder
    root = installed if installed.is_dir() else _PACKAGE.parent / folder
    path = root.joinpath(*parts)
    if not path.exists():
        raise FileNotFoundError(f"{path} is missing; reinstall lhaw-record")
    return path
