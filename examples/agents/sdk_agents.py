"""Minimal agents with a library each: one shell tool, and the MCP servers in a configuration file, if any.

    python sdk_agents.py openai-agents MODEL < task.txt

They do not depend on lhaw-record: the model's address and key, and the MCP configuration, come from the environment.
"""

# ruff: noqa: INP001 - a script; each library is installed for its own agent only

import asyncio
import json
import os
import subprocess
import sys
from contextlib import AsyncExitStack, ExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

INSTRUCTIONS = "You do tasks in the current directory with the shell. When you are done, say so in one sentence."
MOST_TURNS = 100
USER_TIMEOUT_S = 900.0


def shell(command: str) -> str:
    """Run a command in a new bash shell and return what it prints.

    Args:
        command: The command.
    """
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    return done.stdout + done.stderr + (f"[exit code {done.returncode}]" if done.returncode else "")


def servers() -> dict[str, Any]:
    """Return the MCP servers in the file that MCP_CONFIG names, each with its ``url`` and ``headers``."""
    path = os.environ.get("MCP_CONFIG")
    return json.loads(Path(path).read_text(encoding="utf-8"))["mcpServers"] if path else {}


async def openai_agents(model: str, task: str) -> Any:
    """Perform a task with the OpenAI Agents SDK, over Responses."""
    from agents import Agent, OpenAIResponsesModel, RunConfig, Runner, function_tool
    from agents.mcp import MCPServerStreamableHttp
    from openai import AsyncOpenAI

    async with AsyncExitStack() as stack:
        connected = [
            await stack.enter_async_context(
                MCPServerStreamableHttp(
                    name=name,
                    params={"url": entry["url"], "headers": entry["headers"], "timeout": USER_TIMEOUT_S},
                    client_session_timeout_seconds=USER_TIMEOUT_S,
                )
            )
            for name, entry in servers().items()
        ]
        agent = Agent(
            name="worker",
            instructions=INSTRUCTIONS,
            model=OpenAIResponsesModel(model=model, openai_client=AsyncOpenAI()),
            tools=[function_tool(shell)],
            mcp_servers=connected,
        )
        config = RunConfig(tracing_disabled=True)
        return (await Runner.run(agent, task, max_turns=MOST_TURNS, run_config=config)).final_output


async def pydantic_ai(model: str, task: str) -> Any:
    """Perform a task with Pydantic AI, over Messages."""
    from pydantic_ai import Agent, UsageLimits
    from pydantic_ai.mcp import MCPToolset
    from pydantic_ai.models.anthropic import AnthropicModel

    toolsets = [
        MCPToolset(each["url"], headers=each["headers"], read_timeout=USER_TIMEOUT_S) for each in servers().values()
    ]
    agent = Agent(AnthropicModel(model), instructions=INSTRUCTIONS, tools=[shell], toolsets=toolsets)
    return (await agent.run(task, usage_limits=UsageLimits(request_limit=MOST_TURNS))).output


def smolagents(model: str, task: str, kind: str) -> Any:
    """Perform a task with one of smolagents' agents, over chat completions."""
    import smolagents as library

    timeout = {"client_session_timeout_seconds": timedelta(seconds=USER_TIMEOUT_S)}
    with ExitStack() as stack:
        tools = [library.tool(shell)]
        for each in servers().values():
            server = {"url": each["url"], "headers": each["headers"], "transport": "streamable-http"}
            tools += stack.enter_context(library.MCPClient(server, timeout, structured_output=False))
        agent = getattr(library, kind)(tools, library.OpenAIModel(model), max_steps=MOST_TURNS)
        return agent.run(f"{INSTRUCTIONS}\n\n{task}")


def main(library: str, model: str, task: str) -> None:
    """Perform a task with the named library and print the final output."""
    if library in ("ToolCallingAgent", "CodeAgent"):
        output = smolagents(model, task, library)
    else:
        run = {"openai-agents": openai_agents, "pydantic-ai": pydantic_ai}[library]
        output = asyncio.run(run(model, task))
    sys.stdout.write(f"{output}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.stdin.read())
