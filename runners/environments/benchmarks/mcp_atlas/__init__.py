"""MCP-Atlas: published rows as tasks, real MCP servers as tools, claims as checkpoints."""

from lhaw_record.runners.environments.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark, open_mcp_atlas
from lhaw_record.runners.environments.benchmarks.mcp_atlas.preflight import PREFLIGHT_COLUMNS, preflight

__all__ = ["PREFLIGHT_COLUMNS", "McpAtlasBenchmark", "open_mcp_atlas", "preflight"]
