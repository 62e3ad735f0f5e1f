"""What is recorded as sent was sent: the record of bodies behind the gateway, against servers that keep each byte."""

import asyncio
import hashlib
import socket

import httpx
import pytest

from lhaw_record.recorder.events import ArtifactStored, ModelCalled, ModelFailed, ModelResponded, Reasoning
from lhaw_record.runners.models.exchanges import WireRecord
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.runners.models.gateway.rigs import KEY, Rig
from tests.runners.models.gateway.serving import serving
from tests.runners.models.gateway.shapes import TASK, chat, messages, responses, user
from tests.runners.models.gateway.streams import BASES, PATHS, STREAMS, StreamingProvider
from tests.support.provider_mimics import AnthropicMimic, ChatMimic, GeminiMimic, MimicServer, ResponsesMimic

pytestmark = pytest.mark.usefixtures("closed_clients")

BODIES = {
    "chat": chat(user(TASK)),
    "messages": messages(user(TASK)),
    "responses": responses(user(TASK), store=False, include=["reasoning.encrypted_content"]),
    "gemini": {"contents": [{"role": "user", "parts": [{"text": TASK}]}]},
}
WHOLE_PATHS = {**PATHS, "gemini": "v1beta/models/m:generateContent"}
MIMICS = {"chat": ChatMimic, "messages": AnthropicMimic, "responses": ResponsesMimic, "gemini": GeminiMimic}


class Kept:
    """The bodies that a run keeps, by the call and the direction."""

    def __init__(self):
        self._contents = {}

    def keep(self, content):
        """Store some bytes as a run does."""
        sha256 = hashlib.sha256(content).hexdigest()
        self._contents[sha256] = content
        return sha256, len(content)

    def bodies(self, rig):
        """Return the kept bodies by the role of their artifact, in order."""
        return [(event.role, self._contents[event.sha256]) for event in rig.of(ArtifactStored)]


def digest(content):
    """The SHA-256 of a body."""
    return hashlib.sha256(content).hexdigest()


def recorded(name, address, *, mode="full"):
    """A rig that keeps bodies, before a server; and what it keeps."""
    kept = Kept()
    upstream = LitellmUpstream(LitellmModel(name, address, "key"))
    return Rig(upstream, wire_record=WireRecord(mode, kept.keep)), kept


@pytest.mark.sampled(2)
@pytest.mark.parametrize("mode", ["full", "digest"])
@pytest.mark.parametrize("wire", STREAMS)
async def test_a_stream_is_kept_as_it_came(wire, mode):
    """The request as the provider received it and every byte that it streamed, before the reply is recorded."""
    parts = STREAMS[wire](["Let ", "me."])
    provider = StreamingProvider([piece for part in parts for piece in part])
    streamed = "".join(piece for part in parts for piece in part).encode()
    name, base = BASES[wire]
    async with serving(provider.app) as url:
        rig, kept = recorded(name, url + base, mode=mode)
        async with rig.client() as client:
            body = BODIES[wire] if wire == "gemini" else {**BODIES[wire], "stream": True}
            assert (await client.post(PATHS[wire], json=body)).status_code == 200
    (responded,) = rig.of(ModelResponded)
    assert (responded.wire.sent_sha256, responded.wire.received_sha256) == (digest(provider.raw[0]), digest(streamed))
    whole = [("wire_request", provider.raw[0]), ("wire_reply", streamed)]
    assert kept.bodies(rig) == (whole if mode == "full" else [])
    types = [event.media_type for event in rig.of(ArtifactStored)]
    assert types == (["application/json", "text/event-stream"] if mode == "full" else [])
    assert rig.events[-1] is responded


@pytest.mark.parametrize(
    ("wire", "name", "mimic", "base"),
    [
        *((wire, BASES[wire][0], MIMICS[wire], BASES[wire][1]) for wire in BODIES),
        ("chat", "anthropic/claude-sonnet-4-6", AnthropicMimic, ""),
        ("responses", "own", ChatMimic, "/v1"),
        ("messages", "gemini/gemini-3-pro-preview", GeminiMimic, ""),
    ],
)
async def test_a_whole_reply_and_its_reasoning(wire, name, mimic, base):
    """In the provider's own dialect and translated: the digests are those of the server, the bodies hold them."""
    provider = mimic(turns=0)
    with MimicServer(provider) as url:
        rig, kept = recorded(name, url + base)
        async with rig.client() as client:
            response = await client.post(WHOLE_PATHS[wire], json=BODIES[wire])
    assert response.status_code == 200, response.text
    (responded,) = rig.of(ModelResponded)
    assert [responded.wire.sent_sha256] == provider.sent_sha256
    assert [responded.wire.received_sha256] == provider.received_sha256
    assert [digest(body) for _, body in kept.bodies(rig)] == [*provider.sent_sha256, *provider.received_sha256]
    tokens = None if mimic is AnthropicMimic else 12
    assert (responded.reasoning.text, responded.usage.reasoning_tokens) == ("I think 0.0.", tokens)


async def test_reasoning_that_has_only_details_is_read():
    """OpenRouter may give the text only in ``reasoning_details``, whose pieces a stream cuts anywhere."""
    parts = STREAMS["chat"](["x"])
    head, *rest = parts[0]
    details = [
        {"type": "reasoning.summary", "summary": "Which ", "index": 0},
        {"type": "reasoning.summary", "summary": "day?", "index": 0},
        {"type": "reasoning.text", "text": "Ask.", "signature": None, "index": 1},
        {"type": "reasoning.encrypted", "data": "zz", "index": 2},
    ]
    pieces = [head.replace('"content": ""', f'"reasoning_details": {[each]}'.replace("'", '"')) for each in details]
    pieces = [piece.replace("None", "null") for piece in pieces]
    rest = [piece for piece in rest if "reasoning_content" not in piece]
    provider = StreamingProvider([head, *pieces, *rest, *parts[1], *parts[2]])
    async with serving(provider.app) as url:
        rig, _ = recorded("openai/real", f"{url}/v1")
        async with rig.client() as client:
            await client.post(PATHS["chat"], json={**BODIES["chat"], "stream": True})
    (responded,) = rig.of(ModelResponded)
    assert responded.reasoning == Reasoning(text="Which day?\n\nAsk.")
    assert responded.usage.reasoning_tokens == 2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("wire", STREAMS)
async def test_a_call_whose_client_left_has_what_was_sent_and_what_came(wire):
    """The provider may charge for it, so its failure tells the request and the piece of the stream that arrived."""
    first, _, _ = STREAMS[wire](["Let ", "me."])
    provider = StreamingProvider([*first, asyncio.Event()])
    name, base = BASES[wire]
    async with serving(provider.app) as url:
        rig, kept = recorded(name, url + base)
        body = BODIES[wire] if wire == "gemini" else {**BODIES[wire], "stream": True}
        async with (
            serving(rig.gateway.app()) as address,
            httpx.AsyncClient(base_url=f"{address}/t/{KEY}/", timeout=None) as client,
        ):
            async with client.stream("POST", PATHS[wire], json=body) as response:
                text = ""
                async for piece in response.aiter_text():
                    text += piece
                    if "Let " in text and "me." in text:
                        break
            await rig.session.close("gave_up")
    (failed,) = rig.of(ModelFailed)
    assert failed.error_kind in ("client_gone", "hung_up")  # the trial's end may be noticed first
    assert failed.wire.sent_sha256 == digest(provider.raw[0])
    (request, sent), (reply, received) = kept.bodies(rig)
    assert (request, sent, reply) == ("wire_request", provider.raw[0], "wire_reply")
    assert failed.wire.received_sha256 == digest(received)
    assert "".join(first).encode().startswith(received)
    assert b"me." in received


@pytest.mark.parametrize("name", ["openai/real", "anthropic/claude-sonnet-4-6"], ids=["own wire", "translated"])
async def test_what_found_no_connection_was_not_sent(name):
    """The failed call has no digests: nothing of the request left this machine."""
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        rig, kept = recorded(name, f"http://127.0.0.1:{closed.getsockname()[1]}/v1")
        async with rig.client() as client:
            response = await client.post(PATHS["chat"], json=BODIES["chat"])
    (failed,) = rig.of(ModelFailed)
    assert (response.status_code, failed.error_kind, failed.wire, kept.bodies(rig)) == (502, "connection", None, [])


async def test_embeddings_are_kept_too():
    """Both bodies of a request for embeddings, as they went over the wire."""
    row = {"object": "embedding", "index": 0, "embedding": [0.1, 0.2]}
    provider = ChatMimic(turns=0)
    provider.answer = lambda path, body: (200, {"object": "list", "data": [row], "model": "e", "usage": {}})
    with MimicServer(provider) as url:
        rig, kept = recorded("openai/real", f"{url}/v1")
        async with rig.client() as client:
            await client.post("v1/embeddings", json={"model": "e", "input": ["a"]})
    assert [digest(body) for _, body in kept.bodies(rig)] == [*provider.sent_sha256, *provider.received_sha256]
    assert [type(event) for event in rig.events] == [ModelCalled, ArtifactStored, ArtifactStored, ModelResponded]
