"""Source ``tac``: published task folders of TheAgentCompany; only the files that the agent gets are shown."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from generators.protocol import SourceTask
from generators.sources.checking import Placed, checked
from generators.sources.environment import texts_of
from generators.sources.reading import Finding, Reading, error, usable, warning
from runners.benchmarks.published import PublishedError
from runners.benchmarks.tac import BENCHMARK, PublishedTask, is_task_folder, published_points, read_task, task_of


class TacSource:
    """Task folders.

    Args:
        folders: Task folders, or folders that hold some.
    """

    benchmark = BENCHMARK

    def __init__(self, folders: Sequence[Path]) -> None:
        self._folders = folders

    def tasks(self) -> Sequence[SourceTask]:
        """Return every task, folder by folder in the order of their names.

        Raises:
            SourceError: A file of a task cannot be read or is not what it should be.
        """
        return usable(self.read())

    def read(self) -> Reading:
        """Return the tasks with every finding."""
        tasks: list[Placed] = []
        findings: list[Finding] = []
        for folder in self._folders:
            for each in _candidates(folder):
                if is_task_folder(each):
                    _read(each, tasks, findings)
                else:
                    findings.append(warning(f"{each} has no task.md and is no task"))
        return checked(tasks, findings)


def _candidates(folder: Path) -> list[Path]:
    if is_task_folder(folder):
        return [folder]
    return sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _read(folder: Path, tasks: list[Placed], findings: list[Finding]) -> None:
    try:
        published = read_task(folder)
        task = task_of(published)
        texts = texts_of(published.agent_files)
    except PublishedError as fault:
        findings.append(error(str(fault), folder.name))
        return
    except OSError as fault:
        findings.append(error(f"cannot read {fault.filename}: {fault.strerror}; name a folder you may read"))
        return
    source = SourceTask(task=task, files=texts.files, checkpoint_notes=published.checkpoint_text)
    tasks.append(Placed(source, str(folder)))
    remarks = (
        *published.remarks,
        *_points(published),
        *(f"{name} is too large to be read" for name in texts.too_large),
    )
    findings += [warning(f"{folder}: {remark}", task.task_id) for remark in remarks]


def _points(published: PublishedTask) -> Iterator[str]:
    """Where the text contradicts itself, or what the benchmark grades with."""
    found = published.checkpoints
    if not found.items:
        if published.checkpoint_text.strip():
            yield "checkpoints.md names no checkpoint in a form that is known"
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
