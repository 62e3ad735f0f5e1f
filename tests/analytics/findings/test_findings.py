"""No sentence says more than its table: its numbers are cells, and a difference is claimed only where 0 is excluded."""

import csv
import io
import json
import re

import pytest

from lhaw_record.analytics.cli import table_output
from lhaw_record.analytics.findings.findings import MEASURES, NEEDED, Finding, by_question, findings
from lhaw_record.analytics.tables.tables import tables
from lhaw_record.analytics.views.store import connect, read_for
from tests.analytics.make_store import Store
from tests.analytics.report.pages import busy_store

NUMBER = re.compile(r"(?<![\w@.])-?\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?![\w@])")
ROUNDINGS = ("{:.0f}", "{:.1f}", "{:.2f}", "{:.2g}", "{:,.0f}")


def found_in(store, measure="pass_at_1", **parameters):
    """The tables of a store, and its findings."""
    connection = connect(store.snapshot(), parameters=parameters, only=read_for(NEEDED))
    try:
        computed = {each.name: each for each in tables(connection, NEEDED)}
    finally:
        connection.close()
    timing = parameters.get("timing_measure", "pass_at_1")
    return computed, findings(computed, measure, timing, parameters.get("confidence", 0.95))


def store_of(tasks, outcomes):
    """A store with one variant a task; ``outcomes`` gives by condition the successes of the three trials of a task."""
    store = Store(trials=3)
    for place in range(tasks):
        store.task(f"t{place}")
        store.variant(f"t{place}", f"v{place}", "goal", ambiguity_class="outcome-critical")
    return with_trials(store, tasks, outcomes)


def with_trials(store, tasks, outcomes, agent="a"):
    """A store of :func:`store_of`, with the trials of an agent added."""
    for place in range(tasks):
        for condition, successes in outcomes.items():
            unit = f"t{place}" if condition.startswith("full") else f"v{place}"
            asks = ["ask_user S1"] if condition.endswith("ask_user") else []
            for index in range(3):
                score = float(index < successes(place))
                store.trial(unit, condition, index, scores=(score,), actions=[*asks, "submit"], agent=agent)
    return store


def said(numbers):
    """Every text that a number of a row may be printed as."""
    in_per_cent = {100 * number for number in numbers if isinstance(number, float) and abs(number) <= 1}
    return {form.format(number) for number in {*numbers, *in_per_cent} for form in ROUNDINGS}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("measure", MEASURES)
def test_every_number_is_a_cell_and_every_claim_has_its_interval(measure):
    """The rows are found by the keys of a finding; what excludes 0 is judged here from their bounds alone."""
    computed, said_so = found_in(busy_store(), measure)
    assert {each.verdict for each in said_so} >= {"measured", "not known"}
    together = [
        (each, answer.sentence if each.size in answer.sentence else f"{answer.sentence} {group.size}")
        for group in by_question(said_so)
        for answer in group.answers
        for each in answer.findings
    ]
    assert sorted(map(id, said_so)) == sorted(id(each) for each, _ in together)
    assert all(each.agent in text for each, text in together)
    for each, text in [*((each, each.sentence) for each in said_so), *together]:
        rows = [
            row
            for row in computed[each.table].rows
            if each.keys and all(str(row[key]) == value for key, value in each.keys.items())
        ]
        assert len(rows) == (1 if each.keys else 0)
        about = [  # a sentence about waste names several measures of one agent and condition
            row
            for row in computed[each.table].rows
            if each.keys and all(row.get(key) == each.keys.get(key) for key in ("benchmark", "agent", "condition"))
        ]
        cells = {
            value
            for row in (about if each.table == "wasted" else rows)
            for value in row.values()
            if isinstance(value, int | float) and not isinstance(value, bool)
        }
        own = "|".join(map(re.escape, sorted({*each.keys.values(), "95", "90"}, key=len, reverse=True)))
        sentence = re.sub(own, "", text.replace("pass@1", "").replace("pass@k", ""))
        allowed = said(cells) | {text.removesuffix(".0") for text in said(cells)}
        assert set(NUMBER.findall(sentence)) <= allowed, (each, text)
        if each.verdict in ("shown", "not shown"):
            (row,) = rows
            is_corrected = row["p_family"] < 0.05
            assert (each.verdict == "shown") == is_corrected, each
            assert not (is_corrected and row["low"] <= 0 <= row["high"]), each
            assert each.p_family == row["p_family"]
            assert each.family == f"{row['n_family']:,} claim{'s' if row['n_family'] > 1 else ''}"
            assert f"corrected p = {row['p_family']:.2g} (family of {each.family})" in text


@pytest.mark.thorough
def test_what_is_lost_and_gained_is_said():
    """Eight tasks that always fail without the information and never with it."""
    outcomes = {"full": lambda _: 3, "underspecified": lambda _: 0, "ask_user": lambda _: 3}
    _, said_so = found_in(store_of(8, outcomes))
    sentences = {each.sentence.split(" ")[0]: each for each in said_so if each.verdict == "shown"}
    assert {"Missing", "Asking"} <= sentences.keys()
    assert sentences["Missing"].sentence.startswith("Missing information costs a 100.0 [")


@pytest.mark.thorough
def test_agents_with_equal_numbers_share_a_sentence():
    """Two agents that did the same are named together, one that did not alone; a size that all share stands once."""
    outcomes = {"full": lambda _: 3, "underspecified": lambda _: 0}
    store = with_trials(store_of(8, outcomes), 8, outcomes, agent="b")
    store = with_trials(store, 8, {**outcomes, "underspecified": lambda place: place % 2}, agent="c")
    (cost, *_) = by_question(found_in(store)[1])
    assert cost.size == "8 tasks, 48 trials"
    together, alone = (each.sentence for each in cost.answers)
    assert together.startswith("Missing information costs a and b 100.0 [")
    assert together.endswith(" percentage points of pass@1, corrected p = 0.0078 (family of 3 claims).")
    assert alone.startswith("Missing information costs c 83.3 [")
    (both,) = by_question(each for each in found_in(store)[1] if each.table == "claims" and each.agent in ("a", "b"))
    assert (both.size, both.answers[0].sentence[-32:]) == ("", " (8 tasks, 48 trials per agent).")


@pytest.mark.thorough
def test_a_loss_is_claimed_by_its_corrected_p_value():
    """All of seven tasks are lost: p = 2 / 128 over all agents alike, also beside gains that are smaller.

    Agents that differ everywhere cost a claim more: then 2 / 128 times their number is the largest that p can be.
    """
    outcomes = {"full": lambda _: 3, "underspecified": lambda _: 0}
    alike, asked = store_of(7, outcomes), store_of(7, {**outcomes, "ask_user": lambda place: place % 3})
    for agent in "bcd":
        with_trials(alike, 7, outcomes, agent=agent)
    p_values = [
        next(each.p_family for each in found_in(store)[1] if each.wording.startswith("Missing"))
        for store in (alike, asked)
    ]
    assert p_values == [0.015625, 0.015625]


def test_a_claim_without_its_family_is_refused():
    """A sentence that claims a difference is made from a row with a corrected p-value, or not at all."""
    made = dict.fromkeys(("question", "benchmark", "agent", "wording", "size", "settled_by", "table"), "x")
    assert Finding(verdict="not shown", keys={}, **made).family == ""
    for family, p_family in (("", None), ("gains", None), ("", 0.01)):
        with pytest.raises(ValueError, match="without a family"):
            Finding(verdict="shown", keys={}, family=family, p_family=p_family, **made)


@pytest.mark.thorough
def test_chance_alone_is_never_called_a_finding():
    """Differences that go both ways, or in too few tasks, are not shown or not known, whatever their mean."""
    both_ways = {
        "full": lambda place: place % 4,
        "underspecified": lambda place: 3 - place % 4,
        "ask_user": lambda _: 2,
    }
    always = {"full": lambda _: 3, "underspecified": lambda _: 0, "ask_user": lambda _: 3}
    _, said_so = found_in(store_of(8, both_ways))
    assert "shown" not in {each.verdict for each in said_so}
    _, said_so = found_in(store_of(4, always))
    known = [each for each in said_so if each.table == "claims" and each.keys]
    assert known
    assert {each.verdict for each in known} == {"not known"}
    assert all("tasks" in each.settled_by for each in known)
    assert any(
        "is estimated at 100.0 percentage points of pass@1, without an interval (4 tasks" in each.sentence
        for each in known
    )


@pytest.mark.thorough
def test_an_empty_store_says_what_each_question_needs():
    """No sentence, and no error: what a question needs."""
    _, said_so = found_in(Store())
    assert {each.verdict for each in said_so} == {"not known"}
    assert all(each.settled_by for each in said_so)


ALWAYS = {"full": lambda _: 3, "underspecified": lambda _: 0, "ask_user": lambda _: 3}


@pytest.mark.thorough
def test_asking_pays_only_where_it_is_shown_to_help():
    """Seven tasks show the gain, five cannot: then no cost at which asking pays is named."""
    often = {**ALWAYS, "ask_user": lambda place: 2 + place % 2}
    for tasks, is_shown in ((7, True), (5, False)):
        sentences = [each.sentence for each in found_in(store_of(tasks, often))[1]]
        assert any(each.startswith("Asking helps a:") for each in sentences) == is_shown
        assert any(each.startswith("Asking pays off for a ") for each in sentences) == is_shown


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("gains", "verdict"), [((True, 7), "shown"), ((False, 7), "not shown"), ((True, 4), "not known")]
)
def test_every_point_of_no_return_is_said(gains, verdict):
    """A sentence for all variants and for each dimension, also where there is no point, and it names its measure."""
    is_useful, tasks = gains
    outcomes = {"full": lambda _: 3, "underspecified": lambda _: 0, "inject_10": lambda _: 3 * is_useful}
    computed, said_so = found_in(store_of(tasks, outcomes), timing_measure="checkpoint_progress")
    rows = computed["claims"].rows
    about = [each for each in said_so if each.keys.get("measure") == "injection_gain"]
    assert [each.keys["dimension"] for each in about] == ["all", "goal"]
    assert {row["dimension"] for row in rows if row["measure"] == "injection_gain"} == {"all", "goal"}
    assert {each.verdict for each in about} == {verdict}
    assert all("progress" in each.sentence for each in about)
    assert {"at least 6 tasks for an interval; there are 4" in each.settled_by for each in about} == {tasks == 4}


@pytest.mark.thorough
def test_a_time_that_nobody_planned_does_not_end_the_run():
    """Messages at 10, 50 and 90 % that all help do so up to 90 %; one that is planned and missing ends the run."""
    times = {f"inject_{share}": lambda _: 3 for share in (10, 50, 90)}
    store = store_of(8, {"full": lambda _: 3, "underspecified": lambda _: 0, **times})
    told = [each.wording for each in found_in(store)[1] if each.keys.get("measure") == "injection_gain"]
    assert told
    assert all("up to 90 % of the trajectory" in each for each in told)


@pytest.mark.thorough
def test_nobody_drops_out():
    """An agent without trials under a condition that others have, and a benchmark without injections, are not known."""
    store = store_of(6, {**ALWAYS, "full_ask_user": lambda _: 3, "inject_90": lambda _: 3})
    with_trials(store, 6, {"underspecified": lambda _: 0}, agent="b")
    store.benchmark = "second"
    store.task("r")
    store.variant("r", "x")
    for condition in ("full", "underspecified"):
        store.trial("r" if condition == "full" else "x", condition, 0)
    _, said_so = found_in(store)
    questions = {each.question for each in said_so}
    assert len(questions) == 5
    for question in questions:
        for benchmark, agent in (("desk", "a"), ("desk", "b"), ("second", "a")):
            of_agent = [
                each
                for each in said_so
                if each.question == question and each.benchmark == benchmark and each.agent == agent
            ]
            assert of_agent, (question, benchmark, agent)
            if agent == "b" or benchmark == "second":
                assert {each.verdict for each in of_agent} == {"not known"}
                assert all(each.settled_by for each in of_agent)


@pytest.mark.thorough
def test_no_sentence_has_a_code():
    """Reasons are said in words: none stands in a sentence, or in what would settle it, as the tables write it."""
    for store in (busy_store(), store_of(2, {**ALWAYS, "full_ask_user": lambda _: 3, "inject_50": lambda _: 1})):
        computed, said_so = found_in(store, k=5)
        reasons = {row.get("reason") for each in computed.values() for row in each.rows} - {None, "count"}
        assert reasons
        for each in said_so:
            assert not any(reason in each.sentence + each.settled_by for reason in reasons), each


@pytest.mark.thorough
def test_a_share_of_the_questions_is_that_of_all_questions():
    """One variant with one right question and one with three wrong ones: a quarter, not a half; users are named."""
    store = Store(trials=1)
    for place, actions in enumerate((["ask_user S1"], ["ask_user "] * 3)):
        store.task(f"t{place}")
        store.variant(f"t{place}", f"v{place}", "goal")
        store.trial(f"v{place}", "ask_user", 0, actions=[*actions, "submit"])
    (said,) = [each.sentence for each in found_in(store)[1] if each.keys.get("measure") == "precision_micro"]
    assert "that a asks, 25.0 % (no interval) target" in said


@pytest.mark.thorough
def test_a_command_asks_about_one_success(monkeypatch, tmp_path):
    """``--measure`` chooses the success of the point of no return, too, unless a setting does; keys in CSV are JSON."""
    snapshot = busy_store().snapshot()

    def computed(_, names, parameters, **_options):
        connection = connect(snapshot, parameters=parameters, only=read_for(names))
        try:
            return tables(connection, names), ()
        finally:
            connection.close()

    monkeypatch.setattr(table_output, "compute", computed)
    for settings, measure in (
        ([], "progress"),
        (["timing_measure=pass_at_k"], "pass@k"),
        (["reading=paper"], "pass@k"),
    ):
        out = io.StringIO()
        table_output.print_findings(tmp_path, "checkpoint_progress", settings=settings, form="csv", out=out)
        rows = list(csv.DictReader(io.StringIO(out.getvalue())))
        about = [row for row in rows if '"injection_gain"' in row["keys"]]
        assert about
        assert all(f" {measure} " in row["sentence"] for row in about)
        assert {type(json.loads(row["keys"])) for row in rows} == {dict}
