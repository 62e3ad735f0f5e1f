"""Trials of small programs, run as the command line runs them: an experiment file, a store, its events."""

import json
from pathlib import Path

from lhaw_record.recorder.events import TrialFinished, TrialStarted
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.runs.live_progress import Reporter
from lhaw_record.runners.runs.preparation import prepare
from lhaw_record.runners.runs.run import run_experiment

TINY_AGENT = Path(__file__).parents[3] / "support" / "tiny_agent.py"

ASKS = """
import json, os, sys, time, urllib.error, urllib.request
BASE_URL, TOKEN = sys.argv[1:3]
PROMPT = sys.stdin.read()
def function(name, argument):
    schema = {"type": "object", "properties": {argument: {"type": "string"}}, "required": [argument]}
    return {"type": "function", "function": {"name": name, "description": name, "parameters": schema}}
TOOLS = [function("bash", "command"), function("python", "code"), function("read_file", "path")]
def post(path, body, token=TOKEN):
    headers = {"content-type": "application/json", "authorization": "Bearer " + token}
    request = urllib.request.Request(BASE_URL + path, json.dumps(body).encode(), headers)
    return json.loads(urllib.request.urlopen(request, timeout=600).read())
def ask(*history, **more):
    body = {"model": "m", "messages": [{"role": "user", "content": PROMPT}, *history], "tools": TOOLS, **more}
    return post("/v1/chat/completions", body)["choices"][0]["message"]
def results(message, text="done"):
    return [message, *({"role": "tool", "tool_call_id": each["id"], "content": text} for each in message["tool_calls"])]
def work(turns):
    history = []
    for _ in range(turns):
        history += results(ask(*history))
    return history
"""
"""What the programs of these tests begin with: a way to ask the model over chat completions."""


def tiny(wire, **more):
    """The tiny agent over a wire, as an entry."""
    command = ["python3", str(TINY_AGENT), "--wire", wire, "--base-url", "{base_url}", "--mcp-config", "{mcp_config}"]
    entry = {
        "command": command,
        "environment": {"TINY_TOKEN": "{token}"},
        "mounts": [str(TINY_AGENT)],
        "wire": wire,
        "answer": "stdout",
        "asks_by": "mcp",
    }
    return {**entry, **more}


def scripted(folder, source, **more):
    """A program of a test's own, as an entry."""
    path = folder / "program.py"
    path.write_text(ASKS + source)
    return {"command": ["python3", str(path), "{base_url}", "{token}"], "mounts": [str(path)], **more}


def described(
    program,
    *,
    name="programs",
    conditions=("full",),
    variants=("log-triage/window",),
    sandbox="process",
    agent=None,
    limits=None,
    retry="",
    more="",
):
    """An experiment file with one program, or several by their names.

    There is no preflight: it would use up the first fault of a server that has some.
    """
    agents = program if isinstance(program, list) else [{"name": "program", "program": program, **(agent or {})}]
    tables = "".join("\n[[agents]]\n" + _lines({"model": "scripted/balanced", **each}, "agents") for each in agents)
    limits = {"max_seconds": 600.0, **(limits or {})}
    return (
        f'name = "{name}"\nconditions = {json.dumps(conditions)}\ntrials = 1\nconcurrency = 2\n'
        "preflight = false\n"
        f'\n[benchmark]\nname = "desk"\nvariants = {json.dumps(variants)}\n{tables}'
        f"\n[limits]\n{_lines(limits, 'limits')}\n[retry]\nmax_attempts = 1\n{retry}"
        f'\n[sandbox]\nkind = "{sandbox}"\nallow_unisolated = true\n{more}\n'
    )


async def recorded(folder, text):
    """Run an experiment file and return its summary and the events of each trial; the store must verify."""
    path = folder / "experiment.toml"
    path.write_text(text)
    summary = await run_experiment(prepare(path), folder / "store", Reporter())
    assert verify(folder / "store").findings == ()
    streams = {}
    for envelope in read_envelopes(folder / "store"):
        streams.setdefault(envelope.stream_id, []).append(envelope.event)
    return summary, [events for events in streams.values() if isinstance(events[0], TrialStarted)]


async def trial_of(folder, program, **more):
    """Run the only trial of a program and return its events."""
    _, trials = await recorded(folder, described(program, **more))
    (events,) = trials
    return events


def ended(events):
    """How a valid trial ended."""
    assert isinstance(events[-1], TrialFinished), events[-1]
    return events[-1].ended_by


def of(events, kind):
    """The events of one type."""
    return [event for event in events if isinstance(event, kind)]


def _lines(keys, _):
    return "".join(f"{key} = {toml(value)}\n" for key, value in keys.items())


def toml(value):
    """A value as TOML writes it inline."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {toml(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return json.dumps(value)
