"""The commands of external agents: ``agents`` lists and installs ready-made ones, ``wrap`` runs any program once."""

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import anyio
import msgspec

from lhaw_record.recorder.cli.arguments import FORMAT, store_option
from lhaw_record.recorder.cli.command import Command, CommandGroup, argument, flag, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.events import TrialStarted
from lhaw_record.recorder.sharing.address import store_name
from lhaw_record.recorder.storage.store import Store
from lhaw_record.runners.base.errors import ExperimentError

_COLUMNS = ("name", "wire", "host", "asks_by", "installed", "packages", "about")
_INSTALLED_COLUMNS = ("name", "digest", "state", "entry", "packages", "folder")


def list_command(options: argparse.Namespace) -> int:
    from lhaw_record.runners.agents.programs.entries import entry_paths, load_entry
    from lhaw_record.runners.agents.programs.installation import is_installed

    if options.installed:
        print_rows(_installed_rows(), _INSTALLED_COLUMNS, options.format)
        return 0
    rows: list[dict[str, Any]] = []
    for name in entry_paths():
        spec = load_entry(name, Path())
        packages = " ".join((*spec.install.pip, *spec.install.npm))
        row = {"name": name, "wire": spec.wire, "host": spec.host, "asks_by": spec.asks_by, "about": spec.about}
        rows.append({**row, "installed": is_installed(spec), "packages": packages})
    print_rows(rows, _COLUMNS, options.format)
    return 0


def _installed_rows() -> list[dict[str, Any]]:
    """Return a row for each installation folder: what it holds, and whether it still matches its entry."""
    from lhaw_record.runners.agents.programs.entries import load_entry
    from lhaw_record.runners.agents.programs.installation import install_folder, installations

    rows: list[dict[str, Any]] = []
    for folder, found in installations().items():
        row: dict[str, Any] = {"name": folder.name, "state": "made by an earlier version, not used", "folder": folder}
        if found is not None:
            name, _, digits = folder.name.rpartition("-")
            try:
                spec = load_entry(found.entry, Path())
                is_current = spec.install_digest is not None and install_folder(spec) == folder
                state = "current" if is_current else "earlier"
            except ExperimentError:
                state = "its entry cannot be read"
            packages = " ".join((*found.install.pip, *found.install.npm, found.install.script)).strip()
            row |= {"name": name, "digest": digits, "state": state, "entry": found.entry, "packages": packages}
        rows.append(row)
    return rows


def install_command(options: argparse.Namespace) -> int:
    from lhaw_record.runners.agents.programs.entries import entry_path, load_entry, resolved
    from lhaw_record.runners.agents.programs.installation import install_entry

    failed = []
    for named in options.entries:
        try:
            install_entry(load_entry(named, Path()), entry_path(named, Path()), say)
            say(f"installed: {resolved(named, Path()).title}")
        except ExperimentError as error:
            failed.append(str(error))
    if failed:
        raise ExperimentError("\n".join(failed))
    return 0


def test_command(options: argparse.Namespace) -> int:
    """Run one trial of an entry in a temporary store, and print all that was seen of the trial.

    The exit code is 0 if the trial was graded, 1 if not, 130 if interrupted.
    """
    from lhaw_record.recorder.reading.reader import read_envelopes
    from lhaw_record.runners.agents.programs.entries import entry_path, load_entry
    from lhaw_record.runners.agents.programs.installation import install_entry, is_installed
    from lhaw_record.runners.base.host.scratch import scratch_folder
    from lhaw_record.runners.cli.attempt_details import print_test
    from lhaw_record.runners.runs.live_progress import RunProgress
    from lhaw_record.runners.runs.run import run_experiment
    from lhaw_record.runners.runs.single_trials import planned_test

    spec = load_entry(options.entry, Path())
    if not is_installed(spec):
        install_entry(spec, entry_path(options.entry, Path()), say)
    by_default = ("ask_user", "full") if spec.asks_by != "none" else ("full",)
    conditions = (options.condition,) if options.condition else by_default
    prepared = planned_test(options.entry, options.model, conditions, options.experiment)
    with scratch_folder() as folder:
        with RunProgress(sys.stderr) as progress:
            summary = anyio.run(run_experiment, prepared, folder / "store", progress.reporter())
        events = [
            envelope.event
            for envelope in read_envelopes(folder / "store")
            if envelope.trial_id == prepared.plan.trials[0].trial_id
        ]
        if not any(isinstance(event, TrialStarted) for event in events):
            say("no trial was started")
            return 1
        is_valid = print_test(Store(folder / "store"), events, sys.stdout)
    return 130 if summary.outcome == "interrupted" else int(not is_valid)


def show_command(options: argparse.Namespace) -> int:
    from lhaw_record.runners.agents.programs.entries import entry_path, resolved
    from lhaw_record.runners.experiment.decoding import read_program

    path = entry_path(options.entry, Path())
    read_program(path)
    sys.stdout.write(path.read_text(encoding="utf-8"))
    try:
        say(f"{path}: {resolved(options.entry, Path()).title}")
    except ExperimentError as error:
        say(f"{path}: {error}")
    return 0


def wrap_command(options: argparse.Namespace) -> int:
    """Run one trial with a program as the agent.

    The exit code is 0 if the trial was recorded and graded, 1 if the infrastructure failed, 130 if interrupted.
    """
    from lhaw_record.runners.runs.live_progress import RunProgress
    from lhaw_record.runners.runs.preparation import redactor_of
    from lhaw_record.runners.runs.run import run_experiment
    from lhaw_record.runners.runs.single_trials import WrapOptions, next_trial, unseen_files

    wrapped = WrapOptions(
        task=options.task,
        variant=options.variant,
        condition=options.condition,
        model=options.model,
        name=options.name,
        environment=options.env,
        mounts=options.mount,
        answer=options.answer,
        is_unisolated=options.unisolated,
        threads=options.thread,
        command=options.command,
    )
    prepared = next_trial(wrapped, options.store)
    kinds: list[str] = []
    with RunProgress(sys.stderr) as progress:

        def sandbox(kind: str) -> None:
            kinds.append(kind)
            progress.sandbox(f"{kind}: the program is not isolated from this machine" if kind == "process" else kind)

        reporter = msgspec.structs.replace(progress.reporter(), sandbox=sandbox)
        try:
            summary = anyio.run(run_experiment, prepared, options.store, reporter)
        except ExperimentError as error:
            if kinds or options.unisolated or "without isolation" not in str(error):
                raise
            raise ExperimentError(
                f"{error}; or, if this machine may be harmed, add --unisolated: the program then runs as an ordinary "
                f"process with your rights"
            ) from error
    for outcome in summary.failures:
        assert outcome.failure is not None
        message = redactor_of(prepared).clean_text(outcome.failure.message)  # a program may print its environment
        say(f"failed at {outcome.failure.boundary} ({outcome.failure.error_kind}): {message}")
        for path in (
            unseen_files(wrapped) if outcome.failure.boundary == "sandbox" and kinds[-1:] != ["process"] else ()
        ):
            say(f"the sandbox lacks {path}: if the program needs it, write this full path and add --mount {path}")
    if summary.left:
        return 130 if summary.outcome == "interrupted" else 1
    stream = f"{prepared.plan.trials[-1].trial_id}-1"
    say(f"recorded; look at it with:\n  lhaw-record show {shlex.quote(store_name(options.store))} {stream}")
    return 0


_ENTRY = "a name, or the path of an entry's TOML file"

COMMANDS = (
    CommandGroup(
        name="agents",
        help="list, install, test and show programs that can be agents",
        description="List the ready-made programs that can be agents, install their packages, test or show an entry.",
        example="agents install mini-swe-agent",
        commands=(
            Command(
                name="list",
                help="list the ready-made entries",
                example="agents list",
                arguments=(
                    FORMAT,
                    flag(
                        "--installed",
                        "list installations instead, including those of your own entries and of earlier versions; a "
                        "folder that no run uses can be removed",
                    ),
                ),
                function=list_command,
            ),
            Command(
                name="install",
                help="install the pinned packages of entries",
                example="agents install codex opencode",
                arguments=(argument("entries", nargs="+", metavar="ENTRY", help=_ENTRY),),
                function=install_command,
            ),
            Command(
                name="test",
                help="run one trial of an entry and print everything that was recorded",
                description=(
                    "Install an entry if it has changed, run one trial of it, and print every model call (with its "
                    "kind and the reason), the counted actions, the questions, the output of the program (of a "
                    "stream above 64 KB, both ends), and the grade. The trial is not kept."
                ),
                example="agents test my-agent.toml",
                arguments=(
                    argument("entry", metavar="ENTRY", help=_ENTRY),
                    argument("--model", default="scripted/balanced", help="default: %(default)s"),
                    argument(
                        "--condition",
                        choices=("full", "underspecified", "ask_user"),
                        help="default: ask_user if the entry can ask and the task has a variant, else full",
                    ),
                    argument(
                        "--experiment",
                        type=Path,
                        metavar="FILE",
                        help="use the first trial of this file, with its benchmark, sandbox and limits, instead of a "
                        "desk task",
                    ),
                ),
                function=test_command,
            ),
            Command(
                name="show",
                help="print an entry and its installed version",
                example="agents show codex",
                arguments=(argument("entry", metavar="ENTRY", help=_ENTRY),),
                function=show_command,
            ),
        ),
    ),
    Command(
        name="wrap",
        help="run any program as the agent of one trial",
        description=(
            "Run a program as the agent of one trial, recorded and graded. The command may contain the placeholders "
            "{prompt}, {prompt_file}, {base_url}, {base_url_v1}, {token}, {model}, {mcp_config}, {mcp_url} and {home}; "
            "without {prompt} and {prompt_file} the prompt is on standard input. OPENAI_BASE_URL, OPENAI_API_KEY, "
            "ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY are set. The example needs pip install mini-swe-agent mcp."
        ),
        example=(
            "wrap --task desk/log-triage --model scripted/balanced --store stores/wrap --env MSWEA_CONFIGURED=true "
            "--env MSWEA_COST_TRACKING=ignore_errors -- mini --yolo --exit-immediately --cost-limit 0 "
            "--model openai/{model} --task {prompt}"
        ),
        arguments=(
            argument("--task", required=True, metavar="BENCHMARK/TASK", help="for example desk/log-triage"),
            argument("--variant", help="a variant of the task, for every condition except full"),
            argument("--condition", help="default: full; with --variant, underspecified"),
            argument("--model", required=True, help="the model that receives the program's calls"),
            store_option("the store: a directory or a shared address"),
            argument("--name", help="the agent's name in the store (default: the program's)"),
            repeatable("--env", "NAME=VALUE", "an environment variable for the program; may be repeated"),
            repeatable("--mount", "PATH", "a path that the program may read; may be repeated"),
            argument(
                "--answer", default="last_message", help="last_message, stdout or file:PATH (default: %(default)s)"
            ),
            repeatable("--thread", "KEY=VALUE", "a declaration of threads: main, side, thread, step or sub_agents"),
            flag("--unisolated", "if no sandbox is available, run the program as a plain process"),
            argument("command", nargs="+", metavar="COMMAND", help="the program and its arguments, after --"),
        ),
        function=wrap_command,
    ),
)
