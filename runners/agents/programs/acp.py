"""The client's side of ACP: answers what an agent asks its client, its questions by the simulated user.

``acp_host.py`` runs beside the agent and passes its requests on, one per HTTP request, to ``/t/KEY/acp``. We speak the
dozen messages of ACP ourselves, because the library needs pydantic in every sandbox, and drops a part of what some
agents need as an answer.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import anyio
import msgspec
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lhaw_record.recorder.errors import RecorderError
from lhaw_record.recorder.events import ApprovalAnswered
from lhaw_record.recorder.events.interaction import Medium
from lhaw_record.runners.agents.programs.acp_host import METHOD_NOT_FOUND
from lhaw_record.runners.base.errors import BoundaryError
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.models.gateway.calls import PendingCall
from lhaw_record.runners.users.ask_user.calls import PendingCalls, enclosing_action
from lhaw_record.runners.users.ask_user.forms import ApprovalPolicy, confirmed, fields_of, fill_in, listed_fields
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.serving import key_digest
from lhaw_record.runners.users.ask_user.streamable_http import has_token

_MAX_BODY_BYTES = 4 << 20
_INTERNAL_ERROR = -32603


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
            return "ended while a question was open"
        return "" if self.has_ended else "did not end its turn, so it was killed"

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
            return {"result": await self._permitted(params)}
        if method == "elicitation/create" and self._asking is not None and params.get("mode", "form") == "form":
            return {"result": await self._filled_in(self._asking, params)}
        if method == "host/question" and self._asking is not None:  # OpenCode lists them beside ACP
            call_id = _object(params.get("tool")).get("callID")
            return {"result": {"answers": await self._listed(self._asking, params.get("questions"), call_id)}}
        return _error(METHOD_NOT_FOUND, f"this client does not know {method}")

    async def _permitted(self, params: dict[str, Any]) -> dict[str, Any]:
        """Answer a request for approval. In Qwen Code, one may be that of its asking tool, with room for answers."""
        tool, options = _object(params.get("toolCall")), [_object(each) for each in params.get("options") or ()]
        questions = _object(tool.get("_meta")).get("qwenQuestions")
        if questions is not None and self._asking is not None:
            answers = await self._listed(self._asking, questions, tool.get("toolCallId")) or ()
            given = {str(at): ", ".join(map(str, answer)) for at, answer in enumerate(answers) if answer}
            submit = _object(approval(options, "allow")).get("optionId")  # to cancel would end its turn
            return {"outcome": {"outcome": "selected", "optionId": submit}, "answers": given}
        chosen = approval(options, self._policy)
        offered = tuple(str(each.get("kind") or each.get("optionId")) for each in options)
        answer = str(chosen["kind"]) if chosen is not None else "cancelled"
        known, title = str(tool["toolCallId"]) if tool.get("toolCallId") else None, str(tool.get("title") or "")
        await self._recording.append(ApprovalAnswered(call_id=known, title=title, options=offered, answer=answer))
        if chosen is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": chosen.get("optionId")}}

    async def _filled_in(self, asking: RecordedUser, params: dict[str, Any]) -> dict[str, Any]:
        """Let the user answer every question of a form, one after another."""
        if not _object(_object(params.get("requestedSchema")).get("properties")):
            known = str(params["toolCallId"]) if params.get("toolCallId") else None
            return await confirmed(self._recording, str(params.get("message") or ""), known, self._policy)
        call, call_id = self._call_of(params.get("toolCallId")), params.get("toolCallId")
        is_own = call.name.endswith(self._tool) if call is not None else bool(call_id)
        medium: Medium = "built_in" if is_own and self._tool else "elicitation"
        fields = fields_of(params, call if medium == "built_in" else None)
        index = call.action_index if call else enclosing_action(self._pending(), ())
        return await fill_in(asking, fields, call.call_id if call else call_id, index, medium)

    async def _listed(self, asking: RecordedUser, questions: Any, call_id: Any) -> list[list[Any]] | None:
        """Let the user answer a list of questions that came without a form. Return None without any answer."""
        call, fields = self._call_of(call_id), listed_fields(questions)
        index = call.action_index if call else enclosing_action(self._pending(), ())
        content = (await fill_in(asking, fields, call.call_id if call else call_id, index, "built_in")).get("content")
        given = [(content or {}).get(field.key, []) for field in fields]
        return [each if isinstance(each, list) else [each] for each in given] if content else None

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
