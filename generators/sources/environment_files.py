"""Reads the files of an environment as text: text files and workbook cells. Other files count as empty."""

import csv
import datetime as dt
import io
import os
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

_MOST_FILE_BYTES = 2_000_000  # a larger file is data rather than text with rules
_MOST_BYTES = 20_000_000
_MOST_UNPACKED_BYTES = 50_000_000
_SKIPPED = (".git", ".DS_Store")


class UnreadablePath(msgspec.Struct, frozen=True):
    """A path that must not be read, and the reason."""

    path: str
    reason: str


class FileListing(msgspec.Struct, frozen=True, kw_only=True):
    """The regular files below a folder, sorted by relative path, and the refused paths."""

    files: Mapping[str, Path]
    refused: tuple[UnreadablePath, ...] = ()


class FileTexts(msgspec.Struct, frozen=True, kw_only=True):
    """The text of each file by path (empty for a binary or too large file), and the paths of the too large files."""

    files: Mapping[str, str]
    too_large: tuple[str, ...] = ()


def files_below(folder: Path) -> FileListing:
    """Return the files below a folder.

    Links to files inside the folder are followed. Other links and special files are refused.
    """
    root = folder.resolve()
    files: dict[str, Path] = {}
    refused: list[UnreadablePath] = []
    for path in sorted(_entries(folder), key=lambda path: path.relative_to(folder).as_posix()):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() and not Path(os.path.realpath(path)).is_relative_to(root):  # resolve() fails on a circle
            refused.append(UnreadablePath(name, "a link that leaves the folder; put the file itself there"))
        elif path.is_symlink() and not path.is_file():
            refused.append(UnreadablePath(name, "a link to no file; put the files themselves there"))
        elif not path.is_file():
            refused.append(UnreadablePath(name, "no regular file; remove it"))
        else:
            files[name] = path
    return FileListing(files=files, refused=tuple(refused))


def _entries(folder: Path) -> Iterator[Path]:
    """Yield every file and link below a folder. Links to folders are yielded but not followed."""
    for parent, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        yield from (Path(parent) / name for name in folders if (Path(parent) / name).is_symlink())
        yield from (Path(parent) / name for name in names if name not in _SKIPPED)


def texts_of(files: Mapping[str, Path]) -> FileTexts:
    """Return the text of each file. A file over 2 MB, or over what is left of 20 MB for all files, gets an
    empty text.
    """
    texts: dict[str, str] = {}
    too_large: list[str] = []
    left_bytes = _MOST_BYTES
    for name, path in files.items():
        size_bytes = path.stat().st_size
        if size_bytes > min(_MOST_FILE_BYTES, left_bytes):
            texts[name] = ""
            too_large.append(name)
            continue
        left_bytes -= size_bytes
        texts[name] = text_of(name, path.read_bytes())
    return FileTexts(files=texts, too_large=tuple(too_large))


def text_of(name: str, content: bytes) -> str:
    """Return the text of one file, or an empty text if it is binary. ``.xlsx`` files are read as workbooks."""
    if name.lower().endswith(".xlsx"):
        return _workbook_text(content)
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        text = content.decode(encoding)
    except UnicodeDecodeError:
        return ""
    return "" if "\0" in text else text


def sheets_text(sheets: Mapping[str, Sequence[Sequence[object]]]) -> str:
    """Return the cells of a workbook as text: for each sheet, its name in brackets, then its rows as CSV."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for title, rows in sheets.items():
        buffer.write(f"[{title}]\n")
        writer.writerows([[_cell_text(cell) for cell in row] for row in rows])
    return buffer.getvalue()


def _workbook_text(content: bytes) -> str:
    import openpyxl

    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(member.file_size for member in archive.infolist()) > _MOST_UNPACKED_BYTES:
                return ""
        book = openpyxl.load_workbook(io.BytesIO(content), data_only=True)
        return sheets_text({sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets})
    except Exception:  # noqa: BLE001 - openpyxl raises whatever a broken archive causes; such a file has no text
        return ""


def _cell_text(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, dt.datetime) and cell.time() == dt.time():
        return cell.date().isoformat()
    if isinstance(cell, dt.date | dt.time):
        return cell.isoformat()
    if isinstance(cell, float):
        return repr(round(cell, 9)).removesuffix(".0")
    return str(cell)
