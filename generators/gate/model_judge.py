"""Asks a model what no rule can judge: whether a removed value can be got back, and whether the prompt reads well."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Protocol

import msgspec

from lhaw_record.generators.gate.recoverability import is_told
from lhaw_record.generators.prompts.occurrences import SearchablePrompt
from lhaw_record.generators.protocol import Removal, Rewriting
from lhaw_record.recorder.events import FailedCheck, GateJudgement
from lhaw_record.recorder.events.canonical_json import canonical_json, short_digest
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Severity
from lhaw_record.runners.base.errors import UnusableReply
from lhaw_record.runners.base.text.language import ENGLISH, language_name, language_of
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.llm_jobs.json_replies import json_object
from lhaw_record.runners.models.llm_jobs.prompt_template import PromptTemplate, cut, shortened
from lhaw_record.runners.models.llm_jobs.question import ask
from lhaw_record.runners.models.reply_forms import ReplyForm, object_schema

VERSION = 6
"""Part of the judge's digest. Raise it when questions are asked, or replies read, in another way."""

PARAPHRASE, FROM_FILES, NATURAL, READINGS, QUESTIONS, _ = UNJUDGED = (
    "recoverable_by_paraphrase",
    "recoverable_from_files",
    "reads_naturally",
    "several_readings",
    "questions_fit",
    "adds_nothing",
)
"""What a reader or a model must judge: whether other words or files reveal the value, whether the prompt
reads as a person would write it, whether several readings of it are plausible, whether the questions fit, and whether
common words say something new, such as somebody's role. Rules judge the last one in part."""

_ONLY_IN_ENGLISH = ("nothing_else_changed", "refers_to_something")
"""What the rules judge by English words: which ones turn a demand, or refer to others."""

_FILE_CHARACTERS = 6_000
_ALL_FILES_CHARACTERS = 60_000
_SAMPLING_TEMPERATURE = 1.0
_VALUES_FORM = ReplyForm(
    "values",
    object_schema(
        {
            "values": {
                "type": "array",
                "items": object_schema({"segment_id": {"type": "string"}, "value": {"type": "string"}}),
            }
        }
    ),
)
_POINTS = (
    NATURAL,
    "refers_to_something",
    "is_still_a_task",
    "nothing_else_changed",
    "adds_nothing",
    READINGS,
    QUESTIONS,
)
"""What an editor may object to, by the names of the findings. Only the first three count for a decoy."""
_OF_THE_TEXT = 3
_FAULT = {"point": {"type": "string", "enum": list(_POINTS)}, "quote": {"type": "string"}, "reason": {"type": "string"}}
_FAULTS_FORM = ReplyForm(
    "assessment",
    object_schema({"reading": {"type": "string"}, "faults": {"type": "array", "items": object_schema(_FAULT)}}),
)

CallerOf = Callable[[str], ModelCaller]
"""Returns the model caller for one question, by the question's name."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What a model found against a rewriting, and the record of what it was asked."""

    findings: tuple[FailedCheck, ...]
    record: GateJudgement


class Wordings(Protocol):
    """The prompts of a judge, and what a rewriter is told under each severity, which the editor has to know."""

    guessing: PromptTemplate
    assessing: PromptTemplate
    severities: Mapping[Severity, str]


class ModelJudge:
    """Judges rewritings with a model: an editor that reads them, then an adversary that tries to get the values back.

    Args:
        name: The model's name.
        parameters: Generation parameters. They only enter the digest; the model caller sends its own.
        wordings: The prompts of the adversary and the editor, and what rewriters are told under each severity.
        guesses: How often the adversary tries, without and again with the files.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, Any],
        wordings: Wordings,
        guesses: int = 3,
    ) -> None:
        self.name = name
        self._guessing = wordings.guessing
        self._assessing = wordings.assessing
        self._severities = wordings.severities
        prompts = [self._guessing.source, self._assessing.source, self._severities]
        self.digest = short_digest([*prompts, name, dict(parameters), guesses, VERSION])
        self._guesses = guesses

    async def judge(
        self, original: str, rewriting: Rewriting, removal: Removal, files: Mapping[str, str], caller_of: CallerOf
    ) -> Judgement:
        """Return what the model finds against a rewriting.

        What the editor refuses, the adversary does not see: it asks most often. One right guess is enough for a
        finding. A decoy is only judged as a text: its value is there, and wrong.
        """
        is_decoy = removal.severity == "decoy"
        found = await self._assessed(original, rewriting, removal, caller_of("assessment"))
        judged = [NATURAL] if is_decoy else [NATURAL, READINGS, QUESTIONS]
        guesses = hits = 0
        shown = {PARAPHRASE: None, FROM_FILES: _files_text(files)} if files else {PARAPHRASE: None}
        for check, text in shown.items() if not is_decoy else ():
            if found:
                break  # what the prompt tells, the prompt and the files tell, too
            told = [
                await self._guessed(original, rewriting, removal, text, caller_of(f"{check}-{number}"))
                for number in range(1, self._guesses + 1)
            ]
            judged.append(check)
            guesses, hits = guesses + len(told), hits + sum(map(bool, told))
            if any(told):
                found.append(FailedCheck(check=check, message=_recovered(check, told)))
        record = GateJudgement(
            judge=self.name, judge_digest=self.digest, judged=tuple(judged), guesses=guesses, hits=hits
        )
        return Judgement(findings=tuple(found), record=record)

    async def _guessed(
        self, original: str, rewriting: Rewriting, removal: Removal, files: str | None, caller: ModelCaller
    ) -> tuple[tuple[str, str], ...]:
        """Return what one try got back: pairs of a segment's id and its guessed value."""
        user = self._guessing.user(
            {"task": rewriting.prompt, "files": files, "questions": _questions_text(rewriting.expected_questions)}
        )
        is_fixed = caller.parameters.get("temperature") == 0  # then every try would give the same
        read = partial(_read_values, segments=removal.segments)
        with caller.asking({"temperature": _SAMPLING_TEMPERATURE}, None) if is_fixed else nullcontext():
            values = await ask(caller, self._guessing, user, read, wanted="guess", form=_VALUES_FORM)
        before = SearchablePrompt(original)
        return tuple(
            (segment.segment_id, guess)
            for segment in removal.segments
            for guess in values[segment.segment_id]
            if is_told(segment, guess, before)
        )

    async def _assessed(
        self, original: str, rewriting: Rewriting, removal: Removal, caller: ModelCaller
    ) -> list[FailedCheck]:
        """Return a finding for each fault that the editor quotes."""
        user = self._assessing.user(
            {
                "original": original,
                "segments": "\n".join(
                    canonical_json({"segment_id": each.segment_id, "value": each.value}).decode()
                    for each in removal.segments
                ),
                "severity": self._severities.get(removal.severity),
                "task": rewriting.prompt,
                "questions": _questions_text(rewriting.expected_questions, only_first=False),
            }
        )
        faults = await ask(caller, self._assessing, user, _read_faults, wanted="assessment", form=_FAULTS_FORM)
        counted = _POINTS[:_OF_THE_TEXT] if removal.severity == "decoy" else _POINTS
        return [each for each in faults if each.check in counted]


def unjudged_by(record: GateJudgement | None, severity: Severity | None, prompt: str) -> tuple[str, ...]:
    """Return the points that need a judge and had none. For a decoy, only the text is judged.

    An editor judges all its points, and more of them need one in a prompt that is not English. Whether the files
    reveal a value is unjudged, too, if no file could be read: the environment may have more.
    """
    asked: tuple[str, ...] = (NATURAL,) if severity == "decoy" else UNJUDGED
    asked += () if language_of(prompt) == ENGLISH or severity == "decoy" else _ONLY_IN_ENGLISH
    judged = record.judged if record else ()
    return tuple(each for each in asked if each not in (*judged, *(_POINTS if NATURAL in judged else ())))


def judged_words(record: GateJudgement | None, severity: Severity | None, prompt: str) -> str:
    """Return what the gate records about a variant that passes: its language, its judge, and what was not judged."""
    language = language_of(prompt)
    where = "" if language == ENGLISH else f" that hold in {language_name(language)}"
    said = f"the rules{where} find nothing"
    if record is not None:
        said += f", nor does {record.judge} ({record.hits} of {record.guesses} guesses right)"
    left = unjudged_by(record, severity, prompt)
    return f"{said}; unjudged: {', '.join(left)}" if left else said


def _recovered(check: str, told: Sequence[Sequence[tuple[str, str]]]) -> str:
    segment_id, guess = next(each[0] for each in told if each)
    got = f"{sum(map(bool, told))} of {len(told)} readers got {segment_id} back from the prompt"
    if check == FROM_FILES:
        return f"{got} and the files ({guess[:80]!r}); remove another segment"
    return f"{got} ({guess[:80]!r}); leave nothing from which it follows"


def _questions_text(expected: Sequence[ExpectedQuestions], *, only_first: bool = True) -> str:
    """Return the questions for each segment, or the first for each, one JSON object per line."""
    return "\n".join(
        canonical_json({"segment_id": each.segment_id, "question": question}).decode()
        for each in expected
        for question in (each.questions[:1] if only_first else each.questions) or ("",)
    )


def _files_text(files: Mapping[str, str]) -> str:
    """Return the names and texts of the files, cut to a budget. A file without text is binary."""
    blocks = [f"{name}:\n{cut(text, _FILE_CHARACTERS) or '(not text)'}\n" for name, text in sorted(files.items())]
    return "\n".join(shortened(blocks, _ALL_FILES_CHARACTERS))


def _read_values(reply: str, segments: Sequence[Segment]) -> dict[str, tuple[str, ...]]:
    """Return the guesses by segment id; several if an id is given more than once.

    Each id must be answered: a reader that could not tell says so by an empty value, or by null.
    """
    given = json_object(reply, "values")["values"]
    if not isinstance(given, list):
        raise UnusableReply('there is no list under the key "values"')
    found: dict[str, list[str]] = {segment.segment_id: [] for segment in segments}
    ids = {name.casefold(): name for name in found}
    for each in given:
        if not isinstance(each, Mapping) or "segment_id" not in each or "value" not in each:
            raise UnusableReply('an item of "values" is not an object with "segment_id" and "value"')
        name = ids.get(str(each["segment_id"]).strip().casefold())
        if name is None:
            raise UnusableReply(f"there is no id {each['segment_id']!r}; the ids are {', '.join(found)}")
        if isinstance(each["value"], dict | list | bool):
            raise UnusableReply(f"the value of {name} is not one text")
        found[name].append("" if each["value"] is None else str(each["value"]).strip())
    missing = [name for name, values in found.items() if not values]
    if missing:
        raise UnusableReply(f'{", ".join(missing)} has no value; give an empty one ("") where it cannot be told')
    return {name: tuple(values) for name, values in found.items()}


def _read_faults(reply: str) -> list[FailedCheck]:
    """Return the faults that an editor quotes, each as a finding."""
    found = []
    try:
        for each in msgspec.convert(json_object(reply, "faults")["faults"], list[dict[str, str]]):
            reason, quote = " ".join(each["reason"].split()), " ".join(each["quote"].split())
            if not reason or each["point"] not in _POINTS:
                raise UnusableReply(f"{each!r} is no fault; the points are {', '.join(_POINTS)}")
            found.append(FailedCheck(check=each["point"], message=f"{quote!r}: {reason}" if quote else reason))
    except (msgspec.ValidationError, KeyError) as error:
        raise UnusableReply(f"a fault lacks something: {error}".replace("`", "'")) from error
    return found
