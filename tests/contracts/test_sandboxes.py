"""What every sandbox promises, and what bubblewrap promises beyond it."""

import asyncio
import errno
import os
import shutil
import socket
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from lhaw_record.runners.base.errors import ExperimentError, SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.command_output import cut_text
from lhaw_record.runners.environments.sandboxes.kinds import isolation_problem, problem_with, provider, remedy
from lhaw_record.runners.environments.sandboxes.local import providers
from lhaw_record.runners.environments.sandboxes.local.bubblewrap import BubblewrapSandboxProvider
from lhaw_record.runners.environments.sandboxes.local.cgroups import available_hierarchies, find_hierarchies
from lhaw_record.runners.environments.sandboxes.local.layout import CERTIFICATES
from lhaw_record.runners.environments.sandboxes.local.providers import NamespaceSandboxProvider, ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import CommandResult, Sandbox, SandboxLimits
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home
from tests.support.needs import needs, skip_for

LIMITS = SandboxLimits(memory_mb=256, processes=40, file_mb=8, output_bytes=4096, command_seconds=300)
IMPATIENT = SandboxLimits(memory_mb=256, processes=40, file_mb=8, output_bytes=4096, command_seconds=3)
PROJECT = Path(__file__).parents[2]

# It leaves nothing behind, so that only the system knows of the process that it refused.
REFUSED = """
import subprocess
started = []
try:
    while True:
        started.append(subprocess.Popen(["sleep", "100000"]))
except OSError:
    pass
for each in started:
    each.kill()
    each.wait()
"""

_HOST = """
import asyncio, os, signal
from lhaw_record.runners.environments.sandboxes.local.bubblewrap import BubblewrapSandboxProvider
from lhaw_record.runners.environments.sandboxes.local.providers import NamespaceSandboxProvider
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

async def main():
    async with {provider}().open(None, SandboxLimits()) as sandbox:
        await sandbox.run_bash("setsid sleep 8765432 & (sleep 8765432 &)")
        {last}
        await asyncio.sleep(0.2)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


class SandboxContract:
    """The suite; a subclass names its provider."""

    @asynccontextmanager
    async def opened(self, files: Path | None = None, limits: SandboxLimits = LIMITS) -> AsyncIterator[Sandbox]:
        """Open a sandbox of the kind under test."""
        async with self.provider().open(files, limits) as sandbox:
            yield sandbox

    async def bash(self, command: str, limits: SandboxLimits = LIMITS) -> CommandResult:
        """Run one command in a sandbox of its own."""
        async with self.opened(limits=limits) as sandbox:
            return await sandbox.run_bash(command)

    async def python(self, code: str) -> CommandResult:
        """Run one piece of code in a sandbox of its own."""
        async with self.opened() as sandbox:
            return await sandbox.run_python(code)

    # -- the shell

    async def test_shell_keeps_its_state(self):
        """Directory, variables, arrays and functions carry over to the next command."""
        async with self.opened() as sandbox:
            await sandbox.run_bash("mkdir deep; cd deep; x=5; declare -A m; m[k]=v; f() { echo f:$1; }")
            result = await sandbox.run_bash('basename "$PWD"; echo $x ${m[k]}; f y')
        assert (result.output, result.exit_code) == ("deep\n5 v\nf:y\n", 0)

    async def test_exit_codes_come_back(self):
        """The exit code of the last command is the result's."""
        async with self.opened() as sandbox:
            assert (await sandbox.run_bash("false")).exit_code == 1
            assert (await sandbox.run_bash("(exit 42)")).exit_code == 42
            assert (await sandbox.run_bash("kill -9 $BASHPID & wait $!")).exit_code == 137
            assert (await sandbox.run_bash("true")).exit_code == 0

    async def test_both_streams_come_in_order(self):
        """Standard output and standard error are shown in the order in which they were written."""
        result = await self.bash("echo 1; echo 2 >&2; echo 3; echo 4 >&2")
        assert result.output == "1\n2\n3\n4\n"

    async def test_shell_input_is_empty(self):
        """A command that reads standard input sees its end, and swallows no later command."""
        async with self.opened() as sandbox:
            assert (await sandbox.run_bash("cat; read line; echo $?")).output == "1\n"
            assert (await sandbox.run_bash("echo still here")).output == "still here\n"

    async def test_a_background_job_does_not_hold_the_command(self):
        """A command returns although its background job runs on with the output open."""
        async with self.opened(limits=SandboxLimits(command_seconds=600)) as sandbox:
            result = await sandbox.run_bash("sleep 3600 & echo started")
            assert (result.output, result.exit_code) == ("started\n", 0)
            assert (await sandbox.run_bash("jobs -r | wc -l")).output == "1\n"

    async def test_a_noisy_background_job_does_not_hold_the_command(self):
        """Neither a command nor the next one waits for a background job that prints for ever."""
        async with self.opened() as sandbox:
            assert (await sandbox.run_bash("yes &")).exit_code == 0
            assert (await sandbox.run_bash("kill %1; wait; true")).exit_code == 0
            assert (await sandbox.run_bash("echo quiet")).output.endswith("quiet\n")

    async def test_exit_restarts_the_shell_and_says_so(self):
        """Leaving the shell is the agent's act: its exit code is the result's, and the next command finds a new one."""
        async with self.opened() as sandbox:
            result = await sandbox.run_bash("x=5; echo bye; exit 3")
            assert result.exit_code == 3
            assert result.output.startswith("bye\n[the shell ended with exit code 3")
            assert (await sandbox.run_bash("echo x=$x")).output == "x=\n"

    @pytest.mark.parametrize(
        "command", ["kill -9 $$", "exec true", "exec 198>&-; exit", "set -e; false", "kill -9 0", "eval 'exit 1'"]
    )
    async def test_a_lost_shell_is_replaced(self, command):
        """However the agent ends its shell, the sandbox goes on."""
        async with self.opened() as sandbox:
            assert "the shell ended" in (await sandbox.run_bash(command)).output
            assert (await sandbox.run_bash("echo back")).output == "back\n"

    @pytest.mark.parametrize("command", ["echo 'open", "if true; then", "cat <<X", "echo )", "break; return"])
    async def test_broken_syntax_is_a_result(self, command):
        """A syntax error is shown to the agent and costs it nothing else."""
        async with self.opened() as sandbox:
            await sandbox.run_bash("kept=yes")
            await sandbox.run_bash(command)
            assert (await sandbox.run_bash("echo $kept")).output == "yes\n"

    async def test_quotes_and_lines_arrive_unchanged(self):
        """A command of several lines with every kind of quote and letter is run as written."""
        command = "cat <<'X'\nit's \"quoted\" `not run` $HOME \\ é 漢\nX\necho 'a'\"'\"'b'"
        assert (await self.bash(command)).output == "it's \"quoted\" `not run` $HOME \\ é 漢\na'b\n"

    async def test_a_long_command_arrives_whole(self):
        """A command longer than every pipe's buffer is run whole."""
        assert (await self.bash(f"x='{'a' * 300_000}'; echo ${{#x}}")).output == "300000\n"

    async def test_a_nul_in_a_command_is_a_result(self):
        """A NUL byte, which no shell can take, is the agent's error."""
        assert (await self.bash("echo \0")).exit_code == 2

    async def test_a_timeout_leaves_no_survivors(self):
        """After a timeout every process is gone, also one that left its session, and the sandbox is still usable."""
        async with self.opened(limits=IMPATIENT) as sandbox:
            beats = "while :; do date +%s%N >beat; sleep 0.02; done"
            await sandbox.run_bash(f"keep=1; (setsid bash -c 'sleep 0.2; {beats}' &)")
            result = await sandbox.run_bash("echo begun; setsid sleep 3601 & nohup sleep 3602 & sleep 3603")
            assert result.is_timeout
            assert (result.exit_code, result.limit_met) == (None, "command_seconds")
            assert result.output.startswith("begun\n[timed out after 3 s")
            assert (
                await sandbox.run_bash("echo keep=$keep; cat beat >old; sleep 0.1; cmp beat old")
            ).output == "keep=\n"

    # -- Python

    async def test_python_keeps_its_names(self):
        """Names, functions and imports carry over."""
        async with self.opened() as sandbox:
            await sandbox.run_python("import json\nx = {'a': 1}\ndef f(y):\n    return json.dumps(y)")
            assert (await sandbox.run_python("print(f(x))")).output == '{"a": 1}\n'

    async def test_the_last_expression_is_printed(self):
        """Only the last expression is shown, like in a notebook, and None is not."""
        assert (await self.python("1\n'two'\n3 + 4")).output == "7\n"
        assert (await self.python("x = 3\nNone")).output == ""
        assert (await self.python("# nothing")).output == ""

    async def test_a_traceback_shows_only_the_agents_code(self):
        """An exception is shown with the agent's own lines and without ours, and the interpreter goes on."""
        async with self.opened() as sandbox:
            await sandbox.run_python("kept = 1")
            result = await sandbox.run_python("def f():\n    return 1 / 0\nf()")
            assert result.exit_code == 1
            assert result.output.startswith('Traceback (most recent call last):\n  File "<cell 2>", line 3')
            assert "    return 1 / 0\n" in result.output
            assert result.output.endswith("ZeroDivisionError: division by zero\n")
            assert "run_cell" not in result.output
            assert (await sandbox.run_python("kept")).output == "1\n"

    async def test_a_syntax_error_shows_its_line(self):
        """A syntax error is shown with its line and nothing else."""
        result = await self.python("x = 1\ny = (")
        assert result.exit_code == 1
        assert result.output.startswith('  File "<cell 1>", line 2\n    y = (\n')

    async def test_python_exit_codes(self):
        """sys.exit ends the piece of code with its exit code, and the interpreter goes on."""
        async with self.opened() as sandbox:
            result = await sandbox.run_python("kept = 1\nimport sys\nsys.exit(4)")
            assert result.exit_code == 4
            assert (await sandbox.run_python("sys.exit('reason')")).output == "reason\n"
            assert (await sandbox.run_python("kept")).output == "1\n"

    async def test_a_lost_interpreter_is_replaced(self):
        """An interpreter that dies is named in the result, and the next code finds a new one."""
        async with self.opened() as sandbox:
            result = await sandbox.run_python("import os\nprint('bye')\nos._exit(7)")
            assert result.exit_code == 7
            assert result.output.startswith("bye\n[the Python interpreter ended with exit code 7")
            assert (await sandbox.run_python("1 + 1")).output == "2\n"

    async def test_a_forked_child_does_not_answer(self):
        """A child of os.fork that reaches the end of the code does not become a second interpreter."""
        async with self.opened() as sandbox:
            code = "import os\nchild = os.fork()\nif child:\n    os.waitpid(child, 0)\nprint('end')"
            assert (await sandbox.run_python(code)).output == "end\nend\n"
            assert (await sandbox.run_python("'next'")).output == "'next'\n"

    async def test_python_streams_come_in_order(self):
        """Output of the code, its errors and its child processes are in order."""
        code = (
            "import subprocess, sys\nprint('1', end='')\nprint('2', file=sys.stderr)\nsubprocess.run(['echo', '3'])\n4"
        )
        assert (await self.python(code)).output == "12\n3\n4\n"

    async def test_python_input_is_empty(self):
        """input() sees the end of its input."""
        assert "EOFError" in (await self.python("input()")).output

    async def test_python_timeout(self):
        """Code that does not end is ended, and the next code finds a new interpreter."""
        async with self.opened(limits=IMPATIENT) as sandbox:
            assert (await sandbox.run_python("import time\nwhile True: time.sleep(0.01)")).is_timeout
            assert (await sandbox.run_python("1")).output == "1\n"

    async def test_python_has_openpyxl(self):
        """Workbooks can be read and written, and imports leave no files in the work directory."""
        async with self.opened() as sandbox:
            code = "import openpyxl\nb = openpyxl.Workbook()\nb.active['A1'] = 7\nb.save('b.xlsx')"
            assert (await sandbox.run_python(code)).output == ""
            await sandbox.write_file("own.py", b"value = 9\n")
            await sandbox.write_file(
                "show.py", b"import own, openpyxl as o\nprint(own.value, o.load_workbook('b.xlsx'))"
            )
            command = "python show.py"
            assert (await sandbox.run_bash(command)).output.startswith("9 <openpyxl.")
            assert (await sandbox.run_bash("ls -A")).output == "b.xlsx\nown.py\nshow.py\n"

    async def test_both_share_the_work_directory(self):
        """Shell and interpreter start in the same directory, and see each other's files."""
        async with self.opened() as sandbox:
            await sandbox.run_bash("echo hello >x.txt")
            result = await sandbox.run_python("import os\nprint(os.getcwd(), open('x.txt').read())")
            assert result.output == f"{sandbox.work_dir} hello\n\n"

    # -- output

    async def test_a_long_output_is_cut_in_the_middle(self):
        """100 MB of output cost little memory here, and a line says how much is left out."""
        async with self.opened() as sandbox:
            result = await sandbox.run_bash("echo first; head -c 100000000 /dev/zero | tr '\\0' x; echo; echo last")
        assert result.is_truncated
        assert result.output.startswith("first\nxxx")
        assert result.output.endswith("xxx\nlast\n")
        assert f"\n[... {100_000_012 - 4096} bytes left out ...]\n" in result.output
        assert len(result.output) < 4096 + 100

    async def test_output_within_the_limit_is_whole(self):
        """Exactly the limit is not cut; one byte more is."""
        async with self.opened() as sandbox:
            assert not (await sandbox.run_bash("head -c 4096 /dev/zero | tr '\\0' x")).is_truncated
            assert (await sandbox.run_bash("head -c 4097 /dev/zero | tr '\\0' x")).is_truncated

    async def test_output_is_printable(self):
        """Invalid UTF-8 and NUL bytes become the replacement character."""
        assert (await self.bash("printf 'a\\377b\\0c'")).output == "a\ufffdb\ufffdc"

    # -- files

    async def test_files_go_in_and_come_out(self, tmp_path):
        """The work directory starts as a copy of a folder, and its regular files can be exported again."""
        source = tmp_path / "source"
        (source / "a b").mkdir(parents=True)
        (source / "empty").mkdir()
        (source / "a b" / "é.txt").write_text("text")
        (source / "zero").write_bytes(b"")
        (source / "run.sh").write_text("#!/bin/sh\necho ran\n")
        (source / "run.sh").chmod(0o755)
        (source / "big").write_bytes(os.urandom(3 << 20))
        async with self.opened(source) as sandbox:
            listing = "find . | sort; ls -l --time-style=+%Y-%m-%d | awk '{print $6}' | sort -u | tail -1; ./run.sh"
            expected = "\n".join([".", "./a b", "./a b/é.txt", "./big", "./empty", "./run.sh", "./zero"])
            assert (await sandbox.run_bash(listing)).output == f"{expected}\n2000-01-01\nran\n"
            await sandbox.run_bash("echo new >'a b/new'; rm zero; ln -s /etc/passwd link; mkfifo pipe")
            await sandbox.export(tmp_path / "out")
        out = {str(path.relative_to(tmp_path / "out")) for path in (tmp_path / "out").rglob("*") if not path.is_dir()}
        assert out == {"a b/é.txt", "a b/new", "big", "run.sh"}
        assert (tmp_path / "out" / "big").read_bytes() == (source / "big").read_bytes()
        assert os.access(tmp_path / "out" / "run.sh", os.X_OK)

    async def test_an_export_follows_no_links(self, tmp_path):
        """Links to files and folders outside, and hard cases of names, never lead an export astray."""
        secret = tmp_path / "secret"
        secret.mkdir()
        (secret / "key").write_text("secret")
        async with self.opened() as sandbox:
            await sandbox.run_bash(f"ln -s '{secret}' folder; ln -s '{secret}/key' file; ln -s / root; ln -s . here")
            await sandbox.run_bash("ln -s ../../.. up; touch -- '-rf' $'new\\nline' '..x'")
            await sandbox.export(tmp_path / "out")
        assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["-rf", "..x", "new\nline"]

    async def test_an_export_is_bounded(self, tmp_path):
        """More bytes than the limit, or a bottomless tree, are refused before anything is copied."""
        async with self.opened() as sandbox:
            await sandbox.run_bash("for i in $(seq 40); do truncate -s 8M sparse$i; done")
            with pytest.raises(SandboxBoundaryError) as caught:
                await sandbox.export(tmp_path / "out")
            assert caught.value.kind == "export_too_large"
            assert not caught.value.is_retry_owed
            await sandbox.run_bash("rm sparse*; for i in $(seq 100); do mkdir d; cd d; done; touch x; cd ~")
            with pytest.raises(SandboxBoundaryError, match="nested"):
                await sandbox.export(tmp_path / "out")
        assert not (tmp_path / "out").exists()

    async def test_reading_and_writing_files(self):
        """Files are read and written whole, relative or absolute, in folders that are made, up to the limit."""
        async with self.opened() as sandbox:
            content = os.urandom((2 << 20) + 17)
            await sandbox.write_file("new/folder/f", content)
            assert await sandbox.read_file(f"{sandbox.work_dir}/new/folder/f") == content
            await sandbox.write_file("new/folder/f", b"short")
            assert await sandbox.read_file("new/folder/f") == b"short"
            await sandbox.write_file("empty", b"")
            assert await sandbox.read_file("empty") == b""

    async def test_file_errors_are_the_systems(self):
        """A missing file, a folder, a pipe or too much content are errors for the agent to read."""
        async with self.opened() as sandbox:
            with pytest.raises(FileNotFoundError):
                await sandbox.read_file("missing")
            with pytest.raises(IsADirectoryError):
                await sandbox.read_file(".")
            await sandbox.run_bash("mkfifo pipe; echo >file")
            with pytest.raises(OSError, match="Invalid argument"):
                await sandbox.read_file("pipe")
            with pytest.raises(NotADirectoryError):
                await sandbox.write_file("file/below", b"")
            with pytest.raises(OSError, match="too large") as caught:
                await sandbox.write_file("large", bytes(9 << 20))
            assert caught.value.errno == errno.EFBIG
            with pytest.raises(OSError, match="Invalid argument"):
                await sandbox.read_file("a\0b")
            assert (await sandbox.run_bash("echo fine")).output == "fine\n"

    async def test_the_driver_is_no_way_into_the_kernels_files(self):
        """Reading and writing files cannot be used to look at the driver, or change it."""
        async with self.opened() as sandbox:
            for path in ("/proc/self/environ", "/proc/self/mem", "/proc/self/maps"):
                with pytest.raises(PermissionError):
                    await sandbox.read_file(path)
            with pytest.raises(PermissionError):
                await sandbox.write_file("/proc/self/oom_score_adj", b"1000")

    # -- limits

    async def test_a_file_is_bounded(self):
        """No single file grows beyond the limit."""
        async with self.opened() as sandbox:
            stopped = await sandbox.run_bash("head -c 20000000 /dev/zero >big")
            assert len(await sandbox.read_file("big")) == 8 << 20
            told = await sandbox.run_python("open('b', 'wb').write(bytes(9 << 20))")
            assert "File too large" in told.output
            assert [stopped.limit_met, told.limit_met] == ["file_mb", "file_mb"]

    async def test_memory_is_bounded(self):
        """A process that takes more memory than allowed fails, and the sandbox goes on."""
        async with self.opened() as sandbox:
            result = await sandbox.run_python("x = bytearray(1 << 30)\nprint(len(x))")
            assert result.exit_code != 0
            assert str(1 << 30) not in result.output
            assert (await sandbox.run_python("1")).output == "1\n"
            assert (await sandbox.run_bash("echo fine")).output == "fine\n"

    @pytest.mark.thorough
    async def test_what_takes_more_than_it_may_is_noticed(self):
        """A killed process and a refused one, where a control group counts them; elsewhere nobody knows."""
        async with self.opened() as sandbox:
            weak = {limit.partition(":")[0] for limit in sandbox.weak_limits}
            quiet = await sandbox.run_bash("true")
            assert quiet.limit_met is None
            assert {"command_seconds", "file_mb"} <= set(quiet.limits_watched)
            assert ("memory_mb" in quiet.limits_watched) == ("memory" not in weak)
            if "memory_mb" in quiet.limits_watched:
                code = "x = bytearray(1 << 30); x[::4096] = b'1' * len(x[::4096])"
                killed = await sandbox.run_bash(f'python3 -c "{code}"')
                assert (killed.exit_code, killed.limit_met, killed.is_out_of_memory) == (137, "memory_mb", True)
                assert (await sandbox.run_bash("true")).limit_met is None
            if "processes" in quiet.limits_watched:
                refused = await sandbox.run_python(REFUSED)
                assert refused.limit_met == "processes"

    async def test_a_fork_bomb_is_survived(self):
        """A fork bomb ends at the limit of processes, and a later command runs in a fresh shell."""
        async with self.opened() as sandbox:
            if any(limit.startswith("processes") for limit in sandbox.weak_limits):
                skip_for("process_limits")  # the bomb would hit the machine
            await sandbox.run_bash("bomb() { bomb | bomb & }; bomb; sleep 0.2")
            with anyio.fail_after(600):  # until the last of the bomb is dead, a command may still be refused a process
                while (await sandbox.run_bash("echo usable | cat")).output != "usable\n":
                    pass

    async def test_the_environment_is_fixed(self, monkeypatch):
        """No variable of the host passes in, and two sandboxes have the same environment."""
        monkeypatch.setenv("SECRET_API_KEY", "sk-secret")
        async with self.opened() as sandbox:
            shell = (await sandbox.run_bash("env")).output
            code = "import os\nprint('\\n'.join(f'{k}={v}' for k, v in os.environ.items()))"
            interpreter = (await sandbox.run_python(code)).output
        for text in (shell, interpreter):
            assert "SECRET" not in text
            assert "sk-secret" not in text
            assert {"TZ=UTC", "LANG=C.UTF-8", "PYTHONHASHSEED=0", f"HOME={sandbox.work_dir}"} <= set(text.splitlines())

    async def test_the_agent_inherits_no_descriptor(self):
        """A child of the shell or the interpreter has standard input, output and error, and nothing else."""
        async with self.opened() as sandbox:
            assert (await sandbox.run_bash("ls /proc/self/fd")).output == "0\n1\n2\n3\n"
            code = "import subprocess\nsubprocess.run(['ls', '/proc/self/fd'], close_fds=False).returncode"
            assert (await sandbox.run_python(code)).output == "0\n1\n2\n3\n0\n"

    async def test_a_forged_end_is_not_believed_later(self):
        """What the agent writes where its shell reports its end never gets a later command out of step."""
        async with self.opened() as sandbox:
            forge = "for fd in /proc/$$/fd/*; do [ -p $fd ] && (echo junk; echo 3 0; echo 4 0) >$fd; done 2>/dev/null"
            await sandbox.run_bash(forge)
            for number in range(6):
                await sandbox.run_bash(f"sleep 0.05; echo {number}")
            assert (await sandbox.run_bash("echo in step")).output.endswith("in step\n")
            assert (await sandbox.run_bash("echo again")).output == "again\n"

    # -- the life of a sandbox

    async def test_a_cancelled_command_leaves_a_usable_sandbox(self, tmp_path):
        """When a trial's time is up inside a command, the work directory can still be exported."""
        async with self.opened() as sandbox:
            await sandbox.run_bash("true")  # the shell has been started
            with anyio.move_on_after(0.5) as scope:
                await sandbox.run_bash("echo done >result; sleep 3600")
            assert scope.cancelled_caught
            await sandbox.export(tmp_path / "out")
            assert (tmp_path / "out" / "result").read_text() == "done\n"
            assert "cancelled" not in (await sandbox.run_bash("echo next")).output

    async def test_requests_take_turns(self):
        """Calls made at once are answered one after the other, each with its own result."""
        async with self.opened() as sandbox:
            results = await asyncio.gather(*(sandbox.run_bash(f"echo {number}") for number in range(20)))
        assert [result.output for result in results] == [f"{number}\n" for number in range(20)]

    async def test_closing_leaves_nothing_behind(self):
        """After closing no process and no control group of the sandbox is left."""
        async with self.opened() as sandbox:
            await sandbox.run_bash("setsid sleep 987654 & (sleep 987654 &) & nohup sleep 987654 &")
        assert not [line for line in _command_lines() if b"987654" in line]
        parents = {available_hierarchies().memory, available_hierarchies().processes} - {None}
        assert not [group for parent in parents for group in parent.glob(f"lhaw-record-{os.getpid()}-*")]

    async def test_a_killed_host_leaves_no_process(self, tmp_path):
        """When the host is killed with SIGKILL, idle or inside a command, every process of its sandboxes ends."""
        for last in ("await sandbox.run_bash('echo')", "asyncio.create_task(sandbox.run_bash('sleep 8765432'))"):
            code = _HOST.format(provider=type(self.provider()).__name__, last=last)
            environment = {**os.environ, "TMPDIR": str(tmp_path)}
            done = await anyio.run_process([sys.executable, "-c", code], cwd=PROJECT, env=environment, check=False)
            assert (done.returncode, done.stderr) == (-9, b"")
            for _ in range(3000):
                if not any(b"8765432" in line for line in _command_lines()):
                    break
                await anyio.sleep(0.01)
            assert not [line for line in _command_lines() if b"8765432" in line]

    async def test_many_sandboxes_live_side_by_side(self):
        """Sandboxes opened at once do not see each other's files."""

        async def one(number):
            async with self.opened() as sandbox:
                await sandbox.run_bash(f"echo {number} >mine")
                return (await sandbox.run_bash("cat *")).output

        assert await asyncio.gather(*(one(number) for number in range(6))) == [f"{number}\n" for number in range(6)]


@pytest.mark.thorough
class TestProcess(SandboxContract):
    """The plain process."""

    def provider(self):
        """Return the provider under test."""
        return ProcessSandboxProvider()

    async def test_it_says_that_it_isolates_nothing(self):
        """The missing isolation is stated first."""
        async with self.opened() as sandbox:
            assert sandbox.kind == "process"
            assert sandbox.weak_limits[0].startswith("isolation: none")

    @pytest.mark.thorough
    async def test_a_fork_bomb_is_survived(self):
        """As everywhere; without namespaces a shell needs seconds to find its feet."""
        await super().test_a_fork_bomb_is_survived()

    async def test_its_folder_goes_away(self):
        """The private folder is removed, also what the agent has made unreadable in it."""
        async with self.opened() as sandbox:
            await sandbox.run_bash("mkdir -p a/b; touch a/b/c; chmod 0 a/b a")
        assert not Path(sandbox.work_dir).parent.exists()

    async def test_the_death_of_the_driver_is_a_boundary_error(self):
        """A driver that the agent kills ends the sandbox with an error of its boundary, never a hang."""
        async with self.opened() as sandbox:
            with pytest.raises(SandboxBoundaryError) as caught:
                await sandbox.run_bash("kill -9 $PPID; sleep 3600")
            assert caught.value.kind == "sandbox_died"
            with pytest.raises(SandboxBoundaryError):
                await sandbox.run_bash("echo")


class IsolatedContract(SandboxContract):
    """What every kind promises that isolates: every way out that we could think of."""

    async def test_the_work_directory_is_at_a_fixed_place(self):
        """Every trial sees the same path, user, host name and process numbers."""
        result = await self.bash('echo "$PWD" $(whoami) $(hostname) $(id -u); readlink ~+')
        assert result.output.startswith("/workspace agent sandbox 61000\n")

    @pytest.mark.parametrize(
        "path",
        ["/x", "/usr/bin/x", "/etc/x", "/etc/passwd", "/dev/x", "/opt/agent/x", "/root/x", "/proc/sys/kernel/hostname"],
    )
    async def test_nothing_outside_can_be_written(self, path):
        """Only the work directory and the folders for temporary files take writes."""
        result = await self.bash(f"echo x >{path}")
        assert result.exit_code != 0

    async def test_our_files_cannot_be_seen(self):
        """Neither the checkout with graders and answers nor an installed copy of it is there."""
        folders = [PROJECT, PROJECT.parent, *map(Path, {path for path in sys.path if "site-packages" in path})]
        async with self.opened() as sandbox:
            for folder in folders:
                for name in ("lhaw_record", "runners", "recorder", "analytics", "data", "store", "tests"):
                    assert (await sandbox.run_bash(f"ls -d '{folder}/{name}'")).exit_code == 2
            for name in ("lhaw_record", "runners", "msgspec", "litellm"):
                result = await sandbox.run_python(f"import {name}")
                assert "ModuleNotFoundError" in result.output
            search = "find / -name desk -o -name runners 2>/dev/null | grep -v ^/proc"
            assert (await sandbox.run_bash(search)).output == ""

    async def test_the_agent_is_nobody_on_the_host(self):
        """Even where we are root, the agent is not: the kernel's settings, which belong to root, are out of reach."""
        # Below /proc/sys/fs/mqueue and the like lie settings of the sandbox's own namespaces.
        settings = "/proc/sys/vm /proc/sys/kernel/core_pattern /proc/sys/kernel/panic /proc/sys/kernel/hostname"
        assert (await self.bash(f"find {settings} -type f -writable; id -u; id -G")).output == "61000\n61000\n"
        for name in ("kernel/core_pattern", "kernel/ns_last_pid", "vm/drop_caches"):
            assert (await self.bash(f"echo 1 >/proc/sys/{name}")).exit_code == 1

    async def test_there_is_no_network(self):
        """Neither an address outside nor a server on this host can be reached."""
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            async with self.opened() as sandbox:
                for address in (("127.0.0.1", port), ("1.1.1.1", 53), ("192.168.0.1", 80)):
                    code = f"import socket\nsocket.create_connection({address!r}, timeout=2)"
                    assert (await sandbox.run_python(code)).exit_code == 1

    async def test_processes_of_the_host_cannot_be_seen(self):
        """The process list holds the sandbox's own few, and signals reach no other."""
        async with self.opened() as sandbox:
            listed = (await sandbox.run_bash("echo /proc/[0-9]*")).output.split()
            assert 0 < len(listed) < 5
            assert (await sandbox.run_bash(f"kill -9 {os.getpid()}")).exit_code == 1

    @pytest.mark.parametrize(
        "command", ["kill -9 -1", "kill -9 1; kill -INT 1; kill -STOP 1; kill -TERM 1; kill -9 $$"]
    )
    async def test_the_driver_cannot_be_killed(self, command):
        """The driver is process 1: the agent ends at most its own shell, and the sandbox goes on."""
        async with self.opened() as sandbox:
            await sandbox.run_bash(command)
            with anyio.fail_after(600):
                while "alive" not in (await sandbox.run_bash("echo alive")).output:
                    pass

    async def test_the_driver_cannot_be_traced(self):
        """Neither its memory nor its descriptors nor its environment can be opened, or attached to."""
        code = (
            "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\n"
            "print(libc.ptrace(16, 1, 0, 0), os.strerror(ctypes.get_errno()))\n"
            "for name in ('mem', 'environ', 'fd/0', 'fd/3', 'root/x', 'cwd/x'):\n"
            "    try:\n        open(f'/proc/1/{name}', 'rb')\n"
            "    except OSError as error:\n        print(type(error).__name__)\n"
        )
        assert (await self.python(code)).output == "-1 Operation not permitted\n" + "PermissionError\n" * 6

    async def test_there_are_no_capabilities(self):
        """No capability is held or can be had, and no program gains any."""
        result = await self.bash("grep -E '^(Cap[^B]|NoNewPrivs)' /proc/self/status | awk '{print $2}' | sort -u")
        assert result.output == "0000000000000000\n1\n"
        assert (await self.bash("mount -t tmpfs none /tmp || mount -o remount,rw / || umount /proc")).exit_code != 0

    async def test_new_namespaces_open_no_door(self):
        """Whoever makes a user namespace inside cannot make the system writable or unmask anything with it."""
        command = (
            "unshare -Urm sh -c 'mount -o remount,rw / && touch /x; mount -o remount,rw /usr/bin && touch /usr/bin/x'"
        )
        assert (await self.bash(command)).exit_code != 0
        assert (await self.bash(f"{command}; ls /x /usr/bin/x")).exit_code != 0

    async def test_no_key_of_the_kernel_passes_between_trials(self):
        """All sandboxes run as one user, whose keyrings are one for the whole machine: none can be read or written."""
        code = (
            "import ctypes, os, platform\n"
            "library = ctypes.CDLL(None, use_errno=True)\n"
            "add_key, request_key, keyctl = {'x86_64': (248, 249, 250), 'aarch64': (217, 218, 219)}"
            "[platform.machine()]\n"
            "def call(*words):\n"
            "    return library.syscall(*words), os.strerror(ctypes.get_errno())\n"
            "print(*(call(add_key, b'user', b'left-behind', b'secret', 6, ring) for ring in (-3, -4, -5)))\n"
            "print(call(keyctl, 10, -4, b'user', b'left-behind', 0))\n"
            "print(call(request_key, b'user', b'left-behind', 0, 0))\n"
        )
        refusal = (-1, "Operation not permitted")
        for _ in range(2):
            assert (await self.python(code)).output == f"{refusal} {refusal} {refusal}\n{refusal}\n{refusal}\n"
        assert (await self.bash("cat /proc/keys 2>/dev/null")).output == ""

    async def test_the_terminal_cannot_be_reached(self):
        """There is no controlling terminal to push input into."""
        assert (await self.bash("echo ls >/dev/tty")).exit_code != 0

    async def test_all_files_together_are_bounded(self):
        """Many files cannot fill a disk: the work directory and the temporary ones have a size in memory."""
        async with self.opened() as sandbox:
            for folder in (".", "/tmp", "/dev/shm"):
                command = f"for i in $(seq 40); do head -c 8000000 /dev/zero >{folder}/f$i || break; done"
                result = await sandbox.run_bash(command)
                assert "No space left" in result.output
                await sandbox.run_bash(f"rm {folder}/f*")
            assert (await sandbox.run_bash("echo x >x && cat x")).output == "x\n"

    async def test_many_files_are_survived(self, tmp_path):
        """A huge number of files is refused at the export and goes away with the sandbox."""
        async with self.opened() as sandbox:
            await sandbox.run_python("for i in range(20_001):\n    open(f'f{i}', 'w').close()")
            with pytest.raises(SandboxBoundaryError, match="more than 20000"):
                await sandbox.export(tmp_path / "out")


class IsolatedHereContract(IsolatedContract):
    """What the kinds promise besides that isolate with this machine's kernel and show its programs."""

    async def test_homes_cannot_be_seen(self):
        """No home and no temporary file of the host is there, but for the way to the interpreter."""
        home = current_python_home()
        async with self.opened() as sandbox:
            for folder in (Path.home(), Path("/home"), Path("/tmp"), Path("/var"), Path("/mnt")):
                command = f"find '{folder}' -type f ! -path '{home.base_prefix}/*' 2>/dev/null"
                assert (await sandbox.run_bash(command)).output == ""

    async def test_certificates_are_there_and_private_keys_are_not(self):
        """A program verifies TLS with the authorities of this machine: each readable file of theirs, the same."""
        async with self.opened() as sandbox:
            for folder in filter(os.path.exists, CERTIFICATES):
                command = f"find -L {folder} -type f -exec sha256sum {{}} + 2>/dev/null | sort | sha256sum"
                here = (await anyio.run_process(command)).stdout.decode()
                assert (await sandbox.run_bash(command)).output == here
            assert (await sandbox.run_bash("ls -d /etc/ssl/private /etc/pki/tls/private")).exit_code == 2

    async def test_counts_of_kernel_keys_cannot_be_seen(self):
        """How many keys each user of the machine has is nobody's business; Docker shows it."""
        async with self.opened() as sandbox:
            assert (await sandbox.run_bash("cat /proc/key-users 2>/dev/null")).output == ""

    async def test_only_its_own_mounts_are_left(self):
        """Whatever is mounted can be written in memory only, or is read-only; no device of a disk can be opened."""
        async with self.opened() as sandbox:
            mounts = [line.split() for line in (await sandbox.run_bash("cat /proc/self/mounts")).output.splitlines()]
            writable = {point: kind for _, point, kind, options, *_ in mounts if "rw" in options.split(",")}
            assert {"/workspace", "/tmp"} <= set(writable)
            devices = {point for point in writable if point.startswith("/dev/") and point != "/dev/shm"}
            own = {"/workspace", "/tmp", "/dev/shm", "/proc"} | devices
            assert set(writable) <= own
            assert {writable[point] for point in own - devices} == {"tmpfs", "proc"}
            result = await sandbox.run_bash("find /dev /tmp /workspace -type b; mknod /workspace/disk b 8 0")
            assert result.output == "mknod: /workspace/disk: Operation not permitted\n"

    async def test_it_has_its_own_loopback(self):
        """Processes inside can talk to each other, on a network in which there is nothing else."""
        code = (
            "import os, socket\nserver = socket.create_server(('127.0.0.1', 8318))\n"
            "socket.create_connection(('127.0.0.1', 8318))\nprint(os.listdir('/proc/self/net/dev_snmp6'))"
        )
        assert (await self.python(code)).output == "['lo']\n"


@needs("namespaces")
class TestNamespaces(IsolatedHereContract):
    """The kernel's namespaces, without bubblewrap."""

    def provider(self):
        """Return the provider under test."""
        return NamespaceSandboxProvider()

    async def test_a_start_that_fails_says_where(self, monkeypatch):
        """A step that the kernel refuses is named with its path and the system's word, and nothing is left."""
        layout = providers.sandbox_layout

        def with_a_missing_folder(*arguments, **options):
            return [*layout(*arguments, **options), ("read", "/x", "/no/such/folder", True)]

        monkeypatch.setattr(providers, "sandbox_layout", with_a_missing_folder)
        with pytest.raises(SandboxBoundaryError, match="/x: ") as caught:
            async with self.opened():
                pass
        assert caught.value.kind == "sandbox_open"

    @pytest.mark.thorough
    async def test_empty_files_are_bounded(self):
        """Files without content cost memory too: there is a number of them, and the sandbox goes on."""
        async with self.opened() as sandbox:
            result = await sandbox.run_python("for i in range(40_000):\n    open(f'f{i}', 'w').close()")
            assert "No space left on device" in result.output
            assert (await sandbox.run_bash("rm f*; echo x >x; cat x")).output.endswith("x\n")


_KILLED_HOST = """
import asyncio, os, signal, sys
from lhaw_record.runners.environments.sandboxes.local import launch
from lhaw_record.runners.environments.sandboxes.local.bubblewrap import BubblewrapSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

async def killed(*_):
    os.kill(os.getpid(), signal.SIGKILL)

launch._reported_process_id = killed

async def main():
    async with BubblewrapSandboxProvider(sys.argv[1]).open(None, SandboxLimits()):
        pass

asyncio.run(main())
"""


@needs("bubblewrap")
class TestBubblewrap(IsolatedHereContract):
    """bubblewrap."""

    def provider(self):
        """Return the provider under test."""
        return BubblewrapSandboxProvider()

    @pytest.mark.thorough
    async def test_a_host_killed_before_bubblewrap_has_started_leaves_no_process(self, tmp_path):
        """A bubblewrap that starts only when its host is dead finds nobody to report to, and ends with its child."""
        late = tmp_path / "late"
        late.symlink_to(shutil.which("bwrap"))
        slow = tmp_path / "bwrap"
        slow.write_text(f'#!/bin/sh\nwhile kill -0 $PPID 2>/dev/null; do sleep 0.01; done\nexec "{late}" "$@"\n')
        slow.chmod(0o755)
        ended = await anyio.run_process([sys.executable, "-c", _KILLED_HOST, str(slow)], cwd=PROJECT, check=False)
        assert ended.returncode == -9
        seen_at = anyio.current_time()
        while left := [line for line in _command_lines() if str(tmp_path).encode() in line]:
            assert anyio.current_time() - seen_at < 60, left
            await anyio.sleep(0.01)

    @pytest.mark.thorough
    async def test_a_driver_without_memory_is_told_apart(self, tmp_path):
        """Empty files fill the sandbox's memory until the driver itself is ended: the kind says so, for a grade."""
        if available_hierarchies().memory is None:
            pytest.skip("the memory of all processes together cannot be limited here: no writable control group")
        limits = SandboxLimits(memory_mb=64, processes=40, file_mb=64, command_seconds=120)
        fill = "i=0; while :; do i=$((i+1)); : >$i || break; done"

        async def fill_and_write(sandbox):
            for number in range(100):
                assert "137" in (await sandbox.run_bash(f"mkdir {number}; cd {number}; {fill}")).output
                await sandbox.write_file(f"big{number}", bytes(16 << 20))

        async with self.opened(limits=limits) as sandbox:
            with pytest.raises(SandboxBoundaryError) as caught:
                await fill_and_write(sandbox)
        assert caught.value.kind == "sandbox_out_of_memory"

    async def test_a_broken_bubblewrap_is_a_boundary_error(self, tmp_path):
        """A program that is not bubblewrap, or missing, gives an error with its last words."""
        fake = tmp_path / "bwrap"
        fake.write_text("#!/bin/sh\necho no namespaces today >&2\nexit 1\n")
        fake.chmod(0o755)
        for executable in (fake, tmp_path / "missing"):
            with pytest.raises(SandboxBoundaryError) as caught:
                async with BubblewrapSandboxProvider(str(executable)).open(None, LIMITS):
                    pass
            assert caught.value.kind == "sandbox_open"
        async with self.opened() as sandbox:
            assert (await sandbox.run_bash("echo ok")).output == "ok\n"

    async def test_auto_is_bubblewrap(self):
        """Where bubblewrap works, auto chooses it."""
        assert (await provider("auto")).kind == "bubblewrap"
        assert (await provider("bubblewrap")).kind == "bubblewrap"


async def test_a_missing_bubblewrap_names_the_remedy(monkeypatch, tmp_path):
    """Without bubblewrap, asking for it fails with the command that installs it; process still works."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExperimentError, match="apt-get install bubblewrap"):
        await provider("bubblewrap")
    assert (await provider("process")).kind == "process"


async def test_auto_without_bubblewrap_is_namespaces_or_names_both_ways_out(monkeypatch, tmp_path):
    """What the kernel alone isolates is taken where it works; else the error says why, and what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    if await problem_with("namespaces") is None:
        assert (await provider("auto")).kind == "namespaces"
        assert await isolation_problem() is None
    monkeypatch.setattr(NamespaceSandboxProvider, "open", _refuse)
    with pytest.raises(ExperimentError, match=r"apt-get install bubblewrap; and the sandbox namespaces .*: EPERM"):
        await provider("auto")
    assert "user namespaces" in (await isolation_problem() or "")


def _refuse(*_):
    raise SandboxBoundaryError("unshare: EPERM", kind="sandbox_open")


@pytest.mark.parametrize("installer", ["dnf install", "pacman -S", "apk add", "apt-get install"])
def test_the_command_is_the_one_of_this_machine(monkeypatch, tmp_path, installer):
    """Each family of systems has its own installer; who is not root is told sudo where there is one."""
    for program in (installer.split()[0], "sudo"):
        (tmp_path / program).write_text("")
        (tmp_path / program).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert remedy() == f"run sudo {installer} bubblewrap"


def test_the_remedy_is_one_that_this_machine_can_use(monkeypatch, tmp_path):
    """Who has bubblewrap, in a container for instance, is not told to install it; a Mac has Docker."""
    (tmp_path / "bwrap").write_text("")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "docs/container.md" in remedy()
    monkeypatch.setattr("sys.platform", "darwin")
    assert "start Docker" in remedy()


async def test_an_unknown_kind_names_the_known_ones():
    """A misspelt kind is refused with the list of kinds."""
    with pytest.raises(ExperimentError, match="auto, bubblewrap, namespaces, docker, process"):
        await provider("bubblewarp")


def test_a_cut_splits_no_character():
    """A character of several bytes at either side of the cut is left out whole, and counted."""
    head, tail = "aé".encode()[:-1], "漢b".encode()[1:]
    assert cut_text(head, tail, 100) == "a\n[... 98 bytes left out ...]\nb"
    assert cut_text("aé".encode(), "漢b".encode(), 100) == "aé\n[... 93 bytes left out ...]\n漢b"


def test_control_groups_of_version_2_are_found(tmp_path):
    """The nearest group above us that hands both controllers down is used."""
    for folder, controllers in (("user", "cpu memory pids"), ("user/app", ""), (".", "memory pids")):
        (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / folder / "cgroup.subtree_control").write_text(controllers)
        (tmp_path / folder / "cgroup.procs").write_text("")
    found = find_hierarchies(f"cgroup2 {tmp_path} cgroup2 rw 0 0\n", "0::/user/app\n")
    assert found.is_version_2
    assert found.memory == found.processes == tmp_path / "user"
    assert find_hierarchies("", "0::/\n").memory is None


def _command_lines():
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            yield path.read_bytes()
        except OSError:
            continue
