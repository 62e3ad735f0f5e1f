"""Providers behind the gateway: the agent's own wire where they speak it, their failures, what tokens cost."""

import asyncio
import contextlib
import json
import threading

import pytest
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

from lhaw_record.recorder.events import ModelCalled, ModelFailed, ModelResponded
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.gateway import native_upstream
from lhaw_record.runners.models.gateway.app import Gateway
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError
from tests.runners.models.gateway.rigs import KEY, Rig, canned, injection_after, tool
from tests.runners.models.gateway.serving import serving
from tests.runners.models.gateway.shapes import TASK, block, chat, item, messages, responses, user
from tests.runners.models.gateway.tiny_agents import AGENTS
from tests.support.canned_model import CannedModel, text_reply, tool_reply
from tests.support.chat_server import ChatServer
from tests.support.faults import IN_BAND, Fault

pytestmark = pytest.mark.usefixtures("closed_clients")

PRICE = Price(input_usd_per_million_tokens=2.0, output_usd_per_million_tokens=10.0)
PATHS = {"chat": "v1/chat/completions", "responses": "v1/responses", "messages": "v1/messages"}
# The gateway itself is a provider that speaks all three wires: a model's name, the base of its address, and the wire.
NATIVE = {"chat": ("own", "/v1"), "responses": ("openai/own", "/v1"), "messages": ("anthropic/own", "")}


@contextlib.asynccontextmanager
async def behind(name, base, provider, *, injection=None, price=None, **options):
    """A rig whose provider is another rig's gateway, or a Provider."""
    is_rig = isinstance(provider, Rig)
    async with serving(provider.gateway.app() if is_rig else provider.app) as url:
        prefix = f"/t/{KEY}" if is_rig else ""
        upstream = LitellmUpstream(LitellmModel(name, f"{url}{prefix}{base}", "key", price), **options)
        yield Rig(upstream, injection=injection)


async def post(rig, path, body, **headers):
    """Send one request."""
    async with rig.client() as client:
        return await client.post(path, json=body, headers=headers)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("is_native", [True, False], ids=["own wire", "any wire"])
@pytest.mark.parametrize("wire", NATIVE)
async def test_a_whole_trial_through_litellm(wire, is_native):
    """Actions, tokens, price and the place of the message are the same, whether the provider speaks the wire or not."""
    replies = [
        tool_reply(("a", "work", '{"n":1}'), ("b", "work", "{}")),
        tool_reply(("c", "work", "{}")),
        text_reply("End."),
    ]
    provider, model = canned(*replies)
    name, base = NATIVE[wire] if is_native else NATIVE["chat"]

    async def run(name, arguments):
        return f"{name} {arguments}"

    async with behind(name, base, provider, price=PRICE, injection=injection_after(1)) as rig, rig.client() as client:
        agent = AGENTS[wire](client, (tool("work"),), run, TASK, system="Be brief.")
        assert await agent.work() == "End."
        await rig.session.close("submitted")
    assert [each[1:] for each in rig.actions()] == [
        ("work", '{"n":1}'),
        ("work", "{}"),
        ("work", "{}"),
        ("message", "{}"),
    ]
    assert [message.content for message in model.requests[1].messages][-2:] == ["work {}", "By the way: blue."]
    usages = [
        (event.usage.input_tokens, event.usage.output_tokens, event.usage.cached_input_tokens)
        for event in rig.of(ModelResponded)
    ]
    assert usages == [(10, 2, 0), (10, 2, 0), (10, 2, 4)]
    assert rig.session.total_usage.cost_usd == pytest.approx(3 * (10 * 2.0 + 2 * 10.0) / 1e6)
    calls = [event.call_kind for event in provider.of(ModelCalled)]
    assert calls == ["main"] * 3
    paths = {json.loads(event.parameters_json).get("requested_model") for event in provider.of(ModelCalled)}
    assert paths == {"own"}
    rig.check_conversations()


class Provider:
    """Keeps what it is sent and answers with a prepared body."""

    def __init__(self, body, status=200, headers=None):
        self.requests = []
        self.headers = []

        async def answer(request):
            self.requests.append(json.loads(await request.body()))
            self.headers.append(dict(request.headers))
            return JSONResponse(body, status, headers)

        self.app = Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])


@pytest.mark.parametrize("status", [200, 429])
@pytest.mark.parametrize("sent", ["caf\xe9".encode("latin-1"), "caf\xe9".encode()], ids=["latin-1", "utf-8"])
async def test_a_providers_headers_arrive_as_the_bytes_that_they_are(sent, status):
    """HTTP says nothing of their encoding."""
    reply = {"choices": [{"message": {"role": "assistant", "content": "Hi."}, "finish_reason": "stop"}]}
    provider = Provider(reply, status, {"x-request-id": sent.decode("latin-1")})
    async with behind(*NATIVE["chat"], provider) as rig:
        response = await post(rig, PATHS["chat"], chat(user(TASK)))
    assert dict(response.headers.raw)[b"x-request-id"] == sent


async def test_a_large_reply_is_read_beside_the_loop(monkeypatch):
    """What it costs to read is the server's choice, also where it is neither streamed nor nested."""
    threads, read = set(), native_upstream.decoded
    monkeypatch.setattr(
        native_upstream, "decoded", lambda *arguments: threads.add(threading.current_thread()) or read(*arguments)
    )
    provider, _ = canned(text_reply("x" * 100_000))
    async with behind(*NATIVE["chat"], provider) as rig:
        assert (await post(rig, PATHS["chat"], chat(user(TASK)))).status_code == 200
    assert threading.main_thread() not in threads
    assert len(threads) == 1


async def test_nothing_of_a_request_over_responses_is_lost():
    """Items, tools and unknown fields reach a provider that has Responses as they are; the reply keeps its items."""
    output = [
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "zz"},
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "b",
            "name": "ask_user",
            "namespace": "mcp__u",
            "arguments": "{}",
        },
    ]
    usage = {"input_tokens": 10, "output_tokens": 3, "total_tokens": 13, "input_tokens_details": {"cached_tokens": 4}}
    provider = Provider(
        {
            "id": "resp_up",
            "object": "response",
            "created_at": 1,
            "status": "completed",
            "model": "real",
            "output": output,
            "usage": usage,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": [],
        }
    )
    tools = [
        {"type": "namespace", "name": "mcp__u", "tools": [{"type": "function", "name": "ask_user", "parameters": {}}]},
        {"type": "custom", "name": "patch"},
        {"type": "web_search"},
    ]
    items = [
        item("developer", "rules"),
        {"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "yy"},
        {"type": "custom_tool_call", "call_id": "a", "name": "patch", "input": "x"},
        {"type": "custom_tool_call_output", "call_id": "a", "output": "ok"},
    ]
    fields = {
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "k",
        "client_metadata": {"a": "b"},
    }
    async with behind("openai/own", "/v1", provider) as rig:
        body = responses(*items, tools=tools, instructions="first", **fields)
        reply = (await post(rig, "v1/responses", body, **{"openai-beta": "x"})).json()
    (sent,) = provider.requests
    assert {name: sent[name] for name in ("input", "tools", "instructions", *fields)} == {
        "input": items,
        "tools": tools,
        "instructions": "first",
        **fields,
    }
    assert (sent["model"], provider.headers[0]["openai-beta"]) == ("own", "x")
    assert [each["type"] for each in reply["output"]] == ["reasoning", "function_call"]
    assert (reply["output"][0]["encrypted_content"], reply["output"][1]["namespace"]) == ("zz", "mcp__u")
    assert reply["id"] != "resp_up"
    (responded,) = rig.of(ModelResponded)
    assert (responded.served_model, responded.tool_calls[0].name) == ("real", "mcp__u__ask_user")


async def test_what_messages_can_hold_reaches_its_provider_and_the_rest_is_recorded():
    """Cache marks, thinking, betas and deferred tools go through; a parameter that the wire lacks is on the record."""
    content = [{"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "Hi"}]
    provider = Provider(
        {
            "id": "msg_up",
            "type": "message",
            "role": "assistant",
            "model": "real",
            "content": content,
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": {
                "input_tokens": 6,
                "output_tokens": 3,
                "cache_read_input_tokens": 4,
                "cache_creation_input_tokens": 2,
            },
        }
    )
    tools = [{"name": "work", "input_schema": {"type": "object"}, "defer_loading": True}]
    body = messages(
        {"role": "user", "content": [block(TASK, cache_control={"type": "ephemeral"})]},
        tools=tools,
        system=[block("hash"), block("rules", cache_control={"type": "ephemeral"})],
        thinking={"type": "enabled", "budget_tokens": 1024},
        context_management={"edits": []},
        cache_control={"type": "ephemeral"},
    )
    async with behind("anthropic/own", "", provider, parameters={"seed": 7}) as rig:
        reply = (await post(rig, "v1/messages", {**body, "max_tokens": 2000}, **{"anthropic-beta": "some-beta"})).json()
    (sent,) = provider.requests
    for name in ("messages", "system", "tools", "thinking", "context_management", "cache_control"):
        assert sent[name] == body[name]
    assert "some-beta" in provider.headers[0]["anthropic-beta"]
    assert (reply["content"], reply["usage"]["cache_read_input_tokens"]) == (content, 4)
    parameters = json.loads(rig.of(ModelCalled)[0].parameters_json)
    assert parameters["dropped_parameters"] == {"seed": 7}
    (responded,) = rig.of(ModelResponded)
    assert (responded.text, responded.usage.input_tokens, responded.usage.cached_input_tokens) == ("Hi", 12, 4)


PICTURE = "iVBORw0KGgo="
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
RICH = {
    "chat": chat(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": TASK},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}", "detail": "low"}},
            ],
        },
        {"role": "assistant", "content": "Hm.", "reasoning_content": "Which?"},
        user("Go on."),
        response_format={"type": "json_schema", "json_schema": {"name": "n", "strict": True, "schema": SCHEMA}},
        reasoning_effort="low",
    ),
    "responses": responses(
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": TASK},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}", "detail": "auto"},
            ],
        },
        {"type": "reasoning", "id": "rs_0", "summary": [], "encrypted_content": "yy"},
        item("assistant", "Hm."),
        item("user", "Go on."),
        text={"format": {"type": "json_schema", "name": "n", "strict": True, "schema": SCHEMA}},
        reasoning={"effort": "low", "summary": "auto"},
    ),
    "messages": messages(
        {
            "role": "user",
            "content": [
                block(TASK),
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PICTURE}},
            ],
        },
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, block("Hm.")]},
        user("Go on."),
        output_config={"format": {"type": "json_schema", "schema": SCHEMA}, "effort": "low"},
        thinking={"type": "adaptive"},
    ),
}


@pytest.mark.parametrize("wire", RICH)
async def test_pictures_schemas_and_reasoning_reach_a_server_of_ones_own(wire):
    """A server that speaks the dialect gets the request as it came, but for the model's name."""
    provider = Provider({"error": {"message": "busy"}}, 503)
    async with behind("own", "/v1", provider, api_wires=tuple(RICH)) as rig:
        assert (await post(rig, PATHS[wire], RICH[wire])).status_code == 503
    assert provider.requests == [{**RICH[wire], "model": "own"}]


LIMITED = {
    "chat": {"error": {"message": "Slow down.", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}},
    "responses": {"error": {"message": "Slow down.", "type": "tokens", "param": None, "code": "rate_limit_exceeded"}},
    "messages": {"type": "error", "error": {"type": "rate_limit_error", "message": "Slow down."}, "request_id": "req"},
}


@pytest.mark.parametrize("wire", NATIVE)
async def test_the_code_of_an_error_and_the_headers_of_a_limit_reach_the_agent(wire):
    """Clients decide by them when to ask again: body and headers are the provider's own, other headers stay here."""
    shown = {
        "retry-after": "3",
        "x-should-retry": "true",
        "x-ratelimit-remaining-tokens": "0",
        "anthropic-ratelimit-tokens-remaining": "0",
        "request-id": "req",
    }
    provider = Provider(LIMITED[wire], 429, {**shown, "set-cookie": "a=b"})
    make = {"chat": chat(user(TASK)), "messages": messages(user(TASK)), "responses": responses(item("user", TASK))}
    async with behind(*NATIVE[wire], provider) as rig:
        response = await post(rig, PATHS[wire], make[wire])
    assert (response.status_code, response.json()) == (429, LIMITED[wire])
    assert {name: response.headers.get(name) for name in [*shown, "set-cookie"]} == {**shown, "set-cookie": None}


async def test_the_experiments_parameters_go_before_the_agents():
    """What the file sets is sent and recorded, whatever the agent asks for; its other parameters stay."""
    provider, model = canned(text_reply("Done."))
    async with behind("own", "/v1", provider, parameters={"temperature": 0.0, "seed": 3, "max_tokens": 50}) as rig:
        body = messages(user(TASK), temperature=1.0, stop_sequences=["x"])
        assert (await post(rig, "v1/messages", body)).status_code == 200
    assert model.requests[0].parameters == {"temperature": 0.0, "seed": 3, "max_tokens": 50, "stop": ["x"]}


EFFORTS = {
    # The page of each provider: "Reasoning models", "Effort" and "Extended thinking" (it refuses other temperatures),
    # "Gemini thinking".
    "responses": (
        ("openai/gpt-5", "/v1", "v1/responses"),
        responses(item("user", TASK), reasoning={"effort": "low", "summary": "auto"}),
        {"reasoning_effort": "high"},
        {"reasoning": {"effort": "high", "summary": "auto"}},
    ),
    "messages, effort": (
        ("anthropic/claude-opus-4-6", "", "v1/messages"),
        messages(user(TASK), output_config={"format": {"type": "json_schema"}}, temperature=0.0),
        {"reasoning_effort": "high"},
        {
            "output_config": {"format": {"type": "json_schema"}, "effort": "high"},
            "thinking": {"type": "adaptive", "display": "summarized"},
            "temperature": None,
        },
    ),
    "messages, tokens": (
        ("anthropic/claude-sonnet-4-6", "", "v1/messages"),
        messages(user(TASK), temperature=0.0, max_tokens=8000),
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"thinking": {"type": "enabled", "budget_tokens": 2000}, "temperature": None},
    ),
    "messages, a short side call": (
        ("anthropic/claude-sonnet-4-6", "", "v1/messages"),
        messages(user(TASK), max_tokens=200),
        {"thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"thinking": None, "max_tokens": 200},
    ),
    "no word for it": (
        ("openai/gpt-5", "/v1", "v1/responses"),
        responses(item("user", TASK)),
        {"reasoning_effort": "high", "thinking": {"type": "enabled", "budget_tokens": 2000}},
        {"reasoning": {"effort": "high"}, "thinking": None},
    ),
    "gemini": (
        ("gemini/gemini-3-pro-preview", "", "v1beta/models/m:generateContent"),
        {"contents": [{"role": "user", "parts": [{"text": TASK}]}], "generationConfig": {"maxOutputTokens": 9}},
        {"reasoning_effort": "high"},
        {
            "generationConfig": {
                "maxOutputTokens": 9,
                "thinkingConfig": {"thinkingLevel": "high", "includeThoughts": True},
            }
        },
    ),
}


@pytest.mark.parametrize("case", EFFORTS)
async def test_how_much_the_file_lets_a_model_reason_reaches_its_provider(case):
    """In the provider's words; what it refuses beside them is left out and recorded, the rest of the agent's stays."""
    (name, base, path), body, parameters, expected = EFFORTS[case]
    provider = Provider({"error": {"message": "busy"}}, 503)
    async with behind(name, base, provider, parameters=parameters) as rig:
        assert (await post(rig, path, body)).status_code == 503
    (called,) = rig.of(ModelCalled)
    recorded = json.loads(called.parameters_json)
    assert {field: provider.requests[0].get(field) for field in expected} == expected
    assert {field: recorded.get(field) for field in expected} == expected
    assert [*recorded.get("dropped_parameters", {})] == [name for name, value in expected.items() if value is None]


async def test_a_provider_that_repeats_its_ids_is_told_apart():
    """Every call id is served once in a trial, also where the body of the provider is passed on."""
    call = {"id": "same", "type": "function", "function": {"name": "work", "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    provider = Provider(
        {"id": "1", "object": "chat.completion", "created": 1, "model": "real", "choices": [choice], "usage": {}}
    )
    async with behind("own", "/v1", provider) as rig:
        first = (await post(rig, PATHS["chat"], chat(user(TASK)))).json()["choices"][0]["message"]
        history = [user(TASK), first, {"role": "tool", "tool_call_id": "same", "content": "done"}]
        second = (await post(rig, PATHS["chat"], chat(*history))).json()["choices"][0]["message"]
    assert first["tool_calls"][0]["id"] == "same" != second["tool_calls"][0]["id"]
    assert rig.of(ModelResponded)[1].tool_calls[0].call_id == second["tool_calls"][0]["id"]


FAILED_REPLIES = {
    **{form: ("chat", body, kind) for form, (body, kind) in IN_BAND.items()},
    # docs.anthropic.com/en/api/errors: the same object as with a status of 529
    "messages": ("messages", {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, "server_error"),
    "messages_limit": ("messages", {"type": "error", "error": {"type": "rate_limit_error"}}, "rate_limit"),
    # platform.openai.com/docs/api-reference/responses/object: status failed, error.code rate_limit_exceeded
    "responses": (
        "responses",
        {
            "id": "r",
            "object": "response",
            "created_at": 0,
            "status": "failed",
            "model": "own",
            "output": [],
            "error": {"code": "rate_limit_exceeded", "message": "x"},
            "parallel_tool_calls": True,
            "tools": [],
            "tool_choice": "auto",
            "metadata": {},
            "incomplete_details": None,
            "instructions": None,
        },
        "rate_limit",
    ),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", FAILED_REPLIES)
async def test_an_error_that_comes_as_a_reply_is_told_with_a_status(form):
    """HTTP 200 with an error in its body reaches no agent as a reply: it is recorded as failed, and repeatable."""
    wire, body, kind = FAILED_REPLIES[form]
    make = {"chat": chat(user(TASK)), "responses": responses(user(TASK)), "messages": messages(user(TASK))}
    async with behind(*NATIVE[wire], Provider(body)) as rig:
        response = await post(rig, PATHS[wire], make[wire])
        assert response.status_code == (429 if kind == "rate_limit" else 502)
    (failed,) = rig.of(ModelFailed)
    assert failed.error_kind == kind
    assert not rig.of(ModelResponded)


@pytest.mark.parametrize("number", [10**30, 2**63, -5])
async def test_a_number_of_tokens_that_is_none_is_unknown(number):
    """A server's nonsense in place of a number of tokens spoils no reply, and no sum."""
    message = {"role": "assistant", "content": "Done."}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    usage = {"prompt_tokens": number, "completion_tokens": 2, "total_tokens": 2}
    reply = {"id": "1", "object": "chat.completion", "created": 1, "model": "real", "choices": [choice], "usage": usage}
    async with behind("own", "/v1", Provider(reply), price=PRICE) as rig:
        answer = await post(rig, PATHS["chat"], chat(user(TASK)))
    assert answer.json()["choices"][0]["message"]["content"] == "Done."
    assert [(event.usage.input_tokens, event.usage.output_tokens) for event in rig.of(ModelResponded)] == [(None, 2)]
    assert rig.session.total_usage.cost_usd is None


ERRORS = {
    429: ModelError("m: wait", kind="rate_limit", is_retryable=True, http_status=429, retry_after_s=3.0),
    500: ModelError("m: broke", kind="server_error", is_retryable=True, http_status=500),
    529: ModelError("m: busy", kind="server_error", is_retryable=True, http_status=529),
    400: ModelError("m: no such field", kind="bad_request", is_retryable=False, http_status=400),
    401: ModelError("m: who are you", kind="authentication", is_retryable=False, http_status=401),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("wire", NATIVE)
@pytest.mark.parametrize("status", ERRORS)
async def test_the_status_of_a_provider_is_passed_on(status, wire):
    """On every wire; the provider is asked once, because agents repeat requests themselves; no trace, no key."""
    provider, model = canned(ERRORS[status])
    name, base = NATIVE[wire]
    make = {"chat": chat(user(TASK)), "messages": messages(user(TASK)), "responses": responses(item("user", TASK))}
    async with behind(name, base, provider) as rig:
        response = await post(rig, PATHS[wire], make[wire])
    assert response.status_code == status
    assert len(model.requests) == 1
    (failed,) = rig.of(ModelFailed)
    assert (failed.http_status, failed.error_kind) == (status, ERRORS[status].kind)
    assert response.headers.get("retry-after") == ("3" if status == 429 else None)
    assert "Traceback" not in response.text
    assert "key" not in response.text.replace("provider's key", "")


@pytest.mark.parametrize(
    ("fault", "status", "kind"),
    [
        ("context_window", 400, "context_window"),
        ("not_json", 502, "malformed_reply"),
        ("no_choices", 502, "malformed_reply"),
        ("drop", 502, "connection"),
    ],
)
@pytest.mark.parametrize("wire", ["chat", "messages"])
async def test_what_is_wrong_with_a_server_is_known_by_its_kind(fault, status, kind, wire):
    """Nonsense and a cut connection are 502, so that agents ask again; a conversation that is too long is 400."""
    make = {"chat": chat(user(TASK)), "messages": messages(user(TASK))}
    async with ChatServer(CannedModel([text_reply("Hi")]), [Fault(kind=fault)]) as server:
        rig = Rig(LitellmUpstream(LitellmModel("own", server.url)))
        response = await post(rig, PATHS[wire], make[wire])
        assert response.status_code == status
        assert rig.of(ModelFailed)[0].error_kind == kind
        assert (await post(rig, PATHS[wire], make[wire])).status_code == 200
    assert [kind for _, kind in rig.kinds()] == ["main", "retry"]


@pytest.mark.parametrize("wire", NATIVE)
async def test_a_reply_cut_in_the_middle_is_a_failure(wire):
    """Half a body is no reply: it is recorded as a failure and the agent gets a status to ask again at."""

    async def half(reader, writer):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(next(line for line in head.lower().split(b"\r\n") if b"content-length" in line).split(b":")[1])
        await reader.readexactly(length)
        writer.write(
            b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{"id": "1", "cho'
        )
        await writer.drain()
        writer.close()

    make = {"chat": chat(user(TASK)), "messages": messages(user(TASK)), "responses": responses(item("user", TASK))}
    server = await asyncio.start_server(half, "127.0.0.1", 0)
    async with server:
        name, base = NATIVE[wire]
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{base}"
        rig = Rig(LitellmUpstream(LitellmModel(name, url, "key")))
        response = await post(rig, PATHS[wire], {**make[wire], "stream": True})
    assert response.status_code == 502
    assert [event.error_kind for event in rig.of(ModelFailed)] == ["connection"]


@pytest.mark.parametrize("wire", NATIVE)
async def test_a_silent_provider_is_left_in_time(wire):
    """504 after the time that a request may take."""
    provider, model = canned(text_reply("late"))

    async def respond(request):
        await asyncio.Event().wait()

    model.respond = respond
    make = {"chat": chat(user(TASK)), "messages": messages(user(TASK)), "responses": responses(item("user", TASK))}
    name, base = NATIVE[wire]
    async with behind(name, base, provider, timeout_s=0.3) as rig:
        response = await post(rig, PATHS[wire], make[wire])
    assert response.status_code == 504
    assert [event.error_kind for event in rig.of(ModelFailed)] == ["timeout"]


@pytest.mark.parametrize(
    ("written", "millionths"),
    [
        ({}, 0),
        ({"cache_creation_input_tokens": 2_000}, 2_000 * 3.75),
        (
            {
                "cache_creation_input_tokens": 2_000,
                "cache_creation": {"ephemeral_5m_input_tokens": 500, "ephemeral_1h_input_tokens": 1_500},
            },
            500 * 3.75 + 1_500 * 6.0,
        ),
    ],
)
async def test_known_models_have_their_price_on_every_wire(written, millionths):
    """Where the file gives no price, litellm's bundled table does, and caches have their own rates.

    Anthropic's page on prompt caching gives them: reading costs a tenth of the input, writing 1.25 times as much for
    five minutes and twice as much for an hour.
    """
    usage = {"input_tokens": 6_000, "output_tokens": 1_000, "cache_read_input_tokens": 4_000, **written}
    provider = Provider(
        {
            "id": "m",
            "type": "message",
            "role": "assistant",
            "model": "claude-sonnet-4-6",
            "content": [],
            "stop_reason": "end_turn",
            "stop_sequence": None,
            "usage": usage,
        }
    )
    async with behind("anthropic/claude-sonnet-4-6", "", provider) as rig:
        assert (await post(rig, "v1/messages", messages(user(TASK)))).status_code == 200
    assert rig.session.total_usage.cost_usd == pytest.approx((6 * 3.0 + 4 * 0.3 + 1 * 15.0) / 1000 + millionths / 1e6)
    assert rig.session.total_usage.input_tokens == 10_000 + written.get("cache_creation_input_tokens", 0)
    (responded,) = rig.of(ModelResponded)
    assert responded.usage.cache_write_tokens == (2_000 if written else None)


@pytest.mark.thorough
@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_a_word_for_litellm_is_no_part_of_the_providers_name(wire):
    """OpenAI knows ``gpt-5``, and its price: ``responses/`` only tells litellm how the native agent calls it."""
    usage = {"prompt_tokens": 1_000, "completion_tokens": 100, "input_tokens": 1_000, "output_tokens": 100}
    turn = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}
    answer = {"id": "x", "status": "completed", "model": "gpt-5", "output": [], "choices": [turn], "usage": usage}
    provider = Provider(answer)
    async with behind("openai/responses/gpt-5", "/v1", provider) as rig:
        body = responses(item("user", TASK)) if wire == "responses" else chat(user(TASK))
        assert (await post(rig, PATHS[wire], body)).status_code == 200
    assert [sent["model"] for sent in provider.requests] == ["gpt-5"]
    assert rig.session.total_usage.cost_usd == pytest.approx(1_000 * 1.25e-6 + 100 * 10e-6)


async def test_tokens_are_counted_by_the_models_tokenizer():
    """Without a network."""
    rig = Rig(LitellmUpstream(LitellmModel("anthropic/claude-sonnet-4-6")), gateway=Gateway())
    counted = await post(rig, "v1/messages/count_tokens", messages(user("boat " * 100)))
    assert 90 < counted.json()["input_tokens"] < 200


async def test_embeddings_are_passed_through_as_side_calls():
    """The body goes both ways as it came, tokens and price are counted, and nothing of it is an action."""
    asked = {"model": "own", "input": ["a", "b"], "encoding_format": "float"}
    row = {"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}
    reply = {"object": "list", "data": [row], "model": "e-1", "usage": {"prompt_tokens": 3, "total_tokens": 3}}
    provider = Provider(reply)
    async with behind("own", "/v1", provider, price=PRICE) as rig:
        assert (await post(rig, "v1/embeddings", asked)).json() == reply
        await rig.session.close("submitted")
    assert provider.requests == [asked]
    assert [(event.call_kind, event.model) for event in rig.of(ModelCalled)] == [("side", "own")]
    (responded,) = rig.of(ModelResponded)
    assert (responded.usage.input_tokens, responded.usage.cost_usd, rig.session.action_count) == (
        3,
        pytest.approx(6e-6),
        0,
    )
    rig.check_conversations()
    assert (await post(canned(text_reply("x"))[0], "v1/embeddings", asked)).status_code == 404
