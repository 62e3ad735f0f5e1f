"""An ASGI application on a free loopback port, in the loop of the test."""

import asyncio
import contextlib

import uvicorn


@contextlib.asynccontextmanager
async def serving(app):
    """Serve while the block runs and give the address."""
    config = uvicorn.Config(app, port=0, lifespan="off", log_level="critical", ws="none", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.install_signal_handlers = lambda: None
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:  # noqa: ASYNC110  uvicorn has no event for it
            await asyncio.sleep(0.005)
        host, port = server.servers[0].sockets[0].getsockname()[:2]
        yield f"http://{host}:{port}"
    finally:
        server.should_exit = True
        await running
