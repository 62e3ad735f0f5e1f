"""A judge's wording: one file with the system prompt, the user prompt and the request for a better reply."""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from recorder.resources import data_path
from runners.errors import ExperimentError

_DIVIDER = re.compile(r"^---$", re.MULTILINE)


class JudgeTemplate:
    """Three parts, divided by lines of three dashes: system prompt, user prompt, and what is said to a malformed reply.

    Args:
        bundled: The file's name in ``data/judges``.
        path: A file of one's own in its place.
        placeholders: What the user prompt must have in braces.

    Raises:
        ExperimentError: The file cannot be read, or lacks a part or a placeholder.
    """

    def __init__(self, bundled: str, path: Path | None, placeholders: Iterable[str]) -> None:
        self.path = path or data_path("judges", bundled)
        try:
            self.source = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExperimentError(f"{self.path}: the judge's prompt cannot be read: {error}") from error
        parts = [part.strip() for part in _DIVIDER.split(self.source)]
        self._names = tuple(placeholders)
        lacking = [name for name in self._names if len(parts) == 3 and f"{{{name}}}" not in parts[1]]
        if len(parts) != 3 or lacking or "{problem}" not in parts[2]:
            wanted = ", ".join(f"{{{name}}}" for name in self._names)
            raise ExperimentError(
                f"{self.path}: a judge's prompt has a system prompt, a line '---', a user prompt with {wanted}, "
                f"another line '---', and a request with {{problem}} for a better reply; copy data/judges/{bundled}"
            )
        self.system, self._user, self._repair = parts

    def user(self, values: Mapping[str, str]) -> str:
        """Return the user prompt with all values put in at once: what looks like a placeholder in a value stays."""
        pattern = re.compile(r"\{(" + "|".join(self._names) + r")\}")
        return pattern.sub(lambda match: values[match[1]], self._user)

    def repair(self, problem: str) -> str:
        """Return the request for a better reply."""
        return self._repair.replace("{problem}", problem)
