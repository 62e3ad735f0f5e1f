"""Connections to providers that are called in their own dialect."""

import pytest

from lhaw_record.recorder.events import ModelResponded
from lhaw_record.runners.models.exchanges import proxy_of
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from tests.runners.models.gateway.rigs import Rig
from tests.support.provider_mimics import ChatMimic, MimicServer

pytestmark = pytest.mark.usefixtures("closed_clients")


@pytest.fixture(autouse=True)
def unknown_proxies():
    """Proxies are looked up once for each address; each test has an environment of its own."""
    proxy_of.cache_clear()
    yield
    proxy_of.cache_clear()


async def test_a_request_goes_through_the_proxy_of_the_environment(monkeypatch):
    """The proxy is asked for the provider's whole address, which only it can reach."""
    provider, paths = ChatMimic(turns=0), []
    check = provider.check
    provider.check = lambda path, body: (paths.append(path), check(path, body))
    with MimicServer(provider) as url:
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.delenv("no_proxy", raising=False)
        rig = Rig(LitellmUpstream(LitellmModel("openai/real", "http://provider.invalid/v1", "key")))
        async with rig.client() as client:
            body = {"model": "m", "messages": [{"role": "user", "content": "Do it."}]}
            assert (await client.post("v1/chat/completions", json=body)).status_code == 200
    assert paths == ["http://provider.invalid/v1/chat/completions"]
    assert len(rig.of(ModelResponded)) == 1


@pytest.mark.parametrize(
    ("address", "proxy"),
    [
        ("https://api.openai.com/v1", "http://out:1"),
        ("https://inside.example/v1", None),
        ("http://127.0.0.1:8000/v1", None),
    ],
)
def test_no_proxy_and_other_schemes_are_respected(monkeypatch, address, proxy):
    """An address without a proxy of its scheme, or excepted from it, is reached directly."""
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("https_proxy", "http://out:1")
    monkeypatch.setenv("no_proxy", "inside.example")
    assert proxy_of(address) == proxy
