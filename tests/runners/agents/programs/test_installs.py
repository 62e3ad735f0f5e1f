"""Installations are addressed by their content: what runs is what the entry says now, and its digest is on record."""

import json
import shutil
import sys
from pathlib import Path

import anyio
import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.events import TrialFailed, TrialFinished, TrialStarted
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.agents.programs.entries import load_entry, shown_folders
from lhaw_record.runners.agents.programs.installation import install_folder
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.host import packages
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.run import run_experiment
from tests.runners.agents.programs.rigs import ASKS, described, recorded, scripted

ENTRY = (
    'command = ["python3", "{bin}/robot.py", "{base_url}", "{token}"]\nanswer = "stdout"\nwire = "chat"\n'
    '[install]\nscript = "robot.py"\n'
)


@pytest.fixture(autouse=True)
def agents(tmp_path, monkeypatch):
    """The folder of installations, empty."""
    monkeypatch.setenv("LHAW_RECORD_AGENTS", str(tmp_path / "agents"))
    return tmp_path / "agents"


@pytest.fixture
def called(capsys):
    """Run a command; its exit code, and what it printed and said."""

    def call(*arguments):
        code = main([str(each) for each in arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


def project(folder, says):
    """A project with an entry robot.toml, whose script answers with some words."""
    folder.mkdir(exist_ok=True)
    (folder / "robot.toml").write_text(ENTRY)
    write_script(folder, says)
    text = described("robot.toml", name="robots")
    (folder / "experiment.toml").write_text(text)
    return folder


def write_script(folder, says):
    """Write the script of a project."""
    (folder / "robot.py").write_text(f"{ASKS}ask()\nprint({says!r})\n")


def answers(store):
    """The program and the answer of every finished trial, in the order of their ends."""
    envelopes = list(read_envelopes(store))
    programs = {each.stream_id: each.event.program for each in envelopes if isinstance(each.event, TrialStarted)}
    return [
        (programs[each.stream_id], each.event.final_answer)
        for each in envelopes
        if isinstance(each.event, TrialFinished)
    ]


@pytest.mark.thorough
def test_an_edited_script_is_another_agent(tmp_path, called):
    """It is not run as its old copy: the run is refused with the command, and then its trials are new ones."""
    here, store = project(tmp_path / "a", "old"), tmp_path / "store"
    experiment, entry = here / "experiment.toml", here / "robot.toml"
    assert called("agents", "install", entry)[0] == 0
    assert called("run", experiment, "--store", store)[0] == 0
    write_script(here, "new")
    code, _, said = called("run", experiment, "--store", store)
    assert code == 2
    assert (
        f"has changed since it was installed: its packages or its script; run: lhaw-record agents install {entry}"
        in (said)
    )
    code, _, said = called("agents", "install", entry)
    assert code == 0
    assert "the new installation counts as another agent with its own trials" in said
    assert called("run", experiment, "--store", store)[0] == 0
    ran = answers(store)
    assert sorted(answer for _, answer in ran) == ["new", "old"]
    assert len({program for program, _ in ran}) == 2
    states = json.loads(called("agents", "list", "--installed", "--format", "json")[1])
    assert sorted(row["state"] for row in states) == ["current", "earlier"]
    assert {row["entry"] for row in states} == {str(entry)}


@pytest.mark.thorough
def test_another_projects_script_of_the_same_name_is_another_agent(tmp_path, called):
    """Two entries robot.toml do not share a folder, and neither runs the other's script."""
    for name in ("a", "b"):
        here = project(tmp_path / name, name)
        if name == "b":
            with pytest.raises(ExperimentError, match="is not installed; run: lhaw-record agents install"):
                prepare(here / "experiment.toml")
        assert called("agents", "install", here / "robot.toml")[0] == 0
    for name in ("a", "b"):
        program = prepare(tmp_path / name / "experiment.toml").experiment.agents[0].external
        assert f"print('{name}')" in (install_folder(program) / "bin" / "robot.py").read_text()


def test_an_installed_copy_that_was_edited_is_not_run(tmp_path, called, agents):
    """The digest of the folder would name something else; installing again mends it."""
    here = project(tmp_path / "a", "right")
    assert called("agents", "install", here / "robot.toml")[0] == 0
    (folder,) = agents.iterdir()
    planned = prepare(here / "experiment.toml")
    (folder / "bin" / "robot.py").write_text("print('wrong')\n")
    with pytest.raises(ExperimentError, match="has changed since it was installed"):
        prepare(here / "experiment.toml")
    with pytest.raises(ExperimentError, match="no longer has the files that were installed"):
        anyio.run(run_experiment, planned, tmp_path / "store", Reporter())
    assert called("agents", "install", here / "robot.toml")[0] == 0
    assert prepare(here / "experiment.toml").plan == planned.plan
    assert "right" in (folder / "bin" / "robot.py").read_text()


async def test_what_is_edited_in_the_middle_of_a_run_is_not_run_under_the_old_digest(tmp_path):
    """A mounted script edits itself: the trial that began before is whole, the next one is not started."""
    source = "ask()\nopen(__file__, 'a').write('# edited')\nprint('done')\n"
    program = scripted(tmp_path, source, answer="stdout")
    digest = (await anyio.run_process(["sha256sum", program["mounts"][0]])).stdout.decode()
    text = described(program).replace("concurrency = 2", "concurrency = 1").replace("trials = 1", "trials = 2")
    _, trials = await recorded(tmp_path, text)
    ends = {type(events[-1]): events for events in trials}
    assert ends.keys() == {TrialFinished, TrialFailed}
    assert ends[TrialFailed][-1].error_kind == "program_changed"
    assert {events[0].program for events in trials} == {f"python3 program.py {digest[:12]}"}


def test_an_edited_mounted_script_is_another_agent(tmp_path):
    """What is not installed but shown counts by its content too."""
    path = tmp_path / "experiment.toml"
    path.write_text(described(scripted(tmp_path, "ask()\n")))
    before = prepare(path).plan.trials[0].trial_id
    assert prepare(path).plan.trials[0].trial_id == before
    scripted(tmp_path, "ask() # edited\n")
    assert prepare(path).plan.trials[0].trial_id != before


def test_other_packages_are_another_installation(tmp_path, called, agents):
    """Pins count whether or not the version command prints them; the same ones in two projects are shared."""
    folders = []
    for name, pins in (("a", '["x==1"]'), ("b", '["x==1"]'), ("c", '["x==2"]'), ("d", '["x==1"]\npython = "3.12"')):
        (tmp_path / name).mkdir()
        (tmp_path / name / "robot.toml").write_text(f'command = ["{{bin}}/x"]\n[install]\npip = {pins}\n')
        folders.append(install_folder(load_entry("robot.toml", tmp_path / name)))
    assert folders[0] == folders[1]
    assert len(set(folders)) == 3


@pytest.mark.thorough
def test_an_entry_gets_the_python_that_it_names(tmp_path, called, agents, monkeypatch):
    """Not ours: the one of that version, and without it the entry is not installed."""
    here = project(tmp_path / "a", "x")
    (here / "robot.toml").write_text(f'{ENTRY}python = "3.99"\n')
    python = tmp_path / "bin" / "python3.99"
    monkeypatch.setattr(packages.shutil, "which", lambda name: str(python) if name == python.name else None)
    python.parent.mkdir()
    python.write_text('#!/bin/sh\n[ "$1" = --version ] || exit 3\n')
    python.chmod(0o755)
    assert "python3.99 -m venv" in called("agents", "install", here / "robot.toml")[2]
    python.unlink()
    python.symlink_to(sys.executable)
    assert called("agents", "install", here / "robot.toml")[0] == 0
    (mark,) = agents.glob("*/installed.json")
    assert "python3.99 -m venv" in (mark.parent / "pyvenv.cfg").read_text()
    monkeypatch.setattr(packages.shutil, "which", lambda _: None)
    shutil.rmtree(mark.parent)
    code, _, said = called("agents", "install", here / "robot.toml")
    assert (code, "no python3.99 on PATH works" in said) == (2, True)


def test_the_name_of_an_own_entry_is_answered_with_its_path(tmp_path, called, monkeypatch):
    """Names are of ready-made entries; where a file of that name lies here, the message says so."""
    project(tmp_path / "a", "x")
    monkeypatch.chdir(tmp_path / "a")
    code, _, said = called("agents", "install", "robot")
    assert (code, "write robot.toml for the file in this folder" in said) == (2, True)
    assert called("run", "experiment.toml", "--store", tmp_path / "store")[2].strip().endswith("install robot.toml")
    assert called("agents", "install", "robot.toml")[0] == 0


def test_an_entry_whose_script_is_missing_is_shown(tmp_path, called):
    """Its text is printed, and then what is missing."""
    here = project(tmp_path / "a", "x")
    (here / "robot.py").unlink()
    code, out, said = called("agents", "show", here / "robot.toml")
    assert (code, out) == (0, ENTRY)
    assert f"key 'install.script': {here / 'robot.py'} cannot be read" in said


def test_a_ready_made_entry_is_recommended_by_its_name(tmp_path):
    """The command that the message names is the one that installs."""
    path = tmp_path / "experiment.toml"
    path.write_text(described("mini-swe-agent-text"))
    with pytest.raises(
        ExperimentError, match=r"is not installed; run: lhaw-record agents install mini-swe-agent-text$"
    ):
        prepare(path)


def test_what_an_earlier_version_installed_is_listed_and_never_run(tmp_path, called, agents):
    """Its folder has no digest, so nobody knows what it holds."""
    here = project(tmp_path / "a", "x")
    (agents / "robot" / "bin").mkdir(parents=True)
    (agents / "robot" / "installed.json").write_text('{"pip":[],"npm":[],"script":"robot.py"}')
    shutil.copy(here / "robot.py", agents / "robot" / "bin")
    assert called("run", here / "experiment.toml", "--store", tmp_path / "store")[0] == 2
    (row,) = json.loads(called("agents", "list", "--installed", "--format", "json")[1])
    assert (row["state"], Path(row["folder"])) == ("made by an earlier version, not used", agents / "robot")


def test_a_python_of_the_system_is_not_mounted_by_another_name(tmp_path):
    """Where /bin is a link into /usr, this machine's /bin and /lib are not laid over those of an image."""
    spec = ProgramSpec(command=("a",), install_digest="0" * 64)
    folder = install_folder(spec)
    folder.mkdir(parents=True)
    (tmp_path / "bin").symlink_to("/usr/bin")
    (folder / "pyvenv.cfg").write_text(f"home = {tmp_path / 'bin'}\n")
    assert shown_folders(spec) == (str(folder),)
    (folder / "pyvenv.cfg").write_text(f"home = {tmp_path / 'own' / 'bin'}\n")
    assert shown_folders(spec) == (str(folder), str(tmp_path / "own" / "bin"), str(tmp_path / "own" / "lib"))


def test_a_python_that_does_not_run_is_not_there(tmp_path, monkeypatch):
    """A shim on PATH whose version is not installed says so, as pyenv's do, and is no Python."""
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ExperimentError, match=r"no python3\.12 on PATH works"):
        packages.install_python(tmp_path / "made", ["tomli"], is_new=True, version="3.12")
