"""The place where something was cut out or put in: spaces, punctuation, capitals and articles made right again."""

import re

from generators.rewriting.edits import Edit
from generators.rewriting.scene import Scene

_VOWEL_SOUND = re.compile(
    r"[\"'`\u201c(]*(?:(?i:(?!uni|use|usu|eu|one\b|once\b|u[bp]?[kr]\b|(?-i:U[A-Z]))"
    r"(?:[aeio]|u[a-z]|hour|honest|honou?r|heir|8|11\b|18\b|x-))|[FHLMNRSX][A-Z]{1,4}\b)"
)
_CODE_START = re.compile(r"[`/\\<\[{$#@]|\w*[_./\\]\w|[a-z]+[A-Z]")
_OPENING_WORD = re.compile(r"(?i)(?<![\w-])(?:that|and|but|so|if|where|which|because|then)\s*$")
_OWN_ARTICLE = re.compile(r"^((?: with | |under )?)an? (?=\S)")
_LAST_ARTICLE = re.compile(r"(?i)(?<![\w'-])(an?)(\s+)$")
_PARTICIPLE = re.compile(r"\s*\w+ed\b")
_JOINED_PARTICIPLE = re.compile(r"\s*and(?=\s+\w+ed\b)")
_UNSPACED_FROM = "\u0e00"


def repaired(scene: Scene, edit: Edit) -> Edit:
    """Return an edit widened so that what it leaves reads like text: never beyond spaces and marks of its block."""
    if scene.is_code:
        return edit
    if not edit.new and not scene.is_cell:
        edit = _without_hole(scene, edit)
    opening = _OWN_ARTICLE.match(edit.new)
    if opening:
        article = "an" if _VOWEL_SOUND.match(edit.new, opening.end()) else "a"
        edit = Edit(start=edit.start, end=edit.end, new=f"{opening[1]}{article} {edit.new[opening.end() :]}")
    return _capital(scene, _article(scene, edit))


class _Hole:
    """A hole in a block: the spaces on both sides, and the marks beyond them."""

    def __init__(self, scene: Scene, start: int, end: int) -> None:
        self.text, self.low, self.high = scene.text, scene.block_start, scene.block_end
        self.sentence_start = scene.sentence_start
        self.start, self.end = start, end

    @property
    def spaces_before(self) -> int:
        inner = self.text[self.low : self.start]
        return len(inner) - len(inner.rstrip())

    @property
    def spaces_after(self) -> int:
        inner = self.text[self.end : self.high]
        return len(inner) - len(inner.lstrip())

    @property
    def before(self) -> str:
        return self.text[self.low : self.start].rstrip()[-1:]

    @property
    def following(self) -> str:
        return self.text[self.end : self.high].lstrip()[:1]

    @property
    def is_at_sentence_start(self) -> bool:
        return self.start - self.spaces_before <= self.sentence_start or self.before in (".", "!", "?")

    def drop_following(self) -> None:
        self.end += self.spaces_after + 1

    def drop_before(self) -> None:
        self.start -= self.spaces_before + 1


def _without_hole(scene: Scene, edit: Edit) -> Edit:
    """Close the hole of a deletion: no doubled or lost punctuation, one space or line end."""
    hole = _Hole(scene, edit.start, edit.end)
    joined = _JOINED_PARTICIPLE.match(hole.text, hole.end, hole.high)
    if joined and hole.before == "," and _PARTICIPLE.match(hole.text, hole.start):
        hole.end = joined.end()  # of "a note, named X and kept in Y" stays "a note, kept in Y"
    is_opening = bool(_OPENING_WORD.search(hole.text[hole.low : hole.start]))
    is_weaker = hole.following == "," or hole.before != ","
    is_doubled = hole.following in tuple(",;:") and (
        hole.is_at_sentence_start or (hole.before in tuple(",;:.!?") and is_weaker)
    )
    if is_doubled or (hole.following == "," and is_opening):
        hole.drop_following()
    if hole.before in tuple(",;:") and hole.following in ("", *".!?;:)"):
        hole.drop_before()
    new = _joint(hole)
    return Edit(start=hole.start, end=hole.end, new=new)


def _joint(hole: _Hole) -> str:
    """Widen a hole over the spaces that are too many, and return the one that may be missing."""
    before, after = hole.spaces_before, hole.spaces_after
    has_line_end = "\n" in hole.text[hole.end : hole.end + after]
    if hole.is_at_sentence_start:
        if hole.before and (not hole.following or has_line_end):
            hole.start -= before
        elif (hole.following and hole.start == hole.sentence_start) or (before and after):
            hole.end += after
        return ""
    if hole.following in ("", *",.;:!?)"):
        hole.start, hole.end = hole.start - before, hole.end + (after if hole.following else 0)
        return ""
    if before and after:
        hole.start, hole.end = (hole.start - before, hole.end) if has_line_end else (hole.start, hole.end + after)
        return ""
    is_glued = not before and not after and hole.before.isalnum() and hole.following.isalnum()
    return " " if is_glued and max(hole.before, hole.following) < _UNSPACED_FROM else ""


def _article(scene: Scene, edit: Edit) -> Edit:
    """Make "a" or "an" before the seam agree with what follows now."""
    article = _LAST_ARTICLE.search(scene.text[scene.block_start : edit.start])
    following = edit.new.lstrip() or scene.text[edit.end : scene.block_end].lstrip()
    if not article or not following or not following[0].isalnum():
        return edit
    wanted = "an" if _VOWEL_SOUND.match(following) else "a"
    if article[1].lower() == wanted:
        return edit
    spelled = wanted.capitalize() if article[1][0].isupper() else wanted
    rest = scene.text[edit.end : scene.block_end]
    skipped = 0 if edit.new.strip() else len(rest) - len(rest.lstrip())
    start = scene.block_start + article.start()
    return Edit(start=start, end=edit.end + skipped, new=spelled + article[2] + edit.new.lstrip())


def _capital(scene: Scene, edit: Edit) -> Edit:
    """Begin the sentence with a capital if it began with one."""
    text = scene.text
    if edit.start > scene.sentence_start or not _began_with_capital(scene):
        return edit
    if edit.new.strip():
        new = edit.new if _CODE_START.match(edit.new) else edit.new[:1].upper() + edit.new[1:]
        return Edit(start=edit.start, end=edit.end, new=new)
    position = edit.end
    while position < scene.block_end and text[position] in "\"'(*\u201c":
        position += 1
    if position >= scene.block_end or not text[position].islower() or _CODE_START.match(text, position):
        return edit
    new = edit.new + text[edit.end : position] + text[position].upper()
    return Edit(start=edit.start, end=position + 1, new=new)


def _began_with_capital(scene: Scene) -> bool:
    first = scene.text[scene.sentence_start : scene.sentence_end].lstrip("\"'(*`\u201c")[:1]
    before = scene.text[scene.block_start : scene.sentence_start].rstrip()[-1:]
    if before and before.isalnum():
        return False
    return first.isupper() or not (first.isalpha() or scene.is_cell)
