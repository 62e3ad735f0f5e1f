"""How a task's container is opened on a real engine: what is checked, what is hidden, and what the agent is shown."""

import json
from contextlib import asynccontextmanager
from types import SimpleNamespace

import msgspec
import pytest

from lhaw_record.recorder.events.values import EnvironmentChange, Segment, Variant
from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.contract import problems_of
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.tac.benchmark import open_tac
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.tac.images import PROMPT, TASK, make_folder
from tests.runners.environments.sandboxes.docker_fixtures import engine, make_provider, needs_engine, own_names  # noqa: F401

pytestmark = needs_engine
SETTINGS = EnvironmentSettings(sandbox=make_provider(), limits=SandboxLimits(memory_mb=256))


def benchmark_of(folder, images, needs="", **options):
    """Open the benchmark of the test task, without services unless it needs some: its init script is another one."""
    tasks = make_folder(folder, services=needs)
    given = {"folder": str(tasks), "image": images["task"], "init": ["true"], **options}
    return open_tac(given, folder, GraderSpec())


def opened(folder, images, *, variant=None, settings=SETTINGS, **options):
    """Open the container of the test task."""
    benchmark = benchmark_of(folder, images, **options)
    (task,) = benchmark.tasks()
    return benchmark.open(task, settings, variant)


async def test_it_keeps_what_every_benchmark_promises(tmp_path, images):
    """Tools, errors and grades are as the protocol has them, also when it is graded twice."""
    assert await problems_of(benchmark_of(tmp_path, images), SETTINGS) == []


@pytest.mark.parametrize(
    ("options", "kind", "says"),
    [
        ({"init": ["sh", "-c", "echo no company; exit 4"]}, "init_failed", "ended with 4; its last output: no company"),
        ({"init": ["sleep", "3600"], "init_seconds": 0.5}, "init_failed", "took over 0.5 s"),
        ({"instruction": "/workspace/notes.txt"}, "other_task", "is not the task.md of the folder"),
        ({"image": "localhost:1/none:1"}, "registry_away", "localhost:1/none:1 cannot be pulled: .*docker load"),
    ],
)
async def test_an_image_that_does_not_begin(tmp_path, images, options, kind, says):
    """A missing image, one of another task, an init script that fails or hangs: the sandbox's failure, nothing left."""
    with pytest.raises(SandboxBoundaryError, match=says) as caught:
        async with opened(tmp_path, images, **options):
            pass
    assert (caught.value.kind, caught.value.is_retry_owed) == (kind, kind != "other_task")
    assert own_names() == []


async def test_pulling_an_image_is_told(tmp_path, images):
    """The images of tasks and of services are large: whoever waits for them sees that they are being pulled."""
    lines = []
    settings = msgspec.structs.replace(SETTINGS, sandbox=make_provider(lines.append))
    with pytest.raises(SandboxBoundaryError):
        async with opened(tmp_path / "a", images, settings=settings, image="localhost:1/task:1"):
            pass
    services = {
        "owncloud": {"image": "localhost:1/service:1", "health": "http://the-agent-company.com/", "ports": ["80"]}
    }
    with pytest.raises(SandboxBoundaryError):
        async with opened(tmp_path / "b", images, settings=settings, needs="- owncloud", services=services):
            pass
    assert lines == ["pulling the image localhost:1/task:1", "pulling the image localhost:1/service:1"]


async def test_a_browser_in_the_tasks_own_image(tmp_path, images, monkeypatch):
    """One image for both is recorded twice, as any two."""
    browser = SimpleNamespace(server="s 1", tools=())

    @asynccontextmanager
    async def open_browser(*_):
        yield browser

    monkeypatch.setattr("lhaw_record.runners.environments.benchmarks.tac.opening.open_browser", open_browser)
    async with opened(tmp_path, images, browser={"image": images["task"]}) as environment:
        facts = json.loads(environment.facts[0].content)
    assert facts["browser"] == {**facts["image"], "server": "s 1", "tools": []}


async def test_another_sandbox_is_refused(tmp_path, images):
    """Without Docker there are no images; the message has the key."""
    settings = msgspec.structs.replace(SETTINGS, sandbox=ProcessSandboxProvider())
    with pytest.raises(SandboxBoundaryError, match=r"set sandbox.kind = .docker."):
        async with opened(tmp_path, images, settings=settings):
            pass


async def test_a_change_of_the_environment_is_refused(tmp_path, images):
    """A variant that would change files or services is not run as if it did."""
    change = EnvironmentChange(kind="two_candidates", arguments=())
    variant = Variant(
        benchmark="tac", task_id=TASK, variant_id="v", prompt=PROMPT, segments=(), origin="hand_written",
        environment_change=change,
    )  # fmt: skip
    with pytest.raises(SandboxBoundaryError, match="variant v changes its environment"):
        opened(tmp_path, images, variant=variant)


async def test_the_agent_is_shown_the_variant_only(tmp_path, images):
    """The instruction in the container is the prompt of the trial: what was removed stands nowhere there."""
    variant = Variant(
        benchmark="tac",
        task_id=TASK,
        variant_id="v",
        prompt=PROMPT.replace("the front-desk folder of ", ""),
        segments=(Segment(segment_id="S1", value="front-desk", dimension="input", subdimension=""),),
        origin="hand_written",
    )
    async with opened(tmp_path, images, variant=variant) as environment:
        shown = await environment.call("read_file", {"path": "/instruction/task.md"})
        found = await environment.call(
            "bash", {"command": "grep -rl front-desk /instruction /workspace /srv /tmp /opt"}
        )
    assert shown.text == variant.prompt
    assert found.text == "[exit code 1]"


async def test_what_was_hidden_comes_back_as_it_was(tmp_path, images):
    """Modes and links of the grader's files are those of the image, and what an agent put in their place is gone."""
    look = ["sh", "-c", "cd /utils; stat -c '%n %A %u' *; readlink link; ls -a"]
    async with opened(tmp_path, images) as environment:
        assert "No such file" in (await environment.call("bash", {"command": "ls /utils"})).text
        await environment.call("bash", {"command": "ln -s /workspace /utils; touch /workspace/forged.py"})
        await environment.grade("", None)
        after = (await environment.own_sandbox.machine.run(look, timeout_s=30)).stdout.decode()
    assert "init.sh -rwxr-xr-x 0" in after
    assert "link lrwxrwxrwx 0\n" in after
    assert "\ninit.sh\n.\n..\n" in after
    assert "forged.py" not in after
