"""The command ``power``: which design would detect a gain from asking, and what it costs."""

import argparse
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lhaw_record.recorder.cli.arguments import FORMAT
from lhaw_record.recorder.cli.command import Command, argument
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.sharing.address import store_address

if TYPE_CHECKING:
    from lhaw_record.analytics.statistics.power import PilotUnit, StudyDesign

Row = dict[str, Any]

_MOST_DOUBLINGS = 5
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
    and ($agent is null or base.agent = $agent)
order by all
"""

_COST = """
select sum(cost_usd_per_trial * n_trials) / sum(n_trials)
from trial_counts_and_cost
where purpose = 'all' and condition in ('underspecified', $better) and n_trials > 0
and ($agent is null or agent = $agent)
"""

_RECALL = """
select sum(value * n_units) / sum(n_units) / 100
from simulator_fidelity
where measure = 'met_requests_pct' and value is not null
"""

_FILE = """conditions = ["underspecified", "ask_user"]
trials = {trials}

[stop_when_shown]
max_tasks = {tasks}
"""


class PlannedStudy(NamedTuple):
    """What an experiment file plans for one agent under underspecified and ask_user. The cost is None if unknown."""

    tasks: int
    variants: int
    trials: int
    cost_usd_per_trial: float | None


def power_command(options: argparse.Namespace, planned_by: Callable[[Path], PlannedStudy]) -> int:
    """Print the power of every design. Return exit code 1 if no design reaches the wanted power."""
    from lhaw_record.analytics.errors import BadParameter
    from lhaw_record.analytics.statistics.power import StudyDesign, SuccessRates, power, rates_of

    cost, rates, source, agents = options.cost_per_trial, SuccessRates(0.3, 0.1), "assumed", list[str]()
    measured: float | None = None
    better = "full" if options.of == "loss" else "ask_user"
    sizes = {"tasks": [6, 10, 20, 40, 80], "variants": [1, 3], "trials": [1, 3, 5]}
    if options.store is not None and Path(options.store).suffix == ".toml":
        study = planned_by(Path(options.store))
        sizes = {"tasks": [study.tasks, 2 * study.tasks], "variants": [study.variants], "trials": [study.trials]}
        cost = study.cost_usd_per_trial if cost is None else cost
    elif options.store is not None:
        units, known_cost, measured = _pilot(options.store, options.agent, better)
        if not units:
            raise BadParameter(f"no variant has trials under both underspecified and {better}; leave the store out")
        rates, source = rates_of(units), f"{len({unit.task for unit in units})} tasks of the pilot"
        agents = sorted({unit.agent for unit in units})
        cost = known_cost if cost is None else cost
    given = {name: getattr(options, name) for name in SuccessRates._fields if getattr(options, name) is not None}
    rates = rates._replace(**given)
    is_assumed = options.gain is not None or not agents  # a pilot's gain is what its own user leaves of it
    if better == "ask_user" and is_assumed:
        recall = options.recall if options.recall is not None else 1.0 if measured is None else measured
        rates = rates._replace(gain=rates.gain * recall)
        if options.recall is None and measured is not None:
            say(f"  the pilot's simulated user met {measured:.0%} of what it was asked for: of a gain, that is seen")
    sized = {name: getattr(options, name) or found for name, found in sizes.items()}

    def simulated(design: "StudyDesign") -> dict[str, Any]:
        found = power(rates, design, level=options.level, studies=options.studies)
        return {
            **design._asdict(),
            "total_trials": design.total,
            "cost_usd": None if cost is None else round(cost * design.total, 2),
            "power": round(found, 4),
            "power_error": round((found * (1 - found) / options.studies) ** 0.5, 4),
            "is_enough": found >= options.wanted,
        }

    designs = product(sized["tasks"], sized["variants"], sized["trials"], [better == "full"])
    rows = [simulated(StudyDesign(*each)) for each in designs]
    print_rows(rows, _COLUMNS, options.format)
    shown = ", ".join(f"{name} = {round(value, 4):.3g}" for name, value in rates._asdict().items())
    say(f"  rates ({source}): {shown}")
    if len(agents) > 1:
        say(f"  agents of the pilot, averaged: {', '.join(agents)} (--agent NAME for one)")
    if agents and options.gain is None:
        say("  the gain of a pilot is uncertain, and so is this power: --gain sets the smallest gain worth seeing")
    say("\n".join(f"  {line}" for line in _advice(rows, simulated, options.wanted)))
    return 0 if any(row["is_enough"] for row in rows) else 1


def _advice(rows: Sequence[Row], simulated: "Callable[[StudyDesign], Row]", wanted: float) -> Iterator[str]:
    """Name the cheapest sufficient design, and the power of fewer tasks with at least as many trials.

    If no design is sufficient, double the tasks of the best one until it is.
    """
    from lhaw_record.analytics.statistics.power import StudyDesign

    enough = [row for row in rows if row["is_enough"]]
    if not enough:
        yield f"no design here reaches {wanted:.0%}: add tasks before variants, and variants before trials"
        best = max(rows, key=lambda row: (row["power"], -row["total_trials"]))
        for doubling in range(1, _MOST_DOUBLINGS + 1):
            more = simulated(
                StudyDesign(best["tasks"] * 2**doubling, best["variants"], best["trials"], best["is_loss"])
            )
            if more["is_enough"]:
                yield f"{_named(more)} would: {more['power']:.0%}"
                return
        yield f"not even {_named(more)} would: {more['power']:.0%}"
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
        yield f"fewer tasks with more trials: {_named(other)}, have {other['power']:.0%} instead of {best['power']:.0%}"
    if not best["is_loss"]:
        yield f"in the experiment file, to stop as soon as it is shown:\n\n{_FILE.format(**best)}"


def _named(row: Row) -> str:
    price = "" if row["cost_usd"] is None else f", about {row['cost_usd']:,.2f} USD"
    counts = (f"{row[name]} {name if row[name] > 1 else name[:-1]}" for name in ("tasks", "variants", "trials"))
    size = f"{' x '.join(counts)} in each arm"
    return f"{size}, {row['total_trials']:,} trials{price}"


def _pilot(store: Path, agent: str | None, better: str) -> tuple[list["PilotUnit"], float | None, float | None]:
    from lhaw_record.analytics.statistics.power import PilotUnit
    from lhaw_record.analytics.views.store import open as open_store

    given = {"agent": agent, "better": better}
    with open_store(store, only={"pass_at_k", "trial_counts_and_cost", "simulator_fidelity"}) as connection:
        units = [PilotUnit(*row) for row in connection.execute(_PILOT, given).fetchall()]
        ((cost,),) = connection.execute(_COST, given).fetchall()
        ((recall,),) = connection.execute(_RECALL).fetchall()
    return units, cost, recall


def _share(name: str, text: str) -> Any:
    return argument(name, type=float, metavar="X", help=text)


def _counts(name: str, text: str) -> Any:
    return argument(name, type=_count, nargs="+", metavar="N", help=text)


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)


def power_commands(planned_by: Callable[[Path], PlannedStudy]) -> tuple[Command, ...]:
    return (
        Command(
            name="power",
            help="plan the tasks, variants and trials that would show a gain from asking or a loss, and their cost",
            description="Simulate whole studies of underspecified against ask_user, test each with the test of the "
            "tables (sign flips of whole tasks), and print how often it sees the gain. With a store, success and its "
            "spread between the tasks of an agent are estimated from its trials. With an experiment file (.toml), "
            "before its first trial, or with neither, they are assumed; the file says which design is meant and what "
            "its trials may cost. Options replace all of that. The cheapest design is named, and what as many trials "
            "of fewer tasks would see. Exit code 1: no design has the wanted power.",
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
                    choices=("gain", "loss"),
                    default="gain",
                    help="what is to be shown: the gain of ask_user over underspecified, or the loss of underspecified "
                    "against full (default: %(default)s)",
                ),
                argument("--agent", metavar="NAME", help="of the pilot, only this agent"),
                _share("--base", "share of successes without asking (assumed: 0.3)"),
                _share("--gain", "the true mean gain to be seen, as a fraction (assumed: 0.1)"),
                argument(
                    "--recall",
                    type=float,
                    metavar="X",
                    help="share of well-aimed questions that the simulated user answers; the rest of an assumed gain "
                    "is never seen (docs/matcher.md has it; default: that of the pilot, else 1)",
                ),
                _share("--spread", "standard deviation of the tasks' log odds (assumed: 1.5)"),
                _share("--gain-spread", "standard deviation of the tasks' gains in log odds (assumed: 0.7)"),
                _counts("--tasks", "default: 6 10 20 40 80; of an experiment file its tasks, and twice as many"),
                _counts("--variants", "of each task (default: 1 3, or those of the file)"),
                _counts("--trials", "of each variant in each arm (default: 1 3 5, or those of the file)"),
                argument("--wanted", type=float, default=0.8, metavar="X", help="wanted power (default: %(default)s)"),
                argument("--level", type=float, default=0.05, metavar="X", help="of the test (default: %(default)s)"),
                argument("--cost-per-trial", type=float, metavar="USD", help="default: that of the pilot"),
                argument(
                    "--studies", type=_count, default=300, metavar="N", help="simulated per design (default: 300)"
                ),
                FORMAT,
            ),
            function=partial(power_command, planned_by=planned_by),
        ),
    )
