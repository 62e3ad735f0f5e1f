"""``RuleExtractor``: finds the segments of a prompt by rules and scores them by the available evidence."""

from functools import cache
from pathlib import Path

from lhaw_record.generators.extraction.candidate import Candidate
from lhaw_record.generators.extraction.document import Document
from lhaw_record.generators.extraction.lexicon import lexicon
from lhaw_record.generators.extraction.matches import Finder
from lhaw_record.generators.extraction.overlaps import chosen
from lhaw_record.generators.extraction.scoring import Scores
from lhaw_record.generators.extraction.surroundings import text_around
from lhaw_record.generators.extraction.synonyms import wordings
from lhaw_record.generators.protocol import Extraction, Grounding, SourceTask
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Segment
from lhaw_record.runners.models.calls import ModelCaller

VERSION = "9"


@cache
def _code() -> tuple[str, ...]:
    """Return the sources of this package: much of what decides about a segment stands there, not in the data files."""
    return tuple(path.read_text(encoding="utf-8") for path in sorted(Path(__file__).parent.glob("*.py")))


class RuleExtractor:
    """Finds the segments of a prompt without a model. The result is the same on every machine."""

    name = f"rules/{VERSION}"

    def __init__(self) -> None:
        self._lexicon = lexicon()
        self.digest = digest([self.name, self._lexicon.digest, _code()])

    async def extract(self, source: SourceTask, grounding: Grounding, caller: ModelCaller | None = None) -> Extraction:
        """Return the segments of a task, which may be none. ``caller`` is not used."""
        prompt = source.task.prompt
        document = Document(prompt)
        files = source.files if grounding.has_environment else {}
        found = chosen(document, self._lexicon, Finder(document, self._lexicon, frozenset(files)).find())
        scores = Scores(source, grounding)
        segments = []
        written: Candidate | None = None
        for number, candidate in enumerate(found, start=1):
            segments.append(self._segment(document, candidate, number, scores, written))
            if candidate.is_output and candidate.kind in ("file_name", "path"):
                written = candidate
        return Extraction(segments=tuple(segments))

    def _segment(
        self, document: Document, candidate: Candidate, number: int, scores: Scores, written: Candidate | None
    ) -> Segment:
        value = document.text[candidate.start : candidate.end]
        criticality, guessability = scores.of(candidate, value)
        return Segment(
            segment_id=f"S{number}",
            value=value,
            dimension=candidate.labels.dimension,
            subdimension=candidate.labels.subdimension,
            text=text_around(document, candidate.start, candidate.end),
            criticality=criticality,
            guessability=guessability,
            synonyms=wordings(document, self._lexicon, candidate, written),
        )
