"""Expected questions and failure modes by templates: natural, about exactly the removed thing, known to the matcher."""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec

from generators.protocol import Removal
from generators.rewriting.english import English, english, file_of
from generators.rewriting.frames import Frame, frame_of
from generators.rewriting.grammar import Grammar
from generators.rewriting.occurrences import Occurrence, Prompt
from generators.rewriting.scene import Surroundings
from generators.rewriting.slots import Slots
from generators.rewriting.values import Thing, thing_of
from generators.rewriting.wording import Wording, wording
from recorder.values import ExpectedQuestions, Segment
from runners.users.matcher import matching_segments
from runners.users.wording import lexicon, stem

FILE_NAME = "questions.toml"
_MOST_QUESTIONS = 2
_WORD = re.compile(r"[^\W\d_]+")
_SAID_OFTEN = frozenset({"so", "that", "those", "another", "is", "what", "for", "something", "anything"})
_FIELD = re.compile(r"\{(\w+)\}")
_RECIPIENT = "recipient"
_PERSON = re.compile(r"(?:[A-Z][\w'\u2019-]+ ){1,2}[A-Z][\w'\u2019-]+")
_LAST_RESORT = "Which information is missing here?"


class Templates(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The file: groups of kinds, and templates by key."""

    groups: dict[str, tuple[str, ...]]
    questions: dict[str, tuple[str, ...]]
    failure_modes: dict[str, str]


@cache
def templates(folder: Path | None = None) -> Templates:
    """Return the templates of a folder's ``questions.toml``, or the bundled ones."""
    return msgspec.convert(tomllib.loads(file_of(folder, FILE_NAME).read_text(encoding="utf-8")), Templates)


class Questions:
    """Makes the expected questions and the failure mode of a removal."""

    def __init__(self, folder: Path | None = None) -> None:
        self._templates = templates(folder)
        self._english: English = english(folder)
        self._wording: Wording = wording(folder)
        self._slots = Slots(self._english, Grammar(self._english))

    def expected(self, prompt: Prompt, removal: Removal) -> tuple[ExpectedQuestions, ...]:
        """Return one or two questions for each segment.

        Those come first that the exact matcher takes to be about this segment and about no other; none holds a
        removed value.
        """
        return tuple(
            ExpectedQuestions(segment_id=segment.segment_id, questions=self._questions(prompt, segment, removal))
            for segment in removal.segments
        )

    def failure_mode(self, prompt: Prompt, removal: Removal) -> str:
        """Return what an agent does wrong that asks about none of the segments, a sentence for each."""
        sentences = []
        for segment in removal.segments:
            thing, frame = self._seen(prompt, segment)
            keys = [key for key in self._keys(segment, thing) if key in self._templates.failure_modes]
            template = self._templates.failure_modes[keys[0]]
            defaults = {"topic": "the result", "noun": "thing"}
            filled = _filled(template, frame, defaults) or _filled(template, Frame(), defaults)
            if filled and self._is_clean(prompt, filled, removal):
                sentences.append(filled)
            else:
                sentences.append(self._templates.failure_modes[segment.dimension])
        return " ".join(dict.fromkeys(sentences))

    def _questions(self, prompt: Prompt, segment: Segment, removal: Removal) -> tuple[str, ...]:
        thing, frame = self._seen(prompt, segment)
        clean = [
            question
            for question in dict.fromkeys(self._candidates(segment, thing, frame))
            if self._is_clean(prompt, question, removal)
        ]
        ranked = sorted(clean, key=lambda question: _rank(question, segment, removal.segments))
        known = [question for question in ranked if _rank(question, segment, removal.segments) < _UNKNOWN]
        return tuple(known[:_MOST_QUESTIONS]) or tuple(ranked[:1]) or (_LAST_RESORT,)

    def _candidates(self, segment: Segment, thing: Thing, frame: Frame) -> Iterator[str]:
        own = f"named/{segment.subdimension.lower()}"
        named = (own if own in self._templates.questions else "named",)
        keys = [*self._keys(segment, thing), *named]
        if segment.dimension == "context" and _RECIPIENT not in segment.synonyms:
            keys = [*named, *keys]
        for key in keys:
            for template in self._templates.questions.get(key, ()):
                filled = _filled(template, frame, {})
                if filled:
                    yield filled

    def _keys(self, segment: Segment, thing: Thing) -> Iterator[str]:
        """Yield the keys that fit a segment, the most specific first."""
        kind = self._wording.kind_of(segment.value.strip())
        names = [kind.name] if kind else []
        is_recipient = _RECIPIENT in segment.synonyms and _PERSON.fullmatch(segment.value.strip())
        persons = is_recipient or re.search(
            r"\b(?:inform|notify|invite|tell|ask|contact|email) [A-Z]\w+ [A-Z]", segment.value
        )
        if thing.noun in ("person", "people"):
            names.insert(0, thing.noun)
        elif persons:
            names.insert(0, "recipient" if is_recipient else "person")
        elif thing.form == "number" and not names:
            names.append("number")
        names += [group for group, kinds in self._templates.groups.items() if names and names[-1] in kinds]
        if thing.form == "question":
            yield "question"
        if thing.is_ordinal:
            yield "ordinal"
        for name in (*names, segment.subdimension.lower()):
            yield f"{name}/{segment.dimension}"
            if f"{name}/{segment.dimension}" not in self._templates.questions:
                yield name
        yield segment.dimension

    def _seen(self, prompt: Prompt, segment: Segment) -> tuple[Thing, Frame]:
        place = prompt.own_place(segment)
        assert place is not None, segment.segment_id
        scene = Surroundings(prompt.text).scene(Occurrence(start=place[0], end=place[1]))
        thing = thing_of(scene.text[scene.start : scene.end], scene.left, segment, self._english, self._wording)
        if not self._english.is_english(scene.text[scene.block_start : scene.block_end]):
            return thing, Frame(noun=thing.noun if thing.is_head is False else None)
        return thing, frame_of(scene, self._slots.slot(scene, thing), thing, segment, self._english)

    def _is_clean(self, prompt: Prompt, text: str, removal: Removal) -> bool:
        said = Prompt(text)
        return not any(said.occurrences(segment, prompt) for segment in removal.segments)


_UNKNOWN = 2


def _rank(question: str, segment: Segment, segments: Sequence[Segment]) -> int:
    """0: about this segment alone; 1: about others too; 2: the matcher does not know it."""
    matched = matching_segments(question, "", segments)
    if segment.segment_id not in matched:
        return _UNKNOWN
    return 0 if len(matched) == 1 else 1


def _filled(template: str, frame: Frame, defaults: Mapping[str, str]) -> str | None:
    """Return a template with its fields; None where one has nothing, or where a word would be said twice."""
    fields = {name: getattr(frame, name) or defaults.get(name) for name in _FIELD.findall(template)}
    if any(value is None for value in fields.values()):
        return None
    filled = re.sub(r"(?i)\b(which|what) the\b", r"\1", template.format_map(fields))
    return None if fields and says_twice(filled) else filled


def says_twice(text: str) -> bool:
    """Return whether a question says a word twice that says something: "Which rule applies to the rule?"."""
    known = lexicon().stop_terms
    said = [stem(word) for word in _WORD.findall(text.lower()) if word not in known and word not in _SAID_OFTEN]
    return len(set(said)) < len(said)
