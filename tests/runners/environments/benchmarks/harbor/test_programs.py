"""Programs as agents of task folders, on a real engine: beside the native agent, stopped, killed, and cut off."""

import asyncio
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from lhaw_record.recorder.events import TrialFailed
from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.harbor import open_harbor
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.sandboxes.docker.engine import MEMORY
from lhaw_record.runners.environments.sandboxes.docker.sidecar import RELAY_LIMITS as RELAY
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, ProgramCommand, SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.agents.programs.rigs import scripted, tiny
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task
from tests.runners.environments.benchmarks.harbor.runs import check_alike, recorded
from tests.runners.environments.sandboxes.docker_fixtures import engine, make_provider, needs_engine, own_names  # noqa: F401
from tests.support.docker import BASE_IMAGE, docker

pytestmark = [needs_engine, pytest.mark.thorough]


@pytest.fixture(autouse=True)
def oracle_cache(tmp_path, monkeypatch):
    """Keep what passed out of the user's cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def test_a_program_and_the_native_agent_do_the_same(tmp_path):
    """With one mind behind both: the same actions, question, injection and grade, in an image that they share."""
    conditions = ("full", "ask_user", "inject_50")
    mind = {"model": "scripted/replay_masked"}
    agents = [{"name": "native", **mind}, {"name": "tiny", **mind, "program": tiny("messages")}]
    check_alike(recorded(tmp_path, agents, conditions), "tiny", conditions)


def test_whose_fault_an_end_is(tmp_path):
    """Killed for lack of memory after it worked: its own ending, graded. Never started: missing data, no retry."""
    greedy = scripted(tmp_path, "work(1)\nheld = []\nwhile True: held.append(bytearray(1 << 24))\n")
    missing = {"command": ["no-such-interpreter", "{base_url}"]}
    agents = [
        {"name": name, "model": "scripted/balanced", "program": program}
        for name, program in (("greedy", greedy), ("missing", missing))
    ]
    trials = recorded(tmp_path, agents)
    assert trials["greedy", "full"][-1].ended_by == "gave_up"
    failed = trials["missing", "full"][-1]
    assert isinstance(failed, TrialFailed)
    assert (failed.boundary, failed.error_kind, failed.is_retry_owed) == ("sandbox", "program_start", False)


@asynccontextmanager
async def opened(folder, **more):
    """Open a task's container for a program, with a listener that answers every connection."""

    async def answer(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    write_task(folder / "tasks" / "hello", **more)
    options = {"folder": "tasks", "network": "none", "build_network": "none", "gate": False}
    benchmark = open_harbor(options, folder, GraderSpec())
    path = f"{folder}/listener"
    async with await asyncio.start_unix_server(answer, path):
        await anyio.Path(path).chmod(0o666)
        limits = SandboxLimits(memory_mb=256, command_seconds=60.0)
        access = ProgramAccess(socket=path, path=("/entry/bin",))
        settings = EnvironmentSettings(sandbox=make_provider(), limits=limits, access=access)
        async with benchmark.open(benchmark.tasks()[0], settings) as environment:
            yield environment


async def run(sandbox, command, stop=None, **more):
    """Run a shell command as a program."""
    launch = ProgramCommand(argv=("bash", "-c", command), environment={}, stdin=b"fed", max_seconds=600.0)
    return await sandbox.run_program(msgspec.structs.replace(launch, **more), stop or anyio.Event())


async def test_a_program_has_the_users_home_and_one_way_out(tmp_path):
    """Its input, HOME, PATH and files are those of the agent's user; the listener answers, and nothing else does."""
    config = CONFIG + '[agent]\nuser = "agent"\n'
    async with opened(tmp_path, config=config) as environment:
        sandbox = environment.sandbox
        await sandbox.write_file(f"{sandbox.home}/.entry/x", b"file")
        host, port = sandbox.listener_url.removeprefix("http://").split(":")
        talk = f"exec 3<>/dev/tcp/{host}/{port}; echo said >&3; head -n 1 <&3"
        talk += "; (: > /dev/tcp/192.0.2.1/80) 2>&1 | tail -n 1"
        end = await run(sandbox, f'cat; cat ~/.entry/x; echo " ${{PATH##*:}} $PWD"; id -un; {talk}; exit 3')
        assert end.exit_code == 3
        assert end.stdout.startswith("fedfile /entry/bin /srv\nagent\nsaid\n")
        assert "unreachable" in end.stdout
        assert "/run" not in (await run(sandbox, "grep -o '^.*listener.*$' /proc/mounts || true")).stdout


SKILL = "---\nname: greeting\ndescription: How to greet\n---\nSay hello.\n"
SKILLS = f"""FROM {BASE_IMAGE}
COPY skills /skills
"""


async def test_skills_of_a_task_are_told_and_lie_where_programs_look(tmp_path):
    """The native agent is told name, use and file of each; one that says neither is none. Programs have the files."""
    files = {"greeting__SKILL.md": SKILL, "broken__SKILL.md": "no head", "greeting__more.md": "more"}
    config = '[agent]\nuser = "agent"\n[environment]\nskills_dir = "/skills"\nnetwork_mode = "no-network"\n'
    brought = {f"environment__skills__{name}": text for name, text in files.items()}
    async with opened(tmp_path, config=config, environment__Dockerfile=SKILLS, **brought) as environment:
        told = environment.tools[0].description
        assert told.endswith("read its file first:\n- greeting: How to greet (/skills/greeting/SKILL.md)")
        look = "cat ~/.agents/skills/greeting/more.md ~/.claude/skills/greeting/SKILL.md"
        assert (await run(environment.sandbox, look)).stdout == f"more{SKILL}"


async def test_a_stop_ends_the_program_and_leaves_its_services(tmp_path):
    """What hangs on the program ends with it, in sessions of its own too; services that it left stay for the tests."""
    async with opened(tmp_path) as environment:
        stop, ends = anyio.Event(), []
        command = "(sleep 801 &); echo said; setsid sleep 802 & sleep 803"

        async def run_it():
            ends.append(await run(environment.sandbox, command, stop))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run_it)
            for number in (801, 802, 803):
                await begun(environment, number)
            stop.set()
        assert (ends[0].exit_code, ends[0].stdout) == (None, "said\n")
        assert [await alive(environment, number) for number in (801, 802, 803)] == [True, False, False]
        assert (await run(environment.sandbox, "exit 0")).exit_code == 0
        assert await alive(environment, 801)


async def alive(environment, number):
    """Whether a sleep of so many seconds runs in the container."""
    command = f"grep -qsxz {number} /proc/[0-9]*/cmdline && echo yes || true"
    return (await environment.call("bash", {"command": command})).text == "yes\n"


async def begun(environment, number):
    """Wait until a sleep of so many seconds runs in the container."""
    while not await alive(environment, number):  # noqa: ASYNC110  another machine's process
        await anyio.sleep(0.2)


async def test_a_lost_way_to_the_gateway_is_missing_data(tmp_path):
    """The program is stopped, and its trial fails at the sandbox with a retry owed."""
    async with opened(tmp_path) as environment:
        (relay,) = own_names("--filter", f"label={MEMORY}={RELAY.memory_mb}")

        async def kill():
            await begun(environment, 804)
            assert docker("kill", relay).returncode == 0

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(kill)
            with pytest.raises(SandboxBoundaryError, match="the connection to the gateway broke") as raised:
                await run(environment.sandbox, "sleep 804")
        assert (raised.value.kind, raised.value.is_retry_owed) == ("relay_gone", True)
        assert not await alive(environment, 804)
