"""Truncates long texts for a model. The beginning and the end stay, with a count of what was left out."""

from collections.abc import Sequence


def cut(text: str, characters: int) -> str:
    """Truncate a text to about the given number of characters. Its beginning and end are kept."""
    if len(text) <= characters:
        return text
    half = characters // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"


def shortened(blocks: Sequence[str], characters: int) -> list[str]:
    """Return all blocks if they fit, else the first and last ones with a note on how many were left out."""
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
