"""Scores criticality and guessability from the rule, the environment, the checkpoints and the trajectory."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from lhaw_record.generators.extraction.candidate import Candidate
from lhaw_record.generators.protocol import Grounding, SourceTask
from lhaw_record.runners.base.text.normalization import normalize
from lhaw_record.runners.users.simulated_user.lexicon import terms

_FILE_KINDS = frozenset({"file_name", "path"})
_LOOKED_UP_ANYWHERE = frozenset({"identifier", "quoted_term"})
_LOOKED_UP_IN_PROSE = frozenset({"person", "rounding", "format"})
_PROSE = (".md", ".txt", ".rst", ".eml", ".html", ".log", ".adoc")
_SHORTEST_CHARS = 3
_DATE_OR_NUMBER = re.compile(r"^[\d\s.,:/%$\u20ac-]+$")


class Scores:
    """Scores the candidates of one task."""

    def __init__(self, source: SourceTask, grounding: Grounding) -> None:
        self._source = source
        self._files: Mapping[str, str] = source.files if grounding.has_environment else {}
        self._has_checkpoints = grounding.has_checkpoints
        self._trajectory = source.trajectory if grounding.has_trajectory else None

    def of(self, candidate: Candidate, value: str) -> tuple[float, float]:
        """Return the criticality and guessability of a candidate, each 0, 0.5 or 1.

        - A value that a checkpoint mentions is critical.
        - A value can be discovered if the environment contains it, or if the trajectory found it before using it.
        - The only file of its kind is obvious.

        Args:
            candidate: The candidate.
            value: Its text in the prompt.
        """
        criticality, guessability = candidate.labels.criticality, candidate.labels.guessability
        if self._is_graded(candidate, value):
            criticality = 1.0
        if self._files:
            guessability = self._guessability_there(candidate, value, guessability)
        if self._is_found_before_use(value):
            guessability = max(guessability, 0.5)
        return criticality, guessability

    def _guessability_there(self, candidate: Candidate, value: str, stated: float) -> float:
        if candidate.kind in _FILE_KINDS and not candidate.is_output:
            return self._guessability_of_file(value, stated)
        if candidate.labels.dimension == "goal" and candidate.kind in _FILE_KINDS:
            return stated
        if len(value) < _SHORTEST_CHARS or _DATE_OR_NUMBER.match(value):
            return stated
        folded = normalize(value)
        if candidate.kind == "identifier" and re.fullmatch(r"[a-z]+(?:_[a-z]+)+", folded) and folded in self._text:
            return 1.0
        if candidate.kind in _LOOKED_UP_ANYWHERE and folded in self._text:
            return max(stated, 0.5)
        if candidate.kind in _LOOKED_UP_IN_PROSE and folded in self._prose:
            return max(stated, 0.5)
        return stated

    def _guessability_of_file(self, value: str, stated: float) -> float:
        """Return the guessability of a file: 1 if it is the only one of its kind, 0.5 if not, ``stated`` if absent."""
        path = value.strip("/")
        below = [each for each in self._files if each == path or each.endswith("/" + path)]
        if not below:
            inside = [each for each in self._files if each.startswith(path + "/") or f"/{path}/" in each]
            return 0.5 if inside else stated
        kind = _ending(path)
        return 1.0 if sum(_ending(each) == kind for each in self._files) == 1 else 0.5

    def _is_graded(self, candidate: Candidate, value: str) -> bool:
        """Return whether a checkpoint or the grading notes mention the value.

        For an ordering or a list of names, one shared word is enough.
        """
        if not self._has_checkpoints or not self._graded_text:
            return False
        folded = normalize(value)
        if len(folded) >= _SHORTEST_CHARS and re.search(rf"(?<!\w){re.escape(folded)}(?!\w)", self._graded_text):
            return True
        words = terms(value) | {word for synonym in candidate.synonyms for word in terms(synonym)}
        return candidate.kind in ("ordering", "names_list") and bool(words & self._graded_terms)

    def _is_found_before_use(self, value: str) -> bool:
        """Return whether a result in the trajectory contains the value before any action uses it."""
        folded = normalize(value)
        if len(folded) < _SHORTEST_CHARS:
            return False
        for arguments, result in self._steps:
            if folded in arguments:
                return False
            if folded in result:
                return True
        return False

    @cached_property
    def _steps(self) -> tuple[tuple[str, str], ...]:
        return tuple((normalize(step.arguments_json), normalize(step.result or "")) for step in self._trajectory or ())

    @cached_property
    def _text(self) -> str:
        return normalize("\n".join(self._files.values()))

    @cached_property
    def _prose(self) -> str:
        return normalize("\n".join(text for path, text in self._files.items() if path.lower().endswith(_PROSE)))

    @cached_property
    def _graded_text(self) -> str:
        return normalize("\n".join(self._graded()))

    @cached_property
    def _graded_terms(self) -> frozenset[str]:
        return terms(" ".join(self._graded()))

    def _graded(self) -> Iterator[str]:
        yield from (checkpoint.label for checkpoint in self._source.task.checkpoints)
        yield self._source.checkpoint_notes


def _ending(path: str) -> str:
    name = path.rsplit("/", 1)[-1]
    return name.rsplit(".", 1)[-1].lower() if "." in name else ""
