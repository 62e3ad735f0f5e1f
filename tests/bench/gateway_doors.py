"""The processes that ``tests.bench.gateway`` measures, one role each: ``python -m tests.bench.gateway_doors ROLE …``.

``provider`` answers chat completions at once, as a stream if asked. ``proxy URL`` passes requests on to it with httpx
and nothing else.
``gateway DIRECTORY URL`` is the real gateway, recording on disk, before the provider; ``own DIRECTORY`` is
the same with a model in its own process. ``library URL TRIALS TURNS`` is no server: it calls litellm itself and prints
what each call took. Servers print their port, and end when standard input does.
"""

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import msgspec
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from lhaw_record.recorder.events import TrialFinished
from lhaw_record.recorder.events.values import Usage
from lhaw_record.recorder.storage.creation import create_store
from lhaw_record.recorder.writing.store_recorder import StoreRecorder
from lhaw_record.runners.agents.programs.program_server import SERVER_OPTIONS
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.base.host.serving import quiet_server
from lhaw_record.runners.experiment.values import Price
from lhaw_record.runners.models.exchanges import close_http_session
from lhaw_record.runners.models.gateway.app import Gateway
from lhaw_record.runners.models.gateway.litellm_upstream import LitellmUpstream
from lhaw_record.runners.models.gateway.session import TrialSession
from lhaw_record.runners.models.gateway.upstream import ModelUpstream, Upstream
from lhaw_record.runners.models.litellm_model import LitellmModel
from lhaw_record.runners.models.protocol import ModelReply, ModelRequest
from tests.bench.gateway_load import Load, opening, told

FREE = Price(input_usd_per_million_tokens=0.0, output_usd_per_million_tokens=0.0)


class AtOnce:
    """A model that calls a tool each time and needs no time for it."""

    name = "bench/at-once"

    def __init__(self):
        self._calls = 0

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Reply with one call; its id is new."""
        self._calls += 1
        call = ToolCall(call_id=f"call_{self._calls}", name="work", arguments_json='{"n":1}')
        message = Message(role="assistant", content="t" * 200, tool_calls=(call,))
        return ModelReply(message=message, finish_reason="tool_calls", usage=Usage(output_tokens=50, cost_usd=0.0))


def provider_app() -> Starlette:
    """Answer every request at once."""
    calls = 0

    async def answer(request: Request) -> Response:
        nonlocal calls
        is_streamed = b'"stream":true' in await request.body()
        calls += 1
        call = {"id": f"call_{calls}", "type": "function", "function": {"name": "work", "arguments": '{"n":1}'}}
        if is_streamed:
            return StreamingResponse(_chunks(call), media_type="text/event-stream")
        message = {"role": "assistant", "content": "t" * 200, "tool_calls": [call]}
        choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
        usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
        body = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice], "usage": usage}
        return JSONResponse(body)

    return Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])


async def _chunks(call: dict[str, Any]) -> AsyncIterator[bytes]:
    """Stream the same reply in twenty words and a call."""
    deltas = [{"role": "assistant", "content": ""}, *({"content": "t" * 10} for _ in range(20))]
    reasons = [(delta, None) for delta in [*deltas, {"tool_calls": [{**call, "index": 0}]}]]
    for delta, reason in [*reasons, ({}, "tool_calls")]:
        choice = {"index": 0, "finish_reason": reason, "delta": delta}
        chunk = {"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        yield b"data: " + msgspec.json.encode(chunk) + b"\n\n"
    usage = {"prompt_tokens": 100, "completion_tokens": 50, "total_tokens": 150}
    yield b"data: " + msgspec.json.encode({"id": "1", "model": "m", "choices": [], "usage": usage}) + b"\n\n"
    yield b"data: [DONE]\n\n"


def proxy_app(url: str) -> Starlette:
    """Pass bytes on and back."""
    client = httpx.AsyncClient(base_url=url, limits=httpx.Limits(max_connections=None), timeout=60)

    async def answer(request: Request) -> Response:
        content = await request.body()
        reply = await client.send(client.build_request("POST", "/v1/chat/completions", content=content), stream=True)
        media_type = reply.headers["content-type"]
        if media_type.startswith("text/event-stream"):
            closing = BackgroundTask(reply.aclose)
            return StreamingResponse(reply.aiter_raw(), reply.status_code, media_type=media_type, background=closing)
        return Response(await reply.aread(), reply.status_code, media_type=media_type)

    return Starlette(routes=[Route("/{path:path}", answer, methods=["POST"])])


def gateway_app(recorder: StoreRecorder, upstream: Upstream) -> Starlette:
    """The real gateway, with addresses to begin and to end trials."""
    gateway, open_trials = Gateway(), {}

    async def begin(request: Request) -> Response:
        key = request.path_params["key"]
        stream = recorder.attempt(f"{int(key):032x}", 1)
        open_trials[key] = TrialSession(recording=stream, upstream=upstream), stream
        gateway.open(key, open_trials[key][0])
        return Response()

    async def end(request: Request) -> Response:
        key = request.path_params["key"]
        session, stream = open_trials.pop(key)
        gateway.close(key)
        await session.close("submitted")
        await stream.append(
            TrialFinished(
                ended_by="submitted",
                is_success=True,
                final_answer="",
                action_count=session.action_count,
                checkpoint_count=0,
                duration_ms=stream.elapsed_ms,
                cost_usd=session.total_usage.cost_usd,
            )
        )
        return Response()

    routes = [
        Route("/begin/{key}", begin, methods=["POST"]),
        Route("/end/{key}", end, methods=["POST"]),
    ]
    return Starlette(routes=[*routes, *gateway.routes])


async def serve(app: Starlette) -> None:
    """Serve on a free port until standard input ends, as a run serves its programs."""
    server = quiet_server(app, port=0, **SERVER_OPTIONS)
    serving = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
        await asyncio.sleep(0.01)
    sys.stdout.write(f"{server.servers[0].sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)
    server.should_exit = True
    await serving


async def serve_gateway(directory: Path, upstream: Upstream) -> None:
    """Serve the gateway over a store."""
    async with StoreRecorder(create_store(directory), "bench") as recorder:
        await serve(gateway_app(recorder, upstream))
    await close_http_session()


async def call_library(url: str, trials: int, turns: int) -> None:
    """Make the same calls with litellm alone; prints the load."""
    model = LitellmModel("bench", api_base=f"{url}/v1", price=FREE)
    took_ms: list[float] = []

    async def trial() -> None:
        messages = [Message(role=each["role"], content=each["content"]) for each in opening()]
        for _ in range(turns):
            began_s = time.perf_counter()
            reply = await model.respond(ModelRequest(messages=tuple(messages)))
            took_ms.append((time.perf_counter() - began_s) * 1e3)
            call_id = reply.message.tool_calls[0].call_id
            result = Message(role="tool", content=told()["content"], tool_call_id=call_id)
            messages += [reply.message, result]

    await trial()  # imports and first connections
    took_ms.clear()
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    await asyncio.gather(*(trial() for _ in range(trials)))
    load = Load(took_ms=took_ms, wall_s=time.perf_counter() - began_s, cpu_s=time.process_time() - began_cpu_s)
    sys.stdout.write(f"{msgspec.json.encode(load).decode()}\n")


def main(role: str, *arguments: str) -> None:
    """Play one role."""
    if role == "provider":
        asyncio.run(serve(provider_app()))
    elif role == "proxy":
        asyncio.run(serve(proxy_app(*arguments)))
    elif role == "gateway":
        upstream = LitellmUpstream(LitellmModel("bench", f"{arguments[1]}/v1", price=FREE))
        asyncio.run(serve_gateway(Path(arguments[0]), upstream))
    elif role == "own":
        asyncio.run(serve_gateway(Path(arguments[0]), ModelUpstream(AtOnce())))
    else:
        url, trials, turns = arguments
        asyncio.run(call_library(url, int(trials), int(turns)))


if __name__ == "__main__":
    main(*sys.argv[1:])
