"""Replies to programs that never end: an ending of the agent, told from a server that hangs."""

import hashlib
import json

import pytest

from lhaw_record.recorder.events import ModelCalled, ModelResponded
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.runners.models.gateway.rigs import Rig
from tests.support.endless_server import EndlessServer

pytestmark = pytest.mark.usefixtures("closed_clients")

TIMEOUT_S = 2.0  # a request may take this long; any repetition may be the one that gets far enough
CALL = {"index": 0, "id": "c1", "type": "function", "function": {"name": "work", "arguments": '{"n":1}'}}
ENDLESS = EndlessServer([{"role": "assistant", "content": "Go "}], ends=False)


@pytest.mark.thorough
async def test_a_program_that_waits_for_whole_replies_learns_it_too():
    """Its repetition is sent upstream as a stream, although the program asked for none; what it gets is no stream."""
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Do it."}]}
    async with ENDLESS.serving() as url:
        rig = Rig(LitellmUpstream(LitellmModel("own", url), timeout_s=TIMEOUT_S))
        async with rig.client() as client:
            while not rig.session.last_failure or rig.session.last_failure.error_kind == "timeout":
                assert (await client.post("v1/chat/completions", json=body)).status_code == 504
    assert rig.session.last_failure.error_kind == "endless_reply"
    server = EndlessServer([{"role": "assistant", "content": "Hi."}, {"tool_calls": [CALL]}], ends=True)
    async with server.serving() as url:
        rig = Rig(LitellmUpstream(LitellmModel("own", url), timeout_s=TIMEOUT_S))
        async with rig.client() as client:
            while (response := await client.post("v1/chat/completions", json=body)).status_code != 200:
                pass
    assert response.headers["content-type"] == "application/json"
    (responded,) = rig.of(ModelResponded)
    assert (responded.text, len(responded.tool_calls)) == ("Hi.", 1)
    assert responded.wire.sent_sha256 == hashlib.sha256(server.raw[-1]).hexdigest()
    parameters = [json.loads(event.parameters_json) for event in rig.of(ModelCalled)]
    assert "stream" not in parameters[0].get("added_parameters", parameters[0])
    assert parameters[-1].get("added_parameters", parameters[-1])["stream"] is True


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["own", "mistral/own"])
async def test_translated_calls_learn_it_too(name):
    """Where litellm translates, the repetition goes upstream as a stream as well, and the event says so."""
    path = "v1/messages" if name == "own" else "v1/chat/completions"
    body = {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Do it."}]}
    async with ENDLESS.serving() as url:
        rig = Rig(LitellmUpstream(LitellmModel(name, url, api_key="k"), timeout_s=TIMEOUT_S))
        async with rig.client() as client:
            while not rig.session.last_failure or rig.session.last_failure.error_kind == "timeout":
                assert (await client.post(path, json=body)).status_code == 504
    assert rig.session.last_failure.error_kind == "endless_reply"
    server = EndlessServer([{"role": "assistant", "content": "Hi."}], ends=True)
    async with server.serving() as url:
        rig = Rig(LitellmUpstream(LitellmModel(name, url, api_key="k"), timeout_s=TIMEOUT_S))
        async with rig.client() as client:
            while (await client.post(path, json=body)).status_code != 200:
                pass
    (responded,) = rig.of(ModelResponded)
    assert (responded.text, responded.usage.input_tokens, responded.usage.reasoning_tokens) == ("Hi.", 10, 2)
    assert responded.wire.sent_sha256 == hashlib.sha256(server.raw[-1]).hexdigest()
    assert json.loads(responded.wire.changes_json)["stream"] is True
