"""The page in a real browser: silent, alone, complete, usable without a mouse, readable in the dark."""

import csv
import io
import json
import re
from contextlib import closing
from importlib import import_module

import pytest

from lhaw_record.analytics.findings.findings import findings
from lhaw_record.analytics.report import page_of
from lhaw_record.analytics.tables.filters import without_lone_pools
from lhaw_record.analytics.tables.render import to_csv, to_json
from lhaw_record.analytics.tables.tables import TABLES, tables
from lhaw_record.analytics.views.store import below_tables, connect
from lhaw_record.recorder.wording import CONDITION_LABELS
from tests.analytics.imported import as_imported
from tests.analytics.make_store import Store
from tests.analytics.report.pages import ATTACK, page_about, threaded_store, written

OPEN_TABLES = """
(async () => {
  for (const place of document.querySelectorAll("[data-table]")) {
    place.closest("details").open = true;
    await fillTable(place);
    const button = place.querySelector("button.switch");
    if (button) button.click();
  }
})()
"""
SHOWN_TABLES = """
Object.fromEntries([...document.querySelectorAll("[data-table]")].map((place) => [
  place.dataset.table,
  [...place.querySelectorAll("tr")].map((line) => [...line.children].map((it) => it.dataset.name || it.textContent)),
]))
"""
CONTRASTS = """
(() => {
  const paint = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgb = (colour) => {
    paint.clearRect(0, 0, 1, 1); paint.fillStyle = colour; paint.fillRect(0, 0, 1, 1);
    return [...paint.getImageData(0, 0, 1, 1).data];
  };
  const light = ([r, g, b]) => [r, g, b].map((part) => part / 255)
    .map((part) => part <= 0.03928 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4)
    .reduce((sum, part, place) => sum + part * [0.2126, 0.7152, 0.0722][place], 0);
  const behind = (part) => {
    for (let at = part; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour[3] === 255) return colour;
    }
    return [255, 255, 255, 255];
  };
  const found = {};
  for (const part of document.querySelectorAll("body *")) {
    const isText = [...part.childNodes].some((child) => child.nodeType === 3 && child.data.trim());
    if (!isText || part.closest("script, style, noscript") || !part.getClientRects().length) continue;
    const style = getComputedStyle(part);
    const colour = part instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(rgb(colour)), light(behind(part))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const name = `${part.tagName}.${part.getAttribute("class") || ""}`;
    found[name] = Math.min(found[name] ?? 99, ratio);
  }
  return found;
})()
"""
TREE = """
(() => {
  const of = (list) => [...list.children].map((item) => {
    const inner = item.querySelector(":scope > details > .events");
    const isThread = item.classList.contains("thread");
    return [item.querySelector(isThread ? "summary" : ".flag").textContent, inner ? of(inner) : []];
  });
  return of(document.querySelector("#timeline .events"));
})()
"""
OPENED = """
(async () => {
  const found = {};
  for (const fold of document.querySelectorAll("#timeline .request")) {
    fold.open = true;
    await new Promise((done) => fold.addEventListener("toggle", done, { once: true }));
    const id = fold.querySelector(".aside").textContent.match(/call (\\S+) of/)[1];
    const texts = (each) => [...each.querySelectorAll("pre")].map((text) => text.textContent).join("\\n");
    found[id] = [...fold.querySelectorAll("div")].map((each) => [each.querySelector(".flag").textContent, texts(each)]);
  }
  return found;
})()
"""
CELLS = """
(async () => {
  const { tables } = await unpack("data-tables");
  const key = (table, row) => JSON.stringify(table.keys.map((name) => String(row[name] ?? "None")));
  const cells = (table) => Object.fromEntries(tableRows(table).map((row) => [key(table, row), estimate(row)]));
  return Object.fromEntries(tables.filter((each) => each.columns.includes("measure"))
    .map((each) => [each.name, cells(each)]));
})()
"""
BEHIND = """
(async () => {
  const { tables } = await unpack("data-tables");
  const trials = await unpack("data-trials");
  const list = { trials, at: TrialList.prototype.at, armsOf: TrialList.prototype.armsOf };
  const rows = (table) => tableRows(table).filter((row) => row.n_trials > 0)
    .map((row) => [cellName(table, row), trialsBehind(list, table, row).length, row.n_trials]);
  return Object.fromEntries(tables.filter(hasTrials).map((table) => [table.name, rows(table)]));
})()
"""
EXACT = {
    *("overall", "losses", "by_class", "by_dimension_pass", "by_dimension_progress", "by_segments_removed"),
    *("gain_tests", "generality", "voi", "point_of_no_return", "timing_hypotheses", "wasted", "kendall"),
    *("natural_ask", "archetypes", "net_value", "over_asking", "question_quality", "by_strategy", "fidelity"),
    *("input_faults", "agent_health", "trial_counts_and_cost", "endings"),
}
HOSTILE_MARKDOWN = """**bold** <b onclick=alert(1)>x</b> ![x](http://127.0.0.1:9/a.png) <http://127.0.0.1:9/>
[a](javascript:alert(1)) [b](data:text/html,x) [c](https://example.org/) [d](//127.0.0.1/ "t")

- one

| a | b |
| --- | :-: |
| <svg onload=alert(1)> | `</script>` |

```python
import os  # <script>alert(1)</script>
```
"""
ACTIVE = "document.activeElement.id"
CHOSEN = "document.querySelector('[aria-selected=true]')?.dataset.place"


def test_it_opens_without_a_word_and_asks_for_nothing(view, busy_address):
    """Opening the page and a trial logs nothing and requests nothing but the file itself."""
    view.open(busy_address)
    view.value("document.getElementById('list').focus()")
    view.press("Enter")
    view.wait("document.querySelector('#timeline h3')")
    view.value(OPEN_TABLES)
    assert set(view.requests()) == {busy_address}
    assert view.complaints() == []
    assert view.value("document.getElementById('problem').hidden")


def test_its_policy_keeps_the_network_out(view, busy_address):
    """Even a script inside the page can fetch nothing, load no picture and start no other script."""
    view.open(busy_address)
    violated = view.value("""
    new Promise((done) => {
      const found = new Set();
      addEventListener("securitypolicyviolation", (event) => { found.add(event.effectiveDirective); });
      fetch("http://127.0.0.1:9/").catch(() => null);
      new Image().src = "http://127.0.0.1:9/a.png";
      const script = document.createElement("script");
      script.append("document.title = 'broken'");
      document.body.append(script);
      try { document.body.innerHTML = "<b>x</b>"; } catch { found.add("innerHTML"); }
      setTimeout(() => done([...found].sort()), 300);
    })
    """)
    assert {"connect-src", "img-src", "innerHTML"} <= set(violated)
    assert {"script-src-elem", "script-src", "require-trusted-types-for"} & set(violated)
    assert view.value("document.title") == "Report of some store"


@pytest.mark.thorough
def test_tables_show_the_numbers_of_the_tables(view, connection, busy_address):
    """Every column of every table on the page equals the JSON of the tables command, number for number."""
    expected = json.loads(to_json([each for each in tables(connection, TABLES) if each.rows]))
    view.open(busy_address)
    view.value(OPEN_TABLES)
    shown = view.value(SHOWN_TABLES)
    assert set(shown) == set(expected)
    for name, one in expected.items():
        head, *lines = shown[name] or [[]]
        assert len(lines) == len(one["rows"]), name
        for line, row in zip(lines, one["rows"], strict=True):
            assert head == list(row)
            for text, value in zip(line, row.values(), strict=True):
                assert text == "-" if value is None else _same(text, value), (name, head, text, value)


def _same(text, value):
    if isinstance(value, bool):
        return text == str(value).lower()
    if isinstance(value, int | float):
        return float(text) == value
    return text == str(value)


def test_a_sentence_and_its_cell_say_the_same_number(view, tmp_path, monkeypatch):
    """What a finding says, its cell in a table says too: per cent in both, rounded alike, with the same interval."""
    store = Store(trials=2)
    for task in range(8):
        store.task(f"t{task}")
        store.variant(f"t{task}", f"v{task}")
        for index in range(2):
            store.trial(f"t{task}", "full", index, scores=(float(task != 3 or index),))
            store.trial(f"v{task}", "underspecified", index, scores=(float(task < 2 and index),))
            store.trial(f"v{task}", "ask_user", index, scores=(float(task < 7),), actions=["ask_user S1", "submit"])
    building = import_module("lhaw_record.analytics.report.build")  # the package has a function of that name
    monkeypatch.setattr(building, "graphics", lambda *_: [])  # half of the time, and not about numbers
    with closing(connect(store.snapshot(), only=below_tables())) as connection:
        computed = {each.name: each for each in tables(connection, TABLES)}
        page = page_of(connection, "some store")
    said = findings(computed, "pass_at_1", "pass_at_k", 0.95)
    view.open(written(page, tmp_path))
    cells = view.value(CELLS)
    compared = 0
    for each in (one for one in said if one.keys):
        value, beside = cells[each.table][json.dumps(list(each.keys.values()), separators=(",", ":"))]
        if each.verdict != "not known" and beside.startswith("["):
            assert f"{value} {beside}" in each.sentence
            compared += 1
    assert compared > 3
    assert view.value("document.querySelector('#findings > details').open") is False


@pytest.mark.thorough
def test_a_saved_table_is_that_of_the_command(view, connection, busy_address):
    """The CSV of every table has the lines of ``tables --format csv``; numbers may be written otherwise (1 for 1.0)."""
    view.open(busy_address)
    found = view.value(
        "unpack('data-tables').then(({ tables }) => Object.fromEntries("
        "tables.map((each) => [each.name, toCsv(each, chosenRows(each))])))"
    )
    for one in tables(connection, TABLES):
        ours, theirs = (list(csv.reader(io.StringIO(text))) for text in (found[one.name], to_csv(one)))
        assert len(ours) == len(theirs), one.name
        for line, other in zip(ours, theirs, strict=True):
            assert all(a == b or float(a) == float(b) for a, b in zip(line, other, strict=True)), (line, other)


@pytest.mark.thorough
def test_the_listed_trials_are_saved(view, connection, busy_address):
    """The CSV of the list has the trials that fit, with what the store says of them."""
    view.open(f"{busy_address}#condition=ask_user")
    view.value(
        "var saved, make = URL.createObjectURL;"
        "URL.createObjectURL = (file) => { saved = file.text(); return make.call(URL, file); }"
    )
    view.value("document.querySelector('#more button').click()")
    rows = list(csv.DictReader(io.StringIO(view.value("saved"))))
    query = "select trial_id, agent, action_count from trials where condition = 'ask_user'"
    found = connection.execute(query).fetchall()
    expected = {(trial, agent, "" if count is None else str(count)) for trial, agent, count in found}
    assert {(row["trial_id"], row["agent"], row["action_count"]) for row in rows} == expected
    assert len(rows) == len(expected) > 1


@pytest.mark.thorough
def test_behind_a_value_are_the_trials_that_it_rests_on(view, busy_address):
    """Of these tables every value opens as many trials as its row says; elsewhere the page says both numbers."""
    view.open(busy_address)
    counted = view.value(BEHIND)
    assert set(counted) >= EXACT
    for name in EXACT:
        assert counted[name]
        assert [row for row in counted[name] if row[1] != row[2]] == [], name


def test_a_value_opens_its_trials_and_the_address_tells_others(view, busy_address):
    """A press on a value goes to the list of its trials; so does its address, and the browser's button goes back."""
    view.open(busy_address)
    before = view.value("location.href")
    view.value("document.querySelector('[data-table=overall] button.cell').focus()")
    view.press("Enter")
    view.wait("!document.getElementById('behind').hidden")
    assert view.value(ACTIVE) == "list"
    said, shown = view.value("[document.getElementById('behind').textContent, list.getBoundingClientRect().top < 900]")
    assert said.startswith("6 trials behind 100.0 too few clusters (desk, a, full prompt, pass@1, %")
    assert shown
    assert view.value("document.getElementById('count').textContent").startswith("6 of ")
    address = view.value("location.href")
    view.value("history.back()")
    view.wait("document.getElementById('behind').hidden")
    assert view.value("location.href") == before
    view.send("Page.navigate", url="about:blank")
    view.open(address)
    view.wait("!document.getElementById('behind').hidden")
    assert view.value("document.getElementById('behind').textContent") == said


@pytest.mark.thorough
def test_filters_are_in_the_address(view, busy_address):
    """An agent and a condition of the address are chosen; they leave their rows of the tables and their trials only."""
    view.open(f"{busy_address}#agent=b&condition=ask_user")
    agents = "[...document.querySelectorAll('[data-table=overall] tbody tr')].map((line) => line.cells[0].textContent)"
    assert set(view.value(agents)) == {"may ask"}
    heads = "[...document.querySelectorAll('[data-table=overall] th')].map((each) => each.textContent)"
    assert "b" in view.value(heads)
    assert "a" not in view.value(heads)
    listed = view.value("[...document.querySelectorAll('.trial .second')].map((each) => each.textContent)")
    assert listed
    assert all(each.startswith("b · may ask") for each in listed)
    view.value("document.getElementById('clear').click()")
    view.wait("document.getElementById('clear').hidden")
    assert "a" in view.value(heads)
    assert "#" not in view.value("location.href")


@pytest.mark.thorough
def test_the_search_reads_everything(view, busy_address):
    """Words of prompts, arguments, questions, answers and injected messages find the trials that hold them all."""
    view.open(busy_address)
    trials = view.value("unpack('data-trials').then((each) => each.columns.condition.of.length)")
    assert trials
    for words, conditions in {
        "which?": {"may ask"},
        '"by the way"': {f"told at {percent} %" for percent in (10, 30, 50, 70, 90)},
        "by way inject_70": {"told at 70 %"},
        '"told at 70 %"': {"told at 70 %"},
        "no-such-word": set(),
    }.items():
        view.value(f"state.set({{ q: {json.dumps(words)} }})")
        view.wait("!document.getElementById('count').textContent.includes('searched')")
        shown = view.value(
            "[...document.querySelectorAll('.trial .second')].map((each) => each.textContent.split(' · ')[1])"
        )
        assert {each for each in shown if each in conditions} == conditions, words
        assert not shown if not conditions else shown
    view.value("state.set({ q: 'which?' })")
    view.wait("document.querySelector('.trial .found mark')?.textContent === 'which?'")
    _open_first(view, "ask_user")
    view.press("h", "h", "H")
    assert view.value("hits.indexOf([...CSS.highlights.get('hit')][0])") == 0


@pytest.mark.thorough
def test_trials_stand_side_by_side(view, busy_address):
    """Beside an open trial stand those of its task and agent under other conditions, with what was removed marked."""
    view.open(busy_address)
    _open_first(view, "ask_user")
    assert view.value("document.querySelector('.trial-in-full ins').textContent") == " some"
    view.value("[...document.querySelectorAll('.siblings button')].find((each) => each.title === 'full').click()")
    view.wait("document.querySelectorAll('.trial-in-full').length === 2")
    titles = "[...document.querySelectorAll('.trial-in-full > h3')].map((each) => each.firstChild.data)"
    assert view.value(titles) == ["may ask", "full prompt"]
    owners = "[...document.querySelectorAll('.event a.flag')].map((each) => getComputedStyle(each, '::after').content)"
    assert set(view.value(owners)) == {'"may ask"', '"full prompt"'}
    arrivals = (
        "[...document.querySelectorAll('.trial-in-full')].map((each) => each.querySelectorAll('.arrival').length)"
    )
    assert view.value(arrivals) == [1, 0]
    address = view.value("location.href")
    view.value("document.getElementById('timeline-title').focus()")
    view.press("Escape")
    view.wait("document.querySelectorAll('.trial-in-full').length === 1")
    view.send("Page.navigate", url="about:blank")
    view.open(address)
    view.wait("document.querySelectorAll('.trial-in-full').length === 2")
    assert view.complaints() == []


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("before", "after", "parts"),
    [
        ("Sum May in EUR.", "Sum in EUR.", [["same", "Sum"], ["removed", " May"], ["same", " in EUR."]]),
        ("by 5 pm", "by soon", [["same", "by"], ["removed", " 5 pm"], ["added", " soon"]]),
        ("", "a b", [["added", "a b"]]),
        ("same", "same", [["same", "same"]]),
        ("x " * 3000, "y " * 3000, [["removed", "x " * 3000], ["added", "y " * 3000]]),
    ],
)
def test_a_difference_is_that_of_words(view, busy_address, before, after, parts):
    """Removed and added words are told apart, and the parts put together are both texts again."""
    view.open(busy_address)
    found = view.value(f"difference({json.dumps(before)}, {json.dumps(after)})")
    assert "".join(text for kind, text in found if kind != "added") == before
    assert "".join(text for kind, text in found if kind != "removed") == after
    if len(before) < 100:
        assert found == parts


@pytest.mark.thorough
def test_a_heading_sorts_its_column(view, busy_address):
    """The first press sorts upwards, the second downwards; undefined values stay last."""
    view.open(busy_address)
    view.value(OPEN_TABLES)
    column = "document.querySelector('[data-table=overall] table')"
    place = view.value(f"[...{column}.querySelectorAll('th')].findIndex((each) => each.dataset.name === 'value')")
    orders = {}
    for order in ("ascending", "descending"):
        view.value(f"{column}.querySelectorAll('th button')[{place}].click()")
        assert view.value(f"{column}.querySelectorAll('th')[{place}].getAttribute('aria-sort')") == order
        texts = view.value(
            f"[...{column}.querySelectorAll('tbody tr')].map((line) => line.children[{place}].textContent)"
        )
        numbers = [float(text) for text in texts if text != "-"]
        assert texts[: len(numbers)] == [text for text in texts if text != "-"]
        orders[order] = numbers
    assert orders["ascending"] == sorted(orders["ascending"])
    assert orders["descending"] == sorted(orders["descending"], reverse=True)


@pytest.mark.thorough
def test_a_pool_of_one_is_left_out_as_in_print(view, busy_address):
    """The page and the printed tables leave out the same rows, whoever pools whom."""
    view.open(busy_address)
    keys = ("benchmark", "agent", "condition")
    for names, trials in (
        (("a", "all"), (9, 9)),
        (("a", "all"), (9, 18)),
        (("a", "b", "all"), (9, 9, 9)),
        (("all",), (9,)),
    ):
        for benchmarks in (("tac",), ("tac", "all"), ("desk", "tac", "all")):
            rows = [
                {"benchmark": benchmark, "agent": agent, "condition": "full", "n_trials": count}
                for benchmark in benchmarks
                for agent, count in zip(names, trials, strict=True)
            ]
            kept = view.value(f"withoutLonePools({json.dumps({'keys': keys})}, {json.dumps(rows)})")
            assert kept == without_lone_pools(rows, keys)


@pytest.mark.thorough
def test_several_benchmarks_are_told_apart(view, busy_address, mixed_address):
    """Trials name their benchmark, a line in the tables stands between two; with one benchmark there is neither."""
    named = "[...new Set([...document.querySelectorAll('.trial .aside')].map((each) => each.textContent))]"
    lines = "[...document.querySelectorAll('[data-table=overall] tr.begins')].map((each) => each.cells[0].textContent)"
    view.open(busy_address)
    assert (view.value(named), view.value(lines)) == ([], [])
    view.open(mixed_address)
    view.value("document.getElementById('search').value = 'x'")
    view.value("document.getElementById('search').dispatchEvent(new Event('input'))")
    view.wait("document.getElementById('count').textContent.startsWith('1 of')")
    assert view.value(named) == ["second"]
    view.value("fillTable(document.querySelector('[data-table=overall]'))")
    assert view.value(lines) == ["second"]
    view.value("document.querySelector('[data-table=overall] th:nth-child(2) button').click()")
    assert view.value(lines) == []


@pytest.mark.thorough
def test_notes_are_told_filtered_and_found(view, mixed_address):
    """A noted trial says so in the list, opens with its note, and is found by its words and by what is blamed."""
    view.open(mixed_address)
    view.value(
        "(() => { const s = document.querySelector('[data-choice=noted]'); s.value = 'grader'; "
        "s.dispatchEvent(new Event('change')); })()"
    )
    assert view.value("document.getElementById('count').textContent").startswith("1 of ")
    assert "noted: grader" in view.value("document.querySelector('.trial').textContent")
    view.value("document.querySelector('.trial').click()")
    view.wait("document.getElementById('timeline-title')")
    assert "anna blames the grader: a strange end" in view.value("document.getElementById('timeline').textContent")
    view.open(f"{mixed_address}#q=%22strange+end%22")
    view.wait("document.getElementById('count').textContent.startsWith('1 of ')")
    assert "Noted trials" in view.value("document.getElementById('cautions').textContent")


@pytest.mark.thorough
def test_trials_are_sorted_on_request(view, busy_address):
    """The list begins with the trials that did most, also when the address says so."""
    view.open(f"{busy_address}#sort=most+actions")
    counts = []
    for key in ("Home", "End"):
        view.value("document.getElementById('list').focus()")
        view.press(key)
        shown = view.value("[...document.querySelectorAll('.trial .second')].map((each) => each.textContent)")
        counts += [int(found[1]) for each in shown if (found := re.search(r"(\d+) action", each))]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1]
    view.value("document.getElementById('clear').click()")
    assert view.value("location.hash") == ""


@pytest.mark.thorough
def test_wide_figures_stay_legible(view, busy_address):
    """On a small screen a figure shrinks to 80 % at most, and is moved sideways; the page itself is not."""
    view.size(400, 800)
    view.open(busy_address)
    shrunk = """
    [...document.querySelectorAll('figure svg')].map((each) =>
      each.getBoundingClientRect().width / (parseFloat(each.getAttribute('width')) * 96 / 72))
    """
    assert 0.79 < min(view.value(shrunk)) < 0.81
    assert view.value("document.documentElement.scrollWidth") == 400


@pytest.mark.thorough
def test_a_telephone_shows_two_agents_and_keeps_the_labels(view, busy_address):
    """At 390 pixels both agents are in view, no box cuts a row, and labels stay where the rest is moved sideways."""
    view.size(390, 844)
    view.open(busy_address)
    box = "document.querySelector('[data-table=overall] .scroll')"
    cells = f"[...{box}.querySelector('tbody tr').cells].map((each) => each.getBoundingClientRect())"
    assert view.value(
        "[...document.querySelectorAll('[data-table=overall] th')].slice(2, 4).map((each) => each.innerText)"
    ) == ["a", "b"]
    assert view.value(f"{cells}[3].right") <= 390
    assert view.value(f"{box}.scrollHeight <= {box}.clientHeight")
    left = view.value(f"{cells}[0].left")
    assert view.value(f"{box}.scrollLeft = 999, {box}.scrollLeft") > 0
    assert view.value(f"{cells}[0].left") == left
    assert view.value("document.documentElement.scrollWidth") == 390
    _open_first(view, "ask_user")
    bottom, top = (f"document.querySelector('{each}').getBoundingClientRect()" for each in (".switches", ".event"))
    assert view.value(f"{bottom}.bottom <= {top}.top")
    assert view.value("document.querySelector('.theme').getBoundingClientRect().right <= 390")


@pytest.mark.thorough
def test_what_is_not_known_stands_after_what_is(view, busy_address):
    """The numbers come first; what is not known is counted, and folded unless no difference is known."""
    view.open(busy_address)
    verdicts = view.value("[...document.querySelectorAll('#findings > ul .verdict')].map((each) => each.textContent)")
    assert verdicts
    assert "not known" not in verdicts
    fold = "document.querySelector('#findings > details')"
    folded = view.value(f"[...{fold}.querySelectorAll('.verdict')].map((each) => each.textContent)")
    assert set(folded) == {"not known"}
    assert view.value(f"{fold}.querySelector('summary').textContent").startswith(f"Not known{len(folded)},")
    assert view.value(f"{fold}.open")


def test_keys_lead_to_a_timeline_and_back(view, busy_address):
    """A slash searches, Enter goes to the list, arrows choose in it, Enter opens a trial, and Escape returns."""
    view.open(busy_address)
    view.press("/")
    assert view.value(ACTIVE) == "search"
    view.press("Enter")
    assert view.value(ACTIVE) == "list"
    assert view.value("document.activeElement.matches(':focus-visible')")
    assert view.value(CHOSEN) == "0"
    view.press("ArrowDown", "ArrowDown", "ArrowUp")
    assert view.value(CHOSEN) == "1"
    assert view.value("document.getElementById('list').getAttribute('aria-activedescendant')") == "trial-1"
    view.press("End")
    last = view.value("document.querySelector('[aria-selected=true]').getAttribute('aria-setsize')")
    assert view.value(CHOSEN) == str(int(last) - 1)
    view.press("Home", "PageDown", "Enter")
    view.wait("document.activeElement.id === 'timeline-title'")
    title = view.value("document.activeElement.textContent")
    view.press("ArrowRight")
    view.wait(f"document.activeElement.textContent !== {json.dumps(title)}")
    view.press("Escape")
    assert view.value(ACTIVE) == "list"


def test_a_timeline_shows_what_happened(view, busy_address):
    """Questions with their answers, the injection at its place, wasted actions and checkpoints are all marked."""
    view.open(busy_address)
    asked = _open_first(view, "ask_user")
    times = ("model 100 ms", "action 10 ms")
    for text in ("which?", "answer by exact", "revealed S1", "What was removed", "1 of 1", *times):
        assert text in asked
    injected = _open_first(view, "inject_70")
    assert "injection at 70 % of the budget, after action 2 (due after 2)" in injected
    assert "by the way" in injected
    kinds = view.value("[...document.querySelectorAll('#timeline .events > li')].map((each) => each.className)")
    assert kinds == ["event", "event wasted", "event injection arrival", "event"]
    strip = view.value("document.querySelector('#timeline .strip').getAttribute('aria-label')")
    assert strip == "3 actions, injection after action 2, 1 wasted action"
    assert view.value("[...document.querySelectorAll('.times > a')].map((each) => each.style.flexGrow)") == ["110"] * 3
    press = "[...document.querySelectorAll('.switch')].find((each) => each.textContent === 'Open all').click()"
    folds = "[...new Set([...document.querySelectorAll('.events details')].map((each) => each.open))]"
    assert [view.value(f"{press}, {folds}") for _ in range(2)] == [[True], [False]]


@pytest.mark.thorough
def test_a_timeline_says_what_is_unknown(view, tmp_path):
    """Of an imported trial no missing time, token, price or answer is shown as 0 or as nothing."""
    store = Store(trials=1)
    store.task("t")
    store.variant("t", "v")
    store.trial("v", "ask_user", 0, actions=["read a", "ask_user S1", "submit"])
    as_imported(store, store.streams["v", "ask_user", 0, "a"], "conversation")
    store.trial("t", "full", 0, ends="failed")
    as_imported(store, store.streams["t", "full", 0, "a"], "actions")
    view.open(written(page_about(store.snapshot()), tmp_path))
    asked = _open_first(view, "ask_user")
    for text in ("unknown cost, unknown tokens", "unknown answer by exact", "what it revealed is unknown"):
        assert text in asked
    for text in ("null", " ms", "USD so far", "never answered", "never finished"):
        assert text not in asked
    assert view.value("document.querySelector('.strip') && !document.querySelector('.times')")
    assert "failed at an unknown boundary (timeout): late" in _open_first(view, "full")


@pytest.mark.thorough
def test_requests_are_shown_whole_and_threads_as_a_tree(view, tmp_path):
    """A request opens with all its messages; a sub-agent stands where it worked, with its fork inside of it."""
    view.open(written(page_about(threaded_store().snapshot()), tmp_path))
    view.value("document.getElementById('list').focus()")
    view.press("Enter")
    view.wait("document.querySelector('#timeline .events')")
    shown = view.value(TREE)
    worker, title = "sub-agentworker · 2 model calls · 0.002 USD", "side calltitle · 1 model call · 0.001 USD"
    fork = "sub-agentworker-2 · 1 model call · 0.001 USD"
    assert [each[0] for each in shown] == ["1 task", worker, title, "model call", "2 submit"]
    assert [each[0] for each in shown[1][1]] == ["s1", "s2", fork]
    assert [each[0] for each in shown[1][1][2][1]] == ["f1"]
    text = view.value("document.getElementById('timeline').innerText")
    assert "failed: rate limit" in text
    assert "slow down" in text
    assert "0.024 USD so far" in text
    opened = view.value(OPENED)
    assert opened["f1"] == [
        *(["system", "You count."], ["user", "count the rows"], ["assistant", "grep (g1)\npattern: x"]),
        *(["tool", "41 rows"], ["assistant", "There are 41."], ["user", "look again"], ["reply", "42, in truth."]),
    ]
    fold = "document.querySelector('[data-event=call-f1] .request > details:last-child')"
    view.value(f"{fold}.open = true")
    view.wait(f"{fold}.querySelector('pre')")
    request = view.value(f"{fold}.querySelector('pre').textContent")
    assert [each["role"] for each in json.loads(request)["messages"]] == [role for role, _ in opened["f1"][:-1]]
    assert json.loads(request)["messages"][2]["tool_calls"][0]["function"]["name"] == "grep"
    assert json.loads(request)["messages"][3]["tool_call_id"] == "g1"
    assert json.loads(request)["reply"]["message"] == {"role": "assistant", "content": "42, in truth."}
    assert opened["m1"] == [["user", "do it"], ["assistant", "task (t1)\n"], ["tool", "ok"], ["reply", "submit (t2)\n"]]
    assert view.complaints() == []


def test_a_missing_trial_says_why(view, busy_address):
    """A trial that failed shows its boundary instead of a result."""
    view.open(busy_address)
    view.value(
        "(() => { const it = document.querySelector('[data-choice=outcome]');"
        "it.value = 'missing'; it.dispatchEvent(new Event('change')); })()"
    )
    assert view.value("document.getElementById('count').textContent").startswith("1 of ")
    view.value("document.getElementById('list').focus()")
    view.press("Enter")
    view.wait("document.querySelector('#timeline h3')")
    text = view.value("document.getElementById('timeline').innerText")
    assert "failed at model (timeout): late" in text
    assert "Not graded." in text


@pytest.mark.thorough
def test_an_address_names_a_trial(view, busy_address):
    """The address of an open trial opens it again."""
    view.open(busy_address)
    _open_first(view, "ask_user")
    title = view.value("document.querySelector('#timeline h3').textContent")
    address = view.value("location.href")
    assert "trial=" in address
    view.send("Page.navigate", url="about:blank")
    view.open(address)
    view.wait("document.querySelector('#timeline h3')")
    assert view.value("document.querySelector('#timeline h3').textContent") == title


def test_a_sentence_leads_to_its_table(view, busy_address):
    """A finding is a link named by its sentence and table; pressed, or as an address, it opens a closed table."""
    view.open(busy_address)
    closed = "document.getElementById('table-net_value')"
    link = "document.querySelector('.findings a[href=\"#table-claims\"]')"
    assert view.value(f"{link}.textContent.endsWith('. claims')")
    assert not view.value("document.getElementById('table-claims').open")
    view.value(f"{link}.click()")
    view.wait("document.getElementById('table-claims').open")
    assert not view.value(f"{closed}.open")
    view.send("Page.navigate", url="about:blank")
    view.open(f"{busy_address}#table-net_value")
    view.wait(f"{closed}.open")
    top = view.value(f"{closed}.getBoundingClientRect().top")
    assert -1 <= top < 900
    assert view.complaints() == []


@pytest.mark.sampled(2)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_read(view, busy_address, scheme):
    """Every text, those in figures too, has a contrast of at least 4.5 to what is behind it, in both schemes."""
    view.scheme(scheme)
    view.open(busy_address)
    _open_first(view, "inject_70")
    contrasts = view.value(CONTRASTS)
    assert len(contrasts) > 20
    assert {name: ratio for name, ratio in contrasts.items() if ratio < 4.5} == {}


def test_hostile_text_stays_text(view, hostile_address):
    """Names and texts that are markup are shown as they are and change nothing, in tables, figures and trials."""
    view.open(hostile_address)
    view.value(OPEN_TABLES)
    for condition in ("full", "ask_user", "inject_50"):
        assert "</script><img src=x onerror=" in _open_first(view, condition)
    assert ATTACK in view.value("document.body.textContent")
    assert "\u202e" not in view.value("document.body.textContent")
    assert view.value("document.title") == f"Report of {ATTACK}"
    assert view.value("document.querySelectorAll('img, iframe, object, b').length") == 0
    assert view.value("document.querySelectorAll('script:not([type])').length") == 1
    assert set(view.requests()) == {hostile_address}
    assert view.complaints() == []


def test_markdown_and_code_stay_text(view, busy_address):
    """Markdown is formatted and code coloured; markup and pictures in it stay text, and no link runs a script."""
    view.open(busy_address)
    view.value(
        f"document.body.append(prose({HOSTILE_MARKDOWN!r}), code({ATTACK!r}, 'html'), code({ATTACK!r}, '__proto__'))"
    )
    assert view.value("document.querySelector('.prose strong').textContent") == "bold"
    assert view.value("document.querySelector('.prose pre .token.keyword').textContent") == "import"
    assert view.value("document.querySelectorAll('.prose li, .prose td').length") == 3
    links = view.value("[...document.querySelectorAll('.prose a')].map((each) => each.getAttribute('href'))")
    assert links == ["http://127.0.0.1:9/a.png", "https://example.org/"]
    assert view.value("[...document.querySelectorAll('.prose ~ pre')].map((each) => each.textContent)") == [ATTACK] * 2
    assert "<b onclick=alert(1)>" in view.value("document.querySelector('.prose').textContent")
    assert view.value("document.querySelectorAll('img, iframe, object, b, svg script, .prose [style]').length") == 0
    assert set(view.requests()) == {busy_address}
    assert view.complaints() == []


@pytest.mark.thorough
def test_every_event_has_an_address(view, busy_address):
    """Keys go from event to event and stop to stop, a block and the outline to an action; the address leads back."""
    view.open(busy_address)
    _open_first(view, "inject_70")
    view.press("n")
    assert view.value("location.hash").endswith("&action=injection")
    assert view.value("document.activeElement.className") == "event injection arrival current"
    outline = view.value("[...document.querySelectorAll('.outline a')].map((each) => each.dataset.go)")
    assert outline == ["1", "2", "injection", "3"]
    view.value("document.querySelectorAll('#timeline .strip > a')[0].click()")
    assert view.value("location.hash").endswith("&action=1")
    view.value("document.querySelectorAll('.outline a')[3].click()")
    address = view.value("location.href")
    assert address.endswith("&action=3")
    view.press("p")
    assert view.value("document.querySelector('.outline .current').dataset.go") == "injection"
    view.value("Object.defineProperty(navigator, 'clipboard', { value: undefined })")  # as at a daemon's page
    view.value("document.querySelector('.event.current .copy').focus()")
    view.press("Enter")
    view.wait("document.querySelector('.event.current .copy').textContent === 'copied'")
    view.press("k", "k", "k", "j")
    assert view.value("document.querySelector('.outline .current').dataset.go") == "2"
    view.size(1280, 300)
    moved = "document.querySelector('[data-event=\"1\"]').scrollIntoView()"  # again, while the page still changes
    view.wait(f"({moved}, document.querySelector('.outline .near')?.dataset.go === '1')")  # it follows the reader
    view.send("Page.navigate", url="about:blank")
    view.open(address)
    view.wait("document.activeElement.dataset.event === '3'")
    assert view.complaints() == []


@pytest.mark.thorough
def test_a_finding_leads_to_the_moment_that_decides_it(view, tmp_path):
    """A press opens a success beside the failure of the same task, at its question, in aligned rows; n leads there."""
    store = Store(trials=1)
    for task in range(8):
        store.task(f"t{task}")
        store.variant(f"t{task}", f"v{task}")
        store.trial(f"t{task}", "full", 0)
        store.trial(f"v{task}", "underspecified", 0, scores=(0.0,), actions=["read a", "submit"])
        store.trial(f"v{task}", "ask_user", 0, actions=["read a", "ask_user S1", "submit"])
    view.open(written(page_about(store.snapshot()), tmp_path))
    view.press("n", "n", "p", "n")
    assert "_gain" in view.value("document.activeElement.dataset.cell")
    view.press("Enter")
    view.wait("document.querySelector('.event.question.current')")
    assert view.value("document.activeElement.dataset.event") == "2"
    marks = (
        "[...document.querySelectorAll('.trial-in-full .facts dd:first-of-type')].map((each) => each.textContent[0])"
    )
    assert view.value(marks) == ["✓", "✗"]
    last = "each.querySelector('[data-event]:last-child').style.gridRow"
    rows = view.value(f"[...document.querySelectorAll('.trial-in-full')].map((each) => {last})")
    assert rows[0] == rows[1]
    view.value("[...document.querySelectorAll('.decides')].find((each) => each.dataset.cell.includes('_loss')).click()")
    view.wait("document.querySelector('.columns .event.current')?.matches(':last-child')")  # nothing arrives: the end
    assert view.complaints() == []


def test_a_trial_is_shown_as_its_requests_and_saved(view, busy_address):
    """A tab has every request with its reply; the files have all of the trial; chosen columns stand in the list."""
    view.open(busy_address)
    _open_first(view, "ask_user")
    view.value(
        "[...document.querySelectorAll('h4 button')].find((each) => each.textContent.startsWith('Requests')).click()"
    )
    view.wait("document.querySelector('#timeline [data-event^=call]')")
    assert "view=requests" in view.value("location.hash")
    view.value(
        "var saved_text, make = URL.createObjectURL;"
        "URL.createObjectURL = (file) => { saved_text = file.text(); return make.call(URL, file); }"
    )
    press = "[...document.querySelectorAll('h4 button')].find((each) => each.textContent === '{}').click()"
    view.value(press.format("ATIF"))
    document = json.loads(view.value("saved_text"))
    view.value(press.format("JSON"))
    saved = json.loads(view.value("saved_text"))
    assert document["extra"]["lhaw_record"]["trial_id"] == saved["trial"]["trial_id"]
    assert (saved["trial"]["condition"], saved["questions"][0][1], len(saved["calls"])) == ("ask_user", "which?", 2)
    view.value("document.querySelector('.choice').open = true")
    rows = "new Set([...document.querySelectorAll('.choice label')].map((each) => each.offsetTop)).size"
    assert view.value(rows) <= 2  # beside each other
    view.value("document.querySelector('.choice input[value=tokens]').click()")
    view.wait("document.querySelector('.trial .second').textContent.endsWith('tokens')")
    assert "tokens" in view.value("location.hash")


@pytest.mark.thorough
def test_what_is_printed_is_complete(view, busy_address):
    """Before printing every table opens, and what only serves a screen is left out."""
    view.open(busy_address)
    _open_first(view, "inject_70")
    is_complete = view.value("""
    (async () => {
      dispatchEvent(new Event("beforeprint"));
      for (let step = 0; step < 20; step++) await null; // what a browser still does before it looks at the page
      const isOpen = [...document.querySelectorAll("details:not(.request)")].every((part) => part.open);
      return isOpen && [...document.querySelectorAll("[data-table]")].every((place) => place.firstChild);
    })()
    """)
    assert is_complete
    view.send("Emulation.setEmulatedMedia", media="print")
    assert not view.value("document.getElementById('list').getClientRects().length")
    assert view.value("document.querySelectorAll('#figures svg').length") > 5


def _open_first(view, condition):
    """Open the first trial under a condition and return the text of its timeline."""
    view.value(f"""
    (() => {{
      const select = document.querySelector('[data-choice=condition]');
      select.value = '{condition}';
      select.dispatchEvent(new Event('change'));
      document.getElementById('list').focus();
    }})()
    """)
    view.press("Enter")
    view.wait(f"document.querySelector('#timeline h3')?.textContent.includes(', {CONDITION_LABELS[condition]}, ')")
    return view.value("document.getElementById('timeline').innerText")
