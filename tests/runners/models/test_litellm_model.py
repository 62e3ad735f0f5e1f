"""LitellmModel over real HTTP: what arrives at the server, what comes back, and what each failure becomes."""

import json

import anyio
import msgspec
import pytest

from lhaw_record.runners.base.conversation.messages import Message, ToolCall, ToolDefinition
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError, ModelRequest
from tests.support.canned_model import CannedModel, text_reply, tool_reply
from tests.support.chat_server import ChatServer, chat_server
from tests.support.faults import IN_BAND, Fault, in_band

pytestmark = pytest.mark.usefixtures("closed_clients")

BASH = ToolDefinition(
    name="bash",
    description="Run a command.",
    input_schema={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
)
ASK = ModelRequest(
    messages=(Message(role="system", content="Be brief."), Message(role="user", content="List the files.")),
    tools=(BASH,),
    parameters={"temperature": 0, "max_tokens": 4096, "seed": 2},
    timeout_s=300.0,
)


async def failure_of(*faults, timeout_s=300.0, **options):
    """Return the ModelError of one request to a server with these faults."""
    async with chat_server(CannedModel([tool_reply(("a", "bash", "{}"))]), faults) as url:
        model = LitellmModel("local-model", api_base=url, **options)
        request = ModelRequest(messages=ASK.messages, tools=(BASH,), timeout_s=timeout_s)
        with pytest.raises(ModelError) as caught:
            await model.respond(request)
    return caught.value


async def reply_with(fault, canned=None):
    """Return the reply to one request to a server with this fault."""
    canned = canned or tool_reply(("a", "bash", '{"command": "ls"}'))
    async with chat_server(CannedModel([canned]), [fault]) as url:
        return await LitellmModel("local-model", api_base=url).respond(ASK)


async def test_request_arrives_as_it_was_made():
    """Messages, tools and generation parameters reach the server unchanged, under the model's own name."""
    async with ChatServer(CannedModel([text_reply("done")])) as server:
        await LitellmModel("Qwen/Qwen2.5-7B", api_base=server.url).respond(ASK)
    (body,) = server.requests
    assert body == {
        "model": "Qwen/Qwen2.5-7B",
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "List the files."}],
        "tools": [
            {
                "type": "function",
                "function": {"name": "bash", "description": "Run a command.", "parameters": BASH.input_schema},
            }
        ],
        "temperature": 0,
        "max_tokens": 4096,
        "seed": 2,
    }


async def test_reply_comes_back_whole():
    """Text, tool calls with their arguments to the byte, finish reason, tokens and the serving model are kept."""
    canned = tool_reply(("id-1", "bash", '{"command":  "ls"}'), text="Looking.")
    async with chat_server(CannedModel([canned])) as url:
        reply = await LitellmModel("local-model", api_base=url).respond(ASK)
    assert reply.message == canned.message
    assert reply.finish_reason == "tool_calls"
    assert (reply.usage.input_tokens, reply.usage.output_tokens, reply.usage.cost_usd) == (10, 2, None)


@pytest.mark.parametrize("finish_reason", ["length", "content_filter"])
async def test_unusual_finish_reasons_pass_through(finish_reason):
    """A reply that was cut or filtered is a reply; the loop decides what that means."""
    canned = text_reply("Half a sen")
    model = CannedModel([type(canned)(message=canned.message, finish_reason=finish_reason, usage=canned.usage)])
    async with chat_server(model) as url:
        reply = await LitellmModel("local-model", api_base=url).respond(ASK)
    assert reply.finish_reason == finish_reason


async def test_given_price_makes_the_cost():
    """With a price the cost is tokens times price: (6 x 2 + 4 x 1 + 2 x 10) / 1,000,000 dollars."""
    price = Price(
        input_usd_per_million_tokens=2, output_usd_per_million_tokens=10, cached_input_usd_per_million_tokens=1
    )
    async with chat_server(CannedModel([text_reply("done")])) as url:
        reply = await LitellmModel("local-model", api_base=url, price=price).respond(ASK)
    assert reply.usage.cached_input_tokens == 4
    assert reply.usage.cost_usd == pytest.approx(36e-6)


@pytest.mark.parametrize("cached", [None, 0])
async def test_cache_that_is_not_reported_is_unknown(cached):
    """A server that says nothing of its cache leaves the number unknown; one that says 0 read nothing."""
    canned = text_reply("done")
    usage = msgspec.structs.replace(canned.usage, cached_input_tokens=cached)
    async with chat_server(CannedModel([msgspec.structs.replace(canned, usage=usage)])) as url:
        reply = await LitellmModel("local-model", api_base=url).respond(ASK)
    assert reply.usage.cached_input_tokens == cached
    assert reply.usage.input_tokens == 10


async def test_own_server_never_sees_the_key_of_a_provider(monkeypatch):
    """An address given without a key gets no key, whatever stands in the environment; a given key arrives."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-belongs-to-somebody-else")
    async with ChatServer(CannedModel([text_reply("done")])) as server:
        await LitellmModel("local-model", api_base=server.url).respond(ASK)
        await LitellmModel("local-model", api_base=server.url, api_key="mine").respond(ASK)
    assert [headers["authorization"] for headers in server.headers] == ["Bearer no-key", "Bearer mine"]


async def test_parameters_of_an_own_server_reach_it():
    """Parameters without an OpenAI name, tables included, are sent to a compatible server as they are."""
    parameters = {"top_k": 5, "reasoning_effort": "low", "chat_template_kwargs": {"thinking": False}}
    request = ModelRequest(messages=ASK.messages, parameters=parameters, timeout_s=300.0)
    async with ChatServer(CannedModel([text_reply("done")])) as server:
        await LitellmModel("local-model", api_base=server.url).respond(request)
    assert {name: server.requests[0][name] for name in parameters} == parameters


async def test_history_is_sent_in_a_form_that_providers_accept():
    """Broken arguments of an earlier turn travel inside an object, empty text beside tool calls is left out."""
    broken = ToolCall(call_id="a", name="bash", arguments_json='{"command": "ls')
    empty = ToolCall(call_id="b", name="bash", arguments_json="")
    history = (
        *ASK.messages,
        Message(role="assistant", content="", tool_calls=(broken, empty)),
        Message(role="tool", content="not JSON", tool_call_id="a"),
        Message(role="tool", content="ok", tool_call_id="b"),
    )
    async with ChatServer(CannedModel([text_reply("done")])) as server:
        await LitellmModel("local-model", api_base=server.url).respond(ModelRequest(messages=history, timeout_s=300.0))
    turn = server.requests[0]["messages"][2]
    assert turn.get("content") is None
    sent = [json.loads(call["function"]["arguments"]) for call in turn["tool_calls"]]
    assert sent == [{"malformed_arguments": '{"command": "ls'}, {}]


async def test_rate_limit_tells_how_long_to_wait():
    """A 429 is a retryable rate limit with the provider's seconds, after exactly one request."""
    async with ChatServer(CannedModel([text_reply("x")]), [Fault(kind="rate_limit", retry_after="7")]) as server:
        with pytest.raises(ModelError) as caught:
            await LitellmModel("local-model", api_base=server.url).respond(ASK)
    error = caught.value
    assert (error.kind, error.is_retryable, error.http_status, error.retry_after_s) == ("rate_limit", True, 429, 7.0)
    assert str(error) == "local-model: rate limit (HTTP 429): too many requests, wait a little"
    assert len(server.requests) == 1


async def test_retry_after_may_be_a_date():
    """A date in the past means that no wait is needed; words that are neither number nor date are ignored."""
    past = await failure_of(Fault(kind="rate_limit", retry_after="Wed, 21 Oct 2015 07:28:00 GMT"))
    nonsense = await failure_of(Fault(kind="rate_limit", retry_after="soon"))
    assert (past.retry_after_s, nonsense.retry_after_s) == (0.0, None)


@pytest.mark.parametrize(
    ("fault", "kind", "is_retryable", "http_status"),
    [
        ("out_of_credit", "rate_limit", False, 429),
        ("server_error", "server_error", True, 500),
        ("overloaded", "server_error", True, 529),
        ("unauthorised", "authentication", False, 401),
        ("bad_request", "bad_request", False, 400),
        ("context_window", "context_window", False, 400),
        ("drop", "connection", True, None),
        ("not_json", "malformed_reply", True, None),
        ("no_choices", "malformed_reply", True, None),
        ("null_message", "malformed_reply", True, None),
        ("nameless_tool_call", "malformed_reply", True, None),
    ],
)
async def test_each_failure_has_its_kind(fault, kind, is_retryable, http_status):
    """What the server does decides the kind, not the class that litellm chose; the message is one plain line."""
    error = await failure_of(Fault(kind=fault))
    assert (error.kind, error.is_retryable, error.http_status) == (kind, is_retryable, http_status)
    assert "\n" not in str(error)
    assert "Traceback" not in str(error)
    assert "litellm" not in str(error).lower()


@pytest.mark.parametrize("form", sorted(IN_BAND))
async def test_an_error_that_comes_as_a_reply_is_a_failure(form):
    """HTTP 200 with an error in its body is no reply, whatever litellm makes of its finish reason; it is retried."""
    body, kind = IN_BAND[form]
    error = await failure_of(Fault(kind="answer", body=body))
    assert (error.kind, error.is_retryable, error.http_status) == (kind, True, None)
    assert "local-model" in str(error)


@pytest.mark.parametrize(("code", "kind"), [(400, "bad_request"), (401, "authentication"), (402, "other")])
async def test_a_refusal_that_comes_as_a_reply_is_not_repeated(code, kind):
    """Its code says that waiting changes nothing."""
    for body in ({"error": {"code": code, "message": "no"}}, in_band(error={"code": str(code), "message": "no"})):
        error = await failure_of(Fault(kind="answer", body=body))
        assert (error.kind, error.is_retryable) == (kind, False)


@pytest.mark.parametrize(("fault", "kind"), [("cut", "connection"), ("not_http", "malformed_reply")])
async def test_a_broken_answer_is_retried(fault, kind):
    """The connection breaks in the middle of the body, or speaks another protocol."""
    error = await failure_of(Fault(kind=fault))
    assert (error.kind, error.is_retryable) == (kind, True)


async def test_server_that_is_not_there_is_a_connection_failure():
    """An address where nobody listens is a retryable connection failure."""
    async with chat_server(CannedModel([text_reply("x")])) as url:
        pass
    with pytest.raises(ModelError) as caught:
        await LitellmModel("local-model", api_base=url).respond(ASK)
    assert (caught.value.kind, caught.value.is_retryable) == ("connection", True)


async def test_server_that_never_answers_is_a_timeout():
    """A hanging server ends after the request's time as a retryable timeout without a status."""
    error = await failure_of(Fault(kind="hang"), timeout_s=0.2)
    assert (error.kind, error.is_retryable, error.http_status) == ("timeout", True, None)


async def test_key_does_not_appear_in_the_message(monkeypatch):
    """A provider that repeats the key in its error does not bring it into the record."""
    monkeypatch.setenv("SOME_PROVIDER_API_KEY", "wait a little")
    error = await failure_of(Fault(kind="rate_limit"), api_key="too many requests")
    assert str(error) == "local-model: rate limit (HTTP 429): [redacted], [redacted]"


async def test_cancellation_is_not_a_failure():
    """A call that is cancelled from outside ends at once and raises no ModelError."""
    outcome = "cancelled"

    async def respond(url):
        nonlocal outcome
        try:
            await LitellmModel("local-model", api_base=url).respond(ASK)
        except ModelError:
            outcome = "failed"

    server = ChatServer(CannedModel([text_reply("x")]), [Fault(kind="hang")])
    async with server, anyio.create_task_group() as group:
        group.start_soon(respond, server.url)
        await server.has_received.wait()
        group.cancel_scope.cancel()
    assert outcome == "cancelled"


async def test_broken_arguments_are_passed_on_to_the_byte():
    """Arguments that are not JSON are no error here: the agent has to see its own mistake."""
    reply = await reply_with(Fault(kind="broken_arguments"))
    assert reply.message.tool_calls[0].arguments_json == '{"command": "ls'


@pytest.mark.filterwarnings("ignore:Pydantic serializer warnings:UserWarning")  # litellm's model of the odd reply
async def test_arguments_as_an_object_are_understood():
    """A server that sends arguments as an object instead of text is understood."""
    reply = await reply_with(Fault(kind="object_arguments"))
    assert json.loads(reply.message.tool_calls[0].arguments_json) == {"command": "ls"}


async def test_equal_ids_are_made_distinct():
    """Two calls with one id: the first keeps it, the second gets the number of its place."""
    reply = await reply_with(Fault(kind="equal_ids"))
    assert [call.call_id for call in reply.message.tool_calls] == ["a", "call00002"]


async def test_missing_ids_are_the_same_in_every_run():
    """Calls without ids get their numbers, not litellm's random ones."""
    reply = await reply_with(Fault(kind="no_ids"), tool_reply(("x", "bash", "{}"), ("y", "bash", "{}")))
    assert [call.call_id for call in reply.message.tool_calls] == ["call00001", "call00002"]


async def test_id_of_an_earlier_turn_is_not_used_again():
    """A server that starts its ids anew in each turn does not make two actions of a trial look like one."""
    turn = Message(role="assistant", content="", tool_calls=(ToolCall(call_id="0", name="bash", arguments_json="{}"),))
    history = (*ASK.messages, turn, Message(role="tool", content="ok", tool_call_id="0"))
    async with chat_server(CannedModel([tool_reply(("0", "bash", "{}"))])) as url:
        model = LitellmModel("local-model", api_base=url)
        reply = await model.respond(ModelRequest(messages=history, tools=(BASH,), timeout_s=300.0))
    assert reply.message.tool_calls[0].call_id == "call00002"


async def test_empty_reply_is_a_reply():
    """Neither text nor tool calls is something that an agent can do."""
    reply = await reply_with(Fault(kind="empty_reply"))
    assert reply.message == Message(role="assistant", content="")


@pytest.mark.parametrize(
    ("fault", "names"),
    [
        ("slow", ["submit"]),
        ("unknown_tool", ["open_the_pod_bay_doors"]),
        ("two_calls", ["submit", "submit"]),
        ("never_submits", []),
    ],
)
async def test_what_an_agent_may_do_is_a_reply(fault, names):
    """A late reply, an unknown tool, two calls at once, or talk instead of an end all reach the agent loop."""
    reply = await reply_with(Fault(kind=fault), tool_reply(("a", "submit", "{}")))
    assert [call.name for call in reply.message.tool_calls] == names
