"""The description of the API agrees with what is served: the same addresses, types and refusals."""

import msgspec
import pytest

from lhaw_record.recorder.inspection.verify import verify
from lhaw_record.runners.runs.daemon.endpoints import ENDPOINTS, description
from lhaw_record.runners.runs.daemon.messages import ErrorReply
from tests.runners.runs.daemon.running import daemon_at, submission

SAMPLE = {"name": "nothing"}


async def test_every_address_is_described_and_there(tmp_path):
    """Each described operation is answered by the daemon, and nothing is served that is not described."""
    async with daemon_at(tmp_path / "store") as (_, client):
        told = (await client.get("/openapi.json")).json()
        described = {(method.upper(), path) for path, item in told["paths"].items() for method in item}
        assert described == {(each.method, each.path) for each in ENDPOINTS} | {("GET", "/api/events")}
        for endpoint in ENDPOINTS:
            reply = await client.request(endpoint.method, endpoint.path.format(**SAMPLE), json={})
            assert reply.status_code not in (405, 500), endpoint.operation
            assert str(reply.status_code) in told["paths"][endpoint.path][endpoint.method.lower()]["responses"]
            other = "DELETE"
            assert (await client.request(other, endpoint.path.format(**SAMPLE), json={})).status_code == 405


async def test_a_wrong_method_is_told_the_right_ones(tmp_path):
    """Every 405 names the methods of its address, also where several routes share it."""
    async with daemon_at(tmp_path / "store") as (_, client):
        for path, methods in {"/api/experiments": "GET, HEAD, POST", "/api/events": "GET, HEAD"}.items():
            refusal = await client.delete(path, headers={"content-type": "application/json"})
            assert (refusal.status_code, refusal.headers["allow"]) == (405, methods)


async def test_replies_are_of_the_described_types(tmp_path):
    """A submission, its status, a listing and a refusal decode strictly as what the description names for them."""
    types = {endpoint.operation: endpoint.response for endpoint in ENDPOINTS}
    async with daemon_at(tmp_path / "store") as (_, client):
        body = submission(tmp_path)
        for operation, reply in {
            "submit": await client.post("/api/experiments", json=body),
            "status": await client.get("/api/experiments/small"),
            "pause": await client.post("/api/experiments/small/pause", json={"by": "a test"}),
            "list": await client.get("/api/experiments"),
            "daemon": await client.get("/api/daemon"),
        }.items():
            assert reply.status_code == 200, reply.text
            msgspec.json.decode(reply.content, type=types[operation])
        refusal = await client.post("/api/experiments/nothing/pause", json={})
        assert msgspec.json.decode(refusal.content, type=ErrorReply).error.kind == "unknown"


@pytest.mark.thorough
async def test_limits_of_numbers_are_described_and_kept(tmp_path):
    """Within the described limits a number is taken; one beyond them, however large, is refused and not recorded."""
    limits = description("1")["components"]["schemas"]["Retuning"]["properties"]["concurrency"]
    async with daemon_at(tmp_path / "store") as (_, client):
        await client.post("/api/experiments", json=submission(tmp_path))

        async def status(number):
            reply = await client.post("/api/experiments/small/concurrency", json={"concurrency": number})
            return reply.status_code

        assert [await status(limits["minimum"]), await status(limits["maximum"])] == [200, 200]
        beyond = (limits["minimum"] - 1, limits["maximum"] + 1, 2**63, 2**64, -(2**70))
        assert [await status(number) for number in beyond] == [422] * len(beyond)
    assert verify(tmp_path / "store").findings == ()


def test_every_reference_leads_to_a_schema():
    """No $ref of the description hangs, and every schema is used."""
    told = description("1")
    text = msgspec.json.encode(told).decode()
    names = set(told["components"]["schemas"])
    referred = {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}
    assert referred - names == set()
    assert names - referred <= {"TrialChange"}  # travels in events, which OpenAPI describes in words
    operations = [each["operationId"] for item in told["paths"].values() for each in item.values()]
    assert len(set(operations)) == len(operations)
