"""Finds answer-contingent chains: segments that say how the value just before them is written, ordered or rounded.

An agent can ask for the later value only once it knows the earlier one. Example: "grouped by week, weeks start on
Monday".
"""

import re
from collections.abc import Sequence

import msgspec

from lhaw_record.generators.prompts.occurrences import Prompt
from lhaw_record.recorder.events.values import Segment

_SPECIFYING = frozenset({"format", "precision"})
_BETWEEN = re.compile(
    r"[`\"'\u201d)\]]*"
    r"(?:,? (?:which|that|each|all|both)(?: \w+)?(?: (?:is|are|must be|should be|has|have))?|,|\s*\()?"
    r"(?: (?:written|given|formatted|expressed|rounded|measured|sorted|ordered|ranked|separated|listed|arranged))?"
    r"(?: ?\b(?:as|in|to|by|from|the|a|an)\b)*"
    r"[ `\"'\u201c(\[]*"
)
_FILE = re.compile(r"\.[A-Za-z]\w{0,4}$")


def chained(prompt: str, segments: Sequence[Segment]) -> tuple[Segment, ...]:
    """Return the segments, with ``revealed_after`` set on each segment that specifies the one just before it.

    The later segment has the subdimension ``format`` or ``precision`` and directly follows the earlier one, with only a
    comma, a relative pronoun, a participle or the like between them. The earlier segment must not be a file name,
    because what follows a file name says more than how to write it.
    """
    text = Prompt(prompt)
    places = {segment.segment_id: text.own_place(segment) for segment in segments}
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
