"""Install the MCP servers from their packages.

    python -m lhaw_record.runners.environments.benchmarks.mcp_atlas.install [--all]

Python servers that need the same version of the protocol library share a virtual environment. npm servers share one
prefix. Every step first checks what is installed, so a second run does nothing, and a run after an interruption
continues.
"""

import argparse
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from lhaw_record.recorder.cli.output import say
from lhaw_record.recorder.errors import RecorderError
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.base.host.packages import install_npm, install_python, named_by
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
    COMPLETE_MARK,
    SERVERS_VARIABLE,
    ServerSpec,
    catalog,
    distribution_version,
    environment_python,
    installed_version,
    npm_package,
    servers_directory,
)

Say = Callable[[str], None]


def install_servers(names: Sequence[str], directory: Path, say: Say) -> dict[str, str]:
    """Install the named servers into ``directory``, except those whose pinned version is already installed.

    Packages are installed together. If that fails, they are installed one by one, so that one unavailable package does
    not affect the others.
    """
    known = catalog().servers
    for name in names:
        if name not in known:
            raise ExperimentError(f"unknown MCP server {name!r}; known: {', '.join(known)}")
    specs = [known[name] for name in dict.fromkeys(names)]
    missing = [spec for spec in specs if installed_version(spec, directory) != spec.version]
    for spec in specs:
        if spec not in missing:
            say(f"{spec.name}: {spec.package} {spec.version} is installed")
    failed: dict[str, str] = {}
    with named_by(SERVERS_VARIABLE):
        directory.mkdir(parents=True, exist_ok=True)
        for environment in dict.fromkeys(spec.environment for spec in missing if spec.environment):
            own = [spec for spec in missing if spec.environment == environment]
            failed |= _separately(own, partial(_install_python, environment, directory, say))
        failed |= _separately([spec for spec in missing if spec.kind == "npm"], partial(_install_npm, directory, say))
    for spec in missing:
        found = installed_version(spec, directory)
        if found != spec.version and spec.name not in failed:
            failed[spec.name] = f"{spec.package}: wanted {spec.version}, found {found} in {directory}"
    return failed


def _separately(specs: list[ServerSpec], install: Callable[[list[ServerSpec]], None]) -> dict[str, str]:
    """Install servers together, or one by one if that fails.

    Return the reason for each final failure by server name.
    """
    if not specs:
        return {}
    try:
        install(specs)
    except ExperimentError as error:
        if len(specs) == 1:
            return {specs[0].name: str(error)}
        return {name: why for spec in specs for name, why in _separately([spec], install).items()}
    return {}


def _install_python(environment: str, directory: Path, say: Say, specs: list[ServerSpec]) -> None:
    python = environment_python(specs[0], directory)
    root = python.parent.parent
    was_complete = (root / COMPLETE_MARK).is_file()
    (root / COMPLETE_MARK).unlink(missing_ok=True)
    requirements = [
        *catalog().environments[environment].requirements,
        *(f"{spec.package}=={spec.version}" for spec in specs if spec.kind == "pip"),
    ]
    say(f"{root.name}: {' '.join(requirements)}")
    # An interrupted creation leaves a folder without a working pip; starting over is cheaper than repairing it.
    try:
        install_python(root, requirements, is_new=distribution_version(python, "mcp") is None)
    except ExperimentError:
        if was_complete:  # an unavailable package does not change what is installed
            (root / COMPLETE_MARK).touch()
        raise
    (root / COMPLETE_MARK).touch()


def _install_npm(directory: Path, say: Say, specs: list[ServerSpec]) -> None:
    prefix = directory / "npm"
    # npm names every package of the prefix, or it would prune the ones installed before.
    present = [
        spec for spec in catalog().servers.values() if spec.kind == "npm" and npm_package(spec, directory).exists()
    ]
    wanted = {spec.package: spec.version for spec in (*present, *specs)}
    say(f"npm: {' '.join(f'{package}@{version}' for package, version in wanted.items())}")
    install_npm(prefix, [f"{package}@{version}" for package, version in wanted.items()])


def main(arguments: Sequence[str] | None = None) -> int:
    """Install the servers named on the command line. Return 1 if a named or a default server failed, otherwise 0."""
    parser = argparse.ArgumentParser(prog="mcp-servers", description="Install MCP servers for the mcp_atlas benchmark.")
    parser.add_argument("servers", nargs="*", help="server names; default: the ones that the live tasks need")
    parser.add_argument("--all", action="store_true", help="every server of the catalog that needs no network")
    parser.add_argument("--directory", type=Path, default=None, help="the folder (default: see the documentation)")
    parsed = parser.parse_args(arguments)
    known = catalog().servers
    offline = [name for name, spec in known.items() if not spec.needs_network]
    core = [name for name, spec in known.items() if spec.is_core]
    names = [*(offline if parsed.all else ()), *parsed.servers] or core
    try:
        directory = parsed.directory.resolve() if parsed.directory else servers_directory()
        failed = install_servers(names, directory, say)
    except (ExperimentError, RecorderError) as error:
        say(f"error: {error}")
        return 1
    for name, why in failed.items():
        say(f"not installed: {name}: {why}")
    print(directory)  # noqa: T201
    return 1 if failed.keys() & {*core, *parsed.servers} else 0


if __name__ == "__main__":
    sys.exit(main())
