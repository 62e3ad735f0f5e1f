"""Every SQL file keeps its header's word: its inputs, its columns, its grain; and no view depends on row order."""

import json
import random
import re
from collections import Counter

import pytest

from lhaw_record.analytics.views.build_order import (
    LAYERS,
    all_views,
    empty_database,
    named_in,
    needed_for,
    sql_root,
    that_depend_on,
)
from lhaw_record.analytics.views.store import connect
from lhaw_record.recorder.events import (
    AnchorLost,
    ApprovalAnswered,
    EndingJudged,
    ExperimentCancelled,
    ExperimentPaused,
    ExperimentRequeued,
    ExperimentResumed,
    ExperimentRetuned,
    ExperimentSubmitted,
    InjectionReapplied,
    LookTaken,
    RunFinished,
    TrialFlagged,
)
from lhaw_record.recorder.events.judging import EndingVerdict
from tests.analytics.make_store import Store

KEYS = ("view", "grain", "inputs", "outputs", "equation", "source", "notes")
VIEWS = all_views()
SOURCES = {"events", "live_streams", "open_rows"}
GLOSSARY = {
    name: (sql_type, meaning)
    for name, sql_type, meaning in re.findall(
        r"^(\w+) (\S+): (.+)$", (sql_root() / "glossary.txt").read_text(encoding="utf-8"), re.MULTILINE
    )
}


def header_of(view):
    """The header as a dictionary, outputs as (name, type) pairs; a name alone is in the glossary."""
    lines = [line[2:] for line in view.query.splitlines() if line.startswith("--")]
    found = {}
    for line in lines:
        match = re.match(r" (\w+):(.*)", line)
        if match and match[1] in KEYS:
            key = match[1]
            found[key] = [match[2].strip()]
        else:
            found[key].append(line)
    outputs = []
    for line in found["outputs"]:
        if described := re.match(r"   (\w+) (\S+): (.+)", line):
            outputs.append((described[1], described[2]))
        elif re.fullmatch(r"   \w+(, \w+)*,?", line):
            outputs += ((name, GLOSSARY[name][0]) for name in line.strip().rstrip(",").split(", "))
    joined = {key: " ".join(part.strip() for part in parts) for key, parts in found.items()}
    return {**joined, "outputs": outputs}


def read_by(query):
    """The tables that a query names, as the database parses it, its own common table expressions left out."""
    with empty_database() as database:
        ((text,),) = database.execute("select json_serialize_sql(?)", [query]).fetchall()
    tree = json.loads(text)
    assert not tree["error"], tree["error_message"]
    nodes = list(_nodes(tree))
    tables = {node["table_name"] for node in nodes if node.get("type") == "BASE_TABLE"}
    return tables - {entry["key"] for node in nodes if "cte_map" in node for entry in node["cte_map"]["map"]}


def _nodes(tree):
    if isinstance(tree, dict):
        yield tree
    for value in tree.values() if isinstance(tree, dict) else tree if isinstance(tree, list) else ():
        yield from _nodes(value)


def busy_store():
    """A store in which every view has rows: all conditions, two agents, a failed attempt, a classifier."""
    store = Store(trials=3)
    store.agents["b"] = {"strategy": "react", "persona": "supervisor"}
    store.task("t", (1.0, 1.0))
    store.task("u", (1.0,))
    store.variant("t", "v", "goal input", ambiguity_class="outcome-critical", classified_by="authors")
    store.variant("u", "w", "constraint")
    store.variant("t", "c", "", origin="control")
    store.variant("t", "f", "input", fault="stale_information")
    for agent in ("a", "b"):
        for index in range(3):
            store.trial("c", "control", index, agent=agent, scores=(1, 1))
            store.trial("c", "control_ask_user", index, agent=agent, scores=(1, 1))
            store.trial("f", "faulty_ask_user", index, agent=agent, scores=(1, 0), actions=["ask_user S1", "submit"])
        for task_id, scores in (("t", (1, 1)), ("u", (1,))):
            for index in range(3):
                actions = ["read a", "read value 1", "submit"]
                store.trial(task_id, "full", index, agent=agent, scores=scores, actions=actions)
                store.trial(task_id, "full_ask_user", index, agent=agent, scores=scores)
            store.budget(task_id, (3, 3, 3), 3, agent=agent)
        for unit, scores in (("v", (1, 0)), ("w", (1,))):
            for index in range(3):
                store.trial(unit, "underspecified", index, agent=agent, scores=scores)
                store.trial(unit, "ask_user", index, agent=agent, scores=scores, actions=["ask_user S1", "submit"])
                asks = ["ask_user S1 >late:2", "read a", "submit"]
                store.trial(unit, "ask_user_late", index, agent=agent, scores=scores, actions=asks)
                for percent in (10, 30, 50, 70, 90):
                    actions = ["read a", "read a", "submit"]
                    place = max(1, 3 * percent // 100)
                    store.trial(
                        unit,
                        f"inject_{percent}",
                        index,
                        agent=agent,
                        scores=scores,
                        actions=actions,
                        budget=3,
                        injected_after=place,
                    )
    for index in range(3):
        store.trial("w", "underspecified", index, agent="c", role="classifier", scores=(0,))
    store.trial("v", "underspecified", 3, ends="failed")
    asked = store.streams["v", "ask_user", 0, "a"]
    store.judge_questions(asked, {"vague_questions": "yes"})
    store.judge_new_task("w", [store.streams["w", "underspecified", index, "c"] for index in range(3)], "rejected")
    store.regrade("v", asked, (1, 1))
    store.extract("t", "goal input", rejected="elsewhere")
    store.reject("t", "never", "value_remains")
    store.select("mine", {"w": "outcome-critical"}, wanted={"outcome-critical": 2}, excluded={"no_class": 1})
    store.review("v", "anna", "accepted")
    store.review("w", "anna", "rejected", "unnatural")
    task = next(iter(store.tasks))
    store.trial(task, "full", 0, agent="discarded", scores=(1.0,) * len(store.tasks[task].checkpoints))
    store.note([store.streams["t", "full", 0, "a"]], "anna", "read twice")
    store.discard([store.streams[task, "full", 0, "discarded"]])
    counts = dict.fromkeys(("trials_failed", "trials_blocked", "trials_left"), 0)
    store.add(store.run_id, RunFinished(run_id=store.run_id, outcome="completed", trials_finished=123, **counts))
    looked = {"look": 1, "looks": 4, "tasks": 2, "agent": "a", "measure": "pass_at_1", "p_value": 0.5}
    store.add("look-1", LookTaken(**looked, level=0.05, is_shown=False))
    for event in (*moved_behind_a_gateway(), *asked_of_the_daemon("e")):
        store.add("daemon-1", event)
    return store


def moved_behind_a_gateway():
    """A message whose place in the history was lost, and which was put in at the top, an approval and an ending."""
    lost = AnchorLost(model_call_id="c9", thread_id="main", anchor_call_id="c2", reason="summary")
    approved = ApprovalAnswered(title="rm", options=("allow_once",), answer="allow_once")
    flagged = TrialFlagged(flag="actions_uncounted", detail="4 more were served")
    judged = EndingJudged(action_index=1, asks="offer", verdicts=(EndingVerdict(judge="rules/1", asks="offer"),))
    return [lost, InjectionReapplied(model_call_id="c9", thread_id="main", place="top"), flagged, approved, judged]


def asked_of_the_daemon(experiment):
    """One request of every kind."""
    asked = {"experiment": experiment, "by": "someone"}
    return [
        ExperimentSubmitted(**asked, config_json="{}", config_digest="0", path="/e.toml"),
        ExperimentPaused(**asked),
        ExperimentResumed(**asked),
        ExperimentRetuned(**asked, concurrency=2),
        ExperimentRequeued(**asked, trial_ids=("t",)),
        ExperimentCancelled(**asked),
    ]


@pytest.mark.sampled(20)
@pytest.mark.parametrize("view", VIEWS, ids=[view.name for view in VIEWS])
def test_header_and_grain(view, connection):
    """The header names the file, what the query reads, the columns that come out, and a key without duplicates."""
    header = header_of(view)
    assert tuple(header) == KEYS
    assert header["view"] == view.name
    assert set(header["inputs"].split(", ")) == view.inputs == read_by(view.query)
    described = connection.execute(f"describe {view.name}").fetchall()
    columns = [(row[0], _shape(row[1])) for row in described]
    assert header["outputs"] == columns
    grain = header["grain"].split(", ")
    doubled = f"select {', '.join(grain)}, count(*) from {view.name} group by all having count(*) > 1"
    assert connection.execute(doubled).fetchall() == []
    assert header["source"]


def _shape(sql_type):
    """A type as headers write it: the fields of a struct are left to the text."""
    lowered = sql_type.lower()
    return lowered if not lowered.startswith("struct") else "struct[]" if lowered.endswith("[]") else "struct"


def test_every_view_has_rows_on_a_busy_store(connection):
    """No view is empty where everything happened; checks are empty where nothing is wrong."""
    for view in VIEWS:
        (count,) = connection.execute(f"select count(*) from {view.name}").fetchall()[0]
        broken_here = view.name == "budgets_count_full_trials"  # the store's budgets name no real trials
        # one shows a trial when asked for it, the other streams in which something is wrong
        is_silent = view.name in ("trajectory", "int_streams_unpaired")
        assert (count == 0) == (is_silent or (view.layer == "checks" and not broken_here)), view.name


@pytest.mark.thorough
def test_views_ignore_the_order_of_rows():
    """Shuffled events give the same rows in every view but those that show the event stream itself."""
    store = busy_store()
    shuffled = list(store.envelopes)
    random.Random(5).shuffle(shuffled)
    first, second = connect(store.snapshot()), connect(store.snapshot(shuffled))
    try:
        for view in VIEWS:
            query = f"select * from {view.name} order by all"
            assert first.execute(query).fetchall() == second.execute(query).fetchall(), view.name
    finally:
        first.close()
        second.close()


def test_what_a_parameter_may_change_is_computed():
    """A view depends on what it reads itself, by a macro, by a macro's macro, or in a view; on nothing else."""
    assert "kendall" in that_depend_on("kendall_cells")
    assert {"int_oracle_traces", "wasted"} <= that_depend_on("wasted_match")
    assert "overall" in that_depend_on("draws")
    assert not that_depend_on("wasted_match") & {"overall", "trials"}
    assert not that_depend_on("nothing")


def test_the_order_of_building_is_computed():
    """Every view comes after all that it reads, and reads only views and the sources."""
    seen = set(SOURCES)
    for view in VIEWS:
        assert view.inputs <= seen, view.name
        seen.add(view.name)


def test_layers_read_downwards():
    """Staging reads only events, an intermediate hardly a mart, and nothing a table or a check.

    The class of a variant decides whether tables use its trials; flags of questions are averaged per category; values
    of units are paired, or placed in dimensions, for several tables.
    """
    layer_of = {view.name: view.layer for view in VIEWS}
    for view in VIEWS:
        read = {layer_of.get(name, "source") for name in view.inputs}
        assert not read & {"tables", "checks"}, view.name
        if view.layer == "staging":
            assert read == {"source"}
        if view.layer == "intermediate":
            marts = {name for name in view.inputs if layer_of.get(name) == "marts"}
            assert marts <= {"ambiguity_classes", "question_flags", "unit_values"}, view.name


def test_the_glossary_has_what_several_headers_share():
    """Its names are in order, and two views or more leave each to it."""
    assert list(GLOSSARY) == sorted(GLOSSARY)
    lines = [line for view in VIEWS for line in view.query.splitlines() if re.fullmatch(r"--   \w+(, \w+)*,?", line)]
    left = Counter(name for line in lines for name in re.findall(r"\w+", line))
    assert left.keys() == GLOSSARY.keys()
    assert min(left.values()) > 1


def test_no_table_is_deep():
    """A number is few views away from the events: at most 9, staging and the table itself among them."""
    depths = {}
    for view in VIEWS:
        depths[view.name] = 1 + max((depths.get(name, 0) for name in view.inputs), default=0)
    assert max(depths[view.name] for view in VIEWS if view.layer == "tables") <= 9


def test_every_file_is_a_view():
    """Each file of a layer is one view of its name, and every file outside the layers is a macro."""
    files = {path.stem for layer in LAYERS for path in (sql_root() / layer).glob("*.sql")}
    assert files == {view.name for view in VIEWS}
    others = {path.parent.name for path in sql_root().rglob("*.sql")} - set(LAYERS)
    assert others == {"macros"}


def test_only_what_a_query_needs():
    """The views named in a query, and theirs, are enough for it; other statements need all."""
    assert named_in("select count(*) from trials") == {"trials"}
    assert "stg_trials_started" in needed_for({"trials"})
    assert named_in("describe trials") is None
    opened = connect(busy_store().snapshot(), only={"trials"})
    try:
        assert opened.execute("select count(*) from trials").fetchall() == [(142,)]
        assert opened.execute("select count(*) from duckdb_views() where view_name = 'voi'").fetchall() == [(0,)]
    finally:
        opened.close()
