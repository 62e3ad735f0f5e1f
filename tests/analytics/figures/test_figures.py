"""Figures: equal for equal stores, empty with a reason, whole whatever the names are, and texts beside each other."""

import argparse
import re
from contextlib import closing
from itertools import combinations
from xml.etree import ElementTree as ET

import pytest

from lhaw_record.analytics.cli import figure_commands
from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.figures import FIGURES, draw, spec_of, to_bytes
from lhaw_record.analytics.figures.drawing import SERIES, named, styled
from lhaw_record.analytics.views.store import below_tables, connect, read_for
from lhaw_record.recorder.cli.command import add_commands
from lhaw_record.recorder.resources import data_path
from tests.analytics.make_store import Store
from tests.analytics.report.pages import hostile_store
from tests.analytics.views.test_views import busy_store
from tests.synthetic.design import Design
from tests.synthetic.making import make_store

CONTROL = "[\x00-\x08\x0b\x0c\x0e-\x1f]"


@pytest.fixture
def busy(connection):
    """The connection to the busy store."""
    return connection


@pytest.fixture(scope="module")
def reordered():
    """A connection to the busy store whose events are read in the opposite order."""
    store = busy_store()
    opened = connect(store.snapshot(store.envelopes[::-1]), only=below_tables())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def hostile():
    """A connection to a store with hostile names."""
    opened = connect(hostile_store().snapshot(), only=below_tables())
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def empty():
    """A connection to a store without trials."""
    opened = connect(Store().snapshot(), only=below_tables())
    yield opened
    opened.close()


def texts_of(svg):
    """The texts of a picture."""
    root = ET.fromstring(svg)
    return ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.thorough
@pytest.mark.parametrize("name", FIGURES)
def test_equal_stores_give_equal_files(busy, reordered, name):
    """Two drawings from differently ordered events are equal to the byte, as SVG and as PNG."""
    one, other = draw(busy, name), draw(reordered, name)
    for form in ("svg", "png"):
        assert to_bytes(one, form) == to_bytes(other, form)


@pytest.mark.sampled(14)
@pytest.mark.parametrize("name", FIGURES)
def test_an_empty_store_gives_a_reason(empty, name):
    """Without anything to draw the picture holds its title and why, and no axes."""
    reason, title = texts_of(to_bytes(draw(empty, name), "svg"))
    assert title == spec_of(name).title
    assert re.search(r"\bno\b|nobody", reason)


@pytest.mark.thorough
@pytest.mark.parametrize("name", FIGURES)
def test_any_name_is_drawn_as_text(hostile, name):
    """Markup, dollars, underscores and control characters in names give a valid picture that shows them as text."""
    figure = draw(hostile, name)
    svg = to_bytes(figure, "svg")
    assert not re.search(CONTROL.encode(), svg)
    root = ET.fromstring(svg)
    assert {each.tag.rpartition("}")[2] for each in root.iter()}.isdisjoint({"script", "img", "image", "b"})
    assert to_bytes(figure, "png").startswith(b"\x89PNG")


@pytest.mark.thorough
@pytest.mark.parametrize("name", FIGURES)
def test_text_has_one_size(hostile, name):
    """All texts of all figures are equally large, but for the title."""
    from matplotlib.text import Text

    figure = draw(hostile, name)
    assert {each.get_size() for each in figure.findobj(Text) if each.get_text()} <= {8.5, 10.5}


@pytest.mark.thorough
def test_a_pair_without_an_order_is_not_drawn():
    """Two agents that succeed always have no rank correlation, so there is no picture of it."""
    store = Store(trials=1)
    store.task("t")
    store.variant("t", "v", ambiguity_class="benign", classified_by="authors")
    for agent in ("a", "b"):
        store.budget("t", (4,), 4, agent=agent)
        for percent in (10, 50, 90):
            keys = {"budget": 4, "injected_after": max(1, 4 * percent // 100)}
            store.trial("v", f"inject_{percent}", 0, agent=agent, actions=["read a"] * 4, **keys)
    with closing(connect(store.snapshot(), only=read_for(["kendall"]))) as opened:
        reason, _ = texts_of(to_bytes(draw(opened, "kendall"), "svg"))
    assert reason.startswith("no pair of agents has a value")


@pytest.mark.thorough
def test_a_measure_without_values_has_no_panel():
    """With one trial of each cell pass@3 is undefined: only the progress is drawn."""
    store = Store(trials=1)
    store.task("t")
    store.variant("t", "v")
    store.trial("v", "underspecified", 0, scores=(0,))
    store.trial("v", "ask_user", 0, scores=(1,), actions=["ask_user which?", "submit"])
    with closing(connect(store.snapshot(), only=read_for(["overall"]))) as opened:
        figure = draw(opened, "value_scatter")
    assert [axes.get_ylabel() for axes in figure.axes] == ["progress, may ask"]


@pytest.mark.sampled(12)
@pytest.mark.parametrize("store", ["busy", "hostile"])
@pytest.mark.parametrize("name", FIGURES)
def test_texts_do_not_overlap(request, store, name):
    """Every text lies inside the picture, and no two of them cover each other."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.text import Text

    figure = draw(request.getfixturevalue(store), name)
    with styled():
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        renderer = canvas.get_renderer()
        undrawn = {text for axes in figure.axes for axis in (axes.xaxis, axes.yaxis) for text in _undrawn(axis)}
        drawn = {
            (number, text.get_text()): text.get_window_extent(renderer)
            for number, text in enumerate(figure.findobj(Text))
            if text not in undrawn and text.get_visible() and text.get_text().strip()
        }
    width, height = canvas.get_width_height()
    outside = [
        key[1] for key, box in drawn.items() if box.x0 < -1 or box.y0 < -1 or box.x1 > width + 1 or box.y1 > height + 1
    ]
    assert outside == []
    covering = [
        (one[1], other[1])
        for (one, box), (other, another) in combinations(drawn.items(), 2)
        if min(box.x1, another.x1) - max(box.x0, another.x0) > 1
        and min(box.y1, another.y1) - max(box.y0, another.y0) > 1
    ]
    assert covering == []


def _undrawn(axis):
    """The labels of an axis that stand outside its range, or belong to an axis that is switched off."""
    low, high = sorted(axis.get_view_interval())
    for place, label in zip(axis.get_ticklocs(), axis.get_ticklabels(), strict=True):
        if not low <= place <= high or not axis.axes.axison:
            yield label


def test_a_figure_shows_the_values_of_its_table(busy):
    """What stands on the axes is what the table says: here the pooled curve of one dimension."""
    rows = busy.execute(
        """
        select condition, value from voi
        where agent = 'all' and measure = 'pass_at_1' and dimension = 'goal' and condition like 'inject%'
        order by condition
        """
    ).fetchall()
    axes = next(each for each in draw(busy, "voi").axes if each.get_title(loc="left") == "goal")
    pooled = next(each for each in axes.containers if each.get_label() == "all agents")
    assert list(pooled.lines[0].get_ydata()) == [value for _, value in rows]
    assert list(pooled.lines[0].get_xdata()) == [10, 30, 50, 70, 90]


def test_series_are_told_apart_on_paper_and_by_everyone():
    """Series differ in brightness from white by at least 3 to 1, and the page knows each of their colours."""
    for colour in SERIES:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        brightness = sum(part * weight for part, weight in zip(linear, (0.2126, 0.7152, 0.0722), strict=True))
        assert 1.05 / (brightness + 0.05) >= 3
    style = data_path("page", "static", "base.css").read_text(encoding="utf-8")
    for place, colour in enumerate(SERIES):
        assert f"--series-{place}: light-dark({colour}, " in style


def test_names_are_short_single_lines():
    """A shown name is one line, cut where it is long, never private to matplotlib, never empty."""
    assert named("a\nb\x07c") == "a b c"
    assert named("x" * 40) == "x" * 27 + "…"
    assert named("_x") == "\N{ZERO WIDTH SPACE}_x"
    assert named("\n") == "(no name)"


@pytest.mark.thorough
def test_drawing_leaves_no_style_behind(busy):
    """After a drawing matplotlib is set as it was before."""
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    to_bytes(draw(busy, "voi"), "svg")
    assert dict(mpl.rcParams) == before


def test_an_unknown_figure_is_named(busy):
    """The error lists the figures there are."""
    with pytest.raises(UnknownName, match=r"'voy'; did you mean 'voi'\?; known: "):
        draw(busy, "voy")


def _run(*arguments):
    parser = argparse.ArgumentParser()
    add_commands(parser, figure_commands.COMMANDS, "COMMAND")
    options = parser.parse_args([str(each) for each in arguments])
    return options.function(options)


def test_the_command_lists_its_figures(tmp_path, capsys):
    """The word list prints every name and draws nothing."""
    assert _run("figures", tmp_path / "none", "list") == 0
    assert capsys.readouterr().out.split() == list(FIGURES)


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """A small store on disk."""
    folder = tmp_path_factory.mktemp("stored") / "store"
    make_store(folder, Design(1, 3_000))
    return folder


@pytest.mark.thorough
def test_the_command_draws_what_was_asked_for(stored, tmp_path, capsys):
    """The files stand in the named folder, their paths are printed, and nothing else is written."""
    assert _run("figures", stored, "voi", "wasted", "--output", tmp_path / "new" / "folder", "--format", "png") == 0
    printed = capsys.readouterr().out.split()
    assert printed == [str(tmp_path / "new" / "folder" / f"{name}.png") for name in ("voi", "wasted")]
    assert sorted(path.name for path in (tmp_path / "new" / "folder").iterdir()) == ["voi.png", "wasted.png"]


@pytest.mark.thorough
def test_the_command_takes_other_readings(stored, tmp_path):
    """A parameter changes what is drawn; an unknown one is an error before anything is written."""
    _run("figures", stored, "voi", "--output", tmp_path / "a", "--set", "timing_measure=pass_at_k")
    _run("figures", stored, "voi", "--output", tmp_path / "b", "--set", "k=2", "--set", "timing_measure=pass_at_k")
    one, other = ((tmp_path / folder / "voi.svg").read_text(encoding="utf-8") for folder in "ab")
    assert "pass@3" in one
    assert "pass@2" in other
    with pytest.raises(UnknownName):
        _run("figures", stored, "voi", "--output", tmp_path / "c", "--set", "speed=1")
    assert not (tmp_path / "c").exists()


@pytest.mark.thorough
def test_the_command_writes_a_report(stored, tmp_path, capsys):
    """The page is written where asked, data on standard output, narration on standard error."""
    assert _run("report", stored, "-o", tmp_path / "new" / "page.html", "--experiment", "synthetic") == 0
    out, err = capsys.readouterr()
    assert out == f"{tmp_path / 'new' / 'page.html'}\n"
    assert re.fullmatch(r"[\d,]+ trials, \d+\.\d MB, \d+\.\d s\n", err)
    page = (tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "experiment = synthetic" in page


@pytest.mark.thorough
def test_responses_are_ordered_by_how_late_their_answers_come():
    """The prompt answer is first, an answer that never came last, whatever the conditions are called."""
    store = Store(trials=1)
    store.task("t")
    store.variant("t", "v")
    for condition, state in (
        ("ask_user", ""),
        ("ask_user_a", " >declined"),
        ("ask_user_b", " >late:3"),
        ("ask_user_c", " >late:2"),
    ):
        store.trial("v", condition, 0, scores=(1,), actions=[f"ask_user S1{state}", "read a", "read b", "submit"])
    with closing(connect(store.snapshot(), only=read_for(["late_answers"]))) as opened:
        (axes,) = draw(opened, "late_answers").axes
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == ["may ask\nat once", "c\n1.0 actions later", "b\n2.0 actions later", "a\nno answer"]
