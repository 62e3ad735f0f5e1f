"""What the end of a program means, fact by fact."""

import msgspec
import pytest

from lhaw_record.recorder.events import ModelFailed
from lhaw_record.runners.agents.programs.outcome import ProgramFacts, ending_of
from lhaw_record.runners.base.errors import ModelBoundaryError, SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.protocol import ProgramEnd

GOOD = ProgramFacts(
    name="tiny 1",
    end=ProgramEnd(exit_code=0),
    limit_reached=None,
    is_time_up=False,
    last_failure=None,
    reply_count=3,
    wire="chat",
    wires={"chat"},
)


def with_(**changes):
    """A good end, changed."""
    return msgspec.structs.replace(GOOD, **changes)


def failure(kind):
    """A failed call."""
    return ModelFailed(call_id="t1.4", role="agent", error_kind=kind, message="no", is_retried=False, latency_ms=1.0)


OUTSIDE = ProgramEnd(exit_code=137, memory_kill="memory_outside")
KILLED, CRASHED = ProgramEnd(exit_code=None), ProgramEnd(exit_code=3, stderr="Traceback\nKeyError: 'x'\n")


@pytest.mark.parametrize(
    ("facts", "ended_by"),
    [
        (GOOD, "submitted"),
        (with_(wire=None, wires={"messages"}), "submitted"),
        (with_(end=CRASHED), "gave_up"),
        (with_(end=ProgramEnd(exit_code=137)), "gave_up"),
        (with_(end=ProgramEnd(exit_code=137, memory_kill="memory_limit")), "gave_up"),
        (with_(end=KILLED, is_time_up=True), "time_limit"),
        (with_(end=KILLED, is_time_up=True, last_failure=failure("client_gone")), "time_limit"),
        (with_(end=CRASHED, last_failure=failure("hung_up")), "gave_up"),
        (with_(last_failure=failure("hung_up"), reply_count=0, wires=set()), "gave_up"),
        (with_(end=KILLED, is_time_up=True, last_failure=failure("hung_up"), reply_count=0), "time_limit"),
        (with_(end=KILLED, is_time_up=True, last_failure=failure("client_gone"), reply_count=0), "time_limit"),
        (with_(end=CRASHED, limit_reached="turn_limit"), "turn_limit"),
        (with_(limit_reached="cost_limit"), "cost_limit"),
        (with_(last_failure=failure("context_window")), "context_limit"),
        (with_(end=CRASHED, last_failure=failure("context_window"), reply_count=0), "context_limit"),
        (with_(end=CRASHED, last_failure=failure("content_filter")), "refused"),
        (with_(end=CRASHED, last_failure=failure("endless_reply")), "output_limit"),
        (with_(end=KILLED, is_time_up=True, last_failure=failure("endless_reply")), "time_limit"),
        (with_(last_finish_reason="length"), "output_limit"),
        (with_(end=CRASHED, last_finish_reason="refusal"), "refused"),
        (with_(end=CRASHED, last_finish_reason="stop"), "gave_up"),
        (with_(end=KILLED, is_time_up=True, last_finish_reason="length"), "time_limit"),
        (with_(end=KILLED, limit_reached="turn_limit", last_failure=failure("timeout")), "turn_limit"),
    ],
)
def test_what_the_agent_did_is_its_ending(facts, ended_by):
    """An end, a crash after work, a limit and the time are the agent's own, and are graded."""
    assert ending_of(facts) == ended_by


@pytest.mark.parametrize(
    ("facts", "kind", "is_owed"),
    [
        (with_(end=ProgramEnd(exit_code=None, start_error="Permission denied"), reply_count=0), "program_start", False),
        (with_(end=OUTSIDE), "host_out_of_memory", True),
        (with_(end=OUTSIDE, reply_count=0, wires=set()), "host_out_of_memory", True),
        (with_(end=OUTSIDE, limit_reached="turn_limit"), "host_out_of_memory", True),
        (with_(end=OUTSIDE, last_failure=failure("hung_up")), "host_out_of_memory", True),
        (with_(end=msgspec.structs.replace(OUTSIDE, exit_code=0)), "host_out_of_memory", True),
        (with_(end=CRASHED, reply_count=0), "program_no_call", True),
        (with_(reply_count=0), "program_no_call", True),
        (with_(end=KILLED, is_time_up=True, reply_count=0), "program_no_call", False),
        (with_(end=KILLED), "program_stopped", True),
        (with_(wires={"messages"}), "program_wire", False),
    ],
)
def test_a_program_that_never_worked_is_missing_data(facts, kind, is_owed):
    """What could not start, called nobody or is described wrongly failed at the sandbox, and the message says how."""
    with pytest.raises(SandboxBoundaryError, match="program tiny 1") as caught:
        ending_of(facts)
    assert (caught.value.kind, caught.value.is_retry_owed) == (kind, is_owed)
    if facts.end is CRASHED:
        assert "KeyError: 'x'" in str(caught.value)


@pytest.mark.parametrize(
    ("kind", "is_owed"),
    [
        ("rate_limit", True),
        ("server_error", True),
        ("timeout", True),
        ("client_gone", True),
        ("authentication", False),
        ("bad_request", False),
    ],
)
@pytest.mark.parametrize("end", [GOOD.end, CRASHED, KILLED])
@pytest.mark.parametrize("reply_count", [0, 3])
def test_a_model_that_failed_last_is_the_models_fault(kind, is_owed, end, reply_count):
    """However a program takes the failure of its last call, the trial failed at the model, as for the native agent."""
    with pytest.raises(ModelBoundaryError) as caught:
        ending_of(with_(end=end, last_failure=failure(kind), reply_count=reply_count))
    assert (caught.value.kind, caught.value.is_retry_owed) == (kind, is_owed)
