"""A benchmark of one's own: the template's tests pass as written, and the contract names every broken promise."""

import os
import subprocess
import sys
from contextlib import asynccontextmanager, nullcontext
from pathlib import Path

import msgspec
import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.events.values import Checkpoint, ExpectedQuestions
from lhaw_record.recorder.processes import allow_pandas, refuse_pandas
from lhaw_record.runners.base.errors import ExperimentError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks import known_benchmarks, open_benchmark
from lhaw_record.runners.environments.benchmarks.contract import problems_of
from lhaw_record.runners.environments.benchmarks.desk import DeskBenchmark
from lhaw_record.runners.environments.benchmarks.new_benchmark import write_benchmark
from lhaw_record.runners.environments.benchmarks.protocol import (
    Benchmark,
    Environment,
    Grade,
    ToolDefinition,
    ToolResult,
)
from lhaw_record.runners.environments.benchmarks.refusals import lacking_tools, refuse_lack
from lhaw_record.runners.environments.grading.grade import failed_grade
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.support.toy_plan import ListedBenchmark

ROOT = Path(__file__).parents[4]
BENCHMARKS = "lhaw_record.runners.environments.benchmarks"
DESK = f"from {BENCHMARKS}.desk import DeskBenchmark\ndef open_benchmark(*_): return DeskBenchmark()"
PICKY = """
from lhaw_record.runners.base.errors import ExperimentError
def open_benchmark(*_):
    raise ExperimentError('key x')
"""
ABSTRACT = f"from {BENCHMARKS}.protocol import Benchmark\ndef open_benchmark(*_): return Benchmark()"


def installed(folder, name):
    """Make a package found as `pip install -e` would, without a network."""
    info = folder / f"{name}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[lhaw_record.benchmarks]\n{name} = {name}:open_benchmark\n")


@pytest.mark.thorough
def test_the_template_passes_its_own_tests(tmp_path, capsys):
    """What the command writes is whole under its new name: the contract holds and every condition runs."""
    folder = tmp_path / "shop"
    assert main(["new-benchmark", "web_shop", "--to", str(folder)]) == 0
    assert f"pip install -e {folder}" in capsys.readouterr().err
    assert not [path for path in folder.rglob("*") if path.is_file() and "my_benchmark" in path.read_text().lower()]
    installed(folder, "web_shop")
    environment = {**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(folder / "tests")]
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=1800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 passed" in done.stdout


def test_the_template_lies_in_the_bundle_as_it_is_linted():
    """The template is real code under its own name, so that ruff and the reader see what users get."""
    assert {path.name for path in (ROOT / "data" / "new_benchmark").iterdir()} >= {
        "my_benchmark",
        "tests",
        "pyproject.toml",
    }


@pytest.mark.parametrize(
    "name", ["Web", "web-shop", "1shop", "class", "tests", "web__shop", "desk", "os", "pytest", ""]
)
def test_names_that_cannot_be(tmp_path, name):
    """A name that no package can have, or that is taken, is refused before anything is written."""
    with pytest.raises(
        ExperimentError, match=r"cannot name a benchmark|there is already a benchmark|name of a Python module"
    ):
        write_benchmark(name, tmp_path / "x")
    assert not (tmp_path / "x").exists()


def test_nothing_is_overwritten(tmp_path):
    """A folder with something in it is left alone."""
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(ExperimentError, match="already exists"):
        write_benchmark("web_shop", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.fixture
def offering(tmp_path, monkeypatch):
    """Write a package that offers a benchmark by some code."""

    def offer(name, code):
        (tmp_path / f"{name}.py").write_text(code)
        installed(tmp_path, name)
        monkeypatch.syspath_prepend(str(tmp_path))
        return open_benchmark(name, {}, tmp_path, GraderSpec())

    return offer


@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("broken_one", "raise RuntimeError('no luck')", "broken_one .* cannot be opened: RuntimeError: no luck"),
        ("renamed", DESK, "opens 'desk' under the name 'renamed'"),
        ("picky", PICKY, "^key x$"),
        ("naked", "def open_benchmark(*_): return object()", "opens a object, which does not inherit from Benchmark"),
        ("abstract", ABSTRACT, "abstract method"),
    ],
)  # fmt: skip
def test_a_package_that_cannot_be_opened_is_named(offering, name, code, message):
    """Whatever a plug-in does, the message has its name and what it raised."""
    with pytest.raises(ExperimentError, match=message):
        offering(name, code)
    assert name in known_benchmarks()


def test_a_package_may_need_pandas(offering):
    """Our program keeps pandas out of its way; the benchmark of somebody else finds nothing in its own."""
    code = (
        f"import sys\nfrom {BENCHMARKS}.desk import DeskBenchmark\nfinders = list(sys.meta_path)\n"
        "def open_benchmark(*_):\n    found = DeskBenchmark()\n    found.name = 'tabular'\n"
        "    found.finders = finders\n    return found\n"
    )
    before = list(sys.meta_path)
    refuse_pandas()
    try:
        assert offering("tabular", code).finders == before
    finally:
        allow_pandas()


def test_an_unknown_benchmark_says_what_there_is(tmp_path):
    """The message lists the known names and where to read on."""
    with pytest.raises(ExperimentError, match=r"known: desk, mcp_atlas.*docs/own-tasks\.md"):
        open_benchmark("web_shop", {}, tmp_path, GraderSpec())


async def test_desk_keeps_the_contract():
    """Our own benchmark makes the same promises."""
    assert await problems_of(DeskBenchmark()) == []


class BareEnvironment(Environment):
    """What an environment must have, and no more."""

    tools = (ToolDefinition(name="work", description="Work.", input_schema={"type": "object"}),)

    async def call(self, name, arguments):
        """Refuse every call."""
        return ToolResult(text="no", is_error=True)

    async def grade(self, final_answer, ask_judge):
        """Fail every checkpoint."""
        return failed_grade(BareBenchmark().tasks()[0].checkpoints, "nothing was done")


class BareBenchmark(Benchmark):
    """What a benchmark must have, and no more."""

    name, version, grader, ends_on_text = "bare", "1", "bare-1", True

    def tasks(self):
        """One task."""
        return ListedBenchmark(tasks=1).tasks()

    def variants(self):
        """None."""
        return []

    def system_prompt(self):
        """Nothing."""
        return ""

    @asynccontextmanager
    async def open(self, task, settings, variant=None):
        """Open at once."""
        yield BareEnvironment()


async def test_what_is_optional_has_defaults():
    """A benchmark that defines only what it must keeps the contract."""
    assert await problems_of(BareBenchmark()) == []


async def test_an_environment_without_what_its_task_needs_never_opens(monkeypatch):
    """The contract names each tool that is lacking, and no trial begins; before a run, every such task is told."""
    needed = frozenset({"telephone", *(tool.name for tool in BareEnvironment.tools)})
    monkeypatch.setattr(BareBenchmark, "needed_tools", lambda *_: needed)
    benchmark, (task,) = BareBenchmark(), BareBenchmark().tasks()
    assert await problems_of(benchmark) == ["task t0: it needs the tool telephone, which its environment lacks"]
    with pytest.raises(SandboxBoundaryError, match="t0 needs 1 tools that its environment lacks") as raised:
        refuse_lack({task.task_id: lacking_tools(benchmark, task, BareEnvironment())})
    assert (raised.value.kind, raised.value.is_retry_owed) == ("lacks_tools", False)
    tasks = [msgspec.structs.replace(task, task_id=name) for name in ("t1", "t2", "t3")]
    lacks = {"t1": frozenset(), "t2": needed, "t3": needed | {"fax"}}
    monkeypatch.setattr(BareBenchmark, "needed_tools", lambda _, task_id: lacks[task_id])
    found = await benchmark.lacking_tools(tasks, None)
    assert found == {"t2": frozenset({"telephone"}), "t3": frozenset({"telephone", "fax"})}
    with pytest.raises(SandboxBoundaryError, match=r"t2 needs 1 tools .*\n.*t3 needs 2 tools"):
        refuse_lack(found)


async def test_what_does_not_inherit_is_named(monkeypatch):
    """The contract says which class lacks the base class."""
    assert await problems_of(object()) == ["object does not inherit from Benchmark"]
    monkeypatch.setattr(BareBenchmark, "open", lambda *_: nullcontext(object()))
    assert await problems_of(BareBenchmark()) == ["task t0: object does not inherit from Environment"]


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("why_no_program", "x", "it has 'why_no_program', which is never used; did you mean 'why_no_programs'?"),
        ("secret", lambda self: frozenset({"s"}), "did you mean 'secrets'?"),
        ("has_own_images", "yes", "has_own_images is 'yes'; it must be True or False"),
        ("reference", None, "reference must be a method"),
        ("bounds_it_grading", True, "did you mean 'bounds_its_grading'?"),
    ],
)
async def test_a_misspelt_member_is_noticed(monkeypatch, name, value, problem):
    """What nobody would ask for, or nobody could use, is named, on a benchmark and on its environment."""
    where = BareEnvironment if name.startswith("bounds") else BareBenchmark
    monkeypatch.setattr(where, name, value, raising=False)
    assert any(problem in each for each in await problems_of(BareBenchmark()))


async def test_a_missing_member_is_named(monkeypatch):
    """A benchmark that lacks a member without a default fails by its name."""
    monkeypatch.delattr(BareEnvironment, "tools")
    assert await problems_of(BareBenchmark()) == ["task t0: tools is missing"]
    monkeypatch.delattr(BareBenchmark, "grader")
    assert await problems_of(BareBenchmark()) == ["grader is missing"]


class _Environment(Environment):
    """A desk environment of which some answers are replaced."""

    def __init__(self, real, changes):
        self._real = real
        self._changes = changes
        self.tools = changes.get("tools", real.tools)
        self.sandbox = real.sandbox
        self.program_tools = self.tools[: changes.get("offered", 0)]

    async def call(self, name, arguments):
        return self._changes.get("call") or await self._real.call(name, arguments)

    async def grade(self, final_answer, ask_judge):
        grade = await self._real.grade(final_answer, ask_judge)
        return self._changes["grade"](grade) if "grade" in self._changes else grade


class _Benchmark(DeskBenchmark):
    """Desk with one task and something wrong."""

    def __init__(self, **changes):
        super().__init__()
        self._changes = changes
        self.grader = changes.get("grader", self.grader)
        self.tools_over_mcp = changes.get("tools_over_mcp", self.tools_over_mcp)

    def has_mcp_tools(self, task_id):
        return self._changes.get("has_mcp_tools", super().has_mcp_tools(task_id))

    def tasks(self):
        return self._changes.get("tasks", list)(super().tasks()[:1])

    def variants(self):
        return self._changes.get("variants", list)(super().variants()[:1])

    @asynccontextmanager
    async def open(self, task, settings, variant=None):
        settings = msgspec.structs.replace(settings, access=self._changes.get("access", settings.access))
        async with super().open(DeskBenchmark.tasks(self)[0], settings, variant) as environment:
            yield _Environment(environment, self._changes)


def changing(**fields):
    """Replace fields of the first of several values."""
    return lambda values: [msgspec.structs.replace(values[0], **fields), *values[1:]]


def keeping_the_value(variants):
    """Leave the value in the prompt of the first variant."""
    return changing(prompt=f"x {variants[0].segments[0].value}")(variants)


def with_value(value, prompt=None):
    """Give the first segment of the first variant another value, which stands in the task's prompt."""

    def change(variants):
        segment = msgspec.structs.replace(variants[0].segments[0], value=value)
        return changing(segments=(segment, *variants[0].segments[1:]))(variants)

    return {"variants": change, "tasks": changing(prompt=prompt or f"Take {value} for it.")}


def with_questions(*expected):
    """Give the first variant other expected questions, by segment."""
    questions = tuple(ExpectedQuestions(segment_id=name, questions=texts) for name, texts in expected)
    return {"variants": changing(expected_questions=questions)}


def first_result(**fields):
    """Replace fields of a grade's first result."""

    def change(grade):
        return msgspec.structs.replace(grade, results=tuple(changing(**fields)(grade.results)))

    return change


@pytest.mark.sampled(15)
@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"grader": ""}, "grader is empty"),
        ({"tasks": lambda tasks: []}, "there is no task"),
        ({"tasks": lambda tasks: [*tasks, *tasks]}, "2 tasks are called"),
        ({"tasks": changing(prompt=" ")}, "the prompt is empty"),
        ({"tasks": changing(checkpoints=())}, "it needs checkpoints"),
        ({"tasks": changing(checkpoints=(Checkpoint(checkpoint_id="c1", label="l", total=0),))}, "has no points"),
        ({"variants": lambda variants: [*variants, *variants]}, "2 variants are called"),
        ({"variants": changing(task_id="elsewhere")}, "is not a task of desk"),
        ({"variants": changing(segments=())}, "it removes nothing"),
        ({"variants": keeping_the_value}, "still in the prompt"),
        ({"variants": changing(severity="environment")}, "with severity environment"),
        (with_questions(("S9", ("Which one?",))), "it has expected questions for S9, which is not one of its segments"),
        (with_questions(("S1", ("Is it raining?",))), "would not be recognised reworded: the matcher recognises "),
        (with_value(" a.csv"), "segment S1 begins or ends with a space"),
        (with_value("from Monday to"), "segment S1 begins or ends in the middle of a phrase"),
        (with_value("and on Monday"), "segment S1 begins or ends in the middle of a phrase"),
        (with_value('"a.csv'), "segment S1 has half of a pair of quotes"),
        (with_value("(see below"), "segment S1 has half of a pair of quotes or brackets"),
        (with_value("ledger", "Take the ledger.csv for it."), "segment S1 is cut out of the middle of a word"),
        ({"access": None}, "the environment has a 'sandbox' that was not opened with settings.access"),
        ({"offered": 1}, "tools_over_mcp is 'none', but programs get 1 tools over MCP"),
        ({"offered": 1, "tools_over_mcp": "some", "has_mcp_tools": False}, "is False, but programs get 1 tools"),
        ({"tools_over_mcp": "yes"}, "tools_over_mcp is 'yes'; it must be 'none', 'some', 'all'"),
        ({"tools": ()}, "needs tools"),
        ({"call": ToolResult(text="fine")}, "gives no error result"),
        ({"grade": lambda grade: Grade(results=(), is_success=False)}, "does not have one result"),
        ({"grade": first_result(score=99.0)}, "has 99.0 of"),
        ({"grade": lambda grade: msgspec.structs.replace(grade, is_success=True)}, "before anything was done"),
    ],
)  # fmt: skip
async def test_a_broken_promise_is_named(changes, problem):
    """Each promise is checked: breaking it alone gives its sentence."""
    problems = await problems_of(_Benchmark(**changes))
    assert any(problem in each for each in problems), problems
