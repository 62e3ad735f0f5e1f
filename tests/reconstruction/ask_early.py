"""Ask Early as single trials: its value-of-information cells, wasted actions, natural sessions and numbers of trials.

Every (variant, model) runs all seven conditions three times, as its table 9 counts them. A unit is complete, and so in
table 4, when all its injections took place; in the others one injected trial ended before its injection. A complete
unit passes in one of three trials or in none.
"""

from collections.abc import Iterator
from itertools import product

from lhaw_record.recorder.events.values import INJECT_PERCENTAGES, Variant
from tests.reconstruction.ask_early_strays import with_strays
from tests.reconstruction.ask_early_units import CONDITIONS, INJECTED, units_of
from tests.reconstruction.printed_values import rows, values
from tests.reconstruction.told import TRIALS, Tale, Told, task, variant

MODELS = {
    "mcp_atlas": ("Claude Sonnet 4.5", "GPT-5.2", "Gemini 3 Flash", "DeepSeek V3.2"),
    "tac": ("Claude Sonnet 4.5", "GPT-5.2", "Gemini 3 Flash"),
    "swebench_pro": ("Claude Sonnet 4.5", "GPT-5.2", "Gemini 3 Flash"),
}
SESSIONS = 100
"""Of each model, as table 5 counts them."""
LONG_VARIANTS = 2
"""Variants whose full trials are the longest that are printed; those of all others are the shortest."""


def ask_early() -> Tale:
    """Return the whole study as one store, with full trials of every variant (oracle scope ``variant``)."""
    tale = Tale("ask-early", "variant")
    for benchmark in MODELS:
        _add_benchmark(tale, benchmark)
    for model in MODELS["tac"]:
        _add_sessions(tale, model, [each for each in tale.variants if each.benchmark == "tac"])
    return tale


def point_of_no_return() -> Tale:
    """Return a study whose outcome-critical goal and constraint units gain up to 30 %, and nothing else gains."""
    tale = Tale("point-of-no-return", "variant")
    printed = {(row["dimension"], row["ambiguity_class"]): row["value"] for row in rows("askearly_point_of_no_return")}
    for number, ((dimension, label), point) in enumerate(printed.items()):
        one = task("mcp_atlas", number)
        tale.tasks.append(one)
        for place in range(3):
            each = variant(one, 3 * number + place, (dimension,), label)
            tale.variants.append(each)
            gains = [f"inject_{percentage}" for percentage in INJECT_PERCENTAGES if percentage <= int(point or 0)]
            for model in MODELS["tac"]:
                tale.trials.extend(_unit(model, each, passing={"full", *gains}, is_complete=True, budget=1))
                tale.budgets.append((model, each, 1))
    return tale


def _add_benchmark(tale: Tale, benchmark: str) -> None:
    (size,) = (int(text) for text in values("askearly_setup", benchmark=benchmark, metric="variants").values())
    lowest, highest = (
        int(text)
        for metric in ("action_budget_min", "action_budget_max")
        for text in values("askearly_setup", benchmark=benchmark, metric=metric).values()
    )
    models = MODELS[benchmark]
    units = units_of(benchmark, size, len(models))
    one = task(benchmark, 0)
    tale.tasks.append(one)
    seen, told = dict.fromkeys(units.complete, 0), list[Told]()
    for number, (shape, label) in enumerate(units.variants):
        each = variant(one, number, shape, label)
        tale.variants.append(each)
        for model in models:
            is_complete = seen[shape] < units.complete[shape]
            passed = {name for name in CONDITIONS if is_complete and seen[shape] < units.passing[name][shape]}
            seen[shape] += is_complete
            budget = highest if number < LONG_VARIANTS else lowest
            told.extend(_unit(model, each, passing=passed, is_complete=is_complete, budget=budget))
            tale.budgets.append((model, each, budget))
    tale.trials.extend(with_strays(benchmark, told))


def _unit(model: str, one: Variant, *, passing: set[str], is_complete: bool, budget: int) -> Iterator[Told]:
    """The trials of a unit under all conditions."""
    for condition, index in product(CONDITIONS, range(TRIALS)):
        is_success = condition in passing and index == 0
        is_injected = condition in INJECTED and (is_complete or (condition, index) != (INJECTED[-1], 0))
        percent = int(condition.removeprefix("inject_")) if condition in INJECTED else 0
        after = max(1, budget * percent // 100) if percent else 0
        yield Told(
            agent=model,
            unit=one,
            condition=condition,
            index=index,
            score=float(is_success),
            is_success=is_success,
            actions=max(budget, after + 1),
            budget=budget if percent else None,
            injected_after=after if is_injected else None,
        )


def _add_sessions(tale: Tale, model: str, units: list[Variant]) -> None:
    """Add the natural sessions of a model: how many asked, how often, and when first."""
    printed = {row["metric"]: row["value"] for row in rows("askearly_natural_ask", model=model)}
    asking, questions = int(printed["ask_pct"]) * SESSIONS // 100, int(printed["questions"])
    timings = _timings(asking, printed["first_ask_mean_pct"], printed["first_ask_median_pct"])
    more = [1 + (place < questions - asking) for place in range(asking)]
    for session in range(SESSIONS):
        first = timings[session] // 5 if session < asking else None
        asks = () if first is None else tuple(range(first, first + more[session]))
        unit = units[session % len(units)]
        tale.trials.append(Told(model, unit, "ask_user", session // len(units), 0.0, False, actions=20, asks=asks))


def _timings(asking: int, mean: str, median: str) -> list[int]:
    """First asks in per cent, multiples of 5: most at the median, the others as early as the mean asks for."""
    if not asking:
        return []
    middle = int(median) // 5 * 5
    early = (asking - 1) // 2
    missing = middle * asking - int(mean) * asking  # what the early ones lie below the median in sum
    found = [middle] * asking
    for place in range(early):
        step = min(middle - 5, -(-missing // (early - place) // 5) * 5 if missing > 0 else 0)
        found[place] -= step
        missing -= step
    return found
