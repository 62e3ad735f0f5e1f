"""A source that checks its tasks, wherever they come from: ids, prompts, checkpoints and trajectories."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import msgspec

from lhaw_record.generators.errors import SourceError
from lhaw_record.generators.protocol import Source, SourceTask

_BYTE_ORDER_MARK = "\ufeff"
_ODD_IN_ID = re.compile(r"[^\w.:@+-]")
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_MOST_CHARACTERS = 100_000  # a longer prompt gives a warning


class SourceFinding(msgspec.Struct, frozen=True, kw_only=True):
    """An error, which makes the source unusable, or a warning.

    ``task_id`` is None if the finding is not about one task. ``message`` names the file and place, if there is one.
    """

    is_error: bool
    message: str
    task_id: str | None = None


class SourceReport(msgspec.Struct, frozen=True, kw_only=True):
    """The readable tasks in a fixed order, and the findings in order of discovery."""

    tasks: tuple[SourceTask, ...]
    findings: tuple[SourceFinding, ...] = ()

    @property
    def errors(self) -> tuple[SourceFinding, ...]:
        return tuple(finding for finding in self.findings if finding.is_error)


class LocatedTask(msgspec.Struct, frozen=True):
    """A task and its place in the source, for messages."""

    source: SourceTask
    place: str


class CheckedSource(Source, Protocol):
    """A source that checks its tasks, and can report all its errors at once. It says itself what it finds."""

    def found(self) -> Iterable[LocatedTask | SourceFinding]:
        """Yield the tasks in a fixed order, and what is wrong. Faults in the files never raise an exception."""
        ...

    def read(self) -> SourceReport:
        """Return all readable tasks, and the findings of the source before the findings of the checks."""
        found = list(self.found())
        placed = [each for each in found if isinstance(each, LocatedTask)]
        own = [each for each in found if isinstance(each, SourceFinding)]
        checked = [finding for each in placed for finding in _findings(each)]
        return SourceReport(
            tasks=tuple(each.source for each in placed), findings=(*own, *checked, *_across(placed, own))
        )

    def tasks(self) -> Sequence[SourceTask]:
        """Return every task.

        Raises:
            SourceError: There are errors; the message gives the first one and the number of others.
        """
        reading = self.read()
        if not reading.errors:
            return reading.tasks
        first, *others = reading.errors
        more = f" ({len(others)} more; 'lhaw-record tasks check' shows all)" if others else ""
        raise SourceError(f"{first.message}{more}")


def error(message: str, task_id: str | None = None) -> SourceFinding:
    return SourceFinding(is_error=True, message=message, task_id=task_id)


def warning(message: str, task_id: str | None = None) -> SourceFinding:
    return SourceFinding(is_error=False, message=message, task_id=task_id)


def is_blank(text: str) -> bool:
    """Return whether a text contains nothing but whitespace and byte order marks."""
    return not text.replace(_BYTE_ORDER_MARK, "").strip()


def _across(placed: Sequence[LocatedTask], findings: Sequence[SourceFinding]) -> Iterator[SourceFinding]:
    """Yield findings about the tasks as a whole: no tasks at all, repeated ids, repeated prompts."""
    if not placed and not any(finding.is_error for finding in findings):
        yield error("there is no task; name files or folders with tasks")
    places: dict[str, str] = {}
    prompts: dict[str, str] = {}
    for each in placed:
        task = each.source.task
        place = places.setdefault(task.task_id, each.place)
        if place is not each.place:
            yield error(
                f"{each.place}: task {task.task_id!r} already exists: {place}; give each task a unique id",
                task.task_id,
            )
        other = prompts.setdefault(task.prompt, task.task_id)
        if other != task.task_id and not is_blank(task.prompt):
            yield warning(f"{each.place}: it has the same prompt as task {other!r}", task.task_id)


def _findings(placed: LocatedTask) -> Iterator[SourceFinding]:
    source, task_id = placed.source, placed.source.task.task_id
    for message in (*_id_errors(task_id), *_prompt_errors(source), *_checkpoint_errors(source), *_step_errors(source)):
        yield error(f"{placed.place}: {message}", task_id)
    for message in (*_id_warnings(task_id), *_prompt_warnings(source.task.prompt), *_other_warnings(source)):
        yield warning(f"{placed.place}: {message}", task_id)


def _id_errors(task_id: str) -> Iterator[str]:
    if not task_id or task_id != task_id.strip() or _CONTROL.search(task_id) or "\n" in task_id:
        yield f"{task_id!r} is not a valid id (empty, a control character, or a space at an end); rename the task"


def _id_warnings(task_id: str) -> Iterator[str]:
    odd = sorted(set(_ODD_IN_ID.findall(task_id)))
    if odd:
        yield f"its id {task_id!r} has {', '.join(map(repr, odd))}, which is awkward in file names and commands"


def _prompt_errors(source: SourceTask) -> Iterator[str]:
    if is_blank(source.task.prompt):
        yield "the prompt is empty; write what the agent is to do"


def _prompt_warnings(prompt: str) -> Iterator[str]:
    if prompt.startswith(_BYTE_ORDER_MARK):
        yield "the prompt begins with a byte order mark, which stays part of it"
    if "\r" in prompt:
        yield "the prompt has Windows line ends, which stay part of it"
    control = sorted(set(_CONTROL.findall(prompt)))
    if control:
        yield f"the prompt has control characters: {', '.join(map(repr, control))}"
    if "\ufffd" in prompt:
        yield "the prompt has replacement characters: it was decoded wrongly before"
    if len(prompt) > _MOST_CHARACTERS:
        yield f"the prompt has {len(prompt)} characters; a model may not accept all of it"


def _checkpoint_errors(source: SourceTask) -> Iterator[str]:
    checkpoints = source.task.checkpoints
    for each in checkpoints:
        if not math.isfinite(each.total) or each.total <= 0:
            yield f"checkpoint {each.checkpoint_id} is worth {each.total:g} points; it must be worth more than 0"
        if is_blank(each.label):
            yield f"checkpoint {each.checkpoint_id} has no label; write what it checks"
    for checkpoint_id, count in Counter(each.checkpoint_id for each in checkpoints).items():
        if count > 1:
            yield f"checkpoint {checkpoint_id!r} occurs {count} times; give each a unique id"


def _step_errors(source: SourceTask) -> Iterator[str]:
    for number, step in enumerate(source.trajectory or (), start=1):
        if not isinstance(json.loads(step.arguments_json), dict):
            yield f"step {number} of the trajectory: the arguments are not an object"
        if is_blank(step.name):
            yield f"step {number} of the trajectory has no name"


def _other_warnings(source: SourceTask) -> Iterator[str]:
    checkpoints = source.task.checkpoints
    if not checkpoints:
        yield "no checkpoints: variants can be made of it, but no trial of it can be graded"
    for label, count in Counter(each.label for each in checkpoints).items():
        if count > 1:
            yield f"{count} checkpoints have the label {label[:60]!r}"
    if source.trajectory == ():
        yield "the trajectory has no steps; leave out an empty trajectory"
