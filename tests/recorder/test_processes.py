"""Children in sessions of their own: an interrupt of our process group never ends one."""

import os
import signal
import subprocess
import sys

import pytest

from lhaw_record.recorder import processes

STARTS_MANY = """
import os, signal, threading, time
from lhaw_record.recorder import processes

signal.signal(signal.SIGINT, lambda number, frame: None)
ended = threading.Event()

def interrupt():
    while not ended.is_set():
        os.killpg(0, signal.SIGINT)
        time.sleep(0.00005)

threading.Thread(target=interrupt, daemon=True).start()
codes = [processes.start(["/bin/true"]).wait() for _ in range(40)]
ended.set()
assert codes == [0] * 40, codes
"""


def test_a_storm_of_interrupts_ends_no_child():
    """Every child runs its program to the end, however unlucky the moment of a Ctrl-C."""
    done = subprocess.run(
        [sys.executable, "-c", STARTS_MANY], start_new_session=True, stderr=subprocess.PIPE, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_child_leads_its_own_session():
    """Its session is not ours, so the terminal's signals pass it by."""
    process = processes.start([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        assert os.getsid(process.pid) == process.pid
        assert processes.has_run(process.pid, None)
    finally:
        process.communicate(b"\n")


@pytest.mark.parametrize(("returncode", "expected"), [(-signal.SIGINT, False), (0, True), (-signal.SIGKILL, True)])
def test_a_child_that_is_gone_is_judged_by_how_it_ended(returncode, expected):
    """Where the child was waited for already, only an interrupt means that it never ran."""
    process = subprocess.Popen(["/bin/true"])
    process.wait()
    assert processes.has_run(process.pid, returncode) is expected
