"""Criticality and guessability of a find: what its rule says, and what environment, checkpoints and trajectory show."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property

from generators.extraction.candidate import Candidate
from generators.protocol import Grounding, SourceTask
from runners.folding import fold
from runners.users.wording import lexicon, stem, terms, words

_JOINERS = re.compile(r"[_./-]+")
_REPEATED_KINDS = frozenset({"deliverable", "condition"})
_FILE_KINDS = frozenset({"file_name", "path"})
_LOOKED_UP_ANYWHERE = frozenset({"identifier", "quoted_term"})
_LOOKED_UP_IN_PROSE = frozenset({"person", "name", "rule", "definition", "rounding", "format"})
_PROSE = (".md", ".txt", ".rst", ".eml", ".html", ".log", ".adoc")
_SAYS_MORE = re.compile(
    r"\d|\b(?:of|by|for|per|and|or|in|on|to|with|from|that|which|who|where|what|how|is|are|was|were)\b|[,:]"
)
_QUANTITIES = frozenset(
    {
        "average",
        "mean",
        "median",
        "total",
        "number",
        "sum",
        "count",
        "percentage",
        "share",
        "ratio",
        "maximum",
        "minimum",
    }
    | {"highest", "lowest"}
)
_MOST_BARE_WORDS = 4
_SHORTEST_CHARS = 3
_DATE_OR_NUMBER = re.compile(r"^[\d\s.,:/%$\u20ac-]+$")


class Scores:
    """The scores of one task's finds."""

    def __init__(self, source: SourceTask, grounding: Grounding) -> None:
        self._source = source
        self._files: Mapping[str, str] = source.files if grounding.has_environment else {}
        self._has_checkpoints = grounding.has_checkpoints
        self._trajectory = source.trajectory if grounding.has_trajectory else None

    def of(self, candidate: Candidate, value: str, *, is_request: bool = True) -> tuple[float, float]:
        """Return criticality and guessability, each 0, 0.5 or 1; ``is_request``: its sentence asks for something.

        A name in a sentence that only tells how things are decides nothing.
        What is wanted and which items count can be guessed where the prompt repeats the words. A value that a
        checkpoint speaks of is critical. One that the environment tells, or that the trajectory found before it used
        it, can be discovered; the only file of its kind is obvious.
        """
        criticality, guessability = candidate.labels.criticality, candidate.labels.guessability
        if candidate.kind in _REPEATED_KINDS:
            guessability = 0.5 if self._is_said_elsewhere(value) else 0.0
        if candidate.kind == "deliverable" and _is_bare(value):
            criticality, guessability = 0.5, 0.5
        if candidate.kind == "name" and not is_request:
            criticality = 0.0
        if self._is_graded(candidate, value):
            criticality = 1.0
        if self._files:
            guessability = self._guessability_there(candidate, value, guessability)
        if self._is_found_before_use(value):
            guessability = max(guessability, 0.5)
        return criticality, guessability

    def _is_said_elsewhere(self, value: str) -> bool:
        """Whether at least half of the words of a value that say something stand in the prompt once more."""
        own = Counter(_stems(value))
        repeated = sum(self._stems_of_prompt[stem] > count for stem, count in own.items())
        return bool(own) and 2 * repeated >= len(own)

    def _guessability_there(self, candidate: Candidate, value: str, stated: float) -> float:
        if candidate.kind in _FILE_KINDS and not candidate.is_output:
            return self._guessability_of_file(value, stated)
        if candidate.labels.dimension == "goal" and candidate.kind in _FILE_KINDS:
            return stated
        if len(value) < _SHORTEST_CHARS or _DATE_OR_NUMBER.match(value):
            return stated
        folded = fold(value)
        if candidate.kind == "identifier" and re.fullmatch(r"[a-z]+(?:_[a-z]+)+", folded) and folded in self._text:
            return 1.0
        if candidate.kind in _LOOKED_UP_ANYWHERE and folded in self._text:
            return max(stated, 0.5)
        if candidate.kind in _LOOKED_UP_IN_PROSE and folded in self._prose:
            return max(stated, 0.5)
        return stated

    def _guessability_of_file(self, value: str, stated: float) -> float:
        """The only file of its kind is obvious, one of several can be found; what is not there stays as it is."""
        path = value.strip("/")
        below = [each for each in self._files if each == path or each.endswith("/" + path)]
        if not below:
            inside = [each for each in self._files if each.startswith(path + "/") or f"/{path}/" in each]
            return 0.5 if inside else stated
        kind = _ending(path)
        return 1.0 if sum(_ending(each) == kind for each in self._files) == 1 else 0.5

    def _is_graded(self, candidate: Candidate, value: str) -> bool:
        """Whether a checkpoint or a note about grading holds the value, or every word of a short one."""
        if not self._has_checkpoints or not self._graded_text:
            return False
        folded = fold(value)
        if len(folded) >= _SHORTEST_CHARS and re.search(rf"(?<!\w){re.escape(folded)}(?!\w)", self._graded_text):
            return True
        words = terms(value) | {word for synonym in candidate.synonyms for word in terms(synonym)}
        return candidate.kind in ("ordering", "names_list") and bool(words & self._graded_terms)

    def _is_found_before_use(self, value: str) -> bool:
        """Whether a result of the trajectory held the value before, or without that, an action used it."""
        folded = fold(value)
        if len(folded) < _SHORTEST_CHARS:
            return False
        for arguments, result in self._steps:
            if folded in arguments:
                return False
            if folded in result:
                return True
        return False

    @cached_property
    def _stems_of_prompt(self) -> Counter[str]:
        return Counter(_stems(self._source.task.prompt))

    @cached_property
    def _steps(self) -> tuple[tuple[str, str], ...]:
        return tuple((fold(step.arguments_json), fold(step.result or "")) for step in self._trajectory or ())

    @cached_property
    def _text(self) -> str:
        return fold("\n".join(self._files.values()))

    @cached_property
    def _prose(self) -> str:
        return fold("\n".join(text for path, text in self._files.items() if path.lower().endswith(_PROSE)))

    @cached_property
    def _graded_text(self) -> str:
        return fold("\n".join(self._graded()))

    @cached_property
    def _graded_terms(self) -> frozenset[str]:
        return terms(" ".join(self._graded()))

    def _graded(self) -> Iterator[str]:
        yield from (checkpoint.label for checkpoint in self._source.task.checkpoints)
        yield self._source.checkpoint_notes


def _is_bare(value: str) -> bool:
    """Whether something wanted is a noun with its adjectives, and no quantity: the noun alone still says it."""
    words = value.lower().split()
    return not _SAYS_MORE.search(value.lower()) and words[0] not in _QUANTITIES and len(words) <= _MOST_BARE_WORDS


def _stems(text: str) -> Iterator[str]:
    """Yield the stem of every word that says what a text is about; the parts of names in files count as words."""
    known = lexicon()
    for word in words(_JOINERS.sub(" ", text)):
        if word not in known.stop_terms:
            yield stem(word)


def _ending(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[-1].lower() if "." in name else ""
