"""The command ``power``: which design would detect the gain of asking, and what the design costs."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lhaw_record.recorder.cli.arguments import FORMAT, positive
from lhaw_record.recorder.cli.command import Command, argument, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.sharing.address import store_address

if TYPE_CHECKING:
    from lhaw_record.analytics.statistics.power import StudyDesign, SuccessRates

Row = dict[str, Any]

_MOST_DOUBLINGS = 5
_MOST_TASKS = 1280
_COLUMNS = ("tasks", "variants", "trials", "total_trials", "cost_usd", "power", "power_error", "is_enough")

_PILOT = """
select
    base.agent,
    concat_ws('|', base.benchmark, base.task_id) as task,
    base.n_success as base_successes,
    base.n_trials as base_trials,
    better.n_success as better_successes,
    better.n_trials as better_trials
from pass_at_k as base
inner join pass_at_k as better
    on
        base.benchmark = better.benchmark
        and base.agent = better.agent
        and base.task_id = better.task_id
        and better.condition = $better
        and better.unit_kind = if($better = 'full', 'task', 'variant')
        and (better.unit_id = base.unit_id or $better = 'full')
where
    base.unit_kind = 'variant'
    and base.condition = 'underspecified'
    and base.n_trials > 0
    and better.n_trials > 0
    and (len($agents) = 0 or list_contains($agents, base.agent))
order by all
"""

_COST = """
select sum(cost_usd_per_trial * n_trials) / sum(n_trials)
from trial_counts_and_cost
where purpose = 'all' and list_contains($conditions, condition) and n_trials > 0
and (len($agents) = 0 or list_contains($agents, agent))
"""

_USERS = """
select
    is_chosen,
    min(judge) filter (where user_simulator = 'exact') as judge,
    sum(len(list_intersect(asks_for, gives))) as n_met,
    sum(len(withheld)) as n_withheld
from int_exchange_readings
inner join int_attempts on int_exchange_readings.stream_id = int_attempts.stream_id
where judge is not null
group by is_chosen
having n_met + n_withheld > 0
order by is_chosen
"""

_FILE = """# {named}
conditions = [{conditions}]
trials = {trials}
"""
_LOOKS = """
[stop_when_shown] # four looks cost up to 0.03 of this power
max_tasks = {tasks}
"""


class PlannedStudy(NamedTuple):
    """What an experiment file plans for one agent under underspecified and ask_user.

    The cost is None if unknown. The judge is that of the user ``exact``, and None if another user answers.
    """

    tasks: int
    variants: int
    trials: int
    cost_usd_per_trial: float | None
    user_judge: str | None


class _Known(NamedTuple):
    """What a pilot or an experiment file says: rates with their source, the agents, cost, and recall of the user."""

    rates: "SuccessRates"
    source: str = "assumed"
    agents: tuple[str, ...] = ()
    cost_usd_per_trial: float | None = None
    recall: tuple[float, str] | None = None


def power_command(options: argparse.Namespace, planned_by: Callable[[Path], PlannedStudy]) -> int:
    """Print the power of every design. Return exit code 1 if no design reaches the wanted power."""
    from lhaw_record.analytics.errors import BadParameter
    from lhaw_record.analytics.statistics.power import EFFECTS, StudyDesign, SuccessRates, power
    from lhaw_record.analytics.tables.notes import kept_recall

    known = _Known(SuccessRates(0.3, 0.1))
    sizes = {"tasks": [6, 10, 20, 40, 80], "variants": [1, 3], "trials": [1, 3, 5]}
    if options.store is not None and Path(options.store).suffix == ".toml":
        study = planned_by(Path(options.store))
        sizes = {"tasks": [study.tasks, 2 * study.tasks], "variants": [study.variants], "trials": [study.trials]}
        known = known._replace(cost_usd_per_trial=study.cost_usd_per_trial, recall=kept_recall(study.user_judge))
    elif options.store is not None:
        known = _pilot(options.store, options.agent, options.of)
    if options.agent and not known.agents:
        raise BadParameter("--agent chooses agents of a pilot: give the pilot's STORE")
    cost = known.cost_usd_per_trial if options.cost_per_trial is None else options.cost_per_trial
    given = {name: getattr(options, name) for name in SuccessRates._fields if getattr(options, name) is not None}
    rates = known.rates._replace(**given)
    recall = known.recall if options.recall is None else (options.recall, "--recall")
    hides = options.of != "loss" and recall is not None and (options.gain is not None or not known.agents)
    if hides and recall is not None:  # a pilot's gain is what its own user leaves of it
        rates = rates._replace(gain=rates.gain * recall[0], other_gain=rates.other_gain * recall[0])
    sized = {name: getattr(options, name) or found for name, found in sizes.items()}

    def simulated(design: "StudyDesign") -> Row:
        found = power(rates, design, level=options.level, studies=options.studies, above=options.above)
        return {
            **design._asdict(),
            "total_trials": design.total,
            "cost_usd": None if cost is None else round(cost * design.total, 2),
            "power": round(found, 4),
            "power_error": round((found * (1 - found) / options.studies) ** 0.5, 4),
            "is_enough": found >= options.wanted,
        }

    if options.price:
        ones = [StudyDesign(1, *each, options.of) for each in product(sized["variants"], sized["trials"])]
        priced = _priced(options, ones, cost)
        rows = [{"price_usd": price, **simulated(design)} for price, design in priced]
    else:
        designs = product(sized["tasks"], sized["variants"], sized["trials"], [options.of])
        rows = [simulated(StudyDesign(*each)) for each in designs]
    print_rows(rows, ("price_usd", *_COLUMNS) if options.price else _COLUMNS, options.format)
    others = {effect.own_rate for name, effect in EFFECTS.items() if name != options.of}
    shown = ", ".join(
        f"{name} = {round(value, 4):.3g}" for name, value in rates._asdict().items() if name not in others
    )
    say(f"  rates ({known.source}): {shown}")
    if hides and recall is not None:
        say(f"  the simulated user gave {recall[0]:.0%} of what was asked ({recall[1]}): gains shrink to this share")
    lines = (*_doubts(known, options, rates), *_curve(rows), *_advice(rows, simulated, options.wanted))
    say("\n".join(f"  {line}" for line in lines))
    return 0 if any(row["is_enough"] for row in rows) else 1


def _doubts(known: _Known, options: argparse.Namespace, rates: "SuccessRates") -> Iterator[str]:
    """Say what a pilot's rates rest on."""
    if len(known.agents) > 1 and options.of != "lead":
        yield f"rates are means over agents of the pilot: {', '.join(known.agents)} (--agent NAME chooses one)"
    if known.agents and options.gain is None:
        yield "the gain of a pilot is uncertain, and so is this power; set --gain to the smallest gain worth detecting"
    even = [one for one in ("spread", "gain_spread") if getattr(options, one) is None and getattr(rates, one) < 5e-5]
    if even:
        assumed = " ".join(f"--{one.replace('_', '-')} {rates._field_defaults[one]}" for one in even)
        yield f"a spread of 0 may be chance, because a few tasks hardly show how much tasks differ; try {assumed}"


def _priced(
    options: argparse.Namespace, ones: "Sequence[StudyDesign]", cost: float | None
) -> "list[tuple[float, StudyDesign]]":
    """Give each design of one task as many tasks as each price pays for."""
    from lhaw_record.analytics.errors import BadParameter

    if options.tasks:
        raise BadParameter("--price finds the number of tasks: leave --tasks out")
    if not cost:
        raise BadParameter("--price needs the cost of a trial, which is 0 or unknown here: give --cost-per-trial USD")
    paid = [
        (price, one._replace(tasks=min(_MOST_TASKS, int(price / (cost * one.total) + 1e-9))))
        for price in sorted(options.price)
        for one in ones
    ]
    if not any(design.tasks for _, design in paid):
        raise BadParameter(f"no price pays for one task, which costs {cost * min(one.total for one in ones):,.2f} USD")
    return [(price, design) for price, design in paid if design.tasks]


def _curve(rows: Sequence[Row]) -> Iterator[str]:
    """Name the best and the worst design at each price; of designs as good as the best, the one with most tasks."""
    for price in dict.fromkeys(row["price_usd"] for row in rows if "price_usd" in row):
        paid = sorted((row for row in rows if row["price_usd"] == price), key=lambda row: row["power"])
        least = paid[-1]["power"] - 2 * paid[-1]["power_error"]
        best = max((row for row in paid if row["power"] >= least), key=lambda row: row["tasks"])
        worse = f"; {_named(paid[0])} have a power of {paid[0]['power']:.0%}" if paid[0]["power"] < least else ""
        yield f"at {price:,.2f} USD: {_named(best)} have a power of {best['power']:.0%}{worse}"


def _advice(rows: Sequence[Row], simulated: "Callable[[StudyDesign], Row]", wanted: float) -> Iterator[str]:
    """Name the cheapest sufficient design, and the power of fewer tasks with at least as many trials.

    If no design is sufficient, double the tasks of the best one until it is.
    """
    from lhaw_record.analytics.statistics.power import EFFECTS, StudyDesign

    enough = [row for row in rows if row["is_enough"]]
    if not enough:
        yield f"no design here has a power of {wanted:.0%}: first add tasks, then variants, then trials"
        best = max(rows, key=lambda row: (row["power"], -row["total_trials"]))
        for doubling in range(1, _MOST_DOUBLINGS + 1):
            more = simulated(StudyDesign(best["tasks"] * 2**doubling, best["variants"], best["trials"], best["of"]))
            if more["is_enough"]:
                yield f"{_named(more)} would have a power of {more['power']:.0%}"
                return
        yield f"even {_named(more)} would have a power of only {more['power']:.0%}"
        return
    best = min(enough, key=lambda row: (row["total_trials"], -row["tasks"]))
    yield f"cheapest design with {wanted:.0%}: {_named(best)}"
    others = [
        row
        for row in rows
        if row["tasks"] < best["tasks"] and row["total_trials"] >= best["total_trials"] and row["power"] < best["power"]
    ]
    if others:
        other = min(others, key=lambda row: (row["total_trials"], -row["power"]))
        yield f"fewer tasks with more trials: {_named(other)}, power {other['power']:.0%}, not {best['power']:.0%}"
    conditions = ", ".join(f'"{name}"' for name in EFFECTS[best["of"]].conditions)
    file = _FILE.format(**best, named=_named(best), conditions=conditions)
    if best["of"] == "gain":
        yield f"in the experiment file, to stop as soon as the gain is shown:\n\n{file}{_LOOKS.format(**best)}"
    else:
        yield f"in the experiment file:\n\n{file}"


def _named(row: Row) -> str:
    price = "" if row["cost_usd"] is None else f", about {row['cost_usd']:,.2f} USD"
    counts = (f"{row[name]} {name if row[name] > 1 else name[:-1]}" for name in ("tasks", "variants", "trials"))
    return f"{' x '.join(counts)} in each arm, {row['total_trials']:,} trials{price}"


def _pilot(store: Path, agents: list[str], of: str) -> _Known:
    from lhaw_record.analytics.errors import BadParameter
    from lhaw_record.analytics.statistics.power import EFFECTS, PilotUnit, rates_of
    from lhaw_record.analytics.tables.notes import kept_recall
    from lhaw_record.analytics.views.store import open as open_store

    conditions = list(EFFECTS[of].conditions)
    better = "full" if of == "loss" else "ask_user"
    given: Row = {"agents": agents}
    with open_store(store, only={"pass_at_k", "trial_counts_and_cost", "int_exchange_readings"}) as connection:

        def units_of(better: str) -> list[PilotUnit]:
            found = [PilotUnit(*row) for row in connection.execute(_PILOT, {**given, "better": better}).fetchall()]
            if not found:
                raise BadParameter(f"no variant has trials under both underspecified and {better}; leave the store out")
            return found

        units = units_of(better)
        rates, names = rates_of(units), sorted({unit.agent for unit in units})
        if of == "recovered":
            rates = rates._replace(loss=rates_of(units_of("full")).gain)
        elif of == "lead":
            if len(names) != 2:
                raise BadParameter(f"a lead compares two agents: give --agent NAME twice ({', '.join(names)})")
            gains = [rates_of([unit for unit in units if unit.agent == name]).gain for name in names]
            rates = rates._replace(gain=max(gains), other_gain=min(gains))
        ((cost,),) = connection.execute(_COST, {**given, "conditions": conditions}).fetchall()
        readings = connection.execute(_USERS).fetchall()
    recall = None
    for is_own, judge, n_met, n_withheld in readings[:1]:  # another judge's come first
        recall = n_met / (n_met + n_withheld), f"by its {'own' if is_own else 'other'} judge"
        if is_own and not n_withheld:  # what its matcher misses it does not count as asked for
            recall = kept_recall(judge) or recall
    return _Known(rates, f"{len({unit.task for unit in units})} tasks of the pilot", tuple(names), cost, recall)


def _share(name: str, text: str) -> Any:
    return argument(name, type=float, metavar="X", help=text)


def _counts(name: str, text: str) -> Any:
    return argument(name, type=positive, nargs="+", metavar="N", help=text)


def power_commands(planned_by: Callable[[Path], PlannedStudy]) -> tuple[Command, ...]:
    return (
        Command(
            name="power",
            help="plan the tasks, variants and trials that would show what asking is worth, and their cost",
            description="Simulate whole studies of underspecified against ask_user, test each study as the tables do "
            "(sign flips of whole tasks; Fieller's set for recovered shares), and print how often the gain is shown. "
            "A store is a pilot: its trials give the rates. An experiment file (.toml) gives the design and the "
            "prices. Without a store, the rates are assumed. An assumed gain is reduced by the measured share of "
            "questions that the simulated user misses. Exit code 1: no design has the wanted power.",
            example="power stores/demo --gain 0.1 --tasks 10 20 40 --trials 1 3",
            arguments=(
                argument(
                    "store",
                    nargs="?",
                    type=store_address,
                    metavar="STORE|FILE",
                    help="a pilot, or an experiment file (default: assumed rates)",
                ),
                argument(
                    "--of",
                    choices=("gain", "loss", "lead", "recovered"),
                    default="gain",
                    help="what to show: the gain of ask_user over underspecified, the loss of underspecified "
                    "against full, that one agent gains more than another, or the share of the loss that asking "
                    "recovers (default: %(default)s)",
                ),
                repeatable("--agent", "NAME", "only this agent of the pilot; if given twice, only these two"),
                _share("--base", "share of successes without asking (assumed: 0.3)"),
                _share("--gain", "the true mean gain to detect, as a fraction (assumed: 0.1)"),
                _share("--other-gain", "for --of lead: the gain of the other agent (assumed: 0)"),
                _share("--loss", "for --of recovered: the loss (assumed: 0.3)"),
                argument(
                    "--above",
                    type=float,
                    default=0.0,
                    metavar="X",
                    help="show that the recovered share is above this (default: %(default)s)",
                ),
                _share(
                    "--recall",
                    "share of well-aimed questions that the simulated user answers; an assumed gain is reduced to "
                    "this share (default: as measured for the user of the pilot or file, else 1)",
                ),
                _share("--spread", "standard deviation of the tasks' log odds (assumed: 1.5)"),
                _share("--gain-spread", "standard deviation of the tasks' gains in log odds (assumed: 0.7)"),
                _counts("--tasks", "default: 6 10 20 40 80, or the number in an experiment file and twice that number"),
                _counts("--variants", "variants of each task (default: 1 3, or those of the file)"),
                _counts("--trials", "trials of each variant in each arm (default: 1 3 5, or those of the file)"),
                argument("--wanted", type=float, default=0.8, metavar="X", help="wanted power (default: %(default)s)"),
                argument("--level", type=float, default=0.05, metavar="X", help="test level (default: %(default)s)"),
                argument("--cost-per-trial", type=float, metavar="USD", help="default: as in the pilot"),
                argument(
                    "--price",
                    type=float,
                    nargs="+",
                    metavar="USD",
                    help="instead of --tasks: use as many tasks as each of these prices pays for",
                ),
                argument(
                    "--studies", type=positive, default=300, metavar="N", help="studies per design (default: 300)"
                ),
                FORMAT,
            ),
            function=partial(power_command, planned_by=planned_by),
        ),
    )
