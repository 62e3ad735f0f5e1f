"""Source ``harbor``: task folders in Harbor's format, grounded in their tests and their solutions."""

from collections.abc import Iterator
from pathlib import Path

from lhaw_record.generators.protocol import SourceTask, TrajectoryStep
from lhaw_record.generators.sources.environment_files import files_below, texts_of
from lhaw_record.generators.sources.reading import Finding, error, warning
from lhaw_record.generators.sources.task_checks import LocatedTask, PublishedSource
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.environments.benchmarks.harbor import BENCHMARK, HarborTask, read_task, task_folders, task_of
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import refusal
from lhaw_record.runners.environments.benchmarks.published import PublishedError

_NEVER_SHOWN = ("Dockerfile", ".dockerignore", "docker-compose.yaml")


class HarborSource(PublishedSource):
    """The tasks of folders in Harbor's format.

    The tests say what decides success, and the solution is the trajectory: one step for each of its files. The agent's
    files are those of ``environment/``.
    """

    benchmark = BENCHMARK

    def found(self) -> Iterator[LocatedTask | Finding]:
        """Yield the tasks of the folders in the given order, in each sorted by name, and what is wrong with them."""
        for folder in self._paths:
            for each in task_folders(folder):
                try:
                    harbor = read_task(each)
                    yield LocatedTask(_source_task(harbor), str(each))
                except PublishedError as fault:
                    yield error(str(fault), each.name)
                    continue
                except OSError as fault:
                    yield error(f"cannot read {fault.filename}: {fault.strerror}", each.name)
                    continue
                reason = refusal(harbor)
                if reason is not None:
                    yield warning(f"{each}: variants can be made, but it cannot run: {reason}", each.name)


def _source_task(harbor: HarborTask) -> SourceTask:
    files = {
        name: path
        for name, path in files_below(harbor.folder / "environment").files.items()
        if name not in _NEVER_SHOWN
    }
    solution = [text for step in harbor.steps for text in _texts(step.solution).values()]
    tests = dict.fromkeys(folder for step in harbor.steps for folder in step.tests)
    return SourceTask(
        task=task_of(harbor),
        files=texts_of(files).files,
        checkpoint_notes="\n".join(f"{name}:\n{text}" for folder in tests for name, text in _texts(folder).items()),
        trajectory=tuple(
            TrajectoryStep(name="bash", arguments_json=canonical_json({"command": text}).decode()) for text in solution
        )
        or None,
    )


def _texts(folder: Path) -> dict[str, str]:
    return {name: text for name, text in texts_of(files_below(folder).files).files.items() if text}
