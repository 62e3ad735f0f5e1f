"""Runs a program as the agent of one trial: in a sandbox, with its model behind the gateway."""

import json
import secrets
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType, TracebackType

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.recorder.events.trial import EndedBy
from lhaw_record.recorder.events.values import Usage
from lhaw_record.runners.agents.programs import acp_host
from lhaw_record.runners.agents.programs.acp import AcpClient
from lhaw_record.runners.agents.programs.entries import found_content
from lhaw_record.runners.agents.programs.installation import bin_folder
from lhaw_record.runners.agents.programs.leases import Lease, Leases, Offer
from lhaw_record.runners.agents.programs.outcome import OUT_OF_MEMORY, ProgramFacts, asking_not_offered, ending_of
from lhaw_record.runners.agents.programs.program_server import ProgramServer
from lhaw_record.runners.base.clock import TrialClock
from lhaw_record.runners.base.conversation.ending import Ending
from lhaw_record.runners.base.conversation.messages import Toolbox
from lhaw_record.runners.base.errors import (
    BoundaryError,
    ExperimentError,
    LeaseReturned,
    SandboxBoundaryError,
    SandboxUnfit,
    UserSimulatorError,
    ungrouped,
)
from lhaw_record.runners.base.recording import Recording
from lhaw_record.runners.environments.sandboxes.protocol import ProgramCommand, ProgramEnd, ProgramSandbox
from lhaw_record.runners.experiment.program import FilledProgram, ProgramSpec, filled, mcp_config
from lhaw_record.runners.models.gateway.session import TrialSession
from lhaw_record.runners.users.ask_user import bridge
from lhaw_record.runners.users.ask_user.calls import OfferedTools
from lhaw_record.runners.users.ask_user.prose import TurnUser
from lhaw_record.runners.users.ask_user.recorded_user import RecordedUser
from lhaw_record.runners.users.ask_user.server import TOOL_NAME

OUR_FOLDER = ".lhaw-record"
"""The folder below HOME with the prompt, the MCP configuration and the stdio bridge."""

_GRACE_S = 10.0  # lets a program that reached a limit end by itself, and lets pending answers arrive

Keep = Callable[[str, str], Awaitable[None]]
"""Stores a text of the trial. The arguments are its name and the text."""


@dataclass(kw_only=True, eq=False)
class ExternalAgent:
    """One program in one trial.

    Args:
        program: The program's entry.
        sandbox: The sandbox in which the program runs, with access to the server.
        server: Serves the program's model and its ``ask_user`` tool.
        session_of: Begins the trial at the gateway, for a prompt and for what is called when a limit is reached.
        model: The name of the model.
        prompt_of: Returns the prompt given to the program for a request of the user.
        request: The first request: the task's prompt. The program is started again for each step of a task.
        asking: The simulated user, if the condition has one.
        turn_user: Reacts to the ends of turns. None if there is nobody to ask and no second request.
        toolbox: The tools of the benchmark's own that the program gets over MCP, if it offers any, and the later
            requests.
        trial_clock: Says when the program's own time is used up, or a wait has lasted too long.
        last_resort_s: Seconds after which the program is ended, whatever the clock says.
        keep: Stores the program's output.
        recording: Where the answers to requests for approval are recorded.
        lease: The lease, and the leases that it is one of, if the program runs elsewhere.
    """

    program: ProgramSpec
    sandbox: ProgramSandbox
    server: ProgramServer
    session_of: Callable[..., TrialSession]
    model: str
    prompt_of: Callable[[str], str]
    request: str
    asking: RecordedUser | None
    turn_user: TurnUser | None
    toolbox: Toolbox
    trial_clock: TrialClock
    last_resort_s: float
    keep: Keep
    recording: Recording
    lease: tuple[Leases, Lease] | None = None

    def __post_init__(self) -> None:
        self._prompt = self.prompt_of(self.request)
        self._is_resumed = False
        self._replies_before = 0  # the start of the program that is now running
        self._wait_failure: BoundaryError | None = None
        self._is_time_up = False
        self.crash: tuple[int, str] | None = None  # see TrialOutcome
        self._given_answer: str | None = None
        self._over = anyio.Event()
        # Hexadecimal, because one in 64 base64 tokens begins with a hyphen, and a program would read it as an option.
        self._key, self._token = secrets.token_hex(32), secrets.token_hex(32)
        self._mcp_tool = self.program.ask_user_tool or TOOL_NAME
        is_built_in, self._asks_in_prose = self.program.asks_by == "built_in", self.program.asks_by == "prose"
        ask_user_tool = self.program.built_in.tool if is_built_in else self._mcp_tool
        self._over_mcp = self.asking if self.program.asks_by == "mcp" else None
        self._over_acp = self.asking if is_built_in else None
        elsewhere = {"patience_s": 0.0} if self.lease is not None else {}  # a network between may cut its calls
        self._session = self.session_of(
            prompt=self._prompt,
            ask_user_tool=ask_user_tool if self._over_mcp or self._over_acp else None,
            on_over=self._over.set,
            **elsewhere,
        )
        self._tools = OfferedTools(self.toolbox, self._session.executed) if self.toolbox.tools else None
        self._acp: AcpClient | None = None
        if self.program.host == "acp":
            policy, pending = self.program.acp.approvals, self._session.pending_calls
            tool, after = self.program.built_in.tool, self._after_turn
            self._acp = AcpClient(self._over_acp, tool, pending, policy, self.recording, after)

    @property
    def _has_tools(self) -> bool:
        """Whether the program gets tools over MCP."""
        return self._over_mcp is not None or self._tools is not None

    @property
    def action_count(self) -> int:
        """The number of actions so far."""
        return self._session.action_count

    @property
    def total_usage(self) -> Usage:
        """Tokens and price of all the program's calls so far."""
        return self._session.total_usage

    @property
    def flags(self) -> tuple[str, ...]:
        """What makes the recording of the program doubtful, once it has ended."""
        return tuple(flagged.flag for flagged in self._session.flags)

    async def run(self) -> Ending:
        """Run the program to its end and return how it ended."""
        reason = "failed"
        try:
            async with AsyncExitStack() as stack:
                self.server.gateway.open(self._key, self._session, self._token)
                stack.callback(self.server.gateway.close, self._key)
                if self._has_tools:
                    name, pending = self._mcp_tool, self._session.pending_calls
                    await self.server.asking.open(self._key, self._token, self._over_mcp, pending, name, self._tools)
                    stack.push_async_exit(partial(self._close_asking, self.server.asking.close))
                if self._acp is not None:
                    self.server.acp.open(self._key, self._token, self._acp)
                    stack.push_async_exit(partial(self._close_asking, self.server.acp.close))
                end = await (self._run_program() if self.lease is None else self._run_leased(*self.lease))
                ended_by = self._ended_by(end)
                if ended_by == "gave_up" and end.exit_code is not None:
                    last = OUT_OF_MEMORY if end.memory_kill else (end.stderr.strip().splitlines() or [""])[-1]
                    self.crash = end.exit_code, last.replace(self._token, "(token)")
            self._raise_our_failure()
            ending = await self._ending(ended_by, end)
            reason = ending.ended_by
        except SandboxBoundaryError as error:
            reason = "resource_abuse" if error.is_abuse else reason
            if error.is_abuse and self._lacks_asking and self._session.reply_count:
                raise asking_not_offered(self.program.title) from error
            raise
        finally:
            with anyio.CancelScope(shield=True):  # nothing may be recorded after the trial's last event
                await self._session.close(reason)
        self._raise_our_failure()
        return ending

    async def _close_asking(
        self,
        close: Callable[[str], Awaitable[None]],
        _: type[BaseException] | None,
        error: BaseException | None,
        __: TracebackType | None,
    ) -> None:
        """Wait briefly for answers to open questions. If one is still missing, the simulated user has failed.

        If the trial has failed or was stopped, it does not wait.
        """
        with anyio.move_on_after(_GRACE_S if error is None else 0.0, shield=True) as moment:
            if self.asking is not None and error is None:
                await self.asking.close()
            await close(self._key)
        if error is None and moment.cancelled_caught:
            message = "the program ended before the simulated user had answered its question"
            self._wait_failure = self._wait_failure or UserSimulatorError(message, kind="timeout")

    async def _check_content(self) -> None:
        """Refuse to start a program that differs from the one in the trial's first event.

        Files may change during a run.
        """
        planned, now = self.program.found_content or "", ""
        try:
            now = await anyio.to_thread.run_sync(found_content, self.program)
        except ExperimentError as error:
            now = str(error)
        if now != planned:
            raise SandboxUnfit(
                f"program {self.program.name} was {planned!r} when its trials were planned and is now {now}; run the "
                "same command again to plan trials of the new program",
                kind="program_changed",
            )

    async def _run_program(self) -> ProgramEnd:
        """Run the program, and again for each further request of the user, and return its last end."""
        await self._check_content()
        stop = anyio.Event()
        with ungrouped():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._stop_when_over, stop)
                tasks.start_soon(self._keep_time)
                tasks.start_soon(self.trial_clock.meter, self.sandbox.cpu_s)
                self._watch_servers(tasks)
                end, number = await self._run_once(stop, 1), 1
                while (prompt := await self._next_prompt(end)) is not None:
                    self._prompt, self._replies_before = prompt, self._session.reply_count
                    number += 1
                    end = await self._run_once(stop, number)
                stop.set()  # by itself
                tasks.cancel_scope.cancel()
        is_cut = self._asks_in_prose and self._is_time_up  # also while it waited for a late answer
        return msgspec.structs.replace(end, exit_code=None) if is_cut else end

    async def _next_prompt(self, end: ProgramEnd) -> str | None:
        """Return the user's answer or next request, or None if there is neither or the program did not hand in."""
        if self._over.is_set() or self._ended_by(end) != "submitted":
            return None
        if self._acp is None:
            is_file = self.program.answer.startswith("file:")
            has_asked, says = await self._reaction(self._session.final_text if is_file else await self._answer(end))
            self._is_resumed = says is not None
            if says is not None:
                await self._session.begin_again(self.prompt_of(self.request))
            if says is not None or has_asked:
                return says
        request = await self.toolbox.next_step()
        if request is None:
            return None
        prompt = self.prompt_of(request)
        await self._session.begin_again(prompt)
        return prompt

    async def _after_turn(self) -> str | None:
        """Return what the user says after the end of a turn over ACP, or None if they say nothing."""
        _, says = await self._reaction(self._session.final_text)
        return says

    async def _reaction(self, ending: str) -> tuple[bool, str | None]:
        """Return whether a turn asks at its end, and what the user says next. Its action is recorded first."""
        if self.turn_user is None or not self.turn_user.may_go_on:
            return False, None
        await self._session.end_turn()
        return await self.turn_user.react(ending, self.action_count, is_handed_in=True)

    async def _run_once(self, stop: anyio.Event, number: int) -> ProgramEnd:
        program = self.program.resumed if self._is_resumed else self.program
        start = filled(program, self._values(), has_tools=self._has_tools, has_built_in=self._over_acp is not None)
        await self._write_files(start)
        argv, stdin = start.argv, self._prompt.encode() if program.takes_prompt_on_stdin else b""
        if self._acp is not None:
            folder = f"{self.sandbox.home}/{OUR_FOLDER}"
            argv, stdin = ("python3", f"{folder}/acp_host.py", f"{folder}/acp.json", *argv), b""
            self._acp.has_ended = False
        launch = ProgramCommand(argv=argv, environment=start.environment, stdin=stdin, max_seconds=self.last_resort_s)
        end = await self.sandbox.run_program(launch, stop)
        await self._session.end_requests(_GRACE_S)  # how the last one ended decides how the trial did
        for name, text in (("stdout", end.stdout), ("stderr", end.stderr)):
            if text:
                await self.keep(f"{name}.txt" if number == 1 else f"{name}-{number}.txt", text)
        return end

    async def _run_leased(self, leases: Leases, lease: Lease) -> ProgramEnd:
        """Offer the trial to the client that leased it, and return how its agent ended."""
        offer = Offer(
            prompt=self._prompt,
            model=self.model,
            key=self._key,
            token=self._token,
            has_tools=self._has_tools,
        )
        with ungrouped(), leases.reachable(lease, self._key):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._tell_when_over, lease)
                tasks.start_soon(self._keep_time)
                self._watch_servers(tasks)
                try:
                    closing = await lease.held(offer, self.sandbox, self.trial_clock)
                except LeaseReturned as error:
                    if (count := self._session.reply_count) == 0:
                        raise
                    message = f"{error}, after {count} replies of its model, so it counts as an attempt"
                    raise LeaseReturned(message, kind=LeaseReturned.COUNTED) from error
                tasks.cancel_scope.cancel()
        self._raise_our_failure()
        assert closing is not None, "only a failure of ours breaks a lease off"
        if self._session.reply_count == 0 and self._session.last_failure is None:
            raise LeaseReturned(
                "the lease was closed before its agent got a reply from its model; point it to the lease's gateway_url",
                kind="lease_unused",
            )
        self._given_answer = closing.answer
        return ProgramEnd(exit_code=None if self._is_time_up else closing.exit_code)

    async def _tell_when_over(self, lease: Lease) -> None:
        """Tell a lease that its agent has reached a limit, or break it off because the trial has failed."""
        await self._over.wait()
        if self._is_time_up:
            self._session.limit_reached = self._session.limit_reached or "time_limit"
        lease.limit = self._session.limit_reached
        if lease.limit is None:
            lease.break_off()

    def _watch_servers(self, tasks: anyio.abc.TaskGroup) -> None:
        """End the program when the simulated user or a tool has failed."""
        for served in (self.asking, self._tools, self._acp):
            if served is not None:
                tasks.start_soon(_pass_on, served.failed, self._over)

    async def _keep_time(self) -> None:
        """End the program when its own time is used up or a wait has lasted too long."""
        try:
            await self.trial_clock.bound(anyio.sleep_forever)
        except BoundaryError as error:
            self._wait_failure = error
        else:
            self._is_time_up = True
        self._over.set()

    async def _stop_when_over(self, stop: anyio.Event) -> None:
        try:
            await self._over.wait()
            if self._asks_in_prose and self.asking is not None:
                await self.asking.close()
            if self._session.limit_reached is not None:
                await anyio.sleep(_GRACE_S)
        finally:  # also when the run is stopped
            self._session.is_stopping = not stop.is_set()
            stop.set()

    async def _write_files(self, start: FilledProgram) -> None:
        """Write the program's files and ours below HOME in the sandbox."""
        mcp_url = self._values()["mcp_url"] if self._has_tools else None
        ours = {
            f"{OUR_FOLDER}/prompt.md": self._prompt,
            f"{OUR_FOLDER}/mcp.json": mcp_config(mcp_url, self._token),
            **({f"{OUR_FOLDER}/ask_user.py": _source_of(bridge)} if self._has_tools else {}),
            **({f"{OUR_FOLDER}/acp_host.py": _source_of(acp_host)} if self._acp is not None else {}),
            **({f"{OUR_FOLDER}/acp.json": self._acp_session(mcp_url)} if self._acp is not None else {}),
        }
        for name, text in {**ours, **start.files}.items():
            try:
                await self.sandbox.write_file(f"{self.sandbox.home}/{name}", text.encode())
            except OSError as error:
                message = f"the program's file {name} cannot be written: {error.strerror}"
                raise SandboxUnfit(message, kind="program_files") from error

    def _acp_session(self, mcp_url: str | None) -> str:
        """Return what the host in the sandbox needs for one session."""
        headers = [{"name": "Authorization", "value": f"Bearer {self._token}"}]
        server = {"type": "http", "name": "user", "url": mcp_url, "headers": headers}
        session = {
            "url": f"{self._values()['base_url']}/acp",
            "token": self._token,
            "capabilities": {"elicitation": {"form": {}}} if self._over_acp is not None else {},
            "cwd": self.sandbox.work_dir,
            "mcp_servers": [server] if mcp_url is not None else [],
            "mode": self.program.acp.mode,
            "prompt": self._prompt,
        }
        return json.dumps(session)

    def _values(self) -> dict[str, str]:
        """Return the values of all placeholders."""
        base_url, home = f"{self.sandbox.listener_url}/t/{self._key}", self.sandbox.home
        return {
            "prompt": self._prompt,
            "prompt_file": f"{home}/{OUR_FOLDER}/prompt.md",
            "model": self.model,
            "base_url": base_url,
            "base_url_v1": f"{base_url}/v1",
            "token": self._token,
            "mcp_url": f"{base_url}/mcp",
            "mcp_config": f"{home}/{OUR_FOLDER}/mcp.json",
            "mcp_bridge": f"{home}/{OUR_FOLDER}/ask_user.py",
            "workdir": self.sandbox.work_dir,
            "home": home,
            "bin": bin_folder(self.program),
        }

    def _raise_our_failure(self) -> None:
        """Raise the failure on our side, if any: gateway, recorder, simulated user, a tool's server, a long wait."""
        served = [each.failure for each in (self.asking, self._tools, self._acp) if each is not None]
        failure = next(filter(None, (self._session.failure, *served, self._wait_failure)), None)
        if failure is not None:
            raise failure

    def executed_call(self) -> tuple[str | None, int | None]:
        """Return the id of the tool call that is being executed, and the number of its action, if there is one."""
        pending = self._session.pending_calls()
        return (pending[0].call_id, pending[0].action_index) if len(pending) == 1 else (None, None)

    @property
    def _lacks_asking(self) -> bool:
        """Whether there is a user, but the model was not told how to ask and the program has not asked."""
        return self.asking is not None and self._session.lacks_asking and not self.asking.was_asked

    def _ended_by(self, end: ProgramEnd) -> EndedBy:
        """Return how the agent's part ended. Raises an error if our side or the infrastructure failed."""
        self._raise_our_failure()
        session, program = self._session, self.program
        return ending_of(
            ProgramFacts(
                name=program.title,
                end=end,
                limit_reached=session.limit_reached,
                is_time_up=self._is_time_up and end.exit_code is None,
                last_failure=session.last_failure,
                last_finish_reason=session.last_finish_reason,
                reply_count=session.reply_count - self._replies_before,
                wire=program.wire,
                wires=session.wires,
                lacks_asking=self._lacks_asking,
                host_problem=self._acp.problem if self._acp is not None else "",
            )
        )

    async def _ending(self, ended_by: EndedBy, end: ProgramEnd) -> Ending:
        is_stopped = self._session.limit_reached is not None or ended_by == "time_limit"
        return Ending(ended_by=ended_by, final_answer="" if is_stopped else await self._answer(end))

    async def _answer(self, end: ProgramEnd) -> str:
        kind, _, path = self.program.answer.partition(":")
        if self._given_answer is not None:
            return self._given_answer
        if kind == "stdout":
            return end.stdout.strip()
        if kind == "last_message":
            return self._session.final_text
        try:
            return (await self.sandbox.read_file(path)).decode("utf-8", "replace").strip()
        except OSError:
            return ""  # the program wrote no answer


async def _pass_on(event: anyio.Event, to: anyio.Event) -> None:
    await event.wait()
    to.set()


def _source_of(script: ModuleType) -> str:
    assert script.__file__ is not None
    return Path(script.__file__).read_text(encoding="utf-8")
