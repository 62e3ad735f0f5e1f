"""The agent's browser: the Playwright MCP server in a container beside the agent's, with its network and its files.

The original's agent has a browser inside its own container. A published image need not have one: the server comes from
its publisher's image, and sees the company, ``localhost`` and the work directory as the agent does. What the agent gets
after every step is the page's accessibility tree, as in the original.
"""

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from lhaw_record.runners.base.errors import ToolBoundaryError
from lhaw_record.runners.environments.benchmarks.mcp_lines import definition_of, open_client, shortened, translated
from lhaw_record.runners.environments.benchmarks.protocol import Artifact, EnvironmentSettings, Keep, ToolResult
from lhaw_record.runners.environments.benchmarks.tac.options import BrowserSpec
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.sidecar import LineChannel, open_sidecar
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import CallToolResult, Tool

OUTPUTS = ".downloads"
"""Where the browser puts what it downloads, below the work directory, as in OpenHands."""
_SERVER = "the browser"
_ARGUMENTS = ("--isolated", "--snapshot-mode", "none", "--codegen", "none", "--output-dir")
_PROCESSES = 4096  # threads count, and a browser has hundreds
_TEXT_BYTES = 65536
_NOT_OFFERED = ("browser_run_code", "browser_install")  # code in the server's own process; a further download
_SNAPSHOT, _SCREENSHOT, _CLOSE = "browser_snapshot", "browser_take_screenshot", "browser_close"


class Browser:
    """An open browser.

    Args:
        client: The connected client of the server.
        channel: The server's standard streams.
        keep: Stores the pictures as they come.
        listed: The tools that the server lists.
        spec: The keys of the experiment file.
    """

    def __init__(
        self,
        client: "Client",
        channel: LineChannel,
        keep: Keep,
        listed: Sequence["Tool"],
        *,
        spec: BrowserSpec,
        result_bytes: int,
    ) -> None:
        self._client = client
        self._channel = channel
        self._keep = keep
        self._spec = spec
        self._result_bytes = result_bytes
        self._pictures = 0
        offered = [tool for tool in listed if not tool.name.startswith(_NOT_OFFERED)]
        if not {_SNAPSHOT, _SCREENSHOT} <= {tool.name for tool in offered}:
            raise ToolBoundaryError(
                f"the browser's server has no {_SNAPSHOT} or no {_SCREENSHOT}; benchmark.browser.image must be one of "
                "the Playwright MCP server",
                kind="server_unfit",
                is_retry_owed=False,
            )
        self._read_only = {tool.name for tool in offered if tool.annotations and tool.annotations.read_only_hint}
        self.tools = tuple(definition_of(tool, tool.name) for tool in offered)
        info = client.server_info
        self.server = f"{info.name} {info.version}" if info else ""
        """The name and version that the server states."""

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolResult:
        """Call one of ``tools``. After a step that may change the page, the result ends with the page's snapshot."""
        result = await self._ask(name, arguments)
        if result is None:
            return ToolResult(
                text=f"[the browser gave no answer to {name} within {self._spec.step_seconds:g} s]", is_error=True
            )
        texts = [await self._text_of(result)]
        if name not in self._read_only and name != _CLOSE:
            shown = await self._ask(_SNAPSHOT, {})
            if shown is not None and not shown.is_error:
                texts.append(await self._text_of(shown))
            if self._spec.screenshots and (taken := await self._ask(_SCREENSHOT, {})) is not None:
                await self._text_of(taken)
        return ToolResult(text=shortened("\n".join(texts), self._result_bytes), is_error=bool(result.is_error))

    async def _ask(self, name: str, arguments: dict[str, Any]) -> "CallToolResult | None":
        """Return the server's answer, or None if there was none in time."""
        result = await self._answer(name, arguments)
        if (result is None or result.is_error) and (await self._channel.machine.state()).memory_kills:
            raise ToolBoundaryError(
                f"the browser has run out of memory ({name}); raise benchmark.browser.memory_mb", kind="out_of_memory"
            )
        return result

    async def _answer(self, name: str, arguments: dict[str, Any]) -> "CallToolResult | None":
        from mcp import MCPError
        from mcp_types import CallToolResult, TextContent

        with translated(self._channel, f"{_SERVER} ({name})"):
            try:
                with anyio.move_on_after(self._spec.step_seconds):
                    return await self._client.call_tool(name, arguments)
            except MCPError as error:
                if self._channel.end is not None:
                    raise
                return CallToolResult(content=[TextContent(type="text", text=str(error))], is_error=True)
        return None

    async def _text_of(self, result: "CallToolResult") -> str:
        """Return the text of a result; its pictures are stored."""
        texts = []
        for part in result.content:
            if part.type == "image":
                kind = part.mime_type.rpartition("/")[2]
                self._pictures += 1
                name = f"screenshot-{self._pictures:03}.{kind}"
                content = base64.b64decode(part.data)
                await self._keep(Artifact(name=name, role="screenshot", media_type=part.mime_type, content=content))
            elif part.type == "text":
                texts.append(part.text)
        return "\n".join(texts)


@asynccontextmanager
async def open_browser(
    spec: BrowserSpec, work_dir: str, room: MemoryBudget, beside: DockerMachine, settings: EnvironmentSettings
) -> AsyncIterator[Browser]:
    """Open a browser beside the agent's container. Closing it leaves nothing behind."""
    image = DockerImage(name=spec.image, work_dir=work_dir)
    limits = SandboxLimits(memory_mb=spec.memory_mb, processes=_PROCESSES)
    arguments: Sequence[str] = (*_ARGUMENTS, f"{work_dir}/{OUTPUTS}", *spec.arguments)
    async with (
        open_sidecar(image, limits, room, beside=beside, arguments=arguments) as channel,
        open_client(channel, _SERVER, settings.limits) as (client, tools, _),
    ):
        yield Browser(
            client,
            channel,
            settings.keep,
            tools,
            spec=spec,
            result_bytes=settings.limits.result_bytes(_TEXT_BYTES),
        )
