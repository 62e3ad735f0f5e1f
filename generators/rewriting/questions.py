"""Writes expected questions and failure modes from templates, each about exactly one removed segment."""

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec

from generators.protocol import Removal
from generators.rewriting.occurrences import Prompt
from generators.rewriting.wording import wording
from recorder.events.values import ExpectedQuestions, Segment
from recorder.resources import data_path
from runners.simulated_user.matcher import matching_segments

FILE_NAME = "questions.toml"
_MOST_QUESTIONS = 2
_LONGEST_NAME_WORDS = 3
_LAST_RESORT = "Which information is missing here?"


class Templates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of ``questions.toml``: groups of kinds, and templates by key."""

    groups: dict[str, tuple[str, ...]]
    questions: dict[str, tuple[str, ...]]
    failure_modes: dict[str, str]


@cache
def templates() -> Templates:
    """Load the bundled templates."""
    return msgspec.convert(tomllib.loads(data_path("generation", FILE_NAME).read_text(encoding="utf-8")), Templates)


class Questions:
    """Writes the expected questions and the failure mode for a removal."""

    def __init__(self) -> None:
        self._templates = templates()
        self._wording = wording()

    def expected(self, prompt: Prompt, removal: Removal) -> tuple[ExpectedQuestions, ...]:
        """Return one or two questions for each segment. None of them contains a removed value.

        Questions that the simulated user's exact matcher assigns to this segment and no other are preferred.
        """
        return tuple(
            ExpectedQuestions(segment_id=segment.segment_id, questions=self._questions(prompt, segment, removal))
            for segment in removal.segments
        )

    def failure_mode(self, removal: Removal) -> str:
        """Return the failure mode: one sentence per segment about what goes wrong if the agent does not ask."""
        modes = self._templates.failure_modes
        sentences = [next(modes[key] for key in self._keys(segment) if key in modes) for segment in removal.segments]
        return " ".join(dict.fromkeys(sentences))

    def _questions(self, prompt: Prompt, segment: Segment, removal: Removal) -> tuple[str, ...]:
        clean = [
            question
            for question in dict.fromkeys(self._candidates(segment))
            if self._is_clean(prompt, question, removal)
        ]
        ranked = sorted(clean, key=lambda question: _rank(question, segment, removal.segments))
        known = [question for question in ranked if _rank(question, segment, removal.segments) < _UNKNOWN]
        return tuple(known[:_MOST_QUESTIONS]) or tuple(ranked[:1]) or (_LAST_RESORT,)

    def _candidates(self, segment: Segment) -> Iterator[str]:
        own = f"named/{segment.subdimension.lower()}"
        named = own if own in self._templates.questions else "named"
        kind = self._wording.kind_of(segment.value.strip().strip("`\"'"))
        keys = list(self._keys(segment))
        if kind and kind.name in (*self._templates.groups["file"], *self._templates.groups["folder"]):
            keys = keys[:4]  # its name says nothing that a question could use
        else:
            keys.append(named)
        for key in [named, *keys] if segment.dimension == "context" else keys:
            for template in self._templates.questions.get(key, ()):
                if "{name}" not in template:
                    yield template
                elif segment.synonyms and len(segment.synonyms[0].split()) <= _LONGEST_NAME_WORDS:
                    yield template.format(name=segment.synonyms[0])

    def _keys(self, segment: Segment) -> Iterator[str]:
        """Yield the template keys that fit a segment, the most specific first."""
        kind = self._wording.kind_of(segment.value.strip().strip("`\"'"))
        names = [kind.name] if kind else []
        names += [group for group, kinds in self._templates.groups.items() if names and names[-1] in kinds]
        for name in (*names, segment.subdimension.lower()):
            yield f"{name}/{segment.dimension}"
            if f"{name}/{segment.dimension}" not in self._templates.questions:
                yield name
        yield segment.dimension

    def _is_clean(self, prompt: Prompt, text: str, removal: Removal) -> bool:
        said = Prompt(text)
        return not any(said.occurrences(segment, prompt) for segment in removal.segments)


_UNKNOWN = 2


def _rank(question: str, segment: Segment, segments: Sequence[Segment]) -> int:
    """Rank a question by what the exact matcher takes it to be about.

    Return 0 for this segment alone, 1 for this and other segments, and 2 if it does not match this segment.
    """
    matched = matching_segments(question, "", segments)
    if segment.segment_id not in matched:
        return _UNKNOWN
    return 0 if len(matched) == 1 else 1
