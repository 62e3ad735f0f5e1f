"""Who may ask: by host, by site, by token, by form; and what a trial's token opens, which is nothing."""

import httpx
import pytest

from lhaw_record.runners.agents.programs.leases import LeasedTrial
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.models.endpoints.door import door_of
from lhaw_record.runners.models.protocol import ModelError
from lhaw_record.runners.runs.daemon.app import COOKIE, session_of
from lhaw_record.runners.runs.daemon.serve import ServeSettings, check
from tests.runners.runs.daemon.running import daemon_at
from tests.support.canned_model import text_reply

TOKEN = "a-long-and-random-token"
LEASE_TOKEN = "another-long-random-token"
TRIAL_TOKEN = "the-token-of-one-trial-0001"
BEARER = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture(scope="module")
async def open_daemon(tmp_path_factory):
    """A client of a daemon on loopback without a token, the same for all tests."""
    async with daemon_at(tmp_path_factory.mktemp("open") / "store") as (_, client):
        yield client


@pytest.fixture(scope="module")
async def locked_daemon(tmp_path_factory):
    """A client of a daemon with a token, the same for all tests."""
    async with daemon_at(tmp_path_factory.mktemp("locked") / "store", token=TOKEN) as (_, client):
        yield client


@pytest.fixture
def open_client(open_daemon):
    """That client, which nobody has signed in with."""
    open_daemon.cookies.clear()
    return open_daemon


@pytest.fixture
def locked_client(locked_daemon):
    """That client, which nobody has signed in with."""
    locked_daemon.cookies.clear()
    return locked_daemon


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8321", "localhost:8321", "[::1]:8321"])
async def test_loopback_may_ask(open_client, host):
    """Every way to name this machine's loopback is served without a token."""
    assert (await open_client.get("/api/experiments", headers={"host": host})).status_code == 200


@pytest.mark.sampled(3)
@pytest.mark.parametrize("host", ["evil.example", "evil.example:8321", "127.0.0.1.evil.example", "10.0.0.1", "", "[::"])
async def test_rebound_names_may_not(open_client, host):
    """A page whose name was made to point here names itself in Host, and gets nothing."""
    reply = await open_client.get("/api/experiments", headers={"host": host})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (421, "foreign_host")


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
async def test_other_sites_may_not(open_client, headers):
    """Neither reading nor ordering works from a page of another site or port, and no CORS header invites it."""
    for reply in (
        await open_client.get("/api/experiments", headers=headers),
        await open_client.post("/api/experiments/e/cancel", json={}, headers=headers),
    ):
        assert reply.status_code == 403
        assert not [name for name in reply.headers if name.startswith("access-control")]


async def test_a_link_from_elsewhere_opens_the_page(open_client):
    """Following a link is no request of another site's script: the page opens, and orders from it still do not go."""
    headers = {"sec-fetch-site": "cross-site", "sec-fetch-dest": "document"}
    assert (await open_client.get("/", headers=headers)).status_code == 200
    assert (await open_client.post("/api/experiments/e/cancel", json={}, headers=headers)).status_code == 403


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
async def test_forms_may_not_order(open_client, kind):
    """What a form can send without asking first is refused before it is read."""
    reply = await open_client.post("/api/experiments/e/cancel", content=b"{}", headers={"content-type": kind})
    assert (reply.status_code, reply.json()["error"]["kind"]) == (415, "not_json")


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Bearer {TOKEN}x"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": f"Bearer {TRIAL_TOKEN}"},
        {"x-api-key": TOKEN},
        {"cookie": f"{COOKIE}={TOKEN}"},
        {"cookie": f"{COOKIE}={session_of(TRIAL_TOKEN)}"},
        {"cookie": "\x00=;;;"},
    ],
)
async def test_without_the_token_nothing_opens(locked_client, headers):
    """Missing, wrong and a trial's token alike: 401 from every address of the API."""
    for path in ("/api/experiments", "/api/daemon", "/api/events", "/openapi.json", "/report"):
        reply = await locked_client.get(path, headers=headers)
        assert (reply.status_code, reply.json()["error"]["kind"]) == (401, "unauthorized"), path
    reply = await locked_client.post("/api/experiments", json={}, headers=headers)
    assert reply.status_code == 401


async def test_the_token_opens(locked_client):
    """As a bearer token, from any host name: whoever was rebound does not know it."""
    for host in ("127.0.0.1", "daemon.example:8321"):
        reply = await locked_client.get("/api/experiments", headers={**BEARER, "host": host})
        assert reply.status_code == 200


async def test_a_lease_token_takes_leases_and_opens_nothing_else(tmp_path):
    """What a harness holds gives no orders, and a lease's own token is for that lease alone."""
    async with daemon_at(tmp_path / "store", token=TOKEN, lease_token=LEASE_TOKEN) as (daemon, client):
        trial = LeasedTrial(experiment="e", agent="a", trial_id="t", attempt=1)
        own, other = (daemon.leases.begin(trial, 600.0) for _ in range(2))

        async def status(method, path, token):
            headers = {"authorization": f"Bearer {token}"}
            return (await client.request(method, path, headers=headers, json={})).status_code

        assert await status("POST", "/api/leases", LEASE_TOKEN) == 404
        assert await status("POST", f"/api/leases/{own.lease_id}", own.token) == 202
        assert await status("POST", f"/api/leases/{own.lease_id}/close", own.token) == 409
        for path in ("/api/leases/unknown", "/api/leases/unknown/close"):
            known = {TOKEN: 404, LEASE_TOKEN: 404, own.token: 401, "any": 401, "": 401}
            assert {each: await status("POST", path, each) for each in known} == known, path
        assert await status("GET", "/api/leases/", own.token) == 401
        own_path, other_path = f"/api/leases/{own.lease_id}", f"/api/leases/{other.lease_id}/close"
        for path, token in (
            (own_path, LEASE_TOKEN),
            (own_path, ""),
            (other_path, own.token),
            ("/api/leases", own.token),
        ):
            assert await status("POST", path, token) == 401, path
        for path in ("/api/experiments", "/api/experiments/e/cancel", "/api/leasesx", "/t/../api/experiments"):
            assert {await status("POST", path, token) for token in (LEASE_TOKEN, own.token)} == {401}, path


async def test_people_sign_in_once(locked_client):
    """A browser is led to the sign-in page; the cookie it gets is no token, unreadable for scripts, and same-site."""
    reply = await locked_client.get("/", headers={"accept": "text/html"})
    assert (reply.status_code, reply.headers["location"]) == (303, "/sign-in")
    assert (await locked_client.get("/sign-in")).status_code == 200
    assert (await locked_client.get("/static/daemon.js")).status_code == 200
    assert (await locked_client.post("/api/sign-in", json={"token": TRIAL_TOKEN})).status_code == 401
    reply = await locked_client.post("/api/sign-in", json={"token": TOKEN})
    cookie = reply.headers["set-cookie"]
    assert reply.status_code == 204
    assert {"HttpOnly", "SameSite=strict"} <= {part.strip() for part in cookie.split(";")}
    assert TOKEN not in cookie
    assert (await locked_client.get("/")).status_code == 200


async def test_every_reply_is_armoured(locked_client):
    """Refusals and pages alike carry the headers that keep other content and frames out."""
    for path in ("/", "/sign-in", "/api/experiments", "/nowhere", "/static/page.css"):
        headers = (await locked_client.get(path)).headers
        assert "default-src 'none'" in headers["content-security-policy"], path
        assert "unsafe" not in headers["content-security-policy"]
        assert (headers["x-content-type-options"], headers["x-frame-options"]) == ("nosniff", "DENY")


async def test_a_trial_has_nothing_here(locked_client):
    """Trials have another listener: a token of theirs opens nothing of the daemon, however a path is written."""
    for path in ("/t/one/v1/models", "/t/../api/experiments", "/t/%2e%2e/api/experiments", "/api/experiments", "/t/"):
        url = httpx.URL("http://127.0.0.1:8321", raw_path=path.encode())
        reply = await locked_client.get(url, headers={"authorization": f"Bearer {TRIAL_TOKEN}"})
        assert reply.status_code == 401, path


@pytest.mark.parametrize(
    ("settings", "word"),
    [
        (ServeSettings(host="0.0.0.0"), "LHAW_RECORD_TOKEN"),
        (ServeSettings(host="192.168.1.5"), "LHAW_RECORD_TOKEN"),
        (ServeSettings(host="::"), "LHAW_RECORD_TOKEN"),
        (ServeSettings(token="short"), "shorter than 16"),
        (ServeSettings(max_trials=0), "--max-trials"),
        (ServeSettings(host="", token=TOKEN), "--host is empty"),
        (ServeSettings(token=TOKEN, lease_token="short"), "LEASE_TOKEN is shorter than 16"),
        (ServeSettings(lease_token=LEASE_TOKEN), "with a different LHAW_RECORD_TOKEN"),
        (ServeSettings(token=TOKEN, lease_token=TOKEN), "with a different LHAW_RECORD_TOKEN"),
    ],
)
def test_unsafe_settings_are_refused(settings, word):
    """No other address than loopback without a token, and no token that could be guessed."""
    with pytest.raises(ExperimentError, match=word):
        check(settings)


@pytest.mark.parametrize(
    "settings", [ServeSettings(), ServeSettings(host="localhost"), ServeSettings(host="0.0.0.0", token=TOKEN)]
)
def test_safe_settings_are_not(settings):
    """Loopback as it is, and any address with a token."""
    check(settings)


async def test_the_first_page_and_the_api_show_what_endpoints_do(open_client):
    """Each model's rate, and until when and why its requests are held, as the progress of a run shows it."""
    door = door_of("shown", "http://server.test", "")
    async with door.passage(lambda: "r") as passage:
        passage.answered(text_reply("Hi."))
    with pytest.raises(ModelError):
        async with door.passage(lambda: "r"):
            raise ModelError("slow down", kind="rate_limit", is_retryable=True, http_status=429, retry_after_s=90.0)
    listed = (await open_client.get("/api/experiments")).json()["endpoints"]
    words = next(each for each in listed if each.startswith("shown at http://server.test"))
    assert "1 replies in the last minute, 0 under way, 1 refused by its rate limit, held for" in words
    page = (await open_client.get("/")).text
    assert "<h2>Models</h2>" in page
    assert "shown at http://server.test: 1 replies in the last minute" in page
