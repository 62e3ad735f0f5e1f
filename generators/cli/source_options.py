"""The options that name a source of tasks, shared by every command that takes tasks."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lhaw_record.recorder.cli.command import ArgumentGroup, argument, repeatable
from lhaw_record.runners.base.errors import ExperimentError

if TYPE_CHECKING:
    from lhaw_record.generators.sources.task_checks import CheckedSource

SOURCES = ("desk", "harbor", "mcp_atlas", "tac", "swebench_pro", "own", "experiment")
_TAKES = {
    "desk": (),
    "harbor": ("--from",),
    "mcp_atlas": ("--from", "--data", "--own-servers"),
    "tac": ("--from",),
    "swebench_pro": ("--from",),
    "own": ("--from", "--benchmark"),
    "experiment": ("--from",),
}
_WHAT = {
    "harbor": "a folder of task folders in Harbor's format",
    "mcp_atlas": "a rows file as published (CSV or JSON Lines)",
    "tac": "a folder of published task folders",
    "swebench_pro": "a file of published instances (JSON Lines, JSON, CSV or Parquet)",
    "own": "your folder or JSON Lines file of tasks (docs/own-tasks.md)",
    "experiment": "an experiment file; its benchmark's tasks are used, also those of an installed package",
}


SOURCE_ARGUMENTS = (
    argument("source", choices=SOURCES, help="where the tasks come from"),
    ArgumentGroup(
        "the source",
        (
            repeatable(
                "--from",
                "PATH",
                "files of mcp_atlas or swebench_pro, folders of harbor or tac (may be repeated), "
                "or the path of another source",
                dest="source_paths",
                type=Path,
            ),
            argument(
                "--data",
                dest="source_data",
                type=Path,
                metavar="DIR",
                help="mcp_atlas: the folder that servers see as /data",
            ),
            argument(
                "--own-servers",
                dest="source_own_servers",
                type=Path,
                metavar="FILE",
                help="mcp_atlas: a TOML file that names servers of your own",
            ),
            argument(
                "--benchmark",
                dest="source_benchmark",
                metavar="NAME",
                help="own: the benchmark's name (default: the folder's or file's name)",
            ),
        ),
    ),
)


def source_of(options: argparse.Namespace) -> "CheckedSource":
    """Return the source that the options name."""
    name: str = options.source
    paths: list[Path] = options.source_paths
    _check_arguments(options)
    _check_paths(name, paths)
    if name == "desk":
        from lhaw_record.generators.sources.desk import DeskSource

        return DeskSource()
    if name == "harbor":
        from lhaw_record.generators.sources.published import HarborSource

        return HarborSource(paths)
    if name == "mcp_atlas":
        from lhaw_record.generators.sources.mcp_atlas import McpAtlasSource

        return McpAtlasSource(paths, options.source_data, options.source_own_servers)
    if name == "tac":
        from lhaw_record.generators.sources.published import TacSource

        return TacSource(paths)
    if name == "swebench_pro":
        from lhaw_record.generators.sources.published import SwebenchProSource

        return SwebenchProSource(paths)
    if name == "experiment":
        from lhaw_record.generators.sources.experiment import ExperimentSource

        return ExperimentSource(paths[0])
    return _own(paths[0], options.source_benchmark)


def _own(path: Path, given: str | None) -> "CheckedSource":
    from lhaw_record.generators.sources.own import OwnSource, default_name, name_problem

    benchmark = given or default_name(path)
    problem = name_problem(benchmark)
    if problem is not None:
        raise ExperimentError(f"source own: {problem}; name your benchmark with --benchmark NAME")
    return OwnSource(path, benchmark)


def _check_arguments(options: argparse.Namespace) -> None:
    name: str = options.source
    given = {
        "--from": options.source_paths,
        "--data": options.source_data,
        "--own-servers": options.source_own_servers,
        "--benchmark": options.source_benchmark,
    }
    for option, value in given.items():
        if value and option not in _TAKES[name]:
            takers = ", ".join(source for source, taken in _TAKES.items() if option in taken)
            raise ExperimentError(f"source {name} takes no {option}, which is for {takers}; leave it out")
    if "--from" in _TAKES[name] and not options.source_paths:
        raise ExperimentError(f"source {name} needs --from PATH: {_WHAT[name]}")
    if options.source_data is not None and not options.source_data.is_dir():
        raise ExperimentError(
            f"--data {options.source_data} is not a folder; name the folder that servers see as /data"
        )


def _check_paths(name: str, paths: Sequence[Path]) -> None:
    for path in paths:
        if not path.exists():
            raise ExperimentError(f"--from {path}: nothing is there; name {_WHAT[name]}")
        if name in ("harbor", "tac") and not path.is_dir():
            raise ExperimentError(f"--from {path} is not a folder; name {_WHAT[name]}")
        if name in ("mcp_atlas", "swebench_pro", "experiment") and not path.is_file():
            raise ExperimentError(f"--from {path} is not a file; name {_WHAT[name]}")
    if name in ("own", "experiment") and len(paths) > 1:
        raise ExperimentError(f"source {name} takes one --from, not {len(paths)}: {_WHAT[name]}")
