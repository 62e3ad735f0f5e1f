"""Ask Early as single trials: its value-of-information cells, its natural sessions and its numbers of trials.

Every (variant, model) runs all seven conditions three times, as its table 9 counts them. A unit is complete, and so in
table 4, when all its injections took place; in the others one injected trial ended before its injection. A complete
unit passes in one of three trials or in none.
"""

import math
from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from recorder.values import DIMENSIONS, INJECT_PERCENTAGES, Variant
from tests.reconstruction.printed_values import count, rows, values
from tests.reconstruction.recording import TRIALS, Tale, Told, task, variant

INJECTED = tuple(f"inject_{percentage}" for percentage in INJECT_PERCENTAGES)
CONDITIONS = ("full", *INJECTED, "underspecified")
MODELS = {
    "mcp_atlas": ("Claude Sonnet 4.5", "GPT-5.2", "Gemini 3 Flash", "DeepSeek V3.2"),
    "tac": ("Claude Sonnet 4.5", "GPT-5.2", "Gemini 3 Flash"),
    "swebench_pro": ("Claude Sonnet 4.5", "GPT-5.2", "Gemini 3 Flash"),
}
SESSIONS = 100
"""Of each model, as table 5 counts them."""
SHAPES = tuple((one,) for one in DIMENSIONS) + tuple(
    (one, other) for place, one in enumerate(DIMENSIONS) for other in DIMENSIONS[place + 1 :]
)


def ask_early() -> Tale:
    """Return the whole study as one store, with full trials of every variant (oracle scope ``variant``)."""
    tale = Tale("ask-early", [], [], [], [], "variant")
    for benchmark in MODELS:
        _add_benchmark(tale, benchmark)
    for model in MODELS["tac"]:
        _add_sessions(tale, model, [each for each in tale.variants if each.benchmark == "tac"])
    return tale


def point_of_no_return() -> Tale:
    """Return a study whose outcome-critical goal and constraint units gain up to 30 %, and nothing else gains."""
    tale = Tale("point-of-no-return", [], [], [], [], "variant")
    printed = {(row["dimension"], row["ambiguity_class"]): row["value"] for row in rows("askearly_point_of_no_return")}
    for number, ((dimension, label), point) in enumerate(printed.items()):
        one = task("mcp_atlas", number)
        tale.tasks.append(one)
        for place in range(3):
            each = variant(one, 3 * number + place, (dimension,), label)
            tale.variants.append(each)
            gains = [f"inject_{percentage}" for percentage in INJECT_PERCENTAGES if percentage <= int(point or 0)]
            for model in MODELS["tac"]:
                _add_unit(tale, model, each, passing={"full", *gains}, is_complete=True, budget=1)
    return tale


def _add_benchmark(tale: Tale, benchmark: str) -> None:
    (size,) = (int(text) for text in values("askearly_setup", benchmark=benchmark, metric="variants").values())
    lowest, highest = (
        int(text)
        for metric in ("action_budget_min", "action_budget_max")
        for text in values("askearly_setup", benchmark=benchmark, metric=metric).values()
    )
    models = MODELS[benchmark]
    sizes, passing = _solve(benchmark, size * len(models))
    one = task(benchmark, 0)
    tale.tasks.append(one)
    complete = [shape for shape, number in zip(SHAPES, sizes, strict=True) for _ in range(number)]
    per_shape = {shape: -(-number // len(models)) for shape, number in zip(SHAPES, sizes, strict=True)}
    shapes = [shape for shape, number in per_shape.items() for _ in range(number)]
    shapes += [SHAPES[0]] * (size - len(shapes))
    assert len(shapes) == size, "more shapes than variants"
    seen = dict.fromkeys(SHAPES, 0)
    for number, shape in enumerate(shapes):
        each = variant(one, number, shape, "divergent")
        tale.variants.append(each)
        for model in models:
            place = SHAPES.index(shape)
            is_complete = seen[shape] < sizes[place]
            passed = {name for name in CONDITIONS if seen[shape] < passing[name][place]} if is_complete else set()
            seen[shape] += is_complete
            _add_unit(
                tale, model, each, passing=passed, is_complete=is_complete, budget=highest if number == 0 else lowest
            )
    assert sum(seen.values()) == len(complete)


def _solve(benchmark: str, most: int) -> tuple[list[int], dict[str, list[int]]]:
    """Find how many complete units of each shape there are, and how many of them pass under each condition.

    A unit counts in each of its dimensions. Of a printed value that is no share of its n, the nearest one is taken.
    """
    printed = rows("askearly_voi", benchmark=benchmark)
    totals = {row["dimension"]: int(row["n"]) for row in printed}
    width, depth = len(SHAPES), 1 + len(CONDITIONS)
    lines, lows, highs = [], [], []

    def bind(block: int, dimension: str, low: float, high: float) -> None:
        line = np.zeros(width * depth)
        for place, shape in enumerate(SHAPES):
            line[block * width + place] = dimension in shape
        lines.append(line)
        lows.append(low)
        highs.append(high)

    for dimension in DIMENSIONS:
        bind(0, dimension, totals.get(dimension, 0), totals.get(dimension, 0))
    for row in printed:
        size = totals[row["dimension"]]
        wanted, share = count(row["value"], size, 1.0), float(row["value"]) * size
        low, high = (math.floor(share), math.ceil(share)) if wanted is None else (wanted, wanted)
        bind(1 + CONDITIONS.index(row["condition"]), row["dimension"], low, high)
    for block, place in product(range(1, depth), range(width)):  # no more pass than there are
        line = np.zeros(width * depth)
        line[place], line[block * width + place] = -1, 1
        lines.append(line)
        lows.append(-np.inf)
        highs.append(0)
    everything = np.zeros(width * depth)
    everything[:width] = 1
    lines.append(everything)
    lows.append(0)
    highs.append(most)
    cost = np.zeros(width * depth)
    cost[:width] = [len(shape) for shape in SHAPES]
    cost[:4] = 1.5  # of equal sizes, more variants with two dimensions: they save units
    found = milp(
        cost,
        constraints=LinearConstraint(np.array(lines), lows, highs),
        integrality=np.ones(width * depth),
        bounds=Bounds(0, most),
    )
    assert found.x is not None, f"{benchmark}: no units have these shares: {found.message}"
    blocks = np.rint(found.x).astype(int).reshape(depth, width).tolist()
    return blocks[0], dict(zip(CONDITIONS, blocks[1:], strict=True))


def _add_unit(tale: Tale, model: str, one: Variant, *, passing: set[str], is_complete: bool, budget: int) -> None:
    for condition, index in product(CONDITIONS, range(TRIALS)):
        is_success = condition in passing and index == 0
        is_injected = condition in INJECTED and (is_complete or (condition, index) != (INJECTED[-1], 0))
        percent = int(condition.removeprefix("inject_")) if condition in INJECTED else 0
        tale.trials.append(
            Told(
                agent=model,
                unit=one,
                condition=condition,
                index=index,
                score=float(is_success),
                is_success=is_success,
                actions=budget,
                budget=budget if percent else None,
                injected_after=max(1, budget * percent // 100) if is_injected else None,
            )
        )
    tale.budgets.append((model, one, budget))


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
