"""The work directory of a trial as an archive: it goes to another machine, and comes back before the trial is graded.

Packing and unpacking happen in the sandbox, so that nothing in an archive can reach this machine.
"""

import shlex

from lhaw_record.runners.base.errors import RunnerError
from lhaw_record.runners.environments.sandboxes.protocol import ProgramSandbox

_GZIP = b"\x1f\x8b"
_FOLDER = ".lhaw-record-transfer"
_PACK = "mkdir {folder} && tar -czf {folder}/files.tar.gz --exclude=./{folder} . "
_UNPACK = (  # the old entries are moved aside, and are given up by the last rename only
    "mkdir {folder}/new {folder}/old && tar -xpzf {folder}/files.tar.gz -C {folder}/new --no-same-owner && "
    "find . -mindepth 1 -maxdepth 1 ! -name {folder} -exec mv -t {folder}/old {{}} + && touch {folder}/aside && "
    "find {folder}/new -mindepth 1 -maxdepth 1 -exec mv -t . {{}} + && mv {folder}/old {folder}/gone"
)
_TIDY = (  # another command than the above, because that one may have been ended in the middle
    "{{ [ ! -d {folder}/old ] || [ ! -e {folder}/aside ] || {{ mkdir {folder}/refused && "
    "find . -mindepth 1 -maxdepth 1 ! -name {folder} -exec mv -t {folder}/refused {{}} +; }}; }} && "
    "{{ [ ! -d {folder}/old ] || find {folder}/old -mindepth 1 -maxdepth 1 -exec mv -t . {{}} +; }} && "
    "rm -rf {folder}"
)


class WorkspaceError(RunnerError):
    """A work directory cannot be packed, or an archive cannot be unpacked. The message quotes the reason."""


async def packed(sandbox: ProgramSandbox) -> bytes:
    """Return the files of a work directory as a tar archive, compressed with gzip."""
    try:
        await _run(sandbox, _PACK)
        return await sandbox.read_file(f"{sandbox.work_dir}/{_FOLDER}/files.tar.gz")
    except OSError as error:
        raise WorkspaceError(f"the work directory cannot be packed: {error}") from error
    finally:
        await sandbox.run_bash(_in(sandbox, f"rm -rf {_FOLDER}"))


async def replace(sandbox: ProgramSandbox, archive: bytes) -> None:
    """Replace the work directory by the files of a tar archive, compressed with gzip."""
    if not archive.startswith(_GZIP):  # gzip's checksum shows what was cut off, tar does not
        raise WorkspaceError("the files are not a tar archive compressed with gzip; 'tar -czf - .' makes one")
    try:
        await sandbox.write_file(f"{sandbox.work_dir}/{_FOLDER}/files.tar.gz", archive)
        await _run(sandbox, _UNPACK)
    except OSError as error:
        raise WorkspaceError(
            f"the archive cannot be stored: {error}; reduce its size or raise limits.file_mb"
        ) from error
    finally:
        await sandbox.run_bash(_in(sandbox, _TIDY.format(folder=_FOLDER)))


async def _run(sandbox: ProgramSandbox, script: str) -> None:
    result = await sandbox.run_bash(_in(sandbox, script.format(folder=_FOLDER)))
    if result.exit_code != 0:
        reason = "it takes longer than limits.command_seconds" if result.is_timeout else result.output.strip()[-500:]
        raise WorkspaceError(f"the work directory cannot be packed or unpacked in the sandbox: {reason}")


def _in(sandbox: ProgramSandbox, script: str) -> str:
    """Return a script that runs in the work directory, whatever the shell's own directory is."""
    return f"( cd {shlex.quote(sandbox.work_dir)} && {{ {script.strip()}; }} )"
