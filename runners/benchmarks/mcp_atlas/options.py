"""The ``[benchmark]`` table of an experiment file, as this benchmark reads it."""

from pathlib import Path
from typing import Any

import msgspec

from runners.benchmarks.mcp_atlas.availability import Place
from runners.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark
from runners.benchmarks.mcp_atlas.judge import ClaimJudge
from runners.benchmarks.mcp_atlas.rows import read_rows
from runners.benchmarks.mcp_atlas.specs import catalog, servers_directory
from runners.benchmarks.published import PublishedError
from runners.benchmarks.refusals import decoded
from runners.errors import ExperimentError
from runners.experiment import GraderSpec
from runners.plan import DEFAULT_PARAMETERS


class Options(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]`` that are this benchmark's own; paths are relative to the experiment file."""

    rows: tuple[str, ...]
    data: str
    servers: str | None = None
    stand_ins: tuple[str, ...] = ()
    allow_unconfined: bool = False
    allow_network: bool = False
    claim_judge: str | None = None


def open_mcp_atlas(options: dict[str, Any], base: Path, grader: GraderSpec | None = None) -> McpAtlasBenchmark:
    """Return the benchmark that an experiment file describes.

    Args:
        options: The keys of ``[benchmark]`` besides name, tasks and variants.
        base: The folder of the experiment file.
        grader: The ``[grader]`` table; without a judge claims are matched deterministically.

    Raises:
        ExperimentError: A key is unknown or missing, a path is not there, or no row can run.
    """
    given = {**options, "rows": [options["rows"]]} if isinstance(options.get("rows"), str) else options
    chosen = decoded(given, Options, "mcp_atlas", "docs/benchmarks/mcp-atlas.md")
    for name in chosen.stand_ins:
        spec = catalog().servers.get(name)
        if spec is None or spec.kind != "stand_in":
            raise ExperimentError(f"key 'benchmark.stand_ins': there is no stand-in for {name!r}")
    data = (base / chosen.data).resolve()
    if not data.is_dir():
        raise ExperimentError(f"key 'benchmark.data': {data} is no folder; name the folder that servers see as /data")
    servers = (base / chosen.servers).resolve() if chosen.servers else servers_directory()
    judge = None
    if grader is not None and grader.judge is not None and grader.kind == "judge":
        wording = (base / chosen.claim_judge).resolve() if chosen.claim_judge else None
        judge = ClaimJudge(wording, grader.judge.model, {**DEFAULT_PARAMETERS, **grader.judge.parameters})
    try:
        rows = read_rows([(base / path).resolve() for path in chosen.rows])
    except PublishedError as error:
        raise ExperimentError(f"key 'benchmark.rows': {error}") from error
    benchmark = McpAtlasBenchmark(
        rows,
        Place(data=data, servers=servers, stand_ins=chosen.stand_ins, has_network=chosen.allow_network),
        judge,
        is_confined=not chosen.allow_unconfined,
    )
    if rows and not any(found.is_runnable for found in benchmark.availability.values()):
        first = rows[0].task_id
        raise ExperimentError(
            f"[benchmark] of mcp_atlas: none of {len(rows)} rows can run here; {first}: {benchmark.why_not(first)}; "
            "`lhaw-record mcp-atlas` shows all of them"
        )
    return benchmark
