"""A value inside a longer path or address: what goes with it, and what of the path stays."""

import re

from generators.rewriting.edits import Edit
from generators.rewriting.scene import Scene

_PATH_BEFORE = re.compile(r"(?:[\w.~-]+)?(?:/[\w.~ -]*)*/$")


def partial_edit(scene: Scene, noun_phrase: str) -> Edit | None:
    """Return the edit for a value that is a part of a longer path; None where it is none.

    A leading or middle part goes with its slash. A file name at the end goes and leaves its folder: ``noun_phrase``,
    where there is one, is said to be in it.
    """
    text, start, end = scene.text, scene.start, scene.end
    follows = text[end : end + 1] == "/" and _is_word(text[end + 1 : end + 2])
    if text[start:end].endswith("/") and _is_word(text[end : end + 1]):
        return Edit(start=start, end=end, new="")
    if follows and re.search(r"\w", text[start:end]):
        return Edit(start=start, end=end + 1, new="")
    before = _PATH_BEFORE.search(text, scene.sentence_start, start)
    if before is None or not re.search(r"\w", before.group()):
        return None
    folder_start = before.start()
    wrapper = text[folder_start - 1 : folder_start] if folder_start else ""
    is_wrapped = wrapper in ("`", '"', "'", "\u201c") and text[end : end + 1] in ("`", '"', "'", "\u201d")
    if not noun_phrase:
        return Edit(start=start, end=end, new="")
    at = folder_start - 1 if is_wrapped else folder_start
    closing = text[end : end + 1] if is_wrapped else ""
    new = f"{noun_phrase} in {text[at:start]}{closing}"
    return Edit(start=at, end=end + len(closing), new=new)


def _is_word(character: str) -> bool:
    return bool(re.match(r"[\w<{\[$]", character))
