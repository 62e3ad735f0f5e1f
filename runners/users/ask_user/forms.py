"""Forms that an agent or a tool server asks its user to fill in: the questions in them, and what the answers fill in.

Forms are those of MCP's and ACP's ``elicitation/create``. Agents put the questions of their own asking tools into them.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from lhaw_record.recorder.events import ApprovalAnswered, QuestionOption
from lhaw_record.recorder.events.interaction import Medium, ResponseState
from lhaw_record.runners.base.conversation.actions import decoded_arguments
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.models.gateway.calls import PendingCall
from lhaw_record.runners.users.ask_user.recorded_user import Question, RecordedUser, Reply
from lhaw_record.runners.users.ask_user.server import MAX_CHARACTERS
from lhaw_record.runners.users.simulated_user.answers import is_recommended, plain_label

ApprovalPolicy = Literal["allow", "reject"]
_MOST_FIELDS = 50
_NOTHING = object()
_OTHER = re.compile(r"none of the above|other\b", re.IGNORECASE)


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form: its question, and what to fill in.

    ``picks`` has what is filled in for each option, by its label. ``own_words`` is the field for an answer in one's own
    words, and ``other`` the pick that goes with it. ``kind`` is the field's type in the schema.
    """

    key: str
    question: Question
    picks: dict[str, Any]
    own_words: str | None = None
    other: str | None = None
    kind: str = "string"

    def content(self, reply: Reply) -> dict[str, Any]:
        """Return what a reply fills in: the picked options, or the words. It is nothing without an answer."""
        if reply.state not in ("answered", "late"):
            return {}
        picked = [self.picks[label] for label in reply.picked]
        if picked:
            return {self.key: picked if self.question.is_list else picked[0]}
        value = _number(reply.text) if self.kind in ("number", "integer") else reply.text
        if self.own_words is None or value is None or (self.kind == "integer" and not isinstance(value, int)):
            return {}
        other = [self.other] if self.question.is_list else self.other
        return ({self.key: other} if self.other and self.question.is_required else {}) | {self.own_words: value}


def fields_of(params: Mapping[str, Any], call: PendingCall | None) -> list[FormField]:
    """Return the questions of a form.

    Agents put a question into the form's message, or into a field's title or description, and its header into another
    of these. So the question is read from the call of the asking tool, where that is known.
    """
    schema = _object(params.get("requestedSchema"))
    properties = {key: _object(value) for key, value in _object(schema.get("properties")).items()}
    required = schema.get("required")
    own_words = {
        key: next((name for name in properties if re.fullmatch(rf"{re.escape(key)}_(custom|note\d*)", name)), None)
        for key in properties
    }
    keys = [key for key in properties if key not in own_words.values()]
    asked = _questions_of(call)
    return [
        _field(
            key,
            properties[key],
            str(params.get("message") or ""),
            asked[position] if len(asked) == len(keys) else {},
            own_words[key],
            is_required=isinstance(required, list) and key in required,
        )
        for position, key in enumerate(keys)
    ]


def listed_fields(questions: Any) -> list[FormField]:
    """Return the questions of an asking tool that puts up no form, and takes labels or words for each of them."""
    fields = []
    for position, asked in enumerate(map(_object, _listed(questions))):
        key, shown = str(position), {"oneOf": asked.get("options")}
        is_list = asked.get("multiple") or asked.get("multiSelect")
        schema = {"type": "array", "items": shown} if is_list else {"type": "string", **shown}
        own_words = None if asked.get("custom") is False else key
        fields.append(_field(key, schema, "", asked, own_words, is_required=False))
    return fields


def _field(
    key: str, field: dict[str, Any], message: str, told: dict[str, Any], own_words: str | None, *, is_required: bool
) -> FormField:
    is_list, kind = field.get("type") == "array", str(field.get("type") or "string")
    shown = _options(_object(field.get("items")) if is_list else field)
    picks = {_label(each): each.get("const", _label(each)) for each in shown}
    texts = (message, field.get("title"), field.get("description"))
    offers = [_object(each) for each in _listed(told.get("options"))]
    labels = {plain_label(label): label for label in picks}
    offers = offers if any(plain_label(_label(each)) in labels for each in offers) else shown
    options = [
        QuestionOption(label=labels[plain_label(_label(each))], description=str(each.get("description") or ""))
        for each in offers
        if plain_label(_label(each)) in labels and not (own_words and _OTHER.match(_label(each)))
    ]
    default = field.get("default", _NOTHING)
    recommended = [each.label for each in options if is_recommended(each) or default == picks[each.label]]
    if own_words is None and not shown and kind in ("string", "number", "integer"):
        own_words = key
    header = str(told.get("header") or "")
    lines = (f"- {': '.join(dict.fromkeys(filter(None, (each.label, each.description))))}" for each in options)
    return FormField(
        key=key,
        question=Question(
            text=str(told.get("question") or "\n".join(dict.fromkeys(str(text) for text in texts if text)) or key),
            context="\n".join(filter(None, (header, *lines))),
            header=header,
            options=tuple(options),
            recommended=recommended[0] if recommended else None,
            takes_words=own_words is not None,
            is_list=is_list,
            is_required=is_required,
        ),
        picks=picks,
        own_words=own_words,
        other=next((picks[label] for label in picks if label not in {each.label for each in options}), None)
        if own_words != key
        else None,
        kind=kind,
    )


def filled(fields: Sequence[FormField], replies: Sequence[Reply]) -> dict[str, Any]:
    """Return the result of a form: accepted with all answers that there are, or why there are none."""
    content: dict[str, Any] = {}
    for field, reply in zip(fields, replies, strict=True):
        content |= field.content(reply)
    if content:
        return {"action": "accept", "content": content}
    return {"action": "decline" if any(reply.state == "declined" for reply in replies) else "cancel"}


async def fill_in(
    asking: RecordedUser,
    fields: Sequence[FormField],
    call_id: str | None,
    action_index: int | None,
    medium: Medium,
    state: ResponseState | None = None,
) -> dict[str, Any]:
    """Let the user answer the questions of a form, and return its result. A form that no person reads is declined."""
    length = sum(len(field.question.text + field.question.context) for field in fields)
    if not fields or len(fields) > _MOST_FIELDS or length > MAX_CHARACTERS:
        return {"action": "decline"}
    questions = [field.question for field in fields]
    return filled(fields, await asking.ask(questions, call_id, action_index, medium, state))


async def confirmed(recording: Recording, message: str, call_id: str | None, policy: ApprovalPolicy) -> dict[str, Any]:
    """Answer a form without a field, which is a request for approval, and record that."""
    action = "accept" if policy == "allow" else "decline"
    options = ("accept", "decline")
    await recording.append(ApprovalAnswered(call_id=call_id, title=message, options=options, answer=action))
    return {"action": action, **({"content": {}} if action == "accept" else {})}


async def fill_in_for_server(
    asking: RecordedUser,
    recording: Recording,
    params: Mapping[str, Any],
    call_id: str | None,
    action_index: int | None,
) -> dict[str, Any]:
    """Let the user fill in a form of the task's own tool server, which a tool call has put up."""
    if params.get("mode", "form") != "form":
        return {"action": "decline"}
    if not _object(_object(params.get("requestedSchema")).get("properties")):
        return await confirmed(recording, str(params.get("message") or ""), call_id, "allow")
    return await fill_in(asking, fields_of(params, None), call_id, action_index, "elicitation")


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _number(text: str) -> float | int | None:
    """Return the only number in a text, or None."""
    found = re.findall(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\d)", text.replace(",", ""))
    return msgspec.json.decode(found[0], type=int | float) if len(found) == 1 else None


def _label(option: Mapping[str, Any]) -> str:
    return str(option.get("label") or option.get("title") or option.get("const") or "")


def _options(field: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the options of a field, by the schema's three ways to say them."""
    if field.get("type") == "boolean":
        return [{"const": True, "title": "Yes"}, {"const": False, "title": "No"}]
    names = _listed(field.get("enumNames"))
    plain = [
        {"const": each, "title": str(names[position] if position < len(names) else each)}
        for position, each in enumerate(_listed(field.get("enum")))
    ]
    return [
        each for each in _listed(field.get("oneOf")) or _listed(field.get("anyOf")) if isinstance(each, dict)
    ] or plain


def _questions_of(call: PendingCall | None) -> list[dict[str, Any]]:
    """Return the questions that a model put into the call of its asking tool."""
    questions = (decoded_arguments(call.arguments_json) or {}).get("questions") if call is not None else None
    return [each for each in questions if isinstance(each, dict)] if isinstance(questions, list) else []
