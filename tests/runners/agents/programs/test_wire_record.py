"""A run that keeps the bodies of model calls keeps those of its programs, and shows their reasoning."""

import hashlib
import io

import pytest

from lhaw_record.recorder.events import ArtifactStored, ModelResponded
from lhaw_record.recorder.reading.reader import read_envelopes
from lhaw_record.runners.cli.attempt_text import print_attempt
from tests.runners.agents.programs.rigs import described, of, recorded, scripted
from tests.support.provider_mimics import ChatMimic, MimicServer


@pytest.mark.thorough
async def test_a_programs_calls_are_kept_as_they_went_over_the_wire(tmp_path):
    """What the server received and sent is in the store by its content, named after the call."""
    provider = ChatMimic(turns=0)
    with MimicServer(provider) as url:
        agent = {"model": "own", "api_base": f"{url}/v1"}
        text = described(scripted(tmp_path, "ask()"), agent=agent)
        text = text.replace("preflight = false", 'preflight = false\nwire = "full"')
        _, (events,) = await recorded(tmp_path, text)
    (responded,) = of(events, ModelResponded)
    sent = [*provider.sent_sha256, *provider.received_sha256]
    assert [responded.wire.sent_sha256, responded.wire.received_sha256] == sent
    kept = [each for each in of(events, ArtifactStored) if each.role.startswith("wire_")]
    roles = [("wire_request", responded.call_id), ("wire_reply", responded.call_id)]
    assert [(each.role, each.name) for each in kept] == roles
    blobs = [(tmp_path / "store" / "blobs" / each.sha256[:2] / each.sha256).read_bytes() for each in kept]
    assert [hashlib.sha256(blob).hexdigest() for blob in blobs] == sent
    shown = io.StringIO()
    (trial,) = {each.stream_id for each in read_envelopes(tmp_path / "store") if each.event == responded}
    print_attempt(tmp_path / "store", trial, shown)
    assert "[reasoning: 12 tokens, 12 characters: I think 0.0.]" in shown.getvalue()
