"""Two arms side by side: what an arm is, what pairs up, and the numbers worked by hand."""

import json
from inspect import signature

import anyio
import msgspec
import numpy as np
import pytest
from scipy.stats import permutation_test, ttest_ind

from lhaw_record.analytics.comparison.compare import VIEWS, compare, media_notes
from lhaw_record.analytics.comparison.groups import MEASURES, Group, check_groups, parse_group
from lhaw_record.analytics.errors import BadParameter, UnknownName
from lhaw_record.analytics.findings import MEASURES as FINDING_MEASURES
from lhaw_record.analytics.tables.filters import known_filter
from lhaw_record.analytics.tables.notes import background, notes_for
from lhaw_record.analytics.tables.tables import table
from lhaw_record.analytics.views.store import connect, read_for
from lhaw_record.command_line import main
from tests.analytics.make_store import Store, called, write_events

KNOWN = [("a", "ask_user"), ("a", "underspecified"), ("b", "ask_user")]


def small_store():
    """Three tasks with one variant each, v4 without a second arm; agent a asks well, b asks and gains nothing."""
    store = Store(trials=3)
    asked = {"v1": (1, 1, 1), "v2": (1, 1, 0), "v3": (0, 0, 0), "v4": (1, 1, 1)}
    for place, (variant_id, scores) in enumerate(asked.items(), 1):
        store.task(f"t{place}")
        label = "benign" if place == 3 else "outcome-critical"
        store.variant(f"t{place}", variant_id, "goal input", ambiguity_class=label, classified_by="us")
        for agent in ("a", "b"):
            for index, score in enumerate(scores):
                store.trial(f"t{place}", "full", index, agent=agent)
                store.trial(f"t{place}", "full_ask_user", index, agent=agent, scores=[index > 0])
                reached = [score if agent == "a" else 0]
                store.trial(
                    variant_id, "ask_user", index, agent=agent, scores=reached, actions=["ask_user S1", "submit"]
                )
                if variant_id != "v4":
                    store.trial(variant_id, "underspecified", index, agent=agent, scores=[0])
    return store


@pytest.fixture(scope="module")
def connection():
    """A connection to the small store, with what a comparison needs."""
    opened = connect(small_store().snapshot(), parameters={"k": 1}, only=VIEWS)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    ("text", "arm"),
    [
        ("ask_user", Group(None, "ask_user")),
        ("balanced", Group("balanced", None)),
        ("balanced:inject_30", Group("balanced", "inject_30")),
        ("scripted/x:1:full", Group("scripted/x:1", "full")),
        ("agent=full", Group("full", None)),
        ("condition=full, agent=a#12", Group("a#12", "full")),
    ],
)
def test_an_arm_is_read(text, arm):
    """AGENT:CONDITION, one of the two, or both by name; the text of an arm is read back as that arm."""
    assert parse_group(text) == arm == parse_group(str(arm))


@pytest.mark.parametrize(
    ("arms", "by", "error", "message"),
    [
        (("ask_user", "ask_user"), None, BadParameter, "both arms are condition=ask_user; name two"),
        (("a:ask_user", "ask_user"), None, BadParameter, "agent=a,condition=ask_user names agent and condition and"),
        (("a", "b"), "agent", BadParameter, "both arms name the agent"),
        (("a", "c"), None, UnknownName, "no trials of agent=c; there are: a under ask_user, underspecified; b under"),
        (("a:ask_user", "b:underspecified"), None, UnknownName, "no trials of agent=b,condition=underspecified"),
        (("a:asking", "b"), None, BadParameter, "no condition 'asking' .* known: full, underspecified"),
        (("agent=a,color=red", "b"), None, BadParameter, "cannot be read; write agent=NAME,condition=NAME"),
        (("agent=", "b"), None, BadParameter, "cannot be read"),
    ],
)
def test_impossible_arms_are_explained(arms, by, error, message):
    """The error names the arm, and what there is or how to write it."""
    with pytest.raises(error, match=message):
        check_groups(*map(parse_group, arms), by, KNOWN)


def test_a_gain_worked_by_hand(connection):
    """pass@1 of a: 1, 2/3, 0 asked and 0, 0, 0 not: mean difference 5/9.

    Of the eight sign choices of three tasks the sums as far from 0 as 5/3 are +1 + 2/3 and -1 - 2/3, each with both
    signs of the 0: 4/8. v4 has one arm and is dropped; 3 pairs of 6 trials count.
    """
    (row,) = compare(connection, parse_group("a:ask_user"), parse_group("a:underspecified"))
    assert {name: row[name] for name in ("part", "a", "b", "difference", "p_value")} == {
        "part": "all",
        "a": 0.555556,
        "b": 0.0,
        "difference": 0.555556,
        "p_value": 0.5,
    }
    assert (row["n_units"], row["n_dropped"], row["n_clusters"], row["n_trials"], row["n_missing"]) == (3, 1, 3, 18, 0)
    assert (row["low"], row["reason"]) == (None, "too_few_clusters")


def test_what_is_left_open_pairs_up(connection):
    """Conditions compare within each agent, agents within each condition; the other order has the other sign."""
    (pooled,) = compare(connection, parse_group("ask_user"), parse_group("underspecified"))
    assert (pooled["difference"], pooled["n_units"], pooled["n_dropped"]) == (0.277778, 6, 2)
    split = compare(connection, parse_group("a"), parse_group("b"), by="condition")
    assert [(row["part"], row["difference"], row["n_units"]) for row in split] == [
        ("all", 0.177778, 15),
        ("ask_user", 0.666667, 4),
        ("full", 0.0, 4),
        ("full_ask_user", 0.0, 4),
        ("underspecified", 0.0, 3),
    ]
    turned = compare(connection, parse_group("b"), parse_group("a"))
    assert turned[0]["difference"] == -0.177778
    assert turned[0]["p_value"] == split[0]["p_value"]


def test_rows_split_by_class_dimension_agent_and_task(connection):
    """All units come first, then each part; a variant stands in each of its dimensions."""
    arms = (parse_group("ask_user"), parse_group("underspecified"))
    by_class = {row["part"]: (row["difference"], row["n_units"]) for row in compare(connection, *arms, by="class")}
    assert by_class == {"all": (0.277778, 6), "benign": (0.0, 2), "outcome-critical": (0.416667, 4)}
    by_dimension = {row["part"]: row["n_units"] for row in compare(connection, *arms, by="dimension")}
    assert by_dimension == {"all": 6, "goal": 6, "input": 6}
    assert [row["part"] for row in compare(connection, *arms, by="agent")] == ["all", "a", "b"]
    tasks = compare(connection, *arms, by="task")
    assert [(row["part"], row["n_units"], row["reason"]) for row in tasks[1:]] == [
        ("t1", 2, "too_few_clusters"),
        ("t2", 2, "too_few_clusters"),
        ("t3", 2, "too_few_clusters"),
        ("t4", 0, "one_arm_only"),
    ]


def test_full_prompts_are_compared_task_by_task(connection):
    """Full prompts pair over tasks, each once; against another condition they stand under every variant."""
    (row,) = compare(connection, parse_group("a:full"), parse_group("a:full_ask_user"))
    assert (row["a"], row["b"], row["n_units"], row["n_trials"]) == (1.0, 0.666667, 4, 24)
    (row,) = compare(connection, parse_group("a:full_ask_user"), parse_group("a:ask_user"), measure="pass_at_1")
    assert (row["a"], row["b"], row["n_units"]) == (0.666667, 0.666667, 4)


def test_other_measures(connection):
    """Questions and asking are per trial of the unit, pass^k and progress as in the tables."""
    arms = (parse_group("a:ask_user"), parse_group("a:underspecified"))
    values = {name: compare(connection, *arms, measure=name)[0]["a"] for name in ("questions_per_trial", "ask_pct")}
    assert values == {"questions_per_trial": 1.0, "ask_pct": 100.0}
    assert compare(connection, *arms, measure="checkpoint_progress")[0]["difference"] == 0.555556


@pytest.mark.thorough
def test_a_single_arm_has_a_reason():
    """Arms of which one has no value give a row without numbers, with the reason."""
    store = Store(trials=1)
    store.task("t")
    store.variant("t", "v")
    store.variant("t", "w")
    store.trial("v", "ask_user", 0)
    store.trial("w", "underspecified", 0, ends="failed")
    opened = connect(store.snapshot(), parameters={"k": 1}, only=VIEWS)
    try:
        (row,) = compare(opened, parse_group("ask_user"), parse_group("underspecified"))
    finally:
        opened.close()
    assert (row["difference"], row["p_value"], row["n_units"], row["n_dropped"]) == (None, None, 0, 2)
    assert row["reason"] == "one_arm_only"


@pytest.mark.thorough
@pytest.mark.parametrize(("pooled", "expected"), [("tasks", (0.5, 0.375, 0.125)), ("units", (0.75, 0.5, 0.25))])
def test_agents_in_one_row_are_averaged_within_tasks(pooled, expected):
    """As in voi: in t agent a gains (1 + 0)/2 and b 0, in u a gains 0: (1/4 + 0)/2; or four units alike."""
    store = Store(trials=1)
    for task, names in (("t", "vw"), ("u", "x")):
        store.task(task)
        for name in names:
            store.variant(task, name)
    for name, agent, without, early in (("v", "a", 0, 1), ("w", "a", 1, 1), ("x", "a", 0, 0), ("v", "b", 1, 1)):
        store.trial(name, "underspecified", 0, agent=agent, scores=[without])
        store.trial(name, "inject_10", 0, agent=agent, scores=[early], budget=9, injected_after=1)
    opened = connect(store.snapshot(), parameters={"k": 1, "pooled": pooled}, only={*VIEWS, "voi"})
    try:
        rows = compare(opened, parse_group("inject_10"), parse_group("underspecified"), by="agent")
        query = "select value from voi where agent = 'all' and measure = 'pass_at_1' and condition = ?"
        curve = [opened.execute(query, [name]).fetchall()[0][0] for name in ("inject_10", "underspecified")]
    finally:
        opened.close()
    assert [(row["a"], row["b"], row["difference"]) for row in rows] == [
        expected,
        (0.666667, 0.333333, 0.333333),
        (1.0, 1.0, 0.0),
    ]
    assert curve == list(expected[:2])


def test_arms_that_share_tasks_and_no_variant_are_paired_by_task():
    """Each task has the mean of its variants: seven tasks, 1 and 1/2 against 0, p = 2 / 128; a lone task is dropped."""
    store = Store(trials=1)
    for place in range(8):
        task = f"t{place}"
        store.task(task)
        for name, condition, score in (("v", "ask_user", 1), ("w", "ask_user", place % 2), ("x", "underspecified", 0)):
            store.variant(task, f"{name}{place}")
            if condition == "ask_user" or place < 7:
                store.trial(f"{name}{place}", condition, 0, scores=[score])
    opened = connect(store.snapshot(), parameters={"k": 1}, only=VIEWS)
    arms = parse_group("ask_user"), parse_group("underspecified")
    try:
        rows = compare(opened, *arms, by="task")
        with pytest.raises(BadParameter, match="no variant in common, so tasks are paired, and tasks have no class"):
            compare(opened, *arms, by="class")
    finally:
        opened.close()
    row = rows[0]
    assert (row["difference"], row["p_value"], row["n_units"], row["n_dropped"]) == (0.714286, 2 / 128, 7, 1)
    assert (row["method"], row["is_by_task"], row["low"] > 0) == ("sign_flips", True, True)
    assert [each["difference"] for each in rows[1:3]] == [0.5, 1.0]


@pytest.mark.thorough
def test_arms_with_a_common_variant_are_not_paired_by_task():
    """The common variant has no value in one arm: that is said, and no other variant of the task takes its place."""
    store = Store(trials=1)
    store.task("t")
    for name, conditions in (("v", ("ask_user", "underspecified")), ("w", ("ask_user",)), ("x", ("underspecified",))):
        store.variant("t", name)
        for condition in conditions:
            is_lost = (name, condition) == ("v", "underspecified")
            store.trial(name, condition, 0, **({"ends": "failed"} if is_lost else {"scores": [1]}))
    opened = connect(store.snapshot(), parameters={"k": 1}, only=VIEWS)
    try:
        (row,) = compare(opened, parse_group("ask_user"), parse_group("underspecified"))
    finally:
        opened.close()
    assert (row["difference"], row["is_by_task"], row["n_units"], row["n_trials"]) == (None, False, 0, 0)


def test_arms_of_different_tasks_are_compared_by_their_means():
    """Whole tasks change places between the arms.

    Shares are less sure than that alone (:mod:`statistics.inference`); five tasks give amounts no test.
    """
    store = Store(trials=1)
    scores = {"a": (1, 1, 0.5, 0, 1), "b": (0, 0, 0.75, 0.25, 0, 0)}
    for agent, values in scores.items():
        for place, score in enumerate(values):
            store.task(f"{agent}{place}")
            for name in ("v", "w"):  # two variants that agree: units of one task move together
                store.variant(f"{agent}{place}", f"{name}-{agent}{place}")
                actions = [*["ask_user S1"] * int(4 * score), "submit"]
                store.trial(f"{name}-{agent}{place}", "ask_user", 0, agent=agent, scores=[score], actions=actions)
    store.task("other")
    store.variant("other", "x")
    store.trial("x", "ask_user", 0, agent="b", ends="failed")
    opened = connect(store.snapshot(), parameters={"k": 1}, only=VIEWS)
    try:
        row, amount = (
            compare(opened, parse_group("a"), parse_group("b"), measure=measure)[0]
            for measure in ("checkpoint_progress", "questions_per_trial")
        )
    finally:
        opened.close()
    theirs = permutation_test(
        (np.array(scores["a"]), np.array(scores["b"])),
        lambda x, y: abs(ttest_ind(x, y, equal_var=False).statistic),
        alternative="greater",
    )
    assert (row["a"], row["b"], row["difference"]) == (0.7, 0.166667, 0.533333)
    assert (amount["difference"], amount["p_value"]) == (pytest.approx(4 * 1.6 / 3), None)
    assert amount["reason"] == "too_few_clusters"
    assert row["p_value"] > theirs.pvalue
    assert (row["n_units"], row["n_dropped"], row["n_clusters"], row["n_trials"]) == (22, 1, 11, 22)
    assert row["method"] == "permutation"
    assert row["low"] < row["difference"] < row["high"]
    assert (row["low"] > 0) == (row["p_value"] < 0.05)


def test_a_comparison_without_a_test_still_says_that_nothing_was_paired(tmp_path, capsys):
    """Three tasks of one agent, three others of the other: too few for an interval, and no pair was made."""
    store = Store(trials=1)
    for agent in "ab":
        for place in range(3):
            store.task(f"{agent}{place}")
            store.variant(f"{agent}{place}", f"v{agent}{place}")
            store.trial(f"v{agent}{place}", "ask_user", 0, agent=agent, scores=(float(place > 1),))
    anyio.run(write_events, tmp_path / "store", store.envelopes)
    assert main(["compare", str(tmp_path / "store"), "a", "b", "--measure", "questions_per_trial"]) == 0
    printed = capsys.readouterr()
    assert "too_few_clusters" in printed.out
    assert "over all units: the groups have no task in common" in printed.err


@pytest.mark.thorough
def test_agents_without_variants_are_compared_task_by_task():
    """Results of full prompts only, as imports bring them, pair over tasks: an empty table would be no answer."""
    store = Store(trials=1)
    for task, scores in (("t1", (1.0, 0.0)), ("t2", (1.0, 1.0)), ("t3", (0.0, 0.0))):
        store.task(task)
        for agent, score in zip("ab", scores, strict=True):
            store.trial(task, "full", 0, agent=agent, scores=(score,))
    opened = connect(store.snapshot(), parameters={"k": 1}, only=VIEWS)
    try:
        (row,) = compare(opened, parse_group("a"), parse_group("b"))
    finally:
        opened.close()
    assert (row["a"], row["b"], row["difference"], row["n_units"]) == (0.666667, 0.333333, 0.333333, 3)


@pytest.mark.thorough
def test_an_agent_that_stands_in_no_arm_is_explained():
    """A classifier, a misspelt name and a stranger get the reason, the nearest name, and the arms that there are."""
    store = Store(trials=1)
    store.task("t")
    store.variant("t", "v")
    for agent in ("balanced", "hasty"):
        store.trial("v", "underspecified", 0, agent=agent)
    store.trial("v", "underspecified", 0, agent="reference", role="classifier")
    listed = "there are: balanced, hasty under underspecified"
    opened = connect(store.snapshot(), only=VIEWS)
    try:
        for name, words in (
            ("reference", r"no trials of agent=reference \(it is a classifier: .*\); "),
            ("Balanced", r"no trials of agent=Balanced; did you mean balanced\?; "),
            ("somebody", r"no trials of agent=somebody; "),
        ):
            with pytest.raises(UnknownName, match=words + listed):
                compare(opened, parse_group(name), parse_group("hasty"))
    finally:
        opened.close()


def test_what_is_compared_by_default_is_what_findings_say():
    """Success in single trials; pass@k only where it is named."""
    assert MEASURES[0] == next(iter(FINDING_MEASURES)) == signature(compare).parameters["measure"].default


@pytest.mark.thorough
@pytest.mark.parametrize(("measure", "of_table"), [("pass_at_1", "pass_at_1_loss"), ("pass_at_k", "pass_at_k_loss")])
def test_a_loss_is_that_of_the_table(measure, of_table):
    """The full prompt against underspecified: variants share it, so interval and p-value are those of losses."""
    store = Store(trials=3)
    for task in range(8):
        store.task(f"t{task}", (1.0,))
        store.variant(f"t{task}", f"v{task}")
        for index in range(3):
            store.trial(f"t{task}", "full", index)
            store.trial(f"v{task}", "underspecified", index, scores=[task % 4 == index])
    opened = connect(store.snapshot(), only=VIEWS | {"losses"})
    try:
        (row,) = compare(opened, Group(None, "full"), Group(None, "underspecified"), measure=measure)
        query = "select value, low, high, p_value from losses where measure = $measure"
        value, low, high, p_value = opened.execute(query, {"measure": of_table}).fetchone()
    finally:
        opened.close()
    assert (row["difference"], row["low"], row["high"]) == pytest.approx((value, low, high))
    assert row["p_value"] == p_value


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["client_gone", "program_no_call"])
@pytest.mark.parametrize(("agent", "n_lost"), [("a", 2), ("b", 1)])
def test_an_arm_that_left_its_calls_is_flagged_and_not_compared(agent, n_lost, kind):
    """Of 21 attempts, two that were left are over 5 %, one is not; whoever wants it may compare all the same."""
    store = small_store()
    for index in range(2):
        ending = kind if index < n_lost else "timeout"
        store.trial("v1", "ask_user", index, agent=agent, attempt=2, ends="failed", error_kind=ending)
    opened = connect(store.snapshot(), parameters={"k": 1}, only=VIEWS)
    arms = Group(agent, "ask_user"), Group(agent, "underspecified")
    (row,) = [one for one in opened.execute("select * from arm_cautions").fetchall() if "hung_up" in one]
    n_all = row[-1]
    if 100 * n_lost > 5 * n_all:
        with pytest.raises(BadParameter, match=rf"{n_lost} of {n_all} attempts of {agent} .* --allow-hang-ups"):
            compare(opened, *arms)
        with pytest.raises(BadParameter, match="--allow-hang-ups"):
            compare(opened, Group(None, "ask_user"), Group(None, "underspecified"))
    assert compare(opened, *arms, allow_hang_ups=True)[0]["difference"] is not None
    other = "b" if agent == "a" else "a"
    assert compare(opened, Group(other, "ask_user"), Group(other, "underspecified"))[0]["difference"] is not None
    assert row[3] == n_lost
    opened.close()


def test_trials_of_two_versions_are_not_compared_silently():
    """A trial of an earlier version beside one with other meanings: refused, unless it is wanted; imports have none."""
    store = small_store()
    now, later = "endings 1, simulator 1, judge 1", "endings 2, simulator 1, judge 1"
    for index in range(3):
        store.trial("v1", "underspecified", index, agent="c", scores=[0], instruments=now)
        store.trial("v1", "ask_user", index, agent="c", instruments=later)
        store.trial("v1", "ask_user", index, agent="d", instruments=now)
        store.trial("v1", "underspecified", index, agent="d", scores=[0], instruments=now)
        store.trial("v2", "ask_user", index, agent="d", origin="inspect")
        store.trial("v2", "underspecified", index, agent="d", scores=[0], origin="inspect")
    with connect(store.snapshot(), parameters={"k": 1}, only=VIEWS) as opened:
        assert compare(opened, Group("d", "ask_user"), Group("d", "underspecified"))[0]["n_units"] == 2
        told = notes_for(background(opened), "overall", (), [])
        assert any(note.startswith("mixed instruments: an earlier version; endings 1, ") for note in told)
        groups = Group("c", "ask_user"), Group("c", "underspecified")
        with pytest.raises(BadParameter, match="endings 1, simulator 1, judge 1; endings 2"):
            compare(opened, *groups)
        assert compare(opened, *groups, allow_mixed_instruments=True)[0]["n_units"] == 1


def media_store():
    """Three agents: own asks by its own tool under another host, ours over MCP, old as older stores say."""
    store = Store(trials=1)
    store.agents["own"] = {"asks_by": "built_in", "host": "acp/1"}
    store.agents["ours"] = {"asks_by": "mcp", "host": "process"}
    store.task("t")
    store.variant("t", "v", "goal")
    tools = {"own": ["Bash", "AskUserQuestion", "ExitPlanMode"], "ours": ["Bash", "ask_user"], "old": ["Bash"]}
    for agent, names in tools.items():
        kinds = ({"function": {"name": name}} if agent == "own" else {"name": name} for name in names)
        offered = msgspec.structs.replace(called("tools"), tools_json=json.dumps(list(kinds)), call_kind="main")
        for condition in ("underspecified", "ask_user"):
            store.trial("v", condition, 0, agent=agent, actions=["ask_user S1", "submit"], beside=[offered])
    return store


def test_arms_that_ask_differently_say_in_what_else_they_differ():
    """The host, and the tools that only one of them was offered."""
    opened = connect(media_store().snapshot(), parameters={"k": 1}, only=VIEWS)
    own, ours, old = (Group(name, "ask_user") for name in ("own", "ours", "old"))
    assert media_notes(opened, own, ours) == [
        "media: a asks through built_in, b through mcp",
        "a ran in the host acp/1, b in process; a host changes more than the way of asking",
        "tools that only a offered to its models: AskUserQuestion, ExitPlanMode",
        "tools that only b offered to its models: ask_user",
    ]
    assert media_notes(opened, ours, Group("ours", "underspecified")) == []
    assert media_notes(opened, old, ours)[:1] == ["media: a asks through mcp, b through mcp"]
    opened.close()


@pytest.mark.thorough
def test_tables_of_asking_say_the_medium_and_are_filtered_by_it():
    """Each agent's rows have how it asks; older events, which do not say it, mean mcp."""
    names = ("overall", "natural_ask", "question_quality")
    opened = connect(media_store().snapshot(), parameters={"k": 1}, only=read_for(names))
    for each in (table(opened, name) for name in names):
        assert {(row["agent"], row["medium"]) for row in each.rows} == {
            ("own", "built_in"),
            ("ours", "mcp"),
            ("old", "mcp"),
        }
        kept = known_filter({"medium": ["built_in"]}, each.rows).table(each)
        assert {row["agent"] for row in kept.rows} == {"own"}
    opened.close()
