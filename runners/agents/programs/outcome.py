"""Decides whether the end of a program is an ending of the agent or a failure of the infrastructure.

These are pure functions. The first rule that applies decides:

    our side failed, or the simulated user           raised as it is
    the kernel killed it, or a part of it, because   boundary sandbox, a retry owed: memory ran out on the host, or
    memory ran out, not at the trial's own limit     in a group around the trial
    it could not be started                          boundary sandbox, no retry owed: it would fail again
    a limit of turns, actions or cost was reached    turn_limit, action_limit, cost_limit: the gateway refuses for good
    it hung up on its last model call, too early     gave_up, or time_limit if its own time was used up
    for a server that does not answer
    its last model call met a limit of the model     context_limit, refused, output_limit: the program saw the error
    it held its last model call open until its own   time_limit, whether or not another call was answered
    time was used up
    its last model call failed, or got no answer     boundary model, a retry owed as for a native agent; unless its
    before it hung up                                own time was used up before
    none of its calls was ever answered              boundary sandbox; a retry owed if it ended by itself, but
                                                     not with 126 or 127: a shell could not start it
    it never used the wire that its entry names      boundary sandbox, no retry owed: the entry is wrong
    its model was never offered a way to ask         boundary sandbox, no retry owed, and whatever its ending
    its host ended without the end of its turn, or   boundary sandbox, a retry owed: the host was killed, or nobody
    with a question open                             knows what the answer would have changed
    its own time was used up                         time_limit
    its model's last reply was cut or refused        output_limit, refused, context_limit, however the program took it
    it ended with a nonzero exit code                gave_up: it worked, then crashed or reported failure
    it ended with exit code 0                        submitted
"""

from collections.abc import Collection

import msgspec

from lhaw_record.recorder.events import ModelFailed
from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.runners.base.conversation.ending import ended_by_failure, ended_by_reply
from lhaw_record.runners.base.errors import ModelBoundaryError, SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.environments.sandboxes.command_output import killed_from_outside
from lhaw_record.runners.environments.sandboxes.protocol import ProgramEnd
from lhaw_record.runners.models.call_outcomes import FINAL_KINDS
from lhaw_record.runners.models.gateway.calls import CLIENT_GONE, HUNG_UP

OUT_OF_MEMORY = "one of its processes was killed because the memory_mb of its sandbox was used up"
_SHOWN_CHARACTERS = 600
_NOT_STARTED = (126, 127)


class ProgramFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is known about a program that has ended.

    Args:
        name: The program's name, for messages.
        end: How the program ended.
        limit_reached: The limit for which the gateway refused a request, or None.
        is_time_up: Whether the program was stopped because its own time was used up.
        last_failure: The failure of the program's last model call, or None if that call got a reply.
        last_finish_reason: The finish reason of the last reply, or None if there was none or if it had tool calls.
        reply_count: The number of replies that the program got.
        wire: The wire that the program's entry names, if any.
        wires: The wires on which the program got replies.
        host_problem: What is wrong with the end of its host, if it speaks ACP.
        lacks_asking: Whether the condition has a user to ask, but no request offered the model a way to.
    """

    name: str
    end: ProgramEnd
    limit_reached: EndedBy | None
    is_time_up: bool
    last_failure: ModelFailed | None
    last_finish_reason: str | None = None
    reply_count: int
    wire: str | None
    wires: Collection[str]
    lacks_asking: bool = False
    host_problem: str = ""


def ending_of(facts: ProgramFacts) -> EndedBy:
    """Return how the agent's part of the trial ended."""
    ended_by = _ending_of(facts)
    if facts.lacks_asking:
        raise asking_not_offered(facts.name)
    return ended_by


def asking_not_offered(name: str) -> SandboxBoundaryError:
    """Return the failure of a program whose model could not ask, so that it says nothing about asking."""
    return SandboxUnfit(
        f"program {name} never offered its model the tool that asks the user; name the MCP server in [asking] of "
        "its entry, and try: lhaw-record agents test",
        kind="asking_not_offered",
    )


def _ending_of(facts: ProgramFacts) -> EndedBy:
    end = facts.end
    if end.memory_kill == "memory_outside":
        raise killed_from_outside(f"the sandbox of program {facts.name}")
    if end.start_error is not None:
        raise SandboxUnfit(
            f"program {facts.name} cannot be started in the sandbox: {end.start_error}; is it below /usr, installed by "
            "'lhaw-record agents install', or among the 'mounts' of its entry?",
            kind="program_start",
        )
    if facts.limit_reached is not None:
        return facts.limit_reached
    if facts.last_failure is not None and (ended_by := _ended_by_call(facts.last_failure, facts)) is not None:
        return ended_by
    if facts.reply_count == 0 and end.exit_code in _NOT_STARTED:
        raise SandboxUnfit(
            f"program {facts.name} {_how(end)} and most likely cannot run in this sandbox or image, which lacks its "
            f"interpreter or libraries (docs/external-agents.md#in-an-image). {_last_words(end)}",
            kind="program_start",
        )
    if facts.reply_count == 0:
        rules = "" if end.exit_code else " If it has rules and no model: docs/external-agents.md#a-program-of-rules"
        raise SandboxBoundaryError(
            f"program {facts.name} {_how(end)} and never got a reply from its model. {_last_words(end)}{rules}",
            kind="program_no_call",
            is_retry_owed=end.exit_code is not None,
        )
    if facts.wire is not None and facts.wire not in facts.wires:
        raise SandboxUnfit(
            f"program {facts.name} used {', '.join(sorted(facts.wires))}, but its entry says wire = {facts.wire!r}; "
            "correct the entry",
            kind="program_wire",
        )
    if not facts.is_time_up:
        _refuse_unfinished(facts)
    if end.exit_code is None:
        return "time_limit"
    own: EndedBy = "submitted" if end.exit_code == 0 else "gave_up"
    return ended_by_reply(facts.last_finish_reason or "") or own


def _refuse_unfinished(facts: ProgramFacts) -> None:
    """Raise an error if a program was ended from outside, or its host has left it."""
    if facts.host_problem and not facts.end.memory_kill:
        raise SandboxBoundaryError(
            f"the host of program {facts.name} {facts.host_problem}. {_last_words(facts.end)}", kind="host_died"
        )
    if facts.end.exit_code is None:
        raise SandboxBoundaryError(
            f"the sandbox's final time limit stopped program {facts.name}, which had time of its own left",
            kind="program_stopped",
        )


def _ended_by_call(failed: ModelFailed, facts: ProgramFacts) -> EndedBy | None:
    """Return how the trial ended by its last call, which failed, or None if its own time had ended before."""
    if failed.error_kind == HUNG_UP:
        return "time_limit" if facts.is_time_up else "gave_up"
    if facts.is_time_up:
        return "time_limit" if failed.error_kind == CLIENT_GONE else None
    ended_by = ended_by_failure(failed.error_kind)
    if ended_by is None:
        is_retry_owed = failed.error_kind not in FINAL_KINDS
        raise ModelBoundaryError(failed.message, kind=failed.error_kind, is_retry_owed=is_retry_owed)
    return ended_by


def _how(end: ProgramEnd) -> str:
    if end.exit_code is None:
        return "did not end in time"
    return f"ended with exit code {end.exit_code}{f', {OUT_OF_MEMORY}' if end.memory_kill else ''}"


def _last_words(end: ProgramEnd) -> str:
    text = (end.stderr.strip() or end.stdout.strip())[-_SHOWN_CHARACTERS:]
    return f"Its last output: {text}" if text else "It printed nothing."
