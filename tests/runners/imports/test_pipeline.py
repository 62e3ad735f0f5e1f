"""What all imports have in common: whole or not at all, once, traceable, and through the real program."""

import json

import msgspec
import pytest

from lhaw_record.command_line import main
from lhaw_record.recorder.errors import StoreError
from lhaw_record.recorder.events import ImportRecorded, RunFinished, TrialStarted
from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.imports import FORMATS, ImportFailed, Options
from lhaw_record.runners.imports.foreign_trial import KnownRecords
from tests.runners.imports.files import (
    as_csv,
    dataset_row,
    early_trial,
    imported,
    parsed,
    query,
    scored_row,
    source,
    write,
)

TALK = [{"role": "user", "content": "Do it."}, {"role": "assistant", "content": "Done."}]
RESULTS = {"instance_a": True, "instance_b": False}
CONTENTS = {
    "lhaw-dataset": [dataset_row()],
    "ask-early-trials": [early_trial()],
    "tac-evals": {"t": {"checkpoints": [{"total": 1, "result": 1}]}},
    "swebench-pro-results": RESULTS,
    "mcp-atlas-scores": as_csv(scored_row()),
    "harbor-job": {"task_name": "t", "agent_info": {"name": "a"}},
    "atif": {
        "schema_version": "ATIF-v1.4",
        "session_id": "s",
        "agent": {"name": "a", "version": "1"},
        "steps": [{"step_id": 1, "source": "user", "message": "Do it."}],
    },
    "openhands": [{"id": 1, "source": "agent", "action": "message", "args": {"content": "Done."}}],
    "openai-messages": TALK,
    "mini-swe-agent": {"info": {}, "messages": TALK},
    "swe-agent": {"history": TALK},
    "tau-bench": [{"task_id": 1, "reward": 1, "traj": TALK}],
}


@pytest.fixture
def results(tmp_path):
    """A file with a success and a failure."""
    return write(tmp_path / "m" / "eval_results.json", RESULTS)


def test_the_same_file_again_adds_nothing(results, tmp_path, capsys):
    """A second import, also under another experiment, changes no event and says so."""
    arguments = ["import", "swebench-pro-results", str(results), "--store", str(tmp_path / "s")]
    assert main(arguments) == 0
    before = read_envelopes(tmp_path / "s")
    assert main(arguments) == 0
    assert main([*arguments, "--experiment", "other"]) == 0
    assert "imported before; nothing was added" in capsys.readouterr().err
    assert read_envelopes(tmp_path / "s") == before


def test_overlapping_files_share_their_trials(results, tmp_path):
    """A file with more of the same run adds what is new; one with less adds nothing."""
    imported("swebench-pro-results", results, tmp_path / "s")
    more = write(tmp_path / "more" / "m" / "eval_results.json", {**RESULTS, "instance_c": True})
    done = imported("swebench-pro-results", more, tmp_path / "s")
    assert (done.trials, done.already) == (1, 2)
    less = write(tmp_path / "less" / "m" / "eval_results.json", {"instance_b": False})
    assert imported("swebench-pro-results", less, tmp_path / "s").is_known


def test_a_trial_with_another_result_is_a_conflict(results, tmp_path):
    """What was imported is never replaced: another result of one trial refuses the whole file."""
    imported("swebench-pro-results", results, tmp_path / "s")
    before = read_envelopes(tmp_path / "s")
    other = write(tmp_path / "o" / "m" / "eval_results.json", {"instance_a": False, "instance_new": True})
    with pytest.raises(StoreError, match="--trial-index"):
        imported("swebench-pro-results", other, tmp_path / "s")
    assert read_envelopes(tmp_path / "s") == before
    assert imported("swebench-pro-results", other, tmp_path / "s", trial_index=1).trials == 2


def test_a_dry_run_writes_nothing(results, tmp_path):
    """It gives the numbers of the import and leaves no store behind."""
    planned = imported("swebench-pro-results", results, tmp_path / "s", is_dry_run=True)
    assert not (tmp_path / "s").exists()
    done = imported("swebench-pro-results", results, tmp_path / "s")
    assert (planned.trials, planned.events) == (done.trials, done.events) == (2, len(read_envelopes(tmp_path / "s")))


def test_a_fault_at_the_end_leaves_no_store(tmp_path):
    """One bad row refuses the whole file, before anything is written."""
    path = write(tmp_path / "d.json", [dataset_row(), {**dataset_row("v2"), "ambiguity_class": "x"}])
    with pytest.raises(ImportFailed):
        imported("lhaw-dataset", path, tmp_path / "s")
    assert not (tmp_path / "s").exists()


def test_an_import_is_one_commit(results, tmp_path, monkeypatch):
    """Every stream of an import becomes durable at once, so that a death leaves all of it or nothing."""
    from lhaw_record.recorder.writing.store_recorder import StoreRecorder

    commits = []
    commit = StoreRecorder.commit
    monkeypatch.setattr(
        StoreRecorder, "commit", lambda self, records: commits.append(len(records)) or commit(self, records)
    )
    done = imported("swebench-pro-results", results, tmp_path / "s")
    assert commits == [done.events]


def test_a_stored_import_is_whole_and_traceable(results, tmp_path):
    """Streams are closed with right digests; every trial names its format and the stream that names its file."""
    imported("swebench-pro-results", results, tmp_path / "s")
    assert verify(tmp_path / "s").findings == ()
    envelopes = read_envelopes(tmp_path / "s")
    (own,) = {each.stream_id for each in envelopes if isinstance(each.event, ImportRecorded)}
    (said,) = [each.event for each in envelopes if isinstance(each.event, ImportRecorded)]
    assert (said.source_format, said.source_name) == ("swebench-pro-results", "eval_results.json")
    assert {(each.kind, each.count) for each in said.understood} >= {("trials with a result", 2)}
    starts = [each.event for each in envelopes if isinstance(each.event, TrialStarted)]
    assert {(each.origin, each.run_id) for each in starts} == {("swebench-pro-results", own)}
    (end,) = [each for each in envelopes if isinstance(each.event, RunFinished)]
    assert (end.stream_id, end.event.trials_finished) == (own, 2)


def test_ids_follow_from_the_content(results, tmp_path):
    """Two stores that import one file have the same streams."""
    for name in ("s", "t"):
        imported("swebench-pro-results", results, tmp_path / name)
    first, second = ({each.stream_id for each in read_envelopes(tmp_path / name)} for name in ("s", "t"))
    assert first == second


def test_secrets_are_not_stored(tmp_path, monkeypatch):
    """The value of a secret of this environment is replaced, as in a run."""
    monkeypatch.setenv("SOME_API_KEY", "swordfish-swordfish")
    trial = early_trial(length=1)
    trial["actions"][0]["result"] = "the key is swordfish-swordfish"
    imported("ask-early-trials", write(tmp_path / "t.json", trial), tmp_path / "s")
    assert query(tmp_path / "s", "select result from actions") == [("the key is [redacted]",)]
    assert verify(tmp_path / "s").findings == ()


@pytest.mark.thorough
def test_half_a_surrogate_pair_is_stored_as_a_replacement(tmp_path):
    """Text that is no Unicode does not stop an import."""
    trial = early_trial(length=1)
    trial["actions"][0]["result"] = "\ud800!"
    imported("ask-early-trials", write(tmp_path / "t.json", json.dumps(trial)), tmp_path / "s")
    assert query(tmp_path / "s", "select result from actions") == [("\ufffd!",)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("format_name", [name for name in FORMATS if name != "inspect-eval"])
@pytest.mark.parametrize("content", ["", "{", "[1, 2", b"\xff\xfe\x00", "[]", "{}", "null", "17", '["x"]', '{"a": 1}'])
def test_what_is_not_the_format_is_refused(format_name, content, tmp_path):
    """Nothing, half a file, other bytes and other JSON: an error that names the file, never a traceback or a store."""
    path = write(tmp_path / "scored_x.csv", content)
    with pytest.raises(ImportFailed, match=r"scored_x\.csv"):
        imported(format_name, path, tmp_path / "s")
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("format_name", list(CONTENTS))
def test_a_truncated_file_is_refused(format_name):
    """A file that lost its end is no file of its format; in a CSV the last row lacks cells. Others are read."""
    name = FORMATS[format_name].patterns[0].replace("*", "x")
    whole = source(CONTENTS[format_name], name)
    half = source(whole.content[: len(whole.content) * 2 // 3], name)
    half = msgspec.structs.replace(half, location=f"half/{name}")
    found = FORMATS[format_name].parse([half, whole], Options(), KnownRecords())
    assert [(each.kind, "half/" in each.reason) for each in found[0].skipped] == [("files", True)]
    alone = parsed(format_name, CONTENTS[format_name], name=name)
    assert found[1] == alone
    assert alone.trials or alone.registered or alone.skipped
    with pytest.raises(ImportFailed, match="half/"):
        FORMATS[format_name].parse([half], Options(), KnownRecords())


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["tac-evals", "nowhere.json"], 1, "cannot read"),
        (["mcp-atlas-scores", "."], 1, "no file named scored_*.csv"),
        (["swebench-pro-results", "m", "--instances", "nowhere"], 1, "cannot read"),
        (["tac-evals", "m/eval_results.json", "--experiment", "A B"], 1, "not usable"),
    ],
)
def test_errors_have_exit_codes(arguments, code, words, results, tmp_path, monkeypatch, capsys):
    """A file that cannot be read is failed work (1), said in one line."""
    monkeypatch.chdir(tmp_path)
    assert main(["import", *arguments, "--store", "s"]) == code
    said = capsys.readouterr().err
    assert words in said
    assert said.count("\n") == 1


def test_options_of_other_formats_are_refused(results, tmp_path, capsys):
    """An option that a format has no use for is a usage error (2)."""
    with pytest.raises(SystemExit) as ended:
        main(["import", "lhaw-dataset", str(results), "--store", str(tmp_path / "s"), "--agent", "a"])
    assert ended.value.code == 2
    assert "unrecognized arguments" in capsys.readouterr().err


def test_the_report_is_data(results, tmp_path, capsys):
    """With --format json, what was understood, skipped and remarked is printed as rows."""
    assert (
        main(["import", "swebench-pro-results", str(results), "--store", str(tmp_path / "s"), "--format", "json"]) == 0
    )
    rows = json.loads(capsys.readouterr().out)
    assert {(row["what"], row["kind"], row["count"]) for row in rows} >= {("understood", "trials with a result", 2)}


def test_files_of_one_name_are_told_apart(tmp_path, capsys):
    """The report and every message name a file by its path below the folder that was imported.

    One that is refused is named with the reason and by the exit code, and the others are imported.
    """
    for name in ("a", "b"):
        write(tmp_path / "runs" / name / "eval_results.json", RESULTS)
    arguments = ["import", "swebench-pro-results", str(tmp_path / "runs"), "--store", str(tmp_path / "s")]
    assert main([*arguments, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["file"] for row in rows} == {"a/eval_results.json", "b/eval_results.json"}
    write(tmp_path / "runs" / "b" / "eval_results.json", {"instance_a": 1})
    write(tmp_path / "runs" / "c" / "eval_results.json", RESULTS)
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert "b/eval_results.json: instance_a is 1, expected true or false" in told.out
    assert ": 2 trials and " in told.err
    assert "Refused above: 1 of 3 files" in told.err


def test_two_files_of_one_name_that_contradict_each_other_are_refused(tmp_path):
    """Under one agent's name they tell of one trial in two ways; neither is left out in silence."""
    write(tmp_path / "runs" / "a" / "eval_results.json", {"instance_a": True})
    write(tmp_path / "runs" / "b" / "eval_results.json", {"instance_a": False})
    with pytest.raises(ImportFailed, match=r"a/eval_results.json, .* and b/eval_results.json, .* are the same trial"):
        imported("swebench-pro-results", tmp_path / "runs", tmp_path / "s", agent="m")
    for name, result in (("a", 1), ("b", 0)):
        write(tmp_path / "tac" / name / "eval_t.json", {"checkpoints": [{"total": 1, "result": result}]})
    with pytest.raises(ImportFailed, match=r"a/eval_t.json and b/eval_t.json are the same trial"):
        imported("tac-evals", tmp_path / "tac", tmp_path / "s", agent="m")


@pytest.mark.parametrize(
    ("format_name", "item"), [("ask-early-trials", early_trial()), ("lhaw-dataset", dataset_row())]
)
@pytest.mark.parametrize("name", ["items.jsonl", "items.json", "items.txt"])
def test_json_lines_are_read_under_any_name(format_name, item, name, tmp_path):
    """Where a format is a list of items they may stand one on a line, whatever the file is called."""
    more = {**item, "variant_id": f"{item['variant_id']}_2"}
    path = write(tmp_path / name, f"{json.dumps(item)}\n\n{json.dumps(more)}\n")
    files = imported(format_name, path, tmp_path / "s", is_dry_run=True).files
    assert 2 in {each.count for each in files[0].understood if each.kind in ("variants", "trials with a result")}


@pytest.mark.parametrize("format_name", ["swebench-pro-results", "tac-evals"])
def test_json_lines_where_a_format_is_one_document(format_name, tmp_path):
    """The message names the line on which the second value begins, and what is expected instead."""
    path = write(tmp_path / "eval_results.jsonl", '{"instance_a": true}\n{"instance_b": false}\n')
    with pytest.raises(
        ImportFailed, match=r"eval_results.jsonl, line 2: a second JSON value .* not JSON Lines; import"
    ):
        imported(format_name, path, tmp_path / "s")
