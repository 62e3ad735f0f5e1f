"""``lhaw-record attach``: leases a trial, runs a command or a shell as its agent on this machine, and closes it."""

import io
import itertools
import os
import posixpath
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path, PurePosixPath
from types import FrameType
from typing import Any, TypeVar

import msgspec

from lhaw_record.recorder.resources import home
from lhaw_record.runners.base.errors import ExperimentError, RunnerError
from lhaw_record.runners.environments.sandboxes.protocol import READ_BYTES
from lhaw_record.runners.experiment.program import (
    GATEWAY_VARIABLES,
    PLACEHOLDERS,
    ProgramSpec,
    filled,
    mcp_config,
    placeholders_in,
)
from lhaw_record.runners.runs.daemon.client import LEASE_TOKEN_VARIABLE, TOKEN_VARIABLE, Client
from lhaw_record.runners.runs.daemon.messages import DaemonRefusal, LeaseClosing, LeaseReply, LeaseRequest
from lhaw_record.runners.users.ask_user import bridge

_INTERRUPTED = 128 + signal.SIGINT
_SECONDS_BETWEEN_REQUESTS = 2.0
_REQUESTS_PER_WORD = 15
_LONGEST_BEAT_S = 30.0
_GRACE_S = 10.0
_TRANSFER_S = 600.0
_UNUSABLE = 422
_STALLED_OR_LOST = (408, 502, 503, 504)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S, _REPEATS = 1.0, 30.0, 60
"""How often the end of a trial is sent again: for 28 minutes, or less if the lease expires within 90 s of silence."""
_TOKENS = {TOKEN_VARIABLE, LEASE_TOKEN_VARIABLE}
_PLACEHOLDERS = tuple(name for name in PLACEHOLDERS if name != "bin")

Say = Callable[[str], None]
T = TypeVar("T")


class _FilesRefused(RunnerError):
    """The files that the agent left cannot be packed or are not accepted."""


class _Archive(io.BytesIO):
    """Takes as many bytes as the gateway accepts."""

    def write(self, data: Any, /) -> int:
        if self.tell() + memoryview(data).nbytes > READ_BYTES:
            raise OSError(f"the archive is larger than {READ_BYTES:,} bytes")
        return super().write(data)


class AttachOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``lhaw-record attach``. If no command is given, the user's shell runs."""

    experiment: str | None
    agent: str | None
    folder: Path | None
    idle_s: float
    by: str
    command: Sequence[str]
    kept_variables: Sequence[str] = ()
    """Names of variables that the command keeps, although they look like credentials or addresses of models."""


def attach(client: Client, options: AttachOptions, say: Say) -> int:
    """Be the agent of the next leased trial. The exit code is 0 if it was graded, 1 if not, 130 if given back."""
    spec = _spec(options)
    signal.signal(signal.SIGTERM, _stop)
    lease = _leased(client, options, say)
    say(f"leased trial {lease.trial_id}, attempt {lease.attempt}, of {lease.agent} in {lease.experiment}")
    folder = options.folder or Path(tempfile.mkdtemp(prefix="lhaw-record-lease-"))
    try:
        lease = opened(client, lease, say)
        folder.mkdir(parents=True, exist_ok=True)
        _unpack(_transfer(lease, None), folder)
        code, is_interrupted = _run(client, lease, spec, folder, options.kept_variables, say)
        if is_interrupted:
            client.release_lease(lease.lease_id, options.by)
            say("interrupted, so the trial was given back; the next client gets it")
        else:
            try:
                archive = _packed(folder)
                _sent(client, lease, lambda: _transfer(lease, archive), say)
            except _FilesRefused as error:  # what it left is the agent's doing, so the trial is no missing data
                say(f"{error}; the trial is graded as given up, with the files that were sent before")
                code = code or 1
            closing = LeaseClosing(exit_code=code)
            result = _sent(client, lease, lambda: client.close_lease(lease.lease_id, closing), say)
    except BaseException:
        with suppress(RunnerError):
            client.release_lease(lease.lease_id, options.by)
        kept = any(folder.iterdir()) if folder.is_dir() else False
        say(f"the trial was not graded{f'; its files are in {folder}' if kept else ''}")
        if options.folder is None and not kept:
            folder.rmdir()
        raise
    if not is_interrupted:
        code = _graded(client, result, folder, say)
    if options.folder is None:
        shutil.rmtree(folder, ignore_errors=True)
    return code


def _stop(_: int, __: FrameType | None) -> None:
    raise KeyboardInterrupt


def _spec(options: AttachOptions) -> ProgramSpec:
    """Return the command as an entry, whose templates are filled in."""
    if options.folder is not None and options.folder.exists() and any(options.folder.iterdir()):
        raise ExperimentError(f"--folder {options.folder} is not empty; name an empty or a new one")
    command = tuple(options.command) or (os.environ.get("SHELL", "/bin/sh"),)
    spec = ProgramSpec(command=command, environment=GATEWAY_VARIABLES, asks_by="mcp")
    try:
        unknown = set().union(*map(placeholders_in, command)) - set(_PLACEHOLDERS)
    except ValueError as error:
        raise ExperimentError(f"the command cannot be used: {error}; write a literal brace twice") from error
    if unknown:
        known = ", ".join(f"{{{name}}}" for name in _PLACEHOLDERS)
        raise ExperimentError(f"unknown placeholder {{{min(unknown)}}} in the command; known: {known}")
    if shutil.which(command[0]) is None:
        raise ExperimentError(f"there is no program {command[0]!r}; give its path")
    return spec


def _leased(client: Client, options: AttachOptions, say: Say) -> LeaseReply:
    """Return the next lease. While there is none, but may be later, ask again."""
    wanted = LeaseRequest(experiment=options.experiment, agent=options.agent, idle_s=options.idle_s)
    said = ""
    while True:
        try:
            return client.lease(wanted)
        except DaemonRefusal as refusal:
            if refusal.kind != "nothing_now":
                raise
            if str(refusal) != said:
                say(str(refusal))
            said = str(refusal)
            time.sleep(_SECONDS_BETWEEN_REQUESTS)


def opened(client: Client, lease: LeaseReply, say: Say) -> LeaseReply:
    """Wait until a leased trial is open, and report progress from time to time."""
    for number in itertools.count():
        if lease.state != "opening":
            break
        if number % _REQUESTS_PER_WORD == 0:
            say(lease.message)
        time.sleep(_SECONDS_BETWEEN_REQUESTS)
        lease = client.beat(lease.lease_id)
    if lease.state != "open":
        raise RunnerError(f"the trial cannot be opened: {lease.message}")
    return lease


def _run(
    client: Client, lease: LeaseReply, spec: ProgramSpec, folder: Path, kept: Sequence[str], say: Say
) -> tuple[int, bool]:
    """Run the agent in a folder. Return its exit code as a shell would, and whether a person interrupted it.

    The exit code 130 of a command alone is not an interrupt: an agent could use it to give back unwanted trials.
    """
    signals: list[int] = []
    has_terminal = sys.stdin.isatty()
    is_shell = spec.command == (os.environ.get("SHELL", "/bin/sh"),)
    prompt, token, url = lease.prompt or "", lease.token or "", lease.gateway_url or ""
    with tempfile.TemporaryDirectory(prefix="lhaw-record-attach-") as private:
        prompt_file, config_file = Path(private, "prompt.md"), Path(private, "mcp.json")
        prompt_file.write_text(prompt, encoding="utf-8")
        config_file.write_text(mcp_config(lease.mcp_url, token), encoding="utf-8")
        values = {
            "prompt": prompt,
            "prompt_file": str(prompt_file),
            "model": lease.model or "",
            "base_url": url,
            "base_url_v1": f"{url}/v1",
            "token": token,
            "mcp_url": lease.mcp_url or "",
            "mcp_config": str(config_file),
            "mcp_bridge": bridge.__file__,
            "workdir": str(folder),
            "home": str(home()),
        }
        start = filled(spec, values, has_tools=lease.mcp_url is not None)
        ours = {
            "LHAW_RECORD_PROMPT_FILE": str(prompt_file),
            "LHAW_RECORD_MODEL": lease.model or "",
            "LHAW_RECORD_MCP_URL": lease.mcp_url or "",
            "LHAW_RECORD_MCP_CONFIG": str(config_file),
        }
        given = {name: value for name, value in os.environ.items() if name in kept or not _leads_past(name)}
        if dropped := sorted(set(os.environ) - set(given) - set(start.environment) - _TOKENS):
            say(f"removed {', '.join(dropped)}, which could bypass the gateway; --env NAME keeps one")
        say(f"its files are in {folder}; its prompt:\n\n{prompt}\n")
        if is_shell:
            say("leave the shell with 'exit' to have the trial graded, or with 'exit 130' to give it back")
        with prompt_file.open("rb") as text, ExitStack() as stack:
            agent = stack.enter_context(
                subprocess.Popen(
                    start.argv,
                    cwd=folder,
                    env={**given, **ours, **start.environment},
                    stdin=text if spec.takes_prompt_on_stdin and not is_shell else None,
                    process_group=None if has_terminal else 0,
                )
            )

            def tell(number: int) -> None:
                """Send a signal to the agent. Without a terminal, send it to all processes that it started."""
                if has_terminal:
                    agent.send_signal(number)
                    return
                with suppress(ProcessLookupError):
                    os.killpg(agent.pid, number)

            def interrupted(number: int, __: FrameType | None) -> None:
                signals.append(number)
                if not has_terminal:  # a terminal tells the agent by itself
                    tell(signal.SIGINT)

            stack.callback(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, interrupted))
            stack.callback(tell, signal.SIGKILL)
            code = _awaited(client, lease, agent, None if is_shell else tell, say)
            return code, code == _INTERRUPTED and (is_shell or bool(signals))


def _awaited(
    client: Client,
    lease: LeaseReply,
    agent: "subprocess.Popen[bytes]",
    tell: Callable[[int], None] | None,
    say: Say,
) -> int:
    """Wait for the agent with signs of life, and return its exit code. It is ended when its trial is over.

    ``tell`` sends it a signal. None leaves it to a person to end it.
    """
    said = ""
    while True:
        try:
            code = agent.wait(min(_LONGEST_BEAT_S, lease.idle_s / 3.0))
        except subprocess.TimeoutExpired:
            pass
        else:
            return code if code >= 0 else 128 - code
        news = ""
        try:
            state = client.beat(lease.lease_id)
            if state.limit is not None:
                news = f"the trial has reached its {state.limit.replace('_', ' ')}"
            elif state.state != "open":
                news = f"the trial is over ({state.state}): {state.message}"
        except DaemonRefusal as refusal:
            news = str(refusal)
        except RunnerError as error:  # the daemon may come back; the agent notices by itself whether it does
            say(str(error))
        if news and news != said:
            said = news
            say(f"{news}; {'leave the shell' if tell is None else 'its agent is ended'}")
            if tell is not None:
                tell(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    agent.wait(_GRACE_S)
                tell(signal.SIGKILL)


def _leads_past(name: str) -> bool:
    """Return whether a variable is the daemon's token, or by its name a provider's key or address."""
    return name in _TOKENS or name.upper().endswith(("_API_KEY", "_AUTH_TOKEN", "_BASE_URL", "_API_BASE"))


def _graded(client: Client, result: LeaseReply, folder: Path, say: Say) -> int:
    try:
        while result.state == "grading":
            time.sleep(_SECONDS_BETWEEN_REQUESTS)
            result = client.beat(result.lease_id)
    except RunnerError as error:
        raise RunnerError(f"the trial is closed; ask the daemon for its grade ({error})") from error
    if result.state != "graded":
        raise RunnerError(f"missing data: {result.message}; the trial's files are in {folder}")
    success = "success" if result.is_success else "no success"
    say(f"graded: {result.ended_by}, {success}, {result.score:g} of {result.total:g} points")
    return 0


def _sent(client: Client, lease: LeaseReply, send: Callable[[], T], say: Say) -> T:
    """Send a request, again while its connection stalls or is lost: the agent's work is done and paid for.

    Both requests that end a trial may arrive twice: the files are replaced as a whole, and only the first close counts.
    """
    pause_s = min(_FIRST_PAUSE_S, lease.idle_s / 3.0)
    for _ in range(_REPEATS):
        try:
            return send()
        except (_FilesRefused, DaemonRefusal):
            raise
        except RunnerError as error:
            say(f"{error}; the agent's work is kept and sent again in {pause_s:g} s")
        time.sleep(pause_s)
        pause_s = min(2.0 * pause_s, _LONGEST_PAUSE_S, lease.idle_s / 3.0)
        try:
            state = client.beat(lease.lease_id)
        except DaemonRefusal:
            raise
        except RunnerError:
            continue
        if state.state in ("returned", "failed"):
            raise RunnerError(f"the trial is over ({state.state}): {state.message}")
    return send()


def _transfer(lease: LeaseReply, archive: bytes | None) -> bytes:
    """Send the files of a trial, or fetch them if there are none to send."""
    assert lease.workspace_url is not None
    request = urllib.request.Request(  # noqa: S310 - the daemon names the address
        lease.workspace_url, data=archive, method="GET" if archive is None else "PUT"
    )
    request.add_header("Authorization", f"Bearer {lease.token}")
    request.add_header("Content-Type", "application/gzip")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=_TRANSFER_S) as reply:
            content: bytes = reply.read()
            return content
    except urllib.error.HTTPError as error:
        reason = error.read().decode("utf-8", "replace")
        if error.code in _STALLED_OR_LOST:
            raise RunnerError(f"the transfer of the trial's files stalled ({error.code}) {reason}".rstrip()) from error
        message = f"the files of the trial were refused: {reason}"
        if error.code == _UNUSABLE:
            raise _FilesRefused(message) from error
        raise DaemonRefusal(message, kind="files_refused", status=error.code) from error
    except OSError as error:
        address = lease.workspace_url.partition("/t/")[0]
        raise RunnerError(
            f"the gateway does not answer at {address} ({error}); 'serve --gateway' says where it listens"
        ) from error


def _unpack(archive: bytes, folder: Path) -> None:
    try:
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            _check_members(files.getmembers())
            # The argument ``filter`` is missing in Python 3.11 before 3.11.4, and drops rights of groups.
            files.extraction_filter = lambda member, _: member
            files.extractall(folder)  # noqa: S202 - checked above
    except (tarfile.TarError, OSError) as error:
        raise RunnerError(f"the files of the trial cannot be unpacked in {folder}: {error}") from error


def _check_members(members: Sequence[tarfile.TarInfo]) -> None:
    """Check that an archive stays in the folder that it is unpacked in. Symbolic links may lead anywhere."""
    names = {posixpath.normpath(each.name) for each in members}
    links = {PurePosixPath(posixpath.normpath(each.name)) for each in members if each.issym()}
    for each in members:
        path = PurePosixPath(posixpath.normpath(each.name))
        is_outside = path.is_absolute() or ".." in path.parts or not links.isdisjoint(path.parents)
        if is_outside or each.isdev() or (each.islnk() and posixpath.normpath(each.linkname) not in names):
            raise tarfile.ExtractError(f"{each.name!r} would lead out of the folder")


def _packed(folder: Path) -> bytes:
    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.uid = member.gid = 0
        member.uname = member.gname = ""
        return member

    content = _Archive()
    try:
        with tarfile.open(fileobj=content, mode="w:gz", compresslevel=3) as files:
            files.add(folder, arcname=".", filter=anonymous)
    except OSError as error:
        raise _FilesRefused(f"{folder} cannot be packed: {error}") from error
    return content.getvalue()
