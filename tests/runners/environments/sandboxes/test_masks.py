"""Our own files, graders and answers among them, are covered wherever a mount shows them, whatever leads to them."""

from pathlib import Path

import pytest

from lhaw_record.runners.environments.sandboxes.docker.config import read_only_mounts
from lhaw_record.runners.environments.sandboxes.local.layout import sandbox_layout
from lhaw_record.runners.environments.sandboxes.protocol import ProgramAccess
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home

PROJECT = Path(__file__).parents[4]


@pytest.fixture(params=["it", "above it", "a link in between"])
def mount_and_place(request, tmp_path):
    """Return a mount that is or passes a symbolic link, and where it shows our files."""
    link = tmp_path / "link"
    if request.param == "it":
        link.symlink_to(PROJECT)
        return str(link), str(link)
    if request.param == "above it":
        link.symlink_to(PROJECT.parent)
        return str(link), str(link / PROJECT.name)
    link.symlink_to(PROJECT.parent.parent)
    return str(link / PROJECT.parent.name), str(link / PROJECT.parent.name / PROJECT.name)


def test_a_layout_covers_what_a_link_shows(mount_and_place):
    """In bubblewrap and namespaces the mask follows the mount, at the path of the link."""
    mount, place = mount_and_place
    access = ProgramAccess(socket="/tmp/s", mounts=(mount,))
    steps = sandbox_layout(current_python_home(), 1 << 30, access, is_root=False)
    assert steps.index(("mask", place)) > steps.index(("read", mount, mount, True))


def test_a_container_covers_what_a_link_shows(mount_and_place):
    """The mask is mounted there, and no path twice, which the engine would refuse."""
    mount, place = mount_and_place
    mounts = read_only_mounts({mount: mount, "/other": "/usr/share"})
    types = {each["Target"]: each["Type"] for each in mounts}
    assert types == {mount: "bind", "/other": "bind", place: "tmpfs"}
    assert len(mounts) == len(types)


def test_a_container_covers_what_is_shown_elsewhere():
    """The mask lies where the mount shows our files, which need not be their own path."""
    mounts = read_only_mounts({"/shown": str(PROJECT.parent)})
    assert [each["Target"] for each in mounts if each["Type"] == "tmpfs"] == [f"/shown/{PROJECT.name}"]
