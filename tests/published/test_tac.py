"""tac: what made-up agents leave in a task's container, judged by the published evaluator alone and in our trials.

The images are made here of the base image, the published files below ``/utils``, and what those import. The published
init and reset scripts run against stand-ins of the services: ownCloud, whose files these tasks do not grade, and
Rocket.Chat, GitLab and Plane (:mod:`tests.published.services`), which the evaluators ask.
"""

import csv
import hashlib
import io
import json
import math
from collections import Counter
from pathlib import Path

import pytest

from lhaw_record.runners.base.errors import GraderError, SandboxBoundaryError
from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.tac import open_tac
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.published.ledger import MISSING, Comparison
from tests.published.sources import TAC_FOLDER, TAC_PYTHON
from tests.runners.environments.benchmarks.tac.images import HEALTH, KEY, made_images, make_image
from tests.runners.environments.sandboxes.docker_fixtures import engine, make_provider  # noqa: F401
from tests.support.docker import docker
from tests.support.needs import needs

pytestmark = [needs("published_tac", "docker"), pytest.mark.thorough]
_WORKSPACES = TAC_FOLDER / "workspaces"
_UTILS = ("init.sh", "reset.sh", "common.py", "config.py", "scoring.py", "eval.py", "encrypt.py")
_NOT_IN_UTILS = ("Dockerfile", "Makefile", "README.md", "checkpoints.md", "task.md")
_CHANGED = "hostile: a module of the grader is changed"
_IN_REACH = "the grader's files are out of the agent's reach here; in the original it may change them"
_DRINKS = {"Vita Coco": 2, "talking rain": 1, "milk": 3, "apple juice": 4, "diet coke": 1, "coke": 5, "water": 6}
_DRINKS |= {"tea": 7, "coffee": 8}
_ANSWER = "cat > /workspace/ans.txt"
_PORTS = {"rocketchat": 3000, "gitlab": 8929, "plane": 8091}
_KEYS = {"rocketchat": "X-Auth-Token: t", "gitlab": "PRIVATE-TOKEN: root-token"}
_KEYS["plane"] = "x-api-key: plane_api_83f868352c6f490aba59b869ffdae1cf"
_ISSUE = "api/v4/projects/root%2Fopenhands/issues/3797"
_BOARD = "api/v1/workspaces/tac/projects/39ccbb74-8f1d-4259-8f75-df9ffbc9a962"


def _drinks(rows):
    lines = "\\n".join(["drink,quantity", *(f"{name},{count}" for name, count in rows.items())])
    return f"printf '{lines}\\n' > /workspace/drinks_survey.csv"


def _earnings():
    """Return what everybody earned in April: hours are rounded up at the end of the month."""
    folder, minutes = _WORKSPACES / "tasks" / "finance-check-attendance-payroll", Counter()
    for row in csv.DictReader(io.StringIO((folder / "april-attendance-data.csv").read_text()), skipinitialspace=True):
        came, went = (60 * int(row[name][:-3]) + int(row[name][-2:]) for name in ("Clock-in", "Clock-out"))
        minutes[row["Name"]] += went - came
    rates = dict(line.split(":") for line in (folder / "rates_info.txt").read_text().splitlines() if line.strip())
    return {name: math.ceil(worked / 60) * float(rates[name]) for name, worked in minutes.items()}


def _payroll(earned):
    code = f"import pandas as p; p.DataFrame({list(earned.items())!r}, columns=['Name', 'Total Earnings']).to_excel("
    return f"python3 -c \"{code}'/workspace/april-payroll.xlsx', index=False)\""


def _call(service, path, method="POST", **sent):
    """Return the command that calls a service's API."""
    url = f"http://${{SERVER_HOSTNAME:-the-agent-company.com}}:{_PORTS[service]}/{path}"
    return f"curl -sS -X {method} -H '{_KEYS[service]}' --json '{json.dumps(sent)}' \"{url}\""


def _message(username, text):
    return _call("rocketchat", "api/v1/chat.postMessage", channel=f"@{username}", text=text)


def asked_outcomes():
    """Return what an agent does in the services, by task and by what that shows."""
    moderator = _call("rocketchat", "api/v1/channels.addModerator", roomId="help-desk", userId="user-4")
    other = _call("rocketchat", "api/v1/channels.addModerator", roomId="help-desk", userId="user-1")
    note = _call("gitlab", f"{_ISSUE}/notes", body="Closing due to inactivity")
    close = _call("gitlab", _ISSUE, "PUT", state_event="close")
    looked = "echo home channel/help-desk"
    opened = "echo http://the-agent-company.com:8091/tac/projects/39ccbb74-8f1d-4259-8f75-df9ffbc9a962/issues/"
    return {
        "sde-find-answer-in-codebase-2": {
            "gold": _message("chen_xinyi", "It is 9711"),
            "wrong: another number": _message("chen_xinyi", "It is 9"),
            "wrong: to another colleague": _message("zhang_wei", "It is 9711"),
        },
        "qa-escalate-emergency": {
            "partial: at once": f"{_message('zhang_wei', 'Help')}; {_message('sarah_johnson', 'Help')}",
            "partial: one of two": _message("zhang_wei", "Help"),
            "wrong: the last comes first": _message("sarah_johnson", "Help"),
        },
        "pm-add-new-moderator": {
            "gold": f"{looked}; {moderator}",
            "gold: nothing was looked at": moderator,
            "partial: only looked": looked,
            "wrong: somebody else": other,
        },
        "sde-close-an-issue": {
            "gold": f"{note}; {close}",
            "partial: not told": close,
            "partial: not closed": note,
            "wrong: another word": _call("gitlab", f"{_ISSUE}/notes", body="Done"),
        },
        "sde-delete-all-repos": {
            "gold": _call("gitlab", "api/v4/projects/1", "DELETE"),
            "wrong: another repository": _call("gitlab", "api/v4/projects/2", "DELETE"),
        },
        "sde-delete-all-project-under-plane": {"gold": _call("plane", f"{_BOARD}/", "DELETE")},
        "pm-create-plane-issue": {
            "gold": f"{opened}; {_call('plane', f'{_BOARD}/issues/', name='Improve page loading speed')}",
            "gold: nothing was looked at": _call("plane", f"{_BOARD}/issues/", name="Improve Page Loading Speed"),
            "wrong: another name": _call("plane", f"{_BOARD}/issues/", name="Improve it"),
        },
    }


def outcomes():
    """Return what an agent does, as commands in its container, by task and by what that shows."""
    earned = _earnings()
    one_off = {**earned, next(iter(earned)): 1.0}
    looked = "echo 'dir=/Documents/Human%20Resources%20Team/Attendance'"
    dearest = '"Gaming Laptop G1", 1799.99\\n"Professional Laptop T1", 1299.99\\n"Tablet Pro T1", 899.99'
    answers = {1: "20", 2: "3", 3: dearest}
    sql = {number: f"printf '{text}\\n' > /workspace/task{number}.txt" for number, text in answers.items()}
    return {
        "admin-watch-video": {
            "gold": f"echo 4 | {_ANSWER}",
            "partial: the right number and another": f"echo 4 or 5 | {_ANSWER}",
            "wrong": f"echo 5 | {_ANSWER}",
            "hostile: a result is there already": "mkdir -p /outputs; echo '{}' > /tmp/result.json; "
            "cp /tmp/result.json /outputs/eval_admin-watch-video.json",
            "hostile: an evaluator of its own": "mkdir -p /utils; echo 'grade_checkpoints = 1' > /utils/evaluator.py",
            _CHANGED: "mkdir -p /utils; printf '%s\\n' 'def grader(function): return lambda *_: 2' > /utils/common.py",
            "crashed: the answer is a folder": "mkdir /workspace/ans.txt",
            "crashed: the answer is no text": "head -c 99 /dev/urandom > /workspace/ans.txt",
        },
        "admin-translate-sales-chat": {
            "gold": f"echo 'It is 145095' | {_ANSWER}",
            "partial: close": f"echo 150000 | {_ANSWER}",
            "wrong": f"echo 1 | {_ANSWER}",
            "hostile: infinite": f"echo 1e999 | {_ANSWER}",
        },
        "admin-make-spreadsheet": {
            "gold": _drinks(_DRINKS),
            "partial: one drink is missing": _drinks({name: n for name, n in _DRINKS.items() if name != "tea"}),
            "wrong": _drinks({"milk": 1}),
            "crashed: no column of that name": "echo a,b > /workspace/drinks_survey.csv; echo 1,2 >> "
            "/workspace/drinks_survey.csv",
            "crashed: no number": _drinks({"milk": "many"}),
        },
        "ds-sql-exercise": {
            "gold": "; ".join(sql.values()),
            "partial: two of three": f"{sql[1]}; {sql[3]}",
            "wrong": "for n in 1 2 3; do echo 99 > /workspace/task$n.txt; done",
            "crashed: no number": "echo many > /workspace/task1.txt",
        },
        "finance-check-attendance-payroll": {
            "gold": f"{looked}; {_payroll(earned)}",
            "gold: nothing was looked at": _payroll(earned),
            "partial: one is wrong": f"{looked}; {_payroll(one_off)}",
            "partial: only looked": looked,
            "wrong": _payroll({"Nobody": 1.0}),
            "crashed: no workbook": "echo x > /workspace/april-payroll.xlsx",
        },
    }


TASKS = (
    "admin-watch-video",
    "admin-translate-sales-chat",
    "admin-make-spreadsheet",
    "ds-sql-exercise",
    "finance-check-attendance-payroll",
)
ASKING_TASKS = (
    "sde-find-answer-in-codebase-2",
    "qa-escalate-emergency",
    "pm-add-new-moderator",
    "sde-close-an-issue",
    "sde-delete-all-repos",
    "sde-delete-all-project-under-plane",
    "pm-create-plane-issue",
)


@pytest.fixture(scope="session")
def base():
    """The name of the base image with what the published evaluators import."""
    content = {path: path.read_bytes() for path in sorted(TAC_PYTHON.rglob("*")) if path.is_file()}
    version = hashlib.sha256(repr(sorted(map(str, content))).encode()).hexdigest()[:12]
    files = {
        f"usr/lib/python3/dist-packages/{path.relative_to(TAC_PYTHON)}": text
        for path, text in content.items()
        if "tests" not in path.parts
    }
    name = f"lhaw-record/tac-published:{version}"
    own = {"usr/lib/python3/dist-packages/litellm.py": b"", "usr/bin/python_default": Path("python3")}
    make_image(name, {**files, **own}, [])
    return name


def task_image(task_id, base):
    """Return the name of a task's image: the published files in ``/utils``, encrypted by the published program."""
    folder = _WORKSPACES / "tasks" / task_id
    utils = [_WORKSPACES / "base_image" / name for name in _UTILS]
    utils += [path for path in folder.iterdir() if path.is_file() and path.name not in _NOT_IN_UTILS]
    files = {f"utils/{path.name}": path.read_bytes() for path in utils}
    files |= {"instruction/task.md": (folder / "task.md").read_bytes(), "workspace/.keep": b""}
    version = hashlib.sha256(base.encode() + b"".join(files[name] for name in sorted(files))).hexdigest()[:12]
    name = f"lhaw-record/tac-published-{task_id}:{version}"
    if docker("image", "inspect", name).returncode != 0:
        make_image(f"{name}-plain", files, [], base)
        encrypt = "python3 /utils/encrypt.py && rm /utils/evaluator.py /utils/encrypt.py"
        made = docker("run", "--detach", "--network", "none", f"{name}-plain", "sh", "-c", encrypt).stdout.strip()
        assert docker("wait", made).stdout.strip() == "0", docker("logs", made).stderr
        docker("commit", "--change", 'CMD ["bash"]', "--change", "ENV PYTHONPATH=/utils:", made, name)
        docker("rm", made)
    return name


async def our_verdict(benchmark, task, command):
    """Return our verdict and the trajectory that was judged."""
    settings = EnvironmentSettings(sandbox=make_provider(), limits=SandboxLimits(memory_mb=512, command_seconds=120))
    async with benchmark.open(task, settings) as environment:
        if command:
            await environment.call("bash", {"command": command})
        try:
            grade = await environment.grade("done", None)
        except (GraderError, SandboxBoundaryError):
            return MISSING, b"[]"
    (trajectory,) = [each.content for each in grade.artifacts if each.name == "trajectory.json"]
    points = zip(grade.results, task.checkpoints, strict=True)
    return shown([(got.score, of.total) for got, of in points], (grade.final_score, grade.final_total)), trajectory


def published_verdict(image, command, trajectory, services=""):
    """Return the verdict of the published evaluator, run in a container as the published loop runs it.

    An image of services has a container of its own for each verdict, at localhost.
    """
    company = docker("run", "--detach", "--network", "none", services).stdout.strip() if services else ""
    network = f"container:{company}" if company else "none"
    local = ("--env", "SERVER_HOSTNAME=localhost") if company else ()
    name = docker("run", "--detach", "--network", network, *local, image, "sleep", "3600").stdout.strip()
    try:
        if company:  # the last API that begins to listen
            wait = ("--retry", "300", "--retry-delay", "1", "--retry-connrefused")
            asked = docker("exec", name, "curl", "-sS", *wait, f"http://localhost:{_PORTS['plane']}/health")
            assert asked.returncode == 0, asked.stderr
        docker("exec", "--workdir", "/workspace", name, "bash", "-c", command)
        docker("exec", "--interactive", name, "sh", "-c", "cat > /tmp/trajectory.json", stdin=trajectory)
        words = ["python_default", "/utils/eval.py", "--trajectory_path", "/tmp/trajectory.json"]
        words += ["--result_path", "/tmp/result.json"]
        done = docker("exec", "--env", f"DECRYPTION_KEY={KEY.decode()}", name, *words)
        if done.returncode != 0:
            return MISSING
        found = json.loads(docker("exec", name, "cat", "/tmp/result.json").stdout)
    finally:
        docker("rm", "--force", name, *filter(None, [company]))
    final = found["final_score"]
    points = [(int(each["result"]), each["total"]) for each in found["checkpoints"]]
    return shown(points, (int(final["result"]), final["total"]))


def shown(points, final):
    """Return a verdict as text: the points of every checkpoint, the final score, and whether it is a success."""
    parts = " ".join(f"{got:g}/{of:g}" for got, of in points)
    return f"{parts} = {final[0]:g}/{final[1]:g}{' success' if final[0] == final[1] else ''}"


@pytest.fixture(scope="session")
def services_image():
    """The name of the image of Rocket.Chat, GitLab and Plane."""
    content = Path(__file__).with_name("services.py").read_bytes()
    name = f"lhaw-record/tac-published-services:{hashlib.sha256(content).hexdigest()[:12]}"
    make_image(name, {"srv/services.py": content}, ["python3", "/srv/services.py"])
    return name


async def compared(task_id, image, services, cases, tmp_path, asked=""):
    """Return both verdicts on each case of a task; what the published evaluator asks is in an image of services."""
    options = {"folder": str(_WORKSPACES / "tasks"), "image": image, "services": services}
    benchmark = open_tac(options, tmp_path, GraderSpec())
    (task,) = [task for task in benchmark.tasks() if task.task_id == task_id]
    found = []
    for case, command in cases.items():
        ours, trajectory = await our_verdict(benchmark, task, command)
        theirs = published_verdict(image, command, trajectory, asked)
        reason = _IN_REACH if case == _CHANGED else ""
        found.append(Comparison("tac", f"{task_id}: {case}", theirs, ours, reason))
    return found


@pytest.mark.parametrize("task_id", TASKS)
async def test_verdicts_are_those_of_the_published_evaluator(task_id, base, tmp_path, compare):
    """Every checkpoint, the final score and success are the same; published init and reset run before each trial."""
    owncloud = {"image": made_images()[1], "health": HEALTH, "ports": ["8092"], "memory_mb": 128}
    cases = {**outcomes()[task_id], "empty": ""}
    compare(await compared(task_id, task_image(task_id, base), {"owncloud": owncloud}, cases, tmp_path))


@pytest.mark.parametrize("task_id", ASKING_TASKS)
async def test_verdicts_of_evaluators_that_ask_services(task_id, base, services_image, tmp_path, compare):
    """The same where the evaluator asks Rocket.Chat, GitLab or Plane what the agent did there; gold is a success."""
    services = {
        name: {
            "image": services_image,
            "health": f"http://the-agent-company.com:{port}/health",
            "ports": [str(port)],
            "memory_mb": 128,
        }
        for name, port in _PORTS.items()
    }
    cases = {**asked_outcomes()[task_id], "empty": ""}
    found = await compared(task_id, task_image(task_id, base), services, cases, tmp_path, services_image)
    compare(found)
    assert all(("success" in each.ours) == (": gold" in each.case) for each in found)
