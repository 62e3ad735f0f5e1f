"""A store on which every reading matters: each case that a definition has to decide occurs once."""

from lhaw_record.recorder.events import TrialFlagged
from tests.analytics.make_store import Store

INJECTED = (10, 30, 50, 70, 90)
UNITS = ("v1", "v2", "v3")


def sensitive_store() -> Store:
    """Return a store of three tasks; the comments say which parameter each part is about."""
    store = Store(trials=3)
    store.task("t", (1.0, 1.0), domain="one")  # cluster: two tasks of one domain
    store.task("u", (1.0, 1.0), domain="one")
    store.task("w", (1.0, 1.0))
    store.variant("t", "v1", "goal goal input")  # per: two segments of one dimension, and a second dimension
    store.variant("u", "v2", "input")
    store.variant("w", "v3", "constraint input")
    _classify(store)
    for agent, asking in (("a", 5), ("b", 1), ("e", 4), ("f", 2)):
        _asking(store, agent, asking)
    for agent in ("a", "b"):
        _oracles(store, agent)
        for place, unit in enumerate(UNITS):
            _injected(store, agent, unit, place)
    _injected(store, "e", UNITS[0], 0)  # pooled: a task that one agent more was tried on
    flagged = store.streams["v1", "inject_10", 0, "a"]  # keep_flagged
    store.add(flagged, TrialFlagged(flag="injection_lost", detail="due after action 1; none was counted"))
    return store


def _classify(store: Store) -> None:
    """reading: the classifier sees success with two terminal states."""
    for index, scores in enumerate(((1, 0), (1, 0), (0, 1))):
        store.trial("v1", "underspecified", index, agent="c", role="classifier", scores=scores, is_success=True)
        store.trial("v2", "underspecified", index, agent="c", role="classifier", scores=(1, 1))
        store.trial("v3", "underspecified", index, agent="c", role="classifier", scores=(0, index % 2))
    store.start_run(trials=3)


def second_classifier(store: Store) -> None:
    """classifier_agent, classifier_experiment: add one that sees failures only, in an experiment of its own."""
    store.experiment = "later"
    for index in range(3):
        for unit in UNITS:
            store.trial(unit, "underspecified", index, agent="d", role="classifier", scores=(0, 0))


def others(store: Store) -> str:
    """Add what parameters choose among: judges, simulators, seven tasks for drawn permutations; return a trial's id."""
    asked = store.streams["v1", "ask_user", 0, "a"]
    store.judge_questions(asked, {"closed_questions": "yes"}, judge="strict")
    store.judge_questions(asked, {}, judge="mild")
    for place in range(8):
        store.task(f"x{place}")
        store.variant(f"x{place}", f"y{place}")
        for index in range(3):
            chosen = store.trial(f"y{place}", "underspecified", index, agent="g", scores=(float(place == 0),))
            fields = {"user_simulator": "llm", "actions": ("ask_user S1 @m#1:S1/S1 @rules/2:/S1", "submit")}
            store.trial(f"y{place}", "ask_user", index, agent="g", scores=(float(place < 7),), **fields)
    return chosen


def _oracles(store: Store, agent: str) -> None:
    """wasted_supply: a key occurs twice in one trace and thrice in all; selection_progress_pct: 1, 0.58 and 0.4.

    reference_agents: agent b makes less progress on one task.
    """
    traces = (["read a", "read b"], ["read a", "read a"], ["read c", "read d"])
    progress = {"t": ((1, 1), (1, 1), (1, 1)), "u": ((1, 1), (0.5, 0), (1, 0)), "w": ((1, 1), (0.2, 0), (0.2, 0))}
    if agent == "b":
        progress["u"] = ((1, 1), (0.5, 0), (0.9, 0))
    for task_id, scores in progress.items():
        for index, trace in enumerate(traces):
            store.trial(task_id, "full", index, agent=agent, scores=scores[index], actions=[*trace, "read e", "submit"])


def _asking(store: Store, agent: str, asking: int) -> None:
    """k: units pass in one to three trials; over_clarifier_pct, under_clarifier_pct: so many of 12 trials ask."""
    for place, unit in enumerate(UNITS):
        for index in range(4):
            passes = index <= place
            asks = 4 * place + index < asking
            store.trial(unit, "underspecified", index, agent=agent, scores=(1, 1) if passes and place else (0, 0))
            actions = ["read a", "ask_user S1", "submit"] if asks else ["read a", "submit"]
            store.trial(unit, "ask_user", index, agent=agent, scores=(1, 1) if passes else (0, 0.5), actions=actions)


def _injected(store: Store, agent: str, unit: str, place: int) -> None:
    """intention_to_treat: a trial ended first; voi_cases: a unit lacks inject_90; wasted_match: other arguments."""
    budget = 6
    for percent in INJECTED:
        if (agent, unit, percent) == ("b", "v3", 90):
            continue
        for index in range(3):
            has_ended = (agent, unit, percent, index) == ("a", "v2", 70, 2)
            passes = index == 0 if percent < 50 + 20 * place else index > 2
            store.trial(
                unit,
                f"inject_{percent}",
                index,
                agent=agent,
                scores=(1, 1) if passes or has_ended else (0, 0.5 if percent == 10 else 0),  # timing_measure
                actions=["read a", "read a", "read z", "read a", "read a", "submit"],
                budget=budget,
                injected_after=None if has_ended else max(1, budget * percent // 100),
            )
