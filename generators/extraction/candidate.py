"""What a rule found: a span of the prompt with its labels, before it is known what stays."""

import msgspec

from generators.extraction.rules import Labels


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """A span ``[start, end)``; up to ``core_end`` it can stand alone. Of two that overlap the lower rank stays."""

    start: int
    end: int
    core_end: int
    kind: str
    labels: Labels
    rank: int
    synonyms: tuple[str, ...] = ()
    is_output: bool = False

    def overlaps(self, other: "Candidate") -> bool:
        """Return whether the two spans have a character in common."""
        return self.start < other.end and other.start < self.end
