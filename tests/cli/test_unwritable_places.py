"""Places that cannot be written to: every command names the place, what is wrong and the next step, in one sentence."""

import errno
import os
import re
import subprocess
from pathlib import Path

import pytest

from lhaw_record.analytics.views.build_order import empty_database
from lhaw_record.command_line import main
from lhaw_record.recorder.errors import refusal
from lhaw_record.recorder.resources import user_folder, user_name
from tests.cli.experiments import PLAIN_PROCESS, write_experiment
from tests.support.needs import require

COMMANDS = {
    "report": ("report", "{store}", "-o", "{place}/report.html"),
    "figures": ("figures", "{store}", "voi", "-o", "{place}/figures"),
    "paper": ("paper", "{store}", "conditions", "-o", "{place}/paper"),
    "tables": ("tables", "{store}", "overall", "-o", "{place}/tables"),
    "export a folder": ("export", "inspect", "{store}", "-o", "{place}/logs"),
    "export a file": ("export", "trials", "{store}", "-o", "{place}/trials.json"),
    "log export": ("log", "export", "{store}", "-o", "{place}/log.jsonl"),
    "log verify": ("log", "verify", "{place}/store"),
    "run": ("run", "{experiment}", "--store", "{place}/store"),
    "serve": ("serve", "--store", "{place}/store", "--port", "0"),
    "new-benchmark": ("new-benchmark", "my_shop", "--to", "{place}/shop"),
    "agents install": ("agents", "install", "smolagents"),
}


MEETS_NO_STORE = [name for name, words in COMMANDS.items() if "{store}" not in words]
THOROUGH = [
    name if name in MEETS_NO_STORE else pytest.param(name, marks=pytest.mark.thorough)
    for name in COMMANDS
    if name != "report"
]


@pytest.fixture(scope="module")
def experiment(tmp_path_factory):
    return write_experiment(tmp_path_factory.mktemp("experiment") / "a.toml", sandbox=PLAIN_PROCESS)


@pytest.fixture(scope="module")
def store(experiment):
    """A store of it."""
    folder = experiment.parent / "store"
    assert main(["run", str(experiment), "--store", str(folder)]) == 0
    return folder


def words(name, place, request):
    """The command, with its paths."""
    known = {"place": place}
    for each in ("experiment", "store"):
        if f"{{{each}}}" in COMMANDS[name]:
            known[each] = request.getfixturevalue(each)
    return [word.format(**known) for word in COMMANDS[name]]


def refuses(capsys, arguments, place):
    """The last line is a sentence with the place, what is wrong and the next step."""
    assert main(arguments) in (1, 2)
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert re.fullmatch(rf"lhaw-record: [^\n]*{re.escape(str(place))}[^\n]*[:;] [^\n]+", complaint), complaint
    return complaint


@pytest.mark.parametrize("name", THOROUGH)
def test_a_file_where_a_folder_should_be(name, request, tmp_path, capsys, monkeypatch):
    """Root too is refused here."""
    place = tmp_path / "file"
    place.write_text("in the way")
    monkeypatch.setenv("LHAW_RECORD_AGENTS", str(place / "agents"))
    complaint = refuses(capsys, words(name, place, request), place)
    assert "LHAW_RECORD_AGENTS" in complaint or name != "agents install"
    assert place.read_text() == "in the way"


@pytest.fixture
def full(tmp_path):
    """A disk of 4 KB."""
    require("mount")
    folder = tmp_path / "full"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", folder], check=True)
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["report", "tables", "export a folder", "new-benchmark", "run", "serve"])
def test_a_full_disk(name, request, full, capsys, monkeypatch):
    """A failed write names no place by itself; no half of a file is left."""
    monkeypatch.setenv("LHAW_RECORD_AGENTS", str(full / "agents"))
    refuses(capsys, words(name, full, request), full)
    assert not list(full.rglob("*.tmp"))


@pytest.mark.thorough
def test_a_device_is_written_to_and_never_replaced(store, capsys):
    """As /dev/null is by those who want none of it; /dev/full is a full disk."""
    device = Path("/dev/full")
    assert "No space left" in refuses(capsys, ["log", "export", str(store), "-o", str(device)], device)
    assert device.is_char_device()


def test_no_place_for_temporary_files_is_told():
    """The error has no path, and what it says is kept."""
    told = refusal(FileNotFoundError(errno.ENOENT, "No usable temporary directory found in ['/tmp']"))
    assert told.startswith("No usable temporary directory found in ['/tmp'];")
    assert "TMPDIR" in told


def test_a_query_that_outgrows_the_place_for_temporary_files(tmp_path, monkeypatch, capsys):
    """Any command names the folder in one line; DuckDB speaks of settings that nobody here has made."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def asks(options):
        limits = "set memory_limit = '8MB'; set max_temp_directory_size = '1KB'; "
        empty_database().execute(limits + "create table texts as select md5(range::text) from range(1000000)")

    monkeypatch.setattr("lhaw_record.command_line._help", asks)
    assert "failed to offload" in refuses(capsys, ["help"], tmp_path)


def test_a_user_id_without_a_name_and_a_home(monkeypatch, capsys):
    """As `docker run --user` gives one: its home is /, which it cannot write to, and its name its number."""

    def nobody(number):
        raise KeyError(number)

    monkeypatch.setattr("pwd.getpwuid", nobody)
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert user_folder("cache") == Path("/.cache/lhaw-record")
    assert user_name() == f"user {os.getuid()}"
    monkeypatch.setenv("LHAW_RECORD_AGENTS", "~/agents")
    assert "set HOME" in refuses(capsys, ["agents", "install", "smolagents"], "~/agents")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP], ids=errno.errorcode.get)
def test_a_file_system_without_locks(number, experiment, tmp_path, capsys, monkeypatch):
    """As a home directory on NFS may be: nothing is recorded there, since two runs could not see each other."""

    def refused(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("fcntl.flock", refused)
    place = tmp_path / "store"
    complaint = refuses(capsys, ["run", str(experiment), "--store", str(place)], place)
    assert "name a place on a disk of this host (docs/shared-stores.md)" in complaint


@pytest.mark.parametrize(
    ("error", "is_told"),
    [
        (OSError(errno.ENOSPC, "x", "/a"), True),
        (ExceptionGroup("tasks", [OSError(errno.ENOSPC, "x", "/a")]), True),
        (OSError(errno.EBADF, "x"), False),
    ],
    ids=["a full disk", "in a task", "a fault of ours"],
)
def test_only_a_fault_of_ours_has_a_traceback(error, is_told, monkeypatch, capsys):
    """What nobody can act on is never made a sentence."""

    def fails(options):
        raise error

    monkeypatch.setattr("lhaw_record.command_line._help", fails)
    if is_told:
        assert main(["help"]) == 1
        assert (
            capsys.readouterr().err
            == "lhaw-record: /a: No space left on device; free space there or name another place\n"
        )
    else:
        with pytest.raises(OSError, match="x"):
            main(["help"])
