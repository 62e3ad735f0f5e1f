"""Reading task folders: which run, which are refused and by which key, and what a broken one says."""

import errno

import pytest

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.harbor import check, open_harbor, read_task, task_of
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import copied, refusal, resolved
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task
from tests.runners.environments.benchmarks.harbor.test_variants import VARIANT
from tests.support.needs import PUBLISHED, needs

REFUSED = [
    ({"config": f"{CONFIG}gpus = 1\n"}, "environment.gpus"),
    ({"config": f'{CONFIG}os = "windows"\n'}, "environment.os"),
    ({"config": f'{CONFIG}memory = "lots"\n'}, "environment.memory"),
    ({"config": f'{CONFIG}memory = "1.2.3G"\n'}, "environment.memory"),
    ({"config": f'{CONFIG}memory = "{9**400}G"\n'}, "environment.memory"),
    ({"config": f'{CONFIG}[[environment.mcp_servers]]\nname = "x"\n'}, "environment.mcp_servers"),
    ({"config": CONFIG.replace("no-network", "allowlist")}, "environment.network_mode"),
    ({"config": f'{CONFIG}[agent]\nnetwork_mode = "public"\n'}, "agent.network_mode"),
    ({"config": f'{CONFIG}[verifier]\nnetwork_mode = "public"\n'}, "verifier.network_mode"),
    ({"config": f'{CONFIG}[verifier.env]\nKEY = "${{LHAW_RECORD_NOT_SET}}"\n'}, "LHAW_RECORD_NOT_SET"),
    ({"config": f'artifacts = [{{source = "/x", service = "db"}}]\n{CONFIG}'}, "'db'"),
    ({"config": ""}, "neither environment/Dockerfile nor environment.docker_image"),
    ({"test": None}, "no tests/test.sh"),
    (
        {"config": f'{CONFIG}[verifier]\nenvironment_mode = "separate"\nnetwork_mode = "allowlist"\n'},
        "verifier.network",
    ),
    ({"config": f'{CONFIG}[verifier.environment]\nnetwork_mode = "allowlist"\n'}, "verifier.environment.network_mode"),
    ({"tests__docker-compose.yaml": "services: {}\n"}, "tests/docker-compose.yaml"),
    ({"trajectory.json": "{}"}, "trajectory.json"),
]
BROKEN = [
    ({"config": "[environment\n"}, "task.toml is not TOML"),
    ({"config": '[verifier]\ntimeout_sec = "long"\n'}, "key 'verifier.timeout_sec'"),
    ({"instruction.md": " \n"}, "instruction.md is empty"),
    ({"task.toml": None, "task.yaml": "instruction: x\n"}, "'harbor task migrate -i "),
    ({"task.toml": None}, "it has instruction.md but no task.toml, which may be empty"),
    ({"checkpoints.toml": '[[checkpoints]]\ncheckpoint_id = "a"\n'}, "label' is missing"),
]


@pytest.mark.parametrize(("parts", "words"), REFUSED)
def test_a_key_that_cannot_be_honoured_refuses_the_task_by_name(tmp_path, parts, words):
    """The reason names the key or the file, before anything runs."""
    task = read_task(write_task(tmp_path / "task", **parts))
    assert words in refusal(task)
    with pytest.raises(ExperimentError, match="no task of"):
        open_harbor({"folder": str(tmp_path)}, tmp_path, GraderSpec())


@pytest.mark.parametrize(("parts", "words"), BROKEN)
def test_a_broken_folder_is_left_out_with_file_and_key(tmp_path, parts, words):
    """Other tasks of the dataset run."""
    write_task(tmp_path / "broken", **parts)
    write_task(tmp_path / "works")
    benchmark = open_harbor({"folder": "."}, tmp_path, GraderSpec())
    assert [task.task_id for task in benchmark.tasks()] == ["works"]
    assert benchmark.left_out() == ["broken"]
    assert words in benchmark.why_not("broken")


@pytest.mark.parametrize("place", ["tests", "environment", "solution"])
async def test_a_file_that_cannot_be_read_costs_its_own_task_only(tmp_path, monkeypatch, place):
    """``harbor`` says what is wrong with its folder, and checks the others; so does a failure while a task is tried."""
    broken = write_task(tmp_path / "broken", **{"variants.toml": VARIANT})
    (broken / place).mkdir(exist_ok=True)
    (broken / place / "memory").symlink_to("/proc/self/mem")  # a file of which no byte can be read
    for name in ("works", "fails"):
        write_task(tmp_path / name)
    benchmark = open_harbor({"folder": "."}, tmp_path, GraderSpec())

    async def oracle(task_id, settings):
        if task_id == "fails":
            raise OSError(errno.ENOSPC, "No space left on device")
        return task_id

    async def checked(task_id):
        return {"is_fit": True, "reason": ""}

    async def no_provider(*_):
        return None

    monkeypatch.setattr(benchmark, "oracle", oracle)
    monkeypatch.setattr(check, "_checked", checked)
    monkeypatch.setattr(check, "provider", no_provider)
    rows = {row["task_id"]: row async for row in check.check(benchmark, str)}
    assert {name: row["is_fit"] for name, row in rows.items()} == {"broken": False, "works": True, "fails": False}
    assert f"{tmp_path}/fails: [Errno 28] No space" in rows["fails"]["reason"]
    assert "Input/output error" in rows["broken"]["reason"]


def test_a_task_has_its_prompt_rewards_and_domain(tmp_path):
    """Canary lines are dropped; several rewards are declared beside the task; a changed test is another task."""
    folder = write_task(
        tmp_path / "task",
        config=f'{CONFIG}[metadata]\ncategory = "files"\n',
        **{
            "instruction.md": "<!-- harbor-canary GUID 1 -->\n# canary\n\nDo it.\n",
            "checkpoints.toml": '[[checkpoints]]\ncheckpoint_id = "speed"\nlabel = "it is fast"\ntotal = 4.0\n',
        },
    )
    task = task_of(read_task(folder))
    assert (task.prompt, task.domain) == ("Do it.\n", "files")
    assert [(each.checkpoint_id, each.total) for each in task.checkpoints] == [("speed", 4.0)]
    (folder / "tests" / "test.sh").write_text("exit 0\n")
    assert task_of(read_task(folder)).task_digest != task.task_digest


def test_variables_come_from_the_environment_as_whole_values(monkeypatch):
    """A value that is not a template as a whole is literal, as in Harbor."""
    monkeypatch.setenv("HARBOR_KEY", "secret")
    given = {"a": "${HARBOR_KEY}", "b": "${HARBOR_NONE:-x}", "c": "${HARBOR_NONE:-}", "d": "no ${HARBOR_KEY}"}
    assert resolved(given) == {"a": "secret", "b": "x", "c": "", "d": "no ${HARBOR_KEY}"}


def test_only_secrets_of_the_environment_are_redacted(tmp_path, monkeypatch):
    """A secret is one by the name that the task gives it, by the name that it has here, or by its look."""
    random = "A1b2C3d4E5f6G7h8I9j0"
    given = {
        "PLAIN_ONE": "open sesame",
        "MY_API_KEY": "correct horse",
        "LOOK": random,
        "DEBUG": "1",
        "USER_NAME": "anna",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    config = (
        f'{CONFIG}[environment.env]\nPASSWORD = "${{PLAIN_ONE}}"\nX = "${{LOOK}}"\nDEBUG = "${{DEBUG}}"\n'
        '[verifier.env]\nY = "${MY_API_KEY}"\n[solution.env]\nWHO = "${USER_NAME:-bob}"\n'
    )
    write_task(tmp_path / "task", config=config)
    benchmark = open_harbor({"folder": "."}, tmp_path, GraderSpec())
    assert benchmark.secrets() == {"open sesame", "correct horse", random}


def test_tasks_are_called_as_their_source_calls_them(tmp_path):
    """By the name under ``[task]``, else by the path in the dataset, as in HiL-Bench, whose folders hold three each."""
    for number in (0, 1):
        write_task(tmp_path / f"sql_{number}" / "baseline")
    write_task(tmp_path / "sql_1" / "tools", config=f'[task]\nname = "sql/with-tools"\n{CONFIG}')
    (tmp_path / "sql_0" / "baseline" / "tests" / "task.toml").write_text("")
    (tmp_path / "about").mkdir()
    (tmp_path / "about" / "instruction.md").write_text("How to run these.\n")
    benchmark = open_harbor({"folder": "."}, tmp_path, GraderSpec())
    ids = {task.task_id for task in benchmark.tasks()}
    assert ids == {"sql_0/baseline", "sql_1/baseline", "sql/with-tools"}
    write_task(tmp_path / "sql_0" / "again", config=f'[task]\nname = "sql/with-tools"\n{CONFIG}')
    with pytest.raises(ExperimentError, match=r"sql_0/again and \S+sql_1/tools are both the task sql/with-tools"):
        open_harbor({"folder": "."}, tmp_path, GraderSpec())


BOM = "\ufeff"


@pytest.mark.parametrize(
    "parts",
    [
        {"instruction.md": f"{BOM}# canary\r\n\r\nDo it.\r\nNow.\r\n"},
        {"instruction.md": "Do it.\rNow.\n", "task.toml": f"{BOM}{CONFIG}"},
        {"instruction.md": "Do it.\nNow.\n", "environment__docker-compose.yml": "not: [ours"},
        {"instruction.md": "Do it.\nNow.\n", "environment__compose.yaml": "services: {}\n"},
        {
            "instruction.md": "Do it.\nNow.\n",
            "task.toml": "[environment]\n",
            "environment__docker-compose.yaml": "services: {main: {image: debian}}\n",
        },
        {
            "instruction.md": "Do it.\nNow.\n",
            "task.toml": '[[environment.mcp_servers]]\nname = "a"\ntransport = "http"\nurl = "http://web:80/mcp"\n',
            "environment__docker-compose.yaml": (
                "services:\n  main: {build: {context: app}, environment: ['TEST_DIR=${TEST_DIR}'],"
                " deploy: {resources: {limits: {cpus: '${CPUS}', memory: '${MEMORY}'}}}}\n  web: {image: debian}\n"
            ),
            "environment__app__Dockerfile": "FROM debian\n",
        },
    ],
)
def test_what_harbor_takes_is_taken(tmp_path, parts):
    """Marks of the byte order, line ends, files that it does not read, and images that only compose names."""
    folder = tmp_path / "task"
    for name, text in parts.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    write_task(folder, **dict.fromkeys(("instruction.md", *(n for n in parts if n == "task.toml"))))
    task = read_task(folder)
    assert (task.prompt, refusal(task)) == ("Do it.\nNow.\n", None)


def test_ignored_files_of_tests_and_solution_are_left_behind(tmp_path):
    """By the rules of git, further down too; Harbor 0.26 keeps the same."""
    source = tmp_path / "tests"
    kept = {"test.sh", "data/a.csv", "data/keep.log", "deep/er/x.txt"}
    for name in (*kept, "a.log", "data/b.log", "cache/x", "deep/er/y.txt"):
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    (source / ".harborignore").write_text("*.log\ncache/\n")
    (source / "data" / ".harborignore").write_text("!keep.log\n")
    (source / "deep" / ".harborignore").write_text("er/y.*\n")
    copied(source, tmp_path / "copy", {})
    assert {each.relative_to(tmp_path / "copy").as_posix() for each in (tmp_path / "copy").rglob("*.*")} == kept


@pytest.mark.thorough
def test_a_folder_that_is_a_task_but_for_its_config_says_so(tmp_path):
    """It is named itself, and need not be filled."""
    write_task(tmp_path / "task", **{"task.toml": None})
    with pytest.raises(ExperimentError, match=r"task: it has instruction\.md but no task\.toml, which may be empty"):
        open_harbor({"folder": "task"}, tmp_path, GraderSpec())


@needs("published")
def test_the_real_tasks_are_read():
    """Nine of ten can run; one is refused for a user that wants a key of this machine."""
    folder = PUBLISHED / "harbor"
    if not folder.is_dir():
        pytest.skip(f"no Harbor tasks in {folder}")
    benchmark = open_harbor({"folder": str(folder)}, folder, GraderSpec())
    assert len(benchmark.tasks()) == 9
    reasons = {task_id: benchmark.why_not(task_id) for task_id in benchmark.left_out()}
    assert set(reasons) == {"simulated-user"}
    assert "ANTHROPIC_API_KEY" in reasons["simulated-user"]
