"""Replay models, which repeat the calls of a reference solution live and answer from the results.

``scripted/replay`` repeats a reference unchanged, so it only makes sense under ``full``. ``scripted/replay_masked``
does not know the removed values: it blanks or guesses every argument that contains one until the conversation reveals
the value, and then repeats the affected calls. Both models are stateless: the conversation alone determines the next
call.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Literal

import msgspec

from lhaw_record.recorder.events.canonical_json import canonical_json
from lhaw_record.recorder.events.values import CONDITIONS, Usage
from lhaw_record.runners.base.conversation.actions import decoded_arguments
from lhaw_record.runners.base.conversation.messages import Message, ToolCall, to_wire
from lhaw_record.runners.models.protocol import ModelReply, ModelRequest

MASKED_REPLAY = "scripted/replay_masked"
ASK_TOOL = "ask_user"
SUBMIT_TOOL = "submit"
CHARACTERS_PER_TOKEN = 4
QUOTED_RESULT_CHARACTERS = 500

Compose = Callable[[Mapping[str, str], Sequence[str]], str]
"""Composes the final answer from the parameters' values by name and the live results of all reference calls."""


class ReferenceParameter(msgspec.Struct, frozen=True, kw_only=True):
    """A value in the prompt that calls depend on.

    ``written`` is its spelling in arguments. ``guesses`` replace it while it is unknown. Without guesses, it is left
    blank. ``derived`` lists the arguments that are computed from it, as (call number from 1, argument). A tool result
    that shows the value together with one of its ``alternatives`` does not reveal which one is meant.
    """

    name: str
    value: str
    written: str
    question: str
    guesses: tuple[str, ...] = ()
    alternatives: tuple[str, ...] = ()
    derived: tuple[tuple[int, str], ...] = ()


class ReferenceCall(msgspec.Struct, frozen=True, kw_only=True):
    """One call of a reference. ``result`` is the recorded text of its result, or None.

    A call that ``uses_earlier`` calls, such as one that runs a file that they wrote, is repeated with them.
    """

    name: str
    arguments: dict[str, Any]
    result: str | None = None
    uses_earlier: bool = False


class Reference(msgspec.Struct, frozen=True, kw_only=True):
    """The calls that solve a task.

    They were ``published`` with the task, or come from our ``own`` script. ``compose`` writes the answer. In a
    multi-step task each step ends with ``submit``, and ``later_prompts`` are the prompts of all steps but the first.
    """

    task_id: str
    origin: Literal["published", "own"]
    calls: tuple[ReferenceCall, ...]
    parameters: tuple[ReferenceParameter, ...] = ()
    compose: Compose | None = None
    later_prompts: tuple[str, ...] = ()


class ReplayModel:
    """``scripted/replay``: makes the reference's calls in order, then answers from their live results.

    Args:
        name: The model's recorded name.
        seed: Chooses among guesses.
        reference: The calls to replay.
        removed_values: The values that the prompt lacks. Only the masked model accepts any.

    Raises:
        ValueError: Values are removed, but this model needs all of them.
    """

    conditions: ClassVar[tuple[str, ...]] = ("full",)

    def __init__(self, name: str, seed: int, reference: Reference, removed_values: tuple[str, ...] = ()) -> None:
        if removed_values and "underspecified" not in self.conditions:
            raise ValueError(f"{name} has every value, so it runs only under full; use scripted/replay_masked")
        self.name = name
        self._seed = seed
        self._reference = reference
        self._hidden = hidden_parameters(reference, removed_values)

    async def respond(self, request: ModelRequest) -> ModelReply:
        """Return the next question or call that the conversation lacks, or the final answer."""
        message = self._next_message(request)
        seen = sum(len(str(to_wire(item))) for item in request.messages)
        usage = Usage(
            input_tokens=seen // CHARACTERS_PER_TOKEN,
            output_tokens=len(str(to_wire(message))) // CHARACTERS_PER_TOKEN,
            cost_usd=0.0,
        )
        reason = "tool_calls" if message.tool_calls else "stop"
        return ModelReply(message=message, finish_reason=reason, usage=usage, served_model=self.name)

    def _next_message(self, request: ModelRequest) -> Message:
        unknown = tuple(p for p in self._hidden if not is_told(p, request.messages))
        can_submit = any(tool.name == SUBMIT_TOOL for tool in request.tools)  # a program may end on text only
        calls = self._calls(request.messages, can_submit=can_submit)
        plan = [masked(call, number, unknown, self._seed) for number, call in enumerate(calls, start=1)]
        results, missing = match_results(plan, request.messages)
        asked = {
            call.arguments_json for message in request.messages for call in message.tool_calls if call.name == ASK_TOOL
        }
        can_ask = any(tool.name == ASK_TOOL for tool in request.tools)
        number_of_calls = sum(len(message.tool_calls) for message in request.messages)
        if can_ask:
            for parameter in unknown:
                question = canonical_json({"question": parameter.question}).decode()
                is_due = missing is None or depends_on(calls[missing], missing + 1, parameter)
                if question not in asked and is_due:
                    return _tool_turn(number_of_calls, ASK_TOOL, question)
        if missing is not None:
            call = plan[missing]
            return _tool_turn(number_of_calls, call.name, canonical_json(call.arguments).decode())
        values = {p.name: p.written for p in self._reference.parameters}
        values |= {p.name: guess_of(p, self._seed) for p in unknown}
        return Message(role="assistant", content=self._answer(values, results))

    def _calls(self, messages: Sequence[Message], *, can_submit: bool) -> list[ReferenceCall]:
        """Return the calls from the conversation's current step on, or only this step's if the agent cannot submit."""
        calls = list(self._reference.calls)
        opening = _folded(next((each.content for each in messages if each.role == "user"), ""))
        begun = [number for number, text in enumerate(self._reference.later_prompts, 1) if _folded(text) in opening]
        ends = [position for position, call in enumerate(calls, 1) if call.name == SUBMIT_TOOL]
        step = begun[-1] if begun else 0
        first = ends[step - 1] if step else 0
        if can_submit:
            return calls[first:]
        last = ends[step] if self._reference.later_prompts else len(calls)
        return [call for call in calls[first:last] if call.name != SUBMIT_TOOL]

    def _answer(self, values: Mapping[str, str], results: Sequence[str]) -> str:
        if self._reference.compose is not None:
            return self._reference.compose(values, results)
        found = [
            f"{call.name} gave: {result.strip()}"
            for call, result in zip(self._reference.calls, results, strict=False)
            if len(result) <= QUOTED_RESULT_CHARACTERS
        ]
        return "\n".join(["This is what I found.", *found])


class MaskedReplayModel(ReplayModel):
    """``scripted/replay_masked``: replays a reference without knowing the removed values."""

    conditions: ClassVar[tuple[str, ...]] = CONDITIONS


REPLAY_MODELS: dict[str, type[ReplayModel]] = {
    "scripted/replay": ReplayModel,
    MASKED_REPLAY: MaskedReplayModel,
}


def hidden_parameters(reference: Reference, removed_values: Sequence[str]) -> tuple[ReferenceParameter, ...]:
    """Return the parameters that belong to removed values. A value without a parameter gets a new one."""
    hidden: dict[str, ReferenceParameter] = {}
    for value in removed_values:
        known = [p for p in reference.parameters if _folded(p.value) == _folded(value)]
        fallback = ReferenceParameter(
            name=value,
            value=value,
            written=value,
            question="One detail that I need for the next step is missing from the request. Could you tell me it?",
        )
        for parameter in known or [fallback]:
            hidden[parameter.name] = parameter
    return tuple(hidden.values())


def hides_nothing(reference: Reference, removed_values: Sequence[str]) -> bool:
    """Return whether masking has no effect: no call or answer of the reference contains a removed value."""
    hidden = hidden_parameters(reference, removed_values)
    return reference.compose is None and not any(
        depends_on(call, number, parameter)
        for number, call in enumerate(reference.calls, start=1)
        for parameter in hidden
    )


def is_told(parameter: ReferenceParameter, messages: Sequence[Message]) -> bool:
    """Return whether a user turn, an answer, or a tool result that singles it out reveals a parameter's value."""
    answers = {call.call_id for m in messages for call in m.tool_calls if call.name == ASK_TOOL}
    for message in messages:
        if message.role == "assistant":
            continue
        text = _folded(message.content)
        if not any(_holds(text, spelling) for spelling in (parameter.value, parameter.written)):
            continue
        is_user = message.role in ("user", "system") or message.tool_call_id in answers
        if is_user or not any(_holds(text, other) for other in parameter.alternatives):
            return True
    return False


def depends_on(call: ReferenceCall, number: int, parameter: ReferenceParameter) -> bool:
    """Return whether a call's true arguments contain a parameter's value, or were computed from it."""
    if any(of_call == number for of_call, _ in parameter.derived):
        return True
    return any(_holds(_folded(text), parameter.written) for text in _texts(call.arguments))


def masked(call: ReferenceCall, number: int, unknown: Sequence[ReferenceParameter], seed: int) -> ReferenceCall:
    """Return a call as an agent would make it without knowing some parameters, which are guessed or left blank."""
    arguments = call.arguments
    for parameter in unknown:
        arguments = _replaced(arguments, parameter.written, guess_of(parameter, seed))
        for of_call, argument in parameter.derived:
            if of_call == number and argument in arguments:
                arguments = {**arguments, argument: ""}
    return msgspec.structs.replace(call, arguments=arguments)


def guess_of(parameter: ReferenceParameter, seed: int) -> str:
    """Return the guess for an unknown parameter, which depends on the seed. It is blank if there are no guesses."""
    return parameter.guesses[seed % len(parameter.guesses)] if parameter.guesses else ""


def match_results(plan: Sequence[ReferenceCall], messages: Sequence[Message]) -> tuple[list[str], int | None]:
    """Find the planned calls in the conversation. Each executed call is used once.

    One that uses earlier calls is found only after all of these.
    """
    results = {m.tool_call_id: m.content for m in messages if m.role == "tool"}
    executed = [call for message in messages for call in message.tool_calls if call.call_id in results]
    made: dict[tuple[str, bytes], list[int]] = {}
    for number, call in enumerate(executed):
        arguments = decoded_arguments(call.arguments_json)
        if arguments is not None:
            made.setdefault((call.name, canonical_json(arguments)), []).append(number)
    used: list[int] = []
    for position, planned in enumerate(plan):
        places = made.get((planned.name, canonical_json(planned.arguments)), [])
        begun = max(used, default=-1) if planned.uses_earlier else -1
        place = next((each for each in places if each > begun and each not in used), None)
        if place is None:
            return [results[executed[each].call_id] for each in used], position
        used.append(place)
    return [results[executed[each].call_id] for each in used], None


def _tool_turn(number_of_calls: int, name: str, arguments_json: str) -> Message:
    call = ToolCall(call_id=f"replay_{number_of_calls + 1}", name=name, arguments_json=arguments_json)
    return Message(role="assistant", content="", tool_calls=(call,))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _holds(folded_text: str, spelling: str) -> bool:
    wanted = _folded(spelling)
    return bool(wanted) and re.search(rf"(?<![^\W_]){re.escape(wanted)}(?!\d)", folded_text) is not None


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.values() for text in _texts(item)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return []


def _replaced(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return re.sub(rf"(?<![^\W_]){re.escape(old)}", lambda _: new, value, flags=re.IGNORECASE) if old else value
    if isinstance(value, dict):
        return {key: _replaced(item, old, new) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, old, new) for item in value]
    return value
