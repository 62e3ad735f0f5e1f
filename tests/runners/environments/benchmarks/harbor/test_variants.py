"""Variants beside a task, the template of ``new-task``, and variants generated from folders."""

import csv
import io

import pytest

from lhaw_record.command_line import main
from lhaw_record.generators.sources.published import HarborSource
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition
from lhaw_record.runners.environments.benchmarks.harbor import open_harbor
from lhaw_record.runners.experiment.tables import GraderSpec
from lhaw_record.runners.models.protocol import ModelRequest
from lhaw_record.runners.models.replay import MaskedReplayModel, ReferenceParameter
from tests.runners.environments.benchmarks.harbor.folders import write_task
from tests.runners.environments.sandboxes.docker_fixtures import engine, needs_engine  # noqa: F401  a fixture
from tests.support.docker import BASE_IMAGE
from tests.support.needs import needs

VARIANT = """
[[variants]]
name = "word"
severity = "delete"
prompt = "Write a word into hello.txt."
[[variants.segments]]
value = "the word hello"
dimension = "input"
subdimension = "content"
expected_questions = ["Which word should I write?"]
synonyms = ["word to write"]
written = "hello"
guesses = ["bye"]
"""
NOWHERE = 'replacements = [{ text = "nowhere", by = "x" }]'
BROKEN = [
    (VARIANT.replace("the word hello", "the word bye"), "'the word bye' is not in instruction.md"),
    (VARIANT.replace("Write a word", "Write the word hello"), "its prompt still has the value"),
    (VARIANT.replace('severity = "delete"', 'severity = "environment"'), "severity 'environment' is not one of"),
    (
        VARIANT + VARIANT.replace('name = "word"', 'name = "again"').replace("bye", "hi"),
        "two segments with the value 'the word hello' differ in",
    ),
    (VARIANT.replace("written", "spelt"), "unknown key 'variants[0].segments[0].spelt'"),
    (VARIANT.replace("written", 'checkpoint_refs = ["c9"]\nwritten'), "the task's checkpoints are reward"),
    (VARIANT.replace('written = "hello"', 'written = "hullo"'), "written = 'hullo' is in no file of solution/"),
    (VARIANT.replace("written", 'revealed_after = "S9"\nwritten'), "revealed_after has 'S9'"),
    (VARIANT.replace('severity = "delete"', 'severity = "delete"\nfollow_up = "Now."'), "which a task of files cannot"),
    (VARIANT.replace('severity = "delete"', 'severity = "delete"\narguments = { a = "b" }'), "a task of files cannot"),
    (
        VARIANT.replace('severity = "delete"', 'severity = "delete"\nreplacements = [{ text = "nowhere", by = "x" }]'),
        "is 0 times",
    ),
    (VARIANT + '[[segments]]\nvalue = "hello"\n', "unknown key 'segments'"),
    (VARIANT + VARIANT, "two variants have this name"),
]


def test_variants_stand_beside_the_task(tmp_path):
    """Their values are parameters of the solution, so that scripted models can do without them."""
    write_task(tmp_path / "hello", **{"variants.toml": VARIANT})
    benchmark = open_harbor({"folder": "."}, tmp_path, GraderSpec())
    (variant,) = benchmark.variants()
    assert (variant.variant_id, variant.severity) == ("hello/word", "delete")
    assert benchmark.reference("hello").parameters == (
        ReferenceParameter(
            name="p1",
            value="the word hello",
            written="hello",
            question="Which word should I write?",
            guesses=("bye",),
        ),
    )


@pytest.mark.parametrize("late", [1, 2])
async def test_a_late_message_makes_a_replay_run_the_solution_that_it_mends(tmp_path, late):
    """Told when the script is written, or has run, it writes the script again and runs it after that, once."""
    write_task(tmp_path / "hello", **{"variants.toml": VARIANT})
    reference = open_harbor({"folder": "."}, tmp_path, GraderSpec()).reference("hello")
    model = MaskedReplayModel("m", 0, reference, ("the word hello",))
    tools = (ToolDefinition(name="submit", description="", input_schema={}),)
    messages = [Message(role="user", content="Write a word.")]
    made = []
    while not made or made[-1].name != "submit":
        if len(made) == late:
            messages.append(Message(role="user", content="It is the word hello."))
        reply = (await model.respond(ModelRequest(messages=tuple(messages), tools=tools))).message
        made += reply.tool_calls
        messages += [reply, *(Message(role="tool", content="", tool_call_id=call.call_id) for call in reply.tool_calls)]
    wrote, ran = [
        [number for number, call in enumerate(made) if words in call.arguments_json]
        for words in ("echo hello", "chmod +x")
    ]
    assert len(wrote) == 1
    assert [number > wrote[0] for number in ran] == [False] * (late == 2) + [True]


@pytest.mark.parametrize(("variants", "words"), BROKEN)
def test_a_variant_that_does_not_fit_leaves_its_task_out(tmp_path, variants, words):
    """The reason names file, variant and mistake."""
    write_task(tmp_path / "works")
    write_task(tmp_path / "broken", **{"variants.toml": variants})
    benchmark = open_harbor({"folder": "."}, tmp_path, GraderSpec())
    assert "variants.toml" in benchmark.why_not("broken")
    assert words in benchmark.why_not("broken")


@pytest.mark.thorough
def test_what_the_matcher_misses_is_named_and_the_synonym_it_names_mends_it(tmp_path):
    """A question in words that the segment does not have is a remark; obeying it, nothing is said."""
    variants = VARIANT.replace("Which word should I write?", "Which greeting is meant?")
    write_task(tmp_path / "hello", **{"variants.toml": variants})
    benchmark = open_harbor({"folder": "."}, tmp_path, GraderSpec())
    assert benchmark.why_not("hello") is None
    (remark,) = benchmark.remarks()
    assert (
        "the matcher recognises its words none, but not greeting, meant; add 'greeting' to the segment's synonyms"
        in remark
    )
    write_task(tmp_path / "hello", **{"variants.toml": variants.replace('"word to write"', '"greeting"')})
    assert open_harbor({"folder": "."}, tmp_path, GraderSpec()).remarks() == []


def test_generation_sees_tests_solution_and_files(tmp_path):
    """The task is that of the benchmark, so that its trials are evidence."""
    write_task(tmp_path / "hello", environment__Dockerfile=f"FROM {BASE_IMAGE}\n", environment__list__csv="a\n")
    (source,) = HarborSource([tmp_path]).tasks()
    (task,) = open_harbor({"folder": "."}, tmp_path, GraderSpec()).tasks()
    assert source.task == task
    assert "grep -qx hello" in source.checkpoint_notes
    assert [step.arguments_json for step in source.trajectory] == [
        '{"command":"#!/bin/bash\\necho hello > hello.txt\\n"}'
    ]
    assert dict(source.files) == {"list/csv": "a\n"}


def test_a_plan_says_from_which_variants_a_replay_hides_nothing(tmp_path, monkeypatch, capsys):
    """A value that the solution spells in another way, unsaid, would show that nothing is lost without it."""
    monkeypatch.chdir(tmp_path)
    assert main(["new-task", "sort-guests", "--without-docker"]) == 0
    variants = tmp_path / "sort-guests" / "variants.toml"
    planned = ["run", "sort-guests.toml", "--store", "store", "--dry-run"]
    for text, notes in ((variants.read_text(), 0), (variants.read_text().replace('written = "--reverse"\n', ""), 1)):
        variants.write_text(text)
        assert main(planned) == 0
        said = capsys.readouterr()
        assert (said.out + said.err).count("hides nothing in sort-guests/order, because no call") == notes


@needs("namespaces")
@pytest.mark.thorough
def test_one_unfit_task_is_a_finding(tmp_path, monkeypatch, capsys):
    """The check exits with 1 unless every task is fit, and a last line counts and names the others."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "tasks").mkdir()
    monkeypatch.chdir(tmp_path / "tasks")
    assert main(["new-task", "fit", "--without-docker"]) == 0
    monkeypatch.chdir(tmp_path)
    assert main(["harbor", "tasks", "--without-docker"]) == 0
    assert capsys.readouterr().err.splitlines()[-1] == "1 of 1 tasks are fit"
    written = tmp_path / "tasks" / "fit" / "variants.toml"
    written.write_text(written.read_text().replace('guesses = ["$2 >= 0"]', 'guesses = ["$2 >= 0", "18 <= $2"]'))
    assert main(["harbor", "tasks", "--without-docker"]) == 0
    assert "'18 <= $2' for '$2 >= 18' passes too" in capsys.readouterr().out
    write_task(tmp_path / "tasks" / "gpu", task__toml="[environment]\ngpus = 1\n")
    assert main(["harbor", "tasks", "--without-docker", "--format", "csv"]) == 1
    said = capsys.readouterr()
    assert said.err.splitlines()[-1] == "1 of 2 tasks are fit; the others: gpu"
    assert {row["task_id"]: row["is_fit"] for row in csv.DictReader(io.StringIO(said.out))} == {
        "fit": "True",
        "gpu": "False",
    }


@needs_engine
@pytest.mark.thorough
def test_a_new_task_runs_under_every_condition(tmp_path, monkeypatch, capsys):
    """From nothing to a table: a scripted model fails where a value is missing, and not where it learns it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["new-task", "sort-guests", "--image", BASE_IMAGE]) == 0
    assert main(["new-task", "sort-guests"]) == 2
    experiment = tmp_path / "sort-guests.toml"
    offline = 'folder = "sort-guests"\nbuild_network = "none"\n'
    experiment.write_text(experiment.read_text().replace('folder = "sort-guests"\n', offline))
    assert main(["run", str(experiment), "--store", "store"]) == 0
    capsys.readouterr()
    query = "select condition, variant_id, scores::text as scores from trials order by all"
    assert main(["sql", "store", "--format", "csv", "-c", query]) == 0
    rows = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    failed = {(row["condition"], row["variant_id"], row["scores"]) for row in rows if row["scores"] != "[1.0, 1.0]"}
    assert len(rows) == 11
    assert failed == {
        ("underspecified", f"sort-guests/{name}", scores)
        for name, scores in (("age", "[0.0, 1.0]"), ("order", "[1.0, 0.0]"))
    }
