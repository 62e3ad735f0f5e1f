"""The promises of every sandbox, kept by containers of a real Docker Engine, and what they promise beyond."""

import asyncio
import os
import sys
from pathlib import Path

import anyio
import pytest

from lhaw_record.runners.environments.sandboxes.docker.engine import labelled
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, ProgramCommand
from tests.contracts import test_sandboxes as contract
from tests.runners.environments.sandboxes.docker_fixtures import engine, make_provider, needs_engine, own_names  # noqa: F401
from tests.support.docker import docker

pytestmark = needs_engine
LIMITS = contract.LIMITS
_HOST = """
import asyncio, os, signal
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from tests.runners.environments.sandboxes.docker_fixtures import make_provider

async def main():
    async with make_provider().open(None, SandboxLimits(memory_mb=256)) as sandbox:
        await sandbox.run_bash("setsid sleep 8765432 & (sleep 8765432 &)")
        {last}
        await asyncio.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


class TestDocker(contract.IsolatedContract):
    """Containers of the base image."""

    def provider(self):
        """Return the provider under test."""
        return make_provider()

    async def test_a_killed_host_leaves_no_process(self):
        """When the host is killed with SIGKILL, idle or inside a command, every process of its sandboxes ends."""
        for last in ("await sandbox.run_bash('echo')", "asyncio.create_task(sandbox.run_bash('sleep 8765432'))"):
            command = [sys.executable, "-c", _HOST.format(last=last)]
            done = await anyio.run_process(command, cwd=contract.PROJECT, check=False)
            assert (done.returncode, done.stderr) == (-9, b"")
            for _ in range(3000):
                if not any(b"8765432" in line for line in contract._command_lines()):
                    break
                await anyio.sleep(0.01)
            assert not [line for line in contract._command_lines() if b"8765432" in line]

    async def test_files_of_the_host_cannot_be_seen(self, tmp_path):
        """Nothing of the host's folders for homes, temporary files and variable data is there."""
        (tmp_path / "secret").write_text("x")
        async with self.opened() as sandbox:
            for path in (tmp_path, Path.home() / ".cache", Path(sys.prefix)):
                assert (await sandbox.run_bash(f"ls -d '{path}'")).exit_code == 2
            assert (await sandbox.run_bash("find / -name secret 2>/dev/null | grep -v ^/proc")).output == ""

    async def test_running_out_of_memory_is_told_apart(self):
        """An end for want of memory says so in the result; an end by any other kill does not."""
        async with self.opened() as sandbox:
            result = await sandbox.run_bash("python3 -c 'x = bytearray(1 << 30)'; echo $?")
            assert result.is_out_of_memory
            assert result.output.startswith("137\n") or "Killed" in result.output
            assert "[the limit of 256 MB of memory was reached" in result.output
            result = await sandbox.run_bash("sleep 60 & kill -9 $!; wait $!; echo $?")
            assert not result.is_out_of_memory
            assert result.output.endswith("137\n")
            assert (await sandbox.run_python("x = bytearray(1 << 30)")).is_out_of_memory

    async def test_the_engine_is_told_every_limit(self):
        """Memory without swap, processors, processes and the absence of a network are the container's settings."""
        async with make_provider(cpus=0.5).open(None, LIMITS):
            (name,) = own_names()
            shown = docker("inspect", "--format", "{{json .HostConfig}}", name).stdout
            for setting in (
                f'"Memory":{256 << 20},',
                f'"MemorySwap":{256 << 20},',
                '"NanoCpus":500000000,',
                '"PidsLimit":42,',
                '"NetworkMode":"none"',
                '"ReadonlyRootfs":true',
                '"SecurityOpt":["no-new-privileges"]',
                '"LogConfig":{"Type":"none"',
            ):
                assert setting in shown

    async def test_a_container_says_whose_it_is(self):
        """Name and labels tell the process that owns a container, and the run and trial that it is for."""
        with labelled(run="run-1", trial="t-7", attempt=2):
            async with self.opened():
                (name,) = own_names()
                shown = docker("inspect", "--format", "{{json .Config.Labels}}", name).stdout
        assert f'"lhaw-record.pid":"{os.getpid()}"' in shown
        for label in ('"lhaw-record.run":"run-1"', '"lhaw-record.trial":"t-7"', '"lhaw-record.attempt":"2"'):
            assert label in shown

    async def test_closing_leaves_no_container(self):
        """After closing, also by an error inside, the engine has nothing of ours left."""
        with pytest.raises(RuntimeError, match="inside"):
            async with self.opened():
                raise RuntimeError("inside")
        assert own_names() == []

    async def test_a_whole_image_can_be_the_agents_machine(self):
        """As its own machine the agent is root, sees the image's variables and Python, and may change every folder."""
        async with make_provider(is_own_machine=True, work_dir="/srv").open(None, LIMITS) as sandbox:
            assert sandbox.weak_limits[0].startswith("files: their total size is not limited")
            result = await sandbox.run_bash(
                "id -u; pwd; which python3; touch /usr/x && mkdir /new && chown 5:5 /new; ls -d /new"
            )
            assert result.output == "0\n/srv\n/usr/bin/python3\n/new\n"
            assert (await sandbox.run_python("import sys; print(sys.prefix)")).output == "/usr\n"
            assert (
                await sandbox.run_bash("mount -t tmpfs none /mnt; mknod /x b 8 0; echo 1 >/proc/sys/vm/drop_caches")
            ).exit_code

    async def test_a_program_reaches_the_listener_and_nothing_else(self, tmp_path):
        """A program that is an agent runs with a HOME of its own, sees what it may, and reaches the run's listener."""
        (tmp_path / "shown").mkdir()
        (tmp_path / "shown" / "file").write_text("seen")

        async def answer(reader, writer):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.0 200 OK\r\n\r\nheard")
            writer.close()

        path = f"{tmp_path}/listener"
        code = f"""
import os, socket, sys, urllib.request
print(sys.stdin.read(), os.environ["HOME"], os.getcwd(), os.getuid(), open("{tmp_path}/shown/file").read())
open(os.environ["HOME"] + "/kept", "w").close()
print(urllib.request.urlopen(os.environ["URL"]).read().decode())
for target in ("{tmp_path}/shown/file", "{tmp_path}/shown/new"):
    try:
        open(target, "w")
    except OSError as error:
        print(error.strerror)
try:
    socket.create_connection(("192.0.2.1", 80), timeout=2)
except OSError as error:
    print(error.strerror)
"""
        async with await asyncio.start_unix_server(answer, path):
            await anyio.Path(path).chmod(0o666)
            access = ProgramAccess(socket=path, mounts=(f"{tmp_path}/shown",))
            async with self.provider().open(None, LIMITS, access) as sandbox:
                environment = {"URL": sandbox.listener_url}
                argv = ("python3", "-c", code)
                launch = ProgramCommand(argv=argv, environment=environment, stdin=b"fed", max_seconds=30)
                end = await sandbox.run_program(launch, anyio.Event())
        expected = "fed /home/agent /workspace 61000 seen\nheard\n" + "Read-only file system\n" * 2
        assert (end.exit_code, end.stderr) == (0, "")
        assert end.stdout == expected + "Network is unreachable\n"
