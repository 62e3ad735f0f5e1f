"""Every ready-made entry with its real program: installed, run on two desk tasks, and held against the native agent.

``make test-agents`` runs this, entries side by side; ``make test-agents AGENTS=codex,opencode`` only those; ``make
test-all`` what is here.
A scripted model stands behind all of them, so that every agent has the same mind and the numbers must agree. With
``CONDITIONS=ask_user`` only what asks is run. ``make test-agents`` writes what it saw of asking into the docs.
"""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

import msgspec
import pytest

from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.runners.agents.programs.entries import entry_paths, load_entry, resolved
from lhaw_record.runners.agents.programs.installation import is_installed
from tests.agents.conftest import ASKED_FOR, CONDITIONS
from tests.conftest import IS_CI
from tests.support.needs import needs

pytestmark = pytest.mark.thorough
LHAW_RECORD = str(Path(sys.executable).with_name("lhaw-record"))
INSTALL_S, RUN_S = 1200, 1200
SIDE_BY_SIDE = 3
"""How many entries run at a time, each on two tasks: their programs wait as much as they work."""
ASKS = re.compile(r"ask_?user\w*|consult$|request_user_input|^(ask_?)?question$", re.IGNORECASE)
"""Names of tools to ask a user, ours and those of programs."""
QUESTIONS = {
    "log-triage/window": "Which period do you mean: from when to when, in UTC?",
    "meeting-planner/room-equipment": "Which equipment must the room have?",
}
"""What the model asks in each variant."""
WHOLE, OFFERED = QUESTIONS
"""All conditions are those of the first; the second is only asked about. One of the options of its question is true."""
PAGE = Path(__file__).parents[2] / "docs" / "external-agents.md"
MEDIA = ("mcp", "built_in", "prose")
EXPERIMENT = """
name = "real"
conditions = {conditions}
trials = 1
concurrency = 1

[benchmark]
name = "desk"
variants = ["{variant}"]

[[agents]]
name = "native"
model = "scripted/balanced"

[[agents]]
name = "{name}"
model = "scripted/balanced"
program = "{name}"
"""


OPTIONS_ALONE = {"kimi-code-acp"}
"""Entries whose own tool takes one of its options and no words."""


OVER_MCP = """
[[agents]]
name = "over-mcp"
model = "scripted/balanced"
program = "{name}"
asks_by = "mcp"
conditions = ["ask_user"]
"""
"""An arm of the same program under the same host that asks by our tool."""


IN_PROSE = """
[[agents]]
name = "in-prose"
model = "scripted/balanced"
program = "{name}"
asks_by = "prose"
conditions = ["ask_user"]
"""
"""An arm of the same program that asks by ending its turn."""


def _started():
    return [name for name in entry_paths() if not load_entry(name, Path()).leased]


def _asked_for():
    wanted = os.environ.get(ASKED_FOR)
    if wanted is None:
        installed = [name for name in _started() if is_installed(load_entry(name, Path()))]
        return installed or [pytest.param("none", marks=needs("agents"))]
    return _started() if wanted == "all" else wanted.split(",")


class Told(msgspec.Struct, frozen=True, kw_only=True):
    """What the store tells of one trial."""

    is_success: bool
    ended_by: str
    action_count: int
    program: str | None
    questions: tuple[tuple[str, int], ...]
    media: tuple[str, ...]
    answers: tuple[str, ...]
    given: tuple[tuple[str, ...], ...]
    injected_after: int | None
    target: int | None
    kinds: tuple[str, ...]
    flags: tuple[str, ...]
    asking_tools: tuple[str, ...]

    def asked(self):
        """What asking did."""
        return self.questions, self.given, self.is_success

    def comparable(self):
        """What does not depend on the agent, as long as its model is the same. An option may be the answer."""
        return msgspec.structs.replace(self, program=None, kinds=(), media=(), asking_tools=(), answers=())


@pytest.fixture(scope="session")
def tried(tmp_path_factory):
    """What is becoming of every entry: its name to its spec and its trials."""
    names, is_alone = [name for name in _asked_for() if isinstance(name, str)], Lock()
    with ThreadPoolExecutor(SIDE_BY_SIDE) as pool:
        yield {name: pool.submit(_try, name, tmp_path_factory.mktemp(name), is_alone) for name in names}
        pool.shutdown(cancel_futures=True)


@pytest.fixture(scope="module", params=_asked_for())
def entry(request, tried):
    """An installed entry."""
    return request.param, tried[request.param].result()[0]


@pytest.fixture(params=[WHOLE] if IS_CI else QUESTIONS)
def variant(request):
    """A variant of a desk task."""
    return request.param


@pytest.fixture(scope="module")
def all_trials(entry, tried):
    """The trials of the entry and of the native agent, by task, agent and condition."""
    return tried[entry[0]].result()[1]


def _try(name, folder, is_alone):
    """Install an entry and run it, and return its spec and its trials."""
    with is_alone:  # two entries may share an installation
        command = [LHAW_RECORD, "agents", "install", name]
        done = subprocess.run(command, timeout=INSTALL_S, check=False, stderr=subprocess.PIPE, text=True)
        if "on PATH works" in done.stderr:  # the Python that it needs is not here
            pytest.skip(done.stderr.strip())
        assert done.returncode == 0, done.stderr
    spec = resolved(name, Path())
    asks = [each for each in CONDITIONS if each == "ask_user" and spec.asks_by != "none"]
    wanted = {WHOLE: [each for each in CONDITIONS if each != "ask_user"] + asks, OFFERED: [] if IS_CI else asks}
    begun = [
        _begun(folder / variant.partition("/")[0], name, spec, variant, conditions)
        for variant, conditions in wanted.items()
        if conditions
    ]
    told = {}
    for store, run in begun:
        said, _ = run.communicate(timeout=RUN_S)
        assert run.returncode == 0, said[-6000:]
        told |= _read(store)
    if os.environ.get(ASKED_FOR) and asks:
        with is_alone:
            _write_row(name, spec, told)
    return spec, told


def _begun(folder, name, spec, variant, conditions):
    """Start a run of the entry on a variant, and return its store and its process."""
    text = EXPERIMENT.format(conditions=json.dumps(conditions), variant=variant, name=name)
    if "ask_user" in conditions:
        text += OVER_MCP.format(name=name) * (spec.host == "acp") + IN_PROSE.format(name=name) * spec.goes_on
    folder.mkdir()
    (folder / "experiment.toml").write_text(text, encoding="utf-8")
    command = [LHAW_RECORD, "run", str(folder / "experiment.toml"), "--store", str(folder / "store")]
    run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return folder / "store", run


def _write_row(name, spec, told):
    """Write into the docs in how many tasks the entry asked, was answered and succeeded as the native agent did."""
    found = ((spec.asks_by, name), ("mcp", "over-mcp"), ("prose", "in-prose"))
    arms = {medium: agent for medium, agent in found if any(agent == other for _, other, _ in told)}
    cells = [f"`{name}`", f"{datetime.now(UTC):%Y-%m-%d}", spec.found_version]
    for medium in MEDIA:
        tasks = [(task, arms[medium]) for task, agent, _ in told if agent == "native" and medium in arms]
        seen = [(told[task, arm, "ask_user"], told[task, "native", "ask_user"]) for task, arm in sorted(set(tasks))]
        cells.append(f"{sum(one.asked() == other.asked() for one, other in seen)} of {len(seen)}" if seen else "")
    before, head, rest = PAGE.read_text(encoding="utf-8").partition("| entry | tried |")
    lines = (head + rest).split("\n")
    end = lines.index("", 1)
    rows = {line.split("|")[1].strip(): line for line in lines[2:end]} | {cells[0]: f"| {' | '.join(cells)} |"}
    PAGE.write_text(before + "\n".join([*lines[:2], *(rows[key] for key in sorted(rows)), *lines[end:]]), "utf-8")


@pytest.fixture
def trials(all_trials):
    """Those of the task with all conditions, by agent and condition."""
    return _of_task(all_trials, WHOLE)


@pytest.fixture
def asking(all_trials, variant):
    """Those of a variant under ask_user, by agent."""
    found = _of_task(all_trials, variant)
    return {agent: told for (agent, condition), told in found.items() if condition == "ask_user"}


def _of_task(told, variant):
    wanted = variant.partition("/")[0]
    return {(agent, condition): each for (task, agent, condition), each in told.items() if task == wanted}


def _read(store):
    views = {"trials", "questions", "stg_models_called", "stg_trials_flagged"}
    database = connect(read_snapshot(store), only=views)
    found = database.sql(
        "select task_id, agent_name, condition, trial_id, stream_id, is_success, ended_by, action_count, program,"
        " injected_after_action, inject_after_action from trials"
    ).fetchall()
    told = {}
    for task, agent, condition, trial_id, stream_id, is_success, ended_by, actions, program, after, target in found:
        asked = database.execute(
            "select question, action_index, answer, medium,"
            " coalesce(list_sort(requested_segment_ids || volunteered_segment_ids), [])"
            " from questions where trial_id = ? and is_counted"
            " order by question_number",
            [trial_id],
        ).fetchall()
        kinds = database.execute(
            "select distinct call_kind from stg_models_called where stream_id = ? order by all", [stream_id]
        ).fetchall()
        flags = database.execute("select flag from stg_trials_flagged where stream_id = ?", [stream_id]).fetchall()
        told[task, agent, condition] = Told(
            is_success=is_success,
            ended_by=ended_by,
            action_count=actions,
            program=program,
            questions=tuple((question, action) for question, action, *_ in asked),
            answers=tuple(answer for _, _, answer, *_ in asked),
            media=tuple(medium for *_, medium, _ in asked),
            given=tuple(tuple(given) for *_, given in asked),
            injected_after=after,
            target=target,
            kinds=tuple(kind for (kind,) in kinds),
            flags=tuple(flag for (flag,) in flags),
            asking_tools=_asking_tools(database, stream_id),
        )
    return told


def _asking_tools(database, stream_id):
    """The tools to ask a user that any model call was offered, without the prefixes that clients give them."""
    listed = database.execute(
        "select distinct tools_json from stg_models_called where stream_id = ? and role = 'agent'", [stream_id]
    ).fetchall()
    names = {name for (text,) in listed for name in re.findall(r'"name": ?"([^"]+)"', text or "")}
    return tuple(sorted({match[0] for name in names if (match := ASKS.search(name))}))


@pytest.mark.condition("full")
def test_the_full_task_is_solved_in_as_many_actions(entry, trials):
    """The same model solves the task in this program as in our agent, and its actions are counted alike."""
    theirs, ours = trials[entry[0], "full"], trials["native", "full"]
    assert theirs.is_success
    assert theirs.comparable() == ours.comparable()


def test_the_version_is_on_record(entry, trials):
    """Whoever reads the store can tell which program, of which version, the agent was."""
    assert entry[1].found_version
    assert {told.program for (agent, _), told in trials.items() if agent == "native"} == {None}
    assert {told.program for (agent, _), told in trials.items() if agent != "native"} == {entry[1].title}


@pytest.mark.condition("inject_50")
def test_the_message_goes_in_after_the_same_action(entry, trials):
    """The injection reaches the model of a program that does not know, at the same action, with the same effect."""
    theirs, ours = trials[entry[0], "inject_50"], trials["native", "inject_50"]
    assert ours.target is not None
    assert theirs.injected_after == ours.injected_after == ours.target
    assert theirs.comparable() == ours.comparable()


@pytest.mark.condition("ask_user")
def test_the_question_is_asked_and_answered(entry, asking, variant):
    """Where the program can ask, it asks the same question as the same action and uses the answer."""
    if entry[1].asks_by == "none":
        pytest.skip("its entry says that it cannot ask")
    theirs, ours = asking[entry[0]], asking["native"]
    assert [question for question, _ in theirs.questions] == [QUESTIONS[variant]]
    assert theirs.media == (entry[1].asks_by,)
    if entry[0] in OPTIONS_ALONE and variant != OFFERED:
        assert theirs.answers == (None,)
        return
    assert theirs.is_success
    assert theirs.comparable() == ours.comparable()


@pytest.mark.condition("ask_user")
def test_the_medium_changes_nothing_else(entry, asking, variant):
    """Under a host for both, the same model asks by our tool as by its own: equal questions, answers and success."""
    if entry[1].host != "acp":
        pytest.skip("its entry has one medium")
    own, ours = asking[entry[0]], asking["over-mcp"]
    assert ours.media == ("mcp",)
    if entry[0] in OPTIONS_ALONE and variant != OFFERED:
        own = asking["native"]
    assert own.comparable() == ours.comparable()
    assert variant == OFFERED or own.answers == ours.answers


@pytest.mark.condition("ask_user")
def test_prose_changes_nothing_else(entry, asking):
    """The same model asks by ending its turn as by a tool, and the session goes on with the answer."""
    if not entry[1].goes_on:
        pytest.skip("its entry says no way to go on with a session")
    ours, prose = asking["native"], asking["in-prose"]
    assert prose.media == ("prose",)
    assert ours.comparable() == prose.comparable()
    assert ours.answers == prose.answers


def test_no_arm_offers_a_way_to_ask_that_nobody_answers(all_trials):
    """The program's own tools to ask are off, also where it may not ask."""
    assert {key: told.flags for key, told in all_trials.items()} == dict.fromkeys(all_trials, ())


def test_the_tools_to_ask_are_those_of_the_arm(entry, all_trials):
    """The model of an arm that asks by a tool is offered that one, and no other arm's model is offered any."""
    name, spec = entry
    over_mcp = spec.ask_user_tool or "ask_user"
    own = {"mcp": over_mcp, "built_in": spec.built_in.tool}.get(spec.asks_by)
    ways = {name: own, "over-mcp": over_mcp, "in-prose": None}
    for (task, agent, condition), told in all_trials.items():
        if agent in ways:
            asks = condition == "ask_user" and ways[agent] is not None
            assert told.asking_tools == ((ways[agent],) if asks else ()), (task, agent, condition)


def test_no_call_is_of_a_sub_agent(all_trials):
    """A run of one thread is recorded as one: titles are side calls, nothing is taken for a retry or a sub-agent."""
    assert all(set(told.kinds) <= {"main", "side"} for told in all_trials.values())
