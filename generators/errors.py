"""Errors of the generators. Each concerns one task or one removal; work on the others continues.

GeneratorError
├── SourceError        a task from a source is unusable; the message names file, line or key, and the remedy
├── ExtractionFailed   no segments for one task
└── RewritingFailed    no variant for one removal
    └── NotRemovable   and no other attempt would make one

If a model cannot be reached, the runners raise ``ModelBoundaryError`` instead.
"""

from lhaw_record.runners.base.errors import RunnerError


class GeneratorError(RunnerError):
    """Base class of the errors in this layer. The message names what is wrong and what to do next."""


class SourceError(GeneratorError):
    """A task from a source is unusable."""


class ExtractionFailed(GeneratorError):
    """An extractor returned nothing usable for one task."""


class RewritingFailed(GeneratorError):
    """A rewriter returned nothing usable for one removal."""


class NotRemovable(RewritingFailed):
    """A rewriter says, with its reason, that no wording can do without the segments."""
