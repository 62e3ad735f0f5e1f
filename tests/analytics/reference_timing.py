"""Timing again, slowly and in plain Python: agreement, points of no return, windows, commitment; and stores for it."""

from collections import defaultdict
from fractions import Fraction
from itertools import combinations, product, takewhile
from math import floor
from random import Random

from tests.analytics.imported import as_imported
from tests.analytics.make_store import Store
from tests.analytics.reference import INJECTED, is_measured, mean

PLANNED = 2
UNITS = {"v": "t", "w": "t", "x": "u", "y": "u", "z": "u"} | {f"v{place}": f"t{place}" for place in range(5)}
TASKS = tuple(dict.fromkeys(UNITS.values()))
VALUES = {"S1": "value 1", "S2": "value 2"}  # what make_store gives to the segments


def timing_store(seed, scope, simulators=("exact",)):
    """Return a store of ten variants of seven tasks and two agents under every timing; some cells too small.

    Where there are several simulators, the agent a has questions to each.
    """
    chance = Random(seed)
    store = Store(trials=PLANNED, scope=scope)
    for task_id in TASKS:
        store.task(task_id)
    for variant_id, task_id in UNITS.items():
        label = chance.choice(["outcome-critical", "outcome-critical", "benign", None])
        dimensions = chance.choice(["goal", "goal input", "input goal", "goal goal"])
        store.variant(task_id, variant_id, dimensions, ambiguity_class=label, classified_by=label and "us")
    for agent in ("a", "b"):
        for owner in TASKS if scope == "task" else UNITS:
            _record(chance, store, owner, "full", agent, chance.choice([2, 3]))
        for unit in UNITS:
            for condition in ("underspecified", *INJECTED, "ask_user"):
                for simulator in simulators if (agent, condition) == ("a", "ask_user") else simulators[:1]:
                    _record(chance, store, unit, condition, agent, chance.choice([2, 2, 2, 2, 2, 1]), simulator)
    return store


def without_injections(store, agent, seed):
    """Take the injected trials of an agent out of a store, and what some of its full trials did."""
    chance = Random(seed)
    mine = {key[:3]: stream for key, stream in store.streams.items() if key[3] == agent}
    injected = {stream for (_, condition, _), stream in mine.items() if condition in INJECTED}
    store.envelopes = [each for each in store.envelopes if each.stream_id not in injected]
    for (_, condition, _), stream in sorted(mine.items()):
        if condition == "full" and chance.random() < 0.1:
            as_imported(store, stream, "result")


def _record(chance, store, owner, condition, agent, count, simulator="exact"):
    actions = ["read x", "read VALUE 1", "write about value 2", "say value 1"]
    if condition == "ask_user":
        actions.append("ask_user S1")
    for index in range(count):
        taken = chance.choices(actions, [6, 1, 1, 1, 2][: len(actions)], k=chance.randint(1, 12))
        store.trial(
            owner,
            condition,
            index,
            agent=agent,
            scores=[chance.choice([0, 1])],
            actions=taken,
            budget=9,
            injected_after=1,
            **({"user_simulator": simulator} if condition == "ask_user" else {}),
        )


def curve_of(rows, agent, variant_id, task_id):
    """Return pass@k by condition of one unit; under ``full`` that of its task where it has none of its own."""
    found = {}
    for condition in ("full", "underspecified", *INJECTED):
        row = rows.get((agent, "variant", variant_id, condition))
        if condition == "full" and row is None:
            row = rows.get((agent, "task", task_id, "full"))
        found[condition] = row["pass_at_k"] if row else None
    if any(found[condition] is None for condition in ("full", *INJECTED)):
        return dict.fromkeys(found)  # complete case
    return found


def kendall_of(rows, conditions):
    """Return (tau-b, cells, tied pairs) of agents a and b over the variants' cells that both have."""
    cells = []
    for first, kind, unit, condition in sorted(rows):
        pair = [rows.get((agent, kind, unit, condition)) for agent in ("a", "b")]
        if (first, kind) == ("a", "variant") and condition in conditions and None not in pair:
            values = [row["pass_at_k"] for row in pair]
            if None not in values:
                cells.append(values)
    score = ordered_left = ordered_right = ties = 0
    for one, other in combinations(cells, 2):
        left, right = ((x > y) - (x < y) for x, y in zip(one, other, strict=True))
        score, ordered_left, ordered_right = score + left * right, ordered_left + abs(left), ordered_right + abs(right)
        ties += not (left and right)
    tau = score / (ordered_left * ordered_right) ** 0.5 if len(cells) >= 3 and ordered_left and ordered_right else None
    return tau, len(cells), ties


def points_of(rows, variants):
    """Return by (dimension, class) the p-values by timing, and the point of no return in %."""
    gains = defaultdict(lambda: defaultdict(list))
    for agent, (name, variant) in product(("a", "b"), variants.items()):
        curve = curve_of(rows, agent, name, variant.task_id)
        for dimension in {segment.dimension for segment in variant.segments}:
            for condition in INJECTED:
                if variant.ambiguity_class is not None:
                    known = None not in (curve[condition], curve["underspecified"])
                    gain = curve[condition] - curve["underspecified"] if known else None
                    gains[dimension, variant.ambiguity_class][condition].append((variant.task_id, gain))
    found = {}
    for key, by_condition in gains.items():
        p_values = {int(name.removeprefix("inject_")): _one_sided(values) for name, values in by_condition.items()}
        known = sorted((p, percent) for percent, p in p_values.items() if p is not None)
        significant = set()
        for place, (p, percent) in enumerate(known):  # Holm: step down until one is not significant
            if (len(known) - place) * p >= Fraction(1, 20):
                break
            significant.add(percent)
        run = list(takewhile(significant.__contains__, sorted(p_values)))
        found[key] = (p_values, run[-1] if run else None)
    return found


def _one_sided(gains):
    tasks = defaultdict(Fraction)
    for task_id, gain in gains:
        if gain is not None:
            tasks[task_id] += gain
    if len(tasks) < 6:
        return None
    sums = list(tasks.values())
    signs = list(product((1, -1), repeat=len(sums)))
    return Fraction(sum(sum(map(Fraction.__mul__, map(Fraction, one), sums)) >= sum(sums) for one in signs), len(signs))


def pooled_mean(units, pooled):
    """Average (task, agent, value) triples: ``tasks`` has agents within a task, then tasks; ``units`` has all alike."""
    known = [unit for unit in units if unit[2] is not None]
    if pooled == "units":
        return mean([value for _, _, value in known])
    return mean(
        [mean([_own(known, task, agent) for agent in _agents(known, task)]) for task in {one[0] for one in known}]
    )


def _agents(units, task):
    return {unit[1] for unit in units if unit[0] == task}


def _own(units, task, agent):
    return mean([value for *key, value in units if key == [task, agent]])


def members_of(variants, dimension):
    """Return the names of the variants that lack something of a dimension."""
    return [name for name, variant in variants.items() if dimension in {one.dimension for one in variant.segments}]


def window_of(rows, variants, trials, dimension, agents, loss, pooled, simulator=None, budgets=None):
    """Return (threshold, end, re-entries, share of first questions until the end) of some agents together.

    Injected trials have no simulator, so the window is the same for all; an agent with two of them counts as two where
    questions are pooled. With budgets, the place of a question is that on their scale.
    """
    members = members_of(variants, dimension)
    curves = [
        (variants[name].task_id, agent, curve_of(rows, agent, name, variants[name].task_id))
        for agent in agents
        for name in members
    ]
    means = [pooled_mean([(*key, curve[condition]) for *key, curve in curves], pooled) for condition in INJECTED]
    if means[0] is None:
        return None
    within = [value >= means[0] - loss for value in means]
    run = within.index(False) if False in within else len(within)
    percentages = [int(name.removeprefix("inject_")) for name in INJECTED]
    reentries = [percentages[place] for place in range(run, 5) if within[place]]
    end = percentages[run - 1]
    share = share_inside(variants, trials, dimension, agents, end, pooled, simulator, budgets)
    return means[0] - loss, end, reentries, share


def share_inside(variants, trials, dimension, agents, end, pooled, simulator=None, budgets=None):
    """Return the share of first questions, in %, that come until the end of a window. An unknown place counts not."""
    members = members_of(variants, dimension)
    asked = []
    for trial in trials.values():
        keys = trial.keys
        is_member = keys.agent in agents and keys.variant_id in members and simulator in (None, keys.user_simulator)
        if keys.condition == "ask_user" and is_member and trial.state == "valid" and trial.questions:
            place = _first_place(trial, budgets)
            is_inside = None if place is None else Fraction(100 * (place <= end))
            asked.append((keys.task_id, (keys.agent, keys.user_simulator), is_inside))
    return pooled_mean(asked, pooled)


def _first_place(trial, budgets):
    if budgets is None:
        return trial.first_ask_pct
    budget = budgets.get(_budget_unit(trial.keys))
    first = next(place for place, action in enumerate(trial.actions, 1) if action.name == "ask_user")
    return None if budget is None else Fraction(100 * first, budget)


def budgets_of(trials):
    """Return the budget by unit: that of its injected trials, else the mean of its full trials, a half rounded up.

    A full trial of which nobody knows how much it did leaves its unit without one.
    """
    recorded, lengths = {}, defaultdict(list)
    for trial in trials.values():
        unit = _budget_unit(trial.keys)
        if trial.keys.budget_actions is not None:
            recorded[unit] = trial.keys.budget_actions
        if trial.keys.condition == "full" and trial.state == "valid":
            lengths[unit].append(len(trial.actions) if trial.is_course_known else None)
    derived = {
        unit: floor(Fraction(sum(counts), len(counts)) + Fraction(1, 2))
        for unit, counts in lengths.items()
        if None not in counts
    }
    return derived | recorded


def _budget_unit(keys):
    return keys.agent, keys.task_id if keys.oracle_scope == "task" else keys.variant_id


def timing_rows_of(rows, variants, trials, dimension):
    """Return the units behind ``timing_hypotheses`` and ``commitment`` by (measure, timing): (task, agent, value)."""
    found = defaultdict(list)
    for agent, name in product(("a", "b"), members_of(variants, dimension)):
        task_id = variants[name].task_id
        curve = curve_of(rows, agent, name, task_id)
        value = {int(key.removeprefix("inject_")): curve[key] for key in INJECTED} | {0: curve["full"]}
        base = curve["underspecified"]
        differences = {
            "early_minus_late_decay": ((10, 1), (50, -2), (90, 1)),
            "decay_10_to_90": ((10, 1), (90, -1)),
        }
        for measure, terms in differences.items():
            known = None not in [value[percent] for percent, _ in terms]
            total = sum(sign * value[percent] for percent, sign in terms) if known else None
            found[measure, None].append((task_id, agent, total))
        gains = {percent: None if None in (one, base) else one - base for percent, one in value.items()}
        found["gain_at_90", None].append((task_id, agent, gains[90]))
        for percent in range(0, 101, 10):
            bound = commitment_of(trials, variants[name], agent, dimension, percent)
            left = None if None in (bound, gains[0]) else gains[0] * (1 - bound)
            found["commitment", percent].append((task_id, agent, bound))
            found["voi_bound", percent].append((task_id, agent, left))
            found["voi", percent].append((task_id, agent, gains.get(percent) if bound is not None else None))
    return found


def commitment_of(trials, variant, agent, dimension, percent):
    """Return C(t) of a unit: the mean over its full trials that use a value of the dimension; None without any."""
    values = [VALUES[one.segment_id] for one in variant.segments if one.dimension == dimension]
    shares = []
    for trial in trials.values():
        keys = trial.keys
        is_oracle = keys.condition == "full" and keys.agent == agent and keys.task_id == variant.task_id
        if not is_oracle or not is_measured(trial) or keys.variant_id not in (None, variant.variant_id):
            continue
        uses = [any(value in action.arguments_json.lower() for value in values) for action in trial.actions]
        if any(uses):
            done = max(1, len(uses) * percent // 100) if percent else 0
            bound = [place for place in range(done) if place >= uses.index(True)]
            shares.append(Fraction(len(bound), done) if done else Fraction(0))
    return mean(shares)
