"""The README's section on real models with a real one: a kill, simulated user, claims judge and gateway.

The model is tiny: it decides and replies as it can. So nothing here asserts that it solves anything.
"""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import TrialFinished
from lhaw_record.recorder.reading.reader import read_envelopes, read_snapshot
from lhaw_record.runners.base.errors import NothingUsable
from lhaw_record.runners.environments.benchmarks.mcp_atlas.judge import VERDICT_FORM, ClaimJudge
from lhaw_record.runners.models.calls import ModelCaller
from lhaw_record.runners.models.litellm_library import close_clients
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.llm_jobs.question import ask
from tests.support.canned_model import MemoryRecording
from tests.support.needs import needs

pytestmark = [pytest.mark.thorough, needs("llm")]
LHAW_RECORD = str(Path(sys.executable).with_name("lhaw-record"))
README = Path(__file__).parents[2] / "README.md"
RUN_S = 3600
FREE = "price = { input_usd_per_million_tokens = 0.0, output_usd_per_million_tokens = 0.0 }"
# The model hardly calls tools by itself: the bias makes it begin calls, of which it chooses tool and arguments.
CALLS = 'parameters = { max_tokens = 48, tool_choice = "required", logit_bias = [["<tool_call>", 4]] }'
CLAIMS = ("The total is 412 EUR.", "The report names Ada.", "The meeting is on Tuesday.", "The file has 12 rows.")
ANSWER = "I used the ledger of the third quarter. The total is 412 EUR over 12 rows. The meeting is on Wednesday."
PROGRAM = """
import json, os, urllib.request
message = dict(role='user', content=os.environ['TASK'][:300])
body = json.dumps(dict(model='m', stream=True, messages=[message])).encode()
headers = dict([('authorization', 'Bearer ' + os.environ['KEY']), ('content-type', 'application/json')])
request = urllib.request.Request(os.environ['BASE'] + '/v1/chat/completions', body, headers)
print(sum(line.startswith(b'data: ') for line in urllib.request.urlopen(request, timeout=900)))
"""


def run(*arguments, may_fail=False):
    """Run our command line, and return what it printed."""
    command = [LHAW_RECORD, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S, check=False)
    assert done.returncode == 0 or (may_fail and done.returncode == 1), done.stderr[-2000:]
    return done.stdout + done.stderr


def model(api_base, parameters):
    """The keys of an experiment file that name the model."""
    return f'model = "smollm2"\napi_base = "{api_base}"\n{FREE}\n{parameters}\n'


def experiment(name, conditions, agent, more=""):
    """An experiment file about one variant."""
    return (
        f'name = "{name}"\nconditions = ["{conditions}"]\ntrials = 1\n'
        f'[benchmark]\nname = "desk"\nvariants = ["log-triage/window"]\n{more}\n[[agents]]\nname = "{name}"\n{agent}'
    )


def simulated_user(api_base, max_tokens):
    """The tables of a simulated user that is the model."""
    parameters = f"parameters = {{ max_tokens = {max_tokens} }}"
    return f'[user_simulator]\nkind = "llm"\n[user_simulator.llm]\n{model(api_base, parameters)}'


def experiment_of_readme(api_base):
    """The first experiment of the README's section, cut to one variant and short replies, with the model behind it."""
    section = README.read_text(encoding="utf-8").partition("## With a real model")[2]
    text = re.search(r"```toml\n(.*?)```", section, re.DOTALL)[1]
    text = text.replace('model = "anthropic/claude-sonnet-5-5"\n', model(api_base, CALLS))
    text = re.sub(r"variants = \[.*\]", 'variants = ["log-triage/window"]', text)
    text = text.replace("trials = 3", "trials = 1").replace("concurrency = 8", "concurrency = 2")
    text = text.replace('"inject_90"]', '"inject_90", "full_ask_user"]')
    return f"{text}\n[limits]\nmax_turns = 2\n\n{simulated_user(api_base, 128)}"


def finished_trials(store):
    """The ids of the trials that have finished, once each time."""
    return [envelope.trial_id for envelope in read_envelopes(store) if isinstance(envelope.event, TrialFinished)]


def test_the_section_of_the_readme_with_a_kill_in_the_middle(api_base, tmp_path):
    """Plan, run, SIGKILL, resume, tables and show: nothing is lost, and no trial runs twice."""
    file, store = tmp_path / "claude.toml", tmp_path / "store"
    file.write_text(experiment_of_readme(api_base))
    assert "full_ask_user" in run("run", file, "--store", store, "--dry-run")
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [LHAW_RECORD, "run", str(file), "--store", str(store)]
    with subprocess.Popen(command, **quiet, start_new_session=True) as first:
        end_s = time.monotonic() + RUN_S
        while not (store.exists() and finished_trials(store)) and first.poll() is None:
            assert time.monotonic() < end_s, "no trial finishes"
            time.sleep(1)
        os.killpg(first.pid, signal.SIGKILL)
    before = finished_trials(store)
    run("run", file, "--store", store, may_fail=True)  # a tiny user may fail a trial: it is missing data
    run("log", "verify", store)
    after = finished_trials(store)
    assert set(before) <= set(after)
    assert len(after) == len(set(after))
    connection = connect(read_snapshot(store))
    states = connection.sql("select trial_state, count(*) from trials group by trial_state").fetchall()
    assert sum(count for _, count in states) == 7
    assert dict(states)["valid"] >= 5, "only trials with the simulated user may fail"
    for tables in (("tables", store), ("tables", store, "voi", "--set", "voi_cases=available")):
        assert "desk" in run(*tables)
    ((stream,),) = connection.sql("select stream_id from trials where condition = 'full'").fetchall()
    assert "log" in run("show", store, stream[:12])


async def test_the_claims_judge_gives_verdicts_only_with_the_schema(api_base):
    """In text this model gives fewer than one for each claim; with the schema it gives them all."""
    verdicts = {"text": 0, "schema": 0}
    served = LitellmModel("smollm2", api_base=api_base)
    for form, chosen in (("text", {"response_format": {"type": "text"}}), ("schema", {})):
        parameters = {"temperature": 0, "max_tokens": 120, **chosen}
        judge = ClaimJudge(None, "smollm2", parameters)
        for claim in CLAIMS:
            caller = ModelCaller(
                model=served, recording=MemoryRecording(), role="judge", thread_id="judge", parameters=parameters
            )
            try:
                await ask(caller, judge, judge.user(claim, ANSWER), judge.read, wanted="verdict", form=VERDICT_FORM)
            except NothingUsable:
                continue
            verdicts[form] += 1
    await close_clients()
    assert verdicts["schema"] == len(CLAIMS) > verdicts["text"]


def test_a_program_streams_through_the_gateway(api_base, tmp_path):
    """A program of the user's own gets the reply in pieces, and its usage is recorded."""
    file, store = tmp_path / "program.toml", tmp_path / "store"
    entry = (
        f"[agents.program]\ncommand = ['python3', '-c', '''{PROGRAM}''']\nanswer = \"stdout\"\nwire = \"chat\"\n"
        '[agents.program.environment]\nTASK = "{prompt}"\nKEY = "{token}"\nBASE = "{base_url}"\n'
    ).replace("'''", '"""')
    file.write_text(experiment("own", "full", model(api_base, "parameters = { max_tokens = 48 }") + entry))
    run("run", file, "--store", store)
    (finished,) = (each.event for each in read_envelopes(store) if isinstance(each.event, TrialFinished))
    assert int(finished.final_answer) > 3
    ((tokens,),) = (
        connect(read_snapshot(store)).sql("select output_tokens from costs where purpose = 'agent'").fetchall()
    )
    assert tokens > 0
