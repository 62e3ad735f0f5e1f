"""Reading compose files: what is opened, and which keys refuse a task by name."""

import pytest

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.harbor import open_harbor, read_task, task_of
from lhaw_record.runners.environments.benchmarks.harbor.compose import Mount
from lhaw_record.runners.environments.benchmarks.harbor.task_folder import compose_of, refusal
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.harbor.folders import CONFIG, write_task

FILE = "environment__docker-compose.yaml"
COMPOSE_FILE = "environment/docker-compose.yaml"
COMPOSE = """
services:
  main:
    depends_on:
      db: {condition: service_healthy}
      user: {condition: service_healthy}
    volumes: ["${CONTEXT_DIR:-.}/../../shared:/data:ro", "kept:/kept"]
  web:
    image: example/web:1
    pull_policy: never
    command: serve --name "a b" $$HOME
    depends_on: [db]
    environment: {PORT: 80, YES: yes, SIZE: "${SIZE:-big}", MINE: "${MINE}", PLUS: "${MINE:+set}${NONE:+set}"}
    mem_limit: 512m
  db:
    image: example/db:1
    expose: ["5432"]
    restart: unless-stopped
    healthcheck: {test: pg_isready, interval: 1m0.5s, retries: 15, start_period: 5s}
    volumes: [{type: volume, source: kept, target: /var/db, read_only: true}, /cache]
  user:
    image: example/user:1
    environment: ["OPENAI_API_KEY=${OPENAI_API_KEY:-}"]
volumes:
  kept:
"""


def task_in(tmp_path, compose=COMPOSE, config=f'{CONFIG}[environment.env]\nMINE = "1"\n', **parts):
    """Return a task with a compose file, beside the dataset's shared data."""
    (tmp_path / "shared").mkdir(parents=True, exist_ok=True)
    (tmp_path / "shared" / "data").write_text("7")
    return read_task(write_task(tmp_path / "task", config=config, **{FILE: compose}, **parts))


def test_services_are_those_of_the_file_and_ask_this_machine_for_nothing(tmp_path, monkeypatch):
    """Variables come from task.toml and defaults; a service that wants a secret must be left out; data is identity."""
    monkeypatch.setenv("SIZE", "huge")
    task = task_in(tmp_path)
    assert "services.user.environment needs OPENAI_API_KEY" in refusal(task)
    assert refusal(task, ("user",)) is None
    compose = compose_of(task, ("user",))
    assert [each.name for each in compose.services] == ["db", "web"]
    db, web = compose.services
    assert compose.main.depends_on == {"db": "service_healthy"}
    assert compose.main.mounts[0] == Mount(target="/data", path=tmp_path / "shared", is_read_only=True)
    assert (compose.volumes, compose.paths) == (("kept",), (tmp_path / "shared",))
    assert web.environment == {"PORT": "80", "YES": "yes", "SIZE": "big", "MINE": "1", "PLUS": "set"}
    assert (web.command, web.is_pulled, web.memory_mb) == (("serve", "--name", "a b", "$HOME"), False, 512)
    assert db.healthcheck == {
        "Test": ["CMD-SHELL", "pg_isready"],
        "Interval": 60_500_000_000,
        "StartPeriod": 5_000_000_000,
        "Retries": 15,
    }
    assert db.mounts == (Mount(target="/var/db", volume="kept", is_read_only=True), Mount(target="/cache"))
    before = task_of(task, without=("user",)).task_digest
    assert before != task_of(task).task_digest
    (tmp_path / "shared" / "data").write_text("8")
    assert task_of(task, without=("user",)).task_digest != before


WEB = "services: {web: {image: x, %s}}\n"
REFUSED = [
    (WEB % "ports: ['80:80']", "unknown key 'services.web.ports'"),
    (WEB % "privileged: true", "unknown key 'services.web.privileged'"),
    (WEB % "healthcheck: {tests: x}", "unknown key 'services.web.healthcheck.tests'"),
    (WEB % "deploy: {replicas: 2}", "unknown key 'services.web.deploy.replicas'"),
    (WEB % "env_file: .env", "unknown key 'services.web.env_file'"),
    (WEB % "environment: [HOME]", "services.web.environment needs HOME from this machine"),
    (WEB % "environment: {HOME: }", "services.web.environment needs HOME from this machine"),
    (WEB % "environment: {A: '${HOME}'}", "services.web.environment.A needs HOME; set it"),
    (WEB % "environment: {A: '${HOME:?no}'}", "'${' is not supported"),
    (WEB % "volumes: ['/etc:/e:ro']", "/etc is outside of"),
    (WEB % "volumes: ['../../..:/e:ro']", "../../.. is outside of"),
    (WEB % "volumes: ['../../shared:/e']", "add :ro"),
    (WEB % "volumes: ['../../none:/e:ro']", "there is no"),
    (WEB % "volumes: ['some:/e']", "the volume 'some' is not declared"),
    (WEB % "volumes: ['./a:/e:delegated']", "its flags can be ro or rw"),
    (WEB % "volumes: [{type: tmpfs, target: /e}]", "'services.web.volumes[0].type': \"tmpfs\" is not a choice"),
    (WEB % "pull_policy: always", "'services.web.pull_policy': \"always\" is not a choice"),
    (WEB % "depends_on: [web]", "web wait for each other"),
    (WEB % "depends_on: [main]", "names main, which starts last"),
    (WEB % "depends_on: [db]", "names 'db', which does not exist"),
    (
        WEB % "depends_on: {main: {condition: service_ready}}",
        'depends_on.main.condition\': "service_ready" is not a choice',
    ),
    (WEB % "mem_limit: lots", "write a size such as 512m"),
    (WEB % "healthcheck: {test: x, interval: 5}", "write a time such as 10s"),
    (WEB % "healthcheck: {test: [x]}", "must begin with CMD"),
    (WEB % "build: ./web", "there is no"),
    ("services: {web: {}}\n", "services.web has neither image nor build"),
    ("services: {main: {command: serve}}\n", "services.main.command is not supported"),
    ("services: {main: {user: me}}\n", "set agent.user in task.toml"),
    ("services: {main: {mem_limit: 1g}}\n", "set environment.memory_mb in task.toml"),
    ("services: {main: {mem_limit: 1m}}\n", "set environment.memory_mb in task.toml"),
    ("services: {main: {cpus: 0}}\n", "set environment.cpus in task.toml"),
    ("services: {main: {build: .}}\n", "there is no"),
    ("services: {main: {image: '${MAIN_IMAGE_NAME}'}}\n", "environment.docker_image names another image"),
    ("services: {}\nnetworks: {a: {external: true}}\n", "unknown key 'networks.a.external'"),
    ("services: {}\nnetworks: {a: {internal: true}}\n", "unknown key 'networks.a.internal'"),
    (WEB % "networks: [a]", "'a' is not declared under networks"),
    (f"{WEB % 'networks: [a]'}\nnetworks: {{a: }}\n", "services.web.networks: they must be the same for all"),
    ("services: {}\nvolumes: {a: {external: true}}\n", "unknown key 'volumes.a.external'"),
    ("services: [\n", "not readable YAML"),
    ("services: !reset {}\n", "not readable YAML"),
    ("- services\n", "the wrong type for its key"),
]


@pytest.mark.thorough
@pytest.mark.parametrize(("compose", "words"), REFUSED)
def test_a_key_that_is_not_supported_refuses_the_task_by_name(tmp_path, compose, words):
    """Nothing is ignored, and nothing of this machine is mounted."""
    assert words in refusal(task_in(tmp_path, compose))


@pytest.mark.thorough
def test_what_harbor_itself_writes_for_main_may_stand_in_the_file(tmp_path):
    """As in files of older versions, which repeat it all."""
    compose = (
        "services:\n  main:\n    build: {context: '${CONTEXT_DIR}'}\n    image: ${MAIN_IMAGE_NAME}\n"
        '    command: ["sh", "-c", "sleep infinity"]\n'
        "    deploy: {resources: {limits: {cpus: '${CPUS}', memory: '${MEMORY}'}}}\n"
    )
    config = "[environment]\ncpus = 2\nmemory_mb = 512\n"
    assert refusal(task_in(tmp_path, compose, config, environment__Dockerfile="FROM x\n")) is None


@pytest.mark.thorough
def test_a_service_to_leave_out_that_no_task_has_is_a_mistake(tmp_path):
    """A name that some tasks have is left out there."""
    task_in(tmp_path / "tasks", config=f'{CONFIG}[environment.env]\nMINE = "1"\n')
    write_task(tmp_path / "tasks" / "plain")
    given = {"folder": "tasks", "without_services": ["user"]}
    assert len(open_harbor(given, tmp_path, GraderSpec()).tasks()) == 2
    with pytest.raises(ExperimentError, match=r"no task of .* has a service 'usr'"):
        open_harbor({**given, "without_services": ["usr"]}, tmp_path, GraderSpec())


@pytest.mark.thorough
def test_without_docker_there_are_no_services(tmp_path):
    """The reason names the file."""
    write_task(tmp_path / "t", config="", environment__Dockerfile="FROM x\nWORKDIR /srv\n", **{FILE: "services: {}\n"})
    with pytest.raises(ExperimentError, match=r"environment/docker-compose\.yaml needs Docker"):
        open_harbor({"folder": "t", "without_docker": True}, tmp_path, GraderSpec())


KINDS = [(key, value) for key in (
    "image", "build", "pull_policy", "command", "entrypoint", "user", "working_dir", "environment", "volumes",
    "healthcheck", "depends_on", "mem_limit", "cpus", "shm_size", "restart", "expose", "deploy",
) for value in ("[[]]", "{a: {b: c}}", "[{a: b}]", "'\"'", "1.5e999")]  # fmt: skip


@pytest.mark.thorough
@pytest.mark.parametrize("compose", [
    *(f"services: {{web: {{image: x, command: {each}}}}}\n" for each in ("serve 'a", 'serve "a', "serve a\\")),
    *(f"services: {{web: {each}}}\n" for each in ("[]", "text", "{1: 2}")),
    *(f"{each}\n" for each in ("services: []", "services: text", "services: {1: {}}", "volumes: []", "text", "")),
    "services: {web: {image: 'x}}\n", "services:\n\tweb: {}\n", "a: &a [*a]\nservices: *a\n", "services: {web: \x00}\n",
])  # fmt: skip
def test_broken_quotes_and_wrong_types_refuse_the_task(tmp_path, compose):
    """The reason names the file; nothing else is raised, since other tasks of the folder would not run either."""
    assert "environment/docker-compose.yaml" in refusal(task_in(tmp_path, compose))


@pytest.mark.thorough
def test_no_kind_of_value_breaks_the_reading_of_a_folder(tmp_path):
    """Each key with values of other kinds is either read or named."""
    reasons = {}
    for number, (key, value) in enumerate(KINDS):
        task = task_in(tmp_path / str(number), f"services: {{web: {{image: x, {key}: {value}}}}}\n")
        reasons[key, value] = refusal(task)
    assert all(reason is None or COMPOSE_FILE in reason for reason in reasons.values())
    assert {key for (key, _), reason in reasons.items() if reason} == {key for key, _ in KINDS}


def test_networks_that_all_services_share_are_that_of_the_trial(tmp_path):
    """Whatever they are called, as lists or tables; here all containers of a trial are in one."""
    services = "services: {main: {networks: [inner]}, web: {image: a, networks: {inner: }}}\n"
    assert refusal(task_in(tmp_path, f"{services}networks: {{inner: {{driver: bridge}}}}\n")) is None
