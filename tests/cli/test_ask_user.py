"""``lhaw-record ask-user``: the simulated user of a variant, served to an agent of one's own."""

from mcp import Client, StdioServerParameters

from tests.cli.program import PROGRAM, called, environment


async def test_the_simulated_user_answers_over_stdio():
    """The child offers the one tool ask_user, answers a question about what was removed, and defers on others."""
    server = StdioServerParameters(command=PROGRAM, args=["ask-user", "log-triage/window"], env=environment())
    async with Client(server) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["ask_user"]
        about = {"question": "Which time window should I look at: from when until when?"}
        answered = await client.call_tool("ask_user", about)
        other = await client.call_tool("ask_user", {"question": "What is your favourite colour?"})
        empty = await client.call_tool("ask_user", {"question": "  "})
    assert not answered.is_error
    assert any(character.isdigit() for character in answered.content[0].text)
    assert not any(character.isdigit() for character in other.content[0].text)
    assert empty.is_error


def test_variants_are_listed_and_unknown_ones_refused():
    """``list`` prints the variants as data; an unknown one exits 2 and says how to list them."""
    listed = called("ask-user", "list")
    assert listed.returncode == 0
    assert "log-triage/window" in listed.stdout.splitlines()
    unknown = called("ask-user", "log-triage/nothing")
    assert unknown.returncode == 2
    assert "lhaw-record ask-user list" in unknown.stderr
