"""What every benchmark promises, checked on one: for the tests of a benchmark of your own, and of ours."""

import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence

import anyio
import msgspec

from recorder.values import Task, Variant
from runners.benchmarks.answers import answer_problems
from runners.benchmarks.protocol import Benchmark, Environment, EnvironmentSettings, Grade, HasSandbox
from runners.models.replay import Reference
from runners.sandboxes.process import ProcessSandboxProvider
from runners.sandboxes.protocol import Launch, SandboxLimits, Way
from runners.scratch import scratch_folder

NO_TOOL = "lhaw_record_no_such_tool"
_UNUSED_PORT = 9  # nothing listens there, and the program that is tried calls nobody
_PROGRAM_SECONDS = 60.0


async def problems_of(benchmark: Benchmark, settings: EnvironmentSettings | None = None) -> list[str]:
    """Return every promise that a benchmark breaks, one sentence each; it opens the environment of every task.

    Args:
        benchmark: What is checked.
        settings: How environments are opened; by default in plain processes.
    """
    settings = settings or EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits())
    problems = [*_named(benchmark), *_tasks(benchmark.tasks()), *_variants(benchmark)]
    if [task.task_digest for task in benchmark.tasks()] != [task.task_digest for task in benchmark.tasks()]:
        problems.append("tasks() gives other tasks when it is called again")
    for task in benchmark.tasks():
        problems += [f"task {task.task_id}: {each}" async for each in _environment(benchmark, task, settings)]
    if benchmark.tasks() and getattr(benchmark, "takes_programs", False):
        problems += [each async for each in _programs(benchmark, benchmark.tasks()[0], settings)]
    return problems


def _named(benchmark: Benchmark) -> Iterator[str]:
    for name in ("name", "version", "grader"):
        if not getattr(benchmark, name, ""):
            yield f"{name} is empty; it is part of every trial's identity"


def _tasks(tasks: Sequence[Task]) -> Iterator[str]:
    if not tasks:
        yield "there is no task"
    for task_id, count in Counter(task.task_id for task in tasks).items():
        if count > 1:
            yield f"{count} tasks are called {task_id}"
    for task in tasks:
        ids = [checkpoint.checkpoint_id for checkpoint in task.checkpoints]
        if not task.prompt.strip():
            yield f"task {task.task_id}: the prompt is empty"
        if not ids or len(set(ids)) < len(ids):
            yield f"task {task.task_id}: it needs checkpoints, each with an id of its own"
        if any(checkpoint.total <= 0 for checkpoint in task.checkpoints):
            yield f"task {task.task_id}: a checkpoint is worth no point"


def _variants(benchmark: Benchmark) -> Iterator[str]:
    tasks = {task.task_id: task for task in benchmark.tasks()}
    for variant_id, count in Counter(variant.variant_id for variant in benchmark.variants()).items():
        if count > 1:
            yield f"{count} variants are called {variant_id}"
    for variant in benchmark.variants():
        if variant.benchmark != benchmark.name or variant.task_id not in tasks:
            yield f"variant {variant.variant_id}: {variant.benchmark}/{variant.task_id} is no task of {benchmark.name}"
        else:
            yield from (f"variant {variant.variant_id}: {each}" for each in _variant(variant, tasks[variant.task_id]))


def _variant(variant: Variant, task: Task) -> Iterator[str]:
    if not variant.is_control:
        yield from answer_problems(variant, task)
    if variant.severity == "environment":
        if variant.environment_change is None or variant.prompt != task.prompt:
            yield "with severity environment the prompt stays and environment_change says what is different"
        return
    if variant.is_control:
        return
    if not variant.segments:
        yield "it removes nothing; a control has the origin 'control'"
    for segment in variant.segments:
        if segment.value not in task.prompt:
            yield f"segment {segment.segment_id} is not in the task's prompt to the letter: {segment.value!r}"
        if segment.value in variant.prompt:
            yield f"segment {segment.segment_id} is still in the prompt: {segment.value!r}"


async def _environment(benchmark: Benchmark, task: Task, settings: EnvironmentSettings) -> AsyncIterator[str]:
    async with benchmark.open(task, settings) as environment:
        for each in [each async for each in _tools(environment)]:
            yield each
        untouched = [await environment.grade("", None) for _ in range(2)]
    for each in _grade(untouched[0], task):
        yield each
    if untouched[0].results != untouched[1].results:
        yield "grading twice gives two grades"
    if untouched[0].is_success:
        yield "the task is a success before anything was done"
    reference: Reference | None = getattr(benchmark, "reference", lambda _: None)(task.task_id)
    if reference is None:
        return
    async with benchmark.open(task, settings) as environment:
        grade = await _played(environment, reference)
    for each in _grade(grade, task):
        yield each
    if not grade.is_success:
        yield f"its reference does not succeed: {'; '.join(result.details for result in grade.results)}"


async def _programs(benchmark: Benchmark, task: Task, settings: EnvironmentSettings) -> AsyncIterator[str]:
    """Start a program as a trial of one would, and grade what it left behind."""
    with scratch_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "listener"))
        way = Way(socket=str(folder / "listener"), port=_UNUSED_PORT)
        async with benchmark.open(task, msgspec.structs.replace(settings, way=way)) as environment:
            if not isinstance(environment, HasSandbox) or not environment.sandbox.listener_url:
                yield "takes_programs is true, but the environment has no 'sandbox' that was opened with settings.way"
                return
            launch = Launch(argv=("sh", "-c", "pwd"), environment={}, stdin=b"", max_seconds=_PROGRAM_SECONDS)
            end = await environment.sandbox.run_program(launch, anyio.Event())
            if end.stdout.strip() != environment.sandbox.work_dir:
                yield f"takes_programs is true, but a program does not run in the work directory: {end}"
            for each in _grade(await environment.grade("", None), task):
                yield f"after a program, {each}"


async def _tools(environment: Environment) -> AsyncIterator[str]:
    names = [tool.name for tool in environment.tools]
    if not names or len(set(names)) < len(names):
        yield "the environment needs tools, each with a name of its own"
    if {"ask_user", "submit"} & set(names):
        yield "ask_user and submit are not the environment's to offer"
    for name in (NO_TOOL, *names):
        if not (await environment.call(name, {NO_TOOL: 1})).is_error:
            yield f"calling {name} with an argument that it does not have is no error result"


def _grade(grade: Grade, task: Task) -> Iterator[str]:
    totals = {checkpoint.checkpoint_id: checkpoint.total for checkpoint in task.checkpoints}
    if Counter(result.checkpoint_id for result in grade.results) != Counter(totals.keys()):
        yield "the grade does not have one result for every checkpoint"
        return
    for result in grade.results:
        if not 0 <= result.score <= totals[result.checkpoint_id]:
            yield f"checkpoint {result.checkpoint_id} has {result.score} of {totals[result.checkpoint_id]} points"


async def _played(environment: Environment, reference: Reference) -> Grade:
    """Make the calls of a reference and grade its answer."""
    results = [(await environment.call(call.name, call.arguments)).text for call in reference.calls]
    values = {parameter.name: parameter.written for parameter in reference.parameters}
    return await environment.grade(reference.compose(values, results) if reference.compose else "", None)
