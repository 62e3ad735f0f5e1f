"""The command line of lhaw-record: assembles the commands of the layers and turns their errors into exit codes.

Exit codes: 0 done, 1 a finding or failed work, 2 usage, 3 damaged store, 130 interrupted.
"""

import argparse
import importlib.metadata
import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

import analytics.commands
import analytics.errors
import analytics.export_commands
import analytics.figure_commands
import generators.generate_commands
import generators.pipeline_commands
import generators.select_commands
import generators.task_commands
import generators.variants_commands
import recorder.commands
import recorder.synthetic.commands
import runners.benchmarks.new
import runners.commands
import runners.daemon.commands
import runners.external.commands
import runners.grade_commands
import runners.import_commands
import runners.judge_commands
from recorder.errors import DamagedStore, RecorderError
from recorder.no_pandas import refuse_pandas
from recorder.resources import experiment_path
from recorder.sharing.address import opened, place_of, store_address
from runners.errors import ExperimentError, RunnerError

_SUCCESSES = (
    "select agent, condition, count(*) as trials, avg(is_success::int) as success, avg(action_count) as actions "
    "from trials group by all order by all"
)
"""A question to the demo's store, to begin from."""


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the whole program; the reference page is generated from it."""
    parser = argparse.ArgumentParser(
        prog="lhaw-record",
        description="Record what agents do with underspecified tasks, and measure it.",
        epilog="example: lhaw-record demo",
    )
    parser.add_argument("--version", action="version", version=importlib.metadata.version("lhaw-record"))
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    _add_demo(commands)
    runners.commands.add_commands(commands)
    runners.external.commands.add_commands(commands)
    runners.daemon.commands.add_commands(commands, _report)
    runners.benchmarks.new.add_commands(commands)
    runners.import_commands.add_commands(commands)
    runners.judge_commands.add_commands(commands)
    runners.grade_commands.add_commands(commands)
    generators.task_commands.add_commands(commands)
    generators.generate_commands.add_commands(commands)
    generators.variants_commands.add_commands(commands)
    generators.select_commands.add_commands(commands)
    generators.pipeline_commands.add_commands(commands)
    analytics.commands.add_commands(commands)
    analytics.figure_commands.add_commands(commands)
    analytics.export_commands.add_commands(commands)
    recorder.commands.add_commands(commands)
    recorder.synthetic.commands.add_commands(commands)
    return parser


def _add_demo(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    demo = commands.add_parser(
        "demo",
        help="run the bundled experiment on scripted models and print the main tables",
        description="Run the bundled experiment: 228 trials of scripted models on office tasks, about a minute on two "
        "cores; no key, no network, no Docker. Then print the main tables. What is finished is not run again.",
        epilog="example: lhaw-record demo --store stores/demo",
    )
    demo.add_argument(
        "--store", type=store_address, default=Path("stores/demo"), help="where events go (default: %(default)s)"
    )
    demo.set_defaults(function=_demo)


def _demo(options: argparse.Namespace) -> int:
    """Run the bundled experiment, print the main tables and say what to look at next."""
    for words in (["run", str(experiment_path("demo.toml"))], ["tables", str(options.store), "--main"]):
        step = build_parser().parse_args(words)
        step.store = options.store
        exit_code = int(step.function(step))
        if exit_code:
            return exit_code
    place = place_of(options.store)
    next_steps = (
        ["tables", place, "wasted", "natural_ask"],
        ["sql", place, "-c", _SUCCESSES],
        ["log", "tail", place, "-n", "20"],
    )
    print(f"\nThe store is {place}. Worth trying next:")
    for words in next_steps:
        print(f"  {shlex.join([*_program(), *words])}")
    return 0


def _program() -> list[str]:
    """The words that start this program from where the user is: its name where the shell finds it, else its path."""
    started = Path(sys.argv[0])
    if started.name != "lhaw-record":
        return [Path(sys.executable).name, "-m", "lhaw_record"]
    found = shutil.which("lhaw-record")
    if found is not None and Path(found).resolve() == started.resolve():
        return ["lhaw-record"]
    return [str(started)]


def _report(store: Path, experiment: str | None) -> bytes:
    """Make the page about a store or an experiment, for the daemon: its layer does not know the one that can."""
    from analytics.report import build

    return build(store, settings=[f"experiment={experiment}"] if experiment else []).html.encode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program and return its exit code; without arguments the process is the program's own."""
    if arguments is None:
        refuse_pandas()
    options = build_parser().parse_args(arguments)
    try:
        return int(options.function(opened(options)))
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # else Python complains once more at exit
        return 0
    except DamagedStore as error:
        return _complain(error, 3)
    except ExperimentError as error:
        return _complain(error, 2)
    except (RecorderError, RunnerError, analytics.errors.AnalyticsError) as error:
        return _complain(error, 1)


def _complain(error: Exception, exit_code: int) -> int:
    print(f"lhaw-record: {error}", file=sys.stderr)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
