"""Source ``desk``: the bundled tasks, with the contents of their workspaces as text."""

from collections.abc import Iterable

from lhaw_record.generators.protocol import SourceTask, WrittenPassage, WrittenSegment
from lhaw_record.generators.sources.environment_files import sheets_text
from lhaw_record.generators.sources.task_checks import CheckedSource, LocatedTask
from lhaw_record.recorder.events.values import Severity
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.desk.task import (
    DeskTask,
    PassageEntry,
    desk_tasks,
    environment_variants,
)
from lhaw_record.runners.environments.benchmarks.variants_file import segment_of


class DeskSource(CheckedSource):
    """The published instances of the desk tasks. They have no trajectories; recorded trials provide those."""

    benchmark = DeskBenchmark.name

    def found(self) -> Iterable[LocatedTask]:
        """Yield the tasks, sorted by name."""
        templates = {template.task_id: template for template in desk_tasks()}
        for task in DeskBenchmark().tasks():
            template = templates[task.task_id]
            source = SourceTask(
                task=task,
                files=_texts(template),
                variants=environment_variants(template),
                written=_written(template),
            )
            yield LocatedTask(source, f"desk task {task.task_id}")


def _written(template: DeskTask) -> tuple[WrittenSegment, ...]:
    """Return the segments of a task with what its ``variants.toml`` puts in the place of each."""
    return tuple(
        WrittenSegment(
            segment=segment_of(entry, f"S{number}", template.fill),
            passages=tuple(_passage(template, passage) for passage in entry.passages),
            questions=entry.expected_questions,
            failure_mode=entry.failure_mode,
        )
        for number, entry in enumerate(template.variants_file().segments, start=1)
    )


def _passage(template: DeskTask, entry: PassageEntry) -> WrittenPassage:
    replacements: dict[Severity, str | None] = {
        "delete": entry.delete,
        "vaguify": entry.vaguify,
        "genericize": entry.genericize,
    }
    return WrittenPassage(
        text=template.fill(entry.text),
        replacements={each: template.fill(text) for each, text in replacements.items() if text is not None},
    )


def _texts(template: DeskTask) -> dict[str, str]:
    files = template.build(template.parameters)
    return {
        path: content if isinstance(content, str) else sheets_text(content) for path, content in sorted(files.items())
    }
