"""``lhaw-record ab``: does a change of instructions make an agent ask better?

One entry with two folders of files, or two entries, are the two arms of one experiment. Existing parts do
the work: the scheduler runs the trials, ``compare`` gives the differences, and ``power`` simulates the number of tasks.
"""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from lhaw_record.recorder.cli.arguments import FORMAT, store_option
from lhaw_record.recorder.cli.command import Command, argument, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.resources import experiment_path
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.runners.base.errors import ExperimentError

if TYPE_CHECKING:
    import duckdb

    from lhaw_record.runners.experiment.tables import AgentSpec

_WANTED_POWER = 0.8
_MOST_TASKS = 1280
_MEASURED = (
    ("success", "pass_at_1", "ask_user"),
    ("progress", "checkpoint_progress", "ask_user"),
    ("questions", "questions_per_trial", "ask_user"),
    ("asked", "ask_pct", "ask_user"),
    ("success, nothing missing", "pass_at_1", "full_ask_user"),
    ("questions, nothing missing", "questions_per_trial", "full_ask_user"),
    ("asked, nothing missing", "ask_pct", "full_ask_user"),
)
_COLUMNS = ("what", "before", "after", "difference", "low", "high", "p_value")
_COUNTS = ("n_units", "n_clusters", "n_trials", "n_missing", "reason")
_PILOT = """
select
    'ab' as agent,
    concat_ws('|', benchmark, task_id) as task,
    any_value(n_success) filter (where agent = $before) as base_successes,
    any_value(n_trials) filter (where agent = $before) as base_trials,
    any_value(n_success) filter (where agent = $after) as asked_successes,
    any_value(n_trials) filter (where agent = $after) as asked_trials
from pass_at_k
where unit_kind = 'variant' and condition = 'ask_user'
group by benchmark, task_id, unit_id
having base_trials > 0 and asked_trials > 0
order by all
"""


def ab_command(options: argparse.Namespace) -> int:
    """Run both arms and print what the change did. Exit code: 1 if trials are left, 130 if the run was interrupted."""
    from lhaw_record.analytics.views.store import open as open_store
    from lhaw_record.runners.experiment.decoding import load_experiment
    from lhaw_record.runners.runs.live_progress import RunProgress
    from lhaw_record.runners.runs.preparation import prepare_experiment
    from lhaw_record.runners.runs.run import run_experiment

    described = load_experiment(options.experiment)
    before, after = _arms(options, options.model or described.agents[0].model)
    conditions = ("ask_user", "full_ask_user")
    experiment = msgspec.structs.replace(described, name="ab", agents=(before, after), conditions=conditions)
    experiment = msgspec.structs.replace(experiment, trials=options.trials or described.trials)
    prepared = prepare_experiment(experiment, options.experiment)
    with RunProgress(sys.stderr) as progress:
        summary = anyio.run(run_experiment, prepared, options.store, progress.reporter())
    for outcome in summary.failures[:3]:
        say(f"  failed in {outcome.trial.agent.name}: {outcome.failure.message if outcome.failure else 'unknown'}")
    if summary.left:
        say(f"{store_name(options.store)}: {summary.left} trials are left; run the same command again to continue")
        return 130 if summary.outcome == "interrupted" else 1
    with open_store(options.store, parameters={"experiment": "ab"}) as connection:
        print_rows(_differences(connection, before.name, after.name), (*_COLUMNS, *_COUNTS), options.format)
        names = {"before": before.name, "after": after.name}
        for line in _needed(connection, names, options.gain, experiment.trials):
            say(f"  {line}")
    return 0


def _arms(options: argparse.Namespace, model: str) -> "tuple[AgentSpec, AgentSpec]":
    """Return the agents of both arms: two entries, or one entry with the files of each folder."""
    from lhaw_record.runners.agents.programs.entries import load_entry
    from lhaw_record.runners.experiment.tables import AgentSpec

    entries, folders = options.entries, options.files
    if (len(entries), len(folders)) not in ((1, 2), (2, 0)):
        raise ExperimentError("give one ENTRY and --files DIR twice (before and after the change), or two entries")
    arms = []
    for entry, folder in zip(entries * 2 if folders else entries, folders or (None, None), strict=True):
        program = load_entry(entry, Path())
        if folder is not None:
            program = msgspec.structs.replace(program, files={**program.files, **_files(Path(folder))})
        name = program.name if folder is None else Path(folder).resolve().name
        arms.append(AgentSpec(name=name, model=model, program=program))
    if arms[0].name == arms[1].name:
        raise ExperimentError(f"both arms would be called {arms[0].name!r}; rename one of the two")
    return arms[0], arms[1]


def _files(folder: Path) -> dict[str, str]:
    """Return the files of a folder as an entry has them: by path below HOME, as templates without placeholders."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    if not paths:
        raise ExperimentError(f"--files {folder}: the folder has no files")
    try:
        texts = {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in paths}
    except (OSError, UnicodeDecodeError) as error:
        raise ExperimentError(f"--files {folder}: a file cannot be read as text: {error}") from error
    return {name: text.replace("{", "{{").replace("}", "}}") for name, text in texts.items()}


def _differences(connection: "duckdb.DuckDBPyConnection", before: str, after: str) -> list[dict[str, Any]]:
    from lhaw_record.analytics.comparison.compare import compare
    from lhaw_record.analytics.comparison.groups import Group

    rows = []
    for what, measure, condition in _MEASURED:
        found = compare(connection, Group(after, condition), Group(before, condition), measure=measure)[0]
        rows.append({**found, "what": what, "before": found["b"], "after": found["a"]})
    return rows


def _needed(connection: "duckdb.DuckDBPyConnection", names: dict[str, str], gain: float, trials: int) -> Iterator[str]:
    """Say how many tasks would show a difference of success, with the spread of these trials."""
    from lhaw_record.analytics.statistics.power import PilotUnit, StudyDesign, power, rates_of

    units = [PilotUnit(*row) for row in connection.execute(_PILOT, names).fetchall()]
    yield f"difference: {names['after']} minus {names['before']}, paired by variant, or by task if nothing is missing"
    if not units:
        return
    rates = rates_of(units)._replace(gain=gain)
    tasks = len({unit.task for unit in units})
    variants = max(1, round(len(units) / tasks))
    while tasks <= _MOST_TASKS:
        found = power(rates, StudyDesign(tasks, variants, trials), level=0.05, studies=300)
        if found >= _WANTED_POWER:
            break
        tasks *= 2
    enough = f"{tasks}" if tasks <= _MOST_TASKS else f"more than {_MOST_TASKS}"
    yield (
        f"tasks that show a gain of {100 * gain:g} pp above {100 * rates.base:.0f} % success with a power of "
        f"{_WANTED_POWER:.0%}: {enough} (variants of each: {variants}, trials: {trials}); 'lhaw-record power' "
        "computes other designs"
    )


COMMANDS = (
    Command(
        name="ab",
        help="test a change of instructions (AGENTS.md, CLAUDE.md, skills): success, questions, over-asking",
        description="Run one entry with the files of two folders, or two entries, as arms of one experiment under "
        "ask_user and, with nothing missing, full_ask_user. Print the paired differences in success, questions and "
        "over-asking, and how many tasks would show a difference. Files are written below HOME (docs/ab.md).",
        example="ab codex --files before/ --files after/ --model openai/gpt-5.5 --store stores/ab",
        arguments=(
            argument(
                "entries", nargs="+", metavar="ENTRY", help="one or two entries: a ready-made entry's name, or a path"
            ),
            repeatable("--files", "DIR", "files of an arm, by their paths below HOME; twice: before and after"),
            argument(
                "--experiment",
                type=Path,
                metavar="FILE",
                default=experiment_path("demo.toml"),
                help="the experiment file that gives tasks, variants, user, limits and trials (default: the demo's)",
            ),
            argument("--model", help="the model of both arms (default: that of the file's first agent)"),
            argument("--trials", type=int, metavar="N", help="trials of each cell (default: as the file says)"),
            argument(
                "--gain",
                type=float,
                default=0.1,
                metavar="X",
                help="the smallest difference in success that the number of tasks should show (default: %(default)s)",
            ),
            store_option("the store for the events; the same command resumes"),
            FORMAT,
        ),
        function=ab_command,
    ),
)
