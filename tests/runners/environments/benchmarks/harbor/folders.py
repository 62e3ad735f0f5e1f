"""Small task folders in Harbor's format, on the base image of the tests."""

from tests.support.docker import BASE_IMAGE

CONFIG = f'[environment]\ndocker_image = "{BASE_IMAGE}"\nworkdir = "/srv"\nnetwork_mode = "no-network"\n'
TEST = 'grep -qx hello /srv/hello.txt; echo "$(( $? == 0 ))" > /logs/verifier/reward.txt\n'
SAYS_HELLO = "echo 'echo hello' > /srv/say.sh\n"
CALLS_WORK = '[ "$(bash /srv/say.sh)" = hello ]; echo $(( $? == 0 )) > /logs/verifier/reward.txt\n'
CALLS_CONFIG = "[verifier]\ntimeout_sec = 15.0\n"
HOSTILE = {  # what the tests call, so that they give no verdict
    "sleeps": "sleep 600\n",
    "spins": "while :; do :; done\n",
    "hangs without an end": "trap '' TERM INT HUP; while :; do sleep 600; done\n",
    "kills the tests": "kill -9 $PPID; sleep 600\n",
    "kills all it can": "kill -9 -1; sleep 600\n",
    "forks": "f() { f | f & f | f; }; f; sleep 600\n",
    "fills the memory": "tail /dev/zero; kill -9 $PPID\n",
}


def write_task(folder, *, config=CONFIG, test=TEST, solution="echo hello > hello.txt\n", **files):
    """Write a task folder; ``files`` has contents by path, with ``__`` for ``/``."""
    contents = {
        "task.toml": config,
        "instruction.md": "Write the word hello into hello.txt.\n",
        "tests/test.sh": None if test is None else f"#!/bin/bash\n{test}",
        "solution/solve.sh": None if solution is None else f"#!/bin/bash\n{solution}",
        **{name.replace("__", "/"): text for name, text in files.items()},
    }
    for name, text in contents.items():
        if text is not None:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return folder
