"""What an agent uses up of its sandbox is its own doing: told to it where it can go on, graded where it cannot."""

import os

import pytest

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.channel import OUT_OF_MEMORY, ControlChannel
from lhaw_record.runners.environments.sandboxes.local.providers import ProcessSandboxProvider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

LIMITS = SandboxLimits(memory_mb=64, file_mb=64)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("for i in 1 2; do truncate -s 40M $i; done", "files of more than 33554432 bytes"),
        ("seq 20001 | xargs touch", "a folder of more than 20000 entries"),
        ("for i in $(seq 70); do mkdir d && cd d; done", "nested more than 64 deep"),
        (
            f"for i in $(seq 20); do mkdir {'d' * 250} && cd {'d' * 250}; done; echo 1 > f",
            "a path of more than 2048 bytes",
        ),
    ],
    ids=["sparse", "wide", "deep", "long"],
)
async def test_a_work_directory_without_bounds_is_the_agents(tmp_path, command, reason):
    """Sparse files, too many files, too deep folders: none of it is read, and the error says whose doing it is."""
    async with ProcessSandboxProvider().open(None, LIMITS) as sandbox:
        assert (await sandbox.run_bash(command)).exit_code == 0
        with pytest.raises(SandboxBoundaryError, match=reason) as caught:
            await sandbox.export(tmp_path / "out")
    assert caught.value.is_abuse
    assert caught.value.kind == "export_too_large"


async def test_what_is_no_file_is_left_behind(tmp_path):
    """Pipes, devices, links and names that are no text: only regular files come out, whatever they are called."""
    links = "ln -s /etc/shadow shadow; ln -s . loop; mkfifo pipe"
    names = r"""python3 -c 'open(b"\xff\xfe","w").write("1"); open("x\ny","w").write("2")'"""
    async with ProcessSandboxProvider().open(None, LIMITS) as sandbox:
        await sandbox.run_bash(f"{links}; {names}")
        await sandbox.export(tmp_path / "out")
    assert sorted(os.fsencode(path.name) for path in (tmp_path / "out").iterdir()) == [b"x\ny", b"\xff\xfe"]


async def test_a_work_directory_that_is_none_is_told_to_the_agent(tmp_path):
    """It has removed the folder that its shell starts in: the next command is an error result, and grading goes on."""
    async with ProcessSandboxProvider().open(None, LIMITS) as sandbox:
        await sandbox.run_bash('cd /; rm -rf "$HOME"; touch "$HOME"; kill $$')
        result = await sandbox.run_bash("echo still there")
        assert result.exit_code == 126
        assert "nothing can be started in" in result.output
        await sandbox.export(tmp_path / "out")
    assert list((tmp_path / "out").iterdir()) == []


async def test_a_driver_without_memory_is_the_agents_doing():
    """The channel tells it apart from every other end."""
    for kind, is_abuse in ((OUT_OF_MEMORY, True), ("sandbox_died", False)):
        channel = ControlChannel(lambda: ("", ""))
        channel.break_off("its driver ended", kind)
        with pytest.raises(SandboxBoundaryError) as caught:
            await channel.ask(b"list", timeout_s=60)
        assert caught.value.is_abuse == is_abuse


@pytest.mark.thorough
async def test_a_work_directory_of_any_depth_is_removed(monkeypatch, tmp_path):
    """Folders deeper than Python can walk, in paths longer than Linux can open, end with the sandbox and break none."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    async with ProcessSandboxProvider().open(None, LIMITS) as sandbox:
        code = "import os\nfor _ in range(3000): os.mkdir('dd'); os.chdir('dd')\nos.chmod('.', 0)"
        assert (await sandbox.run_python(code)).exit_code == 0
    assert list(tmp_path.iterdir()) == []
