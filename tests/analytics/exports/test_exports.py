"""Exports hold what the formats of others can hold, and no more than was recorded."""

import io
import json
import zipfile
from datetime import datetime, timedelta

import anyio
import duckdb
import pytest
import yaml

from lhaw_record.analytics.exports import atif_documents, dataset_rows, golden_trajectories, inspect_logs, trial_records
from lhaw_record.analytics.tables.tables import TABLES
from lhaw_record.analytics.views.headers import headers
from lhaw_record.command_line import main
from lhaw_record.runners.imports.formats.lhaw_dataset import terminal_states
from tests.analytics.make_store import Store, write_events
from tests.runners.imports.files import (
    MCP_TASK,
    as_csv,
    conversation,
    dataset_row,
    early_trial,
    imported,
    query,
    scored_row,
    two_segment_row,
    write,
)
from tests.runners.imports.formats.test_atif import PLAIN, RICH

ROWS = [
    dataset_row(),
    two_segment_row(),
    two_segment_row(variant_id="finance_pay_V_S3", dataset="SWE-Bench Pro", ambiguity_class="divergent"),
    dataset_row("another of the same task", original_prompt="List crimes since 2001 as  CSV."),
]
OURS = ("agent", "benchmark", "task_id", "oracle_scope", "trial_index", "seed", "instruments")


@pytest.fixture(scope="module")
def dataset_store(tmp_path_factory):
    """A store with the rows of a dataset and two scored trials of the first."""
    folder = tmp_path_factory.mktemp("dataset")
    imported("lhaw-dataset", write(folder / "d.json", ROWS), folder / "s")
    for index, scores in enumerate([(1.0, 0.5), (0.0, 0.5), (1.0, 0.0)]):
        row = scored_row(scores, original_prompt=ROWS[0]["original_prompt"], PROMPT=ROWS[0]["underspecified_prompt"])
        path = write(folder / f"scored_m{index}.csv", as_csv(row))
        imported("mcp-atlas-scores", path, folder / "s", condition="underspecified", agent="m", trial_index=index)
    return folder / "s"


def timing_trials():
    """Trials of every kind of condition, with conversations."""
    injected = early_trial("inject_50", before=2, injection_point=0.5, trial_index=0)
    injected["conversation"] = conversation(injected, "By the way, since 2001.")
    late = early_trial("inject_90", length=3, before=3, injection_point=0.9, trial_index=0, task_success=False)
    oracles = [early_trial(length=count, trial_index=count - 4, duration_seconds=1.5) for count in (4, 5, 6)]
    for oracle in oracles[:2]:
        oracle["conversation"] = conversation(oracle)
    alone = early_trial("underspecified", trial_index=0, duration_seconds=None, task_success=False)
    return [*oracles, injected, late, alone]


@pytest.fixture(scope="module")
def trials():
    """These trials."""
    return timing_trials()


@pytest.fixture(scope="module")
def trial_store(trials, tmp_path_factory):
    """A store with them."""
    folder = tmp_path_factory.mktemp("trials")
    oracle_that_failed = early_trial(length=1, trial_index=9, task_success=False)
    imported("ask-early-trials", write(folder / "t.json", [*trials, oracle_that_failed]), folder / "s")
    return folder / "s"


def test_the_dataset_comes_back(dataset_store):
    """Import, then export: every column of every row is the same, in the same order."""
    rows = dataset_rows(dataset_store).document
    assert rows == ROWS
    assert [list(row) for row in rows] == [list(row) for row in ROWS]


@pytest.mark.thorough
def test_terminal_states_are_those_of_the_stored_trials(dataset_store):
    """The distinct states of the underspecified trials, claims counted at a score of 1; else those of the import."""
    states = [row["terminal_states"] for row in dataset_rows(dataset_store).document]
    assert states == ["[(0, 0), (1, 0)]"] * 4
    assert terminal_states(states[0]) == [(0, 0), (1, 0)]


@pytest.mark.thorough
def test_where_no_variant_has_a_class_the_column_says_so(trial_store):
    """An author may publish what people read before paying for trials."""
    (row,) = dataset_rows(trial_store).document
    assert row["ambiguity_class"] == "unclassified"


def test_trials_come_back(trials, trial_store):
    """Import, then export: the paper's fields are the same for every trial, conversation included."""
    found = {
        (row["condition"], row["trial_index"]): {name: row[name] for name in row if name not in OURS}
        for row in trial_records(trial_store).document
    }
    names = {"oracle": "full"}
    for trial in trials:
        condition = names.get(trial["condition"], trial["condition"])
        expected = {name: value for name, value in trial.items() if name != "trial_index"} | {"condition": condition}
        if expected["conversation"]:  # no text is an empty text
            expected["conversation"] = [{**each, "content": each["content"] or ""} for each in expected["conversation"]]
        assert found[condition, trial["trial_index"]] == expected


@pytest.mark.thorough
def test_exported_trials_can_be_imported(trial_store, tmp_path):
    """Export, import, export again: the same document."""
    document = trial_records(trial_store).document
    imported("ask-early-trials", write(tmp_path / "t.json", document), tmp_path / "s")
    assert trial_records(tmp_path / "s").document == document


def test_golden_trajectories_are_successful_full_trials(trial_store):
    """Failed oracles and other conditions give none; each action has its arguments and its result, and nobody knows
    whether that was an error.
    """
    document = golden_trajectories(trial_store).document
    assert document["format"] == "lhaw-record/trajectories-1"
    (task,) = document["tasks"]
    assert (task["task_id"], [each["action_count"] for each in task["trajectories"]]) == (MCP_TASK, [4, 5, 6])
    first = task["trajectories"][0]["actions"][0]
    assert first == {
        "action_index": 1,
        "kind": "tool",
        "action_name": "read_file",
        "arguments": {"path": "1.csv"},
        "result": "rows 1",
        "is_error": None,
    }


@pytest.mark.thorough
def test_an_experiment_can_be_chosen(trial_store):
    """Another experiment has nothing to export."""
    assert trial_records(trial_store, "e").count == 7
    assert (trial_records(trial_store, "other").count, golden_trajectories(trial_store, "other").count) == (0, 0)


@pytest.mark.thorough
def test_the_command_writes_a_document(trial_store, tmp_path, capsys):
    """With -o a file appears complete; without, the same goes to standard output."""
    assert main(["export", "trials", str(trial_store), "-o", str(tmp_path / "t.json")]) == 0
    assert main(["export", "trials", str(trial_store)]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert json.loads((tmp_path / "t.json").read_bytes()) == printed == trial_records(trial_store).document


def test_logs_of_inspect_can_be_imported(trial_store, tmp_path):
    """The trials come back with their condition, success and actions, and with the place of an injection."""
    for name, content in inspect_logs(trial_store).files.items():
        write(tmp_path / "logs" / name, content)
    imported("inspect-eval", tmp_path / "logs", tmp_path / "s")
    rows = "select condition, is_success, injected_after_action from trials order by all"
    assert query(tmp_path / "s", rows) == query(trial_store, rows)
    assert query(tmp_path / "s", "select max(trial_index) from trials") == [(3,)]


@pytest.mark.thorough
def test_a_log_of_inspect_sums_its_samples(tmp_path):
    """Its header has the tokens of all samples, and ends when the last of them ended.

    Samples, documents and spans name the versions of the instruments that recorded them.
    """
    made = Store(trials=2)
    made.task("t", (1.0,))
    for index in range(2):
        made.trial("t", "full", index, actions=["read", "submit"], instruments=f"endings {index}, judge 1")
    anyio.run(write_events, tmp_path / "s", made.envelopes)
    assert main(["export", "otlp", str(tmp_path / "s"), "-o", str(tmp_path / "spans")]) == 0
    documents = b"".join(atif_documents(tmp_path / "s").files.values())
    for whole in (documents.decode(), (tmp_path / "spans").read_text()):
        assert all(whole.count(f"endings {index}, judge 1") == 1 for index in range(2))
    ((_, content),) = inspect_logs(tmp_path / "s").files.items()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        stats = json.loads(archive.read("header.json"))["stats"]
        samples = [json.loads(archive.read(name)) for name in archive.namelist() if name.startswith("samples/")]
    assert {each["metadata"]["instruments"] for each in samples} == {"endings 0, judge 1", "endings 1, judge 1"}
    (model,) = stats["model_usage"]
    for field in ("input_tokens", "output_tokens", "total_tokens"):
        assert stats["model_usage"][model][field] == sum(each["model_usage"][model][field] for each in samples) > 0
    ends = [datetime.fromisoformat(each["started_at"]) + timedelta(seconds=each["total_time"]) for each in samples]
    assert datetime.fromisoformat(stats["completed_at"]) == max(ends)


@pytest.mark.thorough
def test_rows_are_a_folder_with_a_card(dataset_store, tmp_path):
    """The card names the file and the type of every column; the import reads the folder back."""
    assert main(["export", "hf", str(dataset_store), "-o", str(tmp_path / "hf")]) == 0
    head = yaml.safe_load((tmp_path / "hf" / "README.md").read_text().split("---")[1])
    (split,) = head["configs"][0]["data_files"]
    assert json.loads((tmp_path / "hf" / split["path"]).read_bytes()) == ROWS
    assert {each["name"] for each in head["dataset_info"]["features"]} == set(ROWS[0])
    (task,) = yaml.safe_load((tmp_path / "hf" / "eval.yaml").read_text())["tasks"]
    assert set(task) == {"id", "config", "split", "field_spec", "solvers", "scorers"}
    assert set(task["field_spec"].values()) < set(ROWS[0])
    assert (task["config"], task["split"]) == (head["configs"][0]["config_name"], split["split"])
    imported("lhaw-dataset", tmp_path / "hf", tmp_path / "s")
    assert dataset_rows(tmp_path / "s").document == ROWS


@pytest.mark.thorough
def test_the_database_is_read_without_us(trial_store, tmp_path, capsys):
    """Plain DuckDB finds every mart and table with its rows, and a comment on each of them and of their columns."""
    assert main(["export", "duckdb", str(trial_store), "-o", str(tmp_path / "x.duckdb")]) == 0
    with duckdb.connect(str(tmp_path / "x.duckdb"), read_only=True) as connection:
        names = {name for (name,) in connection.execute("select table_name from duckdb_tables()").fetchall()}
        assert names == {each.view for each in headers() if each.layer == "marts"} | set(TABLES)
        assert connection.execute(
            "select count(*) from duckdb_columns() where comment is null and not internal"
        ).fetchall() == [(0,)]
        rows = connection.execute("select condition, count(*) from trials group by all order by all").fetchall()
        assert rows == [("full", 4), ("inject_50", 1), ("inject_90", 1), ("underspecified", 1)]
    imported("lhaw-dataset", write(tmp_path / "d.json", ROWS), tmp_path / "s")
    assert main(["export", "duckdb", str(tmp_path / "s"), "-o", str(tmp_path / "y.duckdb")]) == 1
    assert "no tables to export" in capsys.readouterr().err


@pytest.mark.thorough
def test_nothing_to_export_is_a_finding(dataset_store, tmp_path, capsys):
    """Exit code 1, one line, and no empty file."""
    assert main(["export", "trajectories", str(dataset_store), "-o", str(tmp_path / "t.json")]) == 1
    assert "no trajectories to export" in capsys.readouterr().err
    assert not (tmp_path / "t.json").exists()
    assert main(["export", "hf", str(tmp_path / "nowhere"), "-o", str(tmp_path / "o")]) == 1


@pytest.mark.thorough
def test_trajectories_of_harbor_come_back(tmp_path):
    """Import, export, import, export: the same steps, results and totals; two equal runs stay two."""
    rows = "select action_count, agent_input_tokens, agent_output_tokens, agent_cost_usd, is_success from trials"
    for number in (1, 2):
        write(tmp_path / f"{number}.trajectory.json", {**PLAIN, "session_id": f"s{number}"})
    write(tmp_path / "3.trajectory.json", RICH)
    imported("atif", tmp_path, tmp_path / "a", reward=1.0)
    exported = atif_documents(tmp_path / "a")
    for name, content in exported.files.items():
        write(tmp_path / "out" / name, content)
    imported("atif", tmp_path / "out", tmp_path / "b", reward=1.0)
    again = atif_documents(tmp_path / "b")
    assert sorted(query(tmp_path / "a", rows), key=str) == sorted(query(tmp_path / "b", rows), key=str)
    assert (exported.count, again.count) == (3, 3)
    steps = [
        sorted(json.dumps(json.loads(each)["steps"]) for each in documents.files.values())
        for documents in (exported, again)
    ]
    assert steps[0] == steps[1]
    (document,) = [found for each in exported.files.values() if len((found := json.loads(each))["steps"]) == 4]
    assert document["steps"][2]["observation"]["results"][0]["content"] == "a"
    assert document["subagent_trajectories"][0]["steps"][0]["message"] == "go"
    assert document["extra"]["lhaw_record"]["is_success"] is True


def test_a_folder_is_written_whole_and_never_over_another(trial_store, tmp_path, capsys):
    """It appears with all files; a folder that is there, none at all and a compressed one are refused."""
    assert main(["export", "atif", str(trial_store), "-o", str(tmp_path / "out")]) == 0
    assert len(list((tmp_path / "out").glob("*.trajectory.json"))) == len(list((tmp_path / "out").iterdir())) - 1 == 7
    assert list(tmp_path.iterdir()) == [tmp_path / "out"]
    assert main(["export", "atif", str(trial_store), "-o", str(tmp_path / "out")]) == 1
    assert "name a new folder" in capsys.readouterr().err
    for more, said in (([], "required: -o"), (["-o", "out.gz"], "this export is a folder")):
        with pytest.raises(SystemExit):
            main(["export", "atif", str(trial_store), *more])
        assert said in capsys.readouterr().err
