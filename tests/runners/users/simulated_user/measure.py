"""Score the matcher on the kept pairs: ``python -m tests.runners.users.simulated_user.measure`` prints
docs/matcher.md.
"""

import json
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import msgspec

from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.users.simulated_user.matcher import matching_segments

PAIRS = Path(__file__).parent / "pairs.jsonl"
DESK_QUESTIONS = Path(__file__).parent / "desk_questions.toml"


class Pair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question, one removed segment, and whether a person says that the question is about it."""

    pair_id: str
    split: str
    domain: str
    kind: str
    is_about: bool
    question: str
    context: str
    segment: Segment


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of decisions, with positive meaning "the question is about the segment"."""

    true_positives: int = 0
    false_positives: int = 0
    false_negatives: int = 0
    true_negatives: int = 0

    @property
    def precision(self):
        """Right among the pairs that the matcher calls positive."""
        return self.true_positives / (self.true_positives + self.false_positives)

    @property
    def recall(self):
        """Found among the pairs that are positive."""
        return self.true_positives / (self.true_positives + self.false_negatives)

    @property
    def pair_count(self):
        """All pairs scored."""
        return self.true_positives + self.false_positives + self.false_negatives + self.true_negatives


def load_pairs():
    """Return the kept pairs in file order."""
    return [msgspec.convert(json.loads(line), Pair) for line in PAIRS.read_text(encoding="utf-8").splitlines()]


def is_matched(pair):
    """Return the matcher's decision on a pair."""
    return matching_segments(pair.question, pair.context, [pair.segment]) == (pair.segment.segment_id,)


def score(pairs):
    """Return the counts over some pairs."""
    counts = defaultdict(int)
    for pair in pairs:
        right = "true" if is_matched(pair) == pair.is_about else "false"
        counts[f"{right}_{'positives' if is_matched(pair) else 'negatives'}"] += 1
    return Score(**counts)


class DeskQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A question on a variant of desk, and the segments that a person says it asks for."""

    variant: str
    text: str
    about: tuple[str, ...]


def load_desk_questions():
    """Return the questions on variants of desk, each with the segments of its variant."""
    segments = {variant.variant_id: variant.segments for variant in DeskBenchmark().variants()}
    raw = tomllib.loads(DESK_QUESTIONS.read_text(encoding="utf-8"))["questions"]
    return [(question, segments[question.variant]) for question in msgspec.convert(raw, list[DeskQuestion])]


def desk_score(questions):
    """Return the counts over every segment that each question could be about."""
    counts = defaultdict(int)
    for question, segments in questions:
        found = matching_segments(question.text, "", segments)
        for segment in segments:
            is_right = (segment.segment_id in found) == (segment.segment_id in question.about)
            sign = "positives" if segment.segment_id in found else "negatives"
            counts[f"{'true' if is_right else 'false'}_{sign}"] += 1
    return Score(**counts)


def table(pairs, key):
    """Return the rows of one table, with the whole first."""
    groups = {"all": pairs}
    for pair in pairs:
        groups.setdefault(key(pair), [])
    for name, group in list(groups.items())[1:]:
        group.extend(pair for pair in pairs if key(pair) == name)
    rows = ["| group | pairs | positive | precision | recall |", "|---|---|---|---|---|"]
    for name, group in groups.items():
        result = score(group)
        positive = result.true_positives + result.false_negatives
        rows.append(f"| {name} | {result.pair_count} | {positive} | {result.precision:.3f} | {result.recall:.3f} |")
    return rows


def main():
    """Print the figures by split and by dimension, and every pair that the matcher gets wrong."""
    pairs = load_pairs()
    wrong = [
        f"- {'missed' if pair.is_about else 'wrongly matched'} ({pair.pair_id}, {pair.split}): {pair.question} | "
        f"{pair.segment.subdimension}: {pair.segment.text or pair.segment.value}"
        for pair in pairs
        if is_matched(pair) != pair.is_about
    ]
    by_split = table(pairs, lambda pair: pair.split)
    by_dimension = table(pairs, lambda pair: pair.segment.dimension)
    desk = desk_score(load_desk_questions())
    on_desk = f"questions on desk: {desk.pair_count} pairs, precision {desk.precision:.3f}, recall {desk.recall:.3f}"
    sys.stdout.write("\n".join([*by_split, "", *by_dimension, "", *wrong, "", on_desk, ""]))


if __name__ == "__main__":
    main()
