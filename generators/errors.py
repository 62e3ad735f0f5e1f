"""What can go wrong while a benchmark is made. Each is of one thing; what is made beside it goes on.

GeneratorError
├── SourceError        a task that was given cannot be used: file, line or key, and the remedy
├── ExtractionFailed   no segments for one task; the others go on
└── RewritingFailed    no variant for one removal; the others go on

A model that cannot be reached is a ModelBoundaryError of the runners.
"""

from runners.errors import RunnerError


class GeneratorError(RunnerError):
    """Base of the errors of this layer; the message names the thing and the next step."""


class SourceError(GeneratorError):
    """A task that was given cannot be used as it is."""


class ExtractionFailed(GeneratorError):
    """An extractor gave nothing usable for one task."""


class RewritingFailed(GeneratorError):
    """A rewriter gave nothing usable for one removal."""
