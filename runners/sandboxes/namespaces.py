"""Sandboxes that need no package: the driver itself makes its namespaces and mounts before it serves anyone."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from runners.sandboxes.isolated import Plan, Start, open_isolated
from runners.sandboxes.launch import INFO_DESCRIPTOR, INSIDE_MODULES, driver_command
from runners.sandboxes.layout import HOST_NAME, USER_ID
from runners.sandboxes.protocol import Sandbox, SandboxLimits, Way


class NamespaceSandboxProvider:
    """Opens sandboxes that show and hold what bubblewrap's do, with the kernel and this Python alone (Linux 5.12)."""

    kind = "namespaces"

    @asynccontextmanager
    async def open(self, files: Path | None, limits: SandboxLimits, way: Way | None = None) -> AsyncIterator[Sandbox]:
        """Open a sandbox whose work directory starts as a copy of ``files``.

        Raises:
            SandboxBoundaryError: It does not start.
        """
        async with open_isolated(self.kind, _start, files, limits, way) as sandbox:
            yield sandbox


def _start(plan: Plan, _: AsyncExitStack) -> Start:
    return Start(
        command=[*driver_command(plan.home.executable), INFO_DESCRIPTOR],
        modules=(*INSIDE_MODULES, "mounts", "namespaces"),
        config={
            "steps": plan.steps,
            "host_name": HOST_NAME,
            "namespace_user": None if plan.is_root else USER_ID,
        },
    )
