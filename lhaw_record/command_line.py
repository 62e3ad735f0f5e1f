"""The lhaw-record command line: assembles the commands of all layers and turns errors into exit codes.

Exit codes: 0 success, 1 a finding or failed work, 2 usage error, 3 damaged store, 130 interrupted.
"""

import argparse
import importlib.metadata
import itertools
import json
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lhaw_record import ab
from lhaw_record.analytics.cli import (
    export_commands,
    figure_commands,
    power_commands,
    table_commands,
    trial_commands,
)
from lhaw_record.analytics.comparison.looks import GroupSequentialRule
from lhaw_record.analytics.errors import AnalyticsError
from lhaw_record.generators.cli import (
    generate_commands,
    pipeline_commands,
    select_commands,
    task_commands,
    variants_commands,
)
from lhaw_record.recorder.cli import log_commands
from lhaw_record.recorder.cli.command import PROGRAM, Command, CommandGroup, Parser, Section, add_sections, argument
from lhaw_record.recorder.errors import NEXT_STEPS, DamagedStore, RecorderError, refusal
from lhaw_record.recorder.processes import tune_process
from lhaw_record.recorder.resources import bundled_texts, experiment_path, pages
from lhaw_record.recorder.sharing.address import opened, store_address, store_name
from lhaw_record.recorder.wording import did_you_mean
from lhaw_record.runners.base.errors import ExperimentError, RunnerError
from lhaw_record.runners.cli import (
    agent_commands,
    attempt_commands,
    benchmark_commands,
    import_commands,
    judging_commands,
    run_commands,
)
from lhaw_record.runners.cli.daemon_commands import daemon_commands

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from lhaw_record.runners.agents.planned_trial import PlannedTrial
    from lhaw_record.runners.runs.daemon.daemon import Daemon
    from lhaw_record.runners.runs.daemon.endpoints import Extension

_RULE = GroupSequentialRule()
_SECTIONS = {
    "run an experiment": ("demo", "run", "answer", "ab", "check", "agents", "pipeline"),
    "read the results": ("findings", "tables", "report", "trials", "show", "note", "compare", "sensitivity", "sql"),
    "publish them": ("paper", "figures", "export"),
    "plan a study": ("power",),
    "make tasks and variants": ("tasks", "new-task", "generate", "variants", "select"),
    "change what a store counts": ("import", "judge", "grade", "discard"),
    "share a daemon": ("serve", "submit", "status", "pause", "resume", "cancel", "requeue", "retune", "attach"),
    "benchmarks and agents of others": ("harbor", "mcp-atlas", "new-benchmark", "wrap"),
    "maintenance": ("help", "log", "completion"),
}
"""The sections of the help and the commands in each, most used first."""
_HINTS = dict.fromkeys(
    ("delete", "remove", "rm"), "; nothing is deleted from a store: 'discard' takes trials out of every number"
)
"""The hints for words that people try as commands."""
_UVX_FOLDER = "archive-v0"
"""The cache folder in which uvx creates environments."""
_SUCCESSES = (
    "select agent, condition, count(*) as trials, avg(is_success::int) as success, avg(action_count) as actions "
    "from trials group by all order by all"
)
"""An example query to run on the demo store."""


def build_parser(word: str | None = None) -> argparse.ArgumentParser:
    """Build the argument parser of the whole program, or, in less time, of the one command that the word names."""
    parser = Parser(
        prog="lhaw-record",
        description="Record what agents do with underspecified tasks, and measure it.",
        epilog="example: lhaw-record demo. Messages and pages refer to pages as docs/PAGE.md and to files as "
        "data/FILE: lhaw-record help PAGE and lhaw-record help data/FILE print them.",
    )
    parser.hints = _HINTS
    parser.add_argument("--version", action="version", version=importlib.metadata.version("lhaw-record"))
    commands = {each.name: each for each in _commands()}
    chosen = {word} if word in commands else commands.keys()
    listed = {title: tuple(commands[name] for name in names if name in chosen) for title, names in _SECTIONS.items()}
    assert len(chosen) == sum(map(len, listed.values())), "a command is in no section"
    add_sections(parser, itertools.starmap(Section, listed.items()))
    return parser


def _commands() -> tuple[Command | CommandGroup, ...]:
    """Return every command."""
    return (
        Command(
            name="demo",
            help="run the bundled experiment on scripted models and print the headline",
            description="Run the bundled experiment: 399 trials of scripted models on office tasks, one to three "
            "minutes on two cores, without a key, a network or Docker. Then print what the trials show. Finished "
            "trials are not run again.",
            example="demo --store stores/demo",
            arguments=(
                argument(
                    "--store",
                    type=store_address,
                    default=Path("stores/demo"),
                    help="the store for the events (default: %(default)s)",
                ),
            ),
            function=_demo,
        ),
        *run_commands.run_commands(_RULE, _attempt_page),
        *ab.COMMANDS,
        *benchmark_commands.COMMANDS,
        *agent_commands.COMMANDS,
        *daemon_commands(_report, _attempt, _reviewing),
        *import_commands.COMMANDS,
        *judging_commands.COMMANDS,
        *attempt_commands.COMMANDS,
        *task_commands.COMMANDS,
        *generate_commands.COMMANDS,
        *variants_commands.COMMANDS,
        *select_commands.COMMANDS,
        *pipeline_commands.COMMANDS,
        *table_commands.COMMANDS,
        *trial_commands.COMMANDS,
        *power_commands.power_commands(_planned_study),
        *figure_commands.COMMANDS,
        *export_commands.COMMANDS,
        *log_commands.COMMANDS,
        Command(
            name="help",
            help="print the help of a command, or a page of the documentation",
            description="Print the help of a command, a page of the documentation (docs/PAGE.md in messages), or a "
            "file (data/FILE or experiments/FILE). Without a topic, list all commands and pages.",
            example="help docs/recovery.md",
            arguments=(argument("topic", nargs="*", metavar="TOPIC", help="a command, a page, or a file"),),
            function=_help,
        ),
        Command(
            name="completion",
            help="print the shell code that completes commands, options and names",
            description="Print shell code that completes commands, options, and names of tables, agents and conditions "
            "when you press the tab key. For bash or zsh, add this to ~/.bashrc or ~/.zshrc: "
            'eval "$(lhaw-record completion bash)". For fish, run: lhaw-record completion fish > '
            "~/.config/fish/completions/lhaw-record.fish.",
            example="completion bash",
            arguments=(argument("shell", choices=("bash", "zsh", "fish"), help="the shell"),),
            function=_completion,
        ),
    )


def _help(options: argparse.Namespace) -> int:
    """Print the help of a command or of the program, a page, or a file that pages name."""
    known, texts = pages(), bundled_texts()
    topic = " ".join(options.topic)
    commands = {name for names in _SECTIONS.values() for name in names}
    page = topic.removeprefix("docs/").removesuffix(".md")
    if not topic:
        build_parser().print_help()
        print(f"\npages: {', '.join(known)}")
    elif topic.partition(" ")[0] in commands:
        build_parser(options.topic[0]).parse_args([*options.topic, "--help"])
    elif path := known.get(page) or texts.get(topic):
        print(path.read_text(encoding="utf-8"), end="")
    else:
        from lhaw_record.analytics.tables.catalogue import SPECS

        hint = did_you_mean(page, [*commands, *known, *texts]) or "; 'lhaw-record help' lists them"
        if topic in {spec.name for spec in SPECS}:
            hint = f"; 'lhaw-record tables STORE {topic}' prints the table"
        raise ExperimentError(f"no command, page or file is named {topic!r}{hint}")
    return 0


def _completion(options: argparse.Namespace) -> int:
    """Print the completion script for a shell."""
    from argcomplete.shell_integration import shellcode

    print(shellcode([PROGRAM], shell=options.shell))
    return 0


def _demo(options: argparse.Namespace) -> int:
    """Run the bundled experiment, print the headline and suggest commands to try next."""
    for words in (["run", str(experiment_path("demo.toml"))], ["findings", str(options.store), "--headline"]):
        step = build_parser(words[0]).parse_args(words)
        step.store = options.store
        exit_code = int(step.function(step))
        if exit_code:
            return exit_code
    place = store_name(options.store)
    next_steps = (
        ["report", place],
        ["findings", place],
        ["tables", place],
        ["sql", place, "-c", _SUCCESSES],
    )
    print(f"\nThe store is {place}. Worth trying next:")
    for words in next_steps:
        print(f"  {shlex.join([*_program(), *words])}")
    return 0


def _program() -> list[str]:
    """Return the words that start this program in a shell.

    They are ``lhaw-record`` if the shell finds this program under that name, otherwise the path of the script. If the
    program was not started as ``lhaw-record``, they are ``python -m lhaw_record``. Under uvx they are the uvx command,
    because only this process has the environment on its PATH.
    """
    if "UV" in os.environ and _UVX_FOLDER in Path(sys.prefix).parts:
        origin = importlib.metadata.distribution("lhaw-record").read_text("direct_url.json")
        return ["uvx", *(["--from", json.loads(origin)["url"]] if origin else []), "lhaw-record"]
    started = Path(sys.argv[0])
    if started.name != "lhaw-record":
        return [Path(sys.executable).name, "-m", "lhaw_record"]
    found = shutil.which("lhaw-record")
    if found is not None and Path(found).resolve() == started.resolve():
        return ["lhaw-record"]
    return [str(started)]


def _planned_study(path: Path) -> power_commands.PlannedStudy:
    """Return what an experiment file plans for the agent with the most trials under underspecified and ask_user."""
    from lhaw_record.runners.runs.planning.plan_table import typical_usd
    from lhaw_record.runners.runs.preparation import prepare
    from lhaw_record.runners.users.simulated_user.encoder import installed_encoder
    from lhaw_record.runners.users.simulated_user.matcher import judge_of

    prepared = prepare(path)
    plan, user = prepared.plan, prepared.experiment.user_simulator
    encoder = installed_encoder() if user.matcher == "encoder" else None
    compared: dict[str, list[PlannedTrial]] = {}
    for trial in plan.trials:
        if trial.condition in ("underspecified", "ask_user") and trial.variant is not None:
            compared.setdefault(trial.agent.name, []).append(trial)
    if not compared:
        raise ExperimentError(f"{path} plans no variants under underspecified or ask_user; leave the file out")
    trials = max(compared.values(), key=len)
    tasks = {trial.task.task_id for trial in trials}
    cells = {(trial.shown_variant, trial.condition) for trial in trials}
    return power_commands.PlannedStudy(
        tasks=len(tasks),
        variants=max(1, round(len({cell for cell, _ in cells}) / len(tasks))),
        trials=max(1, round(len(trials) / len(cells))),
        cost_usd_per_trial=typical_usd(trials[0].agent),
        user_judge=judge_of(encoder) if user.kind == "exact" else None,
    )


def _report(store: Path, experiment: str | None) -> bytes:
    """Build the HTML report page for the daemon, whose layer must not import analytics."""
    from lhaw_record.analytics.report import build

    return build(store, settings=[f"experiment={experiment}"] if experiment else []).html.encode()


def _attempt(store: Path, stream_id: str) -> bytes:
    """Read one attempt for the daemon's viewer, whose layer must not import analytics."""
    import msgspec

    from lhaw_record.analytics.report import attempt_data

    return msgspec.json.encode(attempt_data(store, stream_id))


def _attempt_page(store: Path, stream_id: str) -> str:
    """Build the page of one attempt for ``show``, whose layer must not import analytics."""
    from lhaw_record.analytics.report import attempt_page

    return attempt_page(store, stream_id)


def _reviewing(daemon: "Daemon") -> "AbstractAsyncContextManager[Extension]":
    """Open the review workbench for the daemon, whose layer must not import generators."""
    from lhaw_record.generators.reviewing.web import review_extension

    return review_extension(daemon)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code.

    Args:
        arguments: The command-line arguments. None means ``sys.argv``.
    """
    if arguments is None:
        tune_process()
    if "_ARGCOMPLETE" in os.environ:  # a shell requests completion
        import argcomplete

        argcomplete.autocomplete(build_parser())
    words = (sys.argv[1:] if arguments is None else arguments) or ["help"]
    options = build_parser(words[0]).parse_args(words)
    try:
        return int(options.function(opened(options)))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # otherwise Python reports the error again at exit
        return 0
    except Exception as error:
        told = _told(error)
        if told is None:
            raise
        print(f"lhaw-record: {told[0]}", file=sys.stderr)
        return told[1]


def _told(error: Exception) -> tuple[object, int] | None:
    """Return the message for the user and the exit code, or None if the error is a fault of this program."""
    if isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:  # of tasks that ran beside each other
        return _told(error.exceptions[0])
    if isinstance(error, OSError) and error.errno in NEXT_STEPS:
        return refusal(error), 1
    duckdb = sys.modules.get("duckdb")
    if duckdb and isinstance(error, duckdb.OperationalError):  # no memory, a full disk, a read error
        from lhaw_record.analytics.views.headers import failed_query

        return failed_query(error), 1
    exit_codes = ((DamagedStore, 3), (ExperimentError, 2), ((RecorderError, RunnerError, AnalyticsError), 1))
    return next(((error, exit_code) for kind, exit_code in exit_codes if isinstance(error, kind)), None)
