"""The parts of the Docker sandbox that need no engine: settings, owners, room, archives, refusals."""

import ast
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import anyio
import pytest

from lhaw_record.runners.base.errors import ExperimentError, SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.docker import config, containers
from lhaw_record.runners.environments.sandboxes.docker.engine import connected, is_orphan, is_own, own_labels, refusal
from lhaw_record.runners.environments.sandboxes.docker.files import FileLimits, regular_files
from lhaw_record.runners.environments.sandboxes.docker.memory_budget import MemoryBudget
from lhaw_record.runners.environments.sandboxes.docker.sidecar import LineChannel
from lhaw_record.runners.environments.sandboxes.kinds import provider
from lhaw_record.runners.experiment.decoding import read_experiment
from lhaw_record.runners.runs.preparation import prepare

INSIDE = Path(config.__file__).parents[1] / "inside"
_FILE = """
name = "x"
benchmark = "desk"
conditions = ["full"]
[[agents]]
name = "a"
model = "scripted/balanced"
[sandbox]
"""


def sandbox_of(text, tmp_path):
    """Return the sandbox of an experiment file."""
    return read_experiment(_FILE + text, tmp_path / "x.toml").sandbox


def test_the_keys_of_docker(tmp_path):
    """Image and processors are read as written; without the table nothing has changed."""
    sandbox = sandbox_of('kind = "docker"\nimage = "base:1"\ncpus = 1.5', tmp_path)
    assert (sandbox.kind, sandbox.image, sandbox.cpus) == ("docker", "base:1", 1.5)
    assert (sandbox_of("", tmp_path).kind, sandbox_of("", tmp_path).image) == ("auto", None)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('image = "base:1"', "key 'sandbox.image': this key is for docker only"),
        ('kind = "process"\ncpus = 1', "key 'sandbox.cpus': this key is for docker only"),
        ('kind = "docker"\nimage = "x"\ncpus = 0', "key 'sandbox.cpus': 0 is not a number of processors"),
        ('kind = "docker"\nimage = "x"\nimages = "y"', "unknown key 'sandbox.images'"),
        ('kind = "podman"', "key 'sandbox.kind'"),
    ],
)
def test_mistakes_in_the_sandbox_table_are_named(text, words, tmp_path):
    """Every mistake names its key and what would be right."""
    with pytest.raises(ExperimentError, match=words):
        sandbox_of(text, tmp_path)


def test_an_experiment_names_an_image_unless_its_tasks_have_their_own(tmp_path):
    """Tasks of the bundled benchmark have none: the plan is refused, with the key."""
    text = _FILE + 'kind = "docker"\n'
    (tmp_path / "x.toml").write_text(text)
    with pytest.raises(ExperimentError, match=r"key 'sandbox\.image': docker needs an image with python3 and bash"):
        prepare(tmp_path / "x.toml")
    (tmp_path / "x.toml").write_text(text + 'image = "base:1"\n')
    assert prepare(tmp_path / "x.toml").plan.trials


async def test_docker_without_an_image_is_refused():
    """A caller that forgets the image is told so."""
    with pytest.raises(ExperimentError, match=r"name one in sandbox\.image"):
        await provider("docker")


async def test_no_engine_at_all_names_the_remedy(monkeypatch):
    """Without DOCKER_HOST and without any socket the error says how to have an engine."""
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setattr("aiodocker.docker._sock_search_paths", [])
    with pytest.raises(SandboxBoundaryError, match=r"apt-get install docker\.io") as caught:
        async with connected():
            pass
    assert caught.value.kind == "engine_away"


def test_our_own_are_no_orphans():
    """What this process made is its own, and not an orphan."""
    labels = own_labels()
    assert is_own(labels)
    assert not is_orphan(labels)


def test_what_the_dead_made_is_an_orphan():
    """A process that has ended leaves orphans, also when its number is given out again, or nobody has collected it."""
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    labels = {**own_labels(), "lhaw-record.pid": str(child.pid)}
    started = Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19]
    assert is_orphan(labels)  # the number is somebody else's now: it started at another time
    labels["lhaw-record.pid_started"] = started
    assert not is_orphan(labels)
    assert not is_own(labels)
    child.stdin.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_orphan(labels)  # it has ended, and waits to be collected
    child.wait()
    assert is_orphan(labels)


@pytest.mark.parametrize(
    ("label", "is_dead"),
    [("lhaw-record.host", False), ("lhaw-record.pid_namespace", False), ("lhaw-record.boot", True)],
)
def test_strangers_are_left_alone(label, is_dead):
    """What another host or another container's process made is nobody's to judge; a start of this host ended all."""
    assert is_orphan({**own_labels(), label: "other"}) is is_dead


@pytest.mark.parametrize("path", sorted(INSIDE.glob("*.py")), ids=lambda path: path.name)
def test_what_runs_inside_suits_an_old_python(path):
    """What is sent into containers is written for the oldest Python that images may have."""
    tree = ast.parse(path.read_text(), feature_version=config.OLDEST_PYTHON)
    words = [word.arg for word in ast.walk(tree) if isinstance(word, ast.keyword)]
    assert "strict" not in words  # zip has it from 3.10 on
    if path.name == "cell.py":  # it alone is compiled as it stands: the agent's code would inherit what is set for it
        assert not [part for part in ast.walk(tree) if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitOr)]


# -- room


async def test_room_is_given_by_memory_and_in_order():
    """As many go ahead as fit; a large one that waits is not overtaken for ever by small ones."""

    async def nobody():
        return 0

    room = MemoryBudget(1000, nobody)
    assert room.fits(300) == 3
    entered = []

    async def enter(name, size, leave):
        async with room.hold(size):
            entered.append(name)
            await leave.wait()

    async with anyio.create_task_group() as tasks:
        leaves = [anyio.Event() for _ in range(4)]
        for name, size, leave in zip("abcd", (400, 400, 900, 100), leaves, strict=True):
            tasks.start_soon(enter, name, size, leave)
            await anyio.wait_all_tasks_blocked()
        assert entered == ["a", "b"]
        assert room.used_mb == 800
        leaves[0].set()
        leaves[1].set()
        await anyio.wait_all_tasks_blocked()
        assert entered == ["a", "b", "c", "d"]
        leaves[2].set()
        leaves[3].set()
    assert room.used_mb == 0


async def test_others_are_counted_but_starve_nobody():
    """A second sandbox waits for others' memory too, and goes ahead when they end; a first never waits for them."""
    others_mb = 900

    async def others():
        return others_mb

    room = MemoryBudget(1000, others)
    async with room.hold(300), anyio.create_task_group() as tasks:
        with anyio.move_on_after(0.05) as scope:
            async with room.hold(300):
                pass
        assert scope.cancelled_caught
        assert room.used_mb == 300
        done = anyio.Event()

        async def second():
            async with room.hold(300):
                done.set()

        tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        others_mb = 0
        with anyio.fail_after(600):
            await done.wait()


async def test_what_never_fits_is_refused():
    """A sandbox larger than all there is fails at once, with the key to change, and is not owed again."""

    async def nobody():
        return 0

    with pytest.raises(SandboxBoundaryError, match=r"limits\.memory_mb") as caught:
        async with MemoryBudget(100, nobody).hold(101):
            pass
    assert (caught.value.kind, caught.value.is_retry_owed) == ("no_room", False)


# -- archives


def archive_of(*entries):
    """Return an archive of (name, type, content or target)."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, kind, content in entries:
            entry = tarfile.TarInfo(name)
            entry.type = kind
            if kind in (tarfile.SYMTYPE, tarfile.LNKTYPE):
                entry.linkname = content
                archive.addfile(entry)
            else:
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
    buffer.seek(0)
    return buffer


def test_nothing_in_an_archive_leads_out():
    """Names with '..', absolute names, and links of every kind to elsewhere bring nothing; second names do."""
    archive = archive_of(
        ("folder", tarfile.DIRTYPE, b""),
        ("folder/a", tarfile.REGTYPE, b"1"),
        ("folder/../../x", tarfile.REGTYPE, b"bad"),
        ("/etc/x", tarfile.REGTYPE, b"bad"),
        ("folder/link", tarfile.SYMTYPE, "/etc"),
        ("folder/link/passwd", tarfile.REGTYPE, b"under a link is a file like any other"),
        ("folder/second", tarfile.LNKTYPE, "folder/a"),
        ("folder/away", tarfile.LNKTYPE, "/etc/shadow"),
        ("folder/device", tarfile.CHRTYPE, b""),
        ("folder" + f"/{'d' * 250}" * 9, tarfile.REGTYPE, b"its path is too long for a host"),
        ("folder" + "/d" * 900, tarfile.REGTYPE, b"its folders are too deep"),
    )
    assert regular_files(archive, FileLimits()) == {
        "a": b"1",
        "link/passwd": b"under a link is a file like any other",
        "second": b"1",
    }


def test_archives_are_bounded_and_whole():
    """More bytes or entries than allowed, second names counted, and an archive that is none, are boundary errors."""
    names = [("d/a", tarfile.REGTYPE, b"x" * 600), ("d/b", tarfile.LNKTYPE, "d/a")]
    with pytest.raises(SandboxBoundaryError, match="files in the container exceed"):
        regular_files(archive_of(*names), FileLimits(total_bytes=1000))
    links = [(f"d/{number}", tarfile.SYMTYPE, "x") for number in range(5)]
    with pytest.raises(SandboxBoundaryError, match="files in the container exceed"):
        regular_files(archive_of(*links), FileLimits(entries=4))
    with pytest.raises(SandboxBoundaryError, match="broken archive"):
        regular_files(io.BytesIO(b"no archive" * 100), FileLimits())


@pytest.mark.parametrize(
    ("status", "message", "kind", "is_retry_owed"),
    [
        (404, "No such image: x:1", "image_missing", False),
        (500, "mkdir /var/lib/docker/overlay2/x: no space left on device", "engine_disk_full", True),
        (400, 'exec: "python3": executable file not found in $PATH', "image_unfit", False),
        (900, "Cannot connect to Docker Engine via unix://x", "engine_away", True),
        (403, "could not find an available, non-overlapping IPv4 address pool", "engine_networks_full", True),
        (500, "something else", "engine_error", True),
    ],
)
def test_what_a_refusal_means(status, message, kind, is_retry_owed):
    """The engine's refusals become short words, and say whether another attempt may end differently."""
    error = refusal("it does not start", status, message)
    assert (error.kind, error.is_retry_owed) == (kind, is_retry_owed)
    assert str(error).startswith("it does not start: ")
    assert message in str(error)


async def test_lines_of_a_sidecar_are_whole_and_bounded():
    """Lines come as they were printed, however they arrive; a program that prints without end is broken off."""
    with LineChannel() as channel:
        for part in (b"a", b"b\n\nc", b"\n"):
            channel.data_received(part)
        assert [channel.lines.receive_nowait() for _ in range(3)] == [b"ab", b"", b"c"]
        channel.data_received(b"x\n" * 100_000)
        assert channel.end is not None
        assert channel.end[1] == "sandbox_protocol"


class Versioned:
    """A client of an engine that says what it is."""

    def __init__(self, engine):
        self.docker_host, self.engine = f"unix:///{engine}", engine

    async def version(self):
        """Name the engine, as each does."""
        return {"Components": [{"Name": self.engine}]}


@pytest.mark.parametrize(
    ("engine", "hard", "named"),
    [
        ("Engine", 20_000, []),
        ("Podman Engine", 20_000, [("nofile", 20_000), ("nproc", 20_000)]),
        ("Podman Engine", 1 << 19, [("nofile", 1 << 15), ("nproc", 1 << 15)]),
        ("Podman Engine", 1 << 20, []),
        ("Podman Engine", -1, []),
    ],
)
async def test_podman_is_given_limits_that_it_may_set(monkeypatch, engine, hard, named):
    """Its own are more than a service without CAP_SYS_RESOURCE may set, and no container would start."""
    monkeypatch.setattr(containers, "_ULIMITS", {})
    monkeypatch.setattr(containers.resource, "getrlimit", lambda _: (hard, hard))
    told = await containers._podmans_ulimits(Versioned(engine))
    assert told == [{"Name": name, "Soft": limit, "Hard": limit} for name, limit in named]
