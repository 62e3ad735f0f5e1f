"""A minimal agent with Pydantic AI: one shell tool, and the MCP servers in a configuration file, if any.

    python pydantic_ai_sdk.py MODEL < task.txt

It does not depend on lhaw-record: ANTHROPIC_BASE_URL, ANTHROPIC_API_KEY and the MCP configuration come from outside.
"""

# ruff: noqa: INP001 - a script

import json
import os
import subprocess
import sys
from pathlib import Path

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.anthropic import AnthropicModel

INSTRUCTIONS = "You do tasks in the current directory with the shell. When you are done, say so in one sentence."
MOST_REQUESTS = 100
USER_TIMEOUT_S = 900.0


def shell(command: str) -> str:
    """Run a command in a new bash shell and return what it prints."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr + (f"[exit code {done.returncode}]" if done.returncode else "")


def servers() -> list[MCPToolset]:
    """Return the MCP servers in the file that MCP_CONFIG names."""
    path = os.environ.get("MCP_CONFIG")
    entries = json.loads(Path(path).read_text(encoding="utf-8"))["mcpServers"].values() if path else ()
    return [MCPToolset(each["url"], headers=each["headers"], read_timeout=USER_TIMEOUT_S) for each in entries]


def main(model: str, task: str) -> None:
    """Perform the task and print the final output."""
    agent = Agent(AnthropicModel(model), instructions=INSTRUCTIONS, tools=[shell], toolsets=servers())
    result = agent.run_sync(task, usage_limits=UsageLimits(request_limit=MOST_REQUESTS))
    sys.stdout.write(f"{result.output}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.stdin.read())
