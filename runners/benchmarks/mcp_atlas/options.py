"""The ``[benchmark]`` table of an experiment file, as this benchmark reads it."""

from pathlib import Path
from typing import Annotated, Any

import msgspec

from runners.benchmarks.mcp_atlas.specs import catalog, servers_directory
from runners.benchmarks.refusals import decoded
from runners.errors import ExperimentError


class McpAtlasOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]`` that are this benchmark's own; paths are relative to the experiment file."""

    rows: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    data: str
    servers: str = ""
    stand_ins: tuple[str, ...] = ()
    allow_unconfined: bool = False
    allow_network: bool = False
    claim_judge: str = ""


def read_options(options: dict[str, Any], base: Path) -> McpAtlasOptions:
    """Return the options of an experiment file, with absolute paths; ``servers`` is where servers are installed.

    Args:
        options: The keys of ``[benchmark]`` that are the benchmark's own.
        base: The folder of the experiment file.

    Raises:
        ExperimentError: A key is unknown or missing, a stand-in is none, or the folder of data is not there.
    """
    given = {**options, "rows": [options["rows"]]} if isinstance(options.get("rows"), str) else options
    chosen = decoded(given, McpAtlasOptions, "docs/benchmarks/mcp-atlas.md")
    for name in chosen.stand_ins:
        spec = catalog().servers.get(name)
        if spec is None or spec.kind != "stand_in":
            raise ExperimentError(f"key 'benchmark.stand_ins': there is no stand-in for {name!r}")
    data = (base / chosen.data).resolve()
    if not data.is_dir():
        raise ExperimentError(f"key 'benchmark.data': {data} is no folder; name the folder that servers see as /data")
    return msgspec.structs.replace(
        chosen,
        rows=tuple(str((base / path).resolve()) for path in chosen.rows),
        data=str(data),
        servers=str((base / chosen.servers).resolve() if chosen.servers else servers_directory()),
        claim_judge=str((base / chosen.claim_judge).resolve()) if chosen.claim_judge else "",
    )
