"""What a machine of the harbor package does, whatever environment is behind it; needs no test framework."""

import asyncio
import hashlib
import os

import msgspec

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.docker.files import FileLimits, packed
from lhaw_record.runners.environments.sandboxes.harbor_machine import HarborMachine

LARGE = 3 << 20
EXPECTED = {
    "binary": [3, "ff00610a", "6f6f70730a", False],
    "cut": [0, 10, True],
    "large": [LARGE, hashlib.sha256(b"x" * LARGE).hexdigest()],
    "late": [None, True],
    "killed": [137, False],
    "killed by its words": "alive",
    "long": 126,
    "variables": 'it\'s a "test"\n$HOME `x`',
    "work_dir": ["/", 1, True],
    "files": {"one.txt": "1", "sub/two.bin": "00ff"},
    "modes": "755 644",
    "absent": True,
    "too_large": "export_too_large",
    "nothing_left": "",
}


async def facts(machine: HarborMachine, folder: str) -> dict[str, object]:
    """Return what ``EXPECTED`` has.

    Args:
        machine: A container with bash, coreutils and tar.
        folder: An empty folder in it.
    """

    async def run(command, *argv, timeout_s=60.0, **options):
        return await machine.run(("bash", "-c", command, *argv), timeout_s=timeout_s, **options)

    binary = await run(r"printf '\xff\x00a\n'; echo oops >&2; exit 3")
    cut = await run("seq 1000", output_bytes=10)
    large = await run(f"head -c {LARGE} /dev/zero | tr '\\0' x", output_bytes=4 << 20)
    late = await run("echo begun; sleep 600", timeout_s=1.0)
    killed = await run("kill -9 $$")
    word = f"zz{os.getpid()}"  # the bracket keeps it out of what else has the pattern on its command line
    await run(f"pkill -f '{word[:-1]}[{word[-1]}]'; : {word}")
    alive = await run("echo alive")
    long = await run(f": {'x' * 140_000}")
    text = EXPECTED["variables"]
    variables = await run('printf %s "$ODD"', environment={"ODD": text})
    there, gone = await run("pwd", work_dir="/"), await run("pwd", work_dir=f"{folder}/gone")
    await machine.put(folder, {"one.txt": b"1", "sub/two.bin": b"\0\xff"})
    files = await machine.get(folder, FileLimits())
    await run('mkdir -p "$0/copy" && chmod 755 "$0/one.txt"', folder)
    archive = await machine.take(f"{folder}/one.txt", FileLimits())
    await machine.put_back(f"{folder}/copy", archive)
    await machine.put_back(f"{folder}/copy", packed({"new.txt": b""}))
    modes = await run('cd "$0/copy" && stat -c %a one.txt new.txt | xargs', folder)
    try:
        await machine.take(f"{folder}/absent", FileLimits())
        is_absent = False
    except FileNotFoundError:
        is_absent = True
    try:
        await machine.get(folder, FileLimits(total_bytes=1, entries=0))
        too_large = ""
    except SandboxBoundaryError as error:
        too_large = error.kind
    left = await run("ls -d /tmp/.lhaw-record-* 2>/dev/null | wc -l")
    is_alone = int(left.stdout) <= 1  # the folder of the command that looks
    return {
        "binary": [binary.exit_code, binary.stdout.hex(), binary.stderr.hex(), binary.is_truncated],
        "cut": [cut.exit_code, len(cut.stdout), cut.is_truncated],
        "large": [len(large.stdout), hashlib.sha256(large.stdout).hexdigest()],
        "late": [late.exit_code, late.is_timeout],
        "killed": [killed.exit_code, killed.is_timeout],
        "killed by its words": alive.stdout.decode().strip(),
        "long": long.exit_code,
        "variables": variables.stdout.decode(),
        "work_dir": [there.stdout.decode().strip(), gone.exit_code, b"gone" in gone.stderr],
        "files": {name: body.hex() if b"\0" in body else body.decode() for name, body in files.items()},
        "modes": modes.stdout.decode().strip(),
        "absent": is_absent,
        "too_large": too_large,
        "nothing_left": "" if is_alone else "something",
    }


async def _of_docker(folder: str, image: str) -> dict[str, object]:
    """Return the facts of a container that the harbor package opens in its local Docker."""
    from pathlib import Path

    from lhaw_record.runners.environments.sandboxes.harbor_machine import Definition, harbor_provider

    definition = Definition(name="facts", folder=Path(folder), docker_image=image, is_online=True)
    async with harbor_provider("docker", {}, print).open_machine(definition) as machine:
        found = await facts(machine, "/srv")
        as_agent = await machine.run(("id", "-un"), timeout_s=60.0, user="agent")
        return {**found, "user": as_agent.stdout.decode().strip()}


if __name__ == "__main__":
    import sys

    print(msgspec.json.encode(asyncio.run(_of_docker(*sys.argv[1:]))).decode())  # noqa: T201
