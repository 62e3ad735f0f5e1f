"""A model's own limits are told from failures of infrastructure, in the words of each server."""

import asyncio
import contextlib
import json
import re
import threading
from types import SimpleNamespace

import pytest

from lhaw_record.recorder.writing.redaction import Redactor
from lhaw_record.runners.base.conversation.ending import ended_by_failure
from lhaw_record.runners.base.conversation.messages import Message
from lhaw_record.runners.models import failures
from lhaw_record.runners.models.endpoints.hints import retry_after_s
from lhaw_record.runners.models.failures import in_band_error, response_error, to_model_error
from lhaw_record.runners.models.gateway import native_upstream
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelError, ModelRequest
from tests.runners.models.gateway.rigs import Rig
from tests.support.model_limits import FILTERED, NO_LIMITS, OVERFLOWS, REPLIES

REQUEST = ModelRequest(messages=(Message(role="user", content="Hello."),))
WIRES = {
    "openai": ("m", "/v1"),
    "anthropic": ("anthropic/claude-sonnet-4-6", ""),
    "gemini": ("gemini/gemini-2.5-flash", ""),
    "vllm": ("hosted_vllm/m", "/v1"),
    "sglang": ("m", "/v1"),
    "llama.cpp": ("m", "/v1"),
}
"""The model's name and the end of its address, by the first word of a case: litellm speaks the provider's own wire."""


@contextlib.asynccontextmanager
async def always(status, body):
    """A server that gives every request the same answer, whatever its path is."""
    payload = json.dumps(body).encode()
    head = f"HTTP/1.1 {status} -\r\ncontent-type: application/json\r\ncontent-length: {len(payload)}\r\n\r\n".encode()

    async def serve(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                fields = (await reader.readuntil(b"\r\n\r\n")).decode().lower().split("content-length:")
                await reader.readexactly(int(fields[1].split("\r\n")[0]) if len(fields) > 1 else 0)
                writer.write(head + payload)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def failure(name, url, key=None):
    """The failure of one call."""
    with pytest.raises(ModelError) as caught:
        await LitellmModel(name, api_base=url, api_key=key).respond(REQUEST)
    return caught.value


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", OVERFLOWS)
async def test_an_overflow_is_known_on_each_servers_own_wire(case, closed_clients):
    """Six dialects, with their own status and body: context_window, never retried, and the trial ends by it."""
    name, path = next(wire for first, wire in WIRES.items() if case.startswith(first))
    async with always(*OVERFLOWS[case]) as url:
        error = await failure(name, url + path, "k")
    assert (error.kind, error.is_retryable) == ("context_window", False), str(error)
    assert ended_by_failure(error.kind) == "context_limit"


@pytest.mark.parametrize("case", [*FILTERED, *NO_LIMITS])
async def test_filters_are_refusals_and_other_lengths_are_not(case, closed_clients):
    """A filter's error ends the trial as refused; a rate limit in tokens, a key or a long field does not."""
    answer, kind = NO_LIMITS.get(case) or (FILTERED[case], "content_filter")
    async with always(*answer) as url:
        error = await failure("m", url + "/v1")
    assert error.kind == kind, str(error)
    assert ended_by_failure(error.kind) == ("refused" if case in FILTERED else None)


@pytest.mark.parametrize("case", OVERFLOWS)
def test_an_overflow_is_known_inside_of_a_reply(case):
    """With status 200, as in a stream that had begun: the same kind, and never a server error that is repeated."""
    body = OVERFLOWS[case][1]
    error = in_band_error(body.get("error", body))
    assert (error.kind, error.is_retryable) == ("context_window", False)


@pytest.mark.parametrize("case", REPLIES)
async def test_a_reply_keeps_the_reason_why_it_ended(case, closed_clients):
    """Refusals and full windows are not turned into "stop", and the words of a refusal are not lost."""
    answer, finish_reason, _ = REPLIES[case]
    async with always(*answer) as url:
        reply = await LitellmModel("m", api_base=url + "/v1").respond(REQUEST)
    assert reply.finish_reason == finish_reason
    said = answer[1]["choices"][0]["message"]
    assert reply.message.content == (said["content"] or said.get("refusal") or "")


@pytest.mark.thorough
@pytest.mark.parametrize(("key", "said"), [("x", "no key x here"), ("my-local-key", "no key [redacted] here")])
def test_a_key_is_left_out_of_a_message_and_a_dummy_one_spoils_none(key, said):
    """Local servers take "x" for a key; it stands inside words, and is no secret."""
    body = json.dumps({"error": {"message": f"no key {key} here", "code": "context_length_exceeded"}}).encode()
    error = response_error(400, {}, body, model="m", secrets=[key], shown={})
    assert said in str(error)
    assert error.kind == "context_window"


@pytest.mark.thorough
def test_a_burst_of_refusals_compiles_its_secrets_once(monkeypatch):
    """The second answer with the same secrets compiles nothing, and a new secret is hidden from the next on."""
    compiled = []

    def counted(pattern, *flags):
        compiled.append(pattern)
        return re._compiler.compile(pattern, *flags)

    monkeypatch.setattr("lhaw_record.recorder.writing.redaction.re.compile", counted)

    def said(secret):
        return str(
            response_error(429, {}, b"slow down, key-of-mine-1, key-of-mine-2", model="m", secrets=[secret], shown={})
        )

    assert [said("key-of-mine-1") for _ in range(3)] == [
        "m: rate limit (HTTP 429): slow down, [redacted], key-of-mine-2"
    ] * 3
    assert len(compiled) == 2
    assert said("key-of-mine-2").endswith("slow down, key-of-mine-1, [redacted]")


LONG = 60_000


@pytest.mark.parametrize("begun", ["sk-", 'google.rpc.RetryInfo"', "maximum context length is ", "Error: ", "é"])
def test_a_long_error_is_told_in_few_steps(begun, monkeypatch):
    """A peer chooses its length and words: a message reads the beginning, and no search starts again at each word."""
    searched, redactor = [], Redactor()
    scanner = redactor._scanner
    redactor._scanner = SimpleNamespace(search=lambda *given: searched.append(0) or scanner.search(*given))
    monkeypatch.setattr(failures, "_redactor", lambda _: redactor)
    text = begun * (LONG // len(begun))
    error = to_model_error(RuntimeError(text), model="m")
    assert len(searched) < 1000
    assert len(str(error)) < 500
    assert retry_after_s({}, text) is None


def test_the_beginning_of_a_text_is_that_of_the_whole_text_without_secrets():
    """Also where a secret begins before the end of what is shown, and ends after it."""
    key = "sk-" + "aB3" * 12
    lines = "QUJD" * 300
    for at in range(60):
        text = f"{'x' * at} {key} -----BEGIN PRIVATE KEY-----\n{lines}\n and more {key} {'y' * 40}"
        assert Redactor().clean_text(text, 50) == Redactor().clean_text(text)[:50]


@pytest.mark.thorough
@pytest.mark.usefixtures("closed_clients")
@pytest.mark.parametrize("length", [10, LONG])
async def test_a_long_error_body_is_redacted_beside_the_event_loop(length, monkeypatch):
    """A server chooses what that costs, and the loop serves all trials. The agent gets the same answer."""
    threads = []

    def noted(*given, **named):
        threads.append(threading.get_ident())
        return response_error(*given, **named)

    monkeypatch.setattr(native_upstream, "response_error", noted)
    async with always(400, {"error": {"message": "sk-" * length}}) as url:
        rig = Rig(LitellmUpstream(LitellmModel("m", api_base=url + "/v1")))
        async with rig.client() as client:
            answer = await client.post("v1/chat/completions", json={"model": "m", "messages": [{"role": "user"}]})
    assert answer.json() == {"error": {"message": "sk-" * length}}
    assert (threads != [threading.get_ident()]) == (length > 10)
