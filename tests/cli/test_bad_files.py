"""Experiment files that cannot run as written: each mistake is named with its file, its key and the remedy."""

import re

import pytest

from lhaw_record.command_line import main
from tests.cli.experiments import BALANCED, write_experiment
from tests.cli.program import called

SONNET = {"name": "sonnet", "model": "anthropic/claude-sonnet-4-6"}
LOCAL = {"name": "local", "model": "local-model", "api_base": "http://127.0.0.1:9/v1"}

MISTAKES = {
    "unknown key": (
        {"agents": [{**BALANCED, "modle": "x"}]},
        ["agents[0].modle'; did you mean 'model'?", "known: model, parameters"],
    ),
    "unknown table": ({"more": "[buget]\nmax_cost_usd = 1.0"}, ["unknown key 'buget'", "budget"]),
    "wrong type": ({"trials": '"three"'}, ["key 'trials'", "a whole number"]),
    "too few trials": ({"trials": 0}, ["key 'trials'", "at least 1"]),
    "unknown condition": (
        {"conditions": ["full", "inject_55"]},
        ["conditions", "'inject_55'; did you mean 'inject_50'?"],
    ),
    "inject without full": ({"conditions": ["inject_50"]}, ["conditions", 'add "full"']),
    "unknown strategy": ({"agents": [{**BALANCED, "strategy": "magic"}]}, ["strategy 'magic'", "react", "prompts"]),
    "unknown persona": ({"agents": [{**BALANCED, "persona": "pirate"}]}, ["persona 'pirate'", "executive"]),
    "unknown scripted model": ({"agents": [{**BALANCED, "model": "scripted/nobody"}]}, ["agents", "scripted/balanced"]),
    "unknown variant": (
        {"variants": ["log-triage/nothing"]},
        ["benchmark.variants", "'log-triage/nothing'", "there are: "],
    ),
    "missing variable": (
        {"agents": [{**LOCAL, "api_base": "${NOT_SET_ANYWHERE}"}]},
        ["agents[0].api_base", "NOT_SET_ANYWHERE", "export"],
    ),
    "duplicate agent name": ({"agents": [BALANCED, BALANCED]}, ["agents", "'balanced'", "its own name"]),
    "agent named all": ({"agents": [{**BALANCED, "name": "all"}]}, ["key 'agents'", "'all'", "another name"]),
    "duplicate agent": ({"agents": [BALANCED, {**BALANCED, "name": "twin"}]}, ["balanced and twin", "remove one"]),
    "simulator without a model": ({"more": '[user_simulator]\nkind = "llm"'}, ["user_simulator.llm", "add"]),
    "a grader that is not offered": ({"more": '[grader]\nkind = "matcher"'}, ["grader.kind", "desk", "'matcher'"]),
    "a choice that is not there": (
        {"agents": [{**BALANCED, "role": "boss"}]},
        ["key 'agents[0].role': \"boss\" is not a choice", "evaluated, classifier"],
    ),
    "a number that is too large": (
        {"more": "[limits]\nmax_turns = 9223372036854775808"},
        ["key 'limits.max_turns'", "64 bits"],
    ),
    "missing price": (
        {"agents": [{**LOCAL, "model": "unpriced"}], "more": "[budget]\nmax_cost_usd = 1.0"},
        ["price", "input_usd_per_million_tokens"],
    ),
}


def refused(capsys, path, store):
    """Run a file that must be refused with exit 2 before a store is made; return what was said on one line.

    A dry run refuses it in the same words.
    """
    said = []
    for more in ([], ["--dry-run"]):
        assert main(["run", str(path), "--store", str(store), *more]) == 2
        assert not store.exists()
        said.append(capsys.readouterr().err.partition("lhaw-record: ")[2])
    assert said[0] == said[1]
    return said[0].splitlines()[0]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_named_with_file_key_and_remedy(capsys, tmp_path, mistake):
    """One line names the file, the key and what to do; exit 2; nothing ran and no store was made."""
    changes, words = MISTAKES[mistake]
    path = write_experiment(tmp_path / "bad.toml", **changes)
    line = refused(capsys, path, tmp_path / "store")
    for word in [str(path), *words]:
        assert word in line


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[benchmark]", "[benchmark", ["not valid TOML", "line 7"]),
        ('name = "desk"', 'name = "office"', ["benchmark.name", "'office'", "desk", "mcp_atlas"]),
        ('name = "desk"', 'name = "desk"\ntasks = ["nothing"]', ["benchmark.tasks", "'nothing'", "log-triage"]),
        ('name = "desk"', 'name = "desk"\ncolour = "red"', ["benchmark.colour"]),
        ('name = "small"', 'name = "Small Talk"', ["name", "lower-case"]),
        ('name = "small"', "", ["key 'name' is missing"]),
    ],
)
def test_a_broken_file_is_explained(capsys, tmp_path, old, new, words):
    """What is no TOML, and names that do not exist, are explained in the same way."""
    path = write_experiment(tmp_path / "bad.toml")
    path.write_text(path.read_text().replace(old, new, 1))
    line = refused(capsys, path, tmp_path / "store")
    for word in [str(path), *words]:
        assert word in line


def test_no_such_file(capsys, tmp_path):
    """A missing file is named, with an example of one."""
    assert "no such file" in refused(capsys, tmp_path / "none.toml", tmp_path / "store")


def test_a_missing_key_is_reported_before_anything_runs(tmp_path):
    """A hosted model without its key: the variable is named, exit 2, no store, no request; the plan is still shown."""
    path = write_experiment(tmp_path / "real.toml", agents=[SONNET])
    done = called("run", path, "--store", tmp_path / "store")
    assert done.returncode == 2
    assert f"{path}: key 'agents.sonnet.model'" in done.stderr
    assert "ANTHROPIC_API_KEY" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "store").exists()


def test_everything_that_stops_a_run_is_told_at_once(capsys, tmp_path):
    """A key, a price and the sandbox: one refusal names them all, and the dry run shows its plan before it."""
    agents = [SONNET, {**LOCAL, "model": "unpriced"}]
    sandbox = 'kind = "process"\n'
    path = write_experiment(tmp_path / "a.toml", agents=agents, sandbox=sandbox, more="[budget]\nmax_cost_usd = 1.0")
    assert main(["run", str(path), "--dry-run"]) == 2
    shown = capsys.readouterr()
    assert "underspecified" in shown.out
    for word in ("ANTHROPIC_API_KEY", "agents.local.price", "sandbox.allow_unisolated"):
        assert word in shown.err


def test_a_real_model_may_not_work_without_a_sandbox(capsys, tmp_path):
    """Only the scripted models may run as plain processes, unless the file says that the machine may be harmed."""
    path = write_experiment(tmp_path / "unsafe.toml", agents=[LOCAL])
    path.write_text(path.read_text().replace('kind = "auto"', 'kind = "process"'))
    line = refused(capsys, path, tmp_path / "store")
    for word in (str(path), "sandbox.kind", 'use kind = "auto"', "allow_unisolated"):
        assert word in line


def test_a_benchmark_in_a_sandbox_that_it_cannot_use_is_refused(capsys, tmp_path):
    """Tasks that have images of their own need docker: said before anything runs, not trial by trial."""
    task = tmp_path / "tasks" / "a-task"
    task.mkdir(parents=True)
    (task / "task.md").write_text("Do it.")
    (task / "checkpoints.md").write_text("## Checkpoint 1 (1pt)\n\nIt is done.\n")
    (task / "dependencies.yml").write_text("[]")
    path = write_experiment(tmp_path / "tac.toml", conditions=["full"])
    text = path.read_text().replace('name = "desk"', 'name = "tac"\nfolder = "tasks"', 1)
    path.write_text("".join(line for line in text.splitlines(True) if not line.startswith("variants")))
    line = refused(capsys, path, tmp_path / "store")
    for word in (str(path), "sandbox.kind", "docker"):
        assert word in line


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("command", "name"),
    [
        (["run", "a.toml", "--concurrency", "0"], "--concurrency"),
        (["generate", "desk", "--store", "a", "--concurrency", "-1"], "--concurrency"),
        (["generate", "desk", "--store", "a", "--per-task", "0"], "--per-task"),
        (["select", "--store", "a", "--benchmark", "b", "--max", "0"], "--max"),
        (["retune", "a", "0"], "concurrency"),
    ],
)
def test_a_number_of_things_is_at_least_one(capsys, command, name):
    """0 is refused on the command line as it is in a file, whatever it would limit."""
    with pytest.raises(SystemExit) as stopped:
        main(command)
    assert stopped.value.code == 2
    assert re.search(f"{name}: '(0|-1)' is not a whole number of at least 1", capsys.readouterr().err)
