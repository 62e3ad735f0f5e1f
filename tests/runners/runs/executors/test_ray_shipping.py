"""A cluster whose machines have Ray and nothing of ours: a run brings packages, files and programs along."""

import os
import subprocess
import sys

import pytest

from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.runners.agents.scripted import ScriptedModel
from tests.cli.program import end, lhaw_record, query
from tests.runners.agents.programs.rigs import ASKS
from tests.runners.runs.executors.site import SETTINGS, BareCluster, Site
from tests.runners.runs.executors.test_ray_runs import DOUBLED, wait_for_finished
from tests.support.chat_server import server_beside
from tests.support.faults import Fault
from tests.support.needs import BARE_RAY, needs

KEY, GIVEN = "sk-of-the-nodes-5b1c9e77", "secret-in-the-entry-82d0"
ENTRY = """
command = ["python3", "{bin}/robot.py", "{base_url}", "{token}"]
answer = "stdout"
wire = "chat"
environment = { ROBOT_API_KEY = "GIVEN" }
[install]
script = "scripts/robot.py"
""".replace("GIVEN", GIVEN)
EXPERIMENT = """
name = "brought"
conditions = ["full", "underspecified"]
trials = 4
concurrency = 4
preflight = false
[benchmark]
name = "my_benchmark"
[sandbox]
kind = "process"
allow_unisolated = true
[prompts]
strategies = { brief = "../words/brief.md" }
[[agents]]
name = "served"
strategy = "brief"
model = "local-model"
api_base = "URL"
api_key_env = "NODES_KEY"
[[agents]]
name = "robot"
program = "programs/robot.toml"
model = "scripted/replay_masked"
"""

TABLES = """
import ray
from ray._private.state import state
ray.init(address="ADDRESS")
tables = state._connect_and_get_accessor()
print(tables.get_job_table(), tables.get_actor_table(None, None))
"""


@pytest.fixture
def project(tmp_path):
    """An installed benchmark, and an experiment with files of its own; returns its path and the folder of packages."""
    lhaw_record("new-benchmark", "my_benchmark", "--to", tmp_path / "own")
    packages = tmp_path / "packages"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", packages, tmp_path / "own"]
    subprocess.run(command, check=True)
    for name, text in {
        "words/brief.md": "Be brief.",
        "experiments/a.toml": EXPERIMENT,
        "experiments/programs/robot.toml": ENTRY,
        "experiments/programs/scripts/robot.py": f"{ASKS}ask()\nprint('done')\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path / "experiments" / "a.toml", packages


@pytest.mark.slow
@needs("ray", "bare_ray")
def test_machines_with_nothing_of_ours_run_trials_and_one_is_lost(project, tmp_path):
    """Packages, a benchmark, prompts and a program come along; a lost node costs nothing; no key is in Ray's files."""
    path, packages = project
    ours = subprocess.run([BARE_RAY / "python", "-c", "import recorder"], check=False, cwd="/", capture_output=True)
    assert b"No module named 'lhaw_record'" in ours.stderr
    cluster = BareCluster({"NODES_KEY": KEY})
    extra = {"PYTHONPATH": str(packages), "LHAW_RECORD_AGENTS": str(tmp_path / "agents")}
    site = Site(cluster, tmp_path, extra)
    slow = Fault(kind="slow", times=None, seconds=0.5)
    try:
        site.add("host1")
        lost = site.add("host2")
        with server_beside(lambda seed: ScriptedModel("scripted/balanced", seed), [slow]) as server:
            path.write_text(EXPERIMENT.replace("URL", server.url))
            lhaw_record("agents", "install", path.parent / "programs" / "robot.toml", extra=extra)
            process = site.start(path)
            wait_for_finished(site, process, 5)
            assert len(list((tmp_path / "host1").rglob("installed.json"))) == 1, "the program is installed there"
            site.lose(lost, "host2")
            done = end(process)
        assert done.returncode == 0, done.stderr
        assert "Ray installs them on each" in done.stderr
        assert "running trials, which will run again" in done.stderr
        assert query(site.root(), DOUBLED) == []
        finished = query(site.root(), "select agent_name, count(*) from trials group by all")
        assert sorted(finished) == [("robot", 16), ("served", 16)]
        assert verify(site.root()).findings == ()
        records = dict(cluster.texts())
        command = [BARE_RAY / "python", "-c", TABLES.replace("ADDRESS", cluster.address)]
        told = subprocess.run(command, check=False, text=True, capture_output=True, env={**os.environ, **SETTINGS})
        assert "lhaw_record-" in told.stdout, told.stderr
        for secret in (KEY, GIVEN):
            assert secret not in told.stdout
            assert [path for path, content in records.items() if secret.encode() in content] == []
    finally:
        site.close()
        cluster.close()
