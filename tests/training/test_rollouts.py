"""Rollouts of verifiers are trials of ours, and what they recorded trains a model."""

import json
import os
import subprocess
import sys
from pathlib import Path

import lhaw_record
from lhaw_record.runners.agents.scripted import ScriptedModel
from tests.support.chat_server import server_beside
from tests.support.needs import TRAINING_PYTHON, VERIFIERS_EVAL, needs
from tests.support.trainers import training_step

_EXPERIMENT = """
conditions = ["ask_user"]

[benchmark]
name = "desk"
variants = ["log-triage/window"]

[[agents]]
strategy = "react"
"""
_EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
_PROGRAM = Path(sys.executable).with_name("lhaw-record")


@needs("verifiers")
def test_a_rollout_is_a_trial_with_its_rewards(tmp_path):
    """Two rollouts of a group are two trials of the policy's version, which one store holds, and which train a step."""
    (tmp_path / "experiment.toml").write_text(_EXPERIMENT)
    (tmp_path / "version").write_text("step 7\n")
    with server_beside(lambda seed: ScriptedModel("scripted/balanced", seed)) as server:
        traces = _rollouts(tmp_path, server.url)
    for trace in traces:
        assert trace["errors"] == []
        assert trace["rewards"] == {
            "net_success": {"score": 0.95, "weight": 1.0},
            "ask_f1": {"score": 1.0, "weight": 0.0},
        }
        assert (trace["metrics"]["questions"], trace["metrics"]["question_recall"]) == (1.0, 1.0)
        assert {"ask_user", "submit"} < {each["name"] for each in trace["tools"]}
        store = trace["info"]["lhaw_record"]["store"]
        subprocess.run([_PROGRAM, "log", "import", store, "--store", tmp_path / "all"], check=True, capture_output=True)
    with lhaw_record.open(tmp_path / "all") as opened:
        trials = opened.sql("select trial_id, agent_name, condition, is_success, question_count from trials").rows()
    assert {each["trial_id"] for each in trials} == {each["info"]["lhaw_record"]["trial_id"] for each in traces}
    assert len({each["trial_id"] for each in trials}) == 2
    assert {tuple(each.values())[1:] for each in trials} == {("policy step 7", "ask_user", True, 1)}
    if TRAINING_PYTHON.exists():
        folder = tmp_path / "rows"
        subprocess.run(
            [_PROGRAM, "export", "training", tmp_path / "all", "-o", folder], check=True, capture_output=True
        )
        assert training_step(folder, tmp_path)["steps"] == 1


def _rollouts(folder, url):
    options = {
        "--env.taskset.experiment": "experiment.toml",
        "--env.agent.harness.id": "lhaw_verifiers",
        "--env.agent.harness.store": "rollouts",
        "--env.agent.harness.program": _PROGRAM,
        "--env.agent.harness.version-file": "version",
        "--env.agent.runtime.type": "subprocess",
        "--model": "tiny",
        "--client.base-url": url,
        "--client.api-key-var": "STUB_KEY",
        "--num-rollouts": 2,
        "--output-dir": "out",
    }
    command = [VERIFIERS_EVAL, "lhaw_verifiers", "--no-rich", "--no-push"]
    command += [str(part) for option in options.items() for part in option]
    environment = os.environ | {"STUB_KEY": "x", "PYTHONPATH": str(_EXAMPLES)}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
    (written,) = folder.glob("out/*/traces.jsonl")
    return [json.loads(line)["traces"][0] for line in written.read_text().splitlines()]
