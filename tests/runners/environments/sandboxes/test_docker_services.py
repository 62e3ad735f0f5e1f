"""Containers beside an agent's, on an engine that only tells how they are."""

import pytest

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.docker.machine import DockerMachine, MachineState
from lhaw_record.runners.environments.sandboxes.docker.services import check_undisturbed, wait_until_done

_AT_START = {"is_running": True, "exit_code": 0, "started_at": "then", "memory_kills": 0}


class Container:
    """A container in the states that it tells one after another, the last for ever: health and failed checks."""

    id = "c"

    def __init__(self, *states):
        self._states = list(states)

    async def show(self):
        """Return the next state, in the engine's format (API 1.44)."""
        health, failures = self._states[0] if len(self._states) == 1 else self._states.pop(0)
        log = [{"Output": "no\nroute"}] if failures else []
        found = {"Running": True, "Restarting": False, "ExitCode": 0, "StartedAt": "then"}
        return {"State": found | {"Health": {"Status": health, "FailingStreak": failures, "Log": log}}}

    async def log(self, **_):
        """Return what it printed."""
        return ["the end"]


class Machine(DockerMachine):
    """A machine in which nothing runs."""

    async def _look(self):
        """See no process killed."""


@pytest.mark.parametrize(
    ("at_start", "states", "words"),
    [
        ("healthy", [("healthy", 0)], None),
        ("healthy", [("healthy", 1), ("healthy", 2), ("healthy", 0)], None),
        ("healthy", [("healthy", 1), ("healthy", 2), ("unhealthy", 3)], "db, a container of us, is no longer healthy"),
        ("healthy", [("unhealthy", 3)], "its check said 'no route'; its last output: the end"),
        ("unhealthy", [("unhealthy", 3)], None),
        ("none", [("none", 0)], None),
    ],
)
async def test_a_service_that_turns_unhealthy_is_missing_data(at_start, states, words):
    """One failed check is decided by those after it; what was never healthy has other checks."""
    machine = Machine(Container(*states))
    before = {"db": MachineState(**_AT_START, health=at_start)}
    if words is None:
        await check_undisturbed({"db": machine}, before, "us")
        return
    with pytest.raises(SandboxBoundaryError, match=words) as raised:
        await check_undisturbed({"db": machine}, before, "us")
    assert (raised.value.kind, raised.value.is_retry_owed) == ("service_unhealthy", False)


async def test_a_job_that_does_not_end_is_named():
    """With the key that gives it more time."""
    machine = Machine(Container(("none", 0)))
    with pytest.raises(SandboxBoundaryError, match=r"fill has not ended within 0\.1 s.*build_timeout_sec"):
        await wait_until_done("fill", machine, 0.1)
