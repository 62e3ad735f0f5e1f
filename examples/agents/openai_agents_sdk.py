"""A minimal agent with the OpenAI Agents SDK: one shell tool, and the MCP servers in a configuration file, if any.

    python openai_agents_sdk.py MODEL < task.txt

It does not depend on lhaw-record: OPENAI_BASE_URL, OPENAI_API_KEY and the MCP configuration come from the environment.
"""

# ruff: noqa: INP001 - a script

import asyncio
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack
from pathlib import Path

from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI

INSTRUCTIONS = "You do tasks in the current directory with the shell. When you are done, say so in one sentence."
MOST_TURNS = 100
USER_TIMEOUT_S = 900.0


@function_tool
def run_command(command: str) -> str:
    """Run a command in a new bash shell and return what it prints."""
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr + (f"[exit code {done.returncode}]" if done.returncode else "")


def servers() -> list[MCPServerStreamableHttp]:
    """Return the MCP servers in the file that MCP_CONFIG names."""
    path = os.environ.get("MCP_CONFIG")
    if not path:
        return []
    entries = json.loads(Path(path).read_text(encoding="utf-8"))["mcpServers"]
    return [
        MCPServerStreamableHttp(
            name=name,
            params={"url": entry["url"], "headers": entry["headers"], "timeout": USER_TIMEOUT_S},
            client_session_timeout_seconds=USER_TIMEOUT_S,
        )
        for name, entry in entries.items()
    ]


async def main(model: str, task: str) -> None:
    """Perform the task and print the final output."""
    async with AsyncExitStack() as stack:
        connected = [await stack.enter_async_context(server) for server in servers()]
        responses = OpenAIResponsesModel(model=model, openai_client=AsyncOpenAI())
        agent = Agent(
            name="worker", instructions=INSTRUCTIONS, model=responses, tools=[run_command], mcp_servers=connected
        )
        config = RunConfig(tracing_disabled=True)
        result = await Runner.run(agent, task, max_turns=MOST_TURNS, run_config=config)
    sys.stdout.write(f"{result.final_output}\n")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.stdin.read()))
