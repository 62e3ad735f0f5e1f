"""A call in a child: it returns what it should, and whatever it does instead is put down to whose doing it was."""

import ctypes
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from lhaw_record.runners.environments.grading.confined import (
    ChildException,
    ConfinedLimits,
    LimitReached,
    NoReply,
    call,
    host,
)
from tests.runners.environments.grading import functions

SMALL = ConfinedLimits(memory_mb=64, cpu_seconds=1, wall_seconds=120, reply_mb=2)


def made(function, *arguments, limits=SMALL, **options):
    """Call a function in a child with small limits."""
    return call(function, *arguments, returns=dict[str, str], limits=limits, **options)


def has_landlock():
    """Whether this kernel has Landlock: asked of the kernel itself."""
    return ctypes.CDLL(None).syscall(444, None, 0, 1) > 0


def test_a_value_comes_back_and_prints_do_not(capfd):
    """What the function prints goes nowhere, however much it is."""
    assert made(functions.told, "ä") == {"word": "ä"}
    assert capfd.readouterr() == ("", "")


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("function", "arguments", "reading", "reason"),
    [
        (functions.take_memory, (), "big.xlsx", "64 MB of memory"),
        (functions.hide_the_want_of_memory, (), "big.xlsx", "64 MB of memory"),
        (functions.spin, ("slow.csv",), "slow.csv", "1 s of processor time"),
        pytest.param(functions.spin, ("",), None, "1 s of processor time", marks=pytest.mark.thorough),
        (functions.crash, (), "odd.pdf", "SIGSEGV"),
        (functions.return_much, (), "long.txt", "2 MB of results"),
    ],
)
def test_a_limit_is_put_down_to_what_was_being_read(function, arguments, reading, reason):
    """Memory, time, crashes and floods name the file; None where nothing had been read."""
    with pytest.raises(LimitReached, match=reason) as caught:
        made(function, *arguments)
    assert caught.value.reading == reading


@pytest.mark.thorough
def test_a_child_that_ignores_the_first_signal_ends_by_the_second():
    """The hard limit of processor time is the kernel's, and it still counts as the file's doing."""
    with pytest.raises(LimitReached, match="processor time"):
        made(functions.spin_on, "slow.csv")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (functions.fail, "ZeroDivisionError: half of \ufffd nothing"),
        (functions.leave, "SystemExit"),
        (functions.return_a_list, "returned no dict"),
    ],
)
def test_the_functions_own_faults(function, reason):
    """An exception, an exit and a wrong type are the code's fault, whatever it had been reading."""
    with pytest.raises(ChildException, match=reason):
        made(function)


HOSTILE = {
    "sleeps": "import time\ntime.sleep(3600)",
    "hangs": "import signal\nsignal.pause()",
    "waits for a thread": "import threading\nthreading.Event().wait()",
    "reads what nobody writes": "import os\nos.read(3, 1)",
    "exits": "import os\nos._exit(0)",
    "raises an exit": "raise SystemExit",
    "raises an interrupt": "raise KeyboardInterrupt",
    "closes the reply": "import os\nos.close(3)",
    "kills itself": "import os, signal\nos.kill(os.getpid(), 9)",
    "raises a signal": "import signal\nsignal.raise_signal(9)\nsignal.raise_signal(15)",
    "stops itself": "import signal\nsignal.raise_signal(19)",
    "kills everybody": "import os\nos.kill(-1, 9)",
    "sets an alarm": "import signal\nsignal.setitimer(signal.ITIMER_REAL, 0.01)",
    "lowers its limit": "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (0, 0))",
    "forks": "import os\nwhile True:\n    os.fork()",
    "starts a program": "import subprocess\nsubprocess.run(['sleep', '3600'])",
}
BY_ITSELF = {"sleeps", "hangs", "waits for a thread", "reads what nobody writes", "exits", "raises an exit"}
BY_ITSELF |= {"raises an interrupt", "closes the reply"}


@pytest.mark.sampled(2)
@pytest.mark.skipif(os.uname().machine not in ("x86_64", "aarch64"), reason="this machine has no filter")
@pytest.mark.parametrize("does", HOSTILE)
def test_what_an_agents_program_does_to_its_reader_is_its_own_doing(does):
    """It hangs, sleeps, ends, forks or kills: a limit of the item, or an error that the check sees."""
    limits = ConfinedLimits(memory_mb=64, cpu_seconds=1, wall_seconds=3.0)  # it begins to read within this, too
    if does in BY_ITSELF:
        with pytest.raises(LimitReached) as caught:
            made(functions.run_code, "solution.py", HOSTILE[does], limits=limits)
        assert caught.value.reading == "solution.py"
    else:
        assert made(functions.run_code, "solution.py", HOSTILE[does], limits=limits)["wrong"]


def test_the_hosts_faults():
    """A child that somebody kills, one that is not asked for anything, and code that cannot be loaded."""
    made(functions.told, "x")
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(made, functions.wait, "fine.csv")
        children = Path(f"/proc/{host._servers[0]._process.pid}/task/{host._servers[0]._process.pid}/children")
        while not (found := children.read_text().split()):
            pass
        os.kill(int(found[0]), signal.SIGKILL)
        with pytest.raises(NoReply, match="killed from outside") as caught:
            waiting.result()
    assert not caught.value.is_final
    with pytest.raises(NoReply, match="did not end in 0 s"):
        made(functions.wait, "", limits=ConfinedLimits(wall_seconds=0.2))
    with pytest.raises(NoReply, match="no_such_module") as caught:
        made(functions.told, "x", modules=["no_such_module"])
    assert caught.value.is_final


@pytest.mark.thorough
def test_a_fork_server_that_was_killed_is_started_again():
    """The call after a death works."""
    made(functions.told, "x")
    process = host._servers[0]._process
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    assert made(functions.told, "y") == {"word": "y"}


def test_a_child_can_do_nothing_else(tmp_path, monkeypatch):
    """No network, process, program, signal, environment or file but the code's own: each is tried from inside."""
    secret = tmp_path / "key"
    secret.write_text("sk-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    found = made(functions.try_everything, str(secret))
    assert "OPENAI_API_KEY" not in found["environment"]
    assert found["descriptors"] == "0,1,2,3"  # nothing thrice, and the reply
    if os.uname().machine in ("x86_64", "aarch64"):
        refused = {name for name, text in found.items() if text == "refused: Operation not permitted"}
        assert refused >= {"network", "process", "program", "signal"}
    if has_landlock():
        assert found["secret"] == found["write"] == "refused: Permission denied"
    assert not (tmp_path / "mine").exists()


def test_what_may_be_read_is_readable(tmp_path):
    """A folder that the call names is open for reading."""
    (tmp_path / "key").write_text("text")
    assert "text" in made(functions.try_everything, str(tmp_path / "key"), readable=[tmp_path])["secret"]


def test_the_code_is_found_as_here():
    """The fork server looks for modules where this process does."""
    assert made(functions.told, sys.version.split()[0])["word"] == sys.version.split()[0]
