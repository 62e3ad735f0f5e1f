"""Provider endpoints that natively support the gateway's wire formats, so that requests need no translation.

For a self-hosted server, the experiment file declares the formats (``api_wires``). Addresses of known providers and the
names of environment variables match litellm's, so that one environment works for both.
"""

import os
from collections.abc import Callable, Sequence

import msgspec

from lhaw_record.runners.models.gateway.wires.protocol import Body, WireName, WireRequest
from lhaw_record.runners.models.litellm_library import OPENAI_COMPATIBLE

_VERSION = "2023-06-01"
"""The version of Anthropic's API to request if the agent names none. The header is required."""


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's wire formats and address, and the environment variables for its address and key."""

    wires: tuple[WireName, ...]
    base: str = ""
    base_variables: tuple[str, ...] = ()
    key_variables: tuple[str, ...] = ()


_PROVIDERS = {
    "anthropic": Provider(
        wires=("messages",),
        base="https://api.anthropic.com",
        base_variables=("ANTHROPIC_API_BASE", "ANTHROPIC_BASE_URL"),
        key_variables=("ANTHROPIC_API_KEY",),
    ),
    "openai": Provider(
        wires=("chat", "responses"),
        base="https://api.openai.com/v1",
        base_variables=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
        key_variables=("OPENAI_API_KEY",),
    ),
    "gemini": Provider(
        wires=("gemini",),
        base="https://generativelanguage.googleapis.com",
        base_variables=("GEMINI_API_BASE",),
        key_variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    ),
    "openrouter": Provider(
        wires=("chat",),
        base="https://openrouter.ai/api/v1",
        base_variables=("OPENROUTER_API_BASE",),
        key_variables=("OPENROUTER_API_KEY",),
    ),
    "hosted_vllm": Provider(
        wires=("chat", "responses"),
        base_variables=("HOSTED_VLLM_API_BASE",),
        key_variables=("HOSTED_VLLM_API_KEY",),
    ),
    OPENAI_COMPATIBLE: Provider(wires=("chat",)),
}


class ProviderEndpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The address of a provider for one wire, and its API key, or None."""

    wire: WireName
    model: str
    base: str
    key: str | None

    def url(self, request: WireRequest) -> str:
        return _URLS[self.wire](self, request)

    def embeddings_url(self, model: str, body: Body) -> str:
        """Return the URL for embeddings. In Gemini's format it contains the model and the method."""
        if self.wire != "gemini":
            return f"{self.base}/embeddings"
        return f"{_gemini_models(self)}/{model}:{'batchEmbedContents' if 'requests' in body else 'embedContent'}"

    def headers(self, request: WireRequest) -> dict[str, str]:
        """Return the request headers: credentials, and the agent's headers that request features."""
        headers = {"content-type": "application/json", "user-agent": "lhaw-record", **request.headers}
        if self.wire == "messages":
            headers.setdefault("anthropic-version", _VERSION)
            return {**headers, "x-api-key": self.key or "none"}
        if self.wire == "gemini":
            return {**headers, "x-goog-api-key": self.key or "none"}
        return {**headers, **({"authorization": f"Bearer {self.key}"} if self.key is not None else {})}


def endpoint_of(
    wire: WireName,
    provider: str,
    model: str,
    *,
    api_base: str | None,
    api_key: str | None,
    api_wires: Sequence[str] | None = None,
) -> ProviderEndpoint | None:
    """Return the provider's endpoint for a wire, or None if requests of this wire must be translated."""
    known = _PROVIDERS.get(provider)
    wires = api_wires if api_wires is not None else (known.wires if known else ())
    if wire not in wires:
        return None
    variables = known or Provider(wires=())
    base = api_base or _first(variables.base_variables) or variables.base
    if not base:
        return None
    key = api_key or _first(variables.key_variables if api_base is None or known else ())
    return ProviderEndpoint(wire=wire, model=model, base=base.rstrip("/"), key=key)


def _first(names: Sequence[str]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)


def _below(base: str, version: str) -> str:
    """Append the version to an address unless the user has included it."""
    return base if base.endswith(f"/{version}") else f"{base}/{version}"


def _gemini_models(endpoint: ProviderEndpoint) -> str:
    return f"{_below(endpoint.base.removesuffix('/v1'), 'v1beta')}/models"


def _gemini_url(endpoint: ProviderEndpoint, request: WireRequest) -> str:
    method = "streamGenerateContent?alt=sse" if request.is_streamed else "generateContent"
    return f"{_gemini_models(endpoint)}/{endpoint.model}:{method}"


_URLS: dict[WireName, Callable[[ProviderEndpoint, WireRequest], str]] = {
    "chat": lambda endpoint, _: f"{endpoint.base}/chat/completions",
    "responses": lambda endpoint, _: f"{endpoint.base}/responses",
    "messages": lambda endpoint, _: f"{_below(endpoint.base, 'v1')}/messages",
    "gemini": _gemini_url,
}
