"""Turns the steps of ATIF documents into turns of a conversation.

ATIF says what an agent did, not what its model was sent. The request of a turn is therefore the steps before it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

from lhaw_record.recorder.events import Reasoning
from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.runners.base.conversation.messages import Message, ToolCall
from lhaw_record.runners.imports.bare_trajectory import BareTrajectory, known_cost
from lhaw_record.runners.imports.foreign_trial import UNKNOWN
from lhaw_record.runners.imports.formats.atif_document import Content, Document, Result, Step, SubAgentRef
from lhaw_record.runners.imports.trajectory import Outcome, Turn

FindSubAgent = Callable[[Document, SubAgentRef], Document | None]
"""Finds the document that a reference in a document leads to, None if it is not there."""


def trajectory_of(documents: Sequence[Document], find: FindSubAgent) -> tuple[BareTrajectory, list[str]]:
    """Return the run that some documents describe, each the continuation of the one before, and remarks about it."""
    first, last = documents[0], documents[-1]
    remarks: Counter[str] = Counter()
    model = first.agent.model_name or next((step.model_name for step in first.steps if step.model_name), None)
    turns = [turn for document in documents for turn in _turns(document, find, remarks, None)]
    replies = [step for step in last.steps if step.source == "agent" and not step.is_copied_context]
    given = [each.final_metrics.total_cost_usd for each in documents if each.final_metrics]
    costs = [cost for cost in given if cost is not None]
    has_costs = bool(turns) and all(turn.cost_usd is not None for turn in turns if turn.is_model_call)
    total = sum(costs) if len(costs) == len(documents) and not has_costs else None
    found = BareTrajectory(
        prompt=next((text_of(step.message) for step in first.steps if step.source == "user"), ""),
        agent=first.agent.name,
        model=model or UNKNOWN,
        program=f"{first.agent.name} {first.agent.version}",
        run_name=first.session_id or first.trajectory_id,
        turns=turns,
        final_answer=text_of(replies[-1].message) if replies else None,
        cost_usd=known_cost(total, sum(turn.input_tokens or 0 for turn in turns)),
    )
    return found, [f"{text} ({count} times)" if count > 1 else text for text, count in remarks.items()]


def text_of(content: Content | None) -> str:
    """Return the text of a message or result. An image or a sound is named in its place."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(f"[{part.type}: {part.source.path}]" if part.source else part.text or "" for part in content)


def _turns(document: Document, find: FindSubAgent, remarks: Counter[str], sub_agent: str | None) -> Iterator[Turn]:
    """Yield the turns of a document, and after a step those of its sub-agents. Copied steps are only context."""
    messages: list[Message] = []
    tools = document.agent.tool_definitions
    tools_json = canonical_json(tools).decode() if tools else None
    for step in document.steps:
        if step.source != "agent":
            messages.append(Message(role=step.source, content=text_of(step.message)))
            messages += [Message(role="user", content=text) for text in _texts(step.results)]
        else:
            turn, after = _turn(step, tuple(messages), sub_agent, tools_json)
            messages += after
            if not step.is_copied_context:
                tools_json = None
                yield turn
        if step.is_copied_context:
            continue
        if not isinstance(step.message, str) or any(isinstance(each.content, list) for each in step.results):
            remarks["images and sounds are named in the text and not kept"] += 1
        for reference in (each for result in step.results for each in result.subagent_trajectory_ref or ()):
            called = find(document, reference)
            if called is None:
                name = reference.trajectory_id or reference.trajectory_path
                remarks[f"the trajectory of the sub-agent {name} is not there"] += 1
            else:
                yield from _turns(called, find, remarks, called.trajectory_id or reference.trajectory_path)
    for each in document.subagent_trajectories or ():  # no step says when these worked
        if (called := find(document, SubAgentRef(trajectory_id=each.trajectory_id))) is not None:
            yield from _turns(called, find, remarks, called.trajectory_id)


def _turn(
    step: Step, request: tuple[Message, ...], sub_agent: str | None, tools_json: str | None
) -> tuple[Turn, list[Message]]:
    """Return the turn of an agent's step, and the messages that later requests have of it.

    A result that names no call belongs to the step's only call, if both are alone. Otherwise it is a message.
    """
    calls = step.tool_calls or []
    is_alone = len(calls) == 1 and len(step.results) == 1
    named: dict[str, list[Result]] = {}
    for result in step.results:
        owner = calls[0].tool_call_id if is_alone else result.source_call_id
        if owner is not None:
            named.setdefault(owner, []).append(result)
    reply = Message(
        role="assistant",
        content=text_of(step.message),
        tool_calls=tuple(
            ToolCall(
                call_id=call.tool_call_id,
                name=call.function_name,
                arguments_json=canonical_json(call.arguments).decode(),
            )
            for call in calls
        ),
    )
    outcomes = tuple(_outcome(named.get(call.tool_call_id, ())) for call in calls)
    metrics = step.metrics
    turn = Turn(
        request=request,
        reply=reply,
        outcomes=outcomes,
        input_tokens=metrics.prompt_tokens if metrics else None,
        output_tokens=metrics.completion_tokens if metrics else None,
        cached_input_tokens=metrics.cached_tokens if metrics else None,
        cost_usd=known_cost(metrics.cost_usd, metrics.prompt_tokens) if metrics else None,
        tools_json=tools_json,
        is_model_call=step.llm_call_count != 0,
        model=step.model_name,
        sub_agent=sub_agent,
        reasoning=Reasoning(text=step.reasoning_content) if step.reasoning_content else None,
    )
    results = [
        Message(role="tool", content=outcome.text, tool_call_id=call.tool_call_id)
        for call, outcome in zip(calls, outcomes, strict=True)
        if outcome is not None
    ]
    others = [] if is_alone else [each for each in step.results if each.source_call_id is None]
    return turn, [reply, *results, *(Message(role="user", content=text) for text in _texts(others))]


def _outcome(results: Iterable[Result]) -> Outcome | None:
    texts = [text_of(result.content) for result in results if result.content is not None]
    return Outcome(text="\n".join(texts)) if texts else None


def _texts(results: Iterable[Result]) -> list[str]:
    return [text_of(result.content) for result in results if result.content is not None]
