"""The server of a run for its programs, which may misbehave."""

import asyncio

from lhaw_record.runners.agents.programs.program_server import open_program_server


async def test_a_request_with_endless_headers_is_cut_off():
    """A program cannot fill the memory of the run with headers: the connection ends, and the server goes on."""
    async with open_program_server(has_port=True) as listener:
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET /t/x/v1/models HTTP/1.1\r\nhost: x\r\n" + b"x-filler: " + b"a" * (1 << 20))
        try:
            answer = await reader.read(1 << 16)
        except ConnectionResetError:
            answer = b""
        writer.close()
        assert answer == b"" or answer.startswith(b"HTTP/1.1 4")
        reader, writer = await asyncio.open_connection("127.0.0.1", listener.port)
        writer.write(b"GET /t/x/v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 404")
        writer.close()
