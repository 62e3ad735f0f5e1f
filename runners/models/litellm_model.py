"""Any model that litellm reaches: a hosted one by its name, or one behind an OpenAI-compatible address."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import anyio

from recorder.canonical import canonical_json
from runners.conversation import Message, to_wire
from runners.models.litellm_errors import to_model_error
from runners.models.litellm_library import load_litellm
from runners.models.litellm_names import OPENAI_COMPATIBLE, qualified_name, split_parameters, unsupported_parameters
from runners.models.litellm_replies import to_reply
from runners.models.prices import Price
from runners.models.protocol import ModelError, ModelReply, ModelRequest
from runners.models.wire import tool_to_wire

# litellm would send OPENAI_API_KEY to whatever address it is given; a server of one's own gets it only on request.
_NO_KEY = "no-key"


class LitellmModel:
    """A model behind litellm; one request per call, no retries of litellm's own.

    Args:
        name: A litellm name such as ``anthropic/claude-sonnet-4-5``; with ``api_base`` also a model's bare name.
        api_base: The address of the server, up to and including ``/v1`` where it has that.
        api_key: The key, else the provider's environment variable.
        price: What tokens cost, else litellm's bundled price.
    """

    def __init__(
        self,
        name: str,
        api_base: str | None = None,
        api_key: str | None = None,
        price: Price | None = None,
    ) -> None:
        self.name = name
        self.price = price
        self.api_base = api_base
        self._api_key = api_key
        self._dropped: dict[bytes, tuple[str, ...]] = {}

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the reply to one request, without retrying.

        Raises:
            ModelError: The request failed, with its kind and whether it may be retried.
        """
        litellm: Any = await load_litellm()
        arguments = await self._arguments(request)
        try:
            # litellm's own limit is one of silence between two bytes; ours is one of the whole request.
            with anyio.fail_after(request.timeout_s):
                response = await litellm.acompletion(**arguments)
            return to_reply(
                response,
                model=self.name,
                conversation=request.messages,
                price=self.price,
                api_base=self.api_base,
            )
        except ModelError:
            raise
        except TimeoutError as error:
            raise self.readable(TimeoutError(f"the request took longer than {request.timeout_s:g} s")) from error
        except Exception as error:
            raise self.readable(error) from error

    def readable(self, error: Exception) -> ModelError:
        """Return an exception of litellm as ours, without the key."""
        return to_model_error(error, model=self.name, secrets=[self._api_key or ""])

    @property
    def qualified_name(self) -> str:
        """The name with its provider, as litellm wants it."""
        return qualified_name(self.name, self.api_base)

    def access(self, timeout_s: float) -> dict[str, Any]:
        """Return the arguments of litellm's calls that say where the model is and how long to wait for it."""
        qualified = self.qualified_name
        access: dict[str, Any] = {"model": qualified, "timeout": timeout_s, "num_retries": 0, "max_retries": 0}
        if self.api_base is not None:
            access["api_base"] = self.api_base
        is_own_server = self.api_base is not None and qualified.startswith(f"{OPENAI_COMPATIBLE}/")
        api_key = self._api_key or (_NO_KEY if is_own_server else None)
        return {**access, **({"api_key": api_key} if api_key is not None else {})}

    async def dropped_parameters(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        """Return the names of the parameters that are not sent because the provider does not accept them."""
        key = canonical_json(dict(parameters))
        if key not in self._dropped:
            await load_litellm()
            self._dropped[key] = unsupported_parameters(self.qualified_name, parameters)
        return self._dropped[key]

    async def _arguments(self, request: ModelRequest) -> dict[str, Any]:
        """Return the arguments of litellm's call."""
        dropped = await self.dropped_parameters(request.parameters)
        sent = {name: value for name, value in request.parameters.items() if name not in dropped}
        parameters, body = split_parameters(self.qualified_name, sent)
        arguments: dict[str, Any] = {
            **parameters,
            **self.access(request.timeout_s),
            "messages": wire_messages(request.messages),
        }
        if request.tools:
            arguments["tools"] = [tool_to_wire(tool) for tool in request.tools]
        if body:
            arguments["extra_body"] = body
        return arguments


def wire_messages(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return the messages in a form that every provider accepts.

    Empty text beside tool calls is left out (litellm would put words of its own in its place), and broken arguments
    travel as an object that holds them, since several providers and servers refuse a history with broken
    JSON in it, which would end the trial over a mistake that the model could correct.
    """
    return [_wire_message(message) for message in messages]


def _wire_message(message: Message) -> dict[str, Any]:
    wire = to_wire(message)
    if message.tool_calls and not message.content:
        wire["content"] = None
    for call in wire.get("tool_calls", ()):
        call["function"]["arguments"] = _acceptable_arguments(call["function"]["arguments"])
    return wire


def _acceptable_arguments(arguments_json: str) -> str:
    if not arguments_json.strip():
        return "{}"  # some models write nothing for a tool without parameters
    try:
        is_object = isinstance(json.loads(arguments_json), dict)
    except ValueError:
        is_object = False
    return arguments_json if is_object else json.dumps({"malformed_arguments": arguments_json})
