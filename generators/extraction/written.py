"""``WrittenExtractor``: the segments that a person labelled come with the task."""

from lhaw_record.generators.protocol import Extraction, Grounding, SourceTask
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.runners.models.calls import ModelCaller


class WrittenExtractor:
    """Returns the hand-written segments of one task. Implements :class:`lhaw_record.generators.protocol.Extractor`.

    Args:
        source: A task with hand-written segments.
    """

    name = "written"

    def __init__(self, source: SourceTask) -> None:
        self.digest = digest([self.name, [each.segment for each in source.written]])

    async def extract(self, source: SourceTask, grounding: Grounding, caller: ModelCaller | None = None) -> Extraction:
        """Return the segments as they were labelled. Neither ``grounding`` nor ``caller`` is used."""
        return Extraction(segments=tuple(each.segment for each in source.written))
