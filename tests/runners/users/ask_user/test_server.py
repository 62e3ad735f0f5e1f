"""The ask_user server: one tool, plain text, real clients in memory, in both eras."""

import anyio
import pytest
from mcp import Client

from lhaw_record.recorder.errors import RecordingFailed
from lhaw_record.recorder.events import QuestionAsked
from lhaw_record.runners.base.errors import UserSimulatorError
from lhaw_record.runners.users.ask_user.recorded_user import AskUserTool, RecordedUser
from lhaw_record.runners.users.ask_user.server import AskUserCall, build_server, call_id_of
from lhaw_record.runners.users.simulated_user.answers import ExactSimulator, answer_with
from lhaw_record.runners.users.simulated_user.llm import LlmSimulator
from tests.runners.users.simulated_user.people import NAME, NAME_QUESTION, MemoryStream, ToldModel, knowing

MODES = ["auto", "legacy"]


def texts(result):
    """Return the text parts of a tool result."""
    return [part.text for part in result.content]


def recorded(simulator, stream=None):
    """Return the questions of one trial in which the file name was left out."""
    return RecordedUser(simulator, knowing(NAME), stream or MemoryStream())


def asking(simulator, stream=None):
    """Return the handler of a server that asks in that trial."""
    ask_user = recorded(simulator, stream)

    async def handler(asked: AskUserCall):
        return await ask_user(asked.question, asked.context, asked.call_id, 1)

    return handler


@pytest.mark.parametrize("mode", MODES)
async def test_the_tool_is_listed_with_its_two_parameters(mode):
    """A client sees ask_user(question, context='') and no output schema."""
    async with Client(build_server(asking(ExactSimulator())), mode=mode) as client:
        (tool,) = (await client.list_tools()).tools
    assert tool.name == "ask_user"
    assert set(tool.input_schema["properties"]) == {"question", "context"}
    assert tool.input_schema["required"] == ["question"]
    assert tool.output_schema is None


@pytest.mark.parametrize("mode", MODES)
async def test_the_answer_is_plain_text(mode):
    """An answer comes without structured content, and the call id travels in _meta."""
    stream = MemoryStream()
    async with Client(build_server(asking(ExactSimulator(), stream)), mode=mode) as client:
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION}, meta={"lhaw-record/callId": "call-9"})
    assert texts(result) == [answer_with([NAME])]
    assert result.structured_content is None
    assert not result.is_error
    assert stream.events[0].call_id == "call-9"


@pytest.mark.parametrize("question", ["", "  \n"])
async def test_an_empty_question_says_what_to_do(question):
    """It is an error result for the agent, not a question of the trial."""
    stream = MemoryStream()
    async with Client(build_server(asking(ExactSimulator(), stream))) as client:
        result = await client.call_tool("ask_user", {"question": question})
    assert result.is_error
    assert "Call ask_user again" in texts(result)[0]
    assert stream.events == []


@pytest.mark.parametrize("arguments", [{"question": "?" * 20_001}, {"question": "Why?", "context": "x" * 20_000}])
async def test_a_question_that_nobody_would_read_says_what_to_do(arguments):
    """A whole file pasted into a question is an error result, not a question of the trial."""
    stream = MemoryStream()
    async with Client(build_server(asking(ExactSimulator(), stream))) as client:
        result = await client.call_tool("ask_user", arguments)
    assert result.is_error
    assert "one short question" in texts(result)[0]
    assert stream.events == []


@pytest.mark.parametrize("arguments", [{}, {"question": 5}, {"question": "Why?", "context": ["x"]}])
async def test_wrong_arguments_say_what_to_do(arguments):
    """They are an error result that names the two texts."""
    stream = MemoryStream()
    async with Client(build_server(asking(ExactSimulator(), stream))) as client:
        result = await client.call_tool("ask_user", arguments)
    assert result.is_error
    assert "'question', a text" in texts(result)[0]
    assert stream.events == []


async def test_a_context_of_null_is_none():
    """Models that must fill in every argument write null."""
    async with Client(build_server(asking(ExactSimulator()))) as client:
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION, "context": None})
    assert texts(result) == [answer_with([NAME])]


@pytest.mark.parametrize("mode", MODES)
async def test_the_server_offers_one_tool_and_nothing_else(mode):
    """No prompts and no resources, for which some clients would offer tools of their own."""
    async with Client(build_server(asking(ExactSimulator())), mode=mode) as client:
        offered = client.server_capabilities.model_dump(exclude_none=True)
    assert set(offered) == {"tools"}


async def test_an_alias_is_listed_alone_and_both_names_are_answered():
    """A client that keeps ask_user to itself sees the other name; a model that knows ask_user is understood."""
    async with Client(build_server(asking(ExactSimulator()), "consult")) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["consult"]
        for name in ("consult", "ask_user"):
            assert texts(await client.call_tool(name, {"question": NAME_QUESTION})) == [answer_with([NAME])]
        unknown = await client.call_tool("ask", {"question": NAME_QUESTION})
    assert unknown.is_error
    assert "consult" in texts(unknown)[0]


async def test_a_failed_recorder_is_no_secret_of_the_agent():
    """A client is told that there is no answer, and nothing of files and disks."""

    def fail(events):
        raise RecordingFailed("no space left on /srv/store")

    async with Client(build_server(asking(ExactSimulator(), MemoryStream(fail)))) as client:
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION})
    assert result.is_error
    assert texts(result) == ["The user cannot be reached."]


async def test_a_foreign_client_sees_that_the_user_cannot_be_reached():
    """A simulator error is an error result with its reason, never an answer."""
    simulator = LlmSimulator(ToldModel(UserSimulatorError("rate limited", kind="rate_limit")), "told")
    async with Client(build_server(asking(simulator))) as client:
        result = await client.call_tool("ask_user", {"question": NAME_QUESTION})
    assert result.is_error
    assert "rate limited" in texts(result)[0]


async def test_a_long_wait_shows_signs_of_life():
    """Progress is reported while an answer is under way, so that clients do not hang up."""
    is_alive = anyio.Event()

    async def slow(asked):
        await is_alive.wait()
        return "Here I am."

    async def progressed(progress, total, message):
        is_alive.set()

    async with Client(build_server(slow, progress_every_s=0.01)) as client:
        result = await client.call_tool("ask_user", {"question": "Anyone?"}, progress_callback=progressed)
    assert texts(result) == ["Here I am."]


@pytest.mark.parametrize(
    ("meta", "call_id"),
    [
        ({}, None),
        ({"lhaw-record/callId": "a", "callId": "b"}, "a"),
        ({"callId": "b", "threadId": "t"}, "b"),
        ({"vendor.example/toolUseId": "c"}, "c"),
        ({"vendor-tool-call-request-id": "d"}, "d"),
        ({"callId": 5, "progressToken": "x"}, None),
    ],
)
def test_the_call_id_is_found_under_the_keys_of_known_clients(meta, call_id):
    """A question can be joined to its action whatever the client calls the id."""
    assert call_id_of(meta) == call_id


async def test_the_native_client_lists_asks_and_records():
    """The agent's tool definition is what the server lists; an answer is a tool result."""
    stream = MemoryStream()
    user = AskUserTool(recorded(ExactSimulator(), stream), lambda: 3)
    assert user.tool.name == "ask_user"
    assert user.tool.input_schema["required"] == ["question"]
    result = await user.ask({"question": NAME_QUESTION, "context": "Nearly done."}, "call-1")
    wrong = await user.ask({"query": 5}, "call-2")
    assert result.text == answer_with([NAME])
    assert not result.is_error
    assert wrong.is_error
    asked = [(event.call_id, event.action_index) for event in stream.events if isinstance(event, QuestionAsked)]
    assert asked == [("call-1", 3)]


async def test_the_native_client_raises_the_simulators_own_error():
    """The server turns an exception into a result; the trial gets the exception itself."""
    error = UserSimulatorError("no connection", kind="connection")
    user = AskUserTool(recorded(LlmSimulator(ToldModel(error), "told")), lambda: 1)
    with pytest.raises(UserSimulatorError) as caught:
        await user.ask({"question": NAME_QUESTION}, "call-1")
    assert caught.value is error


async def test_the_native_client_raises_a_failing_recorder():
    """A full disk stops the run instead of looking like a tool's error."""

    def fail(events):
        raise RecordingFailed("disk full")

    user = AskUserTool(recorded(ExactSimulator(), MemoryStream(fail)), lambda: 1)
    with pytest.raises(RecordingFailed):
        await user.ask({"question": NAME_QUESTION}, "call-1")
