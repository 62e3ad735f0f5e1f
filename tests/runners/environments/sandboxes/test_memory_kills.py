"""A process that the kernel killed for lack of memory: at the sandbox's own limit, or because others took it."""

import anyio
import pytest

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.command_output import command_result, program_end
from lhaw_record.runners.environments.sandboxes.docker.machine import with_limits_met
from lhaw_record.runners.environments.sandboxes.inside.processes import limit_counts, memory_kill
from lhaw_record.runners.environments.sandboxes.local import cgroups
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import ProgramCommand, SandboxLimits
from tests.support.machine_limits import ended

VERSION_2 = "low 0\nhigh 0\nmax {max}\noom {oom}\noom_kill {kills}\noom_group_kill 0\n"
VERSION_1 = "oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n{oom}\n"
OLD_KERNEL = "oom_kill_disable 0\nunder_oom 0\n{oom}\n"
NO_OWN_COUNT = "oom_kill_disable 0\nunder_oom 0\noom_kill {kills}\n"
KILLS = [
    (VERSION_2, {"kills": 0, "oom": 0, "max": 9}, ""),
    (VERSION_2, {"kills": 1, "oom": 1, "max": 9}, "memory_limit"),
    (VERSION_2, {"kills": 1, "oom": 0, "max": 0}, "memory_outside"),
    (VERSION_2, {"kills": 1, "oom": 0, "max": 9}, "memory_outside"),  # reclaimed at its limit, killed by another's
    (VERSION_2, {"kills": 0, "oom": 3, "max": 9}, ""),  # met its limit, and the allocation failed instead
    (VERSION_1, {"kills": 2, "oom": 700}, "memory_limit"),
    (VERSION_1, {"kills": 2, "oom": 0}, "memory_outside"),
    (VERSION_1, {"kills": 0, "oom": 700}, ""),
    (NO_OWN_COUNT, {"kills": 1}, "memory_limit"),  # whose limit it was is not known
    (OLD_KERNEL, {"oom": 5}, ""),
    ("", {}, ""),
]
SOURCE = "x = bytearray(600 << 20)"
READING = """
import time
with open("big", "wb") as file:
    for _ in range(150):
        file.write(bytes(1 << 20))
while int(open({limit!r}).read()) > 100 << 20:
    time.sleep(0.01)
x = bytearray(600 << 20)
"""


@pytest.mark.parametrize(("form", "counts", "whose"), KILLS)
def test_the_groups_own_files_say_whose_memory_ran_out(form, counts, whose):
    """A kill with the group's own limit met is its own; one without is not. Later kills are judged by what is new."""
    before = limit_counts(form.format(**dict.fromkeys(counts, 0)))
    assert memory_kill(before, limit_counts(form.format(**counts))) == whose
    again = {name: count + 40 for name, count in counts.items()}
    assert memory_kill(limit_counts(form.format(**again)), limit_counts(form.format(**again))) == ""
    if whose == "memory_outside":
        with pytest.raises(SandboxBoundaryError, match="memory ran out outside of a container") as raised:
            with_limits_met(ended(), before, limit_counts(form.format(**counts)))
        assert raised.value.is_retry_owed
        assert not raised.value.is_abuse
    else:
        met = with_limits_met(ended(), before, limit_counts(form.format(**counts)))
        assert met.is_out_of_memory == (whose == "memory_limit")


def test_refused_processes_are_not_read_from_the_memory_file():
    """Both files of version 2 have a line ``max``."""
    assert limit_counts(VERSION_2.format(kills=0, oom=0, max=7)) == {"oom": 0, "oom_kill": 0}
    assert limit_counts("processes max 3\n") == {"processes": 3}


def test_what_a_driver_saw_reaches_the_host():
    """A driver in a container reads the files itself, and its notes have the same meaning."""
    with pytest.raises(SandboxBoundaryError, match="memory ran out outside"):
        command_result([b"done", b"0", b"memory_outside,memory_watched", b"0", b"", b""], SandboxLimits())
    end = program_end([b"ended", b"137", b"memory_outside", b"0 0", b"0", b"", b"", b"0", b"", b""])
    assert (end.exit_code, end.memory_kill) == (137, "memory_outside")


@pytest.fixture
def surroundings(monkeypatch):
    """A group around the sandboxes' groups, whose limit of memory a test sets."""
    found = cgroups.available_hierarchies()
    if found.memory is None or found.is_version_2:
        pytest.skip("no writable memory control group of version 1")
    outer = found.memory / "lhaw-test-surroundings"
    outer.mkdir(exist_ok=True)
    inner = cgroups.Hierarchies(outer, found.processes, found.cpu)
    monkeypatch.setattr(cgroups, "available_hierarchies", lambda: inner)
    yield outer
    outer.rmdir()


@pytest.mark.thorough
@pytest.mark.parametrize(("outer_mb", "own_mb", "whose"), [(200, 1024, "memory_outside"), (2000, 200, "memory_limit")])
async def test_a_full_group_around_the_trial_is_not_the_trials(surroundings, outer_mb, own_mb, whose):
    """The kernel kills a real program: by its own group's limit, or because the group around it is full."""
    (surroundings / "memory.limit_in_bytes").write_text(str(outer_mb << 20))
    async with ProcessSandboxProvider().open(None, SandboxLimits(memory_mb=own_mb)) as sandbox:
        launch = ProgramCommand(argv=("/usr/bin/python3", "-c", SOURCE), environment={}, stdin=b"", max_seconds=60.0)
        end = await sandbox.run_program(launch, anyio.Event())
        assert (end.exit_code, end.memory_kill) == (137, whose)
        command = f"/usr/bin/python3 -c '{SOURCE}'"
        if whose == "memory_limit":
            result = await sandbox.run_bash(command)
            assert (result.limit_met, result.is_out_of_memory) == ("memory_mb", True)
        else:
            with pytest.raises(SandboxBoundaryError, match="memory ran out outside"):
                await sandbox.run_bash(command)


@pytest.mark.thorough
async def test_a_full_page_cache_is_not_the_trials_limit(surroundings):
    """A trial that has read much has met its own limit; a kill because the group around it is full is not its own."""
    limit = surroundings / "memory.limit_in_bytes"
    limit.write_text(str(2000 << 20))
    launch = ProgramCommand(
        argv=("/usr/bin/python3", "-c", READING.format(limit=str(limit))), environment={}, stdin=b"", max_seconds=60.0
    )
    ends = []
    async with ProcessSandboxProvider().open(None, SandboxLimits(memory_mb=100)) as sandbox:
        (group,) = surroundings.glob("lhaw-record-*")

        async def run():
            ends.append(await sandbox.run_program(launch, anyio.Event()))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            while not int((group / "memory.failcnt").read_text()):  # noqa: ASYNC110  the kernel tells nobody
                await anyio.sleep(0.01)
            limit.write_text(str(80 << 20))
    assert (ends[0].exit_code, ends[0].memory_kill) == (137, "memory_outside")


@pytest.mark.parametrize(("is_killed", "grown", "is_outside"), [(True, 1, True), (False, 1, False), (True, 0, False)])
async def test_without_a_group_the_hosts_count_decides(monkeypatch, is_killed, grown, is_outside):
    """Where no group can be made, a killed program and a growing count of the host go together."""
    monkeypatch.setattr(cgroups, "available_hierarchies", cgroups.Hierarchies)
    kills = iter([5, *[5 + grown] * 9])
    monkeypatch.setattr(cgroups, "_text", lambda _: f"oom_kill {next(kills)}\n")
    async with ProcessSandboxProvider().open(None, SandboxLimits()) as sandbox:
        last = "kill -9 $$" if is_killed else "exit 1"
        launch = ProgramCommand(argv=("/bin/sh", "-c", last), environment={}, stdin=b"", max_seconds=60.0)
        end = await sandbox.run_program(launch, anyio.Event())
    assert (end.memory_kill == "memory_outside") == is_outside
