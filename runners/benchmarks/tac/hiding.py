"""What only a grader may see is taken out of the container while the agent is in it, and put back before grading.

The published images encrypt the evaluator, with a key that anybody can look up, and leave reference files beside it in
the clear; the agent is root. What is not there cannot be read.
"""

import posixpath
from collections.abc import Mapping, Sequence

from runners.errors import SandboxBoundaryError
from runners.sandboxes.docker.files import FileLimits
from runners.sandboxes.docker.machine import DockerMachine

_LIMITS = FileLimits(total_bytes=512 << 20)
_REMOVE_S = 60.0


async def take_out(machine: DockerMachine, paths: Sequence[str]) -> dict[str, bytes]:
    """Remove folders from a container and return them, as archives by their paths; what is not there is left out.

    Raises:
        SandboxBoundaryError: One is larger than 512 MB, cannot be removed, or the container is gone.
    """
    taken = {}
    for path in paths:
        try:
            taken[path] = await machine.take(path, _LIMITS)
        except FileNotFoundError:
            continue
        await _remove(machine, path)
    return taken


async def put_back(machine: DockerMachine, taken: Mapping[str, bytes]) -> None:
    """Put back what was taken out; whatever stands in its place by now goes.

    Raises:
        SandboxBoundaryError: The place cannot be cleared or is full, or the container is gone.
    """
    for path, archive in taken.items():
        await _remove(machine, path)
        await machine.put_back(posixpath.dirname(path), archive)


async def _remove(machine: DockerMachine, path: str) -> None:
    result = await machine.run(["rm", "-rf", "--", path], timeout_s=_REMOVE_S, user="0", work_dir="/")
    if result.exit_code != 0:
        said = result.stderr.decode(errors="replace").strip()
        raise SandboxBoundaryError(f"{path} of a container cannot be removed: {said}", kind="hiding_failed")
