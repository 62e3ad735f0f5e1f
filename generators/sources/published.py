"""Sources of published tasks: folders of Harbor and of TheAgentCompany, and instances of SWE-bench Pro."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from lhaw_record.generators.protocol import SourceTask, TrajectoryStep
from lhaw_record.generators.sources.environment_files import files_below, texts_of
from lhaw_record.generators.sources.task_checks import CheckedSource, LocatedTask, SourceFinding, error, warning
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.environments.benchmarks import harbor, swebench_pro, tac
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import refusal
from lhaw_record.runners.environments.benchmarks.published import PublishedError, read_records

_NEVER_SHOWN = ("Dockerfile", ".dockerignore", "docker-compose.yaml")


class PublishedSource(CheckedSource):
    """A source that reads published tasks.

    Args:
        paths: The files, or the folders that are tasks or contain tasks, in order.
    """

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = paths


class HarborSource(PublishedSource):
    """The tasks of folders in Harbor's format.

    The tests say what decides success, and the solution is the trajectory: one step for each of its files. The agent's
    files are those of ``environment/``.
    """

    benchmark = harbor.BENCHMARK

    def found(self) -> Iterator[LocatedTask | SourceFinding]:
        """Yield the tasks of the folders in the given order, in each sorted by name, and what is wrong with them."""
        for folder in self._paths:
            for each in harbor.task_folders(folder):
                try:
                    task = harbor.read_task(each, folder)
                    yield LocatedTask(_harbor_task(task), str(each))
                except PublishedError as fault:
                    yield error(str(fault), each.name)
                    continue
                except OSError as fault:
                    yield error(f"cannot read {fault.filename}: {fault.strerror}", each.name)
                    continue
                reason = refusal(task)
                if reason is not None:
                    yield warning(f"{each}: variants can be made, but it cannot run: {reason}", each.name)


def _harbor_task(folder: harbor.HarborTask) -> SourceTask:
    files = {
        name: path
        for name, path in files_below(folder.folder / "environment").files.items()
        if name not in _NEVER_SHOWN
    }
    solution = [text for step in folder.steps for text in _texts(step.solution).values()]
    tests = dict.fromkeys(each for step in folder.steps for each in step.tests)
    task = harbor.task_of(folder)
    return SourceTask(
        task=task,
        variants=folder.hand_written(task),
        files=texts_of(files).files,
        checkpoint_notes="\n".join(f"{name}:\n{text}" for each in tests for name, text in _texts(each).items()),
        trajectory=tuple(
            TrajectoryStep(name="bash", arguments_json=canonical_json({"command": text}).decode()) for text in solution
        )
        or None,
    )


def _texts(folder: Path) -> dict[str, str]:
    return {name: text for name, text in texts_of(files_below(folder).files).files.items() if text}


class TacSource(PublishedSource):
    """The tasks of published task folders."""

    benchmark = tac.BENCHMARK

    def found(self) -> Iterator[LocatedTask | SourceFinding]:
        """Yield the tasks of the folders in the given order, in each sorted by name, and what is wrong with them."""
        for folder in self._paths:
            for each in _candidates(folder):
                if tac.is_task_folder(each):
                    yield from _tac_task(each)
                else:
                    yield warning(f"{each} has no task.md and is not a task")


def _candidates(folder: Path) -> list[Path]:
    if tac.is_task_folder(folder):
        return [folder]
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _tac_task(folder: Path) -> Iterator[LocatedTask | SourceFinding]:
    try:
        published = tac.read_task(folder)
        task = tac.task_of(published)
        texts = texts_of(published.agent_files)
    except PublishedError as fault:
        yield error(str(fault), folder.name)
        return
    except OSError as fault:
        yield error(f"cannot read {fault.filename}: {fault.strerror}; name a folder you may read")
        return
    source = SourceTask(task=task, files=texts.files, checkpoint_notes=published.checkpoint_text)
    yield LocatedTask(source, str(folder))
    too_large = (f"{name} is too large to be read" for name in texts.too_large)
    for remark in (*published.remarks, *_points(published), *too_large):
        yield warning(f"{folder}: {remark}", task.task_id)


def _points(published: tac.PublishedTask) -> Iterator[str]:
    """Yield a remark wherever the text about checkpoints contradicts itself or the published grader."""
    found = published.checkpoints
    if not found.items:
        if published.checkpoint_text.strip():
            yield "checkpoints.md has no checkpoint in a known form"
        return
    unpriced = [each.title for each in found.items if each.points is None]
    for title in unpriced:
        yield f"{title!r} has no points and counts as 1 point"
    points = sum(1.0 if each.points is None else each.points for each in found.items)
    if found.stated_points is not None and found.stated_points != points:
        yield f"its text says {found.stated_points} points, its checkpoints have {points:g}"
    if found.stated_count is not None and found.stated_count != len(found.items):
        yield f"its text says {found.stated_count} checkpoints, it has {len(found.items)}"
    graded = tac.published_points().get(published.task_id)
    if graded is not None and graded != points:
        yield f"its checkpoints have {points:g} points, the benchmark grades it with {graded}"


class SwebenchProSource(PublishedSource):
    """The tasks in files of published instances."""

    benchmark = swebench_pro.BENCHMARK

    def found(self) -> Iterator[LocatedTask | SourceFinding]:
        """Yield the tasks in the order of the files, each up to its first undecodable record, and what is wrong."""
        for path in self._paths:
            try:
                for place, record in read_records(path):
                    yield from _swebench_task(place, record)
            except PublishedError as fault:
                yield error(str(fault))


def _swebench_task(place: str, record: dict[str, object]) -> Iterator[LocatedTask | SourceFinding]:
    try:
        instance = swebench_pro.instance_of(record, place)
    except PublishedError as fault:
        yield error(str(fault))
        return
    yield LocatedTask(SourceTask(task=swebench_pro.task_of(instance)), f"{place}, task {instance.instance_id}")
    if instance.quoted_columns:
        columns = " and ".join(instance.quoted_columns)
        yield warning(f"{place}: {columns} has a JSON string, whose content is used", instance.instance_id)
