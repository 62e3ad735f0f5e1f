"""Set the agent's repository to the base commit at the start, and take its changes out as a patch at the end."""

import errno
import shlex

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.runners.base.errors import SandboxBoundaryError, SandboxUnfit
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import Instance
from lhaw_record.runners.environments.benchmarks.swebench_pro.scripts import files_of_tests
from lhaw_record.runners.environments.sandboxes.docker.services import free_space_command, is_full, names_limit
from lhaw_record.runners.environments.sandboxes.protocol import CommandResult, Sandbox

_FOLDER = "/.lhaw-record"
# The agent's shell settings and git configuration must not influence the patch.
_GIT = """\
export GIT_CONFIG_NOSYSTEM=1 GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_COUNT=1
export GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0='*' GIT_OPTIONAL_LOCKS=0
set -e
cd "$1"
"""
_SET = """\
git reset -q --hard "$2"
git checkout -q --detach "$2"
"""
# Later commits contain the solution and its tests: delete references, then the objects that only they reach.
_FORGET = """\
git remote | while read -r name; do git remote remove "$name"; done
git for-each-ref --format='delete %(refname)' | git update-ref --stdin
git_dir="$(git rev-parse --git-dir)"
rm -f "$git_dir/FETCH_HEAD" "$git_dir/ORIG_HEAD" "$git_dir/MERGE_HEAD" "$git_dir"/objects/pack/*.keep
git reflog expire --expire=now --all
git gc -q --prune=now
"""
_LIST = """\
mkdir -p "$3"
git ls-files -z --others --exclude-standard > "$3/untracked"
"""
_TAKE = """\
export GIT_INDEX_FILE="$3/index"
rm -f "$GIT_INDEX_FILE"
git read-tree "$2"
git -c core.fsmonitor=false -c advice.addEmbeddedRepo=false add -A
git update-index -z --force-remove --stdin < "$3/untracked"
folder="$3"; commit="$2"; shift 3
git diff-index -p --binary --full-index --no-renames --no-ext-diff --no-textconv \\
  --cached "$commit" -- . "$@" > "$folder/patch"
"""


def prepared_image(image_id: str, base_commit: str, work_dir: str) -> str:
    """Return the name of the image in which an instance's repository has no commits after the task's."""
    key = digest([image_id, base_commit, work_dir, _GIT, _SET, _FORGET])
    return f"lhaw-record/prepared:{key[:40]}"


class NoPatch(Exception):
    """The agent left nothing from which git can take changes. The message quotes git's output."""


class AgentRepository:
    """The repository in an agent's container.

    Args:
        sandbox: The container.
        instance: The instance.
        work_dir: The folder of the repository.
    """

    def __init__(self, sandbox: Sandbox, instance: Instance, work_dir: str) -> None:
        self._sandbox = sandbox
        self._instance = instance
        self._work_dir = work_dir
        self._untracked = b""

    async def prepare(self, *, is_past_only: bool) -> None:
        """Set the repository to the base commit. Files of the image that are not part of the commit are kept."""
        result = await self._run(_SET + (_FORGET if is_past_only else "") + _LIST)
        if result.exit_code is None:
            raise SandboxUnfit(
                f"setting {self._work_dir} to the base commit took longer than a command may; raise "
                'limits.command_seconds, or set benchmark.history = "published"',
                kind="repository_slow",
            )
        if result.exit_code != 0:
            raise self._broken(result, "cannot be set to its base commit", kind="image_unfit", is_retry_owed=False)
        self._untracked = await self._sandbox.read_file(f"{_FOLDER}/untracked")

    async def take_patch(self) -> bytes:
        """Return what the agent changed since the base commit, committed or not, including new and binary files.

        The patch leaves out files of the image that are not part of the commit, because a fresh container has them. It
        also leaves out the files that the tests bring along, because they are overwritten before the tests run.
        """
        try:
            await self._sandbox.write_file(f"{_FOLDER}/untracked", self._untracked)
        except OSError as error:
            kind = "engine_disk_full" if error.errno == errno.ENOSPC else "patch_not_taken"
            raise SandboxBoundaryError(f"the agent's patch cannot be taken: {error}", kind=kind) from error
        left_out = [f":(exclude,top,literal){path}" for path in files_of_tests(self._instance)]
        result = await self._run(_TAKE, *left_out)
        if result.exit_code == 0:
            return await self._read(f"{_FOLDER}/patch")
        looked = await self._sandbox.run_bash(free_space_command("/", self._work_dir))
        is_disk_full = is_full(result.output, looked.output)
        if is_disk_full or result.exit_code is None or result.is_out_of_memory or is_stopped_by_limit(result):
            kind = "engine_disk_full" if is_disk_full else "patch_not_taken"
            raise self._broken(result, "does not give the agent's changes", kind=kind)
        raise NoPatch(last_words(result.output))

    async def _read(self, path: str) -> bytes:
        try:
            return await self._sandbox.read_file(path)
        except OSError as error:
            raise SandboxBoundaryError(
                f"the agent's patch cannot be read: {error}",
                kind="export_too_large",
                is_retry_owed=False,
                is_abuse=True,
            ) from error

    async def _run(self, script: str, *arguments: str) -> CommandResult:
        """Run a script from the agent's shell, in a clean environment."""
        words = (self._work_dir, self._instance.base_commit, _FOLDER, *arguments)
        command = shlex.join(["/bin/sh", "-c", _GIT + script, "repository", *words])
        return await self._sandbox.run_bash(f'/usr/bin/env -i HOME=/root PATH="$PATH" {command}')

    def _broken(self, result: CommandResult, what: str, **options: str | bool) -> SandboxBoundaryError:
        words = last_words(result.output) or f"exit code {result.exit_code}"
        return SandboxBoundaryError(f"the repository at {self._work_dir} {what}: {words}", **options)  # type: ignore[arg-type]


def last_words(output: str) -> str:
    """Return the end of git's output as one line."""
    return " ".join(output.split())[-300:]


def is_stopped_by_limit(result: CommandResult) -> bool:
    """Return whether a signal ended git or one of its helpers, or a file could not grow: limits of the sandbox do that.

    What the agent breaks makes git give up by itself, with exit code 128; a shell reports a signal as 128 plus its
    number.
    """
    return (result.exit_code or 0) > _GIT_FAILED or names_limit(result.output)


_GIT_FAILED = 128
