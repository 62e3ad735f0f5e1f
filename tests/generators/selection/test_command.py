"""``select`` end to end: a benchmark from classified desk variants, its files, and trials of it in another store."""

import csv
import io
import json

import pytest

from lhaw_record.command_line import main
from tests.cli.program import called

pytestmark = pytest.mark.thorough

BASE = """
name = "base"
conditions = ["underspecified"]
trials = 1

[benchmark]
name = "desk"
tasks = ["log-triage", "ticket-digest"]

[[agents]]
name = "reference"
model = "scripted/never"
role = "classifier"
"""
EVALUATION = """
name = "evaluation"
conditions = ["full", "underspecified"]
trials = 1

[benchmark]
name = "desk"
variants_from = {origin}

[[agents]]
name = "balanced"
model = "scripted/balanced"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the store of the classifying trials, and a selection with its files."""
    folder = tmp_path_factory.mktemp("select")
    (folder / "base.toml").write_text(BASE, encoding="utf-8")
    done = called("run", folder / "base.toml", "--store", folder / "base")
    assert done.returncode == 0, done.stderr
    done = called("select", *options(folder), "--output", folder / "mine.json", "--card", folder / "mine.md")
    assert done.returncode == 0, done.stderr
    return folder


def options(folder, *more):
    """The command line of a selection of four variants."""
    return ["--store", str(folder / "base"), "--benchmark", "desk", "--name", "mine", "--max", "4", *map(str, more)]


def test_the_command_prints_a_row_per_class(folder, capsys):
    """Wanted, available, chosen and shortfall on standard output, in every format; the rest on standard error."""
    assert main(["select", *options(folder, "--format", "csv")]) == 0
    printed = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(printed.out)))
    assert [row["ambiguity_class"] for row in rows] == ["outcome-critical", "divergent", "benign"]
    assert [int(row["wanted"]) for row in rows] == [2, 1, 1]
    assert all(int(row["chosen"]) == min(int(row["wanted"]), int(row["available"])) for row in rows)
    assert "chosen before as selection mine; classes by reference" in printed.err
    assert "may be new tasks that no judge has looked at" in printed.err


def test_a_shortfall_is_a_warning(folder, capsys):
    """More benign variants than there are: exit code 0, and a line that says by how many it is short."""
    arguments = [*options(folder), "--name", "benign-only", "--quota", "0/0/100", "--max", "50", "--dry-run"]
    assert main(["select", *arguments, "--format", "json"]) == 0
    printed = capsys.readouterr()
    (benign,) = [row for row in json.loads(printed.out) if row["ambiguity_class"] == "benign"]
    assert f"short by: benign {benign['shortfall']}" in printed.err
    assert 0 < benign["chosen"] == 50 - benign["shortfall"]


def test_a_dry_run_changes_nothing(folder, capsys):
    """It says what would be chosen and leaves every file as it was."""
    before = {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}
    assert main(["select", *options(folder), "--name", "other", "--output", str(folder / "no.json"), "--dry-run"]) == 0
    assert "would be chosen as selection other" in capsys.readouterr().err
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("quota", ["40/30", "50/50/1", "a/b/c", "110/-10/0", "40/30/30/0"])
def test_quotas_that_are_none_are_a_mistake_of_use(folder, quota, capsys):
    """Three whole numbers that add up to 100; else exit code 2."""
    with pytest.raises(SystemExit) as caught:
        main(["select", *options(folder), "--quota", quota])
    assert caught.value.code == 2
    assert "add up to 100" in capsys.readouterr().err


def test_nothing_to_choose_is_a_finding(folder, capsys):
    """Exit code 1 with the reason, for a benchmark without variants and for a classifier without trials."""
    assert main(["select", "--store", str(folder / "base"), "--benchmark", "tac"]) == 1
    assert "has no variants of benchmark tac" in capsys.readouterr().err
    assert main(["select", *options(folder), "--classifier", "nobody"]) == 1
    assert "agent 'nobody' has no classifying trials (there are: reference)" in capsys.readouterr().err


def test_the_file_is_the_export_of_the_selection(folder, capsys):
    """The export hf --selection writes the same bytes; an unknown selection is named with those that there are."""
    assert main(["export", "hf", str(folder / "base"), "--selection", "mine", "-o", str(folder / "again")]) == 0
    assert (folder / "again" / "test.json").read_bytes() == (folder / "mine.json").read_bytes()
    assert len(json.loads((folder / "mine.json").read_bytes())) == 3, "of one trial no variant is divergent"
    assert main(["export", "hf", str(folder / "base"), "--selection", "yours", "-o", str(folder / "no")]) == 1
    assert "no selection 'yours' in this store; there are: mine" in capsys.readouterr().err
    assert (folder / "mine.md").exists()


@pytest.mark.thorough
def test_streams_without_trials_disturb_nobody(folder, tmp_path):
    """Verification, counts, tables, report and the other exports work on a store with a selection in it."""
    store = folder / "base"
    assert called("log", "verify", store).returncode == 0
    assert "benchmark_selected" in called("log", "stat", store).stdout
    assert called("tables", store, "overall", "variant_breakdown").returncode == 0
    assert called("report", store, "-o", tmp_path / "r.html").returncode == 0
    for form in ("trials", "trajectories"):
        done = called("export", form, store, "-o", tmp_path / f"{form}.json")
        assert done.returncode in (0, 1), done.stderr
        assert "Traceback" not in done.stderr


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("origin", "store", "source"),
    [
        ('"mine.json"', "elsewhere", "label"),
        ('{ store = "base", selection = "mine" }', "another", "label"),
        ('{ store = "base", selection = "mine" }', "base", "selection"),
    ],
)
def test_a_selection_runs_as_the_variants_of_an_experiment(folder, origin, store, source):
    """From the file and from the store: its trials have its classes in by_class, in another store and in its own."""
    name = f"on-{store}"
    path = folder / f"{name}.toml"
    path.write_text(EVALUATION.replace("{origin}", origin).replace("evaluation", name), encoding="utf-8")
    done = called("run", path, "--store", folder / store)
    assert done.returncode == 0, done.stderr
    again = called("run", path, "--store", folder / store)
    assert "nothing to run" in again.stderr
    chosen = {row["variant_id"]: row["ambiguity_class"] for row in json.loads((folder / "mine.json").read_bytes())}
    query = (
        "select distinct variant_id, ambiguity_class, class_source from ambiguity_classes "
        f"where variant_digest in (select variant_digest from trials where experiment_id = '{name}')"
    )
    rows = json.loads(called("sql", folder / store, "-c", query, "--format", "json").stdout)
    assert {row["variant_id"]: row["ambiguity_class"] for row in rows} == chosen
    assert {row["class_source"] for row in rows} == {source}
    settings = ["--set", "k=1", "--set", f"experiment={name}", "--format", "json"]
    tables = json.loads(called("tables", folder / store, "by_class", *settings).stdout)
    rows = [row for row in tables["by_class"]["rows"] if row["condition"] == "underspecified"]
    assert {row["ambiguity_class"]: row["n_trials"] for row in rows if row["measure"] == "pass_at_k"} == {
        name: list(chosen.values()).count(name) for name in set(chosen.values())
    }
