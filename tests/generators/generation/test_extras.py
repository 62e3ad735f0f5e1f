"""``generate`` with decoys, controls, environments and many segments, and trials of what it made."""

import json
from collections import Counter

import pytest

from lhaw_record.analytics.exports import dataset_rows
from lhaw_record.command_line import main
from lhaw_record.generators.generation.variant_plan import benign_segments
from lhaw_record.recorder.events import VariantGenerated
from lhaw_record.recorder.events.values import Segment
from lhaw_record.recorder.reading.reader import read_envelopes
from tests.cli.program import called

pytestmark = pytest.mark.thorough

RUN = """
name = "trials"
conditions = ["full", "underspecified", "control", "control_ask_user"]
trials = 1

[benchmark]
name = "desk"
variants_from = {{ store = "{store}", experiment = "desk-variants" }}

[[agents]]
name = "over_clarifier"
model = "scripted/over_clarifier"
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """A store with variants of one task, made twice: the second time nothing is left to make."""
    folder = tmp_path_factory.mktemp("beyond")
    command = ["generate", "desk", "--store", folder / "s", "--task", "expense-audit", "--segments", "3,4"]
    command += ["--per-task", "4", "--severity", "delete", "--severity", "decoy", "--controls", "--environment"]
    for _ in range(2):
        done = called(*command)
        assert done.returncode == 0, done.stderr
    (folder / "run.toml").write_text(RUN.format(store=folder / "s"), encoding="utf-8")
    done = called("run", folder / "run.toml", "--store", folder / "s")
    assert done.returncode == 0, done.stderr
    return folder / "s"


def made(store):
    """The variants of a store by id, as generation registered them."""
    events = [each.event for each in read_envelopes(store) if each.experiment_id == "desk-variants"]
    return {each.variant.variant_id: each for each in events if isinstance(each, VariantGenerated)}


def table(store, name, capsys):
    """The rows of a table."""
    assert main(["tables", str(store), name, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)[name]["rows"]


def test_each_kind_is_made_once(store):
    """Three and four segments deleted and replaced, the prompt as it is, and two other workspaces."""
    variants = [each.variant for each in made(store).values()]
    kinds = {(each.origin, each.severity, len(each.segments)) for each in variants}
    assert {
        ("generated", "delete", 3),
        ("generated", "delete", 4),
        ("generated", "decoy", 3),
        ("generated", "decoy", 4),
        ("generated", "environment", 1),
        ("control", None, 0),
        ("control", "delete", 1),
    } == kinds
    unmodified = [each for each in variants if each.is_control and not each.segments]
    assert len(unmodified) == 1
    assert all(segment.decoy for each in variants if each.severity == "decoy" for segment in each.segments)


def test_a_control_takes_what_nobody_needs(store):
    """Every segment of a benign removal has criticality 0 or guessability 1."""
    removed = [s for each in made(store).values() if each.variant.is_control for s in each.variant.segments]
    assert removed
    assert benign_segments(removed) == removed
    needed = Segment(segment_id="S", value="v", dimension="goal", subdimension="x", criticality=1.0, guessability=0.5)
    assert benign_segments([needed]) == []


def test_tables_show_many_hidden_facts(store, capsys):
    """by_segments_removed has rows for three and four segments."""
    rows = table(store, "by_segments_removed", capsys)
    assert {row["segments_removed"] for row in rows} >= {0, 1, 3, 4}


def test_tables_keep_the_kinds_apart(store, capsys):
    """by_severity has decoys and environments beside deletions; controls stand in their own table only."""
    rows = table(store, "by_severity", capsys)
    assert {row["severity"] for row in rows} == {"delete", "decoy", "environment"}
    candidates = {
        row["severity"]: row["value"]
        for row in rows
        if row["measure"] == "candidates" and row["ambiguity_class"] == "all"
    }
    generated = [each.variant for each in made(store).values() if not each.variant.is_control]
    assert candidates == dict(Counter(each.severity for each in generated))
    rows = table(store, "controls", capsys)
    assert {row["control_kind"] for row in rows} == {"all", "unmodified", "benign-removal"}
    assert {row["condition"] for row in rows} == {"control", "control_ask_user"}


def test_the_changes_are_shown(store, capsys):
    """``variants show`` prints decoys, what a workspace becomes, and controls."""
    assert main(["variants", "show", str(store), "expense-audit"]) == 0
    shown = capsys.readouterr().out
    for mark in ("[decoy] expense-audit/decoy-", "[environment]", "workspace: two_candidates file = ", "[control]"):
        assert mark in shown


def test_other_benchmarks_have_no_workspace_to_change(tmp_path, capsys):
    """--environment is refused for tasks of one's own, with the reason."""
    own = tmp_path / "own.jsonl"
    own.write_text('{"task_id": "a", "prompt": "Read orders.csv and add up 20 rows."}\n', encoding="utf-8")
    arguments = ["generate", "own", "--from", str(own), "--store", str(tmp_path / "s"), "--environment"]
    assert main(arguments) != 0
    assert "--environment" in capsys.readouterr().err


def test_changed_workspaces_are_no_rows_of_the_dataset(store):
    """The published format holds prompts only, so the export says how many variants it leaves out."""
    left_out = dataset_rows(store).left_out
    assert "2 variants that change the environment: the format has prompts only" in left_out
