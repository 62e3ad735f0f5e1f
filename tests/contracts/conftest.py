"""What the quick suite leaves out of the contracts."""

import shutil

import pytest

COMMON = ("SandboxContract.", "ProgramContract.")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave to the thorough suite what namespaces have in common with bubblewrap.

    Both run the same driver; what isolates them is tried with each.
    """
    for item in items if shutil.which("bwrap") else ():
        if getattr(item.cls, "__name__", "") == "TestNamespaces" and item.function.__qualname__.startswith(COMMON):
            item.add_marker("thorough")
