"""The smallest phrase around a value that can go: cuts from small to large, the first that reads well is taken."""

import re
from collections.abc import Iterator

from generators.rewriting.clauses import ClauseCuts
from generators.rewriting.cuts import Cut, NounCuts, earlier_changes
from generators.rewriting.edits import Edit
from generators.rewriting.english import English
from generators.rewriting.grammar import Grammar
from generators.rewriting.parsing import Parsing
from generators.rewriting.scene import Scene
from generators.rewriting.seams import repaired
from generators.rewriting.sentences import Change
from generators.rewriting.slots import Slot
from generators.rewriting.values import Thing
from recorder.values import Segment

_NUMBERED = re.compile(r"(?m)^(?P<indent>[ \t]*)(?P<number>\d{1,3})(?P<mark>[.)])[ \t]")
_NUMBER_SPOKEN_OF = re.compile(r"(?i)\b(?:step|item|question|point|task|rule|number|no\.)s?\s+\d")
_LABEL = re.compile(r"^\s*:\s+(?=\S)")
_PHRASE_FORMS = ("preposition", "participle", "clause", "verb", "gerund")
_OUTER_MARKS = " \t\r\n.,;!?)(\"'*\u201c\u201d"


class Deleter:
    """Finds what goes with a value."""

    def __init__(self, english: English, grammar: Grammar) -> None:
        self.grammar = grammar
        self._parsing = Parsing(english)
        self._nouns = NounCuts(english, grammar)
        self._clauses = ClauseCuts(english)

    def deletion(self, scene: Scene, slot: Slot, segment: Segment, thing: Thing) -> list[Edit]:
        """Return the edits that remove a value: the cut, and what it asks for elsewhere; none where there is no cut."""
        for start, end in self.cuts(scene, slot, segment, thing):
            edit = repaired(scene, Edit(start=start, end=end, new=""))
            if scene.is_code or self._reads_well(scene, edit):
                before = earlier_changes(scene, start) if start < scene.start and not scene.is_code else []
                after = renumbering(scene, edit)
                return [*(Edit(start=low, end=high, new=new) for low, high, new in before), edit, *after]
        return []

    def cuts(self, scene: Scene, slot: Slot, segment: Segment, thing: Thing) -> Iterator[Cut]:
        """Yield the spans that may go, the smallest first."""
        whole = _whole(scene)
        if whole:
            yield whole
        elif scene.is_code:
            yield from _code(scene)
        else:
            yield from _marked_off(scene)
            yield from self._clauses.of_text(scene, segment)
            if not self._clauses.is_definition(scene):
                if thing.form in _PHRASE_FORMS:
                    yield from self._clauses.of_phrase(scene, segment, thing)
                else:
                    if thing.is_clause:
                        yield from self._clauses.of_noun_clause(scene)
                    yield from self._nouns.cuts(scene, slot, thing)
            yield from self._clauses.of_surroundings(scene, segment, thing)

    def _reads_well(self, scene: Scene, edit: Edit) -> bool:
        if edit.start <= scene.sentence_start and edit.end >= scene.sentence_end:
            return True
        left = "" if edit.start < scene.sentence_start else scene.text[scene.sentence_start : edit.start] + edit.new
        right = scene.text[edit.end : scene.sentence_end]
        if edit.end >= scene.sentence_end and scene.right.strip()[-1:] in (".", "?", "!"):
            return False
        if not self.grammar.holds(left, right):
            return False
        before = scene.text[scene.sentence_start : scene.sentence_end]
        return not self._parsing.faults(Change(before, f"{left}{right}".strip(), () if edit.new.strip() else (right,)))


def renumbering(scene: Scene, edit: Edit) -> list[Edit]:
    """Return the new numbers of the items below a numbered item that goes as a whole.

    None where the prompt speaks of a number elsewhere, as in "see step 3".
    """
    text = scene.text
    item = _NUMBERED.match(text, text.rfind("\n", 0, scene.start) + 1)
    if not item or edit.start > item.start() or edit.new or _NUMBER_SPOKEN_OF.search(text):
        return []
    edits: list[Edit] = []
    number = int(item["number"])
    for following in _NUMBERED.finditer(text, edit.end):
        if following["indent"] != item["indent"]:
            continue
        if int(following["number"]) != number + 1 or following["mark"] != item["mark"]:
            break
        edits.append(Edit(start=following.start("number"), end=following.end("number"), new=str(number)))
        number += 1
    return edits


def _whole(scene: Scene) -> Cut | None:
    """Return the sentence, list item or cell that is nothing but the value."""
    if scene.left.strip(_OUTER_MARKS) or scene.right.strip(_OUTER_MARKS) or scene.is_code:
        return None
    text = scene.text
    if scene.is_cell:
        return scene.start, scene.end
    before = text[scene.block_start : scene.sentence_start].strip(" \t-*+\u2022#0123456789.)>")
    if text[scene.sentence_end : scene.block_end].strip() or before:
        return scene.sentence_start, scene.sentence_end
    start = text.rfind("\n", 0, scene.start) + 1
    end = text.find("\n", scene.sentence_end) + 1 or len(text)
    is_paragraph = text[:start].endswith(("\n\n", "\r\n\r\n")) or not start
    blank = re.match(r"(?:[ \t]*\r?\n)+", text[end:]) if is_paragraph else None
    if blank:
        return start, end + blank.end()
    if is_paragraph and end == len(text):
        return len(text[:start].rstrip()), end
    return start, end


def _code(scene: Scene) -> Iterator[Cut]:
    """Yield a keyword argument with its comma, then the value alone."""
    before = scene.text[scene.block_start : scene.start]
    key = re.search(r"[\w\"']+\s*=\s*$", before.rsplit("\n", 1)[-1])
    comma = re.match(r",\s*", scene.text[scene.end : scene.block_end])
    if key and "(" in before:
        yield scene.start - len(key.group()), scene.end + (comma.end() if comma else 0)
    yield scene.start, scene.end


def _marked_off(scene: Scene) -> Iterator[Cut]:
    """Yield the label of a list item, and brackets that hold little else."""
    label = _LABEL.match(scene.right)
    if label and not scene.left.strip():
        yield scene.start, scene.end + label.end()
    before = re.search(r"\s?[(\[](?:[\w.,]+\s+){0,2}$", scene.left)
    after = re.match(r"^\s*[)\]]", scene.right)
    if before and after:
        yield scene.start - (len(scene.left) - before.start()), scene.end + after.end()
