"""Prompt templates, read from files, and middle-truncation of long texts."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError

_DIVIDER = re.compile(r"^---$", re.MULTILINE)
_BETWEEN_PARAGRAPHS = re.compile(r"\n[ \t]*\n")


class PromptTemplate:
    """A prompt file with three parts, divided by lines of three dashes.

    The parts are the system prompt, the user prompt, and the request for a better reply.

    Args:
        bundled: The path of the bundled file below ``data``, for example ``("judges", "new_task.md")``.
        path: The user's own file. None to use the bundled one.
        placeholders: The names that the user prompt must contain in braces.

    Raises:
        ExperimentError: The file cannot be read, or lacks a part or a placeholder.
    """

    def __init__(self, bundled: tuple[str, ...], path: Path | None, placeholders: Iterable[str]) -> None:
        self.path = path or data_path(*bundled)
        try:
            self.source = self.path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ExperimentError(f"{self.path}: the prompt cannot be read: {error}") from error
        parts = [part.strip() for part in _DIVIDER.split(self.source)]
        self._names = tuple(placeholders)
        lacking = [name for name in self._names if len(parts) == 3 and f"{{{name}}}" not in parts[1]]
        if len(parts) != 3 or lacking or "{problem}" not in parts[2]:
            wanted = ", ".join(f"{{{name}}}" for name in self._names)
            raise ExperimentError(
                f"{self.path}: this prompt has a system prompt, a line '---', a user prompt with {wanted}, "
                f"another line '---', and a request with {{problem}} for a better reply; copy data/{'/'.join(bundled)}"
            )
        self.system, self._user, self._repair = parts

    def user(self, values: Mapping[str, str | None]) -> str:
        """Return the user prompt with its values filled in.

        A paragraph with a placeholder whose value is None is left out. A value may contain text that looks like a
        placeholder.
        """
        pattern = re.compile(r"\{(" + "|".join(self._names) + r")\}")
        absent = [f"{{{name}}}" for name in self._names if values[name] is None]
        text = self._user
        if absent:
            paragraphs = _BETWEEN_PARAGRAPHS.split(text)
            text = "\n\n".join(each for each in paragraphs if not any(name in each for name in absent))
        return pattern.sub(lambda match: values[match[1]] or "", text)

    def repair(self, problem: str) -> str:
        """Return the request for a better reply, which names the problem."""
        return self._repair.replace("{problem}", problem)


def cut(text: str, characters: int) -> str:
    """Truncate a text in the middle to about the given number of characters."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"


def shortened(blocks: Sequence[str], characters: int) -> list[str]:
    """Return all blocks if they fit, else the first and last ones with a note on how many were omitted."""
    if sum(map(len, blocks)) <= characters:
        return list(blocks)
    head = _fitting(blocks, characters // 2)
    tail = _fitting(blocks[head:][::-1], characters // 2)
    left_out = len(blocks) - head - tail
    return [*blocks[:head], f"({left_out} entries are left out here)", *blocks[len(blocks) - tail :]]


def _fitting(blocks: Sequence[str], characters: int) -> int:
    """Return how many of the first blocks fit."""
    used = 0
    for count, block in enumerate(blocks):
        used += len(block)
        if used > characters:
            return count
    return len(blocks)
