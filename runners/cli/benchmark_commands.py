"""The commands for one kind of benchmark or task: ``harbor``, ``mcp-atlas``, ``new-…``."""

import argparse
import shlex
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from lhaw_record.recorder.cli.arguments import FORMAT
from lhaw_record.recorder.cli.command import Command, argument, flag
from lhaw_record.recorder.cli.output import print_rows, say
from lhaw_record.runners.base.text.fields import listed

_MOST_NAMED = 5


def mcp_atlas_command(options: argparse.Namespace) -> int:
    """Print which MCP-Atlas rows can run on this machine. The exit code is 1 if one cannot."""
    from lhaw_record.runners.environments.benchmarks.mcp_atlas.preflight import PREFLIGHT_COLUMNS, preflight

    check = partial(preflight, own_servers=options.own_servers, has_network=options.network)
    rows = anyio.run(check, options.rows, options.data)
    print_rows(rows, PREFLIGHT_COLUMNS, options.format)
    return _summed({row["name"]: row["is_runnable"] for row in rows if row["kind"] == "row"}, "rows can run here")


def harbor_command(options: argparse.Namespace) -> int:
    """Print which Harbor tasks are fit to run on this machine. The exit code is 1 if one is not."""
    from lhaw_record.runners.environments.benchmarks.harbor.benchmark import open_harbor
    from lhaw_record.runners.environments.benchmarks.harbor.check import CHECK_COLUMNS, check
    from lhaw_record.runners.experiment.tables import GraderSpec

    keys = {"folder": str(options.folder), "network": options.network, "build_network": options.build_network}
    keys |= {"without_docker": options.without_docker, "without_services": options.without_services}
    benchmark = open_harbor(keys, Path(), GraderSpec())

    async def checked() -> list[dict[str, Any]]:
        return [row async for row in check(benchmark, say)]

    rows = anyio.run(checked)
    print_rows(rows, CHECK_COLUMNS, options.format)
    return _summed({row["task_id"]: row["is_fit"] for row in rows}, "tasks are fit")


def _summed(found: Mapping[str, bool], what: str) -> int:
    """Report how many pass, and name those that do not. Return exit code 1 if there are such."""
    others = [name for name, is_true in found.items() if not is_true]
    left = f"; the others: {listed(others, _MOST_NAMED)}" if others else ""
    say(f"{len(found) - len(others)} of {len(found)} {what}{left}")
    return 1 if others or not found else 0


def new_benchmark_command(options: argparse.Namespace) -> int:
    from lhaw_record.runners.environments.benchmarks.new_benchmark import write_benchmark

    folder = options.to or Path(options.name)
    write_benchmark(options.name, folder)
    named = shlex.quote(str(folder))
    say(
        f"{folder}: a working benchmark. Worth trying next:\n  pip install pytest && pip install -e {named}\n"
        f"  pytest {named}\n"
        f"  lhaw-record run {shlex.quote(str(folder / 'experiment.toml'))} --store stores/{options.name}"
    )
    return 0


def new_task_command(options: argparse.Namespace) -> int:
    """Write the folder of a new task, and say what to do next."""
    from lhaw_record.runners.environments.benchmarks.new_benchmark import write_task

    has_docker = not options.without_docker
    folder, experiment = write_task(options.name, options.image, has_docker=has_docker)
    say(
        f"{folder}: a working task. Worth trying next:\n"
        f"  lhaw-record harbor {folder}{'' if has_docker else ' --without-docker'}\n"
        f"  lhaw-record run {experiment} --store stores/{options.name}"
    )
    return 0


COMMANDS = (
    Command(
        name="harbor",
        help="check which Harbor tasks can run on this machine",
        description="Run the reference solution of each Harbor task, and an agent that does nothing, without any "
        "model. A task is fit if the solution gets full rewards and the idle agent does not. The exit code is 1 if a "
        "task is not fit.",
        example="harbor terminal-bench",
        arguments=(
            argument("folder", type=Path, help="the folder with the task folders, or one task folder"),
            argument(
                "--network", default="bridge", help="the engine's network for public tasks (default: %(default)s)"
            ),
            argument("--build-network", default="default", help="the network of builds (default: %(default)s)"),
            argument(
                "--without-services",
                nargs="+",
                default=[],
                metavar="NAME",
                help="services of the tasks' compose files to leave out",
            ),
            flag("--without-docker", "run in sandboxes with this machine's own programs, without the tasks' images"),
            FORMAT,
        ),
        function=harbor_command,
    ),
    Command(
        name="mcp-atlas",
        help="list the MCP-Atlas rows that can run on this machine",
        description="Print which rows of an MCP-Atlas file can run on this machine, and why others cannot. The exit "
        "code is 1 if a row cannot run.",
        example="mcp-atlas rows.csv --data data",
        arguments=(
            argument("rows", nargs="+", type=Path, help="row files as published (CSV or JSONL)"),
            argument("--data", type=Path, required=True, help="the folder that the servers see as /data"),
            argument("--own-servers", type=Path, metavar="FILE", help="a TOML file that names servers of your own"),
            flag("--network", "allow network access to servers that need it"),
            FORMAT,
        ),
        function=mcp_atlas_command,
    ),
    Command(
        name="new-benchmark",
        help="write a small working benchmark as a starting point for your own",
        description="Write a package with two tasks, their variants, a grader, tests that pass, and an experiment "
        "file. docs/own-tasks.md describes the protocol.",
        example="new-benchmark web_shop",
        arguments=(
            argument("name", help="lower-case letters, digits and single underscores; also the name of the package"),
            argument("--to", type=Path, metavar="FOLDER", help="the target folder (default: ./NAME)"),
        ),
        function=new_benchmark_command,
    ),
    Command(
        name="new-task",
        help="write a small working task as a starting point for your own",
        description="Write the folder of a task in Harbor's format, with a Dockerfile, tests, a solution and two "
        "variants, and an experiment file beside it.",
        example="new-task sort-guests",
        arguments=(
            argument("name", help="lower-case letters, digits and '-'; also the name of the folder"),
            argument("--image", default="debian:bookworm-slim", help="the base image (default: %(default)s)"),
            flag("--without-docker", "let the experiment run the task in a sandbox on this machine's own system"),
        ),
        function=new_task_command,
    ),
)
