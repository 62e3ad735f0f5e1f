"""Harbor's own Docker environment behind our machine."""

import json
import os
import subprocess
from pathlib import Path

from tests.support.docker import BASE_IMAGE, docker, engine_address
from tests.support.harbor_machine_facts import EXPECTED
from tests.support.needs import HARBOR_PYTHON, needs

_ROOT = Path(__file__).resolve().parents[2]


@needs("harbor", "docker", "compose")
def test_a_container_of_harbor_does_what_any_machine_does(tmp_path):
    """The same facts as on this machine, users besides; and nothing of it is left on the engine."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    if engine_address():
        environment["DOCKER_HOST"] = engine_address()
    script = _ROOT / "tests" / "support" / "harbor_machine_facts.py"
    command = [HARBOR_PYTHON, script, tmp_path, BASE_IMAGE]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == {**EXPECTED, "user": "agent"}
    assert docker("ps", "--all", "--quiet", "--filter", "name=facts__").stdout == ""
