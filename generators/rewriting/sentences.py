"""The sentences of a prompt that a rewriting changed, before and after."""

from collections.abc import Iterator, Sequence

import msgspec

from generators.rewriting.diff import Hunk
from generators.rewriting.english import English
from generators.rewriting.occurrences import Occurrence
from generators.rewriting.scene import Surroundings

_SAMPLE_CHARS = 4000


class Change(msgspec.Struct, frozen=True):
    """A sentence before and after; ``following`` is what stood in it behind each place where something is gone."""

    before: str
    after: str
    following: tuple[str, ...] = ()


def changed_sentences(original: str, rewritten: str, changes: Sequence[Hunk], english: English) -> Iterator[Change]:
    """Yield the English sentences, outside code and tables, in which something changed and something is left."""
    surroundings = Surroundings(original)
    is_english = english.is_english(original[:_SAMPLE_CHARS])
    done_until = 0
    for hunk in changes:
        scene = surroundings.scene(Occurrence(start=hunk.start, end=max(hunk.end, hunk.start + 1)))
        if hunk.start < done_until or scene.is_code or scene.is_cell:
            continue
        block = original[scene.block_start : scene.block_end]
        if not english.is_english(block, among_english=is_english):
            continue
        low, high = scene.sentence_start, max(scene.sentence_end, hunk.end)
        within = [each for each in changes if low <= each.start < high]
        high = max(high, *(each.end for each in within))
        done_until = high
        after = rewritten[low + _shift(changes, low) : high + _shift(changes, high)]
        gone = tuple(original[each.end : high] for each in within if not each.new.strip())
        yield Change(original[low:high], after.strip(), gone)


def _shift(changes: Sequence[Hunk], place: int) -> int:
    return sum(len(each.new) - (each.end - each.start) for each in changes if each.end <= place and each.start < place)
