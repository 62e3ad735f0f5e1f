"""Common slips: each is said at once, with its next step; docs/slips.md lists them."""

import pytest

from lhaw_record.recorder.resources import pages
from tests.cli.experiments import write_experiment
from tests.cli.program import called
from tests.support.needs import needs

SLIPS = {
    "delete": (["delete", "s"], "nothing is deleted from a store: 'discard' takes trials out of every number"),
    "store as an option": (["report", "--store", "s"], "here the store is named without it: lhaw-record report STORE"),
    "store as an argument": (["run", "e.toml", "s"], "here a store is named by --store"),
    "several files": (
        ["import", "inspect-eval", "a.eval", "b.eval", "--store", "s"],
        "to import several files together, put them into one folder and name that",
    ),
    "a query as a word": (["sql", "s", "from trials"], "unrecognized arguments: from trials; example: lhaw-record sql"),
    "nothing named": (["tables"], "the following arguments are required: store; example: lhaw-record tables"),
    "no such page": (["help", "slps"], "no command, page or file is named 'slps'"),
    "help of a table": (["help", "overall"], "'lhaw-record tables STORE overall' prints the table"),
    "no store": (["tables", "nowhere", "overall"], "'lhaw-record run' makes one"),
    "no file": (["run", "e.toml"], "e.toml: no such file; name an experiment file"),
}


@pytest.mark.parametrize("slip", SLIPS)
def test_a_slip_of_words_is_told_with_its_next_step(slip, tmp_path, monkeypatch):
    """Nothing is written, and the last line says what to do."""
    monkeypatch.chdir(tmp_path)
    words, said = SLIPS[slip]
    done = called(*words)
    assert done.returncode in (1, 2)
    assert said in done.stderr.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_a_bare_call_is_the_help():
    """As ``help`` is."""
    assert called().stdout == called("help").stdout != ""


@pytest.mark.thorough
@needs("bubblewrap")
def test_the_plan_says_where_trials_go_and_which_count_nowhere(tmp_path, monkeypatch):
    """A forgotten --store is seen before anything is paid, and a discarded version is not just finished."""
    monkeypatch.chdir(tmp_path)
    file = write_experiment(tmp_path / "e.toml", name="e", conditions=("full",))
    assert called("run", file, "--store", "stores/mine").returncode == 0
    planned = called("run", file, "--dry-run").stderr
    assert "the store of this plan is stores/e\n" in planned
    assert "stores/mine already has trials of experiment e; --store stores/mine continues there" in planned
    assert called("discard", "stores/mine", "--agent", "balanced", "--reason", "x").returncode == 0
    planned = called("run", file, "--store", "stores/mine", "--dry-run").stderr
    assert "1 of the finished trials are set aside by 'discard' and not counted" in planned
    compared = called("compare", "stores/mine", "balanced", "other").stderr
    assert "all its trials are set aside; 'lhaw-record discard STORE --undo' includes them again" in compared


def test_the_page_has_every_slip_here():
    """Who looks for the message finds it in docs/slips.md."""
    page = " ".join(pages()["slips"].read_text().split())
    assert [
        said for _, said in SLIPS.values() if said.replace("'", "") not in page.replace("`", "").replace("'", "")
    ] == []
