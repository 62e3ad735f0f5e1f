"""Read a task's ``environment/docker-compose.yaml``: the services beside the agent's container, which is ``main``.

Harbor merges the file over its own for ``main`` and calls Docker Compose, which sees the environment of the machine.
Here the part of Compose that task folders use is read and opened by ourselves, since a trial's containers must be
bounded, labelled and removed as all others. Every other key refuses the task by name. Nothing comes from this machine's
environment: a task of others would get its keys.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
import yaml

from lhaw_record.recorder.writing.redaction import is_secret_name
from lhaw_record.runners.experiment.decoding import key_problem

T = TypeVar("T")

COMPOSE = "environment/docker-compose.yaml"
MAIN = "main"
MAIN_IMAGE = "lhaw-record/main"
"""What ``${MAIN_IMAGE_NAME}`` is: the image of the agent's container, under a name of its own."""
_IDLE = (["sleep", "infinity"], ["sh", "-c", "sleep infinity"], ["tail", "-f", "/dev/null"])
_SUBSTITUTION = re.compile(r"\$(?:(\$)|(\w+)|\{(\w+)(?:(:?[-+])([^{}]*))?\}|(.?))", re.DOTALL)
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(h|ms|us|s|m)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_SIZE = re.compile(r"(\d+)\s*([bkmg]?)b?")
_BYTES = {"": 1, "b": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


class ComposeError(Exception):
    """A file is broken, or asks for what is not supported. The message names the key and the next step."""


class Build(msgspec.Struct, frozen=True, kw_only=True):
    """How an image is built: the folder, the Dockerfile's path in it, arguments, and the last stage or empty."""

    context: Path
    dockerfile: str = "Dockerfile"
    args: dict[str, str] = {}
    target: str = ""


class Mount(msgspec.Struct, frozen=True, kw_only=True):
    """What a container sees at ``target``: a volume of the trial, a path of the dataset, or a volume of its own."""

    target: str
    volume: str = ""
    path: Path | None = None
    is_read_only: bool = False


class Service(msgspec.Struct, frozen=True, kw_only=True):
    """One service. What is empty or None is as in its image.

    Attributes:
        name: Its name, under which others reach it.
        image: The image's name, or empty.
        build: How its image is built, or None.
        is_pulled: Whether an image that the engine lacks is pulled.
        command: Its command.
        entrypoint: Its entry point.
        user: Its user.
        work_dir: Its work directory.
        environment: Variables that are added to the image's.
        mounts: Its volumes.
        healthcheck: Its health check in the engine's format.
        depends_on: What must be so before it starts, by service: one of Compose's conditions.
        memory_mb: Its memory in MiB.
        cpus: Its processors.
        shared_memory_mb: The size of ``/dev/shm`` in MiB.
        restarts: Whether it starts again after a failure.
    """

    name: str
    image: str = ""
    build: Build | None = None
    is_pulled: bool = True
    command: tuple[str, ...] | None = None
    entrypoint: tuple[str, ...] | None = None
    user: str = ""
    work_dir: str = ""
    environment: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    healthcheck: dict[str, Any] | None = None
    depends_on: dict[str, str] = {}
    memory_mb: int | None = None
    cpus: float | None = None
    shared_memory_mb: int = 64
    restarts: bool = False


class Compose(msgspec.Struct, frozen=True, kw_only=True):
    """The services of a task: ``main`` (the agent's container), and the others in the order in which they start."""

    main: Service
    services: tuple[Service, ...]

    @property
    def jobs(self) -> frozenset[str]:
        """The services that others wait to see end."""
        waits = [each.depends_on for each in (*self.services, self.main)]
        done = "service_completed_successfully"
        return frozenset(name for wait in waits for name, condition in wait.items() if condition == done)

    @property
    def volumes(self) -> tuple[str, ...]:
        """The names of the volumes that containers share."""
        mounts = [mount for each in (*self.services, self.main) for mount in each.mounts]
        return tuple(sorted({mount.volume for mount in mounts if mount.volume}))

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths of this machine that containers are built from or see."""
        services = (*self.services, self.main)
        builds = [each.build.context for each in services if each.build]
        seen = [mount.path for each in services for mount in each.mounts if mount.path]
        return tuple(sorted({*builds, *seen}))


_Flag = Literal["true", "false"]
_KEEPS_EMPTY = (("environment",), ("networks",), ("build", "args"), ("depends_on",))


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of the file, with every key that is supported. Scalars are texts."""


class _Limits(_Table, frozen=True, kw_only=True):
    memory: str = ""
    cpus: str = ""


class _Resources(_Table, frozen=True, kw_only=True):
    limits: _Limits = _Limits()


class _Deploy(_Table, frozen=True, kw_only=True):
    resources: _Resources = _Resources()


class _BuildTable(_Table, frozen=True, kw_only=True):
    context: str = "."
    dockerfile: str = "Dockerfile"
    args: dict[str, str | None] | list[str] = {}
    target: str = ""


class _MountTable(_Table, frozen=True, kw_only=True):
    type: Literal["bind", "volume"]
    target: str
    source: str = ""
    read_only: _Flag = "false"


class _Wait(_Table, frozen=True, kw_only=True):
    condition: Literal["service_started", "service_healthy", "service_completed_successfully"] = "service_started"
    required: Literal["true"] = "true"
    restart: Literal["false"] = "false"


class _Check(_Table, frozen=True, kw_only=True):
    test: str | list[str] = []
    interval: str = ""
    timeout: str = ""
    start_period: str = ""
    start_interval: str = ""
    retries: str = ""
    disable: _Flag = "false"


class _ServiceTable(_Table, frozen=True, kw_only=True):
    image: str = ""
    build: str | _BuildTable | None = None
    pull_policy: Literal["never", "missing", "if_not_present", "build"] = "missing"
    command: str | list[str] | None = None
    entrypoint: str | list[str] | None = None
    user: str = ""
    working_dir: str = ""
    environment: dict[str, str | None] | list[str] = {}
    volumes: list[str | _MountTable] = []
    healthcheck: _Check | None = None
    depends_on: dict[str, _Wait | None] | list[str] = {}
    mem_limit: str = ""
    cpus: str = ""
    shm_size: str = "64m"
    networks: list[str] | dict[str, None] = []
    restart: Annotated[str, msgspec.Meta(pattern="^(no|always|unless-stopped|on-failure(:[0-9]+)?)$")] = "no"
    expose: list[Annotated[str, msgspec.Meta(pattern="^[0-9]+(/|$)")]] = []  # containers of a network reach all ports
    deploy: _Deploy = _Deploy()


class _Network(_Table, frozen=True, kw_only=True):
    driver: Literal["bridge"] = "bridge"


class _File(_Table, frozen=True, kw_only=True):
    version: Any = None  # without effect, as is the name: Harbor names the project
    name: Any = None
    services: dict[str, Any] = {}
    volumes: dict[str, _Table | None] = {}
    networks: dict[str, _Network | None] = {}


def read_compose(task: Path, given: Mapping[str, str], without: Sequence[str] = ()) -> Compose:
    """Return the services of a task folder."""
    try:
        document = {key: value for key, value in _document(task).items() if not key.startswith("x-")}
        file = _converted("", {key: value for key, value in document.items() if value is not None}, _File)
        reader = _Reader(task, given, frozenset(file.volumes), without)
        names = [name for name in file.services if name == MAIN or name not in without]
        read = {name: reader.service(name, file.services[name]) for name in names}
        _check_networks(reader.networks if MAIN in names else {MAIN: {"default"}, **reader.networks}, file.networks)
    except (AttributeError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ComposeError(f"{COMPOSE} has a value of the wrong type for its key: {error}") from error
    main = read.pop(MAIN, Service(name=MAIN))
    return Compose(main=main, services=tuple(_in_order(read, main)))


def service_names(task: Path) -> frozenset[str]:
    """Return the names of a task folder's services; none if it has no such file, or a broken one."""
    try:
        found = _document(task)["services"] if has_compose(task) else {}
        return frozenset(found)
    except (ComposeError, KeyError, TypeError):
        return frozenset()


def has_compose(task: Path) -> bool:
    """Return whether a task folder has services beside the agent's container."""
    return (task / COMPOSE).is_file()


def _document(task: Path) -> Any:
    try:
        return yaml.load((task / COMPOSE).read_text(encoding="utf-8"), _Loader)  # noqa: S506  a safe loader
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise ComposeError(f"{COMPOSE} is not readable YAML: {' '.join(str(error).split())}") from error


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    """Leaves scalars as they are written: ``yes`` and ``1.0`` are texts for Compose."""

    yaml_implicit_resolvers = {  # noqa: RUF012  as in the class above
        first: [(tag, pattern) for tag, pattern in each if tag.endswith((":null", ":merge"))]
        for first, each in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def _converted(place: str, value: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise ComposeError(f"{COMPOSE}: {key_problem(error, kind, value, under=place)}") from error


class _Reader:
    """Reads the services of one file."""

    def __init__(self, task: Path, given: Mapping[str, str], volumes: frozenset[str], without: Sequence[str]) -> None:
        self._task = task
        self._given = given
        self._volumes = volumes
        self._without = without
        self.networks: dict[str, set[str]] = {}

    def service(self, name: str, value: object) -> Service:
        place = f"services.{name}"
        table = _converted(place, self._filled(place, {} if value is None else value), _ServiceTable)
        self.networks[name] = set(table.networks) or {"default"}
        limits = table.deploy.resources.limits
        memory, cpus = table.mem_limit or limits.memory, table.cpus or limits.cpus
        waits = table.depends_on
        depends_on = waits if isinstance(waits, dict) else dict.fromkeys(waits)
        found = Service(
            name=name,
            image=table.image,
            build=self._build(f"{place}.build", table.build),
            is_pulled=table.pull_policy != "never",
            command=_words(table.command),
            entrypoint=_words(table.entrypoint),
            user=table.user,
            work_dir=table.working_dir,
            environment=_pairs(f"{place}.environment", table.environment),
            mounts=tuple(self._mount(f"{place}.volumes", each) for each in table.volumes),
            healthcheck=_healthcheck(f"{place}.healthcheck", table.healthcheck),
            depends_on={
                each: (wait or _Wait()).condition for each, wait in depends_on.items() if each not in self._without
            },
            memory_mb=_size_mb(f"{place}.mem_limit", memory) if memory else None,
            cpus=_number(f"{place}.cpus", cpus) if cpus else None,
            shared_memory_mb=_size_mb(f"{place}.shm_size", table.shm_size),
            restarts=table.restart != "no",
        )
        if name == MAIN:
            self._check_main(found)
        elif not found.image and found.build is None:
            raise ComposeError(f"{COMPOSE}: {place} has neither image nor build")
        return found

    def _check_main(self, main: Service) -> None:
        """Check what the agent's container can have from this file."""
        memory, cpus = self._given.get("MEMORY"), self._given.get("CPUS")
        own = {
            "command": list(main.command) in _IDLE if main.command else True,
            "entrypoint": main.entrypoint is None,
            "restart": not main.restarts,
            "shm_size": main.shared_memory_mb == Service(name="").shared_memory_mb,
        }
        elsewhere = {
            "user": (not main.user, "agent.user"),
            "working_dir": (not main.work_dir, "environment.workdir"),
            "healthcheck": (main.healthcheck is None, "environment.healthcheck"),
            "mem_limit": (main.memory_mb in (None, memory and _size_mb("MEMORY", memory)), "environment.memory_mb"),
            "cpus": (main.cpus in (None, cpus and float(cpus)), "environment.cpus"),
        }
        for key, is_fine in own.items():
            if not is_fine:
                raise ComposeError(
                    f"{COMPOSE}: services.main.{key} is not supported: the agent's container waits for it"
                )
        for key, (is_fine, better) in elsewhere.items():
            if not is_fine:
                raise ComposeError(f"{COMPOSE}: services.main.{key} is not supported; set {better} in task.toml")

    def _build(self, place: str, value: str | _BuildTable | None) -> Build | None:
        if value is None:
            return None
        table = _BuildTable(context=value) if isinstance(value, str) else value
        context = self._path(f"{place}.context", table.context)
        if not (context / table.dockerfile).is_file():
            raise ComposeError(f"{COMPOSE}: {place}: there is no {context / table.dockerfile}")
        args = _pairs(f"{place}.args", table.args)
        return Build(context=context, dockerfile=table.dockerfile, args=args, target=table.target)

    def _mount(self, place: str, entry: str | _MountTable) -> Mount:
        if isinstance(entry, str):
            source, target, *mode = entry.split(":") if ":" in entry else ("", entry)
            flags = set(mode[0].split(",")) if mode else set()
            if len(mode) > 1 or flags - {"ro", "rw", "z", "Z"}:
                raise ComposeError(f"{COMPOSE}: {place}: {entry!r} is not supported; its flags can be ro or rw")
            is_read_only = "ro" in flags
        else:
            source, target, is_read_only = entry.source, entry.target, entry.read_only == "true"
            if (entry.type == "bind") != _is_path(source):
                raise ComposeError(f"{COMPOSE}: {place}: type {entry.type!r} of {target} is not supported")
        if not target.startswith("/"):
            raise ComposeError(f"{COMPOSE}: {place}: {target!r} must be an absolute path of the container")
        if not _is_path(source):
            if source and source not in self._volumes:
                raise ComposeError(f"{COMPOSE}: {place}: the volume {source!r} is not declared under volumes")
            return Mount(target=target, volume=source, is_read_only=is_read_only)
        path = self._path(place, source)
        if not path.exists():
            raise ComposeError(
                f"{COMPOSE}: {place}: there is no {path}; bring the whole dataset, or prepare it as documented"
            )
        if not is_read_only:
            raise ComposeError(
                f"{COMPOSE}: {place}: {source} would be writable, so trials could change each other's task; add :ro"
            )
        return Mount(target=target, path=path, is_read_only=True)

    def _path(self, place: str, source: str) -> Path:
        path, dataset = (self._task / "environment" / source).resolve(), self._task.resolve().parent
        if not path.is_relative_to(dataset):
            raise ComposeError(f"{COMPOSE}: {place}: {source} is outside of {dataset}, the folder of the dataset")
        return path

    def _filled(self, place: str, value: Any, path: tuple[str, ...] = ()) -> Any:
        """Return a value with its variables replaced, below all its keys. ``path`` are those of its service."""
        if isinstance(value, dict):
            filled = {key: self._filled(f"{place}.{key}", each, (*path, key)) for key, each in value.items()}
            return {key: each for key, each in filled.items() if each is not None or path in _KEEPS_EMPTY}
        if isinstance(value, list):
            return [self._filled(place, each, path) for each in value]
        if not isinstance(value, str):
            return value
        return _SUBSTITUTION.sub(lambda match: self._variable(place, match), value)

    def _variable(self, place: str, match: re.Match[str]) -> str:
        dollar, plain, name, operator, word, other = match.groups()
        if dollar:
            return "$"
        if other is not None or "$" in (word or ""):
            raise ComposeError(f"{COMPOSE}: {place}: {match[0]!r} is not supported; a dollar sign is written $$")
        name = plain or name
        value = self._given.get(name)
        if value is None and is_secret_name(name):
            raise ComposeError(
                f"{COMPOSE}: {place} needs {name} from this machine, but tasks get no secrets from here; leave the "
                f"service out with benchmark.without_services (ask_user replaces a simulated user), or set the "
                f"variable "
                "in [environment.env]"
            )
        is_there = value is not None if operator in ("-", "+", None) else bool(value)
        if operator and operator.endswith("+"):
            return word if is_there else ""
        if not is_there and operator is None:
            raise ComposeError(f"{COMPOSE}: {place} needs {name}; set it in [environment.env] of task.toml")
        return (value if is_there else word) or ""


def _check_networks(named: Mapping[str, set[str]], declared: Mapping[str, object]) -> None:
    """Check that all containers are in the same networks, as in the one that they have here."""
    for name, networks in named.items():
        for missing in networks - {*declared, "default"}:
            raise ComposeError(f"{COMPOSE}: services.{name}.networks: {missing!r} is not declared under networks")
        if networks != named[MAIN]:
            raise ComposeError(f"{COMPOSE}: services.{name}.networks: they must be the same for all services, main too")


def _in_order(services: Mapping[str, Service], main: Service) -> Iterator[Service]:
    """Yield services so that each comes after those that it waits for."""
    for each in (*services.values(), main):
        for name in each.depends_on:
            if name not in services:
                what = "main, which starts last" if name == MAIN else f"{name!r}, which does not exist"
                raise ComposeError(f"{COMPOSE}: services.{each.name}.depends_on names {what}")
    left = dict(services)
    while left:
        ready = [each for each in left.values() if not set(each.depends_on) & set(left)]
        if not ready:
            raise ComposeError(f"{COMPOSE}: depends_on: {', '.join(left)} wait for each other")
        for each in ready:
            yield left.pop(each.name)


def _is_path(source: str) -> bool:
    return source.startswith(("/", ".", "~"))


def _words(value: str | list[str] | None) -> tuple[str, ...] | None:
    """Return a command, which is a list or a text in the shell's quotes."""
    return None if value is None else tuple(shlex.split(value) if isinstance(value, str) else value)


def _pairs(place: str, value: dict[str, str | None] | list[str]) -> dict[str, str]:
    """Return variables, which are a table or a list of NAME=VALUE."""
    words = () if isinstance(value, dict) else [each.partition("=") for each in value]
    pairs = value if isinstance(value, dict) else {name: text if equals else None for name, equals, text in words}
    for name, text in pairs.items():
        if text is None:
            raise ComposeError(f"{COMPOSE}: {place} needs {name} from this machine; write its value")
    return {name: text for name, text in pairs.items() if text is not None}


def _number(place: str, text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise ComposeError(f"{COMPOSE}: {place} is {text!r}, not a number") from error


def _size_mb(place: str, text: str) -> int:
    size = _SIZE.fullmatch(text.strip().lower())
    if size is None or not (found := int(size[1]) * _BYTES[size[2]] >> 20):
        raise ComposeError(f"{COMPOSE}: {place} is {text!r}; write a size such as 512m")
    return found


def _duration_ns(place: str, text: str) -> int:
    parts = _DURATION.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ComposeError(f"{COMPOSE}: {place} is {text!r}; write a time such as 10s or 1m30s")
    return round(sum(float(number) * _SECONDS[unit] for number, unit in parts) * 1e9)


def _healthcheck(place: str, table: _Check | None) -> dict[str, Any] | None:
    """Return a health check in the engine's format. What it leaves out is as in the image."""
    if table is None:
        return None
    test = ["CMD-SHELL", table.test] if isinstance(table.test, str) else table.test
    test = ["NONE"] if table.disable == "true" else test
    if test and test[0] not in ("NONE", "CMD", "CMD-SHELL"):
        raise ComposeError(f"{COMPOSE}: {place}.test must begin with CMD, CMD-SHELL or NONE")
    times = {
        "Interval": table.interval,
        "Timeout": table.timeout,
        "StartPeriod": table.start_period,
        "StartInterval": table.start_interval,
    }
    found: dict[str, Any] = {name: _duration_ns(place, text) for name, text in times.items() if text}
    found |= {"Test": test} if test else {}
    return found | ({"Retries": int(_number(f"{place}.retries", table.retries))} if table.retries else {})
