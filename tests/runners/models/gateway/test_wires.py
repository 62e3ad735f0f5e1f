"""What each protocol can hold beside plain calls: names, tools, parameters, roles and parts, read and written back."""

import json

import httpx
import msgspec
import openai
import pytest

from lhaw_record.recorder.events import ModelCalled
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.models.gateway.decision import offers_asking
from lhaw_record.runners.models.gateway.errors import GatewayRefusal
from lhaw_record.runners.models.gateway.wires import CHAT, MESSAGES, RESPONSES, WIRES
from lhaw_record.runners.models.protocol import ModelReply
from tests.runners.models.gateway.rigs import canned
from tests.runners.models.gateway.shapes import (
    TASK,
    block,
    call_item,
    calls,
    chat,
    item,
    messages,
    output_item,
    responses,
    result,
    says,
    system,
    user,
)
from tests.runners.models.gateway.tiny_agents import events_of
from tests.support.canned_model import text_reply, tool_reply

NAMESPACE = {
    "type": "namespace",
    "name": "mcp__user",
    "tools": [{"type": "function", "name": "ask_user", "parameters": {"type": "object"}}],
}
PATCH = {"type": "custom", "name": "apply_patch", "format": {"type": "grammar", "syntax": "lark", "definition": "x"}}


def seen(turns):
    """Role and text of each turn."""
    return [(turn.message.role, turn.message.content) for turn in turns]


async def post(rig, path, body):
    """Send one request and return the reply."""
    async with rig.client() as client:
        response = await client.post(path, json=body)
    assert response.status_code == 200, response.text
    return response.json()


async def test_a_tool_in_a_namespace_is_called_with_both_names():
    """The model sees one name, the same as over other wires; the agent gets namespace and name apart."""
    ask = ("a", "mcp__user__ask_user", '{"question":"Which?"}')
    rig, model = canned(tool_reply(ask), text_reply("Done."))
    reply = await post(rig, "v1/responses", responses(item("user", TASK), tools=[NAMESPACE]))
    (call,) = reply["output"]
    assert (call["namespace"], call["name"], call["call_id"]) == ("mcp__user", "ask_user", "a")
    assert [tool.name for tool in model.requests[0].tools] == ["mcp__user__ask_user"]
    again = responses(item("user", TASK), call, output_item("a", "The red ones."), tools=[NAMESPACE])
    await post(rig, "v1/responses", again)
    assert rig.actions() == [("tool", "mcp__user__ask_user", '{"question":"Which?"}')]


NOTICE = f"{TASK} When in doubt, call `ask_user`."


@pytest.mark.parametrize(
    ("wire", "body", "is_offered"),
    [
        (CHAT, chat(user(TASK)), False),
        (CHAT, chat(user(NOTICE), says("I would call ask_user."), user(f"<task>{NOTICE}</task>")), False),
        (CHAT, chat(user(TASK), calls(("a", "work")), result("a", "ask_user.py mcp.json")), False),
        (CHAT, chat(user(TASK), tools=("work", "mcp__user__ask_user")), True),
        (CHAT, chat(system("Use 'ask_user_question'."), user(TASK), tools=("ask_user_questions",)), False),
        (CHAT, chat(system("def ask_user(question: str) -> str: ..."), user(TASK), tools=()), True),
        (CHAT, chat(user(TASK), user(f"{NOTICE} Deferred tools: mcp__user__ask_user")), True),
        (RESPONSES, responses(item("user", TASK)), False),
        (RESPONSES, responses(item("user", TASK), tools=[NAMESPACE]), True),
        (RESPONSES, responses(item("user", TASK), tools=[{**PATCH, "description": "tools.ask_user()"}]), True),
        (MESSAGES, messages(user(TASK)), False),
        (MESSAGES, messages(user(TASK), tools=("user_ask_user",)), True),
    ],
)
def test_a_way_to_ask_is_a_tool_or_a_text_that_is_not_the_prompts(wire, body, is_offered):
    """Agents offer the tool under a prefix, in a tool of code, in their system text, or by name in a reminder."""
    assert offers_asking(wire.requests.read(body), "ask_user", NOTICE) == is_offered


async def test_custom_tools_take_text():
    """Their text is recorded as the argument ``input`` and reaches the agent as it was written."""
    patch = ("a", "apply_patch", '{"input":"*** Begin"}')
    rig, _ = canned(tool_reply(patch), text_reply("Done."))
    reply = await post(rig, "v1/responses", responses(item("user", TASK), tools=[PATCH]))
    (call,) = reply["output"]
    assert (call["type"], call["input"]) == ("custom_tool_call", "*** Begin")
    given = {"type": "custom_tool_call_output", "call_id": "a", "output": "patched"}
    await post(rig, "v1/responses", responses(item("user", TASK), call, given, tools=[PATCH]))
    assert rig.actions() == [("tool", "apply_patch", '{"input":"*** Begin"}')]
    assert rig.results() == ["patched"]
    rig, _ = canned(tool_reply(patch))
    custom = {"type": "custom", "custom": {"name": "apply_patch"}}
    reply = await post(rig, "v1/chat/completions", chat(user(TASK), tools=[custom]))
    (call,) = reply["choices"][0]["message"]["tool_calls"]
    assert call["custom"] == {"name": "apply_patch", "input": "*** Begin"}


async def test_tools_that_a_model_cannot_have_are_left_out_and_recorded():
    """A provider's own search is dropped, a deferred tool is not shown yet; the record says both."""
    tools = [
        {"type": "function", "name": "work", "parameters": {}},
        {"type": "function", "name": "ask_user", "parameters": {}, "defer_loading": True},
        {"type": "web_search"},
    ]
    rig, model = canned(text_reply("Done."))
    await post(rig, "v1/responses", responses(item("user", TASK), tools=tools))
    assert [tool.name for tool in model.requests[0].tools] == ["work"]
    (called,) = rig.of(ModelCalled)
    parameters = json.loads(called.parameters_json)
    assert (parameters["dropped_tools"], parameters["deferred_tools"]) == (["web_search"], ["ask_user"])
    assert [tool["function"]["name"] for tool in json.loads(called.tools_json)] == ["work", "ask_user", "web_search"]


UNKNOWN = {"store": True, "prompt_cache_key": "x", "context_management": {"edits": []}, "something_new": [1]}


@pytest.mark.parametrize(
    ("path", "body", "sent", "left_out"),
    [
        (
            "v1/chat/completions",
            chat(user(TASK), temperature=0.5, stop=["```"], max_completion_tokens=9, tool_choice="required"),
            {"temperature": 0.5, "stop": ["```"], "max_completion_tokens": 9, "tool_choice": "required"},
            set(),
        ),
        (
            "v1/responses",
            responses(item("user", TASK), max_output_tokens=9, reasoning={"effort": "low"}, include=["x"]),
            {"max_tokens": 9, "reasoning_effort": "low"},
            {"include"},
        ),
        (
            "v1/messages?beta=true",
            messages(
                user(TASK),
                stop_sequences=["```"],
                tool_choice={"type": "any", "disable_parallel_tool_use": True},
                thinking={"type": "adaptive"},
                cache_control={"type": "ephemeral"},
            ),
            {"max_tokens": 100, "stop": ["```"], "tool_choice": "required", "parallel_tool_calls": False},
            {"thinking", "cache_control"},
        ),
        (
            "v1/responses",
            responses(item("user", TASK), text={"format": {"type": "json_schema", "name": "n", "schema": {}}}),
            {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {}}}},
            set(),
        ),
        (
            "v1/messages",
            messages(user(TASK), output_config={"format": {"type": "json_schema", "schema": {}}, "effort": "low"}),
            {
                "max_tokens": 100,
                "response_format": {"type": "json_schema", "json_schema": {"name": "reply", "schema": {}}},
                "reasoning_effort": "low",
            },
            set(),
        ),
        ("v1/messages", messages(user(TASK), output_config={"effort": "max"}), {"max_tokens": 100}, {"output_config"}),
    ],
    ids=["chat", "responses", "messages", "schema of responses", "schema of messages", "unknown effort"],
)
async def test_parameters_are_forwarded_or_recorded_as_dropped(path, body, sent, left_out):
    """Nothing is refused; what a model of ours does not know by an OpenAI name stands in the record of the call."""
    rig, model = canned(text_reply("Done."))
    await post(rig, path, {**body, **UNKNOWN})
    assert model.requests[0].parameters == sent
    parameters = json.loads(rig.of(ModelCalled)[0].parameters_json)
    dropped = parameters.pop("dropped_parameters")
    assert set(dropped) == {*UNKNOWN, *left_out}
    assert parameters == {**sent, "requested_model": "m"}


def test_messages_may_hold_system_turns_and_blocks_of_all_kinds():
    """System texts keep their places; results, texts and pictures of one message are turns in their order."""
    body = messages(
        {"role": "system", "content": "one"},
        {"role": "user", "content": [block("two"), block("three"), {"type": "image", "source": {"data": "=="}}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, block("four")]},
        {"role": "system", "content": [block("five")]},
        {"role": "user", "content": "six"},
        system="zero",
    )
    read = seen(MESSAGES.requests.read(body).turns)
    assert [role for role, _ in read] == ["system", "system", "user", "assistant", "system", "user"]
    assert [text for _, text in read if "two" not in text] == ["zero", "one", "four", "five", "six"]
    assert read[2][1].startswith("two\nthree\n[image ")


def test_developer_items_and_instructions_are_system_texts():
    """So are developer messages of chat completions."""
    body = responses(item("developer", "rules"), {"role": "user", "content": "hi"}, instructions="first")
    assert seen(RESPONSES.requests.read(body).turns) == [("system", "first"), ("system", "rules"), ("user", "hi")]
    assert seen(RESPONSES.requests.read(responses(instructions="") | {"input": "hi"}).turns) == [("user", "hi")]
    assert seen(CHAT.requests.read(chat({"role": "developer", "content": "rules"})).turns) == [("system", "rules")]


def test_what_the_model_runs_itself_is_no_call():
    """A search at the provider has no result from the agent, and reasoning is nobody's text."""
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "boats"}}
    reasoning = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "secret"}]}
    shell = {"type": "local_shell_call", "call_id": "s", "action": {"command": ["ls"]}}
    given = {"type": "local_shell_call_output", "call_id": "s", "output": "boats"}
    items = [
        item("user", "hi"),
        reasoning,
        search,
        item("assistant", "Found."),
        shell,
        given,
        reasoning,
        call_item("b"),
    ]
    turns = RESPONSES.requests.read(responses(*items)).turns
    assert seen(turns) == [("user", "hi"), ("assistant", "Found."), ("tool", "boats"), ("assistant", "")]
    calls = [[(call.call_id, call.name) for call in turn.message.tool_calls] for turn in turns]
    assert calls == [[], [("s", "local_shell")], [], [("b", "work")]]


def test_references_to_items_are_resolved():
    """Some agents name the items of earlier replies instead of repeating them; unknown ones are refused."""
    memory = {}
    request = RESPONSES.requests.read(responses(item("user", "hi")))
    output = [{**call_item("a"), "id": "fc_1"}]
    RESPONSES.requests.keep(request, {"id": "resp_1", "output": output}, memory)
    by_name = responses(item("user", "hi"), {"type": "item_reference", "id": "fc_1"}, output_item("a"))
    whole = RESPONSES.requests.whole(RESPONSES.requests.read(by_name), memory)
    assert whole.body["input"] == [item("user", "hi"), output[0], output_item("a")]
    with pytest.raises(GatewayRefusal, match="fc_2"):
        RESPONSES.requests.whole(RESPONSES.requests.read(responses({"type": "item_reference", "id": "fc_2"})), memory)


def test_what_is_not_to_be_stored_is_not_kept():
    """A response with ``store: false`` cannot be named by a later request."""
    memory = {}
    request = RESPONSES.requests.read(responses(item("user", "hi"), store=False))
    RESPONSES.requests.keep(request, {"id": "resp_1", "output": []}, memory)
    assert memory == {}
    again = RESPONSES.requests.read(responses(item("user", "more"), previous_response_id="resp_1"))
    with pytest.raises(GatewayRefusal, match="resp_1"):
        RESPONSES.requests.whole(again, memory)


CALL = ToolCall(call_id="a", name="work", arguments_json='{"n":1}')
REPLIES = [
    Message(role="assistant", content="Hello, wörld."),
    Message(role="assistant", content="", tool_calls=(CALL,)),
    Message(role="assistant", content="Both.", tool_calls=(CALL, ToolCall(call_id="b", name="x", arguments_json="{}"))),
    Message(role="assistant", content=""),
]


@pytest.mark.parametrize("reason", ["stop", "length"])
@pytest.mark.parametrize("message", REPLIES, ids=["text", "call", "both", "nothing"])
@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
def test_a_reply_that_is_written_is_read_back(wire, message, reason):
    """Text, calls, tokens and why it ended survive each wire in both directions."""
    make = {"chat": chat(user("hi")), "messages": messages(user("hi")), "responses": responses(item("user", "hi"))}
    make["gemini"] = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
    request = msgspec.structs.replace(wire.requests.read(make[wire.name]), model="m")
    own = {"messages": {"cache_write_tokens": 2}, "responses": {"reasoning_tokens": 1}}.get(wire.name, {})
    usage = Usage(input_tokens=10, output_tokens=3, cached_input_tokens=4, **own)
    ended_by = "tool_calls" if message.tool_calls and reason == "stop" else reason
    reply = ModelReply(message=message, finish_reason=ended_by, usage=usage, served_model="m")
    body = wire.replies.written(reply, request, "1", 0)
    assert wire.replies.read(json.loads(json.dumps(body))) == reply
    if message.tool_calls:
        ids = [f"{call.call_id}-2" for call in message.tool_calls]
        renamed = wire.replies.read(wire.replies.with_call_ids(body, ids))
        assert [call.call_id for call in renamed.message.tool_calls] == ids


@pytest.mark.parametrize("wants_usage", [True, False])
async def test_tokens_are_streamed_as_they_were_counted(wants_usage):
    """Chat completions tell them in a chunk of their own, if asked; the other wires always."""
    rig, _ = canned(text_reply("Done."))
    options = {"stream_options": {"include_usage": True}} if wants_usage else {}
    async with rig.client() as client:
        text = (await client.post("v1/chat/completions", json=chat(user(TASK), stream=True, **options))).text
        chunks = [json.loads(data) for _, data in events_of(text) if data != "[DONE]"]
        assert [chunk["usage"]["prompt_tokens"] for chunk in chunks if chunk.get("usage")] == [10] * wants_usage
        text = (await client.post("v1/messages", json=messages(user(TASK), stream=True))).text
        usages = [
            json.loads(data).get("usage") or json.loads(data).get("message", {}).get("usage")
            for _, data in events_of(text)
        ]
        assert usages[0] == {
            "input_tokens": 6,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 4,
            "output_tokens": 0,
        }
        assert [usage["output_tokens"] for usage in usages if usage] == [0, 2]


@pytest.mark.thorough
async def test_the_unmodified_openai_client_understands_every_stream():
    """Its own helpers put chat completions and responses together, with tools and tokens."""
    rig, _ = canned(tool_reply(("a", "work", '{"n":1}'), text="First."))
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app=rig.gateway.app()))
    async with openai.AsyncOpenAI(base_url=f"{rig.base}v1", api_key="none", http_client=http) as client:
        tools = chat(user(TASK))["tools"]
        tools[0]["function"]["strict"] = True
        async with client.chat.completions.stream(model="m", messages=[user(TASK)], tools=tools) as stream:
            completion = await stream.get_final_completion()
        message = completion.choices[0].message
        assert (message.content, message.tool_calls[0].function.arguments) == ("First.", '{"n":1}')
        async with client.responses.stream(model="m", input="Another.", tools=responses()["tools"]) as stream:
            kinds = [event.type async for event in stream]
            response = await stream.get_final_response()
        assert (kinds[0], kinds[-1]) == ("response.created", "response.completed")
        assert (response.output_text, response.output[1].arguments) == ("First.", '{"n":1}')
        assert response.usage.input_tokens == 10
        assert [model.id for model in (await client.models.list()).data] == ["canned"]


async def test_the_unmodified_azure_client_finds_its_deployment():
    """Its path names the deployment, and its token is in a header of its own."""
    rig, _ = canned(text_reply("Done."), token="secret")
    http = httpx.AsyncClient(transport=httpx.ASGITransport(app=rig.gateway.app()))
    options = {"azure_endpoint": rig.base, "api_version": "2024-10-21", "http_client": http, "max_retries": 0}
    async with openai.AsyncAzureOpenAI(api_key="secret", **options) as client:
        completion = await client.chat.completions.create(model="m", messages=[user(TASK)])
        assert completion.choices[0].message.content == "Done."
        with pytest.raises(openai.NotFoundError):
            await client.with_options(api_key="other").chat.completions.create(model="m", messages=[user(TASK)])
    assert len(rig.of(ModelCalled)) == 1
