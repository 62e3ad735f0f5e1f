"""A slow, obvious reading of the agreement of graders, from the events of a store, with exact fractions."""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations

from lhaw_record.recorder.events import CheckpointScored
from tests.analytics import reference

PASS_MEAN = Fraction(3, 4)


def agreements_of(envelopes, live, benchmark):
    """(grader, other, measure) -> (value, trials with it, trials without)."""
    pairs = defaultdict(list)
    trials = reference.trials_of(envelopes, live).values()
    counting = {trial.counted.stream_id for trial in trials if trial.state == "valid"}
    for stream_id, graded in _graded(envelopes).items():
        if stream_id in counting:
            primary, graders = graded
            for one, other in combinations(sorted(graders), 2):
                pairs[one, other].append((graders[one], graders[other], set(primary)))
    found = {}
    for pair, trials in pairs.items():
        common = [(left, right, whole) for left, right, whole in trials if set(left) & set(right)]
        if common:
            for measure, row in _measures(common, benchmark).items():
                found[(*pair, measure)] = row
    return found


def _graded(envelopes):
    """Stream -> (primary results, grader -> results); a result is (points, of how many), the last one said counts."""
    primary, later = defaultdict(dict), defaultdict(dict)
    for envelope in envelopes:
        event = envelope.event
        if not isinstance(event, CheckpointScored):
            continue
        points = (Fraction(event.score), Fraction(event.total))
        if event.is_primary:
            primary[envelope.stream_id][event.checkpoint_id] = (event.grader, points)
        else:
            grading = later[event.graded_stream_id].setdefault((event.grading_id, event.grader), {})
            grading[event.checkpoint_id] = points
    graded = {}
    for stream_id, gradings in later.items():
        graders = defaultdict(dict)
        for (_, grader), results in sorted(gradings.items()):
            graders[grader].update(results)
        for checkpoint_id, (grader, points) in primary[stream_id].items():
            graders[grader][checkpoint_id] = points
        graded[stream_id] = (primary[stream_id], graders)
    return graded


def _measures(trials, benchmark):
    claims = [
        (_share(left[claim]), _share(right[claim]))
        for left, right, _ in trials
        for claim in sorted(set(left) & set(right))
    ]
    whole = [(left, right) for left, right, everything in trials if set(left) == set(right) == everything]
    agree = [_passes(left, benchmark) == _passes(right, benchmark) for left, right in whole]
    apart = [_coverage(left) - _coverage(right) for left, right in whole]
    equal = Fraction(100 * sum(left == right for left, right in claims), len(claims))
    dropped = len(trials) - len(whole)
    return {
        "exact_agreement_pct": (equal, len(trials), 0),
        "kappa": (kappa(claims), len(trials), 0),
        "pass_agreement_pct": (Fraction(100 * sum(agree), len(agree)) if agree else None, len(agree), dropped),
        "mean_coverage_difference": (sum(apart) / len(apart) if apart else None, len(apart), dropped),
    }


def kappa(claims):
    """Every score of the one grader against every score of the other is what chance would give."""
    observed = sum(abs(left - right) for left, right in claims)
    by_chance = sum(abs(left - right) for left, _ in claims for _, right in claims)
    return 1 - Fraction(observed * len(claims), by_chance) if by_chance else None


def _share(result):
    points, total = result
    return points / total if total else Fraction(0)


def _coverage(results):
    return sum(points for points, _ in results.values()) / sum(total for _, total in results.values())


def _passes(results, benchmark):
    shares = [_share(result) for result in results.values()]
    if benchmark == "mcp_atlas":
        return round(float(sum(shares) / len(shares)), 3) >= PASS_MEAN
    return all(share >= 1 for share in shares)
