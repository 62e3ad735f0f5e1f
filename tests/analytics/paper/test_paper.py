"""A paper's tables and figures: fair claims, the same numbers in each format, files that compile, clear errors."""

import html
import json
import re
import shutil
import subprocess

import anyio
import msgspec
import pytest

from lhaw_record.analytics.errors import AnalyticsError
from lhaw_record.analytics.paper import PRESETS, make, read_spec, spec_and_text
from lhaw_record.analytics.paper.paper import PaperTable, write_spec
from lhaw_record.analytics.paper.pivot import Empty, pivot
from lhaw_record.analytics.paper.render import to_html, to_latex, to_markdown
from lhaw_record.analytics.paper.spec import TableChoice
from lhaw_record.analytics.tables.catalogue import ORDERS
from lhaw_record.analytics.tables.filters import Filter
from lhaw_record.analytics.tables.labels import label, measure_of, printed
from lhaw_record.analytics.tables.tables import TABLES, Table, table
from lhaw_record.analytics.views.parameters import values_of
from lhaw_record.command_line import main
from lhaw_record.recorder.events import RunStarted, TrialStarted
from lhaw_record.recorder.events.values import CONDITIONS
from lhaw_record.recorder.storage.creation import create_store
from tests.analytics.make_store import write_events
from tests.analytics.views.test_views import busy_store
from tests.support.once import made_once

KEYS = ("benchmark", "agent", "condition", "measure")


def row(agent, condition, value, low, high, **more):
    """A row of a table that was computed by nobody."""
    return {
        "benchmark": "tac",
        "agent": agent,
        "condition": condition,
        "measure": "pass_at_k",
        "value": value,
        "low": low,
        "high": high,
        "n_units": 10,
        "n_clusters": 5,
        "n_trials": 30,
        "n_missing": 0,
        "reason": None,
        **more,
    }


def pivoted(computed, unequal=(), only=None, **choice):
    """Those rows, with agents in lines and conditions in columns."""
    one = Table(name="overall", title="t", keys=KEYS, columns=tuple(computed[0]), rows=tuple(computed), notes=())
    chosen = TableChoice(table="overall", columns=("condition",), **choice)
    return pivot(one, chosen, names={"b": "Agent B"}, parameters=values_of({}), unequal=unequal, only=only)


@pytest.mark.parametrize(
    ("others", "unequal", "best"),
    [
        pytest.param([row("b", "full", 0.5, 0.4, 0.59)], (), ["a"], id="apart"),
        pytest.param([row("b", "full", 0.5, 0.4, 0.6)], (), [], id="intervals touch"),
        pytest.param([row("b", "full", 0.9, 0.61, 0.95)], (), [], id="the larger one overlaps"),
        pytest.param([row("b", "full", 0.5, None, None, reason="no_variation")], (), [], id="no interval"),
        pytest.param([row("b", "full", 0.5, 0.4, 0.5, n_units=9)], (), [], id="other units"),
        pytest.param([row("b", "full", 0.5, 0.4, 0.5)], ("tac",), [], id="other variants"),
        pytest.param([row("all", "full", 0.5, 0.4, 0.5)], (), [], id="a pool is no agent"),
        pytest.param([row("b", "full", 0.1, 0, 0.2), row("c", "full", 0.55, 0.5, 0.65)], (), [], id="one of two"),
    ],
)
def test_only_a_fair_claim_is_in_bold(others, unequal, best):
    """Bold is the best agent whose interval overlaps no other, over the same units, and the rule is said."""
    made = pivoted([row("a", "full", 0.8, 0.6, 0.95), *others], unequal)
    assert [line.name for line in made.lines if line.cells[0].is_best] == best
    assert (r"\textbf{80.0}" in to_latex(made)) == ("**80.0**" in to_markdown(made)) == bool(best)
    agents = {each["agent"] for each in others} - {"all"}
    assert any(remark.startswith("bold") for remark in made.remarks) == bool(agents)


def test_a_pool_is_as_unequal_as_its_benchmarks():
    """The pool of benchmarks is not in bold if the agents met different variants in one of them; the other is."""
    rows = [
        row(agent, "full", value, value - 0.1, value + 0.1, benchmark=benchmark)
        for benchmark in ("tac", "desk", "all")
        for agent, value in (("a", 0.8), ("b", 0.2))
    ]
    made = pivoted(rows, ("desk",), rows=("benchmark", "agent"))
    assert [line.heading for line in made.lines if line.cells[0].is_best] == ["TheAgentCompany"]
    assert any("agents of all benchmarks, desk ran on different tasks or variants" in each for each in made.remarks)
    equal = pivoted(rows, ("absent",), rows=("benchmark", "agent"))
    assert len([line for line in equal.lines if line.cells[0].is_best]) == 3


def test_bold_does_not_depend_on_the_agents_that_are_shown():
    """The best agent shown is not in bold if a hidden one is better; the rule says who was compared."""
    values = {"a": 0.9, "b": 0.5, "c": 0.1}
    rows = [row(agent, "full", value, value - 0.1, value + 0.1) for agent, value in values.items()]
    made = pivoted(rows, only=Filter({"agent": ("b", "c")}))
    assert [(line.name, line.cells[0].is_best) for line in made.lines] == [("Agent B", False), ("c", False)]
    assert any("best of a column among 3 agents, of which 2 are shown if" in each for each in made.remarks)
    alone = pivoted(rows, only=Filter({"agent": ("a",)}))
    assert [line.cells[0].is_best for line in alone.lines] == [True]
    assert any("only agent a: 2 rows are not shown" in each for each in alone.cautions)


def test_what_is_kept_may_not_be_shown():
    """A table keeps an agent of the store that the command does not show: it is left out. A wrong name is an error."""
    rows = [row("a", "full", 0.8, 0.6, 0.9), row("b", "full", 0.8, 0.6, 0.9)]
    with pytest.raises(Empty, match="no row"):
        pivoted(rows, only=Filter({"agent": ("b",)}), keep={"agent": ("a",)})
    with pytest.raises(AnalyticsError, match="no row has the agent 'c'"):
        pivoted(rows, only=Filter({"agent": ("b",)}), keep={"agent": ("c",)})


def test_less_is_better_where_it_is():
    """The best share of wasted work is the smallest."""
    rows = [
        row(name, "full", value, value - 1, value + 1, measure="wasted_pct") for name, value in (("a", 9), ("b", 3))
    ]
    assert [line.cells[0].is_best for line in pivoted(rows).lines] == [False, True]


def test_gains_stand_behind_values_and_holes_have_reasons():
    """A cell reads like 47.0 (+31.0); what is not defined is a dash with a letter, and the letter has its reason."""
    gain = {"measure": "pass_at_k_gain", "n_trials": 60}
    made = pivoted(
        [
            row("a", "ask_user", 0.47, 0.301, 0.639),
            row("a", "ask_user", 0.31, 0.12, 0.5, **gain),
            row("b", "ask_user", 0.2, None, None, reason="too_few_clusters"),
            row("b", "ask_user", None, None, None, reason="one_arm_only", **gain),
            row("b", "full", None, None, None, reason="not_run"),
        ],
        gains=True,
    )
    latex, text = to_latex(made), to_markdown(made)
    assert r"47.0 & ($+$31.0)" in latex
    assert r"{\scriptsize {[}30.1, 63.9{]}} & {\scriptsize {[}$+$12.0, $+$50.0{]}}" in latex
    assert "| a |  | 47.0 [30.1, 63.9] (+31.0 [+12.0, +50.0]) |" in text
    assert "| Agent B | —<sup>a</sup> | 20.0<sup>b</sup> (—<sup>c</sup>) |" in text
    assert r"Agent B & ---\textsuperscript{a} & 20.0\textsuperscript{b} & (---\textsuperscript{c})" in latex
    assert list(made.reasons) == ["a", "b", "c"]
    assert made.reasons["a"] == "not run"
    assert "n = 10 units of 5 tasks, 30 trials" in made.caption


def test_what_is_kept_and_in_no_row_is_said():
    """A kept condition that the table lacks, or lacks beside the kept measure, is named below the table."""
    rows = [row("a", "full", 0.8, 0.6, 0.9), row("a", "ask_user", 3, 2, 4, measure="ask_pct")]
    keep = {"measure": ("pass_at_k",), "condition": ("full", "ask_user", "inject_50")}
    made = pivoted(rows, keep=keep)
    assert made.absent == ("condition ask_user (may ask)", "condition inject_50 (told at 50 %)")
    for text in (to_latex(made).replace(r"\_", "_").replace(r"\%", "%"), to_markdown(made), to_html(made)):
        assert "n keep, but in no row: condition inject_50 (told at 50 %)" in text
    assert pivoted(rows[:1], keep={"condition": ("full",)}).absent == ()


def test_a_reason_that_every_cell_has_is_said_once():
    """With too few tasks no cell carries a letter: the caption says why there are no intervals; else letters do."""
    few = [row("a", condition, 0.5, None, None, reason="too_few_clusters") for condition in ("full", "ask_user")]
    made = pivoted(few)
    assert made.reasons == {}
    assert "No intervals, too few clusters: an interval needs 5 tasks for levels" in made.caption
    assert "textsuperscript" not in to_latex(made)
    mixed = pivoted([few[0], row("a", "ask_user", 0.5, 0.4, 0.6)])
    undefined = pivoted([few[0], row("a", "ask_user", None, None, None, reason="too_few_clusters")])
    assert list(mixed.reasons) == list(undefined.reasons) == ["a"]


def test_a_pool_of_one_agent_is_not_printed():
    """Rows of all agents say nothing new where there is one; where there are two, or the pool holds more, they stay."""
    one = [row("a", "full", 0.8, 0.6, 0.9), row("all", "full", 0.8, 0.6, 0.9)]
    assert [line.name for line in pivoted(one).lines] == ["a"]
    assert [line.name for line in pivoted(one, keep={"agent": ("all",)}).lines] == ["all agents"]
    pool = row("all", "full", 0.7, 0.6, 0.9, n_trials=60)
    both = [one[0], row("b", "full", 0.6, 0.5, 0.7), pool]
    assert [line.name for line in pivoted(both).lines] == ["a", "Agent B", "all agents"]
    kept = pivoted(both, only=Filter({"agent": ("a", "all")}))
    assert [line.name for line in kept.lines] == ["a", "all agents"]


@pytest.mark.thorough
def test_many_columns_have_their_gains_below(connection):
    """All conditions fit on a page: gains stand below their values, and every line has as many cells as the others."""
    spec, _ = spec_and_text("conditions")
    made = pivot(table(connection, "overall"), spec.tables[0], names={}, parameters=values_of({}))
    conditions = [head[-1] for head in made.heads]
    assert conditions[:3] == ["full prompt", "underspecified", "may ask"]
    assert sum(each.startswith("told at") for each in conditions) == 5
    body = to_latex(made).partition(r"\midrule")[2].partition(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if " & " in line]
    assert {line.count(" & ") for line in lines} == {len(conditions)}
    assert any(line.startswith(" & ") and " & (" in line for line in lines)


def test_long_names_take_lines_and_not_width():
    """A name of 47 letters stands on two lines, none longer than 26, with every letter; heads do so, too."""
    name = "agent_of_a_very_long_name_that_goes_on_and_on_40"
    made = pivoted([row(name, "full", 0.8, None, None, reason="count"), row("b", "full", 0.8, None, None)])
    latex = to_latex(made).replace(r"\_", "_")
    (first,) = (line for line in latex.splitlines() if line.startswith("agent_of"))
    second = latex.splitlines()[latex.splitlines().index(first) + 1]
    assert [first.partition(" & ")[0], second] == [
        "agent_of_a_very_long_name_",
        r"that_goes_on_and_on_40 &  \\[0.25em]",
    ]
    one = Table(name="overall", title="t", keys=KEYS, columns=(), rows=(row(name, "full", 1, 1, 1),), notes=())
    across = TableChoice(table="overall", rows=("condition",), columns=("agent",))
    head = to_latex(pivot(one, across, names={}, parameters=values_of({}))).replace(r"\_", "_")
    assert r"\shortstack{agent_of_a_\\very_long_\\name_that_\\goes_on_and_\\on_40}" in head


def test_a_key_without_a_place_is_named():
    """A table in which a cell would have two values is refused, with what to keep; one without rows is left out."""
    with pytest.raises(AnalyticsError, match=r"key 'benchmark' has several values \(tac, desk\).*keep = \{ benchmark"):
        pivoted([row("a", "full", 1, 1, 1), row("a", "full", 1, 1, 1, benchmark="desk")], rows=("agent",))
    with pytest.raises(AnalyticsError, match="no row has the agent 'blanced'; did you mean 'balanced'"):
        pivoted([row("balanced", "full", 1, 1, 1)], keep={"agent": ("blanced",)})
    with pytest.raises(Empty, match="no row"):
        pivoted([row("a", "full", 1, 1, 1)], keep={"condition": ("control",)})


def test_two_are_not_called_alike():
    """Two agents that 'names' calls alike would be two lines of one name."""
    rows = [row("a", "full", 1, 1, 1), row("b", "full", 1, 1, 1)]
    one = Table(name="overall", title="t", keys=KEYS, columns=tuple(rows[0]), rows=tuple(rows), notes=())
    for chosen in ({"columns": ("condition",)}, {"rows": ("condition",), "columns": ("agent",)}):
        choice = TableChoice(table="overall", **chosen)
        with pytest.raises(AnalyticsError, match="two values have the name 'Same' in 'names'"):
            pivot(one, choice, names={"a": "Same", "b": "Same"}, parameters=values_of({}))


def numbers(text):
    """The numbers of a text with a decimal point, in their order."""
    plain = html.unescape(re.sub(r"</?[a-z][^>]*>", " ", text.replace("$", "")))
    return sorted(re.findall(r"[<>]?[+-]?\d+\.\d+(?!em)", plain))


@pytest.mark.parametrize("name", ["overall", pytest.param("voi", marks=pytest.mark.thorough)])
def test_every_format_has_the_same_numbers(connection, name):
    """LaTeX, Markdown and HTML print the same numbers, and every value of the table is among them."""
    rows = ("benchmark", "dimension", "agent") if name == "voi" else ("benchmark", "agent")
    found = table(connection, name)
    made = pivot(found, TableChoice(table=name, rows=rows), names={}, parameters=values_of({}))
    body = to_html(made).partition("<tbody>")[2].partition("</tbody>")[0]
    latex = re.sub(r"\\(addlinespace|\\)\[.*?\]|\\hspace\{.*?\}|%.*", "", to_latex(made))
    assert numbers(latex.partition(r"\midrule")[2].partition(r"\bottomrule")[0]) == numbers(body)
    cells = "\n".join(line for line in to_markdown(made).splitlines() if line.startswith("| "))
    assert numbers(cells) == numbers(body)
    for each in found.rows:
        if each["value"] is not None and each["reason"] != "count":
            assert printed(each["measure"], each["value"]) in numbers(body)


def test_every_line_of_latex_has_the_same_columns(connection):
    """The cells of every line, spans included, are as many as the columns that are declared."""
    made = pivot(
        table(connection, "overall"), TableChoice(table="overall", gains=True), names={}, parameters=values_of({})
    )
    text = to_latex(made)
    shape = re.sub(r"@\{[^{}]*(\{[^{}]*\})?[^{}]*\}", "", re.search(r"begin\{tabular\}\{(.*)\}\n", text)[1])
    body = text.partition(r"\toprule")[2].partition(r"\bottomrule")[0]
    lines = [line for line in body.splitlines() if r" \\" in line]
    for line in lines:
        spans = sum(int(count) - 1 for count in re.findall(r"\\multicolumn\{(\d+)\}", line))
        assert len(re.findall(r"(?<!\\)&", line)) + 1 + spans == len(shape)
    assert len(lines) > 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[tables]\n", "not valid TOML"),
        ("title = 3\n[[tables]]\ntable = 'overall'\n", ": title: expected `str`, got `int`"),
        ("[[tables]]\ntable = 'overal'\n", ": tables[0].table: there is no table 'overal'; did you mean 'overall'?"),
        (
            "[[tables]]\ntable = 'voi'\n\n[[tables]]\ntable = 'overall'\ngain = true\n",
            ": tables[1].gain: there is no",
        ),
        (
            "[[tables]]\ntable = 'overall'\nrows = ['agnet']\n",
            ": tables[0].rows: overall has no key 'agnet'; did you",
        ),
        ("[[tables]]\ntable = 'overall'\nrows = ['agent', 'agent']\n", "'agent' cannot occur twice"),
        (
            "[[tables]]\ntable = 'overall'\n[tables.keep]\nagents = ['a']\n",
            ": tables[0].keep.agents: overall has no key",
        ),
        ("[[tables]]\ntable = 'overall'\nkeep.agents = ['a']\n", ": tables[0].keep.agents: overall has no key"),
        ("[[tables]]\ntable = 'overall'\nintervals = 1\n", ": tables[0].intervals: expected `bool`"),
        (
            "[[tables]]\ntable = 'trial_counts_and_cost'\n",
            ": tables[0].table: trial_counts_and_cost has no estimates",
        ),
        ("[[tables]]\ntable = 'overall'\nname = 'A b'\n", ": tables[0].name: 'A b' is no valid file name"),
        ("[[figures]]\nfigure = 'vio'\n", ": figures[0].figure: there is no figure 'vio'; did you mean 'voi'?"),
        ("[settings]\nk = 0\n", ": settings.k: k = 0 is out of range"),
        ("[settings]\nkk = 0\n", ": settings.kk: there is no parameter 'kk'"),
        ("title = 'x'\n", "names no table and no figure"),
    ],
)
def test_an_error_names_the_key(text, said):
    """Whatever is wrong with a specification is said with its place."""
    with pytest.raises(AnalyticsError) as caught:
        read_spec(text, "p.toml")
    assert str(caught.value).startswith("p.toml")
    assert said in str(caught.value)


@pytest.mark.thorough
def test_people_have_names_for_everything(connection):
    """No condition or measure is called by its name in the code, and no two are called alike."""
    measures = {each["measure"] for name in TABLES for each in table(connection, name).rows if "measure" in each}
    for key, values in (("condition", CONDITIONS), ("measure", measures | set(ORDERS["measure"]))):
        called = [label(key, value, 3) + measure_of(value).unit for value in values]
        assert not [text for text in called if "_" in text]
        assert sorted(set(called)) == sorted(called)


def test_no_number_that_is_not_0_reads_as_0():
    """Small ones say below what they are; a gain has its sign."""
    assert [printed("pass_at_k", value) for value in (0.47, 0.00001, 0.0, 1)] == ["47.0", "<0.1", "0.0", "100.0"]
    assert [printed("pass_at_k_gain", value, is_signed=True) for value in (0.31, -0.00001, 0)] == [
        "+31.0",
        ">-0.1",
        "0.0",
    ]


SMALL = """
[[tables]]
table = "overall"
gains = true
keep.measure = ["pass_at_k"]

[[figures]]
figure = "value_scatter"
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A store with the busy store's events."""
    return made_once(
        tmp_path_factory, "busy-store", lambda folder: anyio.run(write_events, folder, busy_store().envelopes)
    )


@pytest.mark.thorough
def test_the_command_writes_everything(stored, tmp_path, capsys):
    """Tables, figures with embedded fonts, paper.tex, paper.md and paper.toml, which makes the same bytes again."""
    (tmp_path / "s.toml").write_text(SMALL)
    out = tmp_path / "out"
    arguments = ["paper", str(stored), str(tmp_path / "s.toml"), "--output", str(out), "--agent", "a"]
    assert main(arguments) == 1, "the busy store breaks a claim, on purpose"
    written = capsys.readouterr().out.split()
    first = {path: (out / path).read_bytes() for path in ("paper.tex", "paper.md", "tables/overall.tex")}
    assert {str(out / path) for path in (*first, "figures/value-scatter.pdf", "paper.toml")} <= set(written)
    assert b"\\input{tables/overall}" in first["paper.tex"]
    assert b"| b |" not in first["paper.md"]
    picture = (out / "figures/value-scatter.pdf").read_bytes()
    assert b"/FontFile2" in picture
    assert b"/Type3" not in picture
    assert b"<text" not in (out / "figures/value-scatter.svg").read_bytes()
    for path in first:
        (out / path).unlink()
    arguments[2] = str(out / "paper.toml")
    assert main(arguments) == 1
    assert {path: (out / path).read_bytes() for path in first} == first
    (out / "paper.toml").write_text(SMALL + "# mine")
    main([*arguments[:2], str(tmp_path / "s.toml"), *arguments[3:], "--compare"])
    assert "is not overwritten" in capsys.readouterr().err
    assert "no printed values for: overall" in (out / "paper.md").read_text()
    assert (out / "paper.toml").read_text() == SMALL + "# mine"


def test_a_specification_that_somebody_worked_in_stays(tmp_path):
    """The folder gets the specification of what is in it, unless it has another one."""
    assert write_spec("a", tmp_path) == write_spec("a", tmp_path) == tmp_path / "paper.toml"
    (tmp_path / "paper.toml").write_text("edited")
    assert write_spec("a", tmp_path) is None
    assert (tmp_path / "paper.toml").read_text() == "edited"


@pytest.mark.thorough
def test_what_cannot_be_made_is_said(stored, tmp_path, capsys):
    """An unknown preset, file or agent, and a folder that cannot be made."""
    (tmp_path / "s.toml").write_text(SMALL)
    assert main(["paper", str(stored), "lhwa"]) == 1
    assert "presets conditions, lhaw, ask-early" in capsys.readouterr().err
    (tmp_path / "f.toml").write_text(SMALL.replace("[[tables]]", 'names = { bb = "B" }\n[[tables]]', 1))
    main(["paper", str(stored), str(tmp_path / "f.toml"), "--output", str(tmp_path / "out")])
    assert "names has 'bb', which is in no table; did you mean" in capsys.readouterr().err
    (tmp_path / "f.toml").write_text(SMALL + 'keep.agent = ["aa"]\n')
    assert main(["paper", str(stored), str(tmp_path / "f.toml"), "--output", str(tmp_path / "out")]) == 1
    assert "figure value-scatter: keep: no row has the agent 'aa'; did you mean 'a'?" in capsys.readouterr().err
    assert main(["paper", str(create_store(tmp_path / "empty").root), "lhaw", "--output", str(tmp_path / "out")]) == 1
    assert "main is left out: no rows" in capsys.readouterr().err
    assert main(["paper", str(stored), str(tmp_path / "s.toml"), "--agent", "z"]) == 1
    assert "no row has the agent 'z'" in capsys.readouterr().err
    assert main(["paper", str(stored), str(tmp_path / "s.toml"), "--output", str(tmp_path / "s.toml")]) == 1
    assert "a file is in the way of a folder, so name another place" in capsys.readouterr().err


def compile_latex(folder):
    """Compile paper.tex; where there is no pdflatex, the checks of columns and characters are what there is."""
    if not shutil.which("pdflatex"):
        return
    done = subprocess.run(
        ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "paper.tex"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    assert not re.search(r"Overfull|Float too large|Missing character|Rerun", done.stdout)


@pytest.mark.thorough
@pytest.mark.parametrize("has_intervals", ["true", "false"])
def test_a_table_longer_than_a_page_is_split(stored, tmp_path, has_intervals):
    """Its parts have one number and one label, hold each line once, and compile with none too large."""
    spec = f"""
[[tables]]
table = "overall"
rows = ["condition", "measure"]
columns = ["agent"]
intervals = {has_intervals}
"""
    paper = make(stored, read_spec(spec, "spec"))
    ((name, short),) = paper.tables.items()
    table = PaperTable(msgspec.structs.replace(short.pivot, lines=short.pivot.lines * 5))
    parts = table.latex.split(r"\begin{table}")[1:]
    assert len(parts) > 1
    assert table.latex.count(r"\label{") == 1
    assert table.latex.count(r"\addtocounter{table}{-1}") == len(parts) - 1
    rows = [line for line in table.latex.splitlines() if re.match(r"[^\\ ].* & .*[\d-].* \\\\", line)]
    assert len(rows) == len(table.pivot.lines) + len(parts)  # and their heads
    msgspec.structs.replace(paper, tables={name: table}).write(tmp_path)
    compile_latex(tmp_path)


@pytest.mark.thorough
@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_compiles(stored, tmp_path, name):
    """The presets fit a store; their LaTeX compiles with nothing wider or longer than the page, all fonts embedded."""
    spec, _ = spec_and_text(name)
    paper = make(stored, spec)
    assert {*paper.tables, *paper.figures, *paper.left_out} == {each.label for each in (*spec.tables, *spec.figures)}
    paper.write(tmp_path)
    compile_latex(tmp_path)
    if shutil.which("pdffonts") and (tmp_path / "paper.pdf").exists():
        fonts = subprocess.run(["pdffonts", "paper.pdf"], cwd=tmp_path, capture_output=True, text=True, check=True)
        lines = fonts.stdout.splitlines()[2:]
        assert lines
        assert all(re.search(r" yes +(yes|no) +(yes|no) +\d+ +\d+$", line) for line in lines)
        assert "Type 3" not in fonts.stdout


def told_apart(envelopes):
    """Events of a store whose trials were measured with two versions, and whose plan lacks two tasks."""
    for place, each in enumerate(envelopes):
        if isinstance(each.event, TrialStarted):
            event = msgspec.structs.replace(each.event, instruments=f"endings {place % 2}")
        elif isinstance(each.event, RunStarted):
            config = json.dumps({**json.loads(each.event.config_json), "benchmark": {"name": "desk"}})
            event = msgspec.structs.replace(each.event, config_json=config, left_out_tasks=("lost-1", "lost-2"))
        else:
            continue
        envelopes[place] = msgspec.structs.replace(each, event=event)
    return envelopes


@pytest.mark.thorough
def test_captions_and_exports_say_what_is_mixed_or_left_out(tmp_path, capsys):
    """Whoever reads one table, one figure or one export of a store learns of both; others stay as they are."""
    store, said = tmp_path / "store", "mixed instruments: endings 0; endings 1"
    anyio.run(write_events, store, told_apart(busy_store().envelopes))
    paper = make(store, spec_and_text("lhaw")[0])
    captions = [each.pivot.caption for each in paper.tables.values()] + [
        each.caption for each in paper.figures.values()
    ]
    assert len(captions) > 2
    assert all(said in text.replace("Mixed", "mixed") and "(allow_left_out): 2" in text for text in captions)
    assert main(["figures", str(store), "value_scatter", "--output", str(tmp_path)]) == 0
    assert said in (tmp_path / "value_scatter.svg").read_text()
    capsys.readouterr()
    for name, file in (("hf", "hf"), ("training", "training"), ("trials", "t.json"), ("duckdb", "d.duckdb")):
        assert main(["export", name, str(store), "-o", str(tmp_path / file)]) == 0
        assert "left out: 2 tasks (allow_left_out): lost-1, lost-2" in capsys.readouterr().err
    cards = [(tmp_path / name / "README.md").read_text() for name in ("hf", "training")]
    assert all("Left out: 2 tasks (allow_left_out): lost-1, lost-2." in card for card in cards)
