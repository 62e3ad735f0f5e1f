"""Flags finished trials whose numbers may reflect recording problems rather than the agent."""

import tomllib
from collections.abc import Iterator, Sequence
from functools import cache

from lhaw_record.recorder.events.trial import TrialFlagged
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.conversation.actions import action_count_of
from lhaw_record.runners.models.gateway.served_replies import ServedReply
from lhaw_record.runners.models.gateway.threads import Thread
from lhaw_record.runners.models.gateway.trial_state import TrialState

UNCOUNTED_REPLIES = 3
"""Number of uncounted replies with actions that flags a trial; the agent may have discarded one or two."""


def flags_of(state: TrialState, *, has_ended_itself: bool, ask_user_tool: str = "") -> tuple[TrialFlagged, ...]:
    """Return the flags of a trial that has ended and whose last actions have been counted."""
    found = list(_unanswered_tools(state, ask_user_tool))
    if state.is_main_guessed:
        found.append(
            TrialFlagged(
                flag="no_main_thread",
                detail=f"{state.answered} conversations got replies, but none of them was continued",
            )
        )
    uncounted = uncounted_replies(state, has_ended_itself=has_ended_itself)
    actions = sum(action_count_of(reply.message) for reply in uncounted)
    is_uncounted = len(uncounted) >= UNCOUNTED_REPLIES
    if is_uncounted:
        threads = sorted({reply.thread_id for reply in uncounted})
        found.append(
            TrialFlagged(
                flag="actions_uncounted",
                detail=f"{state.actions.count} actions were counted, but {actions} more were in {len(uncounted)} "
                f"replies to {', '.join(threads)}, the first in call {uncounted[0].call_id}, and no request of "
                f"the main thread showed them",
            )
        )
    lost = _lost_injection(state, uncounted if is_uncounted else ())
    return (*found, lost) if lost is not None else tuple(found)


@cache
def asking_tools() -> frozenset[str]:
    """Return the names of the tools by which programs ask their own user."""
    return frozenset(tomllib.loads(data_path("user", "asking_tools.toml").read_text(encoding="utf-8"))["names"])


def _unanswered_tools(state: TrialState, ask_user_tool: str) -> Iterator[TrialFlagged]:
    """Yield a flag if the model was offered a way to ask that is not the trial's, so that nobody answers it."""
    offered = {name for thread in state.threads.all for name in thread.offered} & asking_tools() - {ask_user_tool}
    called = [call.name for reply in state.threads.replies.all for call in reply.message.tool_calls]
    if offered:
        detail = ", ".join(f"{name} was offered, and called {called.count(name)} times" for name in sorted(offered))
        yield TrialFlagged(flag="asking_unanswered", detail=detail)


def uncounted_replies(state: TrialState, *, has_ended_itself: bool) -> list[ServedReply]:
    """Return the uncounted replies with actions that the agent probably executed, in order.

    A sub-agent's work while the main thread waits for it belongs to the main thread's action. Work after the main
    thread's last call is suspicious, unless a header or declaration identifies the sub-agent, or the program was
    stopped.
    """
    threads = state.threads
    main = threads.main
    after = main.last_reply.number if main is not None and main.last_reply is not None else 0
    has_tools = any(thread.has_tools for thread in threads.all)
    return [
        reply
        for reply in threads.replies.all
        if (bool(reply.message.tool_calls) or not has_tools)
        and not state.actions.is_counted(reply)
        and _is_suspicious(threads[reply.thread_id], main, reply, after if has_ended_itself else None)
    ]


def _is_suspicious(thread: Thread, main: Thread | None, reply: ServedReply, after: int | None) -> bool:
    if reply.call_id in thread.summaries or (thread.is_named and thread.kind != "main"):
        return False
    if thread.kind == "sub_agent":
        return after is not None and reply.number > after
    if thread.kind == "side" and not thread.has_tools:
        is_aside = thread.forked_from is not None and (after is None or reply.number < after)
        return not is_aside and (main is None or not main.has_tools)
    return thread.kind != "main" or reply is not thread.last_reply


def _lost_injection(state: TrialState, uncounted: Sequence[ServedReply]) -> TrialFlagged | None:
    """Return a flag if the injected message did not reach the agent, or was missing from some of its calls."""
    injection = state.injection
    if injection is None:
        return None
    if injection.anchor is None:
        served = state.actions.count + sum(action_count_of(reply.message) for reply in uncounted)
        if state.is_main_guessed:
            return TrialFlagged(flag="injection_lost", detail="no main thread was known that could get the message")
        if uncounted and served >= injection.planned.target_action:
            return TrialFlagged(
                flag="injection_lost",
                detail=f"due after action {injection.planned.target_action}; {served} were in replies, "
                f"{state.actions.count} were counted",
            )
        return None
    later = [reply for reply in uncounted if reply.number > injection.anchor.number]
    if later:
        detail = f"from call {later[0].call_id} on, the agent worked without the message"
        return TrialFlagged(flag="injection_lost", detail=detail)
    if state.calls_without_message:
        detail = f"{state.calls_without_message} later calls of the main thread had no place for the message"
        return TrialFlagged(flag="injection_lost", detail=detail)
    return None
