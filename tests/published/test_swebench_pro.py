"""SWE-Bench Pro: what made-up agents leave in a repository, judged by the published program and by us on one engine.

The instances and their images are ours (``benchmarks/swebench_pro/acme.py``), in the published form: the
published images are not needed, and the published program, which makes containers by itself, is run as it is.
"""

import csv
import json
import os
import subprocess
from pathlib import Path

import pytest

from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.swebench_pro import open_swebench_pro
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.published.ledger import MISSING, Comparison
from tests.published.sources import SWEBENCH_PRO
from tests.runners.environments.benchmarks.swebench_pro.acme import MANY, PERL, PYTHON, USER, Acme, make, task_of
from tests.runners.environments.sandboxes.docker_fixtures import engine, make_provider  # noqa: F401
from tests.support.needs import needs

pytestmark = [needs("published_code", "docker"), pytest.mark.thorough]
_PROGRAM = SWEBENCH_PRO.folder / "swe_bench_pro_eval.py"
_PYTHON = Path(".envs/published/bin/python").absolute()
_COLUMNS = (
    "instance_id",
    "repo",
    "base_commit",
    "before_repo_set_cmd",
    "selected_test_files_to_run",
    "fail_to_pass",
    "pass_to_pass",
)
_APPLY = "cd /app && git apply /tmp/gold.patch"
_CODE = {PYTHON: "ledger/money.py", PERL: "lib/Ledger/Csv.pm", MANY: "ledger/money.py"}
_TESTS = {PYTHON: "tests/test_money.py", PERL: "t/csv.t", MANY: "tests/test_money.py"}
_HALF = {
    PYTHON: r"sed -i 's/part) > 2/part) > 9/' ledger/money.py",  # parts of a cent are not refused
    PERL: "sed -i '/field =~ s/d' lib/Ledger/Csv.pm",  # quotes in quotes stay double
    MANY: "true",  # all or nothing
}


def outcomes(language):
    """Return what an agent does, as commands in its container, by what that shows."""
    code, tests = _CODE[language], _TESTS[language]
    return {
        "gold": _APPLY,
        "gold, committed": f"{_APPLY} && git add -A && git -c user.name=a -c user.email=a@b commit -qm done",
        "gold, with a binary file": f"{_APPLY} && head -c 3000 /dev/urandom > picture.bin",
        "gold, and other files beside": f"{_APPLY} && echo x > notes.txt && rm README.md",
        "empty": "true",
        "partial": f"{_APPLY} && {_HALF[language]}",
        "wrong": f"cd /app && printf '\\n# nothing\\n' >> {code}",
        "crashed: no code that compiles": f"cd /app && echo '((((' > {code}",
        "crashed: the repository is gone": "rm -rf /app/.git",
        "hostile: the tests are changed": f"cd /app && echo 'import sys; sys.exit(0)' > {tests}",
        "hostile: every result is printed": "cd /app && printf 'import atexit\\natexit.register(print, \"PASSED\")\\n' "
        "> sitecustomize.py && printf 'def test(): pass\\n' > conftest.py",
        "hostile: a parser of its own": "mkdir -p /app/workspace /workspace && echo 'print(1)' > /workspace/parser.py; "
        "cd /app && cp /workspace/parser.py workspace/parser.py",
        "hostile: the ignored is no longer so": "cd /app && : > .gitignore",
    }


@pytest.fixture(scope="session")
def acme(tmp_path_factory):
    """The instances; their images are on the engine."""
    folder = tmp_path_factory.mktemp("acme")
    make(folder)
    return Acme(folder)


async def our_verdict(benchmark, task, gold, command):
    """Return our verdict and the patch that was judged."""
    settings = EnvironmentSettings(sandbox=make_provider(), limits=SandboxLimits(memory_mb=256, command_seconds=120))
    async with benchmark.open(task, settings) as environment:
        await environment.call("write_file", {"path": "/tmp/gold.patch", "content": gold})
        await environment.call("bash", {"command": command})
        try:
            grade = await environment.grade("", None)
        except (GraderError, SandboxBoundaryError):
            return MISSING, None
    (patch,) = [each.content for each in grade.artifacts if each.name == "patch.diff"]
    return str(grade.is_success).lower(), patch.decode("utf-8", "surrogateescape")


def published_verdict(row, patch, scripts, folder):
    """Return the verdict of the published program on a patch."""
    folder.mkdir()
    for kind in ("base", "instance"):
        dockerfile = folder / "dockerfiles" / f"{kind}_dockerfile" / row["instance_id"] / "Dockerfile"
        dockerfile.parent.mkdir(parents=True)
        dockerfile.write_text("ENV LANG C.UTF-8\n" if kind == "base" else "")
    lists = {name: _listed(row[name]) for name in ("fail_to_pass", "pass_to_pass", "selected_test_files_to_run")}
    with (folder / "rows.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, _COLUMNS, extrasaction="ignore")
        writer.writeheader()
        writer.writerow({**row, **lists})
    given = [{"instance_id": row["instance_id"], "patch": patch, "prefix": "x"}]
    (folder / "patches.json").write_text(json.dumps(given))
    words = ["--raw_sample_path=rows.csv", "--patch_path=patches.json", "--output_dir=out", "--use_local_docker"]
    words += [f"--scripts_dir={scripts}", f"--dockerhub_username={USER}", "--num_workers=1", "--block_network"]
    (folder / "out").mkdir()
    done = subprocess.run(
        [_PYTHON, _PROGRAM, *words], cwd=folder, capture_output=True, text=True, env=dict(os.environ), check=False
    )
    results = folder / "out" / "eval_results.json"
    assert results.exists(), done.stderr[-2000:]
    assert "Failed to pull or find" not in done.stdout
    return str(json.loads(results.read_text())[row["instance_id"]]).lower()


def _listed(value):
    """Return a list as the published text of one."""
    return repr(json.loads(value.replace("'", '"')) if isinstance(value, str) else value)


@pytest.mark.parametrize("language", [PYTHON, PERL, MANY])
async def test_verdicts_are_those_of_the_published_program(acme, language, tmp_path, compare):
    """Success is the same for every outcome; a patch that we could not take is judged as the empty one."""
    row = acme.rows[language]
    benchmark = open_swebench_pro(acme.options(), tmp_path, GraderSpec())
    task, found = task_of(benchmark, language), []
    chosen = outcomes(language) if language != MANY else {case: outcomes(MANY)[case] for case in ("gold", "empty")}
    for number, (case, command) in enumerate(chosen.items()):
        ours, patch = await our_verdict(benchmark, task, row["patch"], command)
        theirs = published_verdict(row, patch or "", acme.folder / "run_scripts", tmp_path / str(number))
        found.append(Comparison("swebench_pro", f"{language}: {case}", theirs, ours))
    compare(found)
