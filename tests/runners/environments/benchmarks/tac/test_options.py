"""The ``[benchmark]`` table of tac, and which tasks can run as it is."""

import threading
import tomllib
from pathlib import Path
from types import SimpleNamespace

import anyio
import msgspec
import pytest
from mcp_types import Tool

from lhaw_record.command_line import main
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.tac import company
from lhaw_record.runners.environments.benchmarks.tac.benchmark import TacBenchmark, open_tac
from lhaw_record.runners.environments.benchmarks.tac.browser import Browser
from lhaw_record.runners.environments.benchmarks.tac.options import CompanyContainer, read_options
from lhaw_record.runners.experiment.tables import GraderSpec, ModelSpec
from tests.runners.environments.benchmarks.tac.images import CHECKPOINTS, TASK, make_folder
from tests.support.needs import needs

PROJECT = Path(__file__).parents[5]
JUDGE = ModelSpec(model="openai/judge", api_key_env="LHAW_TEST_KEY")
REAL = Path(__file__).parents[6] / "shared" / "real" / "tac" / "tasks"
OWN = {"image": "store:1", "health": "http://the-agent-company.com/status", "ports": ["8092:80"]}
SHARED = {"services_host": "10.0.0.2", "network": "bridge"}


def benchmark(folder, **options):
    """Open the benchmark of a folder of tasks."""
    return open_tac({"folder": str(folder), **options}, Path(), GraderSpec())


def why_not(folder, task_id, **options):
    """Return why a task cannot run, also where none can."""
    return TacBenchmark(read_options({"folder": str(folder), **options}, Path())).why_not(task_id)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"folder": "nowhere"}, "nowhere is not a folder"),
        ({"fodler": "x"}, "unknown key 'benchmark.fodler'; did you mean 'folder'\\?; known: folder, image, services"),
        (
            {"services": {"plane": OWN, "owncloud": {**OWN, "health": 3}}},
            r"key 'benchmark\.services\.owncloud\.health': 3, where a text is expected",
        ),
        ({"services": {"owncloud": {"imgae": "x"}}}, r"unknown key 'benchmark\.services\.owncloud\.imgae'"),
        (
            {"checkpoints": {TASK: [1, 0]}},
            rf"key 'benchmark\.checkpoints\.{TASK}\[1\]': 0, where a number > 0.0 is expected",
        ),
        ({"services": {"owncloud": {"image": "store:1"}}}, "services.owncloud.health"),
        ({"services": {"owncloud": {"image": "store:1", "health": "http://x"}}}, r"services\.owncloud\.ports.*8092:80"),
        ({"services": {"owncloud": {**OWN, "ports": ["http"]}}}, r"services\.owncloud\.ports"),
        ({"services": {"owncloud": {**OWN, "ports": ["0:80"]}}}, r"services\.owncloud\.ports': 0 is not a port"),
        ({"services": {"owncloud": {**OWN, "ports": ["65536"]}}}, "65536 is not a port; ports are 1 to 65535"),
        (
            {"services": {"owncloud": {**OWN, "ports": ["2999:80"]}}},
            r"owncloud\.ports': .* 2999 is used by its control",
        ),
        (
            {"services": {"owncloud": {**OWN, "companions": {"db": {"image": "a:1", "ports": ["80:70000"]}}}}},
            r"owncloud\.companions\.db\.ports': 70000 is not a port",
        ),
        ({"services": {"owncloud": {**OWN, "files": {"/dump": "nowhere"}}}}, r"owncloud\.files.*nowhere is not a file"),
        ({"services": {"owncloud": {**OWN, "files": {"dump": "x"}}}}, "not the absolute path"),
        ({"services": {"owncloud": {**OWN, "companions": {"db": {}}}}}, r"owncloud\.companions\.db\.image"),
        (
            {"services": {"owncloud": {**OWN, "companions": {"db": {"image": "a:1", "ports": ["8092"]}}}}},
            "db and owncloud both have the company's port 8092|owncloud and db both have the company's port 8092",
        ),
        (
            {
                "services": {
                    "plane": {**OWN, "ports": ["1"], "companions": {"owncloud": {"image": "a"}}},
                    "owncloud": OWN,
                }
            },
            "another container has that name",
        ),
        ({"services": {"owncloud": {**OWN, "prepare": {"db": ["true"]}}}}, r"owncloud\.prepare\.db.*no container"),
        ({"services": {"owncloud": {}}}, "services.owncloud.image"),
        ({"services": {"owncloud": OWN}, **SHARED}, "remove one of the two"),
        ({"services_host": "10.0.0.2"}, "benchmark.network"),
        ({"network": "bridge"}, "benchmark.network"),
        ({"grading_seconds": 3600}, "grading_seconds"),
        ({"failure_words": "("}, "failure_words"),
        ({**SHARED, "checkpoints": {"nope": [1]}}, "benchmark.checkpoints.*has no task 'nope'"),
        ({**SHARED, "checkpoints": {TASK: []}}, "benchmark.checkpoints"),
        ({**SHARED, "references": "nowhere"}, "benchmark.references.*nowhere is not a folder"),
        ({**SHARED, "only_with": ["gitlab"]}, "none of 1 tasks .* can run.*benchmark.only_with is gitlab"),
        ({}, "none of 1 tasks .* can run.*add benchmark.services.owncloud"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(tmp_path, options, says):
    """Every contradiction is named with its key before anything runs."""
    with pytest.raises(ExperimentError, match=says):
        benchmark(**{"folder": make_folder(tmp_path), **options})


def test_the_evaluators_model_needs_a_key_that_they_can_be_given(tmp_path):
    """A judge whose key only this process would find is refused: evaluators would go on without it."""
    judge = GraderSpec(kind="judge", judge=ModelSpec(model="openai/judge"))
    with pytest.raises(ExperimentError, match=r"grader\.judge\.api_key_env"):
        open_tac({"folder": str(make_folder(tmp_path)), **SHARED}, Path(), judge)


def test_a_task_runs_where_its_services_are(tmp_path):
    """A service that nobody offers keeps its tasks out, and the reason has the keys that change it."""
    folder = make_folder(tmp_path)
    assert why_not(folder, TASK) == "it needs owncloud; add benchmark.services.owncloud or benchmark.services_host"
    assert why_not(folder, "other").endswith("has no folder of that name with a task.md")
    for options in (SHARED, {"services": {"owncloud": OWN}}):
        assert [task.task_id for task in benchmark(folder, **options).tasks()] == [TASK]
    gitlab_only = why_not(folder, TASK, **SHARED, only_with=["gitlab"])
    assert gitlab_only == "it needs owncloud, and benchmark.only_with is gitlab"


def test_a_plan_says_which_tasks_it_leaves_out(tmp_path, capsys):
    """Folders that cannot run refuse the plan, or are counted in it with the reason of each; names are a choice."""
    make_folder(tmp_path, "one", services="")
    make_folder(tmp_path, "two", services="- owncloud")
    make_folder(tmp_path, "three", services="- owncloud")
    (make_folder(tmp_path, "four", services="") / "four" / "checkpoints.md").write_text("")
    text = (
        'name = "few"\nconditions = ["full"]\n[benchmark]\nname = "tac"\nfolder = "tasks"\n'
        '[[agents]]\nname = "a"\nmodel = "openai/gpt-4.1"\n'
    )
    (tmp_path / "e.toml").write_text(text)
    assert main(["run", str(tmp_path / "e.toml"), "--dry-run"]) == 2
    assert "key 'benchmark.allow_left_out': 3 tasks would be left out (such as four: its" in capsys.readouterr().err
    (tmp_path / "e.toml").write_text(text.replace('name = "tac"', 'name = "tac"\nallow_left_out = true'))
    assert main(["run", str(tmp_path / "e.toml"), "--dry-run"]) == 2, "OPENAI_API_KEY is not set, and TAC needs Docker"
    assert capsys.readouterr().err.splitlines()[:3] == [
        "3 of 4 tasks are left out:",
        "  four: its checkpoints.md has no points; give those of each checkpoint in benchmark.checkpoints",
        "  three, two: it needs owncloud; add benchmark.services.owncloud or benchmark.services_host",
    ]
    (tmp_path / "e.toml").write_text(text.replace('name = "tac"', 'name = "tac"\ntasks = ["one"]'))
    assert main(["run", str(tmp_path / "e.toml"), "--dry-run"]) == 2
    assert "left out" not in capsys.readouterr().err


def test_points_that_the_evaluator_does_not_grade_with_are_asked_for(tmp_path):
    """Where text and evaluator differ, the task waits for the points of each checkpoint, and then has these."""
    known = "bm-classify-nationality"  # the evaluator's points are published, and these are others
    folder = make_folder(tmp_path, known)
    assert "has 4 points and its evaluator grades with 6" in why_not(folder, known, **SHARED)
    (task,) = benchmark(folder, **SHARED, checkpoints={known: [2, 2, 2]}).tasks()
    assert [(each.label, each.total) for each in task.checkpoints] == [
        ("The folder was looked at.", 2.0),
        ("The number is right.", 2.0),
        ("It is in ownCloud.", 2.0),
    ]
    (task,) = benchmark(folder, **SHARED, checkpoints={known: [5, 1]}).tasks()
    assert [each.total for each in task.checkpoints] == [5.0, 1.0]
    (folder / known / "checkpoints.md").write_text(CHECKPOINTS.replace("2pts", "4pts"))
    assert benchmark(folder, **SHARED).why_not(known) is None


def test_image_and_services_are_part_of_the_task(tmp_path):
    """Trials in other images, or whose agent could see the grader, are other trials."""
    folder = make_folder(tmp_path)
    found = {
        benchmark(folder, **options).tasks()[0].environment_digest
        for options in (
            {"services": {"owncloud": OWN}},
            {"services": {"owncloud": {**OWN, "image": "store:2"}}},
            {"services": {"owncloud": OWN}, "image": "mine/{task}:2"},
            {"services": {"owncloud": OWN}, "hidden": []},
            {"services": {"owncloud": OWN}, "evaluator": ["true"]},
        )
    }
    assert len(found) == 5


def test_what_a_service_is_given_is_part_of_the_task(tmp_path):
    """Trials on other data, other companions or other ports are other trials; the place of a file is not."""
    folder = make_folder(tmp_path)
    for name, content in (("a/dump", "3"), ("b/dump", "4"), ("c/copy", "3")):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(content)

    def digest_of(**given):
        return benchmark(folder, services={"owncloud": {**OWN, **given}}).tasks()[0].environment_digest

    def companion(**given):
        return {"companions": {"db": {"image": "db:1", **given}}}

    first, second, copy = ({"files": {"/dump": str(tmp_path / name)}} for name in ("a/dump", "b/dump", "c/copy"))
    assert digest_of(**first) == digest_of(**copy)
    others = [
        {},
        first,
        second,
        {"ports": ["8092:8080"]},
        companion(),
        companion(**first),
        companion(**second),
        companion(ports=["27017"]),
        companion(is_job=True),
        companion(environment={"A": "1"}),
    ]
    assert len({digest_of(**given) for given in others}) == len(others)


def test_a_running_company_keeps_its_identity(tmp_path):
    """Where services run on a host, nothing of them is ours: the digest is the one that stored trials have."""
    folder = make_folder(tmp_path)
    plain = benchmark(folder, **SHARED).tasks()[0].environment_digest
    assert plain == "b56688ff3878716ccdf1872006f8e4e55ab331a8fc3d24c99e56d0b27225171f"
    with_login = benchmark(folder, **SHARED, services={"owncloud": {"login": "a"}}).tasks()[0].environment_digest
    assert with_login == "8e316c4e97384e7ee515ef18652025434b6879530520b61db167d3d9c9802f46"


async def test_files_for_services_are_read_beside_the_event_loop(tmp_path, monkeypatch):
    """A dump of gigabytes holds no other trial up."""
    threads, read = [], Path.read_bytes

    def look(path):
        if path.name == "dump":
            threads.append(threading.current_thread())
        return read(path)

    monkeypatch.setattr(Path, "read_bytes", look)
    (tmp_path / "dump").write_text("3")
    config = await company._config(CompanyContainer(image="a:1", files={"/dump": str(tmp_path / "dump")}))
    assert config.files == {"/dump": b"3"}
    assert threading.main_thread() not in threads
    assert len(threads) == 1


def test_agents_are_told_how_to_log_in(tmp_path):
    """The system prompt names the company and every login that the file gives."""
    told = benchmark(make_folder(tmp_path), services={"owncloud": {**OWN, "login": "ada / lovelace"}}).system_prompt()
    assert "http://the-agent-company.com" in told
    assert "- owncloud: ada / lovelace" in told


def test_a_reference_that_cannot_be_read_is_named(tmp_path):
    """A file of calls that is none says what it should be."""
    folder = make_folder(tmp_path)
    (tmp_path / f"{TASK}.json").write_text('{"name": "bash"}')
    with pytest.raises(ExperimentError, match="is not a list of calls such as"):
        benchmark(folder, **SHARED, references=str(tmp_path)).reference(TASK)
    assert benchmark(folder, **SHARED).reference(TASK) is None


@needs("published")
def test_every_published_folder_can_run():
    """All 43 folders are tasks on a whole company, and those that need ownCloud only are LHAW's 33."""
    whole = benchmark(REAL, **SHARED)
    assert [task.task_id for task in whole.tasks()] == sorted(path.name for path in REAL.iterdir())
    assert len(whole.tasks()) == 43
    assert len(benchmark(REAL, **SHARED, only_with=["owncloud"]).tasks()) == 33


def test_the_published_services_as_the_example_has_them(tmp_path):
    """The example can be read; its ports and companions are those of the published compose file."""
    options = tomllib.loads((PROJECT / "examples" / "tac-company.toml").read_text(encoding="utf-8"))["benchmark"]
    (tmp_path / "db.dump").touch()
    make_folder(tmp_path)
    del options["name"]
    read = read_options({**options, "folder": "tasks"}, tmp_path)
    ports = {port: inside for each in read.services.values() for port, inside in each.published_ports.items()}
    assert ports == {8092: 80, 3000: 3000, 8929: 8929, 8930: 443, 2424: 22}
    assert set(read.services["rocketchat"].companions) == {
        "mongodb", "redis-stack", "redis-stack-npc-data-population",
    }  # fmt: skip


def test_a_browser_is_part_of_a_trial(tmp_path):
    """It counts with memory and identity and is told to the agent; without one nothing changes, and a plan says so."""
    folder = make_folder(tmp_path)
    without, with_one = (benchmark(folder, **SHARED, **more) for more in ({}, {"browser": {}}))
    other = benchmark(folder, **SHARED, browser={"image": "mine:1", "screenshots": True})
    digests = {each.tasks()[0].environment_digest for each in (without, with_one, other)}
    slow = benchmark(folder, **SHARED, browser={"step_seconds": 300})
    assert len({*digests, slow.tasks()[0].environment_digest}) == 4
    same = benchmark(folder, **SHARED, browser={"step_seconds": 120})
    assert same.tasks()[0].environment_digest == with_one.tasks()[0].environment_digest
    assert with_one.memory_mb(TASK, 1000) - without.memory_mb(TASK, 1000) == 2048
    assert ["browser_" in each.system_prompt() for each in (without, with_one)] == [False, True]
    assert [len(each.remarks()) for each in (without, with_one)] == [1, 0]


async def test_a_step_of_the_browser_has_the_time_that_the_file_gives_it():
    """After ``benchmark.browser.step_seconds`` the agent is told that there was no answer."""

    async def call_tool(name, arguments):
        await anyio.sleep_forever()

    async def state():
        return SimpleNamespace(memory_kills=0)

    names = ("browser_snapshot", "browser_take_screenshot", "browser_click")
    browser = Browser(
        SimpleNamespace(server_info=None, call_tool=call_tool),
        SimpleNamespace(end=None, machine=SimpleNamespace(state=state)),
        None,
        [Tool(name=name, input_schema={"type": "object"}) for name in names],
        spec=read_options({"folder": "", "browser": {"step_seconds": 0.01}}, Path()).browser,
        result_bytes=1000,
    )
    told = await browser.call("browser_snapshot", {})
    assert (told.is_error, told.text) == (True, "[the browser gave no answer to browser_snapshot within 0.01 s]")


def test_memory_that_nobody_measured_is_called_a_guess_in_the_plan(tmp_path):
    """By the names of the containers that have none of their own; a container that we do not start has none."""
    folder = make_folder(tmp_path)
    own = {"image": "a", "health": "http://a", "ports": ("80",)}
    database = {"image": "b"}
    services = {"owncloud": {**own, "companions": {"database": database}}}
    guessed = benchmark(folder, browser={}, services=services)
    assert list(guessed.remarks()) == [
        "owncloud, database: 2048 MB each, a guess: see memory_mb under benchmark.services."
    ]
    measured = {"owncloud": {**own, "memory_mb": 64, "companions": {"database": {**database, "memory_mb": 64}}}}
    assert not benchmark(folder, browser={}, services=measured).remarks()
    assert not benchmark(folder, browser={}, **SHARED).remarks()


def test_how_evaluators_ask_is_part_of_a_trials_identity(tmp_path):
    """Other parameters of their model are another grader, and a model that they ask by themselves another handling."""
    folder = str(make_folder(tmp_path, services=""))

    def opened(parameters=None, **options):
        judge = msgspec.structs.replace(JUDGE, parameters=parameters or {})
        return open_tac({"folder": folder, **options}, Path(), GraderSpec(kind="judge", judge=judge))

    named = [opened(), opened({"temperature": 0.0}), opened({"temperature": 1.0})]
    assert named[0].grader == "tac/evaluator:openai/judge"
    assert len({each.grader for each in named}) == len(named)
    digests = {opened(asks_directly=asks).tasks()[0].environment_digest for asks in (False, True)}
    assert len(digests) == 2
