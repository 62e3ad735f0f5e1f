"""What a run on a cluster brings along: an experiment plans the same trials from the archive of its files alone."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.runs.executors import ray_shipping
from lhaw_record.runners.runs.executors.ray_worker import plan_digest
from lhaw_record.runners.runs.preparation import prepare, prepare_experiment
from tests.cli.experiments import PLAIN_PROCESS, write_experiment
from tests.runners.environments.benchmarks.harbor.folders import write_task
from tests.runners.environments.benchmarks.mcp_atlas.test_own_servers import SERVER, write
from tests.runners.environments.benchmarks.swebench_pro.test_options import WHOLE
from tests.runners.environments.benchmarks.swebench_pro.test_options import write as write_instances
from tests.runners.environments.benchmarks.tac.images import make_folder

ENTRY = 'command = ["python3", "-c", "print(1)"]\nanswer = "stdout"\nwire = "chat"\n'


def elsewhere(experiment, root, gone):
    """Plan an experiment from its archive below a folder, while what it was made of is gone."""
    prepared = prepare(experiment)
    files = ray_shipping.packed(prepared)
    ray_shipping.unpack(files.archive, root)
    gone.rename(gone.with_name("gone"))
    path = Path(f"{root}{experiment}")
    path.parent.mkdir(parents=True, exist_ok=True)
    again = prepare_experiment(files.experiment, path)
    assert plan_digest(again.plan) == plan_digest(prepared.plan)
    return again


def write_file(path, text):
    """Write a file in a folder that may be missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_an_experiments_own_files_are_found_below_a_folder_elsewhere(tmp_path):
    """Names that are relative, absolute or links lead to the archive's files, of prompts and of a program."""
    work = tmp_path / "work"
    write_file(work / "words" / "brief.md", "Be brief.")
    write_file(work / "words" / "polite.md", "Be polite.")
    write_file(work / "kept" / "robot.toml", ENTRY)
    (work / "programs").symlink_to("kept")
    (work / "experiments").mkdir()
    prompts = f'strategies = {{ brief = "../words/brief.md" }}\npersonas = {{ polite = "{work}/words/polite.md" }}'
    agents = (
        {"name": "terse", "model": "scripted/balanced", "strategy": "brief", "persona": "polite"},
        {"name": "robot", "model": "scripted/replay_masked", "program": "../programs/robot.toml"},
    )
    more = f"[prompts]\n{prompts}\n"
    path = write_experiment(work / "experiments" / "a.toml", agents=agents, sandbox=PLAIN_PROCESS, more=more)
    again = elsewhere(path, tmp_path / "root", work)
    assert "Be polite." in again.prompts.system_text(again.experiment.agents[0], has_ask_user=False)


def harbor(work):
    """A task folder."""
    write_task(work / "tasks" / "hello")
    return 'name = "harbor"\nfolder = "FOLDER/tasks"'


def mcp_atlas(work):
    """A row, data, and a server of one's own whose script is a link."""
    row = {"task": "t1", "prompt": "Find it.", "claims": ["It is a."], "enabled_tools": ["notes_search"]}
    write_file(work / "rows.jsonl", json.dumps(row))
    write_file(work / "data" / "a.txt", "a")
    write_file(work / "kept" / "notes.py", SERVER)
    (work / "notes.py").symlink_to("kept/notes.py")
    write(work, sys.executable)
    keys = 'rows = "rows.jsonl"\ndata = "FOLDER/data"\nown_servers = "servers.toml"\nallow_unconfined = true'
    return f'name = "mcp_atlas"\n{keys}'


def swebench_pro(work):
    """An instance and its scripts."""
    write_instances(work, [WHOLE])
    return 'name = "swebench_pro"\ninstances = "i.jsonl"\nscripts = "FOLDER/scripts"'


def tac(work):
    """A task folder."""
    make_folder(work, services="[]")
    return 'name = "tac"\nfolder = "FOLDER/tasks"'


@pytest.mark.thorough
@pytest.mark.parametrize("prefix", ["", "/"], ids=["relative", "absolute"])
@pytest.mark.parametrize("benchmark", [harbor, mcp_atlas, swebench_pro, tac])
def test_a_benchmarks_files_come_along(benchmark, prefix, tmp_path, monkeypatch):
    """Every benchmark that reads files of the user's has them, by whatever kind of path they are named."""
    monkeypatch.setenv("NOTES_KEY", "a-key-of-the-server")
    work = tmp_path / "work"
    work.mkdir()
    table = benchmark(work).replace("FOLDER", str(work) if prefix else ".")
    path = write_file(
        work / "a.toml",
        'name = "a"\nconditions = ["full"]\n[[agents]]\nname = "b"\nmodel = "scripted/balanced"\n'
        f'[sandbox]\nkind = "docker"\nimage = "i:1"\n[benchmark]\n{table}\n',
    )
    elsewhere(path, tmp_path / "root", work)


@pytest.mark.thorough
def test_what_is_too_large_is_a_link_to_its_path(tmp_path, monkeypatch):
    """It is named, and every machine that has it at its path can run; another one is refused by the path."""
    monkeypatch.setattr(ray_shipping, "_MOST_BYTES", 10)
    work = tmp_path / "work"
    write_file(work / "brief.md", "Be brief, please.")
    agents = [{"name": "terse", "model": "scripted/balanced", "strategy": "brief"}]
    path = write_experiment(work / "a.toml", agents=agents, more='[prompts.strategies]\nbrief = "brief.md"\n')
    prepared = prepare(path)
    files = ray_shipping.packed(prepared)
    assert files.left_out == (work / "brief.md",)
    ray_shipping.unpack(files.archive, tmp_path / "root")
    there = Path(f"{tmp_path}/root{path}")
    assert plan_digest(prepare_experiment(files.experiment, there).plan) == plan_digest(prepared.plan)
    (work / "brief.md").unlink()
    with pytest.raises(ExperimentError, match=r"brief\.md is not a file"):
        prepare_experiment(files.experiment, there)


@pytest.mark.thorough
def test_a_link_never_leads_out_of_the_folder_that_is_unpacked_in(tmp_path):
    """A named file behind a link of a folder that is sent with it: what the link leads to here is left as it is."""
    work, outside = tmp_path / "work", tmp_path / "outside"
    write_file(outside / "a.md", "Mine.")
    write_file(work / "folder" / "b.md", "b")
    (work / "folder" / "out").symlink_to(outside)
    archive, _ = ray_shipping._archived({work / "folder", work / "folder" / "out" / "a.md"})
    ray_shipping.unpack(archive, tmp_path / "root")
    assert (outside / "a.md").read_text() == "Mine."
    assert not (outside / "a.md").is_symlink()


class Machines:
    """Ray, as far as it asks machines for the digest of their packages: each answers with a text or an error."""

    util = SimpleNamespace(scheduling_strategies=SimpleNamespace(NodeAffinitySchedulingStrategy=lambda node, **_: node))

    def __init__(self, answers):
        self._answers = answers

    def nodes(self):
        """One for each answer, a dead one, and a head without processors."""
        alive = [{"NodeID": number, "Alive": True, "Resources": {"CPU": 1}} for number in range(len(self._answers))]
        return [{"NodeID": -1, "Alive": False}, *alive, {"NodeID": -2, "Alive": True, "Resources": {}}]

    def remote(self, **_):
        """Return what makes a function that runs on a machine."""
        return lambda _: SimpleNamespace(options=self._on)

    def _on(self, scheduling_strategy):
        async def answer():
            if isinstance(self._answers[scheduling_strategy], Exception):
                raise self._answers[scheduling_strategy]
            return self._answers[scheduling_strategy]

        return SimpleNamespace(remote=lambda _: answer())


async def test_packages_are_sent_unless_each_machine_has_them(monkeypatch):
    """One machine with others, one that cannot answer, or no machine yet: each is a reason to send them."""
    monkeypatch.setattr(ray_shipping, "packages_digest", lambda _: "ours")
    for answers, is_so in (
        (["ours", "ours"], True),
        (["ours", "others"], False),
        (["ours", ImportError("no such module")], False),
        ([], False),
    ):
        assert await ray_shipping.has_them_everywhere(Machines(answers), "desk") is is_so


@pytest.mark.thorough
def test_a_package_is_sent_from_where_it_was_installed(tmp_path, monkeypatch):
    """From an index by version, a repository by commit, a file as it is, each by its folder in there; else named."""

    def asked(**origin):
        read = {"direct_url.json": json.dumps(origin)} if origin else {}
        return ray_shipping._requirement(SimpleNamespace(name="p", version="1", read_text=read.get), tmp_path / "out")

    (tmp_path / "out").mkdir()
    wheel = write_file(tmp_path / "in it" / "p-1-py3-none-any.whl", "packed")
    assert asked() == "p==1"
    commit = {"vcs": "git", "commit_id": "c0"}
    assert asked(url="https://x/r", vcs_info=commit) == "p @ git+https://x/r@c0"
    assert asked(url="https://x/r", vcs_info=commit, subdirectory="a b") == "p @ git+https://x/r@c0#subdirectory=a%20b"
    assert asked(url="https://x/p.zip", archive_info={}, subdirectory="a/b") == "p @ https://x/p.zip#subdirectory=a/b"
    with pytest.raises(ExperimentError, match=r"p 1 was installed from the folder a of the archive .*\.whl"):
        asked(url=wheel.as_uri(), archive_info={}, subdirectory="a")
    built = []
    monkeypatch.setattr(
        ray_shipping, "build_wheel", lambda place, out: built.append(place) or write_file(out / "b.whl", "b")
    )
    (tmp_path / "project" / "a").mkdir(parents=True)
    asked(url=(tmp_path / "project").as_uri(), dir_info={}, subdirectory="a")
    assert built == [tmp_path / "project" / "a"]
    place = asked(url=wheel.as_uri(), archive_info={}).replace(ray_shipping._UNPACKED, str(tmp_path / "out"))
    assert Path(place).read_text() == "packed"
    with pytest.raises(ExperimentError, match="p 1 was installed from /nowhere, which is gone"):
        asked(url="file:///nowhere", dir_info={"editable": True})
