"""The tac benchmark: published task folders as tasks, images as environments, published evaluators as graders."""

import os
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Checkpoint, Task, Variant
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.protocol import Benchmark, EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.refusals import refuse_changed_environment
from lhaw_record.runners.environments.benchmarks.tac.environment import TacEnvironment
from lhaw_record.runners.environments.benchmarks.tac.folders import PublishedTask, is_task_folder, read_task
from lhaw_record.runners.environments.benchmarks.tac.opening import CompanyOpening, memory_mb
from lhaw_record.runners.environments.benchmarks.tac.options import MEMORY_MB, TacOptions, read_options
from lhaw_record.runners.environments.benchmarks.tac.task import (
    BENCHMARK,
    GRADER,
    VERSION,
    published_points,
    read_reference,
    task_of,
)
from lhaw_record.runners.experiment.tables import GraderSpec, ModelSpec
from lhaw_record.runners.models.replay import Reference


def open_tac(options: dict[str, Any], base: Path, grader: GraderSpec) -> "TacBenchmark":
    """Return the benchmark that an experiment file describes."""
    judge = grader.judge if grader.kind == "judge" else None
    if judge and not (judge.api_key_env or judge.api_base):
        raise ExperimentError(
            "key 'grader.judge.api_key_env': evaluators ask their model from inside a container and need its key; "
            "name the variable that holds the key"
        )
    benchmark = TacBenchmark(read_options(options, base), judge)
    benchmark.check()
    return benchmark


class TacBenchmark(Benchmark):
    """The tasks of a folder of published task folders.

    Args:
        options: The options of the experiment file.
        judge: The model that evaluators and simulated colleagues ask, or None.
    """

    name = BENCHMARK
    version = VERSION
    ends_on_text = False
    needs_sandbox = "docker"
    has_own_images = True

    def __init__(self, options: TacOptions, judge: ModelSpec | None = None) -> None:
        self._options = options
        self.files = options.paths()
        self.tools_over_mcp = "some" if options.browser else "none"
        self._judge = judge
        self.grader = f"{GRADER}{_asked_with(judge)}:{judge.model}" if judge else GRADER
        folders = sorted(path for path in Path(options.folder).iterdir() if is_task_folder(path))
        self._published = {folder.name: read_task(folder) for folder in folders}

    def check(self) -> None:
        """Reject options with which no trial can succeed."""
        options = self._options
        unknown = sorted(set(options.checkpoints) - set(self._published))
        if unknown:
            raise ExperimentError(f"key 'benchmark.checkpoints': {options.folder} has no task {unknown[0]!r}")
        empty = sorted(task_id for task_id, points in options.checkpoints.items() if not points)
        if empty:
            raise ExperimentError(f"key 'benchmark.checkpoints': {empty[0]!r} has no checkpoints; give their points")
        if options.references and not Path(options.references).is_dir():
            raise ExperimentError(f"key 'benchmark.references': {options.references} is not a folder")
        if not self.tasks():
            first = next(iter(self._published), None)
            reason = f"{first}: {self.why_not(first)}" if first else "it has no folder with a task.md"
            raise ExperimentError(
                f"key 'benchmark.folder': none of {len(self._published)} tasks of {options.folder} can run; {reason}"
            )

    def tasks(self) -> Sequence[Task]:
        return [task for task_id, task in self._tasks.items() if self.why_not(task_id) is None]

    def why_not(self, task_id: str) -> str | None:
        published, options = self._published.get(task_id), self._options
        if published is None:
            return f"{options.folder} has no folder of that name with a task.md"
        if options.only_with is not None and set(published.services) != set(options.only_with):
            return f"it needs {_listed(published.services)}, and benchmark.only_with is {_listed(options.only_with)}"
        missing = [name for name in published.services if not options.services_host and name not in options.services]
        if missing:
            return f"it needs {_listed(missing)}; add benchmark.services.{missing[0]} or benchmark.services_host"
        points = sum(each.total for each in self._tasks[task_id].checkpoints)
        graded = published_points().get(task_id, points)
        if not points:
            return "its checkpoints.md has no points; give those of each checkpoint in benchmark.checkpoints"
        if graded != points and task_id not in options.checkpoints:
            return (
                f"its checkpoints.md has {points:g} points and its evaluator grades with {graded:g}; name those of "
                "each checkpoint in benchmark.checkpoints"
            )
        return None

    def left_out(self) -> Sequence[str]:
        """Return the tasks that cannot run here, without those that ``only_with`` chooses to leave out."""
        only = self._options.only_with
        chosen = [name for name, each in self._published.items() if only is None or set(each.services) == set(only)]
        return [task_id for task_id in chosen if self.why_not(task_id) is not None]

    def remarks(self) -> Sequence[str]:
        """Return remarks on a missing browser and on guessed memory limits."""
        remarks = []
        if not self._options.browser:
            remarks.append("The papers' agents had a browser, but these have none: benchmark.browser gives them one.")
        guessed = self._options.guessed_memory()
        if guessed:
            names = ", ".join(guessed)
            remarks.append(f"{names}: {MEMORY_MB} MB each, a guess: see memory_mb under benchmark.services.")
        return remarks

    def system_prompt(self) -> str:
        """Return the system prompt, which describes the company and has the logins.

        Agents need the logins because, unlike in the original benchmark, they are not logged in before they start.
        """
        return self._told("system.md")

    def program_prompt(self) -> str:
        """Return the prompt for agent programs, which describes the company and has the logins."""
        return self._told("program.md")

    def _told(self, name: str) -> str:
        text = data_path("tac", name).read_text(encoding="utf-8").strip()
        logins = [f"- {name}: {spec.login}" for name, spec in self._options.services.items() if spec.login]
        text = text.format(hostname=self._options.hostname, work_dir=self._options.work_dir)
        parts = [text]
        if self._options.browser:
            parts.append(data_path("tac", "browser.md").read_text(encoding="utf-8").strip())
        if logins:
            parts.append("How to log in:\n" + "\n".join(logins))
        return "\n\n".join(parts)

    def reference(self, task_id: str) -> Reference | None:
        """Return a reference solution, or None if the references folder has no file for the task."""
        return read_reference(Path(self._options.references), task_id) if self._options.references else None

    def memory_mb(self, task_id: str, sandbox_mb: int) -> int:
        """Return the total memory of a trial's containers, in MiB."""
        services = self._published[task_id].services
        return memory_mb(self._options, services, sandbox_mb, has_model=self._judge is not None)

    def secrets(self) -> frozenset[str]:
        """Return the API key of the model that evaluators ask."""
        return frozenset(filter(None, (self._model_variables().get("LITELLM_API_KEY"),)))

    def open(
        self, task: Task, settings: EnvironmentSettings, variant: Variant | None = None
    ) -> AbstractAsyncContextManager[TacEnvironment]:
        """Open the task's container with healthy services, after its init script, without the evaluator."""
        refuse_changed_environment(variant, self.name)
        published = self._published[task.task_id]
        prompt = variant.prompt if variant else task.prompt
        return CompanyOpening(task, published, self._options, self._model_variables(), prompt).open(settings)

    def _model_variables(self) -> dict[str, str]:
        """Return the environment variables with which the images configure the evaluator's model."""
        if self._judge is None:
            return {}
        return {
            "LITELLM_MODEL": self._judge.model,
            "LITELLM_BASE_URL": self._judge.api_base or "",
            "LITELLM_API_KEY": os.environ.get(self._judge.api_key_env or "", ""),
        }

    @cached_property
    def _tasks(self) -> dict[str, Task]:
        return {task_id: self._task(published) for task_id, published in self._published.items()}

    @cached_property
    def _services(self) -> dict[str, str | dict[str, Any]]:
        return {name: spec.identity for name, spec in self._options.services.items()}

    def _task(self, published: PublishedTask) -> Task:
        task, options = task_of(published), self._options
        given = options.checkpoints.get(task.task_id)
        services = {name: self._services[name] for name in published.services if name in self._services}
        browser = {"browser": options.browser.identity} if options.browser else {}
        direct = {"asks_directly": True} if options.asks_directly else {}
        return msgspec.structs.replace(
            task,
            checkpoints=_with_points(task.checkpoints, given) if given else task.checkpoints,
            environment_digest=digest(
                {
                    "folder": task.environment_digest,
                    "image": options.image_of(task.task_id),
                    "services": services,
                    "handling": {name: getattr(options, name) for name in _HANDLING},
                    **browser,
                    **direct,
                }
            ),
        )


_HANDLING = ("hidden", "instruction", "work_dir", "init", "evaluator", "decryption_key", "failure_words")
"""Options that change what an agent sees or how it is graded. They are part of the identity of trials."""


def _asked_with(judge: ModelSpec) -> str:
    """Return a short digest of a model's given parameters; empty if none are given."""
    return f"-{digest(judge.given_parameters)[:12]}" if judge.given_parameters else ""


def _with_points(checkpoints: Sequence[Checkpoint], points: Sequence[float]) -> tuple[Checkpoint, ...]:
    """Return checkpoints with the points of the options. The folder's texts are kept if their number matches."""
    labels = [each.label for each in checkpoints]
    if len(labels) != len(points):
        labels = [f"checkpoint {number}" for number in range(1, len(points) + 1)]
    return tuple(
        Checkpoint(checkpoint_id=f"c{number}", label=label, total=total)
        for number, (label, total) in enumerate(zip(labels, points, strict=True), start=1)
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(sorted(names)) or "no service"
