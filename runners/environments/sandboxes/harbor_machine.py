"""Containers for tasks with their own images, opened by the harbor package in local Docker or in a cloud.

We use only four of the package's operations: start, run a command, copy a file, stop. A command counts as finished only
if the marker that we print after it comes back, so a broken connection is a sandbox error, never a result.
"""

import base64
import math
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NoReturn

import anyio
import anyio.to_thread
import msgspec

from lhaw_record.runners.base.errors import ExperimentError, SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.base.host.scratch import scratch_folder
from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult
from lhaw_record.runners.environments.sandboxes.docker.files import FileLimits, packed, regular_files, too_large
from lhaw_record.runners.environments.sandboxes.docker.machine import (
    LIMIT_EVENTS,
    MachineUsage,
    with_limits_met,
)
from lhaw_record.runners.environments.sandboxes.docker.shell import new_path
from lhaw_record.runners.environments.sandboxes.inside.processes import limit_counts
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess, SandboxLimits

if TYPE_CHECKING:
    from harbor.environments.base import BaseEnvironment

KIND = "harbor"
_INSTALL = "python -m pip install 'lhaw-record[clouds]'"
_INLINE_BYTES = 1 << 20  # larger output is downloaded as a file
_START_S = 600.0  # in addition to the task's time limit for building the image
_MARGIN_S = 120.0
_COPY_S = 600.0
_STOP_S = 300.0
# $0 is the end marker, $1 and $2 are the limits in seconds and bytes, $3 is the work directory. The program is passed
# in a variable, so that an agent that kills processes by their command line (pkill -f) does not kill this script.
_RUN = r"""
eval "set -- \"\$1\" \"\$2\" \"\$3\" $LHAW_RECORD_PROGRAM"
unset LHAW_RECORD_PROGRAM
folder=$(mktemp -d /tmp/.lhaw-record-XXXXXX) || exit 99
: > "$folder/out"
SECONDS=0
if [ -z "$3" ] || cd -- "$3" 2> "$folder/err"; then
  timeout -s KILL "$1" "${@:4}" > "$folder/out" 2> "$folder/err" < /dev/null
  code=$?
else
  code=1
fi
took=$SECONDS
cd /
echo "$0 $code $took $(wc -c < "$folder/out") $(wc -c < "$folder/err") $folder"
is_large=
for name in out err; do
  head -c "$2" "$folder/$name" > "$folder/$name.cut"
  if [ "$(wc -c < "$folder/$name.cut")" -gt INLINE ]; then is_large=1; else base64 < "$folder/$name.cut"; fi
  echo "$0"
done
[ -n "$is_large" ] || rm -rf -- "$folder"
(EVENTS)
echo "$0"
"""
_UNPACK = 'tar -C "$1" -xpf "$0" && rm -f "$0"'
_PACK = (
    '[ -e "$1" ] || exit 44; tar -C "$(dirname "$1")" -cf "$0" "$(basename "$1")"; code=$?; wc -c < "$0"; exit $code'
)
_ABSENT = 44
_PARTS = 4
_PROGRAM_BYTES = 96 << 10  # Linux allows 128 KiB for one variable
_HEAD, _TAIL = 120, 300
_ENTRY_BYTES = 4096  # of an archive, including long names
_PYTHON = (3, 12)


class Definition(msgspec.Struct, frozen=True, kw_only=True):
    """What a container is created from, as in Harbor's ``[environment]``.

    Attributes:
        docker_image: An existing image to use instead of building the Dockerfile.
        build_timeout_s: Time limit for building the image.
        cpus: None for the environment's default.
        memory_mb: Memory in MiB, None for the environment's default.
        variables: Environment variables; ``${NAME}`` is replaced with this process's variable.
        is_online: Whether the container has network access.
    """

    name: str
    folder: Path
    docker_image: str | None = None
    build_timeout_s: float = 600.0
    cpus: float | None = None
    memory_mb: int | None = None
    variables: Mapping[str, str] = {}
    is_online: bool = False


class HarborMachine:
    """A running container in which programs run one after another or at the same time.

    Args:
        environment: The container's environment object from the harbor package, already started.
    """

    def __init__(self, environment: "BaseEnvironment") -> None:
        self._environment = environment
        self._stopped: dict[str, int] = {}

    async def run(
        self,
        argv: Sequence[str],
        *,
        timeout_s: float,
        output_bytes: int = 1 << 20,
        user: str = "",
        work_dir: str | None = None,
        environment: Mapping[str, str] | None = None,
        **options: Any,
    ) -> ExecResult:
        """Run a program to its end. A timeout kills its process group."""
        assert options.get("stop") is None  # only agent programs can be stopped, and none runs here
        mark = f"lhaw-record-{secrets.token_hex(8)}"
        seconds = max(1, math.ceil(timeout_s))
        script = _RUN.replace("INLINE", str(_INLINE_BYTES)).replace("EVENTS", LIMIT_EVENTS)
        program = shlex.join(argv)
        if len(program.encode()) > _PROGRAM_BYTES:
            return ExecResult(exit_code=126, stdout=b"", stderr=b"bash: Argument list too long\n")
        command = ("bash", "-c", script, mark, str(seconds), str(output_bytes), work_dir or "")
        printed = await self._exec(command, seconds, user, {**(environment or {}), "LHAW_RECORD_PROGRAM": program})
        _, begun, rest = printed.partition(f"{mark} ")
        parts = rest.split(mark)
        if not begun or len(parts) != _PARTS:
            raise SandboxBoundaryError(
                f"a command did not come back from the container, which printed {printed[-200:]!r}",
                kind="harbor_environment",
            )
        head, _, out = parts[0].partition("\n")
        code, took, *sizes, folder = head.split()
        kept = [min(int(size), output_bytes) for size in sizes]
        stdout, stderr = [
            await self._download(f"{folder}/{name}.cut") if size > _INLINE_BYTES else base64.b64decode(text)
            for name, text, size in zip(("out", "err"), (out, parts[1]), kept, strict=True)
        ]
        if max(kept) > _INLINE_BYTES:
            await self._exec(("rm", "-rf", "--", folder), _COPY_S, user)
        before, self._stopped = self._stopped, limit_counts(parts[2])
        is_timeout = int(code) in (124, 137) and int(took) >= seconds
        result = ExecResult(
            exit_code=None if is_timeout else int(code),
            stdout=stdout,
            stderr=stderr,
            is_timeout=is_timeout,
            is_truncated=max(map(int, sizes)) > output_bytes,
        )
        return with_limits_met(result, before, self._stopped)

    async def put(self, folder: str, files: Mapping[str, bytes]) -> None:
        """Write files, owned by root, below an existing folder of the container."""
        await self.put_back(folder, await anyio.to_thread.run_sync(packed, files))

    async def put_back(self, folder: str, archive: bytes | IO[bytes]) -> None:
        """Unpack an archive, given as bytes or as a file, into a folder."""
        target = new_path()
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            await anyio.to_thread.run_sync(_copy, archive, file)
            with _asked("files cannot be put into the container", _COPY_S):
                await self._environment.upload_file(Path(file.name), target)
        done = await self.run(("bash", "-c", _UNPACK, target, folder), timeout_s=_COPY_S, user="0")
        if done.exit_code != 0:
            words = done.stderr.decode("utf-8", "replace").strip()
            raise SandboxBoundaryError(f"files cannot be unpacked in {folder}: {words}", kind="image_unfit")

    async def take(self, path: str, limits: FileLimits) -> bytes:
        """Return a path as one archive with modes, owners and links, for :meth:`put_back` into its parent folder."""
        source = new_path()
        try:
            done = await self.run(("bash", "-c", _PACK, source, path), timeout_s=_COPY_S, user="0")
            if done.exit_code == _ABSENT:
                raise FileNotFoundError(path)
            if done.exit_code not in (0, 1):  # 1: a file changed while it was read
                words = done.stderr.decode("utf-8", "replace").strip()
                raise SandboxBoundaryError(f"{path} of the container cannot be read: {words}", kind="image_unfit")
            if int(done.stdout) > limits.total_bytes + limits.entries * _ENTRY_BYTES:
                raise too_large(limits)
            return await self._download(source)
        finally:
            await self._exec(("rm", "-f", "--", source), _COPY_S, "0")

    async def get(self, path: str, limits: FileLimits) -> dict[str, bytes]:
        """Return the regular files at or below a path of the container, keyed by their relative paths."""
        with tempfile.TemporaryFile() as file:
            await anyio.to_thread.run_sync(_copy, await self.take(path, limits), file)
            file.seek(0)
            return await anyio.to_thread.run_sync(regular_files, file, limits)

    async def usage(self) -> MachineUsage:
        """Return 0 for every limit, because harbor environments do not report usage."""
        return MachineUsage(memory=0.0, processes=0.0)

    async def _exec(
        self, argv: Sequence[str], timeout_s: float, user: str, environment: Mapping[str, str] | None = None
    ) -> str:
        with _asked("a command cannot be run in the container", timeout_s + 2 * _MARGIN_S):
            done = await self._environment.exec(
                shlex.join(argv),
                env=dict(environment or {}),
                timeout_sec=math.ceil(timeout_s + _MARGIN_S),
                user="root" if user == "0" else user or None,
            )
        return done.stdout or ""

    async def _download(self, path: str) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "file"
            with _asked(f"{path} of the container cannot be read", _COPY_S):
                await self._environment.download_file(path, target)
            return await anyio.to_thread.run_sync(target.read_bytes)


class HarborSandboxProvider:
    """Opens containers in an environment of the harbor package.

    Args:
        environment: The package's name for it, such as ``daytona``, or ``module:Class`` for a custom class.
        options: Further options, as in ``environment.kwargs`` of Harbor's jobs.
        report: Called with a message about a container that may still exist.
    """

    def __init__(self, environment: str, options: Mapping[str, Any], report: Callable[[str], None]) -> None:
        self.kind = f"{KIND}:{environment}"
        self.environment = environment
        self._options = options
        self._report = report

    def open(self, files: Path | None, limits: SandboxLimits, access: ProgramAccess | None = None) -> NoReturn:
        """Refuse a sandbox with our own driver."""
        raise SandboxUnfit(f"the sandbox {self.kind} is for tasks with images of their own", kind="needs_own_image")

    @asynccontextmanager
    async def open_machine(self, definition: Definition) -> AsyncIterator[HarborMachine]:
        """Open a container, and stop it at the end."""
        with scratch_folder() as folder:
            environment = self._made(definition, folder)
            try:
                with _asked(
                    f"a container of {definition.name} cannot be started", definition.build_timeout_s + _START_S
                ):
                    await environment.start(force_build=False)
                yield HarborMachine(environment)
            finally:
                await self._stop(environment)

    def _made(self, definition: Definition, folder: Path) -> "BaseEnvironment":
        from harbor.environments.factory import EnvironmentFactory
        from harbor.models.environment_type import EnvironmentType
        from harbor.models.task.config import EnvironmentConfig, NetworkMode, NetworkPolicy
        from harbor.models.trial.paths import TrialPaths

        mode = NetworkMode.PUBLIC if definition.is_online else NetworkMode.NO_NETWORK
        name = f"{definition.name}__{secrets.token_hex(4)}"
        options = {
            "environment_dir": definition.folder,
            "environment_name": definition.name,
            "session_id": f"{name}__env",
            "trial_paths": TrialPaths(trial_dir=folder),
            "network_policy": NetworkPolicy(network_mode=mode),
            "mounts": [],
            **self._options,
        }
        with _asked(f"a container of {definition.name} cannot be made", _START_S, is_retry_owed=False):
            config = EnvironmentConfig(
                docker_image=definition.docker_image,
                build_timeout_sec=definition.build_timeout_s,
                cpus=None if definition.cpus is None else math.ceil(definition.cpus),
                memory_mb=definition.memory_mb,
                env=dict(definition.variables),
                network_mode=mode,
            )
            if ":" in self.environment:
                return EnvironmentFactory.create_environment_from_import_path(
                    self.environment, task_env_config=config, **options
                )
            return EnvironmentFactory.create_environment(
                EnvironmentType(self.environment), task_env_config=config, **options
            )

    async def _stop(self, environment: "BaseEnvironment") -> None:
        """Stop a container. A failure is only reported, because the container's work is already saved."""
        with anyio.CancelScope(shield=True):
            try:
                with anyio.fail_after(_STOP_S):
                    await environment.stop(delete=True)
            except Exception as error:  # noqa: BLE001  the class depends on the environment
                said = _words(error)
                self._report(f"the container {environment.session_id} of {self.kind} may still be there: {said}")


def harbor_provider(
    environment: str, options: Mapping[str, Any], report: Callable[[str], None]
) -> HarborSandboxProvider:
    """Return the provider of an environment after running the harbor package's own check of its credentials."""
    if sys.version_info < _PYTHON:
        raise ExperimentError("key 'sandbox.kind': the harbor package needs Python 3.12 or newer")
    try:
        from harbor.environments.factory import EnvironmentFactory
        from harbor.models.environment_type import EnvironmentType
    except ImportError as error:
        raise ExperimentError(f"key 'sandbox.kind': the harbor package is not installed; run: {_INSTALL}") from error
    known = [each.value for each in EnvironmentType]
    if ":" not in environment and environment not in known:
        raise ExperimentError(
            f"key 'sandbox.environment': harbor has no {environment!r}; known: {', '.join(known)}, or module:Class"
        )
    try:
        if ":" in environment:
            EnvironmentFactory.run_preflight(None, import_path=environment)
        else:
            EnvironmentFactory.run_preflight(EnvironmentType(environment))
    except (Exception, SystemExit) as error:  # environment-specific, and SystemExit for a missing key
        raise ExperimentError(f"key 'sandbox.environment': {environment} cannot be used here: {error}") from error
    return HarborSandboxProvider(environment, options, report)


@contextmanager
def _asked(what: str, timeout_s: float, *, is_retry_owed: bool = True) -> Iterator[None]:
    """Put a time limit on a request to an environment, and translate its errors, which can be of any class."""
    try:
        with anyio.fail_after(timeout_s):
            yield
    except Exception as error:
        is_final = not is_retry_owed or type(error).__name__ == "SandboxBuildFailedError"
        raise SandboxBoundaryError(
            f"{what}: {_words(error)}", kind="harbor_environment", is_retry_owed=not is_final
        ) from error


def _words(error: BaseException) -> str:
    """Return an error's class and message, cut in the middle if long: commands print the reason for a failure last."""
    words = " ".join(str(error).split())
    shown = words if len(words) <= _HEAD + _TAIL else f"{words[:_HEAD]} ... {words[-_TAIL:]}"
    return f"{type(error).__name__}: {shown}" if words else type(error).__name__


def _copy(archive: bytes | IO[bytes], file: IO[bytes]) -> None:
    if isinstance(archive, bytes):
        file.write(archive)
    else:
        shutil.copyfileobj(archive, file)
    file.flush()
