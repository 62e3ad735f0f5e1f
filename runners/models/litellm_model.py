"""A model called through litellm: a hosted one by name, or one behind an OpenAI-compatible address."""

import re
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import anyio
import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json, digest
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.base.conversation.messages import (
    Message,
    ToolCall,
    ToolDefinition,
    conversation_digest,
    tool_to_wire,
)
from lhaw_record.runners.base.text.fields import with_valid_text
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.chat_completions import message_in, read_chat, text_of
from lhaw_record.runners.models.chat_messages import agent_marks, wire_messages, with_pictures
from lhaw_record.runners.models.costs import call_cost_usd, failed_usage, is_understood, reported_usage
from lhaw_record.runners.models.endings import finish_reason_in, is_of_known_wire
from lhaw_record.runners.models.endpoints.door import Door, door_of
from lhaw_record.runners.models.exchanges import Exchange, leave_to_itself, watching
from lhaw_record.runners.models.failures import (
    endless_reply,
    longer_reply,
    refused_parameters,
    to_model_error,
    without_refused,
)
from lhaw_record.runners.models.litellm_library import (
    OPENAI_COMPATIBLE,
    answers_with_responses,
    length_limit,
    litellm_library,
    load_litellm,
    provider_of,
    qualified_name,
    split_parameters,
    takes_json_schema,
    unsupported_parameters,
)
from lhaw_record.runners.models.protocol import FormSupport, HostedModel, ModelError, ModelReply, ModelRequest
from lhaw_record.runners.models.provider_state import Body, decoded, plain_call_id, read_state
from lhaw_record.runners.models.streams.transport import StreamedCall

Answer = TypeVar("Answer")
# litellm would send OPENAI_API_KEY to any address; a self-hosted server must get it only if configured.
_NO_KEY = "no-key"
# Responses keeps reasoning on its server unless asked to return it encrypted; returning it makes requests stateless.
_STATELESS = {"store": False, "include": ["reasoning.encrypted_content"]}
# litellm generates a random UUID for a missing id; it is replaced, so that equal runs record equal events.
_INVENTED_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}|call_[0-9a-f]{28}")


class LitellmModel(HostedModel):
    """A model called through litellm. Each call sends one request, without litellm's own retries.

    Args:
        name: A litellm name such as ``anthropic/claude-sonnet-5-5``. With ``api_base``, the model's bare name also
            works.
        api_base: The server's address, including ``/v1`` if it has that.
        api_key: The API key. None to use the provider's environment variable.
        price: The token price. None to use litellm's list price.
        given: The names of the parameters that the user sets. The others may be left out where they are refused.
        is_prompt_marked: Whether to add cache marks to an agent's requests, for providers that cache only marked
            prompts.
    """

    def __init__(
        self,
        name: str,
        api_base: str | None = None,
        api_key: str | None = None,
        price: Price | None = None,
        *,
        given: Collection[str] = (),
        is_prompt_marked: bool = False,
    ) -> None:
        self.name = name
        self.given = frozenset(given)
        leave_to_itself(urlsplit(api_base or "").hostname or "")
        self.refused: dict[str, str | None] = {}
        """Our parameters that the server refuses, each with the name that it wants instead, or None."""
        self._is_prompt_marked = is_prompt_marked
        self.price = price
        self.api_base = api_base
        self.api_key = api_key
        self._dropped: dict[bytes, tuple[str, ...]] = {}
        self._forms: FormSupport | None = None
        self._silent: set[str] = set()

    @property
    def door(self) -> Door:
        """The request gate shared by all requests of this process to the same model, address and key."""
        return self._door_of(self.name)

    @property
    def embeddings_door(self) -> Door:
        """The request gate for embeddings at this model's address, which have separate limits."""
        return self._door_of(f"embeddings beside {self.name}")

    def _door_of(self, name: str) -> Door:
        address = self.api_base or f"the address of {self.name.partition('/')[0]}"
        return door_of(name, address, digest(self.api_key) if self.api_key else "")

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the reply to one request, without retrying, after waiting at the endpoint's request gate."""
        await load_litellm()  # before the request gate, because it may take seconds
        async with self.door.passage(lambda: conversation_digest(request.messages)) as passage:
            added = request.parameters.keys() - self.given - request.program_parameters
            return passage.answered(await self.unless_refused(added, partial(self._sent, request)))

    async def unless_refused(
        self, added: Collection[str], send: Callable[[Mapping[str, str | None]], Awaitable[Answer]]
    ) -> Answer:
        """Send a request, and again without those of our own parameters that the server refuses by name.

        What nobody asked for never decides whether an agent works. What helped is remembered.

        Args:
            added: The names of the parameters that we add.
            send: Sends the request without these parameters, or with them under these names.
        """
        refused = {name: self.refused[name] for name in added if name in self.refused}
        while True:
            try:
                answer = await send(refused)
            except ModelError as error:
                named = refused_parameters(error, [name for name in added if name not in refused])
                if not named:
                    raise
                refused |= named
            else:
                self.refused |= refused
                return answer

    async def _sent(self, request: ModelRequest, refused: Mapping[str, str | None]) -> ModelReply:
        await load_litellm()
        arguments = await self._arguments(request, refused)
        with self.calling_litellm(request.messages, request.timeout_s) as exchanges:
            response = await completion(exchanges, arguments)
            exchange = exchanges[-1] if exchanges else None
            body = decoded(exchange.reply if exchange else None)
            reply = to_reply(response, body, model=self.name, conversation=request.messages, exchange=exchange)
            return msgspec.structs.replace(reply, usage=self.priced(reply.usage, body, reply.served_model))

    def was_silent(self, messages: Sequence[Message]) -> bool:
        """Return whether the conversation's last request timed out without a response.

        The retry uses streaming, to distinguish an unresponsive server from a model that generates without end.
        """
        return bool(self._silent) and conversation_digest(messages) in self._silent

    @contextmanager
    def calling_litellm(self, messages: Sequence[Message], timeout_s: float) -> Iterator[list[Exchange]]:
        """Apply :meth:`attempt` to a litellm call, which streams if the conversation's last request timed out."""
        stream = StreamedCall(self.name) if self.was_silent(messages) else None

        def readable(error: Exception, exchanges: Sequence[Exchange]) -> ModelError:
            if stream is not None and stream.failure is not None:
                return stream.failure
            if exchanges and exchanges[-1].is_too_long:
                return longer_reply(self.name)
            status = exchanges[-1].http_status if exchanges else None
            is_accepted = status is not None and status < 400
            if is_accepted and (failed := _failed_ending(exchanges[-1], self.name)) is not None:
                return failed
            secrets = [self.api_key or ""]
            return to_model_error(
                error, model=self.name, secrets=secrets, is_accepted=is_accepted, is_sent=bool(exchanges)
            )

        is_generating = stream.is_generating if stream is not None else lambda _: False
        sender = stream.send if stream is not None else None
        with watching(sender), self.attempt(messages, timeout_s, readable, is_generating) as exchanges:
            yield exchanges

    @contextmanager
    def attempt(
        self,
        messages: Sequence[Message],
        timeout_s: float,
        readable: Callable[[Exception, list[Exchange]], ModelError | None],
        is_generating: Callable[[float], bool] = lambda _: False,
    ) -> Iterator[list[Exchange]]:
        """Enforce a timeout on a request, and convert exceptions into a ModelError with the captured exchange.

        Args:
            messages: The conversation. If it gets no response in time, its next request uses streaming.
            timeout_s: The timeout in seconds.
            readable: Converts other exceptions into a ModelError. Returns None for our own bugs.
            is_generating: Returns whether the model was still generating when the timeout in seconds expired.
        """
        with watching() as exchanges:
            try:
                with anyio.fail_after(timeout_s) as scope:
                    yield exchanges
            except Exception as error:
                late = TimeoutError(f"the request took longer than {timeout_s:g} s") if scope.cancelled_caught else None
                if late is not None and is_generating(timeout_s):
                    failed: ModelError | None = endless_reply(str(late), model=self.name)
                else:
                    failed = error if isinstance(error, ModelError) else readable(late or error, exchanges)
                if failed is None:
                    raise
                if failed.kind == "timeout" and failed.http_status is None:
                    self._silent.add(conversation_digest(messages))
                failed.exchange = exchanges[-1] if exchanges else None
                failed.usage = failed_usage(failed, self.price)
                if failed.usage is not None and failed.usage.cost_usd is None:
                    body = decoded(failed.exchange.reply) if failed.exchange else {}
                    failed.usage = self.priced(failed.usage, body, failed.served_model)
                raise failed from (error.__cause__ if failed is error else error)
            if self._silent:
                self._silent.discard(conversation_digest(messages))

    @property
    def qualified_name(self) -> str:
        """The model's name with its provider, as litellm expects it."""
        return qualified_name(self.name, self.api_base)

    def priced(self, usage: Usage, body: Mapping[str, Any], served_model: str | None) -> Usage:
        """Return a reply's usage with its cost. ``body`` is the reply as the provider sent it."""
        cost = call_cost_usd(usage, served_model, self.name, self.api_base, self.price, body)
        return msgspec.structs.replace(usage, cost_usd=cost)

    def access(self, timeout_s: float) -> dict[str, Any]:
        """Return litellm's arguments for the model, address, key and timeout."""
        qualified = self.qualified_name
        access: dict[str, Any] = {"model": qualified, "timeout": timeout_s, "num_retries": 0, "max_retries": 0}
        if self.api_base is not None:
            access["api_base"] = self.api_base
        is_own_server = self.api_base is not None and qualified.startswith(f"{OPENAI_COMPATIBLE}/")
        api_key = self.api_key or (_NO_KEY if is_own_server else None)
        return {**access, **({"api_key": api_key} if api_key is not None else {})}

    async def dropped_parameters(self, parameters: Mapping[str, Any]) -> tuple[str, ...]:
        key = canonical_json(dict(parameters))
        if key not in self._dropped:
            await load_litellm()
            self._dropped[key] = unsupported_parameters(self.qualified_name, parameters)
        return self._dropped[key]

    async def completed_parameters(self, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Add Claude's own output limit to the parameters if no limit is set."""
        await load_litellm()
        return {**parameters, **length_limit(self.qualified_name, parameters)}

    def cache_marks(self, messages: Sequence[Message], tools: Sequence[ToolDefinition]) -> tuple[int, ...]:
        """Return the indices of messages that end with a cache mark. Only Anthropic's cache needs marks."""
        if not self._is_prompt_marked or (provider_of(self.qualified_name) or ("",))[0] != "anthropic":
            return ()
        return agent_marks(messages, tools)

    async def form_support(self) -> FormSupport:
        if self._forms is None:
            await load_litellm()
            self._forms = self._forms or FormSupport(takes_json_schema(self.qualified_name))
        return self._forms

    async def _arguments(self, request: ModelRequest, refused: Mapping[str, str | None]) -> dict[str, Any]:
        dropped = await self.dropped_parameters(request.parameters)
        sent = {name: value for name, value in request.parameters.items() if name not in dropped}
        sent = without_refused(sent, refused)
        parameters, body = split_parameters(self.qualified_name, sent)
        arguments: dict[str, Any] = {
            **parameters,
            **self.access(request.timeout_s),
            "messages": with_pictures(wire_messages(request.messages, request.cache_marks), request.pictures),
        }
        if request.tools:
            arguments["tools"] = [tool_to_wire(tool) for tool in request.tools]
        if body:
            arguments["extra_body"] = body
        if answers_with_responses(arguments):
            arguments["extra_body"] = {**_STATELESS, **body}
        return arguments


def _failed_ending(exchange: Exchange, model: str) -> ModelError | None:
    """Return why a reply that litellm cannot read ended, if it ended for no reason of the agent's, or None."""
    body = decoded(exchange.reply)
    try:
        if isinstance(body.get("choices"), list):
            read_chat(body, model, body)
        elif is_of_known_wire(body):
            finish_reason_in(body, model)
    except ModelError as error:
        return error
    return None


def to_reply(
    response: Any, body: Body, *, model: str, conversation: Sequence[Message], exchange: Exchange | None = None
) -> ModelReply:
    """Convert litellm's response, and the provider's body behind it, into a reply without its cost."""
    parsed = response.choices[0].message if response.choices else None
    state = read_state(body, parsed)
    reply = read_chat(response.model_dump(exclude_none=True), model, body)
    calls = [
        ToolCall(
            call_id=plain_call_id(call.call_id),
            name=with_valid_text(call.name),
            arguments_json=with_valid_text(call.arguments_json),
        )
        for call in reply.message.tool_calls
    ]
    turn = Message(
        role="assistant",
        content=with_valid_text(reply.message.content),
        tool_calls=with_distinct_ids(calls, conversation),
        provider_state_json=state.provider_state_json,
    )
    usage = reported_usage(turn, state.usage) if is_understood(state.usage) else reply.usage  # or as litellm read it
    return msgspec.structs.replace(
        reply,
        message=turn,
        usage=usage,
        reasoning_text=with_valid_text(state.reasoning_text),
        exchange=exchange,
    )


async def completion(exchanges: Sequence[Exchange], arguments: Mapping[str, Any]) -> Any:
    """Return litellm's reply to a chat completion, also to one whose content is a list of parts, on which it fails."""
    litellm: Any = litellm_library()
    try:
        return await litellm.acompletion(**arguments)
    except Exception:
        response = _with_plain_text(exchanges)
        if response is None:
            raise
        return response


def _with_plain_text(exchanges: Sequence[Exchange]) -> Any | None:
    """Return litellm's form of a chat completion with a list of parts or no message, and None for any other body."""
    body = decoded(exchanges[-1].reply) if exchanges else {}
    choices = body.get("choices")
    objects = [each for each in choices if isinstance(each, dict)] if isinstance(choices, list) else []
    messages = [message_in(each) for each in objects]
    if not all(isinstance(message, dict) for message in messages):
        return None
    if all(message and not isinstance(message.get("content"), list) for message in messages):
        return None
    for choice, message in zip(objects, messages, strict=True):
        choice["message"] = {"role": "assistant", **message, "content": text_of(message.get("content"), "")}
    litellm: Any = litellm_library()
    return litellm.ModelResponse(**body)


def with_distinct_ids(calls: Sequence[ToolCall], conversation: Sequence[Message]) -> tuple[ToolCall, ...]:
    """Give the calls ids that are unique in the conversation, so that results can be matched to them.

    A missing, repeated or generated id becomes ``call`` plus five digits: the first free number, counting from the
    number of earlier tool calls. The strictest provider accepts only nine letters and digits.
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
