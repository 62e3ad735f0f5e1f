"""From tasks to a benchmark with the real program: what comes out, and that being killed changes nothing of it."""

import json
import re
import shutil
import signal
from contextlib import chdir
from pathlib import Path

import pytest

from tests.cli.program import (
    assert_same_rows,
    called,
    count_events,
    end,
    lhaw_record,
    named_tables,
    query,
    start,
    verify,
    wait_until,
)
from tests.support.chat_server import server_beside
from tests.support.generation_model import HandlerModel, assessment_reply, guess_reply, is_guess

TABLES = ("by_severity", "by_segments_removed", "variant_breakdown", "by_class")
ONE_VARIANT = ("--task=sales-report", "--segments=1", "--severity=delete", "--per-task=1")
SMALL = (*ONE_VARIANT, "--experiment", Path(__file__).with_name("pipeline.toml"))
CONTENT = "select count(*) from events where type not in ('run_started', 'run_finished')"
MADE = "store/benchmark/desk-benchmark.json"
MOMENTS = ("trial_finished", "segments_extracted", "variant_generated", "benchmark_selected")


def _pipeline(store, out):
    return ("pipeline", "desk", *SMALL, "--store", store, "--output", out)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A pipeline over one task that nobody disturbed, ordered in an empty folder, ``here``."""
    folder = tmp_path_factory.mktemp("pipeline")
    (folder / "here").mkdir()
    with chdir(folder / "here"):
        done = called("pipeline", "desk", *SMALL, "--store", folder / "store")
    assert done.returncode == 0, done.stderr
    return folder, done


def test_the_pipeline_ends_with_a_benchmark_and_its_tables(whole):
    """One command gives a dataset file, its card, and the tables that say what the variants do."""
    folder, done = whole
    rows = json.loads((folder / MADE).read_text())
    assert rows
    assert {row["original_task"] for row in rows} == {"sales-report"}
    assert all(row["underspecified_prompt"] != row["original_prompt"] for row in rows)
    assert "sales-report" in (folder / MADE).with_suffix(".md").read_text()
    for name in TABLES[:3]:
        assert f"{name}:" in done.stdout
    verify(folder / "store")


def test_what_is_said_of_a_pipeline_counts_nothing(whole):
    """A phase names what was finished before, and what was given up, only where there is something."""
    said = whole[1].stderr
    assert "generation: 1 variants\n" in said
    assert not re.search(r"\b0 (of them|given up)", said)


def test_its_classes_come_from_trials_and_its_variants_from_the_task(whole):
    """Every selected variant was run by the classifier before it was chosen, and evaluated afterwards."""
    store = whole[0] / "store"
    ((chosen, classified, evaluated),) = query(
        store,
        """
        with chosen as (
            select unnest(benchmark_selected.variants).variant_digest as variant_digest
            from events where type = 'benchmark_selected'
        )
        select
            (select count(*) from chosen),
            count(distinct variant_digest) filter (where role = 'classifier'),
            count(distinct variant_digest) filter (where role = 'evaluated' and condition = 'ask_user')
        from trials inner join chosen using (variant_digest) where trial_state = 'valid'
        """,
    )
    assert chosen == classified == evaluated > 0


@pytest.mark.thorough
def test_the_same_command_again_does_nothing(whole, tmp_path):
    """A finished pipeline runs no trial, makes no variant and selects nothing anew; the file is the same."""
    folder, _ = whole
    before = query(
        folder / "store", "select count(*) from events where type <> 'run_started' and type <> 'run_finished'"
    )
    done = called(*_pipeline(folder / "store", tmp_path / "again.json"))
    assert done.returncode == 0, done.stderr
    after = query(
        folder / "store", "select count(*) from events where type <> 'run_started' and type <> 'run_finished'"
    )
    assert after == before
    assert (tmp_path / "again.json").read_bytes() == (folder / MADE).read_bytes()


def test_the_files_lie_in_the_store(whole):
    """Nothing is dropped into the folder that the command is given in; the message names the file."""
    folder, done = whole
    _check_files((folder / MADE).parent, done)
    assert list((folder / "here").iterdir()) == []


@pytest.mark.thorough
def test_the_files_lie_in_a_named_folder(whole, tmp_path, monkeypatch):
    """It is made below the folder that the command is given in, and nothing else is."""
    store, here, out = tmp_path / "store", tmp_path / "here", "a new folder/made"
    shutil.copytree(whole[0] / "store", store)
    here.mkdir()
    monkeypatch.chdir(here)
    done = called(*_pipeline(store, out))
    assert done.returncode == 0, done.stderr
    _check_files(here / out, done, out)
    assert [path.name for path in here.iterdir()] == ["a new folder"]
    assert (here / out / "desk-benchmark.json").read_bytes() == (whole[0] / MADE).read_bytes()
    verify(store)


def _check_files(folder, done, named=None):
    endings = {path.name.removeprefix("desk-benchmark") for path in folder.iterdir()}
    assert endings == {".json", ".md"}
    assert f"variants in {named or folder}/desk-benchmark.json, its card in" in done.stderr


def test_a_folder_that_cannot_be_made_is_refused_before_anything_runs(tmp_path):
    """Whoever names a place for the files hears at once that there is none; the embedded design was read before."""
    (tmp_path / "file").touch()
    folder = ("--store", tmp_path / "store", "--output", tmp_path / "file" / "made")
    done = called("pipeline", "desk", *ONE_VARIANT, *folder)
    assert done.returncode == 1
    assert f"{tmp_path}/file/made: Not a directory; a file is in the way of a folder" in done.stderr
    assert not (tmp_path / "store").exists()


@pytest.mark.thorough
def test_the_judge_also_says_which_variants_are_new_tasks(tmp_path):
    """After the classifier's trials and before the selection, once."""

    def judge(body):
        if "same_answer" in body["messages"][0]["content"]:
            return json.dumps({"same_answer": True, "completes_task": is_new, "reason": "It names no file."})
        names = re.findall(r'"segment_id":"([^"]+)"', body["messages"][1]["content"])
        return guess_reply(**dict.fromkeys(names, "")) if is_guess(body) else assessment_reply()

    is_new = False
    verdicts = "select new_task_verdict, role, count(*) from new_task_verdicts where judge is not null group by all"
    with server_beside(HandlerModel(judge)) as server:
        judged = ("--judge", "local", "--api-base", server.url, "--price", "1", "1", "--max-cost-usd", "1")
        done = called(*_pipeline(tmp_path / "store", tmp_path / "made.json"), *judged)
        asked = len(server.requests)
        again = called(*_pipeline(tmp_path / "store", tmp_path / "made.json"), *judged)
        assert (done.returncode, again.returncode, len(server.requests)) == (0, 0, asked), done.stderr + again.stderr
        assert query(tmp_path / "store", verdicts) == [("rejected", "classifier", 1)]
        is_new = True
        refused = called(*_pipeline(tmp_path / "other", tmp_path / "other.json"), *judged)
        assert "no variant that can be chosen: 1 new_task" in refused.stderr
        broken = called(*_pipeline(tmp_path / "third", tmp_path / "third.json"), *judged[:-1], "0.000001")
        assert broken.returncode == 1
        assert "ended with work left (cost_limit)" in broken.stderr


@pytest.mark.slow
@pytest.mark.thorough
def test_a_pipeline_killed_in_every_phase_ends_like_one_that_was_not(whole, tmp_path):
    """SIGKILL in every phase: the same command goes on, to the same file and the same tables."""
    folder, _ = whole
    store, out = tmp_path / "store", tmp_path / "set.json"
    for event in MOMENTS:
        known = count_events(store, event)
        process = start(*_pipeline(store, out))
        wait_until(lambda event=event, known=known: count_events(store, event) > known, f"one more {event}")
        process.send_signal(signal.SIGKILL)
        end(process)
    done = lhaw_record(*_pipeline(store, out))
    assert done.returncode == 0, done.stderr
    assert out.read_bytes() == (folder / MADE).read_bytes()
    assert_same_rows(named_tables(store, TABLES), named_tables(folder / "store", TABLES))
    made = query(
        store,
        "select count(*), count(distinct variant_generated.variant_digest) from events "
        "where type = 'variant_generated' and variant_generated.variant.ambiguity_class is null",
    )
    assert made[0][0] == made[0][1]
    verify(store)


def test_a_design_without_a_classifier_is_refused(tmp_path):
    """A pipeline needs agents of both roles; the message says which is missing."""
    design = tmp_path / "design.toml"
    design.write_text(
        'name = "d"\nconditions = ["full"]\nbenchmark = "desk"\n[[agents]]\nname = "a"\nmodel = "scripted/never"\n'
    )
    done = called("pipeline", "desk", "--store", tmp_path / "s", "--experiment", design)
    assert done.returncode == 2
    assert 'role = "classifier"' in done.stderr
    assert not (tmp_path / "s").exists()


def test_tasks_without_agents_need_a_design(tmp_path):
    """Only desk has embedded agents; of other tasks the command says what to name."""
    segment = {
        "value": "notes.txt",
        "dimension": "goal",
        "subdimension": "target",
        "expected_questions": ["Which file?"],
    }
    variant = {"name": "file", "severity": "delete", "prompt": "Write it.", "segments": [segment]}
    task = {"task_id": "t", "prompt": "Write notes.txt.", "variants": [variant]}
    (tmp_path / "tasks.jsonl").write_text(json.dumps(task) + "\n")
    done = called("pipeline", "own", "--from", tmp_path / "tasks.jsonl", "--store", tmp_path / "s")
    assert done.returncode == 1
    assert "--experiment FILE" in done.stderr
