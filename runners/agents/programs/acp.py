"""The client's side of ACP: answers what an agent asks its client, its questions by the simulated user.

``acp_host.py`` runs beside the agent and passes its requests on, one per HTTP request, to ``/t/KEY/acp``. We speak the
dozen messages of ACP ourselves, because the library needs pydantic in every sandbox, and drops a part of what some
agents need as an answer.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import anyio
import msgspec
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events import ApprovalAnswered
from lhaw_record.recorder.events.interaction import Medium
from lhaw_record.runners.agents.programs.acp_host import METHOD_NOT_FOUND
from lhaw_record.runners.base.conversation.actions import decoded_arguments
from lhaw_record.runners.base.errors import BoundaryError, SandboxUnfit
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.models.gateway.calls import PendingCall
from lhaw_record.runners.users.ask_user.calls import PendingCalls
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.server import MAX_CHARACTERS
from lhaw_record.runners.users.ask_user.serving import key_digest
from lhaw_record.runners.users.ask_user.streamable_http import has_token

ApprovalPolicy = Literal["allow", "reject"]
_MAX_BODY_BYTES = 4 << 20
_INTERNAL_ERROR = -32603
_RECOMMENDED = re.compile(r"\(recommended\)", re.IGNORECASE)


class FormField(msgspec.Struct, frozen=True, kw_only=True):
    """One question of a form: what it asks, what can be picked, and the field for an answer in one's own words."""

    key: str
    text: str
    header: str = ""
    options: tuple[str, ...] = ()
    descriptions: tuple[str, ...] = ()
    picks: tuple[str, ...] = ()
    is_list: bool = False
    is_required: bool = False
    own_words: str | None = None

    @property
    def context(self) -> str:
        """The question's header and options, as a person sees them."""
        shown = [": ".join(filter(None, pair)) for pair in zip(self.options, self.descriptions, strict=True)]
        return "\n".join(filter(None, (self.header, *(f"- {option}" for option in shown))))

    @property
    def recommended(self) -> str | None:
        """The option that the agent recommends, if it says so."""
        return next((each for each in self.options if _RECOMMENDED.search(each)), None)

    def content(self, answer: str) -> dict[str, Any] | None:
        """Return the fields of a form with this answer: an option that says the same, or the words themselves.

        The result is None if the form takes neither.
        """
        pick = next((each for each in self.picks if _bare(each) == _bare(answer)), None)
        if pick is not None:
            return {self.key: [pick] if self.is_list else pick}
        if self.own_words is None:
            return None
        other = [each for each in self.picks if each not in self.options]  # "None of the above"
        picked = {self.key: other[-1]} if self.is_required and other and self.own_words != self.key else {}
        return {**picked, self.own_words: answer}


def fields_of(params: Mapping[str, Any], call: PendingCall | None) -> list[FormField]:
    """Return the questions of a form.

    Agents put a question into the form's message, or into a field's title or description, and its header into another
    of these. So the question is read from the call of the asking tool, where that is known.
    """
    schema = _object(params.get("requestedSchema"))
    properties = {key: _object(value) for key, value in _object(schema.get("properties")).items()}
    required = schema.get("required") or ()
    own_words = {
        key: next((name for name in properties if re.fullmatch(rf"{re.escape(key)}_(custom|note\d*)", name)), None)
        for key in properties
    }
    keys = [key for key in properties if key not in own_words.values()]
    asked = _questions_of(call)
    found = []
    for position, key in enumerate(keys):
        field = properties[key]
        is_list = field.get("type") == "array"
        shown = _options(_object(field.get("items")) if is_list else field)
        told = asked[position] if len(asked) == len(keys) else {}
        texts = (params.get("message"), field.get("title"), field.get("description"))
        options = [each for each in told.get("options") or () if isinstance(each, dict)] if told else shown
        found.append(
            FormField(
                key=key,
                text=str(told.get("question") or "\n".join(dict.fromkeys(str(text) for text in texts if text))),
                header=str(told.get("header") or ""),
                options=tuple(_label(each) for each in options),
                descriptions=tuple(str(each.get("description") or "") for each in options),
                picks=tuple(str(each.get("const", _label(each))) for each in shown),
                is_list=is_list,
                is_required=key in required,
                own_words=own_words[key] or (key if field.get("type") == "string" and not shown else None),
            )
        )
    return found


def approval(options: Sequence[Mapping[str, Any]], policy: ApprovalPolicy) -> Mapping[str, Any] | None:
    """Return the option of a request for approval that a policy takes, rather once than for ever."""
    kinds = [f"{policy}_once", f"{policy}_always"]
    fitting = [option for option in options if option.get("kind") in kinds]
    return min(fitting, key=lambda option: kinds.index(str(option["kind"])), default=None)


class AcpClient:
    """The client of one trial's agent.

    Args:
        asking: The simulated user, if the agent asks by its own tool.
        tool: The name of that tool.
        pending: Returns the main thread's actions that are being executed.
        policy: How requests for approval are answered.
        next_turn: Returns what the user says after the end of a turn, or None if they say nothing.
    """

    def __init__(
        self,
        asking: RecordedUser | None,
        tool: str,
        pending: PendingCalls,
        policy: ApprovalPolicy,
        recording: Recording,
        next_turn: Callable[[], Awaitable[str | None]],
    ) -> None:
        self.failure: Exception | None = None
        self.failed = anyio.Event()
        self.has_ended = False
        """Whether the host has said that the agent's turn ended."""
        self._asking = asking
        self._tool = tool
        self._pending = pending
        self._policy = policy
        self._recording = recording
        self._next_turn = next_turn
        self._open: set[anyio.CancelScope] = set()
        self._is_idle = anyio.Event()
        self._is_closed = False

    @property
    def problem(self) -> str:
        """What is wrong with the end of the agent's program, or an empty text."""
        if self._open:
            return "ended with a question open"
        return "" if self.has_ended else "ended without the end of its turn, so that it was killed"

    async def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an agent gets for a request: a result or an error."""
        if self._is_closed:
            return _error(_INTERNAL_ERROR, "the trial is over")
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            try:
                return await self._answered(str(message.get("method")), _object(message.get("params")))
            except (BoundaryError, RecorderError) as error:  # the agent is told no details
                self.failure = self.failure or error
                self.failed.set()
                return _error(_INTERNAL_ERROR, "the user cannot be reached")
            finally:
                self._open.discard(scope)
                if not self._open:
                    self._is_idle.set()
        return _error(_INTERNAL_ERROR, "the trial is over")

    async def close(self) -> None:
        """Take no more requests, and return once the open ones are answered, or given up because this is cancelled."""
        self._is_closed = True
        try:
            await self._all_answered()
        except anyio.get_cancelled_exc_class():
            for scope in self._open:
                scope.cancel()
            with anyio.CancelScope(shield=True):
                await self._all_answered()
            raise

    async def _all_answered(self) -> None:
        while self._open:
            self._is_idle = anyio.Event()
            await self._is_idle.wait()

    async def _answered(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "host/ended":
            self.has_ended = True
            return {"result": {}}
        if method == "host/turn_ended":
            return {"result": {"prompt": await self._next_turn()}}
        if method == "session/request_permission":
            return {"result": {"outcome": await self._approved(params)}}
        if method == "elicitation/create" and self._asking is not None and params.get("mode", "form") == "form":
            return {"result": await self._filled_in(self._asking, params)}
        return _error(METHOD_NOT_FOUND, f"this client does not know {method}")

    async def _approved(self, params: dict[str, Any]) -> dict[str, Any]:
        tool, options = _object(params.get("toolCall")), [_object(each) for each in params.get("options") or ()]
        chosen = approval(options, self._policy)
        await self._recording.append(
            ApprovalAnswered(
                call_id=str(tool["toolCallId"]) if tool.get("toolCallId") else None,
                title=str(tool.get("title") or ""),
                options=tuple(str(each.get("kind") or each.get("optionId")) for each in options),
                answer=str(chosen["kind"]) if chosen is not None else "cancelled",
            )
        )
        if chosen is None:
            return {"outcome": "cancelled"}
        return {"outcome": "selected", "optionId": chosen.get("optionId")}

    async def _filled_in(self, asking: RecordedUser, params: dict[str, Any]) -> dict[str, Any]:
        """Let the user answer every question of a form, one after another."""
        call = self._call_of(params.get("toolCallId"))
        medium: Medium = "built_in" if call is not None or params.get("toolCallId") else "elicitation"
        fields, content = fields_of(params, call), dict[str, Any]()
        if not all(field.text.strip() and len(field.text + field.context) <= MAX_CHARACTERS for field in fields):
            return {"action": "decline"}
        for field in fields:
            asked = await asking(
                field.text,
                field.context,
                call.call_id if call else params.get("toolCallId"),
                call.action_index if call else None,
                medium=medium,
            )
            given = field.content(asked)
            if given is None:
                raise SandboxUnfit(
                    f"the agent's form takes no answer in the user's own words: {field.text!r}", kind="no_own_words"
                )
            content |= given
        return {"action": "accept", "content": content}

    def _call_of(self, call_id: Any) -> PendingCall | None:
        """Return the call of the agent's own asking tool that put up a form, if it is unambiguous."""
        pending = self._pending()
        found = [call for call in pending if call.call_id == call_id] or [
            call for call in pending if self._tool and call.name.endswith(self._tool)
        ]
        return found[0] if len(found) == 1 else None


class AcpServer:
    """The clients of all open trials in this process, each at ``/t/KEY/acp``."""

    def __init__(self) -> None:
        self._trials: dict[bytes, tuple[str, AcpClient]] = {}
        self.routes = [Route("/t/{trial}/acp", self, methods=["POST"])]

    def open(self, key: str, token: str, client: AcpClient) -> None:
        self._trials[key_digest(key)] = token, client

    async def close(self, key: str) -> None:
        """Take no more requests of a trial. After the return nothing of it is recorded."""
        _, client = self._trials.pop(key_digest(key))
        await client.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request of a trial. An unknown key and a wrong token look the same."""
        token, client = self._trials.get(key_digest(scope["path_params"]["trial"]), ("", None))
        if client is None or not has_token(scope, token):
            await JSONResponse(_error(-32001, "there is no such trial here"), status_code=404)(scope, receive, send)
            return
        body = b""
        while (part := await receive())["type"] == "http.request":
            body += part.get("body", b"")
            if not part.get("more_body") or len(body) > _MAX_BODY_BYTES:
                break
        try:
            message = _object(msgspec.json.decode(body)) if len(body) <= _MAX_BODY_BYTES else {}
        except ValueError:
            message = {}
        await JSONResponse(await client.answer(message))(scope, receive, send)


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message}}


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _bare(text: str) -> str:
    return _RECOMMENDED.sub("", text).strip(" .!").casefold()


def _label(option: Mapping[str, Any]) -> str:
    return str(option.get("label") or option.get("title") or option.get("const") or "")


def _options(field: Mapping[str, Any]) -> list[dict[str, Any]]:
    titled = field.get("oneOf") or field.get("anyOf") or [{"const": each} for each in field.get("enum") or ()]
    return [each for each in titled if isinstance(each, dict)]


def _questions_of(call: PendingCall | None) -> list[dict[str, Any]]:
    """Return the questions that a model put into the call of its asking tool."""
    questions = (decoded_arguments(call.arguments_json) or {}).get("questions") if call is not None else None
    return [each for each in questions if isinstance(each, dict)] if isinstance(questions, list) else []
