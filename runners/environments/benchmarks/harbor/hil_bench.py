"""HiL-Bench's task folders: three of one task, which tell the agent more or less, and a registry of its blockers.

They are ``GROUP/{full_info, baseline, ask_human}`` beside ``GROUP/shared``, or ``NAME-full_info``, ``NAME-baseline``
and ``NAME-ask_human`` with the registry in their ``environment``. The task is that of ``full_info``. Its only variant
has the prompt of ``baseline``, and the blockers are what its user knows. Source: arXiv 2604.09408.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from lhaw_record.recorder.events.values import ExpectedQuestions, Segment, Variant
from lhaw_record.runners.environments.benchmarks.expected_answers import question_remarks
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import (
    BENCHMARK,
    CONFIG,
    HarborTask,
    is_task_folder,
    place_of,
    read_task,
)
from lhaw_record.runners.environments.benchmarks.published import PublishedError, read_text

REGISTRY = Path("ask-human-data", "blocker_registry.json")
ASK_COMMAND = "ask_human"
_FULL, _BASELINE = "full_info", "baseline"
_MODE = re.compile(rf"(?:(.+)[-_])?({_FULL}|{_BASELINE}|{ASK_COMMAND})")
_BULLET = re.compile(r"^\s*[-*•]\s+")


class _Blocker(msgspec.Struct, frozen=True, kw_only=True):
    """What the prompt leaves open, and what settles it. The questions have three names in the published code."""

    id: str
    description: str
    resolution: str
    type: str | tuple[str, ...] = ""
    example_questions: tuple[str, ...] = ()
    acceptable_questions: tuple[str, ...] = ()
    trigger_questions: tuple[str, ...] = ()

    @property
    def questions(self) -> tuple[str, ...]:
        given = self.example_questions or self.acceptable_questions or self.trigger_questions
        return tuple(text for each in given if (text := _BULLET.sub("", each).strip()))

    def segment(self) -> Segment:
        """Return the blocker as a segment. HiL-Bench has no dimensions; its type is the subdimension."""
        kind = self.type if isinstance(self.type, str) else ", ".join(self.type)
        return Segment(
            segment_id=self.id,
            value=self.resolution.strip(),
            text=self.description.strip() or None,
            dimension="unknown",
            subdimension=kind.strip() or "unknown",
            kind="contradiction" if "contradict" in kind.lower() else "removed",
        )


class _Registry(msgspec.Struct, frozen=True, kw_only=True):
    blockers: tuple[_Blocker, ...]


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of one task, by what they tell the agent. ``place`` is the group's folder, or what it would be."""

    place: Path
    folders: dict[str, Path]
    registry: Path | None

    def read(self, dataset: Path) -> HarborTask:
        """Return the task with its variant.

        Raises:
            PublishedError: A folder or the registry is missing, or has another form.
        """
        for mode in (_FULL, _BASELINE):
            if mode not in self.folders:
                raise PublishedError(f"{self.place}: the group has no folder {mode}; get its folders again")
        if self.registry is None:
            raise PublishedError(f"{self.place}: the group has no {REGISTRY}; get its shared files again")
        full, baseline = (read_task(self.folders[mode]) for mode in (_FULL, _BASELINE))
        task_id = place_of(self.place, dataset)
        if full.config.task.name:
            task_id = re.sub(rf"[-_]{_FULL}$", "", full.config.task.name)
        blockers = _blockers(self.registry)
        variant = Variant(
            benchmark=BENCHMARK,
            task_id=task_id,
            variant_id=f"{task_id}/{_BASELINE}",
            prompt=baseline.prompt,
            segments=tuple(each.segment() for each in blockers),
            origin="hand_written",
            expected_questions=tuple(
                ExpectedQuestions(segment_id=each.id, questions=each.questions) for each in blockers
            ),
        )
        return msgspec.structs.replace(full, task_id=task_id, paired=variant, ask_command=ASK_COMMAND)


def task_units(folders: Sequence[Path]) -> list[Path | Group]:
    """Return task folders in their order, those of a group as one."""
    places: dict[Path, dict[str, Path]] = {}
    for folder in folders:
        if match := _MODE.fullmatch(folder.name):
            places.setdefault(folder.parent / match[1] if match[1] else folder.parent, {})[match[2]] = folder
    groups = {
        place: Group(place=place, folders=found, registry=_registry(place, found)) for place, found in places.items()
    }
    member = {
        folder: group
        for group in groups.values()
        for folder in group.folders.values()
        if len(folders) > 1 and (group.registry or _is_named(folder))
    }
    return list({id(unit): unit for folder in folders for unit in [member.get(folder, folder)]}.values())


def remarks_on(task: HarborTask, variant: Variant) -> Iterator[str]:
    """Yield the resolutions that the full prompt lacks, and how many blockers' questions match only word for word."""
    told = " ".join(task.prompt.split())
    for segment in variant.segments:
        if " ".join(segment.value.split()) not in told:
            yield f"{variant.variant_id}: the resolution of {segment.segment_id} is not in {_FULL}'s instruction"
    if unseen := sum(1 for _ in question_remarks(variant)):
        yield (
            f"{variant.variant_id}: for {unseen} of its {len(variant.segments)} blockers, the rules find the "
            f"questions only as people wrote them (docs/benchmarks/hil-bench.md)"
        )


def _registry(place: Path, folders: dict[str, Path]) -> Path | None:
    parents = (place / "shared", *(folder / "environment" for folder in folders.values()))
    return next((path for each in parents if (path := each / REGISTRY).is_file()), None)


def _is_named(folder: Path) -> bool:
    return is_task_folder(folder) and "hil-bench" in read_text(folder / CONFIG)


def _blockers(path: Path) -> tuple[_Blocker, ...]:
    try:
        found = msgspec.json.decode(path.read_bytes(), type=_Registry).blockers
    except msgspec.DecodeError as error:
        raise PublishedError(f"{path}: {error}; get the file again") from error
    ids = [each.id for each in found]
    for each in found:
        if not each.resolution.strip() or ids.count(each.id) > 1:
            problem = "is there twice" if each.resolution.strip() else "has no resolution"
            raise PublishedError(f"{path}: the blocker {each.id!r} {problem}; correct it")
    if not found:
        raise PublishedError(f"{path} has no blockers; get the file again")
    return found
