"""Source ``tac``: published task folders of TheAgentCompany, with only the files that the agent gets."""

from collections.abc import Iterator
from pathlib import Path

from lhaw_record.generators.protocol import SourceTask
from lhaw_record.generators.sources.environment_files import texts_of
from lhaw_record.generators.sources.reading import Finding, error, warning
from lhaw_record.generators.sources.task_checks import LocatedTask, PublishedSource
from lhaw_record.runners.environments.benchmarks.published import PublishedError
from lhaw_record.runners.environments.benchmarks.tac import (
    BENCHMARK,
    PublishedTask,
    is_task_folder,
    published_points,
    read_task,
    task_of,
)


class TacSource(PublishedSource):
    """The tasks of published task folders."""

    benchmark = BENCHMARK

    def found(self) -> Iterator[LocatedTask | Finding]:
        """Yield the tasks of the folders in the given order, in each sorted by name, and what is wrong with them."""
        for folder in self._paths:
            for each in _candidates(folder):
                if is_task_folder(each):
                    yield from _read(each)
                else:
                    yield warning(f"{each} has no task.md and is not a task")


def _candidates(folder: Path) -> list[Path]:
    if is_task_folder(folder):
        return [folder]
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _read(folder: Path) -> Iterator[LocatedTask | Finding]:
    try:
        published = read_task(folder)
        task = task_of(published)
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


def _points(published: PublishedTask) -> Iterator[str]:
    """Yield a remark wherever the text about checkpoints contradicts itself or the published grader."""
    found = published.checkpoints
    if not found.items:
        if published.checkpoint_text.strip():
            yield "checkpoints.md has no checkpoint in a known form"
        return
    unpriced = [each.title for each in found.items if each.points is None]
    for title in unpriced:
        yield f"{title!r} names no points and counts 1"
    points = sum(1.0 if each.points is None else each.points for each in found.items)
    if found.stated_points is not None and found.stated_points != points:
        yield f"its text says {found.stated_points} points, its checkpoints have {points:g}"
    if found.stated_count is not None and found.stated_count != len(found.items):
        yield f"its text says {found.stated_count} checkpoints, it has {len(found.items)}"
    graded = published_points().get(published.task_id)
    if graded is not None and graded != points:
        yield f"its checkpoints have {points:g} points, the benchmark grades it with {graded}"
