"""MCP-Atlas: published rows as tasks, real MCP servers as tools, claims as checkpoints."""

from runners.benchmarks.mcp_atlas.benchmark import McpAtlasBenchmark
from runners.benchmarks.mcp_atlas.options import open_mcp_atlas
from runners.benchmarks.mcp_atlas.preflight import Preflight, preflight_text, run_preflight

__all__ = ["McpAtlasBenchmark", "Preflight", "open_mcp_atlas", "preflight_text", "run_preflight"]
