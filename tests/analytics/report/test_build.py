"""The page as text: equal for equal stores, closed against what it shows, and honest about what it leaves out."""

import base64
import gzip
import json
import re
from importlib import import_module

import msgspec
import pytest

from lhaw_record.analytics.findings.findings import Finding
from lhaw_record.analytics.report.build import _interval
from lhaw_record.analytics.report.facts import grid
from lhaw_record.analytics.report.timelines import timelines
from lhaw_record.analytics.report.trials import LENGTHS, choose_length, choose_trials, columnar, packed, trial_list
from lhaw_record.analytics.tables.tables import TABLES, tables
from lhaw_record.analytics.views.store import below_tables, connect
from lhaw_record.recorder.html_templates import VIEWER, joined
from tests.analytics.figures.test_figures import CONTROL
from tests.analytics.make_store import Store
from tests.analytics.report.pages import ATTACK, MARKER, busy_store, hostile_store, page_about


@pytest.fixture(scope="module")
def connection():
    """A connection to the busy store."""
    opened = connect(busy_store().snapshot(), only={*below_tables(), "trial_counts_and_cost"})
    yield opened
    opened.close()


def unpack(html, element_id):
    """The data that a page holds under an id."""
    found = re.search(f'<script type="text/plain" id="{element_id}">([^<]*)</script>', html)
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


@pytest.mark.thorough
def test_equal_stores_give_equal_pages(busy_page):
    """The order in which events are read, and the time of making, leave no trace in the page."""
    store = busy_store()
    assert page_about(store.snapshot(store.envelopes[::-1])).html == busy_page.html


def test_nothing_from_the_store_is_markup(hostile_page):
    """No text of a store opens or ends an element, template syntax in it stays text, and the policy lets nothing in."""
    html = hostile_page.html
    assert "default-src 'none'; script-src 'sha256-" in html
    assert ATTACK not in html
    assert "onerror=&#34;" in html
    assert "<!--" not in html.replace(joined(VIEWER), "").replace("&lt;!--", "")
    assert not re.search("<script", joined(VIEWER), re.IGNORECASE)
    assert "{{ title }}" in html
    scripts = re.findall(r"<script(?![^>]*text/plain)", html)
    assert len(scripts) == 1
    assert not re.search(CONTROL, html)


@pytest.mark.thorough
def test_the_page_needs_nothing_else(busy_page):
    """No address but the names of the SVG language stands in the markup, and the policy forbids everything."""
    markup = re.sub(r"<script.*?</script>", "", busy_page.html, flags=re.DOTALL)
    assert set(re.findall(r"[a-z]+://[^\"'\s<]+", markup)) <= {"http://www.w3.org/2000/svg"}
    assert not re.search(r"\b(src|srcset|action|poster)=|@import|url\((?!#)", markup)
    assert "default-src 'none'; script-src 'sha256-" in markup


@pytest.mark.thorough
def test_a_page_begins_with_its_contents_and_the_headline(connection, busy_page):
    """Agents with their models, counts and days as the view has them; success by condition is above the findings."""
    tasks, variants, trials = connection.execute(
        "select count(distinct (benchmark, task_id)), count(distinct variant_id), count(*) from trials"
    ).fetchall()[0]
    top = busy_page.html.partition('id="findings-title"')[2].partition('id="cautions"')[0]
    assert f": {tasks} tasks, {variants} variants, {trials} trials" in top
    assert top.index('id="figure-success"') < top.index('class="verdict')
    assert busy_page.html.count('id="figure-success"') == 1


def test_ids_are_unique(hostile_page):
    """No two elements share an id, those inside figures included, and every reference has its element."""
    markup = re.sub(r"<script(?![^>]*text/plain).*?</script>", "", hostile_page.html, flags=re.DOTALL)
    ids = re.findall(r'\bid="([^"]+)"', markup)
    assert len(ids) == len(set(ids))
    references = re.findall(r'href="#([^"]+)"|url\(#([^)]+)\)|aria-labelledby="([^"]+)"', markup)
    assert {one or two or three for one, two, three in references} <= set(ids)


@pytest.mark.thorough
def test_every_trial_is_listed_with_its_timeline(connection, busy_page):
    """The list has every trial of the store, and the timeline at its place is that trial's."""
    listed = unpack(busy_page.html, "data-trials")
    chunk = listed["chunk"]
    (count,) = connection.execute("select count(*) from trials").fetchall()
    ids = listed["columns"]["trial_id"]
    assert listed["count"] == busy_page.trial_count == len(ids) == count[0]
    for place, trial_id in enumerate(ids):
        timeline = unpack(busy_page.html, f"data-chunk-{place // chunk}")[place % chunk]
        (actions,) = connection.execute(
            "select count(*) from actions where trial_id = ? and (is_counted or trial_id not in (select trial_id from "
            "trials where trial_state = 'valid'))",
            [trial_id],
        ).fetchall()
        assert timeline["attempts"][-1][2].startswith(trial_id)
        assert len(timeline.get("actions", [])) == actions[0]


@pytest.mark.thorough
def test_only_one_experiment_is_shown_on_request():
    """Trials, runs and counts of other experiments are not on the page."""
    store = busy_store()
    store.experiment = "other"
    store.start_run()
    store.trial("t", "full", 7, agent="other agent", scores=(1, 1))
    html = page_about(store.snapshot(), experiment="e").html
    assert "other agent" not in html
    assert "other agent" not in str(unpack(html, "data-trials"))
    other = connect(store.snapshot(), parameters={"experiment": "other"}, only={"trials"})
    try:
        assert choose_trials(other) == (1, 1)
    finally:
        other.close()


@pytest.mark.thorough
def test_a_large_store_lists_the_first_trials_of_every_cell(connection):
    """Where not all trials are listed, every cell keeps its first ones."""
    count, listed = choose_trials(connection, most=40)
    try:
        assert (listed, count > listed) == (40, True)
        columns = trial_list(connection)
        indexes = columns["trial_index"]
        assert max(indexes) <= 1
        assert len(next(iter(timelines(connection, 100)))) == 40
    finally:
        choose_trials(connection)


@pytest.mark.thorough
def test_texts_are_cut_by_one_rule(connection):
    """The longest length that fits is taken; a cut text says how long it was; below the limit nothing changes."""
    choose_trials(connection)
    whole = choose_length(connection)
    assert whole.kept_characters == whole.characters
    assert str(whole) == "Every text is complete."
    tight = choose_length(connection, budget=0)
    assert tight.length == LENGTHS[-1]
    store = Store()
    store.task("t")
    store.trial("t", "full", 0, actions=[f"read {'x' * 500}"])
    opened = connect(store.snapshot(), only=below_tables())
    try:
        choose_trials(opened)
        ((trial,),) = timelines(opened, 60)
        assert trial["actions"][0][3] == '{"value":"' + "x" * 50 + " … (512 characters)"
        assert choose_length(opened, budget=200).length == 120
    finally:
        opened.close()


@pytest.mark.thorough
def test_the_facts_are_those_of_the_table(connection, busy_page):
    """Trials and costs stand under their headings, as the table of trials and costs has them."""
    first = re.search(r"<caption>Trials.*?</tbody>", busy_page.html, flags=re.DOTALL)[0]
    head = re.findall(r"<th [^>]*>([^<]*)", first)
    lines = [re.findall(r"<td[^>]*>([^<]*)", line) for line in first.split("<tr>")[2:]]
    shown = [dict(zip(head, line, strict=True)) for line in lines]
    expected = connection.execute(
        """
        select agent, n_trials, n_missing, attempts, failed_attempts, cost_usd from trial_counts_and_cost
        where condition = 'all' and purpose = 'all' and 'all' not in (benchmark, agent, role) order by agent
        """
    ).fetchall()
    found = [
        (
            row["agent"],
            int(row["valid"]),
            int(row["missing"]),
            int(row["attempts"]),
            int(row["failed"]),
            float(row["USD"]),
        )
        for row in shown[:-1]
    ]
    assert found == [(*row[:-1], round(row[-1], 4)) for row in expected]
    assert shown[-1]["agent"] == "all"


@pytest.mark.thorough
def test_cautions_are_counted_and_missing_trials_explained(busy_page):
    """What applies is said with its count, what was looked for in vain is named, and boundaries are told apart."""
    text = re.sub(r"<[^>]+>", " ", busy_page.html)
    for words in (
        "Collapsed injection times",
        "(variant, agent) units of desk",
        "Looked for and not found",
        "Missing trials",
    ):
        assert words in text
    assert re.search(r"model\s+timeout\s+desk\s+a\s+1\s+1", text)


@pytest.mark.thorough
def test_cautions_say_what_the_notes_of_tables_say(mixed_page):
    """A caution about a benchmark has its name, the number and what follows."""
    assert "<li>cells of second with fewer than k valid trials: 1; their pass@k is undefined" in mixed_page.html


def test_numbers_stand_under_their_heading():
    """A column with a number in it has heading and numbers on the right, text stays on the left."""
    found = grid(("name", "count"), [("a", 1234), ("b", None), ("c", "some"), ("d", "1.50"), ("e", True)], caption="c")
    assert found.head == (("name", False), ("count", True))
    assert [row[1] for row in found.rows] == [
        *(("1,234", True), ("-", True), ("some", False), ("1.50", True), ("True", False)),
    ]
    assert not any(row[0][1] for row in found.rows)


@pytest.mark.thorough
def test_a_store_without_trials_has_a_page():
    """An empty store gives a page that says so everywhere."""
    html = page_about(Store().snapshot()).html
    assert "no injected trials in this store" in html
    assert "No started trial is missing." in html
    assert unpack(html, "data-trials")["count"] == 0


@pytest.mark.thorough
def test_broken_claims_are_on_the_page(monkeypatch):
    """A claim that does not hold is a caution and a finding."""
    building = import_module("lhaw_record.analytics.report.build")  # the package has a function of that name
    monkeypatch.setattr(building, "graphics", lambda *_: [])  # the most expensive part, and not about claims
    store = busy_store()
    store.envelopes.pop()
    store.envelopes.pop(40)
    page = page_about(store.snapshot())
    assert page.broken_claims
    assert "Broken claims about the store" in page.html


def test_packed_data_is_inert_and_repeatable():
    """The same value gives the same text, with no character that could end its element."""
    value = {"text": [ATTACK, MARKER]}
    text = packed(value)
    assert text == packed(value)
    assert re.fullmatch("[A-Za-z0-9+/=]+", text)
    assert unpack(f'<script type="text/plain" id="x">{text}</script>', "x") == value


def test_columns_with_few_values_are_coded():
    """A repeated text is stored once, a column of numbers as it is, and no rows give empty columns."""
    rows = [("a", 1), ("a", 2), (None, 3), ("a", 4), ("a", 5)]
    assert columnar(("name", "n"), rows) == {"name": {"of": ["a", None], "at": [0, 0, 1, 0, 0]}, "n": [1, 2, 3, 4, 5]}
    assert columnar(("name", "n"), []) == {"name": [], "n": []}


@pytest.mark.thorough
def test_the_hostile_store_is_hostile():
    """The store of these tests really holds the attack in every kind of name."""
    connection = connect(hostile_store().snapshot(), only={"trials"})
    try:
        query = "select count(*) from trials where position(? in {}) > 0"
        for column in ("task_id", "variant_id", "agent", "experiment_id"):
            assert connection.execute(query.format(column), [ATTACK]).fetchall()[0][0] > 0
    finally:
        connection.close()


@pytest.mark.thorough
def test_bars_of_findings_are_their_intervals(connection):
    """Every difference with an interval has a bar from -1 to 1, and nothing else has one: no percentage, no unknown."""
    computed = {each.name: each for each in tables(connection, TABLES)}
    keys = {"benchmark": "desk", "dimension": "goal", "ambiguity_class": "all", "timing": "all"}
    late = Finding(
        question="",
        benchmark="desk",
        agent="",
        verdict="shown",
        wording="",
        size="",
        settled_by="",
        table="point_of_no_return",
        keys={**keys, "measure": "point_of_no_return_pct"},
        family="12 claims",
        p_family=0.01,
    )
    assert _interval(late, computed) is None
    losses = computed["losses"]
    known = [{**row, "low": row["value"] - 0.125, "high": row["value"] + 0.25} for row in losses.rows[::2]]
    losses = msgspec.structs.replace(losses, rows=[*known, *losses.rows[1::2]])
    for row in losses.rows:
        said = msgspec.structs.replace(late, table="losses", keys={key: str(row[key]) for key in losses.keys})
        found = _interval(said, {"losses": losses})
        if row["low"] is None:
            assert found is None
        else:
            assert [each / 50 - 1 for each in found] == pytest.approx([row["low"], row["value"], row["high"]])
    assert known
