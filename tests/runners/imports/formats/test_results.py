"""Studies of others: a file of results with a row a trial, and the files of Ambig-SWE."""

import csv
import io
import json
from collections import Counter

import pytest

from lhaw_record.command_line import main
from lhaw_record.runners.imports import ImportFailed
from tests.runners.imports.files import REAL, broken_claims, imported, query, write
from tests.support.needs import needs

HEADER = "task,arm,agent,success"
PUBLISHED = REAL.parent / "studies" / "ambig-swe"
PERCENT = {  # resolved of the 497 common instances, in percent: full, hidden, interaction (Ambig-SWE, table 2)
    "claude_sonnet3.5": (49.7, 24.1, 39.8),
    "claude_haiku_3.5": (34.0, 15.3, 27.0),
    "deepseek-v2": (12.3, 5.6, 7.2),
    "llama31.70b": (8.9, 3.0, 4.8),
}


def results(tmp_path, *rows, header=HEADER, **options):
    """Import a file of results."""
    path = write(tmp_path / "results.csv", "\n".join((header, *rows)) + "\n")
    return imported("results", path, tmp_path / "s", **options)


def trials(tmp_path, columns):
    """Some columns of the trials, in order."""
    return query(tmp_path / "s", f"select {columns} from trials order by task_id, condition, agent, trial_index")


def test_one_row_is_one_trial(tmp_path):
    """Arms get our names, and what the file does not say is unknown: no actions, checkpoints or segments."""
    done = results(tmp_path, "t1,full,a,1", "t1,hidden,a,0.0", "t1,interaction,a,true", "t2,full,a,")
    assert done.trials == 4
    assert trials(tmp_path, "task_id, condition, variant_id, trial_state, is_success") == [
        ("t1", "ask_user", "t1/underspecified", "valid", True),
        ("t1", "full", None, "valid", True),
        ("t1", "underspecified", "t1/underspecified", "valid", False),
        ("t2", "full", None, "missing", None),
    ]
    unknown = "action_count, question_count, checkpoint_progress, agent_input_tokens, agent_cost_usd, wall_seconds"
    assert set(trials(tmp_path, unknown)) == {(None,) * 6}
    assert trials(tmp_path, "terminal_state, dimensions") == [(None, []), (None, None), (None, []), (None, None)]
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.thorough
def test_what_a_row_may_say(tmp_path):
    """Counts, tokens, price, time and dimension are taken as stated, and a count of actions makes no action."""
    header = (
        "instance_id;condition;agent;resolved;dimension;steps;n_questions;input_tokens;output_tokens;cost;seconds;note"
    )
    done = results(
        tmp_path, "t1;ask_user;a;yes;goal+input;12;2;1000;20;0.5;60;fine", "t1;full;a;no;;;;;;;;", header=header
    )
    assert any("task from instance_id" in remark for remark in done.files[0].remarks)
    assert "not read: note" in done.files[0].remarks
    columns = "dimensions, action_count, question_count, agent_input_tokens, agent_cost_usd, wall_seconds"
    assert trials(tmp_path, columns) == [
        (["goal", "input"], 12, 2, 1000, 0.5, 60.0),
        (None, None, None, None, None, None),
    ]
    assert query(tmp_path / "s", "select count(*) from stg_actions_started") == [(0,)]


def test_columns_and_arms_by_flags(tmp_path, capsys):
    """A file in its own words is read with --column and --arm, and a dry run says how."""
    path = write(tmp_path / "r.csv", "problem,setup,system,won\np,blind,m,1\np,told,m,1\n")
    flags = ["--column", "task=problem", "--column", "arm=setup", "--column", "agent=system", "--column", "success=won"]
    arms = ["--arm", "blind=underspecified", "--arm", "told=full"]
    assert main(["import", "results", str(path), "--store", str(tmp_path / "s"), *flags, *arms, "--dry-run"]) == 0
    assert "task from problem" in capsys.readouterr().out
    assert main(["import", "results", str(path), "--store", str(tmp_path / "s"), *flags, *arms]) == 0
    assert trials(tmp_path, "task_id, condition, agent, is_success") == [
        ("p", "full", "m", True),
        ("p", "underspecified", "m", True),
    ]


@pytest.mark.thorough
def test_injections_and_repetitions(tmp_path):
    """An injected trial says after how many actions, and repetitions are numbered."""
    header = f"{HEADER},trial,inject_after_action"
    results(tmp_path, "t,inject_30,a,1,0,4", "t,inject_30,a,0,1,5", header=header)
    assert trials(tmp_path, "trial_index, injected_after_action, is_success") == [(0, 4, True), (1, 5, False)]


@pytest.mark.parametrize(
    ("rows", "header", "said"),
    [
        (["t,full,a,maybe"], HEADER, "row 1: success is 'maybe', expected true or false"),
        (["t,full,a,0.7"], HEADER, "row 1: success is '0.7'"),
        (["t,blind,a,1"], HEADER, "row 1: arm 'blind' is not a known condition; set --arm blind=CONDITION"),
        (["t,full,a,1", "t,full,a,1"], HEADER, "rows 1 and 2 are the same trial; leave one out, or number repetitions"),
        (["t,full,a"], HEADER, "row 1: the number of cells differs"),
        (["t,full,1"], "task,arm,success", "no column agent, but task, arm, success; set --column agent=COLUMN"),
        (["t,full,a,1"], "task,task,agent,success", "two columns 'task'"),
        (["t,full,a,1,1"], "task,arm,agent,resolved,passed", "has resolved and passed; set --column success=resolved"),
        (["t,inject_30,a,1"], HEADER, "row 1: inject_30 needs the column inject_after_action"),
        (["t,hidden,a,1,x"], f"{HEADER},dimension", "row 1: dimension is 'x', expected goal"),
        (
            ["t,hidden,a,1,goal", "t,ask_user,a,1,input"],
            f"{HEADER},dimension",
            "row 2: variant t/underspecified has another task or dimension in an earlier row",
        ),
        (["t,full,a,1,many"], f"{HEADER},actions", "row 1: actions is 'many'"),
        ([], "", "no column task, but none"),
    ],
)
def test_a_row_that_is_not_understood(tmp_path, rows, header, said):
    """A file is refused as a whole, with the row, the column and the next step, and nothing is written."""
    with pytest.raises(ImportFailed) as caught:
        results(tmp_path, *rows, header=header)
    assert said in str(caught.value)
    assert not (tmp_path / "s").exists()


def ambig(tmp_path, *, models=("big_one2", "small"), drop=(), pairs=None):
    """Write the files of a study of three instances; the arm with interaction lacks the last one."""
    for arm, count in (("fully-specified", 3), ("underspecified", 3), ("interaction", 2)):
        rows = [[f"repo__p-{n}", f"Problem {n}.", *(int((n + len(arm)) % 2) for _ in models)] for n in range(count)]
        file = io.StringIO()
        csv.writer(file).writerows([["instance_id", "problem_statement", *models], *rows])
        if arm not in drop:
            write(tmp_path / "study" / "data" / f"{arm}.csv", file.getvalue())
    said = pairs or [{"instance_id": "repo__p-0", "qa_pairs": [["Which file?", "a.py"], ["And where?", ""]]}]
    write(tmp_path / "study" / "experiments" / "big_qa_pairs.json", said)
    return tmp_path / "study"


@pytest.mark.thorough
def test_the_files_of_ambig_swe(tmp_path):
    """Trials over common instances; who asked is known where the pairs are; the rest is counted."""
    done = imported("ambig-swe", ambig(tmp_path), tmp_path / "s")
    assert done.trials == 2 * 3 * 2
    skipped = Counter(
        {label: each.count for label, file in zip(done.labels, done.files, strict=True) for each in file.skipped}
    )
    assert skipped == {"data/fully-specified.csv": 1, "data/underspecified.csv": 1}
    rows = query(
        tmp_path / "s", "select task_id, agent, question_count from trials where condition = 'ask_user' order by 2, 1"
    )
    assert rows == [
        ("repo__p-0", "big_one2", 2),
        ("repo__p-1", "big_one2", None),
        ("repo__p-0", "small", None),
        ("repo__p-1", "small", None),
    ]
    asked = query(tmp_path / "s", "select question, medium from stg_questions_asked order by sequence")
    assert asked == [("Which file?", "prose"), ("And where?", "prose")]
    assert query(tmp_path / "s", "select answer from stg_questions_answered order by sequence") == [("a.py",), (None,)]
    assert broken_claims(tmp_path / "s") == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"drop": ("interaction",)}, "interaction.csv is not there"),
        ({"models": ("large", "small")}, "its name fits none of the models large, small"),
        ({"pairs": [{"instance_id": "x", "qa_pairs": [["only a question"]]}]}, "entry 1: "),
        ({"pairs": [{"instance_id": "x", "qa_pairs": []}] * 2}, "entry 2: x again"),
    ],
)
def test_half_a_study(tmp_path, change, said):
    """A folder that lacks an arm or whose files do not fit each other is refused by name."""
    with pytest.raises(ImportFailed) as caught:
        imported("ambig-swe", ambig(tmp_path, **change), tmp_path / "s")
    assert said in str(caught.value)


@pytest.mark.thorough
@needs("published")
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files of Ambig-SWE are not here")
def test_the_published_study(tmp_path):
    """The twelve rates and the 1,990 pairs of the study come out of its files."""
    done = imported("ambig-swe", PUBLISHED, tmp_path / "s")
    assert done.trials == 4 * 3 * 497
    rows = query(
        tmp_path / "s",
        "select agent, condition, round(100 * avg(is_success::int), 1), count(*) from trials group by 1, 2",
    )
    rates = {(agent, condition): rate for agent, condition, rate, _ in rows}
    arms = ("full", "underspecified", "ask_user")
    assert {agent: tuple(rates[agent, arm] for arm in arms) for agent, _, _, _ in rows} == PERCENT
    assert query(tmp_path / "s", "select count(*) from stg_questions_asked") == [(1990,)]
    missing = json.loads((PUBLISHED / "experiments/extracted_qa_pairs/haiku_qa_pairs.json").read_bytes())
    assert len(missing) == 476
