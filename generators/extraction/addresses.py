"""Recognises file names, paths, folders and URLs by their form and by the words next to them."""

import re
from collections.abc import Iterator

from lhaw_record.generators.extraction.document import Document
from lhaw_record.generators.extraction.lexicon import Lexicon

# What is written above, below and around the letters of a name: accents, and the signs of vowels of some scripts.
_MARKS = (
    r"\u0300-\u036f\u0591-\u05bd\u05bf-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
    r"\u0e31-\u0e3a\u0e47-\u0e4e\u1037-\u103e\u17b4-\u17d3\u3099\u309a"
)


def _with_marks(pattern: str) -> re.Pattern[str]:
    """Compile a pattern, adding combining marks to its character classes of word characters."""
    return re.compile(pattern.replace(r"[\w", rf"[\w{_MARKS}"))


URL = re.compile(r"\b(?:https?|ftp|s3|gs|file)://[^\s<>\"'`\])}]+[^\s<>\"'`\])}.,;:!?*_]")
QUOTED = re.compile(
    r"`(?P<tick>[^`\n]{1,120})`|\"(?P<double>[^\"\n]{1,160}?)\"|\u201c(?P<curly>[^\u201d\n]{1,160})\u201d"
    r"|\u00ab(?P<guillemet>[^\u00bb\n]{1,160})\u00bb|\u300c(?P<corner>[^\u300d\n]{1,160})\u300d"
    r"|\u201e(?P<low>[^\u201c\u201d\n]{1,160})[\u201c\u201d]"
    r"|(?<![\w'])'(?P<single>[^'\n]{1,120})'(?!\w)|(?<!\w)\u2018(?P<curly_single>[^\u2019\n]{1,120})\u2019(?!\w)"
)
PATH = _with_marks(
    r"(?<![\w:/.<-])/?(?:[A-Z][\w.-]{0,40}(?: [A-Z][\w.-]{0,40}){0,4}/)+[\w.-]+(?: [\w.-]+){0,4}?\.\w{2,5}\b"
    r"|(?<![\w:/.<-])/?[A-Z][\w.-]{0,40}(?:/[A-Z][\w-]{0,40}(?: [A-Z][\w-]{0,40}){0,4})+/?"
    r"|(?<![\w:/.<@-])(?:~|\.{1,2})?/(?:[\w.@%+-]+/)*[\w.@%+*-]*[\w*/](?!\w)"
    r"|(?<![\w:/.<@-])(?:[\w.@+-]+/)+[\w.@+*-]*[\w*/]"
    r"|\b[A-Za-z]:\\(?:[\w. -]+\\)*[\w.-]*\w"
)
FILE = _with_marks(r"(?<![\w/@.:\\-])[\w][\w.+()-]*\.(?P<ending>[A-Za-z]\w{0,7})(?![\w@(/]|\.\w)")
_ENVIRONMENT = re.compile(r"^\w+://(?:localhost|[\w.-]+:\d+|\d+\.\d+\.\d+\.\d+)(?:[/?#].*)?$|^\w+://[^/]+/?$")
_SPACED_FILE = re.compile(r"^[^/\n<>|]{1,80}\.(?P<ending>[A-Za-z]\w{0,7})$")
_ROOTED = re.compile(r"[/~.]|[A-Za-z]:\\")
_LEADS_TO_FOLDER = re.compile(
    r"\b(?:in|under|from|at|to|into|inside|within|folder|directory|path|dir)(?: the| a)? [\"'`]?$"
)
_FOLDER_BEHIND = re.compile(r"[\"'`\u201d\u2019]? (?:\w+ )?(?:folder|directory|subfolder|dir)\b")
_FOLDER_BEFORE = re.compile(r"\b(?:folder|directory|subfolder)(?: \w+)? [\"'`\u201c\u2018]$")
_NOT_IN_PATHS = re.compile(r"[<>()={}|,;:?]")
_NUMBER = re.compile(r"[\d.]+\w?")
_NEAR_CHARS = 40
_MOST_SPACES = 4


def is_of_environment(url: str) -> bool:
    """Return whether a URL points to the environment itself: a bare host, a host with a port, or an IP address."""
    return bool(_ENVIRONMENT.match(url))


class Addresses:
    """Classifies a name in the prompt as a file, folder, path or quoted term.

    Args:
        document: The prompt.
        lexicon: Supplies the known file extensions.
        files: The paths of the files in the environment. Empty if the environment is unknown.
    """

    def __init__(self, document: Document, lexicon: Lexicon, files: frozenset[str]) -> None:
        self._document = document
        self._endings = lexicon.endings
        self._files = files
        self._names = {path.rsplit("/", 1)[-1] for path in files}
        self._folders = {folder for path in files for folder in _parents(path)}

    def is_there(self, value: str) -> bool:
        """Return whether the environment has a file with this path or name."""
        return value in self._files or value in self._names

    def is_file(self, name: str, ending: str) -> bool:
        """Return whether a name with a suffix is a file name. ``ending`` is the suffix without the dot."""
        return name in self._names or (ending.lower() in self._endings and not _NUMBER.fullmatch(name))

    def kind_of_quoted(self, start: int, end: int) -> str:
        """Return the kind of a quoted term: ``path``, ``folder``, ``file``, or ``quoted`` if it is none of them."""
        value = self._document.text[start:end]
        if value.rstrip("/") in self._folders:
            return "folder"
        if value in self._files:
            return "path" if "/" in value else "file"
        if ("/" in value or "\\" in value) and self._looks_like_path(value):
            return self._kind_of_path(value)
        match = _SPACED_FILE.match(value)
        if match and self.is_file(value, match["ending"]) and value.count(" ") <= _MOST_SPACES:
            return "file"
        lower = self._document.lower
        is_folder = _FOLDER_BEHIND.match(lower, end) or _FOLDER_BEFORE.search(
            lower[max(0, start - _NEAR_CHARS) : start]
        )
        return "folder" if is_folder else "quoted"

    def kind_of_run(self, start: int, end: int) -> str | None:
        """Return ``path`` or ``folder`` for unquoted text with slashes, or None if it is neither."""
        value = self._document.text[start:end]
        kind = "folder" if value.rstrip("/") in self._folders else self._kind_of_path(value)
        before = self._document.lower[max(0, start - _NEAR_CHARS) : start]
        if _FOLDER_BEHIND.match(self._document.lower, end):
            return "folder"
        if kind == "quoted" or not self._looks_like_path(value):
            return None
        return kind if kind == "path" or _ROOTED.match(value) or _LEADS_TO_FOLDER.search(before) else None

    def _kind_of_path(self, value: str) -> str:
        last = re.split(r"[/\\]", value)[-1]
        is_file = value in self._files or ("." in last and last.rsplit(".", 1)[-1].lower() in self._endings)
        if (not is_file and " " in value and not re.match(r"/?[A-Z]", value)) or _NOT_IN_PATHS.search(value[2:]):
            return "quoted"
        return "path" if is_file else "folder"

    def _looks_like_path(self, value: str) -> bool:
        """Return whether text with slashes is a path: it starts at a root, is in the environment, or names a file."""
        if value in self._files or value.rstrip("/") in self._folders:
            return True
        if _ROOTED.match(value):
            return any(character.isalpha() for character in value)
        return value.rsplit(".", 1)[-1].lower() in self._endings and "." in value.rsplit("/", 1)[-1]


def _parents(path: str) -> Iterator[str]:
    parts = path.split("/")[:-1]
    for count in range(1, len(parts) + 1):
        yield "/".join(parts[:count])
