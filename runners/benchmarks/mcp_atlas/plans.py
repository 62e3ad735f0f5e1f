"""How the servers of a row are started on a copy of the data, and which of their tools its agent is offered."""

from collections.abc import Mapping
from pathlib import Path

from runners.benchmarks.mcp_atlas.confinement import confined, unconfined
from runners.benchmarks.mcp_atlas.credentials import with_credentials
from runners.benchmarks.mcp_atlas.environment import OfferedTool
from runners.benchmarks.mcp_atlas.rows import Row
from runners.benchmarks.mcp_atlas.server import RunningServer, ServerPlan
from runners.benchmarks.mcp_atlas.specs import ServerSpec, catalog, command_of, runtime_roots


def server_plan(
    spec: ServerSpec, servers: Path, data: Path, file_mb: int, call_seconds: float, *, is_confined: bool = True
) -> ServerPlan:
    """Return how a server is started on a copy of the data.

    Raises:
        SandboxBoundaryError: It has to be confined and bubblewrap is missing.
    """
    command = [with_credentials(part) for part in command_of(spec, servers)]
    variables = {name: with_credentials(value) for name, value in spec.variables.items()}
    readable = runtime_roots(spec, servers)
    process = (
        confined(command, variables, data, readable, file_mb, has_network=spec.needs_network)
        if is_confined
        else unconfined(command, variables, data)
    )
    return ServerPlan(name=spec.recorded_name, process=process, call_seconds=call_seconds)


def offered_tools(row: Row, servers: Mapping[str, RunningServer]) -> dict[str, OfferedTool]:
    """Return the enabled tools of a row that its running servers really list, in the order of the row."""
    offered = {}
    for name in row.enabled_tools:
        split = catalog().split(name)
        server = servers.get(split[0]) if split else None
        if split and server and any(tool.name == split[1] for tool in server.tools):
            offered[name] = OfferedTool(server, split[1])
    return offered
