"""The model that evaluators ask: a route on their container's loopback, whose requests are the trial's judge calls.

Published evaluators call litellm with an address, a key and a model from their environment. The original gives them the
provider's key inside the agent's container. Here they get an address there and a key of the trial; the requests come to
us, so they are recorded with their cost, wait at the endpoint's door, and need no network in the container.
"""

import json
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError, ungrouped
from lhaw_record.runners.environments.benchmarks.protocol import AskJudge
from lhaw_record.runners.environments.benchmarks.tac import route_program
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.sidecar import LineChannel, open_sidecar
from lhaw_record.runners.environments.sandboxes.driver_program import source_of
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

LIMITS = SandboxLimits(memory_mb=128, processes=256)
_START_S = 60.0
_REFUSED = 400  # not repeated by OpenAI's client


class ModelRoute:
    """An open route.

    Args:
        channel: The standard streams of the route program.
        variables: The environment variables of an evaluator that uses it.
        clock: Bounds the evaluator. It stops while a question waits at the door of its endpoint.
    """

    def __init__(self, channel: LineChannel, variables: dict[str, str], clock: TrialClock) -> None:
        self.variables = variables
        self._channel = channel
        self._clock = clock
        self.failure: GraderError | None = None
        """Why a request had no answer, which the evaluator may have counted as false."""

    async def serve(self, ask: AskJudge) -> None:
        """Answer the requests of the route program one after another."""
        async for line in self._channel.lines:
            asked = json.loads(line)
            if self.failure is None:
                try:
                    with self._clock.current():
                        text = await ask(*_prompts(asked["body"]))
                    answer = {"id": asked["id"], "status": 200, "body": _completion(asked["body"], text)}
                    await self._channel.write(json.dumps(answer).encode())
                    continue
                except GraderError as error:
                    self.failure = error
            body = {"error": {"message": str(self.failure), "type": "invalid_request_error"}}
            await self._channel.write(json.dumps({"id": asked["id"], "status": _REFUSED, "body": body}).encode())

    async def check(self) -> None:
        """Check that every request so far had an answer, and that the route could take them."""
        if self.failure is not None:
            raise self.failure
        state = await self._channel.machine.state()
        if not state.is_running:
            how = "ran out of memory" if state.memory_kills else f"ended with exit code {state.exit_code}"
            raise GraderError(f"the route to the evaluator's model {how}", kind="route_gone")


def _prompts(body: dict[str, Any] | None) -> tuple[str, str]:
    """Return the system prompt, or an empty string, and the user prompt of a request."""
    if body is None:
        raise _unfit("more than the recorded route carries")
    messages, found = body.get("messages"), dict[str, str]()
    for message in messages if isinstance(messages, list) else []:
        content = message.get("content")
        parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
        texts = [part.get("text") for part in parts if part.get("type") == "text"]
        if len(texts) != len(parts) or message.get("role") not in ("system", "user") or message["role"] in found:
            found.clear()
            break
        found[message["role"]] = "\n".join(map(str, texts))
    if "user" not in found:
        raise _unfit("with pictures or in several turns, which the recorded route does not carry")
    return found.get("system", ""), found["user"]


def _unfit(how: str) -> GraderError:
    return GraderError(
        f"the evaluator asks its model {how}; benchmark.asks_directly = true lets evaluators ask it directly, "
        f"unrecorded",
        kind="model_unfit",
        is_retry_owed=False,
    )


def _completion(asked: dict[str, Any], text: str) -> dict[str, Any]:
    """Return a reply in the form of OpenAI's chat completions."""
    message = {"role": "assistant", "content": text}
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": 0,
        "model": asked.get("model", ""),
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
    }


@asynccontextmanager
async def open_route(
    model: str, image: str, room: MemoryBudget, beside: DockerMachine, ask: AskJudge, clock: TrialClock
) -> AsyncIterator[ModelRoute]:
    """Serve a model on the loopback of a container."""
    key = secrets.token_hex(32)
    entrypoint = ("python3", "-I", "-c", source_of(route_program))
    opened = open_sidecar(
        DockerImage(name=image, work_dir="/"), LIMITS, room, beside=beside, arguments=(key,), entrypoint=entrypoint
    )
    async with opened as channel:
        port = None
        with anyio.move_on_after(_START_S):
            port = await _first_line(channel)
        if not port:
            why, kind = channel.end or (f"it printed nothing within {_START_S:g} s", "sandbox_died")
            raise SandboxBoundaryError(f"the route to the evaluator's model did not start: {why}", kind=kind)
        route = ModelRoute(
            channel,
            {
                # In the container every model is behind OpenAI's wire, so litellm must not look at the provider's name.
                "LITELLM_MODEL": f"openai/{model.removeprefix('openai/')}",
                "LITELLM_BASE_URL": f"http://127.0.0.1:{int(port)}/v1",
                "LITELLM_API_KEY": key,
            },
            clock,
        )
        with ungrouped():
            async with anyio.create_task_group() as group:
                group.start_soon(route.serve, ask)
                yield route
                group.cancel_scope.cancel()


async def _first_line(channel: LineChannel) -> bytes:
    try:
        return await channel.lines.receive()
    except anyio.EndOfStream:
        return b""
