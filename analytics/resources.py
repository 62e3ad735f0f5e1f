"""Find the SQL files, which are inside the wheel or at the top of a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def sql_root() -> Path:
    """Return the folder that contains staging/, intermediate/, marts/, tables/, checks/ and macros/."""
    installed = _PACKAGE / "sql"
    root = installed if installed.is_dir() else _PACKAGE.parent / "sql"
    if not root.is_dir():
        raise FileNotFoundError(f"{root} is missing; reinstall lhaw-record")
    return root
