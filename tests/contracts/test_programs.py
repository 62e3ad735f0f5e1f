"""What every sandbox promises a program that is an agent: its own environment, a way to one listener, and an end."""

import asyncio
import os
import shutil
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import msgspec
import pytest

from lhaw_record.runners.environments.sandboxes.local import layout, providers
from lhaw_record.runners.environments.sandboxes.local.bubblewrap import BubblewrapSandboxProvider
from lhaw_record.runners.environments.sandboxes.local.providers import NamespaceSandboxProvider, ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, ProgramCommand, ProgramEnd, SandboxLimits
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home
from tests.support.needs import needs

LIMITS = SandboxLimits(memory_mb=256, processes=60, file_mb=64, output_bytes=4096, command_seconds=300)

_TALK = """
import os, socket, sys, threading
host, port = sys.argv[1].removeprefix("http://").split(":")
def talk(size):
    data = os.urandom(size)
    with socket.create_connection((host, int(port))) as there:
        threading.Thread(target=lambda: (there.sendall(data), there.shutdown(socket.SHUT_WR))).start()
        back = b""
        while more := there.recv(65536): back += more
    said.append(back == data)
said = []
threads = [threading.Thread(target=talk, args=(size,)) for size in (1, 1000, 70_000, 3_000_000)]
for each in threads: each.start()
for each in threads: each.join()
print(said)
"""


@asynccontextmanager
async def echo(has_port):
    """A listener that sends back what it gets, on a unix socket and perhaps on loopback; yields the way to it."""

    async def answer(reader, writer):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
        writer.close()

    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/echo"
        async with await asyncio.start_unix_server(answer, path):
            os.chmod(path, 0o666)  # noqa: PTH101
            if not has_port:
                yield ProgramAccess(socket=path)
                return
            async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
                yield ProgramAccess(socket=path, port=server.sockets[0].getsockname()[1])


class ProgramContract:
    """The suite; a subclass names its provider."""

    has_port = False

    @asynccontextmanager
    async def opened(self, **more):
        """Open a sandbox with a way to the echo."""
        async with echo(self.has_port) as to_echo:
            access = ProgramAccess(socket=to_echo.socket, port=to_echo.port, **more)
            async with self.provider().open(None, LIMITS, access) as sandbox:
                yield sandbox

    async def run(self, sandbox, *argv, stdin=b"", environment=None, max_seconds=600.0, stop=None):
        """Run a program."""
        launch = ProgramCommand(argv=argv, environment=environment or {}, stdin=stdin, max_seconds=max_seconds)
        return await sandbox.run_program(launch, stop or anyio.Event())

    async def test_it_gets_its_input_and_its_environment(self):
        """Standard input, variables, HOME beside the work directory, PATH with what the entry adds at its end."""
        async with self.opened(path=("/entry/bin",)) as sandbox:
            command = 'cat; echo "$MINE"; echo "$HOME"; pwd; echo "${PATH##*:}"; echo problem >&2; exit 3'
            end = await self.run(sandbox, "bash", "-c", command, stdin=b"input\n", environment={"MINE": "a b"})
            said = f"input\na b\n{sandbox.home}\n{sandbox.work_dir}\n/entry/bin\n"
            assert end == ProgramEnd(exit_code=3, stdout=said, stderr="problem\n")
            assert not sandbox.home.startswith(sandbox.work_dir)

    async def test_files_below_home_are_there_and_stay_out_of_the_work_directory(self, tmp_path):
        """What is written below HOME before the start can be read and changed; an export does not have it."""
        async with self.opened() as sandbox:
            await sandbox.write_file(f"{sandbox.home}/.config/entry/settings.json", b"{}")
            end = await self.run(sandbox, "sh", "-c", "cat ~/.config/entry/settings.json; touch ~/x made")
            assert end == ProgramEnd(exit_code=0, stdout="{}")
            await sandbox.export(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["made"]

    async def test_it_reaches_the_listener(self):
        """Several connections at once, with much data in both directions and a half-closed end, arrive unchanged."""
        async with self.opened() as sandbox:
            end = await self.run(sandbox, "python3", "-c", _TALK, sandbox.listener_url)
        assert (end.exit_code, end.stdout, end.stderr) == (0, "[True, True, True, True]\n", "")

    async def test_it_may_be_run_again(self):
        """A second program finds the listener as the first did."""
        async with self.opened() as sandbox:
            for _ in range(2):
                end = await self.run(sandbox, "python3", "-c", _TALK, sandbox.listener_url)
                assert end.stdout == "[True, True, True, True]\n"

    async def test_a_large_input_and_a_large_output(self):
        """A program that does not read its input is not held up by it; of long output the middle is left out."""
        async with self.opened() as sandbox:
            command = "head -c 100000 /dev/zero | tr '\\0' x; echo; echo last"
            end = await self.run(sandbox, "bash", "-c", command, stdin=b"y" * 3_000_000)
        assert end.exit_code == 0
        assert end.stdout.endswith("x\nlast\n")
        assert "bytes left out" in end.stdout
        assert len(end.stdout) < 4096 + 100

    @pytest.mark.parametrize("program", ["no-such-program", "/no/such/program", "./text", "/tmp"])
    async def test_what_cannot_be_started_is_said(self, program):
        """The system's word comes back, and the sandbox is still usable."""
        async with self.opened() as sandbox:
            await sandbox.write_file("text", b"no program")
            end = await self.run(sandbox, program)
            assert end.start_error in ("No such file or directory", "Permission denied")
            assert (await self.run(sandbox, "true")).exit_code == 0

    async def test_a_signal_is_an_exit_code(self):
        """A program that a signal ends has 128 and more, as in a shell."""
        async with self.opened() as sandbox:
            assert (await self.run(sandbox, "sh", "-c", "kill -9 $$")).exit_code == 137

    async def test_time_and_stop_end_it_with_what_it_said(self):
        """Out of time, or told to stop, it has no exit code; what it printed before is not lost."""
        async with self.opened() as sandbox:
            command = "echo said; setsid sh -c 'while :; do date +%N > beat; sleep 0.02; done' & sleep 3600"
            end = await self.run(sandbox, "bash", "-c", command, max_seconds=3.0)
            assert end == ProgramEnd(exit_code=None, stdout="said\n")
            stop = anyio.Event()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_set_soon, stop)
                end = await self.run(sandbox, "bash", "-c", command, stop=stop)
            assert end == ProgramEnd(exit_code=None, stdout="said\n")
            same = await self.run(sandbox, "sh", "-c", "cat beat > old; sleep 0.2; cmp beat old && echo quiet")
            assert same.stdout == "quiet\n"

    async def test_a_cancelled_caller_leaves_nothing_running(self):
        """Whoever waits may be cancelled; the program is ended, and the sandbox is still usable."""
        async with self.opened() as sandbox:
            with anyio.move_on_after(3.0):
                await self.run(sandbox, "bash", "-c", "while :; do date +%N > beat; sleep 0.02; done")
            same = await self.run(sandbox, "sh", "-c", "cat beat > old; sleep 0.2; cmp beat old && echo quiet")
            assert same.stdout == "quiet\n"

    async def test_a_stop_that_comes_too_late_stops_nothing(self):
        """Told to stop when it has just ended, the next program is not hit."""
        async with self.opened() as sandbox:
            stop = anyio.Event()
            stop.set()
            first = await self.run(sandbox, "true", stop=stop)
            assert first.exit_code in (0, None)
            assert (await self.run(sandbox, "sh", "-c", "sleep 0.2; echo whole")).stdout == "whole\n"


@pytest.mark.thorough
class TestProcess(ProgramContract):
    """Programs as plain processes."""

    provider = ProcessSandboxProvider
    has_port = True


class IsolatedHereContract(ProgramContract):
    """Programs in namespaces of their own, on this machine's file system."""

    async def test_it_sees_what_the_entry_mounts_and_cannot_write_there(self, tmp_path):
        """Mounts stand at their own paths, read-only; what lies beside them is not there."""
        (tmp_path / "shown").mkdir()
        (tmp_path / "shown" / "file").write_text("content")
        (tmp_path / "hidden").touch()
        async with self.opened(mounts=(str(tmp_path / "shown"),)) as sandbox:
            command = f"cat {tmp_path}/shown/file; ls {tmp_path}; touch {tmp_path}/shown/x || echo refused"
            end = await self.run(sandbox, "sh", "-c", command)
        assert end.stdout == "contentshown\nrefused\n"

    @pytest.mark.parametrize("where", ["temporary folder", "home", "shared memory"])
    async def test_what_lies_below_a_folder_of_its_own_is_shown_too(self, tmp_path, monkeypatch, where):
        """Programs installed below /tmp, in /dev/shm or in a HOME that is named as the agent's can be read."""
        folder = Path(tempfile.mkdtemp(dir="/dev/shm" if where == "shared memory" else tmp_path))
        try:
            shown = folder / "agents" / "entry"
            shown.mkdir(parents=True)
            (shown / "file").write_text("content")
            if where == "home":
                monkeypatch.setattr(layout, "HOME", str(folder))
            async with self.opened(mounts=(str(shown),)) as sandbox:
                end = await self.run(sandbox, "sh", "-c", f"cat {shown}/file; touch ~/mine $TMPDIR/mine /dev/shm/mine")
            assert end == ProgramEnd(exit_code=0, stdout="content")
        finally:
            shutil.rmtree(folder)

    async def test_the_interpreter_may_lie_where_temporary_files_do(self, tmp_path, monkeypatch):
        """Where Python itself is below /tmp, the agent's user may start it, and see what else is shown there."""
        real = current_python_home()
        (tmp_path / "python" / "bin").mkdir(parents=True)
        (tmp_path / "python" / "lib").symlink_to(f"{real.base_prefix}/lib")
        copied = shutil.copy(real.executable, tmp_path / "python" / "bin")
        moved = msgspec.structs.replace(real, executable=str(copied), base_prefix=str(tmp_path / "python"))
        monkeypatch.setattr(providers, "current_python_home", lambda: moved)
        (tmp_path / "entry").mkdir()
        shown = (str(tmp_path / "entry"), f"{real.base_prefix}/lib")  # where shared libraries are looked for
        async with self.opened(mounts=shown) as sandbox:
            code = f"import os, sys; print(sys.prefix, sys.base_prefix, os.listdir({str(tmp_path / 'entry')!r}))"
            end = await self.run(sandbox, "python3", "-c", code)
        assert end == ProgramEnd(exit_code=0, stdout=f"/opt/agent/python {tmp_path}/python []\n")

    async def test_our_own_files_stay_hidden_below_what_is_shown(self, tmp_path):
        """A mount above our checkout or installation shows neither graders nor answers, nor does a link to it."""
        project = Path(__file__).parents[2]
        (tmp_path / "link").symlink_to(project.parent)
        shown = (project, tmp_path / "link" / project.name)
        async with self.opened(mounts=(str(project.parent), str(tmp_path / "link"))) as sandbox:
            end = await self.run(
                sandbox, "sh", "-c", 'for a; do ls -A "$a" | wc -l; ls -d "$a"; done', "sh", *map(str, shown)
            )
        assert end.stdout == f"0\n{shown[0]}\n0\n{shown[1]}\n"

    async def test_the_listener_is_the_only_way_out(self):
        """A port of this host is not there; the sandbox's own loopback is, and only its forwarder listens on it."""
        async with echo(has_port=True) as outside, self.opened() as sandbox:
            code = (
                "import socket, sys\n"
                "for host, port in (('127.0.0.1', int(sys.argv[1])), ('198.51.100.1', 80)):\n"
                "    try: socket.create_connection((host, port), 2)\n"
                "    except OSError as error: print(type(error).__name__)\n"
            )
            end = await self.run(sandbox, "python3", "-c", code, str(outside.port))
        assert end.stdout == "ConnectionRefusedError\nOSError\n"

    async def test_memory_that_is_only_reserved_counts_for_nothing(self):
        """Runtimes that reserve far more memory than they use, as Node does, start within the limits."""
        code = (
            "import mmap\nflags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS\nprint(len(mmap.mmap(-1, 1 << 34, flags, 0)))"
        )
        async with self.opened() as sandbox:
            assert (await self.run(sandbox, "python3", "-c", code)).stdout == f"{1 << 34}\n"


async def _set_soon(event):
    await anyio.sleep(3.0)
    event.set()


@needs("bubblewrap")
class TestBubblewrap(IsolatedHereContract):
    """Programs in bubblewrap."""

    provider = BubblewrapSandboxProvider


@needs("namespaces")
class TestNamespaces(IsolatedHereContract):
    """Programs in the kernel's namespaces, without bubblewrap."""

    provider = NamespaceSandboxProvider
