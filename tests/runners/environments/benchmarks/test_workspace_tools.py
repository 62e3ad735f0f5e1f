"""The workspace tools: what an agent reads for each way a call can go."""

import pytest

from lhaw_record.runners.environments.benchmarks.protocol import ToolResult
from lhaw_record.runners.environments.benchmarks.workspace_tools import WORKSPACE_TOOLS, call_workspace_tool
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

LIMITS = SandboxLimits(command_seconds=600)


@pytest.fixture
async def sandbox():
    """An open sandbox without isolation: the tools are the same in every kind."""
    async with ProcessSandboxProvider().open(None, LIMITS) as opened:
        yield opened


def test_every_tool_says_what_it_takes():
    """Each definition is a closed JSON Schema object whose properties are all required and described."""
    assert [tool.name for tool in WORKSPACE_TOOLS] == ["bash", "python", "read_file", "write_file"]
    for tool in WORKSPACE_TOOLS:
        assert tool.input_schema["type"] == "object"
        assert tool.input_schema["additionalProperties"] is False
        assert tool.input_schema["required"] == list(tool.input_schema["properties"])
        assert all(
            entry["type"] == "string" and entry["description"] for entry in tool.input_schema["properties"].values()
        )


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("bash", {"command": "echo hi"}, ToolResult(text="hi\n")),
        ("bash", {"command": "true"}, ToolResult(text="")),
        ("bash", {"command": "false"}, ToolResult(text="[exit code 1]", is_error=True)),
        ("bash", {"command": "echo out; exit 3"}, None),
        ("bash", {"command": "printf no-newline; false"}, ToolResult(text="no-newline\n[exit code 1]", is_error=True)),
        ("python", {"code": "print(1)\n2"}, ToolResult(text="1\n2\n")),
        ("write_file", {"path": "a/b.txt", "content": "é"}, ToolResult(text="Wrote 2 bytes to a/b.txt.")),
        ("read_file", {"path": "x"}, ToolResult(text="Cannot read x: No such file or directory.", is_error=True)),
        ("read_file", {"path": "."}, ToolResult(text="Cannot read .: Is a directory.", is_error=True)),
        ("write_file", {"path": ".", "content": ""}, ToolResult(text="Cannot write .: Is a directory.", is_error=True)),
        ("bash", {}, ToolResult(text="bash takes the arguments command; given: none.", is_error=True)),
        ("bash", {"cmd": "ls"}, ToolResult(text="bash takes the arguments command; given: cmd.", is_error=True)),
        ("bash", {"command": 5}, ToolResult(text="bash: command must be a string, not int.", is_error=True)),
        (
            "submit",
            {},
            ToolResult(
                text="There is no tool 'submit'. The tools are: bash, python, read_file, write_file.", is_error=True
            ),
        ),
    ],
)
async def test_each_call_has_its_text(sandbox, name, arguments, expected):
    """Success, failure and misuse each give the agent a text it can act on, and misuse is never an exception."""
    result = await call_workspace_tool(sandbox, name, arguments)
    if expected is None:
        assert result.is_error
        assert result.text.startswith("out\n[the shell ended with exit code 3")
        assert result.text.endswith("\n[exit code 3]")
    else:
        assert (result.text, result.is_error) == (expected.text, expected.is_error)


async def test_a_traceback_is_an_error(sandbox):
    """Code that raises is an error result, with the exit code as the last line."""
    result = await call_workspace_tool(sandbox, "python", {"code": "1 / 0"})
    assert result.is_error
    assert result.text.endswith("ZeroDivisionError: division by zero\n[exit code 1]")


async def test_a_timeout_is_an_error():
    """A command that does not end is an error result that names the limit."""
    async with ProcessSandboxProvider().open(None, SandboxLimits(command_seconds=0.3)) as sandbox:
        result = await call_workspace_tool(sandbox, "bash", {"command": "sleep 3600"})
    assert result.is_error
    assert result.text.startswith("[timed out after 0.3 s")


async def test_what_is_written_is_read(sandbox):
    """A text file comes back as it was written, also with lines and letters of every kind."""
    text = "a\r\n\té 漢\n"
    await call_workspace_tool(sandbox, "write_file", {"path": "f.txt", "content": text})
    assert await call_workspace_tool(sandbox, "read_file", {"path": "f.txt"}) == ToolResult(text=text)


async def test_a_binary_file_is_named_as_such(sandbox):
    """Binary content is not poured into the conversation: the result says what it is and how large."""
    for content in (b"PK\x03\x04" + bytes(100), bytes(range(128, 256)) * 8):
        await sandbox.write_file("b.xlsx", content)
        result = await call_workspace_tool(sandbox, "read_file", {"path": "b.xlsx"})
        assert result.is_error
        assert result.text.startswith(f"b.xlsx is not a text file: {len(content)} bytes of binary data.")


async def test_a_long_file_is_cut_in_the_middle(sandbox):
    """A long text keeps its beginning and end, and says how much is left out."""
    await sandbox.write_file("long.txt", b"begin\n" + b"x" * 100_000 + b"\nend\n")
    result = await call_workspace_tool(sandbox, "read_file", {"path": "long.txt"})
    assert not result.is_error
    assert result.text.startswith("begin\nxxx")
    assert result.text.endswith("xxx\nend\n")
    assert f"\n[... {100_011 - 65_536} bytes left out ...]\n" in result.text


async def test_a_text_in_another_encoding_is_readable(sandbox):
    """A Latin-1 text with few foreign letters is shown, with the unreadable ones replaced."""
    await sandbox.write_file("latin.txt", "Grüße aus Köln".encode("latin-1"))
    result = await call_workspace_tool(sandbox, "read_file", {"path": "latin.txt"})
    assert result == ToolResult(text="Gr\ufffd\ufffde aus K\ufffdln")
