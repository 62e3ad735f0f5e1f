"""The sentences of a prompt that a rewriting changed, before and after."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import accumulate

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
    is_english_block = lru_cache(maxsize=8)(english.is_english)
    starts = [hunk.start for hunk in changes]
    shifts = [0, *accumulate(len(hunk.new) - (hunk.end - hunk.start) for hunk in changes)]
    done_until = 0
    for number, hunk in enumerate(changes):
        scene = surroundings.scene(Occurrence(start=hunk.start, end=max(hunk.end, hunk.start + 1)))
        if hunk.start < done_until or scene.is_code or scene.is_cell:
            continue
        if not is_english_block(original[scene.block_start : scene.block_end], among_english=is_english):
            continue
        low, high = scene.sentence_start, max(scene.sentence_end, hunk.end)
        last = max(bisect_left(starts, high), number + 1)
        within = changes[number:last]
        done_until = high = max(high, within[-1].end)
        after = rewritten[low + shifts[number] : high + shifts[last]]
        gone = tuple(original[each.end : high] for each in within if not each.new.strip())
        yield Change(original[low:high], after.strip(), gone)
