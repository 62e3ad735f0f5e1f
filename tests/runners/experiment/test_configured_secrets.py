"""What somebody configures for a program is never recorded but by name, and hidden where the program repeats it."""

import json

import msgspec
import pytest

from lhaw_record.recorder.events import ExperimentSubmitted
from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.runners.experiment.program import AskingSpec, ProgramSpec
from lhaw_record.runners.experiment.tables import NOT_RECORDED, AgentSpec, Experiment
from lhaw_record.runners.models.failures import to_model_error
from lhaw_record.runners.runs.daemon.messages import DaemonRefusal
from lhaw_record.runners.runs.daemon.orders import _check_secrets
from lhaw_record.runners.runs.preparation import keys_of
from tests.support.toy_plan import experiment

VALUE, ASKED = "s3cr3t-of-the-tool-A1", "An0therSecretValue99x"
PROGRAM = ProgramSpec(
    command=("python3", "agent.py"),
    environment={"TOOL_PASSWORD": VALUE, "MODE": "fast", "BASE": "{base_url}/", "EMPTY": ""},
    asking=AskingSpec(environment={"ASK": ASKED}),
)


@pytest.fixture
def with_program():
    """An experiment whose agent is that program."""
    return experiment(agents=(AgentSpec(name="a", model="scripted/balanced", program=PROGRAM),))


def test_the_recorded_file_has_names_only(with_program):
    """Names stay, and what is only a placeholder; the values of both arms are left out, whatever they look like."""
    recorded = with_program.config_json()
    for value in (VALUE, ASKED, "fast"):
        assert value not in recorded
    program = json.loads(recorded)["agents"][0]["program"]
    assert program["environment"] == {
        "TOOL_PASSWORD": NOT_RECORDED,
        "MODE": NOT_RECORDED,
        "BASE": "{base_url}/",
        "EMPTY": "",
    }
    assert program["asking"]["environment"] == {"ASK": NOT_RECORDED}
    assert msgspec.json.decode(recorded, type=Experiment).agents[0].program is not None


def test_its_secrets_are_hidden_wherever_they_occur(with_program):
    """By their names or by their looks; a word such as a mode stays readable."""
    assert keys_of(with_program) == {VALUE, ASKED}


def test_the_daemon_takes_no_file_that_it_could_not_run_again(with_program):
    """It runs what is recorded: a file with an environment of its own is refused, with the way to do it."""
    config = with_program.config_json()
    event = ExperimentSubmitted(
        experiment="toy", config_json=config, config_digest=digest(config), path="/x/toy.toml", by="a test"
    )
    with pytest.raises(DaemonRefusal, match="entry file"):
        _check_secrets(event, with_program)


def test_a_provider_that_repeats_a_key_is_not_repeated():
    """An error that quotes the key, or any other credential, reaches neither the terminal nor the store with it."""
    key = "sk-proj-" + "A1b2C3d4" * 6
    error = to_model_error(Exception(f"401: Incorrect API key provided: {key}; see hf_{'aB3' * 12}"), model="m")
    assert "[redacted]" in str(error)
    assert key not in str(error)
    assert "aB3aB3" not in str(error)
