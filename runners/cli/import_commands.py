"""The command ``import``: converts results and datasets of other programs into events of a store."""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from lhaw_record.recorder.cli import transfer_commands
from lhaw_record.recorder.cli.arguments import FORMAT, TARGET_STORE
from lhaw_record.recorder.cli.command import Argument, Command, CommandGroup, argument, clear_errors, flag, repeatable
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.recorder.events.values import CONDITIONS, CONTROL_CONDITIONS, FAULTY_CONDITIONS
from lhaw_record.recorder.sharing.address import store_name

if TYPE_CHECKING:
    from lhaw_record.runners.imports import Import

COLUMNS = ("file", "what", "kind", "count", "reason")
_HELP = {
    "results": "a CSV file of any program: one row per trial, with task, arm, agent and success",
    "ambig-swe": "the files of the study Ambig-SWE",
    "lhaw-dataset": "the published dataset: tasks and labelled variants",
    "ask-early-trials": "trial JSON of the timing paper",
    "tac-evals": "eval_*.json of TheAgentCompany",
    "swebench-pro-results": "eval_results.json of SWE-bench Pro",
    "mcp-atlas-scores": "scored_*.csv of MCP-Atlas",
    "mcp-atlas-references": "rows of MCP-Atlas with their reference trajectories",
    "inspect-eval": ".eval logs of inspect_ai",
    "harbor-job": "folders of Harbor jobs and trials",
    "atif": "trajectories in Harbor's interchange format",
    "openhands": "event lists of OpenHands",
    "mini-swe-agent": "trajectory files of mini-swe-agent",
    "swe-agent": "trajectory files of SWE-agent",
    "tau-bench": "runs of tau-bench and tau2-bench, with their simulated user's answers",
    "claude-code": "sessions of Claude Code, such as those in ~/.claude/projects",
    "codex": "sessions of Codex, such as those in ~/.codex/sessions",
    "openai-messages": "conversations as chat messages",
    "installed": "a format that an installed package adds",
}
_OURS_TOO = ("inspect-eval", "harbor-job", "atif")
"""The formats that ``export`` writes with the store's events beside them."""
_SHOWN = {"installed": "installed my-format"}
_SESSIONS = ("claude-code", "codex")
_BARE = ("atif", "openhands", "mini-swe-agent", "swe-agent", "tau-bench", "openai-messages", *_SESSIONS, "installed")
_WITH_CONDITION = ("results", "tac-evals", "mcp-atlas-scores", "inspect-eval", "harbor-job", *_BARE)
_WITH_INDEX = ("swebench-pro-results", "mcp-atlas-references", *_WITH_CONDITION)


def import_command(source_format: str, options: argparse.Namespace) -> int:
    from lhaw_record.runners.imports import FORMATS, Options, installed_format, run_import
    from lhaw_record.runners.imports.source_files import read_instances, read_rewards

    given = {name: value for name in Options.__struct_fields__ if (value := getattr(options, name, None)) is not None}
    for key, read in (("instances", read_instances), ("rewards", read_rewards)):
        if key in given:
            given[key] = read(given[key])
    given |= {key: dict(given[key]) or None for key in ("columns", "arms") if key in given}
    name = options.name if source_format == "installed" else source_format
    with clear_errors("import into", options.store):
        is_ours_too = source_format in _OURS_TOO
        events = _events_beside(options, FORMATS[name].patterns, given) if is_ours_too else None
    if events is not None:
        no_limits = {f"max_{limit}": None for limit in transfer_commands.LIMITS}
        return transfer_commands.import_command(argparse.Namespace(**vars(options), source=events, **no_limits))
    experiment_id = options.experiment or f"imported-{name}"
    with clear_errors("import into", options.store):
        done = run_import(
            installed_format(name) if source_format == "installed" else FORMATS[name],
            options.path,
            options.store,
            experiment_id=experiment_id,
            options=Options(**given),
            is_dry_run=options.dry_run,
        )
    print_rows(list(_rows(done)), COLUMNS, options.format)
    _conclude(done, options, experiment_id)
    return 1 if done.refused else 0


def _events_beside(options: argparse.Namespace, patterns: Sequence[str], given: Mapping[str, object]) -> Path | None:
    """Return the store's events beside the files that ``export`` wrote, unless an option says how to read the files.

    If one of the files has changed since, the files are read, because the events no longer match them.
    """
    from lhaw_record.recorder.transfer.export import events_name
    from lhaw_record.runners.imports.source_files import read_sources

    folder: Path = options.path
    there = sorted(folder.glob("events-*.jsonl.zst")) if folder.is_dir() else []
    if not there:
        return None
    if options.experiment or given != {"trial_index": 0}:
        say(
            f"{there[0].name}, the store's own events, is not read, because options say how to read the files beside it"
        )
        return None
    named = folder / events_name(each.content for each in read_sources(folder, patterns))
    if named not in there:
        say(f"{there[0].name} is not read: files beside it have changed, or one is missing or new")
        return None
    say(f"{named.name} has the events of the store that was exported; they are read instead of the files beside it")
    return named


def _rows(done: "Import") -> list[dict[str, object]]:
    """Return a row for everything that was understood or skipped and for every remark, file by file."""
    rows: list[dict[str, object]] = []
    for name, file in zip(done.labels, done.files, strict=True):
        rows += [{"file": name, "what": "understood", "kind": e.kind, "count": e.count} for e in file.understood]
        rows += [
            {"file": name, "what": "skipped", "kind": e.kind, "count": e.count, "reason": e.reason}
            for e in file.skipped
        ]
        rows += [{"file": name, "what": "remark", "reason": each} for each in file.remarks]
    rows += [{"what": "skipped", "kind": e.kind, "count": e.count, "reason": e.reason} for e in done.skipped]
    return rows


def _conclude(done: "Import", options: argparse.Namespace, experiment_id: str) -> None:
    place = store_name(options.store)
    if done.is_known:
        text = f"{place}: {options.path} was imported before; nothing was added"
    else:
        verb = "would be added" if options.dry_run else "added"
        text = f"{place}: {done.trials} trials and {done.events} events {verb} as experiment {experiment_id}"
        text += f"; {done.already} trials were there already" if done.already else ""
    if done.refused:
        text += f". Refused above: {done.refused} of {len(done.files)} files; correct or remove them, and import again"
    say(text)


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    if not (name and value):
        raise ValueError("expected NAME=VALUE")
    return name, value


def _reward(text: str) -> float:
    reward = float(text)
    if not 0 <= reward <= 1:
        raise ValueError("a reward is from 0 to 1")
    return reward


def _arguments(name: str) -> Iterator[Argument]:
    if name == "installed":
        yield argument("name", help="the format's name, as the package registers it")
    yield argument("path", type=Path, help="a file, or a folder of such files")
    yield TARGET_STORE
    yield argument("--experiment", help=f"the experiment of the events (default: imported-{_named(name)})")
    if name != "lhaw-dataset":
        yield argument("--agent", metavar="NAME", help="the agent's name, instead of that in the file")
    if name in _WITH_CONDITION:
        imported = [each for each in CONDITIONS if each not in (*CONTROL_CONDITIONS, *FAULTY_CONDITIONS)]
        known = [
            each
            for each in imported
            if (name != "tac-evals" or each.startswith("full"))
            and (name not in ("harbor-job", *_BARE) or not each.startswith("inject"))
        ]
        condition = "the condition of trials whose file does not name it (default: full)"
        yield argument("--condition", choices=known, help=condition)
    if name in _WITH_INDEX:
        index = "the number of this repetition, from 0 (default: 0)"
        yield argument("--trial-index", type=int, default=0, metavar="N", help=index)
    if name == "results":
        yield repeatable(
            "--column", "NAME=COLUMN", "the file's name for a column (docs/imports.md)", dest="columns", type=_pair
        )
        yield repeatable("--arm", "NAME=CONDITION", "the file's name for a condition", dest="arms", type=_pair)
        yield argument("--benchmark", metavar="NAME", help="the benchmark of the tasks (default: results)")
    if name == "swebench-pro-results":
        yield argument("--instances", type=Path, metavar="FILE", help="instances with their tests (.jsonl, .gz)")
    if name in (*_BARE, "mcp-atlas-references"):
        yield argument("--reward", type=_reward, metavar="N", help="the reward of every trajectory, from 0 to 1")
    if name in _BARE:
        variant = "the store's variant whose prompt the agent was given; needs --condition"
        rewards = "a JSON file with the reward of each file, from 0 to 1, by its name"
        yield argument("--benchmark", metavar="NAME", help=f"the benchmark of the task (default: {_named(name)})")
        yield argument(
            "--task",
            metavar="ID",
            help="the id of the task; {file} stands for the file's name (default: from the prompt)",
        )
        yield argument("--variant", metavar="ID", help=variant)
        yield argument("--rewards", type=Path, metavar="FILE", help=rewards)
    if name in _SESSIONS:
        yield flag("--hide-paths", "replace the names of home folders by user, wherever they occur")
    yield flag("--dry-run", "only read and compare; print what would be imported")
    yield FORMAT


def _named(name: str) -> str:
    return "NAME" if name == "installed" else name


COMMANDS = (
    CommandGroup(
        name="import",
        help="import results and datasets from other programs",
        description="Import results and datasets of other programs into a store; docs/imports.md describes the "
        "formats. A file is imported as a whole or not at all. A refused file in a folder is named, and the exit "
        "code is 1. Importing a file again adds nothing.",
        metavar="FORMAT",
        commands=tuple(
            Command(
                name=name,
                help=text,
                description=f"Import {text}.",
                example=f"import {_SHOWN.get(name, name)} results --store stores/all --dry-run",
                arguments=tuple(_arguments(name)),
                function=partial(import_command, name),
            )
            for name, text in _HELP.items()
        ),
    ),
)
