"""A task image and services that honour the published contract, made of the base image; and a task folder for them."""

import base64
import hashlib
import io
import json
import subprocess
import tarfile
from pathlib import Path

from tests.runners.environments.benchmarks.tac.company.fernet import encrypt
from tests.support.docker import BASE_IMAGE, docker

HERE = Path(__file__).with_name("company")
TASK = "admin-count-visitors"
PROMPT = "Count the visitors in the front-desk folder of ownCloud.\r\nLeave the number in count.txt, there and here.\n"
KEY = b"theagentcompany is all you need"
CHECKPOINTS = """
## Checkpoint 1 (1pt)

The folder was looked at.

## Checkpoint 2 (1pt)

The number is right.

## Checkpoint 3 (2pts)

It is in ownCloud.
"""
URL = "http://the-agent-company.com:8092"
HEALTH = f"{URL}/status"
PYTHON_GET = "import urllib.request as u; print(u.urlopen('{url}').read().decode())"


def call(name, **arguments):
    """Return a call of a reference."""
    return {"name": name, "arguments": arguments}


LOOK = call("python", code=PYTHON_GET.format(url=f"{URL}/files/front-desk/"))
COUNT = call("write_file", path="count.txt", content="3\n")
UPLOAD = call(
    "bash",
    command='python3 -c "import urllib.request as u; '
    f"u.urlopen(u.Request('{URL}/files/count.txt', open('/workspace/count.txt', 'rb').read(), method='PUT'))\"",
)


def make_folder(root, task_id=TASK, services="- owncloud"):
    """Write the task folder as it is published; returns the folder that holds it."""
    folder = root / "tasks" / task_id
    folder.mkdir(parents=True)
    (folder / "task.md").write_bytes(PROMPT.encode())
    (folder / "checkpoints.md").write_text(CHECKPOINTS)
    (folder / "dependencies.yml").write_text(services)
    return folder.parent


def made_images():
    """Return the names of task image, service image and company image; those that the engine lacks are made."""
    source = b"".join(path.read_bytes() for path in sorted(HERE.glob("*.*"))) + Path(__file__).read_bytes()
    version = hashlib.sha256(source).hexdigest()[:12]
    names = [f"lhaw-record/tac-{kind}:{version}" for kind in (TASK, "owncloud", "company")]
    padded = base64.urlsafe_b64encode(KEY.ljust(32, b"\0"))
    utils = {
        "utils/init.sh": (HERE / "init.sh").read_bytes(),
        "utils/eval.py": (HERE / "eval.py").read_bytes(),
        "utils/fernet.py": (HERE / "fernet.py").read_bytes(),
        "utils/evaluator.py.enc": encrypt(padded, (HERE / "evaluator.py").read_bytes()),
        "utils/dependencies.yml": b"- owncloud",
        "instruction/task.md": PROMPT.encode(),
        "workspace/notes.txt": b"An agent's file.\n",
        "usr/bin/python_default": Path("python3"),
        "utils/link": Path("init.sh"),
    }
    service = {"srv/service.py": (HERE / "service.py").read_bytes()}
    make_image(names[0], utils, [])
    make_image(names[1], service, ["python3", "/srv/service.py"])
    make_image(names[2], service, ["python3", "/srv/service.py", "control"])
    return names


def browser_image():
    """Return the name of an image of the Playwright MCP server, which is made if the engine lacks it."""
    script = Path(__file__).parents[4] / "support" / "docker-browser-image"
    done = subprocess.run([script], capture_output=True, text=True, timeout=1800, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def make_image(name, files, command, base=BASE_IMAGE):
    """Commit an image of a base image and files; a path as content is a link."""
    if docker("image", "inspect", name).returncode == 0:
        return
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(path)
            entry.mode = 0o755
            if isinstance(content, Path):
                entry.type, entry.linkname = tarfile.SYMTYPE, str(content)
                tar.addfile(entry)
            else:
                entry.size = len(content)
                tar.addfile(entry, io.BytesIO(content))
    container = docker("create", base, "true").stdout.strip()
    assert docker("cp", "-", f"{container}:/", stdin=archive.getvalue()).returncode == 0
    changes = ["--change", f"ENTRYPOINT {json.dumps(command)}"] if command else []
    assert docker("commit", *changes, container, name).returncode == 0
    docker("rm", container)
