"""Programs, files and networks of containers without an agent, as graders and services use them."""

import asyncio
import json
import os
import socket
import sys
import threading

import anyio
import pytest

from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.docker import machine as machines
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.containers import internal_network
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.files import FileLimits
from lhaw_record.runners.environments.sandboxes.docker.machine import ServiceConfig, open_machine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from tests.contracts.test_sandboxes import PROJECT, _command_lines
from tests.runners.environments.sandboxes.docker_fixtures import (  # noqa: F401
    engine,
    make_provider,
    needs_engine,
    nobody_else,
    own_names,
)
from tests.support.docker import BASE_IMAGE, docker

pytestmark = needs_engine
LIMITS = SandboxLimits(memory_mb=256, processes=100)
_HOST = """
import asyncio, os, signal
from tests.runners.environments.sandboxes.test_docker_machine import opened

async def main():
    async with opened() as machine:
        await machine.run(["sh", "-c", "setsid sleep 8765431 >/dev/null 2>&1 &"], timeout_s=30)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def opened(**options):
    """Open a machine of the base image."""
    network = options.pop("network", "none")
    image = DockerImage(name=BASE_IMAGE, network=network)
    return open_machine(image, LIMITS, MemoryBudget(16_000, nobody_else), **options)


async def shell(machine, command, timeout_s=30.0, **options):
    """Run a shell command on a machine."""
    return await machine.run(["/bin/sh", "-c", command], timeout_s=timeout_s, **options)


async def test_a_program_and_what_it_says():
    """Exit code, both streams apart and every byte come back; user, folder and variables are as asked for."""
    async with opened() as machine:
        result = await shell(machine, "printf 'a\\000\\377'; echo b >&2; exit 7")
        assert (result.exit_code, result.stdout, result.stderr) == (7, b"a\0\xff", b"b\n")
        result = await shell(machine, "id -un; pwd; echo $X", user="agent", work_dir="/tmp", environment={"X": "y z"})
        assert result.stdout == b"agent\n/tmp\ny z\n"
        result = await machine.run(["no-such-program"], timeout_s=30)
        assert result.exit_code in (126, 127)


async def test_output_is_bounded():
    """The beginning of endless output is kept."""
    async with opened() as machine:
        result = await shell(machine, "head -c 20000000 /dev/zero; echo end >&2", output_bytes=1000)
    assert (result.exit_code, len(result.stdout), result.stderr) == (0, 1000, b"end\n")


async def test_a_timeout_ends_every_process():
    """After a timeout nothing runs that the program started: not in another session, as another user, or renamed."""
    async with opened() as machine:
        escape = (
            "setsid env -i sleep 7654321 & (setsid su agent -s /bin/sh -c 'sleep 7654321' &) ; "
            "python3 -c 'import os\nif os.fork() == 0:\n  os.setsid()\n  os.fork() or "
            'os.execlp("sleep", "x", "7654321")\'\n'
            "trap '' TERM INT HUP; echo started; sleep 7654321"
        )
        result = await shell(machine, escape, timeout_s=2.0)
        assert result.is_timeout
        assert result.exit_code is None
        assert result.stdout == b"started\n"
        assert not [line for line in _command_lines() if b"7654321" in line]
        assert (await shell(machine, "echo usable")).stdout == b"usable\n"


async def test_a_clock_that_stands_still_bounds_nothing():
    """A program whose time is measured by somebody's clock has no other limit."""
    clock = TrialClock(0.001)
    async with opened() as machine:
        with clock.holding(None):
            assert (await machine.run(["true"], timeout_s=0.001, clock=clock)).exit_code == 0
        assert (await machine.run(["sleep", "3600"], timeout_s=3600, clock=TrialClock(0.001))).is_timeout


async def test_a_cancelled_program_is_ended():
    """Whoever stops waiting, as when a trial's time is up, leaves no program behind."""
    async with opened() as machine:
        with anyio.move_on_after(1) as scope:
            await shell(machine, "setsid sleep 6543210 & sleep 6543210")
        assert scope.cancelled_caught
        assert not [line for line in _command_lines() if b"6543210" in line]
        assert (await shell(machine, "echo usable")).stdout == b"usable\n"


async def test_programs_run_side_by_side():
    """Programs of one machine run at the same time, each with its own output."""
    async with opened() as machine:
        results = await asyncio.gather(*(shell(machine, f"sleep 0.1; echo {number}") for number in range(8)))
    assert [result.stdout for result in results] == [b"%d\n" % number for number in range(8)]


async def test_a_background_process_does_not_hold_the_program():
    """A program whose service goes on in the background, with the output open, has ended when it has ended."""
    async with opened() as machine:
        result = await shell(machine, "sleep 3600 & echo started", timeout_s=20)
        assert (result.exit_code, result.stdout) == (0, b"started\n")


async def test_a_program_that_closes_its_output_is_waited_for():
    """The exit code is that of the end, however long it comes after the last output."""
    async with opened() as machine:
        assert (await shell(machine, "exec >&- 2>&-; sleep 0.5; exit 3")).exit_code == 3


async def test_a_container_without_a_shell():
    """A program that succeeded has succeeded, also where nothing can be asked about limits afterwards."""
    async with opened() as machine:
        assert (await machine.run(["rm", "/usr/bin/sh"], timeout_s=30)).exit_code == 0
        assert (await machine.run(["echo", "usable"], timeout_s=30)).stdout == b"usable\n"
        with pytest.raises(SandboxBoundaryError):
            await machine.run(["false"], timeout_s=30)


async def test_orphans_are_collected():
    """Ended processes whose parent is gone do not fill the limit of processes."""
    async with opened() as machine:
        await shell(machine, "for i in $(seq 150); do (sh -c 'exit 0' &); done")
        result = await shell(machine, "sleep 0.3; grep -l '^State:.Z' /proc/[0-9]*/status 2>/dev/null | wc -l")
    assert result.stdout == b"0\n"


async def test_running_out_of_memory_is_told_apart():
    """A program that the system ends for want of memory is told apart from one that something else kills."""
    async with opened() as machine:
        assert not (await shell(machine, "kill -9 $$")).is_out_of_memory
        result = await machine.run(["python3", "-c", "x = bytearray(1 << 30)"], timeout_s=30)
        assert (result.exit_code, result.is_out_of_memory) == (137, True)
        assert not (await shell(machine, "kill -9 $$")).is_out_of_memory


async def test_a_killed_host_leaves_no_process():
    """When this process is killed with SIGKILL, the container of a machine ends by itself."""
    done = await anyio.run_process([sys.executable, "-c", _HOST], cwd=PROJECT, check=False)
    assert (done.returncode, done.stderr) == (-9, b"")
    for _ in range(3000):
        if not any(b"8765431" in line for line in _command_lines()):
            break
        await anyio.sleep(0.01)
    assert not [line for line in _command_lines() if b"8765431" in line]


@pytest.mark.parametrize("verb", ["kill", "rm"])
async def test_the_end_of_the_container_is_a_boundary_error(verb):
    """A container that something outside ends during a program is the sandbox's failure, and owed again."""
    async with opened() as machine:
        arguments = ("rm", "--force") if verb == "rm" else ("kill",)
        timer = threading.Timer(0.7, docker, (*arguments, machine.container_id))
        timer.start()
        with pytest.raises(SandboxBoundaryError) as caught:
            await shell(machine, "sleep 3600")
        assert caught.value.kind in ("container_killed", "container_removed")  # it is killed before it is removed
        assert caught.value.is_retry_owed
        timer.join()
        with pytest.raises(SandboxBoundaryError) as caught:
            await shell(machine, "echo")
        assert caught.value.kind == ("container_removed" if verb == "rm" else "container_killed")


# -- files


async def test_files_go_in_and_come_out(tmp_path):
    """Files arrive with their bits, and come out whole; links, devices and pipes stay where they are."""
    async with opened() as machine:
        content = os.urandom(3 << 20)
        await machine.put("/srv", {"a b/é": content, "run.sh": b"#!/bin/sh\necho ran\n"})
        told = await shell(machine, "sh /srv/run.sh; stat -c %U:%Y:%a /srv/run.sh")
        assert told.stdout == b"ran\nroot:946684800:644\n"
        await shell(
            machine, "cd /srv; ln -s /etc/passwd link; ln -s /etc folder; mkfifo pipe; ln run.sh second; mknod n p"
        )
        assert await machine.get("/srv", FileLimits()) == {
            "a b/é": content,
            "run.sh": b"#!/bin/sh\necho ran\n",
            "second": b"#!/bin/sh\necho ran\n",
        }
        assert await machine.get("/srv/run.sh", FileLimits()) == {"run.sh": b"#!/bin/sh\necho ran\n"}
        await machine.export("/srv/a b", tmp_path / "out", FileLimits())
        assert (tmp_path / "out" / "é").read_bytes() == content
        with pytest.raises(FileNotFoundError):
            await machine.get("/srv/missing", FileLimits())
        with pytest.raises(SandboxBoundaryError, match="cannot be put into /missing"):
            await machine.put("/missing", {"x": b""})


async def test_what_comes_out_is_bounded():
    """Too many bytes or too many files are refused, also where they are holes, and little of them is carried over."""
    async with opened() as machine:
        await shell(machine, "mkdir /srv/many /srv/big; truncate -s 40G /srv/big/hole; cd /srv/many; touch $(seq 200)")
        for path, limits in (("/srv/big", FileLimits(total_bytes=1 << 20)), ("/srv/many", FileLimits(entries=100))):
            with pytest.raises(SandboxBoundaryError) as caught:
                await machine.get(path, limits)
            assert (caught.value.kind, caught.value.is_retry_owed) == ("export_too_large", False)


# -- networks


async def test_an_internal_network_leads_to_this_machine_only():
    """Containers reach a server at this machine's end of the network, neither each other nor anything beyond."""
    async with connected() as client, internal_network(client) as network:
        with socket.create_server((network.host_address, 0)) as server:
            port = server.getsockname()[1]
            async with opened(network=network.name) as one, opened(network=network.name) as other:
                listen = "python3 -m http.server 8000 >/dev/null 2>&1 & sleep 1; hostname -I"
                neighbour = (await shell(other, listen)).stdout.decode().strip()
                codes = [
                    (await machine_connects(one, address)).exit_code
                    for address in ((network.host_address, port), (neighbour, 8000), ("192.0.2.1", 80))
                ]
        assert codes == [0, 1, 1]
    assert network.name not in docker("network", "ls", "--format", "{{.Name}}").stdout


async def test_neighbours_find_each_other_by_name():
    """On a network with neighbours a service is found by its alias, as a task's services are."""
    async with (
        connected() as client,
        internal_network(client, has_neighbours=True) as network,
        opened(network=network.name, aliases=("the-service",)) as one,
        opened(network=network.name) as other,
    ):
        await shell(one, "python3 -m http.server 8000 >/dev/null 2>&1 & sleep 1")
        assert (await machine_connects(other, ("the-service", 8000))).exit_code == 0


async def test_a_service_runs_its_own_command(monkeypatch):
    """A service's container runs what its image says, within our limits, and is removed at the end.

    What is put into it, before its start or after, is packed beside the event loop, so it holds no other trial up.
    """
    threads, pack = [], machines.packed
    monkeypatch.setattr(machines, "packed", lambda *given: threads.append(threading.current_thread()) or pack(*given))
    tag = "lhaw-record/test-service:1"
    made = docker("create", "--entrypoint", "sleep", BASE_IMAGE, "1234").stdout.strip()
    assert docker("commit", "--change", 'ENTRYPOINT ["sleep"]', "--change", 'CMD ["1234"]', made, tag).returncode == 0
    docker("rm", made)
    room, service = MemoryBudget(16_000, nobody_else), ServiceConfig(files={"/srv/a": b"1"})
    try:
        async with open_machine(DockerImage(name=tag), LIMITS, room, service=service) as machine:
            await machine.put("/srv", {"b": b"2"})
            assert (await shell(machine, "cat /srv/a /srv/b")).stdout == b"12"
            assert "sleep\0001234" in (await shell(machine, "cat /proc/1/cmdline")).stdout.decode()
            shown = json.loads(docker("inspect", machine.container_id).stdout)[0]
            assert shown["HostConfig"]["Memory"] == 256 << 20
        assert own_names() == []
        assert len(threads) == 2
        assert threading.main_thread() not in threads
    finally:
        docker("rmi", tag)


async def machine_connects(machine, address):
    """Try to connect from inside a machine."""
    code = f"import socket\nsocket.create_connection({address!r}, timeout=1)"
    return await machine.run(["python3", "-c", code], timeout_s=30)


async def test_a_capability_for_setup_is_not_the_agents():
    """With NET_RAW a program from outside may ping, which is published with file capabilities; the agent may not."""
    ping = "ping -c 1 127.0.0.1 > /dev/null && echo pinged"
    limits = SandboxLimits(memory_mb=256)
    provider = make_provider(is_own_machine=True, work_dir="/root", setup_capabilities=("NET_RAW",))
    async with provider.open(None, limits) as sandbox:
        agents = await sandbox.run_bash(ping + "; grep CapBnd /proc/self/status")
        python = await sandbox.run_python("import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)")
        outside = await shell(sandbox.machine, ping)
    assert "Operation not permitted" in agents.output
    assert "pinged" not in agents.output
    assert not int(agents.output.split()[-1], 16) & 1 << 13
    assert "PermissionError" in python.output
    assert outside.stdout == b"pinged\n"
    async with make_provider(is_own_machine=True, work_dir="/root").open(None, limits) as sandbox:
        result = await shell(sandbox.machine, ping)
    assert result.exit_code != 0
    assert b"Operation not permitted" in result.stderr
