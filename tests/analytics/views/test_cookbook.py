"""docs/cookbook.md, docs/marts.md and examples/analysis.py run as they stand."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import anyio
import pytest

import lhaw_record
from lhaw_record.analytics.errors import AnalyticsError, UnknownName
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.runners.base.errors import RunnerError
from tests.analytics.make_store import write_events
from tests.analytics.views.test_views import busy_store
from tests.cli.experiments import write_experiment

ROOT = Path(__file__).resolve().parents[3]
PAGE = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^## (\d+)\. ([^\n]+\?)\n\n```sql\n(.*?;)\n```$", re.MULTILINE | re.DOTALL)
RECIPES = SECTION.findall(PAGE)
MARTS = (ROOT / "docs" / "marts.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^## (\w+)\n\n[^\n]+\?\n\n```sql\n(.*?;)\n```\n", MARTS, re.MULTILINE | re.DOTALL)


def test_questions_are_counted():
    """Each has a number and one query."""
    assert [int(number) for number, _, _ in RECIPES] == list(range(1, len(RECIPES) + 1))
    assert PAGE.count("\n## ") == PAGE.count("```sql") == len(RECIPES) > 0


@pytest.mark.sampled(9)
@pytest.mark.parametrize("recipe", RECIPES, ids=[question for _, question, _ in RECIPES])
def test_a_question_has_an_answer(connection, recipe):
    """The query runs and gives rows where its subject occurs."""
    assert connection.execute(recipe[2]).fetchall()


def test_every_view_for_people_is_listed():
    """The page names each file of sql/marts; its sections are about some of them, with one query each."""
    marts = {path.stem for path in (ROOT / "sql" / "marts").glob("*.sql")}
    listed, _, sections = MARTS.partition("\n## ")
    assert marts == {name for row in re.findall(r"^\| .+ \| .+ \|$", listed, re.MULTILINE) for name in _names(row)}
    assert {mart for mart, _ in QUERIES} <= marts
    assert len(QUERIES) == sections.count("```sql")


def _names(row):
    return re.findall(r"`(\w+)`", row)


@pytest.mark.parametrize("section", QUERIES, ids=[mart for mart, _ in QUERIES])
def test_a_view_has_its_query(connection, section):
    """The query of a section reads its view and gives rows where everything happened."""
    mart, query = section
    assert f"from {mart}\n" in query
    assert connection.execute(query).fetchall()


@pytest.mark.thorough
def test_the_python_on_the_page_runs(tmp_path):
    """The block of Python works on a store with what the product declares."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    root = create_store(tmp_path / "store").root
    done = _python(tmp_path, "-c", block.replace("stores/demo", str(root)))
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("analysis", "95%, clustered by task"),
        ("frames", "gain of asking"),
        ("paper", "value-scatter.pdf"),
    ],
)
def test_an_example_runs(tmp_path, name, printed):
    """Every example runs on a real store with what the product declares, and prints what it found."""
    anyio.run(write_events, tmp_path / "store", busy_store().envelopes)
    done = _python(tmp_path, f"examples/{name}.py", str(tmp_path / "store"), str(tmp_path / "out"))
    assert (done.returncode, done.stderr) == (0, "")
    assert printed in done.stdout


@pytest.mark.thorough
def test_the_example_that_runs_an_experiment(tmp_path):
    """Progress and the table are printed; a failure is an error of ours."""
    write_experiment(tmp_path / "e.toml", conditions=["full"], trials=1)
    done = _python(tmp_path, "examples/run.py", str(tmp_path / "e.toml"), str(tmp_path / "store"))
    assert (done.returncode, done.stderr) == (0, "")
    assert "pass_at_k" in done.stdout
    with pytest.raises(RunnerError, match="exit code"):
        lhaw_record.run(tmp_path / "absent.toml")


@pytest.mark.thorough
def test_a_store_in_python(tmp_path):
    """Views are attributes and frames, tables are filtered, notebooks get HTML, and wrong names are answered."""
    anyio.run(write_events, tmp_path / "store", busy_store().envelopes)
    with lhaw_record.open(tmp_path / "store") as store:
        rows = store.trials.rows()
        assert len(store.trials) == len(rows) == store.trials.arrow().num_rows > 0
        assert "<table>" in store.trials._repr_html_()
        assert f"{len(rows):,} rows" in store.trials._repr_html_()
        cells = store.sql("select 'x' as name, 1 as n")._repr_html_()
        assert ('left">name</th>' in cells, 'right">1</td>' in cells) == (True, True)
        assert "<tbody></tbody>" in store.sql("select 1 as n where false")._repr_html_()
        assert repr(store) == f"lhaw_record.open({str(tmp_path / 'store')!r})"
        table = store.table("overall", agent=["a"], measure=["pass_at_1"])
        assert {(row["agent"], row["measure"]) for row in table.rows()} == {("a", "pass_at_1")}
        assert table.notes[0] in table._repr_html_()
        assert store.figure("wasted", agent=["a"])._repr_svg_().lstrip().startswith("<?xml")
        with pytest.raises(AttributeError, match="did you mean 'trials'"):
            store.trails  # noqa: B018 - it is the access that fails
        with pytest.raises(AnalyticsError, match="the query failed"):
            store.sql("selec 1")
        assert {"trials", "overall", "events"} <= set(dir(store))
        assert store.table("overall", agent="a").rows() == store.table("overall", agent=["a"]).rows()
        for draw in (store.table, store.figure):
            with pytest.raises(UnknownName, match="no row has the agent 'nope'"):
                draw("voi", agent=["nope"])
        empty = store.table("overall", agent="a", condition="control")
        assert empty.rows() == []
        assert empty.arrow().column_names == list(empty.df().columns) == empty.pl().columns == list(table.table.columns)
        twice = store.sql("select 1 as x, 2 as x, 3 as x_2")
        assert twice.rows() == [{"x": 1, "x_3": 2, "x_2": 3}]
        assert twice.columns == ["x", "x_3", "x_2"]
        trials = store.trials
    for closed in (
        lambda: len(trials),
        trials.rows,
        trials.arrow,
        lambda: store.table("voi"),
        lambda: store.figure("voi"),
    ):
        with pytest.raises(AnalyticsError, match="the store is closed"):
            closed()


def _python(folder, *arguments):
    """Run Python where what only the extra `dev` brings cannot be imported."""
    absent = folder / "absent"
    absent.mkdir()
    for requirement in tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]:
        name = re.match(r"[\w-]+", requirement)[0].replace("-", "_")
        (absent / f"{name}.py").write_text("raise ModuleNotFoundError(f'{__name__} is of the extra dev')\n")
    environment = {**os.environ, "PYTHONPATH": f"{absent}{os.pathsep}{ROOT}"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
