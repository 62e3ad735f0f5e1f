"""Sandboxes created by bubblewrap: no network, a read-only system, a work directory in memory."""

import os
import shutil
import subprocess
import sys
from contextlib import AsyncExitStack
from functools import lru_cache

from lhaw_record.runners.environments.sandboxes.driver_program import driver_command
from lhaw_record.runners.environments.sandboxes.local.launch import INFO_DESCRIPTOR, DriverStart
from lhaw_record.runners.environments.sandboxes.local.layout import HOST_NAME, USER_ID, WORK_DIR, Step
from lhaw_record.runners.environments.sandboxes.local.providers import IsolatedSandboxProvider, SandboxPlan


class BubblewrapSandboxProvider(IsolatedSandboxProvider):
    """Opens sandboxes with the system's programs, an interpreter, and the agent's own work directory."""

    kind = "bubblewrap"

    def __init__(self, executable: str | None = None) -> None:
        self._executable = executable or shutil.which("bwrap") or "bwrap"

    def start(self, plan: SandboxPlan, stack: AsyncExitStack) -> DriverStart:
        """Return the bubblewrap command; later mounts lie on top of earlier ones."""
        options = _supported_options(self._executable)
        copies: list[int] = []
        # Not --die-with-parent: if this bubblewrap is killed before it has released its child, the child waits for
        # ever. The driver ends by itself when the control socket is closed, also if the host process is killed.
        command = [self._executable, *_user_arguments(options, is_root=plan.is_root), "--hostname", HOST_NAME]
        command += ["--new-session", "--as-pid-1", "--info-fd", INFO_DESCRIPTOR]
        for name, path, *words in plan.steps:
            if name == "file":
                copies.append(_memory_file(stack, str(words[0])))
                command += ["--file", str(copies[-1]), str(path)]
            else:
                command += step_arguments((name, path, *words), options)
        return DriverStart(
            command=[*command, "--chdir", WORK_DIR, "--", *driver_command(plan.home.executable)],
            descriptors=tuple(copies),
            weak_limits=_weak_limits(options),
        )


def _user_arguments(options: frozenset[str], *, is_root: bool) -> list[str]:
    """Return the arguments for namespaces and capabilities.

    In a user namespace created by root, the kernel would still treat the agent as root: without capabilities, but as
    the owner of everything under /proc/sys, which belongs to the host. So root creates no user namespace, and the
    driver becomes an ordinary user.
    """
    if is_root:
        namespaces = ("--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts", "--unshare-cgroup-try")
        capabilities = [word for name in ("CHOWN", "SETGID", "SETUID") for word in ("--cap-add", f"CAP_{name}")]
        return [*namespaces, "--cap-drop", "ALL", *capabilities]
    user = ["--unshare-user", "--uid", str(USER_ID), "--gid", str(USER_ID), "--cap-drop", "ALL"]
    return ["--unshare-all", *user, *({"--disable-userns"} & options)]


def step_arguments(step: Step, options: frozenset[str] = frozenset()) -> list[str]:
    """Return the arguments for one layout step of any kind except ``file``."""
    name, path, *words = step[0], str(step[1]), *step[2:]
    match name, *words:
        case "folder", int(mode):
            return ["--perms", f"{mode:04o}", "--dir", path]
        case "memory", int(mode), int(size_bytes):
            size = ["--size", str(size_bytes)] if "--size" in options else []
            return ["--perms", f"{mode:04o}", *size, "--tmpfs", path]
        case "read", str(source), is_needed:
            return ["--ro-bind" if is_needed else "--ro-bind-try", source, path]
        case "socket", str(source):
            return ["--bind", source, path]
        case "link", str(text):
            return ["--symlink", text, path]
        case ("mask",):
            return ["--tmpfs", path, "--remount-ro", path]
        case ("hide",):
            return ["--ro-bind", "/dev/null", path]
        case ("proc" | "dev",):
            return [f"--{name}", path]
        case ("seal",):
            return ["--remount-ro", path]
        case _:
            raise AssertionError(f"no step of a layout: {name!r}")


def _memory_file(stack: AsyncExitStack, text: str) -> int:
    if sys.platform != "linux":
        raise NotImplementedError
    descriptor = os.memfd_create("sandbox")
    stack.callback(os.close, descriptor)
    os.write(descriptor, text.encode())
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


@lru_cache(maxsize=4)
def _supported_options(executable: str) -> frozenset[str]:
    """Return which of the newer options this bubblewrap supports; a missing one weakens a limit, which we report."""
    try:
        done = subprocess.run([executable, "--help"], capture_output=True, text=True, timeout=10, check=False, env={})
    except (OSError, subprocess.TimeoutExpired):
        return frozenset()
    return frozenset(option for option in ("--size", "--disable-userns") if option in done.stdout)


def _weak_limits(options: frozenset[str]) -> tuple[str, ...]:
    return () if "--size" in options else ("files: their total size is not limited (this bubblewrap lacks --size)",)
