"""Further runs of LHAW on TheAgentCompany as single trials: its strategies, severities and domains (10, 11 and 15)."""

from collections.abc import Sequence

from lhaw_record.recorder.events.values import Variant
from tests.reconstruction.lhaw_printed import CLASSES
from tests.reconstruction.printed_values import nearest, rows, values
from tests.reconstruction.shares import NOBODY, asking, levels, trials_of
from tests.reconstruction.told import TRIALS, Agent, Tale, Told, task, variant

BENCHMARK = "tac"
STRATEGIES = {
    "CodeAct (Original)": ("none", (40, 26, 11), (40, 26, 11)),
    "ReAct": ("react", (38, 25, 11), (40, 27, 11)),
    "Reflexion": ("reflexion", (36, 20, 11), (39, 25, 11)),
    "Plan & Execute": ("plan_and_execute", (33, 25, 9), (38, 26, 11)),
}
"""Each with its name here, and with the variants of each class that fit what is printed, without and with ask_user."""
NEAR_PP = 0.045
"""By how much a mean of one place may be shifted and still be printed so."""
UNSELECTED_TASKS = 20
"""33 tasks were tried, by the text; those whose mean progress is below one half were not taken."""


def lhaw_tac_runs() -> Tale:
    """Return these runs as one store."""
    tale = Tale("lhaw-tac-runs", "task")
    _add_selection(tale)
    _add_severities(tale)
    _add_strategies(tale)
    return tale


def _add_selection(tale: Tale) -> None:
    """Add the full trials of a reference model: one success of every task that is solvable."""
    domains = dict.fromkeys(row["domain"] for row in rows("lhaw_tac_selection") if row["domain"] != "all")
    for domain in domains:
        printed = values("lhaw_tac_selection", "metric", domain=domain)
        mean, solvable = float(printed["avg_ckpt_pct",]) / 100, int(printed["solvable_tasks",])
        for place in range(int(printed["tasks",])):
            _add_task(tale, domain, mean, is_solvable=place < solvable)
    for _ in range(UNSELECTED_TASKS):
        _add_task(tale, domain, 0.4, is_solvable=True)


def _add_task(tale: Tale, domain: str, mean: float, *, is_solvable: bool) -> None:
    one = task(BENCHMARK, len(tale.tasks), domain)
    tale.tasks.append(one)
    scores = [1.0, *[(TRIALS * mean - 1) / (TRIALS - 1)] * (TRIALS - 1)] if is_solvable else [mean] * TRIALS
    for index, score in enumerate(scores):
        tale.trials.append(Told("reference", one, "full", index, score, score == 1.0))


def _add_severities(tale: Tale) -> None:
    """Add the candidates and the trials that classified them; a new task is one where a judge says so of failures."""
    successes = {"benign": TRIALS, "divergent": 1}
    for row in rows("lhaw_by_severity", metric="candidates"):
        label, agent = row["ambiguity_class"], row["model"]
        for _ in range(int(row["value"])):
            one = variant(tale.tasks[0], len(tale.variants), ("goal",), severity=row["severity"])
            tale.variants.append(one)
            if label == "new_task":
                tale.new_tasks.append((agent, one))
            for index in range(TRIALS):
                is_success = index < successes.get(label, 0)
                score = float(is_success)
                tale.trials.append(Told(agent, one, "underspecified", index, score, is_success, role="classifier"))


def _add_strategies(tale: Tale) -> None:
    """Add both arms of every strategy; those run without ``ask_user`` were all run with it too."""
    printed = rows("lhaw_by_strategy")
    sizes = {row["ambiguity_class"]: int(row["n_variants"]) for row in printed}
    members: dict[str, list[Variant]] = {}
    for label in CLASSES:
        first = len(tale.variants)
        tale.variants.extend(variant(tale.tasks[0], first + place, ("goal",), label) for place in range(sizes[label]))
        members[label] = tale.variants[first:]
    model = printed[0]["model"]
    for name, (strategy, under, asking_sizes) in STRATEGIES.items():
        agent = f"{model} {strategy}"
        tale.agents[agent] = Agent(model, strategy=strategy)
        texts = values("lhaw_by_strategy", "ambiguity_class", "metric", strategy=name)
        shift = _shift(texts, under)
        for label, size, asking_size in zip(CLASSES, under, asking_sizes, strict=True):
            own = {metric: text for (each, metric), text in texts.items() if each == label}
            _add_arms(tale, agent, members[label][:asking_size], size, own, shift)


def _shift(texts: dict[tuple[str, ...], str], sizes: tuple[int, ...]) -> float:
    """By how much the means of the classes miss the mean of all, as far as it lies in their rounding."""
    metric = "underspecified_ckpt_pct"
    means = zip(CLASSES, sizes, strict=True)
    together = sum(float(texts[label, metric]) * size for label, size in means) / sum(sizes)
    return max(-NEAR_PP, min(NEAR_PP, float(texts["all", metric]) - together)) / 100


def _add_arms(
    tale: Tale, agent: str, members: Sequence[Variant], n_paired: int, printed: dict[str, str], shift: float
) -> None:
    """Add both arms of a strategy on a class; the first of its variants pass."""
    passes = nearest(printed["underspecified_pass3_pct"], n_paired)
    gained = round(float(printed["pass3_gain_pp"]) * n_paired / 100)
    before = float(printed["underspecified_ckpt_pct"]) / 100 + shift
    after = before + float(printed["ckpt_gain_pp"]) / 100
    asked = asking(printed, len(members))
    for condition, units, n_passes, progress, questions in (
        ("underspecified", members[:n_paired], passes, before, NOBODY),
        ("ask_user", members, passes + gained, after, asked),
    ):
        plan = levels(n_passes / n_paired, progress, 1.0)
        for number, one in enumerate(units):
            is_passing, asks = number < n_passes, questions.of(number)
            tale.trials.extend(trials_of(agent, one, condition, plan, is_passing=is_passing, asks=asks))
