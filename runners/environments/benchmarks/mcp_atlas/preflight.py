"""The preflight check: which rows can run on this machine, and what the installed servers answer when started."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.runners.base.errors import ExperimentError, ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.availability import (
    AtlasInstallation,
    availability,
    problems_of,
)
from lhaw_record.runners.environments.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import has_bubblewrap, private_copy
from lhaw_record.runners.environments.benchmarks.mcp_atlas.environment import server_plan
from lhaw_record.runners.environments.benchmarks.mcp_atlas.own_servers import read_own_servers, with_own
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import Row, read_rows
from lhaw_record.runners.environments.benchmarks.mcp_atlas.server import RunningServer, running_servers
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
    ServerCatalog,
    ServerSpec,
    catalog,
    credentials_of,
    installed_version,
    servers_directory,
)
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

_LIMITS = SandboxLimits(file_mb=64, command_seconds=30.0)


class ServerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One server that the rows enable: its columns, the enabled tools that it lacks, and its problem, if it has one."""

    columns: dict[str, Any]
    lacking_tools: tuple[str, ...] = ()
    problem: str = ""


PREFLIGHT_COLUMNS = ("kind", "name", "is_runnable", "reference", "variants", "claims", "tools", "details")


async def preflight(
    rows_paths: Sequence[Path],
    data: Path,
    servers: Path | None = None,
    *,
    own_servers: Path | None = None,
    has_network: bool = False,
) -> list[dict[str, Any]]:
    """Check rows against this machine. Every server that they enable is started once, if it can be."""
    rows = read_rows(rows_paths)
    known = with_own(catalog(), read_own_servers(own_servers) if own_servers else ())
    place = _place(data, servers, known, has_network=has_network)
    enabled: dict[str, set[str]] = {}
    for row in rows:
        for tool in row.enabled_tools:
            split = known.split(tool)
            if split:
                enabled.setdefault(split[0], set()).add(split[1])
    specs = [spec for name, spec in known.servers.items() if name in enabled]
    async with private_copy(place.data) as copy:
        checks = [await _check_server(spec, place, copy, enabled[spec.name]) for spec in specs]
    listed = {spec.name: check for spec, check in zip(specs, checks, strict=True)}
    return [*(_row_columns(row, place, listed) for row in rows), *(check.columns for check in checks)]


def _place(data: Path, servers: Path | None, known: ServerCatalog, *, has_network: bool) -> AtlasInstallation:
    if not data.is_dir():
        raise ExperimentError(f"{data} is not a folder; name the folder that servers see as /data")
    installed = servers or servers_directory()
    return AtlasInstallation(
        data=data.resolve(),
        servers=installed,
        has_network=has_network,
        is_confined=has_bubblewrap(),
        catalog=known,
    )


async def _check_server(spec: ServerSpec, place: AtlasInstallation, copy: Path, enabled: set[str]) -> ServerCheck:
    problems = [problem.removeprefix(f"server {spec.name} ") for problem in problems_of(spec.name, spec, place)]
    if problems:
        return _broken(spec, place, "; ".join(problems))
    plan = server_plan(spec, place.servers, copy, _LIMITS, is_confined=place.is_confined)
    async with running_servers([plan]) as (server,):
        try:
            server.check()
        except ToolBoundaryError as error:
            return _broken(spec, place, str(error))
        return _working(spec, place, server, enabled)


def _broken(spec: ServerSpec, place: AtlasInstallation, problem: str) -> ServerCheck:
    return ServerCheck(columns=_server_columns(spec, place, None, problem), problem=problem)


def _working(spec: ServerSpec, place: AtlasInstallation, server: RunningServer, enabled: set[str]) -> ServerCheck:
    names = {tool.name for tool in server.tools}
    lacking = tuple(sorted(enabled - names))
    said = f"says {server.info['name']} {server.info['version']}, protocol {server.info['protocol']}"
    said += f"; given {', '.join(credentials_of(spec))}" if credentials_of(spec) else ""
    said += f"; {server.noise_lines} lines of noise on standard output" if server.noise_lines else ""
    said += "".join(f"; no model can have {name}: {why}" for name, why in server.refused_tools.items())
    said += f"; enabled but not listed: {', '.join(lacking)}" if lacking else ""
    return ServerCheck(columns=_server_columns(spec, place, len(names), said), lacking_tools=lacking)


def _server_columns(spec: ServerSpec, place: AtlasInstallation, tools: int | None, said: str) -> dict[str, Any]:
    version = installed_version(spec, place.servers) or "absent"
    version += "" if version == spec.version else f" (pinned: {spec.version})"
    return {
        "kind": "server",
        "name": spec.name,
        "is_runnable": None,
        "tools": None if tools is None else str(tools),
        "details": f"{spec.package} {version}: {said}",
    }


def _row_columns(row: Row, place: AtlasInstallation, checks: dict[str, ServerCheck]) -> dict[str, Any]:
    found = availability(row, place)
    benchmark = McpAtlasBenchmark([row], place)
    reference = benchmark.reference(row.task_id)
    started = {spec.name: checks[spec.name] for spec in found.servers if spec.name in checks}
    broken = [f"server {each.columns['name']}: {each.problem}" for each in started.values() if each.problem]
    offered = [
        tool
        for tool in row.enabled_tools
        if (split := place.catalog.split(tool))
        and (check := started.get(split[0]))
        and split[1] not in check.lacking_tools
    ]
    return {
        "kind": "row",
        "name": row.task_id,
        "is_runnable": found.is_runnable and not broken,
        "reference": reference.origin if reference else "none",
        "variants": len(benchmark.variants()),
        "claims": len(row.claims),
        "tools": f"{len(offered)}/{len(row.enabled_tools)}",
        "details": "; ".join((*found.reasons, *broken)) or f"needs {', '.join(found.needed or ())}",
    }
