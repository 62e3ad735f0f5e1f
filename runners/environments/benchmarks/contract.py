"""Check that a benchmark keeps its contract. Tests of built-in and third-party benchmarks use this module."""

import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from difflib import get_close_matches
from typing import get_args

import anyio
import msgspec

from lhaw_record.recorder.events.values import Task, Variant
from lhaw_record.runners.base.host.scratch import scratch_folder
from lhaw_record.runners.base.text.normalization import whole
from lhaw_record.runners.environments.benchmarks.expected_answers import answer_problems, answer_remarks
from lhaw_record.runners.environments.benchmarks.protocol import (
    Benchmark,
    Environment,
    EnvironmentSettings,
    Grade,
    Reference,
)
from lhaw_record.runners.environments.benchmarks.refusals import lacking_tools
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, ProgramCommand, SandboxLimits

NO_TOOL = "lhaw_record_no_such_tool"
_UNUSED_PORT = 9  # nothing listens there, and the tried program makes no request
_PROGRAM_SECONDS = 60.0
_ALIKE = 0.85  # of difflib: "why_no_program" is .97 like "why_no_programs", "has_images" .83 like "has_own_images"


async def problems_of(benchmark: Benchmark, settings: EnvironmentSettings | None = None) -> list[str]:
    """Return one sentence for each part of the contract that a benchmark breaks.

    The check opens the environment of every task.

    Args:
        benchmark: The benchmark to check.
        settings: How environments are opened. By default, they run in plain processes.
    """
    settings = settings or EnvironmentSettings(sandbox=ProcessSandboxProvider(), limits=SandboxLimits())
    problems = _members(benchmark, Benchmark)
    if problems:
        return problems
    problems = [*_named(benchmark), *_tasks(benchmark.tasks()), *_variants(benchmark)]
    if [task.task_digest for task in benchmark.tasks()] != [task.task_digest for task in benchmark.tasks()]:
        problems.append("tasks() returns different tasks when it is called again")
    for task in benchmark.tasks():
        problems += [f"task {task.task_id}: {each}" async for each in _environment(benchmark, task, settings)]
    if benchmark.tasks() and not benchmark.why_no_programs:
        problems += [each async for each in _programs(benchmark, benchmark.tasks()[0], settings)]
    return problems


def _members(given: object, kind: type[Benchmark | Environment]) -> list[str]:
    """Return the problems with the attributes of a benchmark or an environment: missing, mistyped or misspelt."""
    if not isinstance(given, kind):
        return [f"{type(given).__name__} does not inherit from {kind.__name__}"]
    places = (vars(each) for each in (*type(given).__mro__, given) if each not in kind.__mro__)
    own = {name for place in places for name in place if not name.startswith("_")}
    declared = {name for name in {*kind.__annotations__, *vars(kind)} if not name.startswith("_")}
    problems = [f"{name} is missing" for name in sorted(declared) if not hasattr(given, name)]
    for name in sorted(own & vars(kind).keys()):
        value = getattr(given, name)
        if isinstance(getattr(kind, name), bool) and not isinstance(value, bool):
            problems.append(f"{name} is {value!r}; it must be True or False")
        elif callable(getattr(kind, name)) and not callable(value):
            problems.append(f"{name} must be a method")
    for name in sorted(own - declared):
        meant = get_close_matches(name, declared - own, n=1, cutoff=_ALIKE)
        problems += [f"it has {name!r}, which is never used; did you mean {each!r}?" for each in meant]
    return problems


def _named(benchmark: Benchmark) -> Iterator[str]:
    for name in ("name", "version", "grader"):
        if not getattr(benchmark, name, ""):
            yield f"{name} is empty; it is part of every trial's identity"
    ways = get_args(Benchmark.__annotations__["tools_over_mcp"])
    if benchmark.tools_over_mcp not in ways:
        yield f"tools_over_mcp is {benchmark.tools_over_mcp!r}; it must be {', '.join(map(repr, ways))}"


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
            yield f"task {task.task_id}: it needs checkpoints, each with a unique id"
        if any(checkpoint.total <= 0 for checkpoint in task.checkpoints):
            yield f"task {task.task_id}: a checkpoint has no points"


def _variants(benchmark: Benchmark) -> Iterator[str]:
    tasks = {task.task_id: task for task in benchmark.tasks()}
    for variant_id, count in Counter(variant.variant_id for variant in benchmark.variants()).items():
        if count > 1:
            yield f"{count} variants are called {variant_id}"
    for variant in benchmark.variants():
        if variant.benchmark != benchmark.name or variant.task_id not in tasks:
            place = f"{variant.benchmark}/{variant.task_id}"
            yield f"variant {variant.variant_id}: {place} is not a task of {benchmark.name}"
        else:
            yield from (f"variant {variant.variant_id}: {each}" for each in _variant(variant, tasks[variant.task_id]))


def _variant(variant: Variant, task: Task) -> Iterator[str]:
    if not variant.is_control:
        yield from (*answer_problems(variant, task), *answer_remarks(variant, task.prompt))
    if variant.severity == "environment":
        if variant.environment_change is None or variant.prompt != task.prompt:
            yield "with severity environment the prompt stays and environment_change says what is different"
        return
    if (variant.follow_up is None) == (variant.fault == "underspecified_follow_up"):
        yield "a follow_up and the fault underspecified_follow_up belong together"
    if variant.is_control or variant.fault is not None:
        return
    if not variant.segments:
        yield "it removes nothing; a control has the origin 'control'"
    for segment in variant.segments:
        if not whole(segment.value).search(task.prompt):
            yield f"segment {segment.segment_id} is not in the task's prompt, letter for letter: {segment.value!r}"
        if whole(segment.value).search(variant.prompt):
            yield f"segment {segment.segment_id} is still in the prompt: {segment.value!r}"


async def _environment(benchmark: Benchmark, task: Task, settings: EnvironmentSettings) -> AsyncIterator[str]:
    async with benchmark.open(task, settings) as environment:
        broken = _members(environment, Environment)
        for each in broken or [each async for each in _tools(environment)]:
            yield each
        for name in () if broken else sorted(lacking_tools(benchmark, task, environment)):
            yield f"it needs the tool {name}, which its environment lacks"
        if broken:
            return
        untouched = [await environment.grade("", None) for _ in range(2)]
    for each in _grade(untouched[0], task):
        yield each
    if untouched[0].results != untouched[1].results:
        yield "grading twice gives different grades"
    if untouched[0].is_success:
        yield "the task is a success before anything was done"
    reference = benchmark.reference(task.task_id)
    if reference is None:
        return
    async with benchmark.open(task, settings) as environment:
        grade = await _played(environment, reference)
    for each in _grade(grade, task):
        yield each
    if not grade.is_success:
        yield f"its reference does not succeed: {'; '.join(result.details for result in grade.results)}"


async def _programs(benchmark: Benchmark, task: Task, settings: EnvironmentSettings) -> AsyncIterator[str]:
    """Start a program as a trial would, then grade the environment that it leaves behind."""
    with scratch_folder() as folder, socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "listener"))
        access = ProgramAccess(socket=str(folder / "listener"), port=_UNUSED_PORT)
        async with benchmark.open(task, msgspec.structs.replace(settings, access=access)) as environment:
            if _members(environment, Environment):
                return
            tools, sandbox = environment.program_tools, environment.sandbox
            if sandbox is None:  # a program works in a sandbox of the experiment, with all tools over MCP
                return
            if benchmark.tools_over_mcp == ("none" if tools else "all"):
                yield f"tools_over_mcp is {benchmark.tools_over_mcp!r}, but programs get {len(tools)} tools over MCP"
            elif tools and not benchmark.has_mcp_tools(task.task_id):
                yield f"has_mcp_tools({task.task_id!r}) is False, but programs get {len(tools)} tools over MCP"
            if not {tool.name for tool in tools} <= {tool.name for tool in environment.tools}:
                yield "program_tools must be some of tools"
            if not sandbox.listener_url:
                yield "the environment has a 'sandbox' that was not opened with settings.access"
                return
            launch = ProgramCommand(argv=("sh", "-c", "pwd"), environment={}, stdin=b"", max_seconds=_PROGRAM_SECONDS)
            end = await sandbox.run_program(launch, anyio.Event())
            if end.stdout.strip() != sandbox.work_dir:
                yield f"a program does not run in the work directory: {end}"
            for each in _grade(await environment.grade("", None), task):
                yield f"after a program, {each}"


async def _tools(environment: Environment) -> AsyncIterator[str]:
    names = [tool.name for tool in environment.tools]
    if not names or len(set(names)) < len(names):
        yield "the environment needs tools, each with a unique name"
    if {"ask_user", "submit"} & set(names):
        yield "the environment must not offer ask_user or submit"
    for name in (NO_TOOL, *names):
        if not (await environment.call(name, {NO_TOOL: 1})).is_error:
            yield f"calling {name} with an argument that it does not have gives no error result"


def _grade(grade: Grade, task: Task) -> Iterator[str]:
    totals = {checkpoint.checkpoint_id: checkpoint.total for checkpoint in task.checkpoints}
    if Counter(result.checkpoint_id for result in grade.results) != Counter(totals.keys()):
        yield "the grade does not have one result for every checkpoint"
        return
    for result in grade.results:
        if not 0 <= result.score <= totals[result.checkpoint_id]:
            yield f"checkpoint {result.checkpoint_id} has {result.score} of {totals[result.checkpoint_id]} points"


async def _played(environment: Environment, reference: Reference) -> Grade:
    """Make the tool calls of a reference solution, then grade its answer."""
    results = [(await environment.call(call.name, call.arguments)).text for call in reference.calls]
    values = {parameter.name: parameter.written for parameter in reference.parameters}
    return await environment.grade(reference.compose(values, results) if reference.compose else "", None)
