"""The keys of ``[benchmark]`` in an experiment file that belong to mcp_atlas."""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.container import WorldSpec
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import servers_directory
from lhaw_record.runners.environments.benchmarks.refusals import decoded


class McpAtlasOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]`` that belong to mcp_atlas. Paths are relative to the experiment file."""

    rows: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    data: str = ""
    container: WorldSpec | None = None
    servers: str = ""
    own_servers: str = ""
    allow_unconfined: bool = False
    allow_network: bool = False
    claim_judge: str = ""


def read_options(options: dict[str, Any], base: Path) -> McpAtlasOptions:
    """Return the options of an experiment file, with absolute paths and the default servers folder filled in."""
    given = {**options, "rows": [options["rows"]]} if isinstance(options.get("rows"), str) else options
    chosen = decoded(given, McpAtlasOptions, "docs/benchmarks/mcp-atlas.md")
    data = (base / chosen.data).resolve()
    if chosen.container:
        _check_container(chosen)
    elif not chosen.data or not data.is_dir():
        found = f": {data} is not a folder" if chosen.data else " is missing"
        raise ExperimentError(f"key 'benchmark.data'{found}; name the folder for /data, or use a container")
    return msgspec.structs.replace(
        chosen,
        rows=tuple(str((base / path).resolve()) for path in chosen.rows),
        data=str(data),
        servers=str((base / chosen.servers).resolve() if chosen.servers else servers_directory()),
        own_servers=str((base / chosen.own_servers).resolve()) if chosen.own_servers else "",
        claim_judge=str((base / chosen.claim_judge).resolve()) if chosen.claim_judge else "",
    )


def _check_container(chosen: McpAtlasOptions) -> None:
    """Reject keys that belong to installed servers."""
    for key in ("data", "servers", "own_servers", "allow_unconfined"):
        if getattr(chosen, key):
            raise ExperimentError(
                f"key 'benchmark.{key}': this key is for installed servers, but the container has its own data and "
                f"servers; remove this key or benchmark.container"
            )
