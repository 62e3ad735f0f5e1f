"""Programs in an experiment file: found, versioned, fit for their arms, and noticed when they change."""

import subprocess

import msgspec
import pytest

from lhaw_record.recorder.events import RunStarted, TrialStarted
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.agents.programs.experiment_programs import check_programs
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.sandboxes.driver_program import conflicting_folder
from lhaw_record.runners.experiment.program import ProgramSpec
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.planning.plan import agent_digest
from lhaw_record.runners.runs.planning.plan_table import plan_columns, plan_rows
from lhaw_record.runners.runs.preparation import prepare, stored_index
from lhaw_record.runners.runs.run import run_experiment
from tests.runners.agents.programs.rigs import described, recorded, scripted, tiny
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task
from tests.support.toy_plan import ListedBenchmark


def sha256_of(path):
    """The first digits of a file's SHA-256, as sha256sum prints them."""
    return subprocess.run(["sha256sum", str(path)], capture_output=True, check=True, text=True).stdout[:12]


def prepared(folder, program, **more):
    """A planned experiment with one program."""
    path = folder / "experiment.toml"
    path.write_text(described(program, **more))
    return prepare(path)


def versioned(folder, version):
    """A program whose version command prints a file."""
    (folder / "version").write_text(f"\nprogram {version}\nmore\n")
    return scripted(folder, "ask()\n", version=["cat", str(folder / "version")], name="mine")


def test_the_plan_shows_the_program_and_its_version(tmp_path):
    """The first line that the version command prints is in the plan, beside the name, and which script it is."""
    planned = prepared(tmp_path, versioned(tmp_path, "1.2.3"))
    rows = plan_rows(planned.experiment, planned.plan, stored_index(planned, tmp_path / "store"))
    assert rows[0].program == f"mine program 1.2.3, program.py {sha256_of(tmp_path / 'program.py')}"
    assert plan_columns(rows)[:3] == ("agent", "model", "program")


def test_another_version_makes_other_trials_and_another_folder_does_not(tmp_path):
    """Trials of one version are never taken for those of another; what is not measured changes nothing."""
    first = prepared(tmp_path, versioned(tmp_path, "1"))
    same = versioned(tmp_path, "1")
    again = prepared(tmp_path, {**same, "mounts": [*same["mounts"], str(tmp_path)], "about": "mine", "threads": {}})
    other = prepared(tmp_path, versioned(tmp_path, "2"))
    counted = prepared(tmp_path, {**same, "threads": {"sub_agents": "counted"}})
    ids = [planned.plan.trials[0].trial_id for planned in (first, again, other, counted)]
    assert ids[0] == ids[1] != ids[2]
    assert ids[3] not in ids[:3]


@pytest.mark.thorough
def test_an_edited_script_in_a_mounted_folder_makes_other_trials(tmp_path):
    """Results of the old script are never taken for the new one's; other files of the folder change nothing."""
    script, other = tmp_path / "own" / "agent.py", tmp_path / "own" / "notes.txt"
    script.parent.mkdir()

    def planned(text, notes):
        script.write_text(text)
        other.write_text(notes)
        entry = {"command": ["python3", str(script)], "mounts": [str(script.parent)]}
        return prepared(tmp_path, entry).plan.trials[0].trial_id

    first = planned("ask()", "a")
    assert planned("ask()", "b") == first
    assert planned("ask(2)", "b") != first


def test_the_native_agent_is_what_it_was(tmp_path):
    """The digest of an agent without a program does not know that there are programs."""
    path = tmp_path / "experiment.toml"
    path.write_text(described([{"name": "native"}]))
    (agent,) = prepare(path).experiment.agents
    assert agent_digest(agent) == agent_digest(msgspec.structs.replace(agent, program=None))
    assert agent_digest(agent) != agent_digest(
        msgspec.structs.replace(agent, program=ProgramSpec(command=("a",), found_version=""))
    )


async def test_a_version_that_changed_since_the_plan_is_not_run(tmp_path):
    """Nothing is recorded under the identity of another version."""
    planned = prepared(tmp_path, versioned(tmp_path, "1"))
    versioned(tmp_path, "2")
    with pytest.raises(
        ExperimentError, match=r"was 'mine program 1, .*' when the trials were planned and is 'mine program 2, "
    ):
        await run_experiment(planned, tmp_path / "store", Reporter())
    assert not (tmp_path / "store").exists()


async def test_program_and_version_are_recorded(tmp_path):
    """With the trial its name and version, with the run the whole entry; neither has a port or a token."""
    await recorded(tmp_path, described(versioned(tmp_path, "1.2.3")))
    events = [envelope.event for envelope in read_envelopes(tmp_path / "store")]
    (trial,) = [event for event in events if isinstance(event, TrialStarted)]
    (run,) = [event for event in events if isinstance(event, RunStarted)]
    assert trial.program == f"mine program 1.2.3, program.py {sha256_of(tmp_path / 'program.py')}"
    (agent,) = msgspec.json.decode(run.config_json)["agents"]
    assert agent["program"]["found_version"] == "program 1.2.3"
    assert agent["program"]["command"][-2:] == ["{base_url}", "{token}"]


@pytest.mark.parametrize(
    ("program", "more", "said"),
    [
        ("no-such-agent", {}, "key 'agents[0].program': there is no ready-made program 'no-such-agent'; there are: "),
        ("mine.toml", {}, "mine.toml: no such file"),
        ({"command": ["a", "{x}"]}, {}, "agents[0].program, key 'command[1]': unknown placeholder {x}"),
        ({"command": ["a"], "comand": 1}, {}, "unknown key 'agents[0].program.comand'"),
        ({"command": ["/no/such/program"]}, {}, "there is no /no/such/program"),
        ({"command": ["a"], "mounts": ["/no/such"]}, {}, "there is no /no/such"),
        ({"command": ["a"], "version": ["/no/such/program"]}, {}, "does not print its version"),
        ({"command": ["a"], "version": ["false"]}, {}, "does not print its version"),
        ({"command": ["a"]}, {"conditions": ["full", "ask_user"]}, 'program cannot ask (asks_by = "none")'),
        (
            {"command": ["a"], "install": {"pip": ["a==1"]}},
            {},
            "name that file in 'program', and run: lhaw-record agents",
        ),
        ({"command": ["{bin}/a"]}, {}, "key 'command[0]': {bin} is the folder of installed packages"),
        ({"command": ["a"], "found_content": "x"}, {}, "key 'found_content': planning an experiment sets this key"),
    ],
)
def test_a_program_that_cannot_be_used_is_refused_before_anything_runs(tmp_path, program, more, said):
    """The message has the file, the key and the next step."""
    with pytest.raises(ExperimentError) as caught:
        prepared(tmp_path, program, **more)
    assert str(tmp_path) in str(caught.value)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("mount", "folder"),
    [
        ("/", "/workspace"),
        ("/home", "/home/agent"),
        ("/home/agent", "/home/agent"),
        ("/tmp", "/tmp"),
        ("/dev", "/dev"),
        ("/dev/null", "/dev"),
        ("/workspace/agents", "/workspace"),
        ("/tmp/agents", None),
        ("/dev/shm/agents", None),
        ("/home/agent/agents", None),
        ("/home/agents", None),
        ("/usr/local", None),
    ],
)
def test_what_a_sandbox_cannot_show_is_known(mount, folder):
    """A mount that would cover a folder of the sandbox's own, or lie in its work directory, is told from the others."""
    assert conflicting_folder(mount) == folder


def test_what_a_sandbox_cannot_show_is_refused_before_anything_runs(tmp_path):
    """The message names both folders and the next step; a plain process sees all of this machine anyway."""
    entry = {**tiny("chat"), "mounts": ["/tmp"]}
    assert prepared(tmp_path, entry).plan.trials
    path = tmp_path / "experiment.toml"
    path.write_text(described(entry).replace('kind = "process"', 'kind = "bubblewrap"'))
    with pytest.raises(ExperimentError, match="a sandbox has its own /tmp, so it cannot mount /tmp of this machine; "):
        prepare(path)


def test_an_entry_of_ones_own_is_found_beside_the_experiment_file(tmp_path):
    """The path of an entry starts in the folder of the experiment file; its name is that of the file."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "robot.toml").write_text('command = ["true"]\n')
    assert prepared(tmp_path, "own/robot.toml").experiment.agents[0].external.name == "robot"


def test_a_program_that_a_benchmark_cannot_have_is_refused(tmp_path):
    """Every benchmark takes programs, unless it says why not."""
    able, benchmark = prepared(tmp_path, tiny("chat")).experiment, ListedBenchmark()
    check_programs(able, benchmark)
    benchmark.why_no_programs = "a person does the work"
    with pytest.raises(ExperimentError, match="toy cannot run programs: a person does the work; remove 'program' from"):
        check_programs(able, benchmark)


def test_a_program_that_calls_no_mcp_is_refused_for_the_tasks_with_servers_alone(tmp_path):
    """Other tasks of the same folder are planned; the message names those that are not."""
    parts = {"environment__docker-compose.yaml": "services:\n  sums:\n    image: sums\n"}
    server = '[[environment.mcp_servers]]\nname = "sums"\ntransport = "streamable-http"\nurl = "http://sums:8000/mcp"\n'
    write_task(tmp_path / "tasks" / "plain")
    write_task(tmp_path / "tasks" / "served", config=CONFIG + server, **parts)
    path = tmp_path / "experiment.toml"

    def planned(program, tasks=""):
        text = described(program, sandbox="docker")
        chosen = 'name = "desk"\nvariants = ["log-triage/window"]'
        assert chosen in text
        path.write_text(text.replace(chosen, f"name = 'harbor'\nfolder = 'tasks'\n{tasks}"))
        return {each.task.task_id for each in prepare(path).plan.trials}

    deaf = tiny("chat", asks_by="none")
    assert planned(tiny("chat", asks_by="mcp")) == {"plain", "served"}
    assert planned(deaf, "tasks = ['plain']") == {"plain"}
    with pytest.raises(ExperimentError, match=r"in served, but program uses none .* or other tasks in"):
        planned(deaf)


async def test_a_program_does_not_run_without_isolation_unless_somebody_says_so(tmp_path):
    """It is software of others: a plain process can do whatever this user can."""
    path = tmp_path / "experiment.toml"
    path.write_text(described(tiny("chat")).replace("allow_unisolated = true", ""))
    with pytest.raises(
        ExperimentError, match=r"program python3 .* would run commands on this machine without isolation"
    ):
        await run_experiment(prepare(path), tmp_path / "store", Reporter())
