"""Confined servers: judged by the kernel, from inside and after their host has been killed."""

import fcntl
import json
import os
import platform
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lhaw_record.runners.base.errors import ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import confined
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import ServerPlan, running_servers
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.environments.sandboxes.seccomp import system_call_filter
from tests.runners.environments.benchmarks.mcp_atlas.confined_program import said_by
from tests.runners.environments.benchmarks.mcp_atlas.test_servers_with_faults import FAKE, is_running
from tests.support.needs import needs

PYTHON = Path(sys.executable).resolve()

_PROBE = """
import ctypes, json, os
library = ctypes.CDLL(None, use_errno=True)
def attempt(*words):
    ctypes.set_errno(0)
    library.syscall(*(ctypes.c_long(word) for word in words))
    return ctypes.get_errno()
try:
    keys = open("/proc/keys").read()
except OSError:
    keys = ""
limits = {name: open("/proc/self/status").read().split(name + ":")[1].split()[0] for name in ("Seccomp", "NoNewPrivs")}
print(json.dumps({
    "keyctl": attempt(KEYCTL, 0, -3, 0), "vsock": attempt(SOCKET, 40, 1, 0), "namespace": attempt(UNSHARE, 0x10000000),
    "keys": keys, "is_first": os.getpid() == 1, **limits,
    "packages": os.listdir(PACKAGES) if os.path.isdir(PACKAGES) else [],
}))
"""
_VIEW = """
import json, os, socket
report = {"root": sorted(os.listdir("/")), "data": sorted(os.listdir("/data")),
    "etc": sorted(os.listdir("/etc")), "status": open("/proc/self/status").read()}
try:
    socket.create_connection(("192.0.2.1", 80), 2)
    report["network"] = "open"
except OSError as error:
    report["network"] = error.strerror
for path in ("/usr/probe", "/probe"):
    try:
        open(path, "w")
        report[path] = "written"
    except OSError as error:
        report[path] = error.strerror
open("/data/probe", "w").write("mine")
print(json.dumps(report))
"""
_NUMBERS = {"x86_64": (250, 41, 272), "aarch64": (219, 198, 97)}


@needs("bubblewrap")
@pytest.mark.skipif(system_call_filter() is None, reason="no filter for this kind of processor")
def test_a_server_has_what_holds_an_agents_sandbox(tmp_path):
    """No keyring, no sockets of a hypervisor, no namespaces of its own, no list of keys, none of our packages."""
    numbers = zip(("KEYCTL", "SOCKET", "UNSHARE"), _NUMBERS[platform.machine()], strict=True)
    probe = "".join(f"{name} = {number}\n" for name, number in numbers)
    packages = PYTHON.parents[1] / f"lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
    probe += f"PACKAGES = {str(packages)!r}\n{_PROBE}"
    plan = confined([str(PYTHON), "-I", "-S", "-c", probe], {}, tmp_path, [PYTHON.parents[1]], 1)
    said = json.loads(said_by(plan))
    assert said == {
        "keyctl": 1,
        "vsock": 97,
        "namespace": 1,
        "keys": "",
        "is_first": False,
        "Seccomp": "2",
        "NoNewPrivs": "1",
        "packages": [],
    }


@needs("bubblewrap")
def test_a_server_sees_its_data_and_nothing_else(tmp_path):
    """No network, nothing of the host's homes, a read-only root; what it writes is in its copy of the data."""
    (tmp_path / "given.csv").write_text("a")
    report = json.loads(said_by(confined([str(PYTHON), "-I", "-S", "-c", _VIEW], {}, tmp_path, [PYTHON.parents[1]], 1)))
    assert (tmp_path / "probe").read_text() == "mine"
    assert report["network"] != "open"
    assert report["/usr/probe"] == report["/probe"] == "Read-only file system"
    assert "CapEff:\t0000000000000000" in report["status"]
    assert set(report["etc"]) <= {"alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "localtime"}
    assert not {"mnt", "var", "srv"} & set(report["root"])
    assert report["data"] == ["given.csv"]


@needs("bubblewrap")
async def test_a_confined_server_serves_and_its_end_is_told(tmp_path):
    """Calls work as without confinement; a program that is not there, or dies, is known by its last words."""
    roots = [PYTHON.parents[1], Path(FAKE).parent]

    def plan(*command):
        return ServerPlan(
            name="fake",
            process=confined([*command], {}, tmp_path, roots, 1),
            limits=SandboxLimits(tool_start_seconds=600.0),
        )

    plans = [plan(str(PYTHON), FAKE, "well"), plan(str(PYTHON), FAKE, "dies"), plan("/no/such/program")]
    async with running_servers(plans) as (well, dies, absent):
        assert (await well.call("echo", {"a": 1})).text == '{"a": 1}'
        with pytest.raises(ToolBoundaryError, match="the disk is on fire"):
            await dies.call("echo", {})
        with pytest.raises(ToolBoundaryError, match="/no/such/program: No such file"):
            absent.check()
        pid = well.pid
    assert not is_running(pid)


_HOST = """
import sys, time
from pathlib import Path
import msgspec
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import confined
from tests.runners.environments.benchmarks.mcp_atlas.confined_program import started
python, data, report = sys.argv[1:]
roots = [Path(python).parents[1]]
plan = confined([python, "-I", "-S", "-c", "import time; time.sleep(3600)"], {}, Path(data), roots, 1)
plan = msgspec.structs.replace(plan, command=[plan.command[0], "--info-fd", report, *plan.command[1:]])
print(started(plan, pass_fds=(int(report),)).pid, flush=True)
time.sleep(3600)
"""


def below(pid, depth):
    """Wait until a process has descendants of some generations; returns them, the eldest first."""
    found = [int(pid)]
    while len(found) <= depth:
        try:
            children = Path(f"/proc/{found[-1]}/task/{found[-1]}/children").read_text().split()
            found += map(int, children[:1])
        except (FileNotFoundError, ProcessLookupError):  # a child of the start has ended; the next is there soon
            del found[1:]
            assert is_running(found[0])
        time.sleep(0.002)
    return found


@pytest.mark.sampled(2)
@needs("bubblewrap")
@pytest.mark.parametrize("is_starting", [True, False])
def test_a_host_that_is_killed_leaves_no_bubblewrap(tmp_path, is_starting):
    """Not even when that is while bubblewrap starts: a pipe that is full holds it between two of its steps."""
    report, theirs = os.pipe()
    filled = os.write(theirs, bytes(fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096))) if is_starting else 0
    command = [sys.executable, "-c", _HOST, str(PYTHON), str(tmp_path), str(theirs)]
    checkout = Path(__file__).parents[5]
    with subprocess.Popen(command, stdout=subprocess.PIPE, pass_fds=(theirs,), cwd=checkout) as host:
        os.close(theirs)
        started_pids = below(host.stdout.readline(), 1 if is_starting else 2)
        host.kill()
    assert len(os.read(report, 8192)) >= filled
    left = started_pids
    for _ in range(6000):
        left = [pid for pid in left if is_running(pid)]
        if not left:
            break
        time.sleep(0.02)
    os.close(report)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    assert not left
