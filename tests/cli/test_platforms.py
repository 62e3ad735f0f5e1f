"""Machines that are not Linux: what macOS lacks is taken away, and everything that needs no container works."""

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.cli.experiments import PLAIN_PROCESS, write_experiment

ROOT = Path(__file__).parents[2]
ABSENT = """
import os, resource, select, signal, socket

ABSENT = {
    os: "copy_file_range eventfd eventfd_read fdatasync getrandom getresuid getxattr listxattr memfd_create O_DIRECT "
    "O_TMPFILE pidfd_open pipe2 posix_fadvise posix_fallocate sched_getaffinity sched_setaffinity setresuid splice",
    resource: "prlimit RUSAGE_THREAD",
    select: "epoll",
    signal: "pidfd_send_signal SIGRTMIN sigtimedwait",
    socket: "AF_NETLINK AF_VSOCK MSG_NOSIGNAL SO_PEERCRED SOCK_CLOEXEC SOCK_NONBLOCK SOCK_SEQPACKET",
}
for module, names in ABSENT.items():
    for name in names.split():
        vars(module).pop(name, None)
"""
WITHOUT_PROC = """
mount -t tmpfs none /mnt
for each in /*; do
  if [ -L "$each" ]; then cp -P "$each" /mnt
  elif [ -d "$each" ] && [ "$each" != /proc ] && [ "$each" != /mnt ]; then
    mkdir "/mnt$each" && mount --rbind "$each" "/mnt$each"
  fi
done
exec chroot /mnt "$@"
"""
PROGRAM = "import sys; from lhaw_record.command_line import main; sys.exit(main())"


@pytest.fixture(scope="module")
def mac(tmp_path_factory):
    """A command that runs lhaw-record, and every Python that it starts, without what macOS lacks; root hides /proc."""
    home = tmp_path_factory.mktemp("mac") / "python"
    venv.create(home)
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(home)}))
    (packages / "absent.py").write_text(ABSENT)
    (packages / "absent.pth").write_text("import absent\n")
    (packages / "paths.pth").write_text("\n".join([str(ROOT), *filter(None, sys.path)]))
    command = [str(home / "bin" / "python"), "-c", PROGRAM]
    if os.geteuid() == 0 and shutil.which("unshare"):
        hidden = ["unshare", "-m", "sh", "-c", WITHOUT_PROC, "sh"]
        if subprocess.run([*hidden, "test", "!", "-e", "/proc"], check=False).returncode == 0:
            return [*hidden, *command]
    return command


def ran(command, *arguments):
    """Run it and return what it printed."""
    done = subprocess.run([*command, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.thorough
def test_a_mac_records_and_reads(mac, tmp_path):
    """Trials of desk in process sandboxes, tables, findings, a report; the store verifies."""
    conditions = ["full", "underspecified", "ask_user"]
    experiment = write_experiment(tmp_path / "a.toml", conditions=conditions, sandbox=PLAIN_PROCESS)
    store = tmp_path / "store"
    ran(mac, "run", experiment, "--store", store)
    assert "balanced" in ran(mac, "tables", store, "overall", "--format", "csv")
    assert ran(mac, "findings", store)
    ran(mac, "report", store, "--output", tmp_path / "report.html")
    ran(mac, "log", "verify", store)


WINDOWS = "import sys; sys.platform = 'win32'; sys.modules['fcntl'] = None; "


@pytest.mark.parametrize("started", [r"Scripts/lhaw-record.exe", "-m"])
def test_windows_is_told_in_one_sentence(started):
    """Before anything is imported that Windows lacks."""
    program = f"{WINDOWS}sys.argv[0] = {started!r}; import lhaw_record.command_line"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "WSL" in done.stderr


def test_a_program_of_others_survives_that_on_windows():
    """It may have something else to do where it cannot import us."""
    program = f"{WINDOWS}\ntry:\n    import lhaw_record\nexcept ImportError as error:\n    print(error)"
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "WSL" in done.stdout


def test_an_old_make_is_told_what_to_use():
    """A Mac has GNU make 3.81, which does not know the Makefile's words."""
    done = subprocess.run(["make", ".FEATURES=", "help"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "gmake" in done.stderr


def test_a_python_that_makes_no_environment_leaves_no_half_of_one(tmp_path):
    """As Debian's without python3-venv: the second try is not told something else than the first."""
    environment, python = tmp_path / "environment", tmp_path / "python"
    python.write_text('#!/bin/sh\nmkdir -p "$3/bin" && touch "$3/bin/python" && chmod +x "$3/bin/python" && exit 1\n')
    python.chmod(0o755)
    command = ["make", "demo", f"VENV={environment}", f"PYTHON={python}"]
    for _ in range(2):
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode != 0
        assert "apt-get install python3-venv" in done.stderr
        assert not environment.exists()


def test_an_installation_that_fails_says_what_space_it_needs(tmp_path):
    """Most often the disk is full, and pip's own words come before."""
    environment, python = tmp_path / "environment", tmp_path / "python"
    python.write_text('#!/bin/sh\nmkdir -p "$3/bin" && cp /bin/false "$3/bin/python"\n')
    python.chmod(0o755)
    command = ["make", "demo", f"VENV={environment}", f"PYTHON={python}"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert f"{ROOT} needs 1.6 GB" in done.stderr
    assert not (environment / ".ready").exists()
