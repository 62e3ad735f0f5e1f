"""Chooses which segments to remove together: subsets of high priority, spread over segments and dimensions.

Source: LHAW 3.3, phase 2; priority = criticality x (1 - guessability).
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, cycle

import msgspec

from lhaw_record.generators.prompts.occurrences import own_place
from lhaw_record.generators.protocol import Removal
from lhaw_record.recorder.events.values import Segment, Severity
from lhaw_record.runners.base.text.normalization import whole

_MOST_SEGMENTS = 14  # those of the highest priority; they have about a thousand subsets of four
_SPECIFYING = frozenset({"format", "precision"})
_BETWEEN = re.compile(
    r"[`\"'\u201d)\]]*"
    r"(?:,? (?:which|that|each|all|both)(?: \w+)?(?: (?:is|are|must be|should be|has|have))?|,|\s*\()?"
    r"(?: (?:written|given|formatted|expressed|rounded|measured|sorted|ordered|ranked|separated|listed|arranged))?"
    r"(?: ?\b(?:as|in|to|by|from|the|a|an)\b)*"
    r"[ `\"'\u201c(\[]*"
)
_FILE = re.compile(r"\.[A-Za-z]\w{0,4}$")


class RemovalSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for choosing removals.

    Attributes:
        sizes: How many segments are removed together.
        severities: The severities under which each chosen subset is removed.
        max_per_task: The most subsets to choose for one task.
        min_priority: Segments of lower priority (0 to 1) are never removed.
    """

    sizes: tuple[int, ...] = (1, 2)
    severities: tuple[Severity, ...] = ("delete",)
    max_per_task: int = 12
    min_priority: float = 0.5


def priority(segment: Segment) -> float:
    """Return criticality x (1 - guessability); 0 if either is unknown."""
    if segment.criticality is None or segment.guessability is None:
        return 0.0
    return segment.criticality * (1.0 - segment.guessability)


def choose_removals(
    prompt: str,
    segments: Sequence[Segment],
    settings: RemovalSettings,
    is_possible: Callable[[Removal], bool] = lambda _: True,
) -> tuple[Removal, ...]:
    """Return the removals for a prompt, best first; each subset is removed under every severity.

    The subset sizes take turns. The next subset of a size is the one with the highest mean discounted priority: the
    priority of a segment divided by 1 + (earlier uses of the segment) + 0.5 (earlier uses of its dimension). Ties go to
    the subset that comes first in the prompt.
    """
    worthy = [segment for segment in segments if priority(segment) >= max(settings.min_priority, 1e-9)]
    worthy = sorted(worthy, key=lambda segment: -priority(segment))[:_MOST_SEGMENTS]
    order = {segment.segment_id: place for place, segment in enumerate(segments)}
    worthy.sort(key=lambda segment: order[segment.segment_id])

    def removals_of(subset: tuple[Segment, ...]) -> list[Removal]:
        removals = (Removal(segments=subset, severity=severity) for severity in settings.severities)
        return [removal for removal in removals if is_possible(removal)]

    def subsets_of(size: int) -> list[tuple[Segment, ...]]:
        apart = [subset for subset in combinations(worthy, size) if _is_apart(prompt, subset)]
        ways = [len(removals_of(subset)) for subset in apart]
        least = len(settings.severities) if len(settings.severities) in ways else 1
        return [subset for subset, count in zip(apart, ways, strict=True) if count >= least]

    chosen = _in_turns({size: subsets_of(size) for size in settings.sizes}, settings.max_per_task)
    return tuple(removal for subset in chosen for removal in removals_of(subset))


def _in_turns(left: dict[int, list[tuple[Segment, ...]]], count: int) -> Iterator[tuple[Segment, ...]]:
    """Yield subsets, one of each size in turn, until there are ``count`` or none are left."""
    used: Counter[str] = Counter()
    taken = 0
    for size in cycle(left):
        if taken >= count or not any(left.values()):
            return
        if not left[size]:
            continue
        best = max(left[size], key=lambda subset: _promise(subset, used))
        left[size].remove(best)
        for segment in best:
            used.update((f"segment {segment.segment_id}", f"dimension {segment.dimension}"))
        taken += 1
        yield best


def _promise(subset: Sequence[Segment], used: Counter[str]) -> float:
    discounted = (
        priority(segment) / (1.0 + used[f"segment {segment.segment_id}"] + 0.5 * used[f"dimension {segment.dimension}"])
        for segment in subset
    )
    return sum(discounted) / len(subset)


def _is_apart(prompt: str, subset: Sequence[Segment]) -> bool:
    """Return whether no two segments overlap. Removing one of two overlapping segments would also damage the other."""
    for left, right in combinations(subset, 2):
        if whole(left.value).search(right.value) or whole(right.value).search(left.value):
            return False
        if _overlap(_span(prompt, left), _span(prompt, right)):
            return False
    return True


def _span(prompt: str, segment: Segment) -> tuple[int, int]:
    """Return the span of a segment's value; one before the prompt if it is not there."""
    return own_place(prompt, segment) or (-1, len(segment.value) - 1)


def _overlap(left: tuple[int, int], right: tuple[int, int]) -> bool:
    return left[0] < right[1] and right[0] < left[1]


def chained(prompt: str, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the segments, with ``revealed_after`` set on each segment that specifies the one just before it.

    The later segment has the subdimension ``format`` or ``precision`` and directly follows the earlier one, with only a
    comma, a relative pronoun, a participle or the like between them. The earlier segment must not be a file name,
    because what follows a file name says more than how to write it.
    """
    places = {segment.segment_id: own_place(prompt, segment) for segment in segments}
    parents: dict[str, str] = {}
    for later in segments:
        for earlier in segments:
            left, right = places[earlier.segment_id], places[later.segment_id]
            if left is None or right is None or later.subdimension.lower() not in _SPECIFYING:
                continue
            between = prompt[left[1] : right[0]]
            if left[1] < right[0] and not _FILE.search(earlier.value) and _BETWEEN.fullmatch(between):
                parents[later.segment_id] = earlier.segment_id
    return tuple(
        msgspec.structs.replace(each, revealed_after=parents[each.segment_id]) if each.segment_id in parents else each
        for each in segments
    )


def chain_pairs(prompt: str, segments: Sequence[Segment]) -> list[tuple[Segment, Segment]]:
    """Return each chain as a pair (earlier segment, later segment), in the order of the later segments."""
    known = {segment.segment_id: segment for segment in segments}
    return [(known[each.revealed_after], each) for each in chained(prompt, segments) if each.revealed_after in known]
