"""Defines a candidate: a labelled span of the prompt that a rule matched, before overlaps are resolved."""

import msgspec

from lhaw_record.generators.extraction.rules import Labels


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate segment: the span ``[start, end)`` of the prompt. Of two that overlap, the lower rank wins.

    One that is not sure, because its part in the task is open, only keeps the others out of its span.
    """

    start: int
    end: int
    kind: str
    labels: Labels
    rank: int
    synonyms: tuple[str, ...] = ()
    is_sure: bool = True

    @property
    def is_output(self) -> bool:
        """Whether the task produces what stands there."""
        return self.labels.dimension == "goal"
