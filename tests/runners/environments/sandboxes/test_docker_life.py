"""How containers come and go on bad days: cancelled, killed, orphaned, out of room, without an engine."""

import hashlib
import io
import json
import os
import signal
import sys
import tarfile
import threading

import anyio
import pytest

from lhaw_record.runners.base.errors import ExperimentError, SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.docker import config
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.containers import (
    internal_network,
    memory_of_others_mb,
    owned_containers,
    reap,
)
from lhaw_record.runners.environments.sandboxes.docker.engine import asked, connected
from lhaw_record.runners.environments.sandboxes.docker.machine import open_machine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.kinds import provider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from tests.contracts.test_sandboxes import PROJECT
from tests.runners.environments.benchmarks.tac.images import make_image
from tests.runners.environments.sandboxes.docker_fixtures import (  # noqa: F401
    engine,
    make_provider,
    needs_engine,
    nobody_else,
    own_names,
)
from tests.support.docker import BASE_IMAGE, docker, private_engine
from tests.support.image_registry import image_registry

pytestmark = needs_engine
LIMITS = SandboxLimits(memory_mb=128, processes=40)
_KILLED_SERVICE = """
import asyncio, os, signal
from lhaw_record.runners.environments.sandboxes.docker.config import DockerImage
from lhaw_record.runners.environments.sandboxes.docker.containers import internal_network
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.machine import ServiceConfig, open_machine
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from tests.runners.environments.sandboxes.docker_fixtures import nobody_else

async def main():
    limits, room = SandboxLimits(memory_mb=128), MemoryBudget(1000, nobody_else)
    async with connected() as docker, internal_network(docker) as network:
        image = DockerImage(name="lhaw-record/sleeps:1", network=network.name)
        async with open_machine(image, limits, room, service=ServiceConfig()) as machine:
            assert (await machine.state()).is_running
            print(os.getpid(), flush=True)
            os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""
_KILLED_HOST = """
import asyncio, os, signal
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.containers import internal_network
from tests.runners.environments.sandboxes.docker_fixtures import make_provider
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits

async def main():
    limits = SandboxLimits(memory_mb=128)
    async with connected() as docker, internal_network(docker), make_provider().open(None, limits):
        print(os.getpid(), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


@pytest.mark.parametrize("after_s", [0.0, 0.02, 0.05, 0.1, 0.2, 0.3, 0.45, 0.7])
async def test_a_cancelled_start_leaves_nothing(after_s):
    """Wherever a start is cancelled, the container that was being made is not left over."""
    with anyio.move_on_after(after_s):
        async with make_provider().open(None, LIMITS) as sandbox:
            await sandbox.run_bash("sleep 60")
    assert own_names() == []


@pytest.mark.parametrize("verb", ["kill", "rm"])
async def test_a_container_ended_from_outside_is_a_boundary_error(verb):
    """A container that something else kills in the middle of a command is named, owed again, and never a hang."""
    async with make_provider().open(None, LIMITS) as sandbox:
        (name,) = own_names()
        timer = threading.Timer(0.3, docker, ("rm", "--force", name) if verb == "rm" else ("kill", name))
        timer.start()
        with pytest.raises(SandboxBoundaryError) as caught:
            await sandbox.run_bash("sleep 3600")
    timer.join()
    assert caught.value.kind in ("container_killed", "container_removed")
    assert caught.value.is_retry_owed
    assert own_names() == []


async def test_a_missing_image_is_not_owed_again():
    """An image that has gone since the start fails the trial with its name, and another attempt is not owed."""
    with pytest.raises(SandboxBoundaryError, match="lhaw-record/gone:1") as caught:
        async with make_provider(name="lhaw-record/gone:1").open(None, LIMITS):
            pass
    assert (caught.value.kind, caught.value.is_retry_owed) == ("image_missing", False)


@pytest.mark.parametrize("missing", ["/usr/bin/python3", "/bin/bash"])
async def test_an_unfit_image_names_what_it_lacks(missing):
    """An image without Python or without bash is refused before anything runs, with what an image needs."""
    tag = "lhaw-record/test-unfit:1"
    made = docker("create", "--entrypoint", "rm", BASE_IMAGE, missing).stdout.strip()
    docker("start", "--attach", made)
    docker("commit", made, tag)
    docker("rm", made)
    try:
        with pytest.raises(ExperimentError, match=r"needs python3 \(3.9 or newer\) and /bin/bash"):
            await provider("docker", DockerImage(name=tag))
    finally:
        docker("rmi", tag)


async def test_an_image_for_another_processor_is_unfit():
    """The engine starts it all the same; its programs cannot run there, and another attempt would not mend that."""
    tag = "lhaw-record/test-processor:1"
    assert docker("load", stdin=_image_for_arm(tag)).returncode == 0
    try:
        async with make_provider(name=tag).open(None, LIMITS) as sandbox:
            for asked_for in (sandbox.machine.run(["true"], timeout_s=60), sandbox.run_bash("true")):
                with pytest.raises(SandboxBoundaryError, match="not made for this machine's processor") as caught:
                    await asked_for
                assert (caught.value.kind, caught.value.is_retry_owed) == ("image_unfit", False)
    finally:
        docker("rmi", tag)


def _image_for_arm(tag):
    """Return an archive of an image whose only programs have the header of a 64-bit ARM program."""
    program = b"\x7fELF\x02\x01\x01" + b"\0" * 9 + b"\x02\0" + b"\xb7\0" + b"\x01" + b"\0" * 103
    layer = _archive(dict.fromkeys(("usr/bin/python3", "bin/bash", "bin/sh"), program))
    layers = {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}"]}
    config = json.dumps({"architecture": "arm64", "os": "linux", "config": {}, "rootfs": layers}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode()
    return _archive({"config.json": config, "layer.tar": layer, "manifest.json": manifest})


def _archive(files):
    written = io.BytesIO()
    with tarfile.open(fileobj=written, mode="w") as archive:
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o755
            archive.addfile(entry, io.BytesIO(content))
    return written.getvalue()


async def test_an_old_python_is_named(monkeypatch):
    """An image whose Python is too old for the sandbox says which it has and which is needed."""
    monkeypatch.setattr(config, "BOOT_COMMAND", tuple(word.replace("(3, 9)", "(9, 9)") for word in config.BOOT_COMMAND))
    with pytest.raises(ExperimentError, match=r"its python3 is 3\.11.* needs"):
        await provider("docker", DockerImage(name=BASE_IMAGE))


async def test_docker_is_chosen_by_name():
    """The provider of a run has the experiment's image, and room for what the engine's machine has in memory."""
    lines = []
    chosen = await provider("docker", DockerImage(name=BASE_IMAGE, cpus=1.0), lines.append)
    assert (chosen.kind, chosen.image.cpus, lines) == ("docker", 1.0, [])
    total_bytes = int(docker("info", "--format", "{{.MemTotal}}").stdout)
    assert chosen.room.capacity_mb == int(total_bytes * 0.8) >> 20
    other = chosen.with_image(name="other:1")
    assert (other.room, other.images) == (chosen.room, chosen.images)


async def test_images_of_tasks_are_pulled_where_the_run_can_be_seen():
    """What a benchmark pulls in the middle of a run goes to the same place as what the run pulls at its start."""
    lines = []
    chosen = await provider("docker", DockerImage(name=BASE_IMAGE), lines.append)
    with image_registry() as address:
        name = f"{address}/test/image:1"
        try:
            async with connected() as client:
                await chosen.with_image(name=name).images.ensure(client, name)
        finally:
            docker("rmi", name)
    assert lines[0] == f"pulling the image {name}"


# -- an engine of its own, for what others must not see


@pytest.fixture(scope="module")
def own_engine():
    """Run a second engine that may be killed."""
    with private_engine(disk_mb=600) as started:
        yield started


async def test_leftovers_of_the_killed_are_reaped_and_nothing_else(own_engine, monkeypatch):
    """The next start removes containers and networks of processes that were killed; those of the living stay."""
    monkeypatch.setenv("DOCKER_HOST", own_engine.address)
    done = await anyio.run_process([sys.executable, "-c", _KILLED_HOST], cwd=PROJECT, check=False)
    dead = int(done.stdout)
    left = docker("ps", "--all", "--quiet", "--filter", f"label=lhaw-record.pid={dead}").stdout.split()
    assert len(left) == 1
    assert docker("network", "ls", "--quiet", "--filter", f"label=lhaw-record.pid={dead}").stdout
    stranger = docker(
        *("create", "--label", "lhaw-record.host=elsewhere", "--label", f"lhaw-record.pid={dead}", BASE_IMAGE, "true")
    ).stdout.strip()
    try:
        async with make_provider().open(None, LIMITS) as sandbox, connected() as client:
            assert await reap(client) == 2
            assert await reap(client) == 0
            assert (await sandbox.run_bash("echo alive")).output == "alive\n"
            ids = [container["Id"] for container in await owned_containers(client)]
        assert stranger in ids
        assert left[0] not in [each[: len(left[0])] for each in ids]
        assert not docker("network", "ls", "--quiet", "--filter", f"label=lhaw-record.pid={dead}").stdout
    finally:
        docker("rm", "--force", stranger)


async def test_services_of_the_killed_end_with_them():
    """Nobody starts another run: a service has no connection that would end it, so its warden does, and its network."""
    make_image("lhaw-record/sleeps:1", {"srv/empty": b""}, ["sleep", "3600"])
    done = await anyio.run_process([sys.executable, "-c", _KILLED_SERVICE], cwd=PROJECT, check=False)
    dead = done.stdout.decode().strip()
    assert dead, done.stderr
    mine = ("--quiet", "--filter", f"label=lhaw-record.pid={dead}")
    for _ in range(6000):
        left = docker("ps", "--all", *mine).stdout + docker("network", "ls", *mine).stdout
        if not left:
            return
        await anyio.sleep(0.1)
    pytest.fail(f"still there: {left}")


async def test_two_experiments_share_one_engine(own_engine, monkeypatch):
    """What another process's containers may take is counted; a start beside it reaps nothing of it."""
    monkeypatch.setenv("DOCKER_HOST", own_engine.address)
    code = _KILLED_HOST.replace("os.kill(os.getpid(), signal.SIGKILL)", "await asyncio.sleep(60)")
    async with await anyio.open_process([sys.executable, "-c", code], cwd=PROJECT) as other:
        try:
            await other.stdout.receive()
            async with connected() as client, make_provider().open(None, LIMITS):
                assert await reap(client) == 0
                assert await memory_of_others_mb(client) == 128
        finally:
            other.kill()
    async with connected() as client:
        assert await reap(client) == 2


async def test_an_engine_that_is_killed_and_started_again(own_engine, monkeypatch):
    """A killed engine fails the trial as the sandbox's fault, owed again; the next start reaps and works."""
    monkeypatch.setenv("DOCKER_HOST", own_engine.address)
    async with make_provider().open(None, LIMITS) as sandbox:
        threading.Timer(0.3, own_engine.kill, (signal.SIGKILL,)).start()
        with pytest.raises(SandboxBoundaryError) as caught:
            await sandbox.run_bash("sleep 3600")
    assert (caught.value.kind, caught.value.is_retry_owed) == ("engine_away", True)
    with pytest.raises(ExperimentError, match="Cannot connect to Docker Engine"):
        await provider("docker", DockerImage(name=BASE_IMAGE))
    own_engine.run("start")
    async with connected() as client:
        left = await owned_containers(client)
        assert [container["State"] for container in left] in ([], ["exited"])  # it could not be removed any more
        for container in left:
            assert f"{os.getpid()}" in json.dumps(container["Labels"])  # and its owner lives: us
            docker("rm", "--force", container["Id"])
    assert (await provider("docker", DockerImage(name=BASE_IMAGE))).kind == "docker"


async def test_an_engine_that_is_silent_is_given_up(own_engine, monkeypatch):
    """An engine that does not answer is an error after its time, never a hang."""
    monkeypatch.setenv("DOCKER_HOST", own_engine.address)
    own_engine.run("start")
    async with connected() as client:
        own_engine.kill(signal.SIGSTOP)
        try:
            with pytest.raises(SandboxBoundaryError) as caught:
                async with asked("nothing", timeout_s=0.2):
                    await client.system.info()
        finally:
            own_engine.kill(signal.SIGCONT)
    assert (caught.value.kind, caught.value.is_retry_owed) == ("engine_hung", True)


async def test_a_full_disk_of_the_engine(monkeypatch):
    """A container that fills the engine's disk sees the system's error; a new container fails, owed again."""
    with private_engine(disk_mb=300) as full:
        monkeypatch.setenv("DOCKER_HOST", full.address)
        image, room = DockerImage(name=BASE_IMAGE), MemoryBudget(16_000, nobody_else)
        limits = SandboxLimits(memory_mb=1024)  # the disk is in memory too
        async with open_machine(image, limits, room) as machine:
            result = await machine.run(["dd", "if=/dev/zero", "of=/fill", "bs=1M"], timeout_s=60)
            assert result.exit_code == 1
            assert b"No space left on device" in result.stderr
            with pytest.raises(SandboxBoundaryError) as caught:
                await open_machine(image, LIMITS, room).__aenter__()
            assert (caught.value.kind, caught.value.is_retry_owed) == ("engine_disk_full", True)


async def test_without_an_engine_the_remedy_is_named(monkeypatch, tmp_path):
    """A socket that is not there is an error that names it, before anything runs."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(ExperimentError, match=r"none\.sock"):
        await provider("docker", DockerImage(name=BASE_IMAGE))


async def test_a_network_is_removed_after_an_error():
    """A network goes away however its use ends."""
    with pytest.raises(RuntimeError):
        async with connected() as client, internal_network(client):
            raise RuntimeError
    assert docker("network", "ls", "--quiet", "--filter", f"label=lhaw-record.pid={os.getpid()}").stdout == ""
