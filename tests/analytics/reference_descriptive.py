"""The descriptive tables again, slowly and in plain Python, from the rows of the plain reference: no SQL.

A cell is (value, n_units, n_dropped, n_trials, n_missing), its key what the table's rows are told apart by.
"""

from collections import defaultdict
from fractions import Fraction

from tests.analytics.reference import mean
from tests.analytics.reference_timing import pooled_mean

ARMS = ("underspecified", "ask_user")


class Book:
    """The rows of ``reference.pass_rows`` beside what is known of variants and agents.

    Args:
        rows: By (agent, kind, unit, condition).
        variants: The registered variants by id, with ``task_id``, ``segments``, ``severity`` and ``ambiguity_class``.
        agents: model, strategy and persona of each agent by name.
    """

    def __init__(self, rows, variants, agents):
        self.variants = variants
        self.rows = {key: self._with_missing(key, row, rows) for key, row in rows.items()}
        self.agents = {name: agents[name] for name in sorted({key[0] for key in rows})}

    def _with_missing(self, key, row, rows):
        """Where variants have full trials of their own, those of a task are planned per variant."""
        agent, kind, unit, condition = key
        own = [
            rows[agent, "variant", name, "full"]["n_missing"]
            for name, variant in self.variants.items()
            if variant.task_id == unit and (agent, "variant", name, "full") in rows
        ]
        return {**row, "n_missing": sum(own)} if (kind, condition) == ("task", "full") and own else row

    def arm(self, agent, variant_id, condition):
        """The row of a variant; the full one is the variant's own, or that of its task."""
        own = self.rows.get((agent, "variant", variant_id, condition))
        if own is None and condition == "full":
            own = self.rows.get((agent, "task", self.variants[variant_id].task_id, "full"))
        return own

    def met(self, agent):
        """The variants that an agent met under any condition."""
        return sorted({unit for name, kind, unit, _ in self.rows if name == agent and kind == "variant"})

    def tasks(self, agent, condition):
        """The tasks of an agent under a condition."""
        return sorted({unit for name, *kind, unit, c in self.rows if (name, kind, c) == (agent, ["task"], condition)})

    def base_of(self, agent):
        """The one agent that differs in having no persona; None if there is none, or several."""
        model, strategy, persona = self.agents[agent]
        if persona == "none":
            return agent
        bases = [name for name, what in self.agents.items() if what == (model, strategy, "none")]
        return bases[0] if len(bases) == 1 else None

    def compared(self, place):
        """The agents that differ in one of (model, strategy, persona) only, where that one occurs."""
        families = defaultdict(list)
        for agent, what in self.agents.items():
            families[what[:place] + what[place + 1 :]].append(agent)
        some = (family for family in families.values() if any(self.agents[one][place] != "none" for one in family))
        return [agent for family in some for agent in family]


def cell(units):
    """A mean over (value, trials, missing)."""
    known = [unit for unit in units if unit[0] is not None]
    trials, missing = sum(unit[1] for unit in known), sum(unit[2] for unit in units)
    return mean([unit[0] for unit in known]), len(known), len(units) - len(known), trials, missing


def level(book, agent, variant_ids, condition, measure):
    """A mean of one arm; trials that several variants share count once. None where no variant has the arm."""
    arms = [arm for one in variant_ids if (arm := book.arm(agent, one, condition)) is not None]
    if not arms:
        return None
    value, n_units, n_dropped, _, _ = cell([(arm[measure], 0, 0) for arm in arms])
    own = {id(arm): arm for arm in arms}.values()
    trials = sum(arm["n_trials"] for arm in own if arm[measure] is not None)
    return value, n_units, n_dropped, trials, sum(arm["n_missing"] for arm in own)


def pairs(book, agent, base, variant_ids, measure):
    """(gain, trials, missing, questions, questions per trial) of the variants that either arm has."""
    if not any(key[0] == agent and key[1] == "variant" and key[3] == "ask_user" for key in book.rows):
        return []
    found = []
    for variant_id in variant_ids:
        asked = book.arm(agent, variant_id, "ask_user")
        unasked = None if base is None else book.arm(base, variant_id, "underspecified")
        arms = [arm for arm in (asked, unasked) if arm is not None]
        if arms:
            values = [arm[measure] if arm else None for arm in (asked, unasked)]
            gain = None if None in values else values[0] - values[1]
            trials, missing = (sum(arm[name] for arm in arms) for name in ("n_trials", "n_missing"))
            questions = asked["n_questions"] if asked else 0
            rate = Fraction(questions, asked["n_trials"]) if asked and asked["n_trials"] else None
            found.append((gain, trials, missing, questions, rate))
    return found


def gain(book, agent, base, variant_ids, measure):
    """The mean gain; None where there is nothing to pair."""
    found = pairs(book, agent, base, variant_ids, measure)
    return cell([unit[:3] for unit in found]) if found else None


def per_question(book, agent, base, variant_ids, measure):
    """Percentage points per question per variant."""
    known = [unit for unit in pairs(book, agent, base, variant_ids, measure) if unit[0] is not None]
    questions = sum(unit[3] for unit in known)
    return 100 * sum(unit[0] for unit in known) / questions if questions else None


def asking(book, agent, variant_ids):
    """Ask %, questions per trial and per asking trial; None without a valid trial, or without a question."""
    arms = [arm for one in variant_ids if (arm := book.arm(agent, one, "ask_user")) is not None]
    trials, askers, questions = (sum(arm[n] for arm in arms) for n in ("n_trials", "n_asking_trials", "n_questions"))
    return {
        "ask_pct": Fraction(100 * askers, trials) if trials else None,
        "questions_per_trial": Fraction(questions, trials) if trials else None,
        "questions_per_asking_trial": Fraction(questions, askers) if askers else None,
    }


def grouped(book, agent, group_of):
    """The variants of an agent by group; a variant may be in several."""
    groups = defaultdict(list)
    for variant_id in book.met(agent):
        for group in group_of(book.variants[variant_id]):
            groups[group].append(variant_id)
    return groups


def passes(book, group_of, conditions):
    """pass@k levels and gain by (agent, group, condition, measure): fidelity, by_segments_removed, by_severity."""
    found = {}
    for agent in book.agents:
        for group, members in grouped(book, agent, group_of).items():
            for condition in conditions:
                found[agent, group, condition, "pass_at_k"] = level(book, agent, members, condition, "pass_at_k")
            found[agent, group, "ask_user", "pass_at_k_gain"] = gain(book, agent, agent, members, "pass_at_k")
    return {key: value for key, value in found.items() if value is not None}


def arms_compared(book, place):
    """Levels and gains of agents that differ in strategy (1) or persona (2), by (agent, class, condition, measure)."""
    found = {}
    for agent in book.compared(place):
        base = book.base_of(agent) if place == 2 else agent
        everybody = sorted({*book.met(agent), *(book.met(base) if base else ())})
        classes = defaultdict(list)
        for one in everybody:
            for name in {"all", book.variants[one].ambiguity_class} - {None}:
                classes[name].append(one)
        for name, members in classes.items():
            for measure in ("pass_at_k", "checkpoint_progress"):
                for condition, owner in (("underspecified", base), ("ask_user", agent)):
                    if owner is not None:
                        found[agent, name, condition, measure] = level(book, owner, members, condition, measure)
                found[agent, name, "ask_user", f"{measure}_gain"] = gain(book, agent, base, members, measure)
    return {key: value for key, value in found.items() if value is not None}


def model_average(book):
    """pass@k by (strategy, persona, condition): of an agent's units of a task, of its agents, of the tasks."""
    found = defaultdict(list)
    for agent, (_, strategy, persona) in book.agents.items():
        for one in book.tasks(agent, "full"):
            found[strategy, persona, "full"].append([one, agent, book.rows[agent, "task", one, "full"]["pass_at_k"]])
        for condition in ARMS:
            arms = [(book.variants[one].task_id, book.arm(agent, one, condition)) for one in book.met(agent)]
            found[strategy, persona, condition] += [[task, agent, arm["pass_at_k"]] for task, arm in arms if arm]
    return {key: pooled_mean(units, "tasks") for key, units in found.items()}


def over_asking(book):
    """Ask %, questions per trial and the difference in pass@k by agent that had full_ask_user."""
    found = {}
    for agent in book.agents:
        arms = [book.rows[agent, "task", one, "full_ask_user"] for one in book.tasks(agent, "full_ask_user")]
        if not arms:
            continue
        trials, askers, questions = (sum(a[n] for a in arms) for n in ("n_trials", "n_asking_trials", "n_questions"))
        found[agent, "ask_pct"] = Fraction(100 * askers, trials) if trials else None
        found[agent, "questions_per_trial"] = Fraction(questions, trials) if trials else None
        differences = []
        for task_id in {*book.tasks(agent, "full"), *book.tasks(agent, "full_ask_user")}:
            both = [book.rows.get((agent, "task", task_id, name)) for name in ("full_ask_user", "full")]
            values = [arm["pass_at_k"] if arm else None for arm in both]
            differences.append(None if None in values else values[0] - values[1])
        found[agent, "pass_at_k_difference"] = mean(differences)
    return found


def losses(book):
    """Full minus a condition by agent, condition and measure, over the variants that ran the condition."""
    found = {}
    for agent in book.agents:
        for condition in ("underspecified", "ask_user"):
            met = [unit for unit in book.met(agent) if (agent, "variant", unit, condition) in book.rows]
            arms = [(book.arm(agent, unit, "full"), book.arm(agent, unit, condition)) for unit in met]
            for name in ("pass_at_k", "checkpoint_progress"):
                known = [[None if arm is None else arm[name] for arm in both] for both in arms]
                values = [None if None in both else both[0] - both[1] for both in known]
                found[agent, condition, f"{name}_loss"] = mean(values) if values else None
    return {key: value for key, value in found.items() if value is not None}


def net_values(book, measure, cost):
    """Net value at a cost, and break-even, by agent."""
    found = {}
    for agent in book.agents:
        known = pairs(book, agent, agent, book.met(agent), measure)
        if known:
            paired = [unit for unit in known if unit[0] is not None]
            rate = sum(unit[4] for unit in paired)
            worth = sum(100 * unit[0] for unit in paired)
            net = mean([100 * unit[0] - cost * unit[4] for unit in paired])
            found[agent] = (net, worth / rate if rate else None)
    return found


def selected_tasks(book, threshold_pct):
    """(mean progress, selected, solvable) of every task with full trials."""
    found = {}
    for task_id in sorted({unit for _, kind, unit, condition in book.rows if (kind, condition) == ("task", "full")}):
        arms = [row for agent in book.agents if (row := book.rows.get((agent, "task", task_id, "full"))) is not None]
        progress = mean([arm["checkpoint_progress"] for arm in arms])
        known = [arm["pass_at_k"] for arm in arms if arm["pass_at_k"] is not None]
        solvable = any(value > 0 for value in known) if known else None
        found[task_id] = (progress, progress is not None and 100 * progress >= threshold_pct, solvable)
    return found
