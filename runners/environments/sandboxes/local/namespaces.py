"""Sandboxes that need no package: the driver itself makes its namespaces and mounts before it serves anyone."""

from contextlib import AsyncExitStack

from lhaw_record.runners.environments.sandboxes.inside_programs import INSIDE_MODULES, driver_command
from lhaw_record.runners.environments.sandboxes.local.isolated import IsolatedSandboxProvider, Plan
from lhaw_record.runners.environments.sandboxes.local.launch import INFO_DESCRIPTOR, DriverStart
from lhaw_record.runners.environments.sandboxes.local.layout import HOST_NAME, USER_ID


class NamespaceSandboxProvider(IsolatedSandboxProvider):
    """Opens sandboxes equal to bubblewrap's with nothing but the kernel (Linux 5.12) and this Python."""

    kind = "namespaces"

    def start(self, plan: Plan, stack: AsyncExitStack) -> DriverStart:
        """Return how the driver is started: it builds the sandbox around itself."""
        del stack  # it opens nothing
        user = None if plan.is_root else USER_ID
        return DriverStart(
            command=[*driver_command(plan.home.executable), INFO_DESCRIPTOR],
            modules=(*INSIDE_MODULES, "mounts", "namespaces"),
            config={"steps": plan.steps, "host_name": HOST_NAME, "namespace_user": user},
        )
