"""A scripted model behind a real server is the same agent as in process."""

import pytest

from lhaw_record.runners.agents.scripted import ScriptedModel
from lhaw_record.runners.base.conversation.messages import Message, ToolDefinition
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelRequest
from tests.support.chat_server import ChatServer

pytestmark = pytest.mark.usefixtures("closed_clients")

TOOLS = tuple(
    ToolDefinition(name=name, description=f"The tool {name}.", input_schema={"type": "object", "properties": {}})
    for name in ("bash", "python", "read_file", "write_file", "submit")
)


@pytest.mark.thorough
@pytest.mark.parametrize("seed", [0, 1])
async def test_seed_in_the_request_makes_the_same_model(seed):
    """Served over HTTP, with its seed in the request, a scripted model takes the same turns as in process."""
    own = ScriptedModel("scripted/balanced", seed)
    messages = [
        Message(role="system", content="You work with tools."),
        Message(role="user", content="Summarise the invoices of March in summary.csv."),
    ]
    async with ChatServer(lambda seed: ScriptedModel("scripted/balanced", seed)) as server:
        served = LitellmModel("scripted-balanced", api_base=server.url)
        for _ in range(3):
            request = ModelRequest(messages=tuple(messages), tools=TOOLS, parameters={"seed": seed}, timeout_s=300.0)
            here, there = await own.respond(request), await served.respond(request)
            assert (there.message, there.finish_reason) == (here.message, here.finish_reason)
            messages.append(here.message)
            messages.extend(
                Message(role="tool", content="done", tool_call_id=call.call_id) for call in here.message.tool_calls
            )
    assert [request["seed"] for request in server.requests] == [seed] * 3
