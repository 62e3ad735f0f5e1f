"""The law of missing data for the tests of a patch: whichever step meets a limit of this machine, nothing is scored."""

import json

import anyio
import pytest

from lhaw_record.runners.base.errors import GraderError
from lhaw_record.runners.environments.benchmarks.swebench_pro import suite
from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import Instance
from lhaw_record.runners.environments.benchmarks.swebench_pro.scripts import Scripts
from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult
from tests.support.machine_limits import ENDINGS, GOES_ON, ended

STEPS = {
    "base commit": "git reset",
    "patch": "git apply",
    "files of the tests": "git checkout solved --",
    "run script": "run_script.sh",
    "parser": "parser.py",
}
LIMITS = {
    **ENDINGS,
    "disk": {"exit_code": 1, "stderr": b"error: x: No space left on device\n"},
    "size of a file": {"exit_code": 1, "stderr": b"error: x: File too large\n"},
}


class Machine:
    """A container in which every step ends well and one test fails, but for the steps that meet a limit."""

    def __init__(self, step="", **ending):
        self.step, self.ending = step, ending

    async def run(self, argv, **_):
        """End as ordered."""
        good = {"stdout": b"test_x failed"} if argv[-1].startswith("tail") else {}
        return ended(**{**good, **(self.ending if self.step and self.step in argv[-1] else {})})

    async def end_all(self):
        """Nothing is left running."""

    async def put(self, folder, files):
        """Take files."""

    async def get(self, path, limits):
        """Return what the parser wrote."""
        return {"output.json": json.dumps({"tests": [{"name": "test_x", "status": "FAILED"}]}).encode()}


def opened_on(machine, run_script=b"run", **more):
    """Return the tester of an instance."""
    instance = Instance(
        instance_id="i",
        repo="a/b",
        base_commit="base",
        problem_statement="p",
        requirements="",
        interface="",
        fail_to_pass=("test_x",),
        pass_to_pass=(),
        before_tests="git checkout solved -- t.py",
        test_files=("t.py",),
    )
    scripts = Scripts(run_script=run_script, parser=b"parse")
    return suite.Tester(machine, instance, scripts, work_dir="/app", timeout_s=1.0, **more)


async def test_a_test_that_fails_counts_where_no_limit_was_met():
    """The verdict without a limit, so that the law below proves something."""
    run = await opened_on(Machine()).test(b"patch")
    assert run.statuses == {"test_x": "failed"}


CASES = [(step, limit) for step in STEPS for limit in LIMITS]
CASES.remove(("run script", "size of a file"))  # its own output may quote these words


@pytest.mark.thorough
@pytest.mark.parametrize("limit", GOES_ON)
async def test_a_test_that_failed_at_a_limit_is_missing_data_where_the_script_went_on(limit):
    """A run script that ends well says nothing: its tests failed where something was killed or refused."""
    with pytest.raises(GraderError):
        await opened_on(Machine(STEPS["run script"], **GOES_ON[limit])).test(b"patch")


@pytest.mark.parametrize(("step", "limit"), CASES)
async def test_a_limit_in_any_step_is_missing_data(step, limit):
    """The trial failed at the grader and is owed again."""
    with pytest.raises(GraderError) as caught:
        await opened_on(Machine(STEPS[step], **LIMITS[limit])).test(b"patch")
    assert caught.value.is_retry_owed


class Logged(Machine):
    """A container of which only the search of the logs is real: this machine's own programs search given logs."""

    def __init__(self, folder, stdout="", stderr=""):
        super().__init__()
        self.folder = folder
        (folder / "stdout.log").write_text(stdout)
        (folder / "stderr.log").write_text(stderr)

    async def run(self, argv, **_):
        """Search as ordered."""
        if "grep" not in argv[-1]:
            return await super().run(argv)
        words = [*argv[:-1], argv[-1].replace("/workspace", str(self.folder))]
        done = await anyio.run_process(words, check=False)
        return ExecResult(exit_code=done.returncode, stdout=done.stdout, stderr=done.stderr)


# What npm 11.19, yarn 1.22, pnpm 9, pip 23 and cargo wrote where there was no network, shortened. Not run here: npm 6,
# go and a registry that is down.
LOST = {
    "npm": ("npm install --production=false", "npm error code EAI_AGAIN"),
    "npm without a listener": (
        "npm install",
        "npm error FetchError: request to http://a/b failed, connect ECONNREFUSED",
    ),
    "npm 6": ("npm ci", "npm ERR! code ENOTFOUND"),
    "npm, registry down": ("npm ci", "npm ERR! code E503"),
    "yarn": ("yarn global add serve", "error Error: getaddrinfo EAI_AGAIN registry.yarnpkg.com"),
    "pnpm": (
        "pnpm add a",
        " ERR_PNPM_META_FETCH_FAIL  GET https://a/b: request failed, reason: getaddrinfo EAI_AGAIN a",
    ),
    "pip": (
        "python -m pip install six",
        "WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError(<x>)': /simple/six/",
    ),
    "cargo": ("cargo test", "  [6] Could not resolve hostname (Could not resolve host: index.crates.io)"),
    "go": (
        "go test ./...",
        'a.go:3:8: b.org/c@v1.0.0: Get "https://proxy/b.mod": dial tcp: lookup proxy: no such host',
    ),
}


@pytest.mark.parametrize(("script", "line"), LOST.values(), ids=LOST)
async def test_an_installer_that_lost_the_network_is_missing_data(tmp_path, script, line):
    """The tests of a script that could not install what they need are no zero, however much was written afterwards."""
    machine = Logged(tmp_path, stderr=f"begins\r\n\0{line}\n" + "more\n" * 100_000)
    with pytest.raises(GraderError, match="lost the network") as caught:
        await opened_on(machine, f"set -e\n  {script} || true\n".encode()).test(b"patch")
    assert (caught.value.kind, caught.value.is_retry_owed) == ("no_network", True)


@pytest.mark.thorough
async def test_an_installer_without_a_network_by_choice_is_not_tried_again(tmp_path):
    """The file says that the tests have no network: another attempt cannot help, and the message names the key."""
    script, line = LOST["yarn"]
    machine = Logged(tmp_path, stderr=f"{line}\n")
    with pytest.raises(GraderError, match='test_network = "none" gives it none') as caught:
        await opened_on(machine, f"{script}\n".encode(), has_network=False).test(b"patch")
    assert (caught.value.kind, caught.value.is_retry_owed) == ("no_network", False)


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("# npm install\npytest", "npm error code EAI_AGAIN"),
        ("yarn test", "error Error: getaddrinfo EAI_AGAIN registry.yarnpkg.com"),
        (
            "npm install",
            "Could not connect to Redis at 127.0.0.1:6379: Connection refused\nError: connect ECONNREFUSED ::1",
        ),
        ("npm install", '{"err": "npm error code EAI_AGAIN"}\nadded 12 packages'),
        ("npm install", "npm error code E404\nnpm error 404 Not Found - GET https://a/none"),
        ("npm install", "npm error code EJSONPARSE"),
        ("go test ./...", "    a_test.go:12: dial tcp 127.0.0.1:1: connect: connection refused"),
    ],
)
async def test_what_tests_say_of_a_network_is_no_excuse(tmp_path, script, said):
    """Without an installer, in tests' own lines, or where a package is wrong, a failed test counts."""
    run = await opened_on(Logged(tmp_path, stdout=said), script.encode()).test(b"patch")
    assert run.statuses == {"test_x": "failed"}


async def test_logs_that_cannot_be_searched_are_missing_data():
    """A search that ends in neither way says nothing of the network."""
    with pytest.raises(GraderError) as caught:
        await opened_on(Machine("grep", exit_code=None, is_timeout=True), b"npm install").test(b"patch")
    assert (caught.value.kind, caught.value.is_retry_owed) == ("logs_unread", True)
