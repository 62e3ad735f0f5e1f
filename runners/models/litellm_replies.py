"""A response of litellm as a ModelReply, or as a malformed one; tool call ids made fit for pairing."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from recorder.values import Usage
from runners.conversation import Message, ToolCall
from runners.models.in_band import check_choice
from runners.models.prices import Price, cost_usd, price_of
from runners.models.protocol import ModelError, ModelReply, reported_usage, token_count

# litellm invents a random UUID for an id that the server left out; kept, equal runs would record unequal events.
_INVENTED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def to_reply(
    response: Any,
    *,
    model: str,
    conversation: Sequence[Message],
    price: Price | None,
    api_base: str | None = None,
) -> ModelReply:
    """Return the reply in a response.

    Args:
        response: litellm's ModelResponse.
        model: The model's name, for messages and for its price.
        conversation: The request's messages: ids that occur there are taken.
        price: The price given by the user; without it litellm's cost, None where it knows none.
        api_base: The address of the server, where the user gave one.

    Raises:
        ModelError: The response has no choice, no message or a tool call without a name (malformed_reply), or it is an
            error that came as a reply.
    """
    if not response.choices:
        raise _malformed(model, "the response has no choices")
    choice = response.choices[0]
    extra = getattr(choice, "provider_specific_fields", None)
    check_choice({"finish_reason": choice.finish_reason, "provider_specific_fields": extra}, model)
    message = choice.message
    if message is None:
        raise _malformed(model, "the first choice has no message")
    calls = [_tool_call(call, model=model) for call in message.tool_calls or ()]
    turn = Message(
        role="assistant",
        content=_unicode(message.content or ""),
        tool_calls=with_distinct_ids(calls, conversation),
    )
    usage = _tokens(response, turn)
    from_litellm = response._hidden_params.get("response_cost")  # litellm's documented place for it
    cost = cost_usd(price, usage) if price else listed_cost_usd(from_litellm, usage, model, api_base)
    return ModelReply(
        message=turn,
        finish_reason=str(choice.finish_reason or "stop"),
        usage=msgspec.structs.replace(usage, cost_usd=cost),
        served_model=response.model or None,
    )


def with_distinct_ids(calls: Sequence[ToolCall], conversation: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Return the calls with ids that are present and unique in the conversation, so that results can be paired.

    A missing, repeated or invented id becomes ``call`` and five digits: the first free number from the count of tool
    calls before it. Nine letters and digits are what the strictest provider accepts.
    """
    taken = {call.call_id for message in conversation for call in message.tool_calls}
    number = sum(len(message.tool_calls) for message in conversation)
    distinct = []
    for call in calls:
        call_id = call.call_id
        number += 1
        if not call_id or call_id in taken or _INVENTED_ID.fullmatch(call_id):
            free = number
            while (call_id := f"call{free:05d}") in taken:
                free += 1
        taken.add(call_id)
        distinct.append(msgspec.structs.replace(call, call_id=call_id))
    return tuple(distinct)


def _tool_call(call: Any, *, model: str) -> ToolCall:
    """Return the call with its arguments as the model wrote them, valid JSON or not."""
    function = getattr(call, "function", None)
    name = getattr(function, "name", None)
    if not isinstance(name, str) or not name:
        raise _malformed(model, "a tool call has no name")
    arguments = getattr(function, "arguments", None) or ""
    if not isinstance(arguments, str):
        raise _malformed(model, f"the arguments of tool call {name} are not text")
    return ToolCall(call_id=call.id or "", name=_unicode(name), arguments_json=_unicode(arguments))


def _unicode(text: str) -> str:
    """Replace lone surrogates, which JSON can spell and no UTF-8 can hold; they could be neither recorded nor sent."""
    return text.encode("utf-8", "replace").decode()


def listed_cost_usd(from_litellm: float | None, usage: Usage, model: str, api_base: str | None) -> float | None:
    """Return the cost that litellm computed, or None where it had no tokens or no price to compute it from."""
    if usage.input_tokens is None or usage.output_tokens is None or price_of(model, api_base) is None:
        return None
    return from_litellm


def _tokens(response: Any, message: Message) -> Usage:
    reported = getattr(response, "usage", None)
    details = getattr(reported, "prompt_tokens_details", None)
    return reported_usage(
        token_count(getattr(reported, "prompt_tokens", None)),
        token_count(getattr(reported, "completion_tokens", None)),
        token_count(getattr(details, "cached_tokens", None)),
        message,
    )


def _malformed(model: str, what: str) -> ModelError:
    return ModelError(f"{model}: malformed reply: {what}", kind="malformed_reply", is_retryable=True)
