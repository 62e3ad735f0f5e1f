"""Source ``desk``: the bundled tasks, with the contents of their workspaces as text."""

from collections.abc import Sequence

from generators.protocol import SourceTask
from generators.sources.changed_workspaces import changed_workspaces
from generators.sources.checking import Placed, checked
from generators.sources.environment import sheets_text
from generators.sources.reading import Reading, usable
from runners.benchmarks.desk import DeskBenchmark
from runners.benchmarks.desk.registry import desk_tasks
from runners.benchmarks.desk.template import DeskTask


class DeskSource:
    """The published instances of the desk tasks. There is no trajectory: trials in a store give one."""

    benchmark = DeskBenchmark.name

    def tasks(self) -> Sequence[SourceTask]:
        """Return every task, in the order of their names."""
        return usable(self.read())

    def read(self) -> Reading:
        """Return the tasks with every finding."""
        templates = {template.task_id: template for template in desk_tasks()}
        benchmark = DeskBenchmark()
        tasks = benchmark.tasks()
        changed = changed_workspaces(benchmark, tasks)
        return checked(
            [
                Placed(
                    SourceTask(
                        task=task,
                        files=_texts(templates[task.task_id]),
                        changed_workspaces=changed[task.task_id],
                    ),
                    f"desk task {task.task_id}",
                )
                for task in tasks
            ]
        )


def _texts(template: DeskTask) -> dict[str, str]:
    files = template.build(template.parameters)
    return {
        path: content if isinstance(content, str) else sheets_text(content) for path, content in sorted(files.items())
    }
