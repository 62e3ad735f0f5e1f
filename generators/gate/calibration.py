"""Measures the gate on a kept set of labelled rewritings: which bad ones it misses, which good ones it refuses."""

import tomllib
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import msgspec

from lhaw_record.analytics.statistics.inference import InferenceSettings, Units, estimate
from lhaw_record.generators.gate.decision import Scene, problems_of
from lhaw_record.generators.protocol import Removal, Rewriting, SourceTask
from lhaw_record.generators.sources.desk import DeskSource
from lhaw_record.generators.sources.written import WrittenRewriter
from lhaw_record.recorder.events import FailedCheck
from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Severity
from lhaw_record.recorder.resources import data_path

RULES = "rules"
SETS = ("unseen", "later", "seen", "inverted", "otherwise", "desk")
SEVERITIES: tuple[Severity, ...] = ("delete", "vaguify", "genericize")


class Labelled(msgspec.Struct, frozen=True, kw_only=True):
    """A rewriting that a person labelled. ``fault`` is empty for a good one."""

    prompt_id: str
    original: str
    rewriting: Rewriting
    removal: Removal
    scene: Scene
    fault: str

    def problems(self) -> tuple[FailedCheck, ...]:
        """Return what the gate finds."""
        return problems_of(self.original, self.rewriting, self.removal, self.scene)


class GateRates(msgspec.Struct, frozen=True, kw_only=True):
    """How a judge does on one set. Intervals are 95 %, with prompts as clusters; None with fewer than five prompts.

    Attributes:
        set_name: The set.
        judge: ``rules``, a model, or both together.
        prompts: How many prompts it has.
        bad: How many bad rewritings it has.
        missed: How many of these pass.
        missed_interval: The interval of that share.
        good: How many good rewritings it has.
        refused: How many of these do not pass.
        refused_interval: The interval of that share.
    """

    set_name: str
    judge: str
    prompts: int
    bad: int
    missed: int
    missed_interval: tuple[float, float] | None
    good: int
    refused: int
    refused_interval: tuple[float, float] | None

    def row(self) -> dict[str, object]:
        """Return the rates as a row of the table that ``variants gate`` prints."""
        miss_low, miss_high = self.missed_interval or (None, None)
        low, high = self.refused_interval or (None, None)
        return {
            "set": self.set_name,
            "judge": self.judge,
            "prompts": self.prompts,
            "bad": self.bad,
            "missed": self.missed,
            "miss_rate": round(self.missed / self.bad, 3) if self.bad else None,
            "miss_low": miss_low,
            "miss_high": miss_high,
            "good": self.good,
            "refused": self.refused,
            "false_alarm_rate": round(self.refused / self.good, 3) if self.good else None,
            "false_alarm_low": low,
            "false_alarm_high": high,
        }


@cache
def labelled(name: str) -> tuple[Labelled, ...]:
    """Return one of the kept sets.

    ``unseen`` was written before the gate had a rule and was not read afterwards; ``later`` by somebody who did not
    know the rules, and some rules come from what was missed in it. ``seen`` helped to write the rules, as did the
    hand-written rewritings of ``desk``, which are all good. ``inverted`` and ``otherwise`` were written
    with the rules about words that turn a demand, and about values said in other units, letters or names.
    """
    if name == "desk":
        return tuple(each for source in DeskSource().tasks() for each in _hand_written(source))
    return tuple(
        each
        for path in sorted(data_path("gate", name).glob("*.toml"))
        for prompt in tomllib.loads(path.read_text(encoding="utf-8"))["prompts"]
        for each in _labelled(prompt)
    )


@cache
def rates_on(name: str) -> GateRates:
    """Return how the rules do on one set of ``SETS``."""
    return rates_of(name, RULES, [(each, not each.problems()) for each in labelled(name)])


def rates_of(name: str, judge: str, judged: Sequence[tuple[Labelled, bool]]) -> GateRates:
    """Return how a judge does on one set."""
    bad = [(each.prompt_id, passes) for each, passes in judged if each.fault]
    good = [(each.prompt_id, not passes) for each, passes in judged if not each.fault]
    return GateRates(
        set_name=name,
        judge=judge,
        prompts=len({each.prompt_id for each, _ in judged}),
        bad=len(bad),
        missed=sum(is_error for _, is_error in bad),
        missed_interval=interval_of(bad),
        good=len(good),
        refused=sum(is_error for _, is_error in good),
        refused_interval=interval_of(good),
    )


def interval_of(errors: Sequence[tuple[str, bool]]) -> tuple[float, float] | None:
    """Return the 95 % interval of a share, from pairs of a cluster and whether it counts; None for few clusters."""
    import numpy as np

    clusters = {prompt_id: number for number, prompt_id in enumerate(dict.fromkeys(each for each, _ in errors))}
    units = Units(
        np.array([float(is_error) for _, is_error in errors]),
        np.ones(len(errors)),
        np.array([clusters[prompt_id] for prompt_id, _ in errors]),
    )
    found = estimate("level", units, InferenceSettings())
    return None if found.low is None or found.high is None else (round(found.low, 3), round(found.high, 3))


def _hand_written(source: SourceTask) -> Iterable[Labelled]:
    segments, rewriter = tuple(each.segment for each in source.written), WrittenRewriter(source)
    for written in source.written:
        for severity in SEVERITIES:
            removal = Removal(segments=(written.segment,), severity=severity)
            if not rewriter.is_written(removal):
                continue
            yield Labelled(
                prompt_id=source.task.task_id,
                original=source.task.prompt,
                rewriting=rewriter.rewriting(removal),
                removal=removal,
                scene=Scene(
                    segments=segments, files=source.files, extents=tuple(each.text for each in written.passages)
                ),
                fault="",
            )


def _labelled(prompt: dict[str, Any]) -> Iterable[Labelled]:
    text = prompt["text"]
    segments = {
        each["id"]: Segment(
            segment_id=each["id"], value=each["value"], dimension=each["dimension"], subdimension=each["subdimension"]
        )
        for each in prompt["segments"]
    }
    questions = {each["id"]: tuple(each["questions"]) for each in prompt["segments"]}
    for entry in prompt["rewritings"]:
        segment, severity = segments[entry["of"]], msgspec.convert(entry["how"], Severity)
        asked = ExpectedQuestions(
            segment_id=segment.segment_id, questions=tuple(entry.get("questions", questions[entry["of"]]))
        )
        yield Labelled(
            prompt_id=prompt["id"],
            original=text,
            rewriting=Rewriting(prompt=_edited(text, entry["edits"]), expected_questions=(asked,), failure_mode=""),
            removal=Removal(segments=(segment,), severity=severity),
            scene=Scene(segments=tuple(segments.values()), files=prompt.get("files", {})),
            fault=entry.get("kind", ""),
        )


def _edited(text: str, edits: Sequence[Sequence[str]]) -> str:
    for old, new in edits:
        assert text.count(old) == 1, f"{old!r} must occur once"
        text = text.replace(old, new)
    return text
