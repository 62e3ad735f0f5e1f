"""Reading a store: tables and SQL at rest, on a copy, on a read-only copy and while a run is writing."""

import csv
import io
import json
import os
import shutil
import subprocess
import sys

import pytest

from lhaw_record.analytics.tables.tables import TABLES
from tests.cli.experiments import ALL_KINDS, write_experiment
from tests.cli.program import (
    all_tables,
    assert_same_tables,
    called,
    count_events,
    end,
    interrupt,
    lhaw_record,
    start,
    wait_until,
)


@pytest.mark.thorough
def test_tables_and_sql_and_a_second_run_while_a_run_is_going(tmp_path):
    """Readers see a growing, consistent store; a second run of the experiment exits 1 and says who holds it."""
    experiment = write_experiment(tmp_path / "a.toml", conditions=ALL_KINDS, trials=30, concurrency=1)
    store = tmp_path / "store"
    process = start("run", experiment, "--store", store)
    wait_until(lambda: count_events(store, "trial_finished") >= 1, "a trial was finished")

    counted = lhaw_record("sql", store, "-c", "select count(*) as n from trials where is_success", "--format", "json")
    assert json.loads(counted.stdout)[0]["n"] >= 1
    states = called("sql", store, "-c", "select distinct trial_state from trials", "--format", "csv")
    assert states.returncode == 0
    tables = lhaw_record("tables", store, "overall", "--format", "json")
    assert tables.returncode == 0, tables.stderr
    assert json.loads(tables.stdout)
    tail = lhaw_record("log", "tail", store, "-n", "5", "--format", "json")
    assert len(json.loads(tail.stdout)) == 5
    assert lhaw_record("log", "verify", store).returncode == 0

    second = lhaw_record("run", experiment, "--store", store)
    assert second.returncode == 1
    assert f"process {process.pid} on" in second.stderr
    assert "Traceback" not in second.stderr

    assert process.poll() is None, "the run was over before it was looked at"
    interrupt(process)
    assert end(process).returncode == 130


@pytest.fixture
def read_only(reference, tmp_path):
    """A copy of the reference store that nobody may write to."""
    _, store = reference
    copy = tmp_path / "copied elsewhere [1]" / "store"
    shutil.copytree(store, copy)
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield copy
    for path in [copy, *copy.rglob("*")]:
        path.chmod(0o755)


@pytest.mark.thorough
def test_a_read_only_copy_elsewhere_gives_the_same_tables(reference_tables, read_only):
    """A copy without write permission, under an awkward path, gives the same tables and stays as it was."""
    before = sorted(path.relative_to(read_only) for path in read_only.rglob("*"))
    assert_same_tables(all_tables(read_only), reference_tables)
    # root may write anywhere, so the child gives up that right where it has it
    is_root = os.geteuid() == 0 and shutil.which("setpriv")
    drop = ["setpriv", "--bounding-set=-dac_override", "--inh-caps=-dac_override"] if is_root else []
    program = [sys.executable, "-m", "lhaw_record"]
    for arguments in (["tables", read_only], ["sql", read_only, "-c", "from trials"], ["log", "verify", read_only]):
        done = subprocess.run([*drop, *program, *map(str, arguments)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert sorted(path.relative_to(read_only) for path in read_only.rglob("*")) == before


@pytest.mark.thorough
def test_tables_come_in_every_format(reference):
    """One table as text, CSV and JSON has the same columns and as many rows; all tables come as one JSON document."""
    _, store = reference
    as_csv = called("tables", store, "overall", "--format", "csv")
    rows = list(csv.DictReader(io.StringIO(as_csv.stdout)))
    (as_json,) = json.loads(called("tables", store, "overall", "--format", "json").stdout).values()
    assert len(rows) == len(as_json["rows"]) > 0
    assert list(rows[0]) == [*as_json["rows"][0], "reading"]
    assert list(json.loads(called("tables", store, "--format", "json").stdout)) == [*TABLES]
    as_text = called("tables", store, "overall").stdout
    assert "pass_at_k" in as_text


def test_sql_gives_rows_in_every_format(reference):
    """NULL is empty in CSV and null in JSON, and columns of one name are all kept."""
    _, store = reference
    query = "select 1 as x, null as y, 'a,b' as x"
    as_csv = called("sql", store, "-c", query, "--format", "csv").stdout
    assert as_csv == 'x,y,x_2\n1,,"a,b"\n'
    assert json.loads(called("sql", store, "-c", query, "--format", "json").stdout) == [
        {"x": 1, "y": None, "x_2": "a,b"}
    ]


@pytest.mark.thorough
def test_statements_are_read_from_standard_input(reference):
    """Statements over several lines are run in turn, up to the first mistake."""
    _, store = reference
    typed = "select count(*) as trials\nfrom trials;\nselect 42 as after;\nselect nonsense;\nselect 43 as never;\n"
    done = lhaw_record("sql", store, "--format", "csv", input=typed)
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["trials", "24", "after", "42"]
    assert "nonsense" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.thorough
def test_a_column_of_another_view_is_named_with_its_view(reference):
    """What the view of a query lacks is answered with the views to join; the list of views has a line for each."""
    _, store = reference
    refused = called("sql", store, "-c", "select answer from trials")
    assert "answer is a column of" in refused.stderr
    assert " questions" in refused.stderr.rpartition("answer is a column of")[2]
    listed = called("sql", store, "-c", ".views").stdout.splitlines()
    assert sum(line.startswith("questions ") for line in listed) == 1


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["tables", "STORE", "overal"], ["no table 'overal'", "by_class"]),
        (["tables", "STORE", "overall", "--set", "nothing=1"], ["nothing"]),
        (["tables", "STORE", "overall", "--set", "k=many"], ["k", "many"]),
        (["tables", "STORE", "--format", "csv"], ["csv holds one table", "json"]),
        (["sql", "STORE", "-c", "selec 1"], ["syntax error"]),
        (["sql", "STORE", "-c", "select nothing from trials"], ['"nothing" not found']),
        (["sql", "STORE", "-c", "from nowhere"], ["no view 'nowhere'; '.views' lists them"]),
        (["sql", "STORE", "-c", "from trails"], ["no view 'trails'; did you mean 'trials'?"]),
        (["tables", "NOWHERE"], ["is not a store", "lhaw-record run"]),
        (["sql", "NOWHERE", "-c", "from trials"], ["is not a store", "lhaw-record run"]),
        (["log", "tail", "NOWHERE"], ["is not a store"]),
        (["log", "verify", "NOWHERE"], ["is not a store"]),
    ],
)
def test_a_question_that_cannot_be_answered_is_refused_in_one_sentence(reference, tmp_path, arguments, words):
    """Exit 1, nothing on standard output, one sentence that names the thing; below it at most DuckDB's own marker."""
    places = {"STORE": str(reference[1]), "NOWHERE": str(tmp_path / "nowhere")}
    done = called(*(places.get(argument, argument) for argument in arguments))
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("lhaw-record: ")
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr.partition("\nLINE ")[0]
    assert not (tmp_path / "nowhere").exists()


def test_a_store_of_a_newer_format_is_refused(reference, tmp_path):
    """Readers and runs name both formats and what to use instead, and touch nothing."""
    experiment, _ = reference
    store = tmp_path / "store"
    store.mkdir()
    (store / "store.json").write_text('{"format": 99}\n')
    for arguments in (["run", experiment, "--store", store], ["tables", store], ["log", "verify", store]):
        done = called(*arguments)
        assert done.returncode == 1
        assert "store format 99, this version reads 2" in done.stderr
        assert "Traceback" not in done.stderr
    assert [path.name for path in store.iterdir()] == ["store.json"]


@pytest.mark.thorough
def test_a_closed_pipe_is_no_error(reference):
    """``lhaw-record sql … | head`` ends quietly."""
    command = f'"{sys.executable}" -m lhaw_record sql "{reference[1]}" -c "from events" --format csv | head -n 1'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.startswith("stream_id,sequence")
    assert done.stderr == ""
