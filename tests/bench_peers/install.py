"""Make the peer's environment, .envs/peers, unless it is there as requirements.txt wants it.

python -m tests.bench_peers.install
"""

import shutil
import subprocess
import sys
import venv
from pathlib import Path

ENVIRONMENT = Path(__file__).parents[2] / ".envs" / "peers"
PYTHON = ENVIRONMENT / "bin" / "python"
REQUIREMENTS = Path(__file__).with_name("requirements.txt")
INSTALLED = ENVIRONMENT / "installed.txt"
"""A copy of the requirements, written when they are all there."""


def install() -> Path:
    """Install the peer with uv where it is there, else with pip; return its Python.

    Raises:
        subprocess.CalledProcessError: The installer failed; the same call again starts over.
    """
    if is_installed():
        return PYTHON
    print(f"installing the peer in {ENVIRONMENT} (about a minute, 0.6 GB) ...", file=sys.stderr)  # noqa: T201
    uv = shutil.which("uv")
    venv.create(ENVIRONMENT, clear=True, with_pip=uv is None)
    installer = [uv, "pip", "install", "--python", str(PYTHON)] if uv else [str(PYTHON), "-m", "pip", "install"]
    subprocess.run([*installer, "--quiet", "--requirement", str(REQUIREMENTS)], check=True, stdin=subprocess.DEVNULL)
    shutil.copyfile(REQUIREMENTS, INSTALLED)
    return PYTHON


def is_installed() -> bool:
    """Whether the environment holds what requirements.txt wants now."""
    return INSTALLED.exists() and INSTALLED.read_bytes() == REQUIREMENTS.read_bytes()


if __name__ == "__main__":
    install()
