"""Chooses variants by a quota for each class, spread over tasks, dimensions, segment counts and severities.

Variants are chosen one by one. The next one comes from the class with the smallest filled share of its quota. Within
the class, the variant whose task was chosen least often is taken. Ties are broken by how often its dimensions, its
segment count and its severity were chosen. Each is counted first within the class, then in the whole set. A hash of the
seed breaks the remaining ties.

Source: LHAW 3.6.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction

import msgspec

CLASSES = ("outcome-critical", "divergent", "benign")
PERCENTS = {"outcome-critical": 40, "divergent": 30, "benign": 30}
MAX_VARIANTS = 85


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A variant that may be chosen. ``dimensions`` has no duplicates; ``severity`` may be ``unknown``."""

    variant_id: str
    variant_digest: str
    task_id: str
    dimensions: tuple[str, ...]
    segment_count: int
    severity: str
    ambiguity_class: str


def quotas(max_variants: int, percents: Mapping[str, int] = PERCENTS) -> dict[str, int]:
    """Return the quota of each class, rounded by the largest remainder; ties go to the first class of ``CLASSES``."""
    assert sum(percents.values()) == 100, percents
    wanted = {name: max_variants * percents.get(name, 0) // 100 for name in CLASSES}
    by_remainder = sorted(CLASSES, key=lambda name: -(max_variants * percents.get(name, 0) % 100))
    for name in by_remainder[: max_variants - sum(wanted.values())]:
        wanted[name] += 1
    return wanted


def choose(candidates: Sequence[Candidate], wanted: Mapping[str, int], seed: int = 0) -> tuple[Candidate, ...]:
    """Return the chosen variants in the order of choice, so that the first n are well spread for every n.

    A class with too few variants stays short; other classes do not make up for it.
    """
    left = {name: [each for each in candidates if each.ambiguity_class == name] for name in wanted}
    taken: Counter[str] = Counter()
    used: Counter[tuple[str, ...]] = Counter()
    chosen = []
    while open_classes := [name for name in wanted if taken[name] < wanted[name] and left[name]]:
        name = min(open_classes, key=lambda each: Fraction(taken[each], wanted[each]))
        best = min(left[name], key=lambda each: (*_crowding(each, used), _chance(each, seed)))
        left[name].remove(best)
        taken[name] += 1
        used.update(_features(best))
        chosen.append(best)
    return tuple(chosen)


def _features(candidate: Candidate) -> Iterator[tuple[str, ...]]:
    """Yield the features of a variant that are counted, once for its class and once for the whole set."""
    for scope in (candidate.ambiguity_class, "all"):
        yield scope, "task", candidate.task_id
        for dimension in candidate.dimensions:
            yield scope, "dimension", dimension
        yield scope, "segments", str(candidate.segment_count)
        yield scope, "severity", candidate.severity


def _crowding(candidate: Candidate, used: Mapping[tuple[str, ...], int]) -> Iterator[int | Fraction]:
    """Yield how often each feature of the variant was chosen before. For several dimensions, this is the mean."""
    scopes = (candidate.ambiguity_class, "all")
    for scope in scopes:
        yield used[scope, "task", candidate.task_id]
    for scope in scopes:
        times = [used[scope, "dimension", dimension] for dimension in candidate.dimensions]
        yield Fraction(sum(times), max(1, len(times)))
    for scope in scopes:
        yield used[scope, "segments", str(candidate.segment_count)]
    for scope in scopes:
        yield used[scope, "severity", candidate.severity]


def _chance(candidate: Candidate, seed: int) -> str:
    return hashlib.sha256(f"{seed}:{candidate.variant_digest}".encode()).hexdigest()
