"""The preflight: which rows can run here, and what the installed servers really answer."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec

from runners.benchmarks.mcp_atlas.availability import Place, availability
from runners.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark, server_plan
from runners.benchmarks.mcp_atlas.confinement import has_bubblewrap
from runners.benchmarks.mcp_atlas.rows import Row, read_rows
from runners.benchmarks.mcp_atlas.server import RunningServer, running_servers
from runners.benchmarks.mcp_atlas.specs import ServerSpec, catalog, how_to_install, installed_version, servers_directory
from runners.benchmarks.mcp_atlas.world import private_copy
from runners.errors import ToolBoundaryError

_FILE_MB = 64
_CALL_SECONDS = 30.0


class RowCheck(msgspec.Struct, frozen=True, kw_only=True):
    """One row: whether it runs here and why not, its reference (published, own or none), and its tools."""

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
    """One server that the rows enable: its package, what it says about itself, and which enabled tools it lacks."""

    server: str
    package: str
    pinned_version: str
    installed_version: str | None
    info_name: str | None = None
    info_version: str | None = None
    protocol: str | None = None
    tools: int | None = None
    lacking_tools: tuple[str, ...] = ()
    problem: str | None = None


class Preflight(msgspec.Struct, frozen=True):
    """The whole report; ``msgspec.to_builtins`` gives its JSON form."""

    rows: tuple[RowCheck, ...]
    servers: tuple[ServerCheck, ...]


async def preflight(rows_paths: Sequence[Path], data: Path, servers: Path | None = None) -> Preflight:
    """Check rows against this machine, starting every installed server that they enable once.

    Args:
        rows_paths: Rows files.
        data: The folder that servers see as ``/data``.
        servers: Where the servers are installed; the usual folder if None.

    Raises:
        RowsError: A rows file cannot be read.
    """
    rows = read_rows(rows_paths)
    stand_ins = tuple(name for name, spec in catalog().servers.items() if spec.kind == "stand_in")
    place = Place(data=data, servers=servers or servers_directory(), stand_ins=stand_ins)
    enabled: dict[str, set[str]] = {}
    for row in rows:
        for tool in row.enabled_tools:
            split = catalog().split(tool)
            if split:
                enabled.setdefault(split[0], set()).add(split[1])
    specs = [spec for name, spec in catalog().servers.items() if name in enabled]
    with private_copy(data) as copy:
        checks = [await _check_server(spec, place, copy, enabled[spec.name]) for spec in specs]
    listed = {check.server: check for check in checks}
    return Preflight(tuple(_check_row(row, place, listed) for row in rows), tuple(checks))


async def _check_server(spec: ServerSpec, place: Place, copy: Path, enabled: set[str]) -> ServerCheck:
    installed = installed_version(spec, place.servers)
    check = ServerCheck(
        server=spec.recorded_name, package=spec.package, pinned_version=spec.version, installed_version=installed
    )
    if installed is None:
        return msgspec.structs.replace(check, problem=f"not installed; {how_to_install(spec)}")
    plan = server_plan(spec, place.servers, copy, _FILE_MB, _CALL_SECONDS, is_confined=has_bubblewrap())
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
        if (split := catalog().split(tool)) and (check := started.get(split[0])) and split[1] not in check.lacking_tools
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


def preflight_text(report: Preflight) -> str:
    """Return the report as text: one line for each row, then one for each server."""
    lines = []
    for row in report.rows:
        state = "runs here" if row.is_runnable else "cannot run here"
        stand_ins = f"; stand-in for {', '.join(row.stand_ins)}" if row.stand_ins else ""
        reference = f"reference {row.reference or 'none'}, {row.variants} variants"
        lines.append(f"{row.task_id}  {state}{stand_ins}  ({reference}, {row.offered_tools}/{row.enabled_tools} tools)")
        lines += [f"    {reason}" for reason in row.reasons]
    lines.append("")
    for server in report.servers:
        about = (
            server.problem
            or f"says {server.info_name} {server.info_version}, protocol {server.protocol}, {server.tools} tools"
        )
        version = server.installed_version or "absent"
        version += "" if version == server.pinned_version else f" (pinned: {server.pinned_version})"
        lacking = f"; enabled but not listed: {', '.join(server.lacking_tools)}" if server.lacking_tools else ""
        lines.append(f"{server.server}  {server.package} {version}: {about}{lacking}")
    return "\n".join(lines)


def run_preflight(rows_paths: Sequence[Path], data: Path, servers: Path | None = None) -> Preflight:
    """Run :func:`preflight` to its end, for callers without an event loop."""
    return anyio.run(preflight, rows_paths, data, servers)
