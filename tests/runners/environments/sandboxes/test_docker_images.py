"""Images that are not there yet: pulled with progress from a registry, or refused with the next step."""

import anyio
import pytest

from lhaw_record.runners.base.errors import SandboxBoundaryError
from lhaw_record.runners.environments.sandboxes.docker.engine import connected
from lhaw_record.runners.environments.sandboxes.docker.images import Images, PullProgress, ensure_image, pull_refusal
from tests.runners.environments.sandboxes.docker_fixtures import engine, needs_engine  # noqa: F401
from tests.support.docker import BASE_IMAGE, docker
from tests.support.image_registry import image_registry

REFUSALS = {
    "locked": (401, '{"errors":[{"code":"UNAUTHORIZED"}]}'),
    "limited": (429, '{"errors":[{"code":"TOOMANYREQUESTS","message":"slow down"}]}'),
    "limited by a proxy": (429, "<html>slow down</html>"),
}


@needs_engine
async def test_an_image_is_pulled_with_progress():
    """An image that the engine lacks is pulled, with a line at the start and at every tenth; then it is there."""
    with image_registry() as address:
        name = f"{address}/test/image:1"
        lines = []
        try:
            async with connected() as client:
                pulled = await ensure_image(client, name, lines.append)
                assert await ensure_image(client, name, lines.append) == pulled
        finally:
            docker("rmi", name)
    assert name in pulled["RepoTags"]
    assert lines[0] == f"pulling the image {name}"
    assert all(line.startswith(f"pulling the image {name}") for line in lines)


@needs_engine
async def test_an_image_that_many_wait_for_is_pulled_once():
    """Trials of one task that open at the same time wait for one pull, and its progress is told once."""
    with image_registry() as address:
        name = f"{address}/test/image:1"
        lines = []
        images = Images(lines.append)
        try:
            async with connected() as client, anyio.create_task_group() as tasks:
                for _ in range(5):
                    tasks.start_soon(images.ensure, client, name)
        finally:
            docker("rmi", name)
    assert lines.count(f"pulling the image {name}") == 1


@needs_engine
async def test_an_image_that_is_there_is_not_pulled():
    """An image that the engine has needs no registry."""
    lines = []
    async with connected() as client:
        assert BASE_IMAGE in (await ensure_image(client, BASE_IMAGE, lines.append))["RepoTags"]
    assert lines == []


@needs_engine
@pytest.mark.parametrize(
    ("case", "kind", "is_retry_owed", "words"),
    [
        ("no such tag", "image_missing", False, "check its name and tag"),
        ("locked", "registry_denied", False, "docker login"),
        ("no registry", "registry_away", True, "the registry cannot be reached"),
        ("no name", "image_missing", False, "check its name and tag"),
        ("limited", "registry_limit", True, "wait, or log in there"),
        ("limited by a proxy", "registry_limit", True, "wait, or log in there"),
    ],
)
async def test_a_pull_that_fails_names_the_next_step(case, kind, is_retry_owed, words):
    """No such image, no login, no registry, no possible name and a busy registry are told apart, with what to do."""
    with image_registry(refusal=REFUSALS.get(case)) as address:
        name = f"{address}/test/other:1" if case != "no registry" else "127.0.0.1:1/test/image:1"
        name = "Not A Name" if case == "no name" else name
        async with connected() as client:
            with pytest.raises(SandboxBoundaryError) as caught:
                await ensure_image(client, name)
    assert (caught.value.kind, caught.value.is_retry_owed) == (kind, is_retry_owed)
    assert words in str(caught.value)
    assert name in str(caught.value)


@pytest.mark.parametrize(
    ("message", "kind"),
    [
        ("toomanyrequests: You have reached your pull rate limit", "registry_limit"),
        ("pull access denied for x, repository does not exist or may require 'docker login'", "registry_denied"),
        ("no matching manifest for linux/arm64/v8 in the manifest list entries", "image_missing"),
        ("write /var/lib/docker/tmp/x: no space left on device", "engine_disk_full"),
        ("Get https://registry/v2/: net/http: TLS handshake timeout", "registry_away"),
    ],
)
def test_what_engines_say_of_a_failed_pull(message, kind):
    """The usual words of engines and registries are understood."""
    assert pull_refusal("x:1", message).kind == kind


def test_progress_is_a_line_for_every_tenth():
    """Hundreds of messages become at most a line for every tenth of the known bytes."""
    lines = []
    progress = PullProgress("x:1", lines.append)
    for layer in ("a", "b"):
        progress.take({"status": "Downloading", "id": layer, "progressDetail": {"current": 0, "total": 50_000_000}})
    for done in range(0, 50_000_000, 250_000):
        progress.take({"status": "Downloading", "id": "a", "progressDetail": {"current": done, "total": 50_000_000}})
    progress.take({"status": "Extracting", "id": "a", "progressDetail": {"current": 1, "total": 2}})
    progress.take({"status": "Download complete", "id": "a", "progressDetail": {}})
    progress.take({"status": "Pull complete", "id": "b"})
    assert len(lines) == 6
    assert lines[0] == "pulling the image x:1: 10 % of 100 MB known so far"
    assert lines[-1] == "pulling the image x:1: 100 % of 100 MB known so far"
