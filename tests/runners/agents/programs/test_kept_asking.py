"""What real programs send when they ask, in each medium: kept from their own runs, and played back to our real code.

A case has what a program of that version sent in a whole trial to its model, its MCP server and its ACP client. Its
own words are cut: system prompts, descriptions of tools, what it tells its model beside the task. Left out are ids of
the machine, streams that it only listens to, and what it tells its client to show, but for its texts.
"""

import contextlib
import json
from pathlib import Path

import anyio
import pytest

from lhaw_record.recorder.events import QuestionAnswered, QuestionAsked, TrialFlagged
from lhaw_record.runners.environments.benchmarks.new_benchmark import write_task
from tests.runners.agents.programs.rigs import of, recorded, toml
from tests.support.needs import needs

pytestmark = needs("bubblewrap")
PLAYER = Path(__file__).parents[3] / "support" / "replayed_program.py"
CASES = sorted(Path(__file__).with_name("asking").glob("*.jsonl"), key=lambda case: case.stem.split("-")[::-1])
WIRES = {"/v1/chat/completions": "chat", "/v1/responses": "responses", "/v1/messages": "messages"}
EXPERIMENT = """
name = "kept"
conditions = ["ask_user"]
trials = 1
preflight = false
retry = {{ max_attempts = 1 }}
[benchmark]
name = "harbor"
folder = "sort-guests"
without_docker = true
variants = ["sort-guests/age"]
{agents}
"""
AGENT = """
[[agents]]
name = "{name}"
model = "scripted/replay_masked"
program = {program}
"""


def played(case):
    """The entry of a program that plays a case."""
    head, *steps = map(json.loads, case.read_text().splitlines())
    calls = next(step["post"] for step in steps if step.get("post") in WIRES)
    command = ["python3", str(PLAYER), str(case), "{base_url}", "{token}"]
    entry = {"mounts": [str(PLAYER), str(case)], "wire": WIRES[calls], "asks_by": head["medium"]}
    if head["medium"] == "built_in":
        entry["built_in"] = {"tool": head["tool"]}
    if head["entry"].endswith("-acp"):
        return head, {**entry, "host": "acp", "command": [*command, "@PORT"], "acp": {"mode": head.get("mode", "")}}
    resume = {"resume": command} if head["medium"] == "prose" else {}
    asking = {"asking": {"command": ["{mcp_url}"]}} if head["medium"] == "mcp" else {}
    return head, {**entry, "command": command, **resume, **asking}


@pytest.fixture(scope="module")
def trials(request, tmp_path_factory):
    """The trials of all cases that are tried, in one experiment, by case."""
    folder, items = tmp_path_factory.mktemp("kept"), request.session.items
    cases = [item.callspec.params["case"] for item in items if item.path == request.path]
    agents = "".join(AGENT.format(name=case.stem, program=toml(played(case)[1])) for case in cases)
    with contextlib.chdir(folder):
        write_task("sort-guests", "debian", has_docker=False)
        _, found = anyio.run(recorded, folder, EXPERIMENT.format(agents=agents))
    return {events[0].agent: events for events in found}


@pytest.mark.sampled(5)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_what_a_program_sent_is_one_question_of_its_medium(trials, case):
    """The user's answer is the one that this program then told its model, and with it the task is solved."""
    (head, _), events = played(case), trials[case.stem]
    ((asked,), (answered,)) = of(events, QuestionAsked), of(events, QuestionAnswered)
    assert (asked.medium, asked.question, asked.action_index) == (head["medium"], "Which guests should I leave out?", 1)
    assert answered.response_state == "answered"
    assert answered.answer in case.read_text()
    assert (events[-1].ended_by, events[-1].is_success, events[-1].action_count) == ("submitted", True, 4)
    assert of(events, TrialFlagged) == []
