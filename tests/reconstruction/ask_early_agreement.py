"""Ask Early's agreement between models as single trials: its tables 3 and 7.

A cell is a variant under one injection; it passes or not. Of such values tau-b is the phi coefficient, which depends on
how many cells each model passes, and how many both do: the first are chosen here so that whole numbers of the second
give the printed taus, and an integer program finds who passes what.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import combinations, product

from lhaw_record.recorder.events.values import INJECT_PERCENTAGES
from tests.reconstruction.ask_early import MODELS
from tests.reconstruction.printed_values import is_printed, values
from tests.reconstruction.programs import Program
from tests.reconstruction.told import TRIALS, Tale, Told, task, variant

_SPREAD = 8
"""How far from one half of the cells the number of passes is looked for."""

Pair = tuple[str, str]
Passes = dict[str, int]
"""How many cells each model passes."""


def agreement() -> Tale:
    """Return a study whose models agree as printed, on TheAgentCompany and on all benchmarks together."""
    tale = Tale("agreement", "variant")
    n_variants = {name: int(values("askearly_setup", "benchmark", metric="variants")[name,]) for name in MODELS}
    n_cells = {name: number * len(INJECT_PERCENTAGES) for name, number in n_variants.items()}
    for benchmark, passed in _passed(n_cells).items():
        one = task(benchmark, 0)
        tale.tasks.append(one)
        cells = iter(passed)
        for number in range(n_variants[benchmark]):
            each = variant(one, number, ("goal",), "divergent")
            tale.variants.append(each)
            for model in MODELS[benchmark]:
                tale.trials.extend(Told(model, each, "full", index, 1.0, True) for index in range(TRIALS))
                tale.budgets.append((model, each, 1))
            for percentage in INJECT_PERCENTAGES:
                passing = next(cells)
                for model, index in product(MODELS[benchmark], range(TRIALS)):
                    is_success = model in passing and index == 0
                    told = Told(model, each, f"inject_{percentage}", index, float(is_success), is_success, 2)
                    tale.trials.append(told._replace(budget=1, injected_after=1))
    return tale


def _passed(n_cells: Mapping[str, int]) -> dict[str, list[frozenset[str]]]:
    """For each benchmark the models that pass each cell."""
    printed = {
        scope: {
            (one, other): text
            for (one, other), text in values("askearly_kendall", "model_a", "model_b", benchmark=scope).items()
            if one < other
        }
        for scope in ("tac", "all")
    }
    few = [name for name in MODELS["mcp_atlas"] if name not in MODELS["tac"]]  # models of one benchmark only
    with_few = {pair: text for pair, text in printed["all"].items() if {*pair} & {*few}}
    with_all = {pair: text for pair, text in printed["all"].items() if pair not in with_few}
    passes = {
        "tac": _margins(n_cells["tac"], dict.fromkeys(MODELS["tac"], 0), n_cells["tac"], printed["tac"]),
        "mcp_atlas": _margins(
            n_cells["mcp_atlas"], dict.fromkeys(MODELS["mcp_atlas"], 0), n_cells["mcp_atlas"], with_few
        ),
    }
    before = {model: sum(own[model] for own in passes.values()) for model in MODELS["tac"]}
    passes["swebench_pro"] = _margins(n_cells["swebench_pro"], before, sum(n_cells.values()), with_all)
    total = {model: before[model] + passes["swebench_pro"][model] for model in before}
    both = {
        ("tac",): _both(n_cells["tac"], passes["tac"], printed["tac"]),
        ("mcp_atlas",): _both(n_cells["mcp_atlas"], passes["mcp_atlas"], with_few),
        tuple(MODELS): _both(sum(n_cells.values()), total, with_all),
    }
    return _solve(n_cells, passes, both)


def _margins(size: int, before: Passes, together: int, printed: Mapping[Pair, str]) -> Passes:
    """Passes near one half of ``size`` cells, so that a whole number of common passes gives each printed tau.

    Args:
        size: How many cells there are.
        before: Passes in other cells that the taus are about too.
        together: How many cells the taus are about.
        printed: The taus.
    """
    near = sorted(range(-_SPREAD, _SPREAD + 1), key=abs)
    for offsets in product(near, repeat=len(before)):
        found = {model: size // 2 + offset for model, offset in zip(before, offsets, strict=True)}
        if _both(together, {model: found[model] + before[model] for model in found}, printed).keys() == printed.keys():
            return found
    raise AssertionError(f"no passes give {printed}")


def _both(size: int, passes: Passes, printed: Mapping[Pair, str]) -> dict[Pair, int]:
    """How many cells both models of a pair pass; pairs whose tau no number gives are left out."""
    found = {}
    for (one, other), text in printed.items():
        by_chance, spread = passes[one] * passes[other], 1.0
        for model in (one, other):
            spread *= math.sqrt(passes[model] * (size - passes[model]))
        number = round((float(text) * spread + by_chance) / size)
        if is_printed((size * number - by_chance) / spread, text):
            found[one, other] = number
    return found


def _solve(
    n_cells: Mapping[str, int], passes: Mapping[str, Passes], both: Mapping[tuple[str, ...], Mapping[Pair, int]]
) -> dict[str, list[frozenset[str]]]:
    """The models that pass each cell, given how many each passes, and how many the models of a pair do together."""
    program = Program()
    kinds = {
        benchmark: {kind: program.number(f"{benchmark} {sorted(kind)}", n_cells[benchmark]) for kind in _kinds(models)}
        for benchmark, models in MODELS.items()
    }
    for benchmark, numbers in kinds.items():
        program.rule(dict.fromkeys(numbers.values(), 1.0), n_cells[benchmark], n_cells[benchmark])
        for model, total in passes[benchmark].items():
            program.rule({number: 1.0 for kind, number in numbers.items() if model in kind}, total, total)
    for benchmarks, pairs in both.items():
        for pair, total in pairs.items():
            numbers = [each for name in benchmarks for each in kinds[name].items()]
            program.rule({number: 1.0 for kind, number in numbers if kind.issuperset(pair)}, total, total)
    found = program.solve()
    return {
        benchmark: [kind for kind, number in numbers.items() for _ in range(found[number])]
        for benchmark, numbers in kinds.items()
    }


def _kinds(models: tuple[str, ...]) -> Iterator[frozenset[str]]:
    for size in range(len(models) + 1):
        yield from map(frozenset, combinations(models, size))
