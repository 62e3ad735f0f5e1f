"""The preflight check: which rows can run on this machine, and what the installed servers answer when started."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lhaw_record.runners.base.errors import ExperimentError, ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.availability import Place, availability, problems_of
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

_FILE_MB = 64
_CALL_SECONDS = 30.0


class RowCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One row: whether it can run and why not, the origin of its reference (published, own or None), and its tools."""

    task_id: str
    source: str
    is_runnable: bool
    reasons: tuple[str, ...]
    needed_servers: tuple[str, ...] | None
    stand_ins: tuple[str, ...]
    reference: str | None
    variants: int
    claims: int
    enabled_tools: int
    offered_tools: int


class ServerCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One server that the rows enable: its package, its self-description, and the enabled tools that it lacks."""

    server: str
    package: str
    pinned_version: str
    installed_version: str | None
    info_name: str | None = None
    info_version: str | None = None
    protocol: str | None = None
    tools: int | None = None
    noise_lines: int = 0
    lacking_tools: tuple[str, ...] = ()
    credentials: tuple[str, ...] = ()
    problem: str | None = None


PREFLIGHT_COLUMNS = ("kind", "name", "is_runnable", "reference", "variants", "claims", "tools", "stand_ins", "details")


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
    listed = {check.server: check for check in checks}
    return [*(_row_columns(_check_row(row, place, listed)) for row in rows), *map(_server_columns, checks)]


def _place(data: Path, servers: Path | None, known: ServerCatalog, *, has_network: bool) -> Place:
    """Return a place that allows every stand-in, to show which rows the stand-ins make possible.

    Experiments must allow each stand-in by name.
    """
    if not data.is_dir():
        raise ExperimentError(f"{data} is not a folder; name the folder that servers see as /data")
    stand_ins = tuple(name for name, spec in known.servers.items() if spec.kind == "stand_in")
    installed = servers or servers_directory()
    return Place(
        data=data.resolve(),
        servers=installed,
        stand_ins=stand_ins,
        has_network=has_network,
        is_confined=has_bubblewrap(),
        catalog=known,
    )


async def _check_server(spec: ServerSpec, place: Place, copy: Path, enabled: set[str]) -> ServerCheck:
    installed = installed_version(spec, place.servers)
    check = ServerCheck(
        server=spec.recorded_name,
        package=spec.package,
        pinned_version=spec.version,
        installed_version=installed,
        credentials=credentials_of(spec),
    )
    problems = [problem.removeprefix(f"server {spec.name} ") for problem in problems_of(spec.name, spec, place)]
    if problems:
        return msgspec.structs.replace(check, problem="; ".join(problems))
    plan = server_plan(spec, place.servers, copy, _FILE_MB, _CALL_SECONDS, is_confined=place.is_confined)
    async with running_servers([plan]) as (server,):
        try:
            server.check()
        except ToolBoundaryError as error:
            return msgspec.structs.replace(check, problem=str(error))
        return _described(check, server, enabled)


def _described(check: ServerCheck, server: RunningServer, enabled: set[str]) -> ServerCheck:
    names = {tool.name for tool in server.tools}
    return msgspec.structs.replace(
        check,
        info_name=server.info["name"],
        info_version=server.info["version"],
        protocol=server.info["protocol"],
        tools=len(names),
        noise_lines=server.noise_lines,
        lacking_tools=tuple(sorted(enabled - names)),
    )


def _check_row(row: Row, place: Place, checks: dict[str, ServerCheck]) -> RowCheck:
    found = availability(row, place)
    benchmark = McpAtlasBenchmark([row], place)
    reference = benchmark.reference(row.task_id)
    broken = [
        f"server {c.server}: {c.problem}" for s in found.servers if (c := checks.get(s.recorded_name)) and c.problem
    ]
    started = {spec.name: checks.get(spec.recorded_name) for spec in found.servers}
    offered = [
        tool
        for tool in row.enabled_tools
        if (split := place.catalog.split(tool))
        and (check := started.get(split[0]))
        and split[1] not in check.lacking_tools
    ]
    return RowCheck(
        task_id=row.task_id,
        source=row.source,
        is_runnable=found.is_runnable and not broken,
        reasons=(*found.reasons, *broken),
        needed_servers=found.needed,
        stand_ins=found.stand_ins,
        reference=reference.origin if reference else None,
        variants=len(benchmark.variants()),
        claims=len(row.claims),
        enabled_tools=len(row.enabled_tools),
        offered_tools=len(offered),
    )


def _row_columns(row: RowCheck) -> dict[str, Any]:
    return {
        "kind": "row",
        "name": row.task_id,
        "is_runnable": row.is_runnable,
        "reference": row.reference or "none",
        "variants": row.variants,
        "claims": row.claims,
        "tools": f"{row.offered_tools}/{row.enabled_tools}",
        "stand_ins": ", ".join(row.stand_ins),
        "details": "; ".join(row.reasons) or f"needs {', '.join(row.needed_servers or ())}",
    }


def _server_columns(server: ServerCheck) -> dict[str, Any]:
    version = server.installed_version or "absent"
    version += "" if version == server.pinned_version else f" (pinned: {server.pinned_version})"
    said = f"says {server.info_name} {server.info_version}, protocol {server.protocol}"
    noise = f"; {server.noise_lines} lines of noise on standard output" if server.noise_lines else ""
    given = f"; given {', '.join(server.credentials)}" if server.credentials and not server.problem else ""
    lacking = f"; enabled but not listed: {', '.join(server.lacking_tools)}" if server.lacking_tools else ""
    return {
        "kind": "server",
        "name": server.server,
        "is_runnable": None,
        "tools": None if server.tools is None else str(server.tools),
        "details": f"{server.package} {version}: {server.problem or said}{given}{noise}{lacking}",
    }
