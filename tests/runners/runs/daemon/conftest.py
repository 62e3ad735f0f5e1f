"""Real daemons as the tests start them."""

import pytest

from lhaw_record.runners.runs.daemon.client import Client, read_address
from tests.cli.program import end, start, wait_until


@pytest.fixture
def serving():
    """Start daemons: gives the process and a client, once it answers; what is left of them is killed afterwards."""
    begun = []

    def begin(store, *arguments):
        earlier = read_address(store)
        process = start("serve", "--store", store, "--port", "0", *arguments)
        begun.append(process)

        def is_there():
            found = read_address(store)
            assert process.poll() is None, process.stderr.read()
            return found is not None and found != earlier

        wait_until(is_there, "the daemon said where it is")
        return process, Client(read_address(store).url)

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()
            end(process)
