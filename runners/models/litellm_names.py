"""What a model name means to litellm: its provider, the credentials that it needs, the parameters that it takes."""

from collections.abc import Mapping
from typing import Any

from runners.errors import ExperimentError
from runners.models.litellm_library import is_provider, litellm_library, provider_of

OPENAI_COMPATIBLE = "custom_openai"
_HAS_DEFAULT = frozenset({"OLLAMA_API_BASE"})  # litellm falls back on the local server


def qualified_name(name: str, api_base: str | None) -> str:
    """Return the name with its provider: a server given by its address alone speaks OpenAI's chat completions.

    A slash does not make a provider: ``Qwen/Qwen3-8B`` is a model's own name, ``anthropic/claude-…`` is not.
    """
    if api_base is None or is_provider(name.partition("/")[0]):
        return name
    return f"{OPENAI_COMPATIBLE}/{name}"


def missing_credentials(name: str, api_base: str | None = None, api_key: str | None = None) -> list[str]:
    """Return the names of the environment variables that this model needs and that are not set.

    Where a provider accepts one of several variables, all of them are returned when none is set.

    Raises:
        ExperimentError: The name has no provider that litellm knows.
    """
    qualified = qualified_name(name, api_base)
    if provider_of(qualified) is None:
        raise ExperimentError(
            f"model {name!r} names no provider known to litellm; write provider/model (for example "
            "anthropic/claude-sonnet-4-5), or give the api_base of an OpenAI-compatible server"
        )
    report = litellm_library().validate_environment(model=qualified, api_key=api_key, api_base=api_base)
    return [variable for variable in report["missing_keys"] if variable not in _HAS_DEFAULT]


def unsupported_parameters(qualified: str, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of the parameters that the provider does not accept at these values, as litellm knows it.

    A parameter without an OpenAI name is the provider's own business and always sent, and so is everything for an
    OpenAI-compatible server, of which nobody knows what it accepts.
    """
    known = provider_of(qualified)
    if known is None or known[0] == OPENAI_COMPATIBLE:
        return ()
    provider, model = known
    litellm: Any = litellm_library()
    unsupported = []
    for parameter, value in parameters.items():
        if parameter not in litellm.constants.OPENAI_CHAT_COMPLETION_PARAMS:
            continue
        try:
            litellm.utils.get_optional_params(model=model, custom_llm_provider=provider, **{parameter: value})
        except litellm.UnsupportedParamsError:
            unsupported.append(parameter)
    return tuple(unsupported)


def split_parameters(qualified: str, parameters: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what goes to litellm as arguments and what goes into the request's body as it is.

    litellm fails on arguments that it does not know for an OpenAI-compatible server (``top_k``, ``reasoning_effort``);
    other providers get theirs through litellm, which translates them.
    """
    known = provider_of(qualified)
    if known is None or known[0] != OPENAI_COMPATIBLE:
        return dict(parameters), {}
    supported = set(litellm_library().get_supported_openai_params(known[1], custom_llm_provider=known[0]))
    arguments = {name: value for name, value in parameters.items() if name in supported}
    return arguments, {name: value for name, value in parameters.items() if name not in supported}
