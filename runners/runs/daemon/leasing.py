"""The requests about leases: take the next trial of a leased agent, say that it is alive, close it, or give it back."""

import time
from typing import TYPE_CHECKING

import anyio
import msgspec

from lhaw_record.runners.agents.planned_trial import PlannedTrial
from lhaw_record.runners.runs.daemon.daemon import Daemon, experiment_of
from lhaw_record.runners.runs.daemon.messages import (
    DaemonRefusal,
    ExperimentOrder,
    LeaseClosing,
    LeaseReply,
    LeaseRequest,
)
from lhaw_record.runners.runs.daemon.orders import known
from lhaw_record.runners.runs.scheduler import Scheduler

if TYPE_CHECKING:
    from lhaw_record.runners.agents.programs.leases import Lease, Leases

OPENING_WAIT_S = 20.0
"""How long the reply to a request for a lease waits until its trial is open, which may need an image first."""
GRADING_WAIT_S = 60.0
"""How long the reply to a close waits for the grade."""
_LONGEST_IDLE_S = 7 * 86_400.0
_MAY_YET = ("waiting", "pausing", "paused", "problem")


async def take(daemon: Daemon, _: str, wanted: LeaseRequest) -> LeaseReply:
    """Begin the next trial of a leased agent and return what its agent needs.

    If opening it takes long, the reply has the state ``opening``, and :func:`beat` gives the rest later.
    """
    if not 1 <= wanted.idle_s <= _LONGEST_IDLE_S:
        message = f"idle_s: from 1 to {_LONGEST_IDLE_S:,.0f} seconds"
        raise DaemonRefusal(message, kind="bad_request", status=422)
    names = list(daemon.queue.entries) if wanted.experiment is None else [known(daemon, wanted.experiment).name]
    leases = _leases(daemon)
    for name in names:
        scheduler = _scheduler(daemon, name)
        if scheduler is not None and (lease := _taken(leases, name, scheduler, wanted)) is not None:
            with anyio.move_on_after(OPENING_WAIT_S):
                await lease.settled.wait()
            if lease.settled.is_set() and lease.offer is None:
                raise DaemonRefusal(f"the trial cannot be opened: {lease.message}", kind="not_opened", status=503)
            return msgspec.structs.replace(_reply(leases, lease), lease_token=lease.token)
    raise _nothing(daemon, names, wanted.agent)


async def beat(daemon: Daemon, lease_id: str, _: ExperimentOrder) -> LeaseReply:
    lease = _known(daemon, lease_id)
    lease.touch()
    return _reply(_leases(daemon), lease)


async def close(daemon: Daemon, lease_id: str, closing: LeaseClosing) -> LeaseReply:
    """Let a trial be graded, and return its result. Closing it again returns the same.

    If grading takes long, the reply has the state ``grading``.
    """
    from lhaw_record.runners.agents.programs.leases import Closing

    lease = _known(daemon, lease_id)
    if lease.state == "opening":
        message = f"lease {lease_id} is being opened, so there is nothing to grade; ask for it until its state is open"
        raise DaemonRefusal(message, kind="conflict", status=409)
    lease.close(Closing(exit_code=closing.exit_code, answer=closing.answer))
    with anyio.move_on_after(GRADING_WAIT_S):
        await lease.ended.wait()
    if lease.state == "returned":
        message = f"nothing was graded, {lease.message}: take another lease"
        raise DaemonRefusal(message, kind="returned", status=409)
    return _reply(_leases(daemon), lease)


async def release(daemon: Daemon, lease_id: str, _: ExperimentOrder) -> LeaseReply:
    """Give a trial back. Its attempt is missing data, and the trial is owed to the next who asks."""
    lease = _known(daemon, lease_id)
    lease.release()
    with anyio.move_on_after(GRADING_WAIT_S if lease.offer is not None else 0.0):
        await lease.ended.wait()
    if lease.state in ("grading", "graded"):
        message = f"lease {lease_id} was closed before, and its trial is {lease.state}; there is nothing to release"
        raise DaemonRefusal(message, kind="conflict", status=409)
    return _reply(_leases(daemon), lease)


def _taken(leases: "Leases", name: str, scheduler: Scheduler, wanted: LeaseRequest) -> "Lease | None":
    from lhaw_record.runners.agents.programs.leases import LeasedTrial

    def begin(trial: PlannedTrial, attempt: int) -> "Lease":
        leased = LeasedTrial(experiment=name, agent=trial.agent.name, trial_id=trial.trial_id, attempt=attempt)
        return leases.begin(leased, wanted.idle_s)

    return scheduler.lease(wanted.agent, begin)


def _reply(leases: "Leases", lease: "Lease") -> LeaseReply:
    score, total = lease.points or (None, None)
    offer = lease.offer if lease.state == "open" else None
    url = leases.url_of(offer) if offer else None
    message = lease.message
    if lease.state == "opening":
        since_s = time.monotonic() - lease.begun_s
        message = f"the trial has been opening for {since_s:.0f} s; its image may have to be built or pulled first"
    return LeaseReply(
        lease_id=lease.lease_id,
        state=lease.state,
        experiment=lease.trial.experiment,
        agent=lease.trial.agent,
        trial_id=lease.trial.trial_id,
        attempt=lease.trial.attempt,
        idle_s=lease.idle_s,
        prompt=offer.prompt if offer else None,
        model=offer.model if offer else None,
        gateway_url=url,
        token=offer.token if offer else None,
        mcp_url=f"{url}/mcp" if offer and offer.has_tools else None,
        workspace_url=f"{url}/workspace" if offer else None,
        limit=lease.limit,
        message=message,
        ended_by=lease.finished.ended_by if lease.finished else None,
        is_success=lease.finished.is_success if lease.finished else None,
        score=score,
        total=total,
    )


def _known(daemon: Daemon, lease_id: str) -> "Lease":
    lease = _leases(daemon).find(lease_id)
    if lease is None:
        raise DaemonRefusal(
            f"this daemon has no lease {lease_id}; if the lease was taken before the daemon was restarted, the next "
            f"client gets its trial: take another lease",
            kind="unknown",
            status=404,
        )
    return lease


def _nothing(daemon: Daemon, names: list[str], agent: str | None) -> DaemonRefusal:
    whose = f"agent {agent}" if agent is not None else "a leased agent"
    states = {name: daemon.overview(name) for name in names}
    shown = "; ".join(
        f"{name} is {each.state.replace('_', ' ')}{f' ({each.problem})' if each.problem else ''}"
        for name, each in states.items()
    )
    for name, each in states.items():
        scheduler = _scheduler(daemon, name)
        if scheduler is not None and not scheduler.is_stopping:
            is_later = scheduler.owes_leases(agent)
        else:
            is_starting = name in daemon.live and scheduler is None
            is_later = (is_starting or each.state in _MAY_YET) and _has_program(daemon, name, agent)
        if is_later:
            message = f"no trial of {whose} is free now; ask again later ({shown})"
            return DaemonRefusal(message, kind="nothing_now", status=503)
    message = f"no trial of {whose} is left ({shown or 'nothing was submitted to this daemon'})"
    return DaemonRefusal(message, kind="nothing_left", status=404)


def _has_program(daemon: Daemon, name: str, agent: str | None) -> bool:
    """Return whether an experiment may have a leased agent. Its entry is read only when the experiment is prepared."""
    agents = experiment_of(daemon.queue.entries[name]).agents
    return any(each.program is not None and agent in (None, each.name) for each in agents)


def _scheduler(daemon: Daemon, name: str) -> Scheduler | None:
    live = daemon.live.get(name)
    return live.scheduler if live is not None else None


def _leases(daemon: Daemon) -> "Leases":
    assert daemon.leases is not None, "a daemon that serves has leases"
    return daemon.leases
