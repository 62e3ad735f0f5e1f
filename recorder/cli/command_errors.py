"""Translates library and system errors in a command into errors that name the store and the next step."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from lhaw_record.recorder.errors import DamagedStore, StoreError
from lhaw_record.recorder.sharing.address import place_of


@contextmanager
def clear_errors(doing: str, root: Path) -> Iterator[None]:
    """Translate library and system errors raised in a ``with`` block into recorder errors."""
    import pyarrow as pa

    if root.is_file():
        raise StoreError(f"{root} is a file, not a store; name the store's directory")
    try:
        yield
    except BrokenPipeError:
        raise
    except pa.ArrowException as error:
        advice = "'lhaw-record log verify' names the file"
        raise DamagedStore(f"cannot {doing} {place_of(root)} ({error}); {advice}") from error
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        raise StoreError(
            f"cannot {doing} {place_of(root)}: {what}{error.strerror or error}. No recorded data is lost; "
            "fix this, then run the same command again"
        ) from error
