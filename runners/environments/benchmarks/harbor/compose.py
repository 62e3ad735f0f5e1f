"""Read a task's ``environment/docker-compose.yaml``: the services beside the agent's container, which is ``main``.

Harbor merges the file over its own for ``main`` and calls Docker Compose, which sees the environment of the machine.
Here the part of Compose that task folders use is read and opened by ourselves, since a trial's containers must be
bounded, labelled and removed as all others. Every other key refuses the task by name. Nothing comes from this machine's
environment: a task of others would get its keys.
"""

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import yaml

from lhaw_record.recorder.writing.redaction import is_secret_name

COMPOSE = "environment/docker-compose.yaml"
MAIN = "main"
MAIN_IMAGE = "lhaw-record/main"
"""What ``${MAIN_IMAGE_NAME}`` is: the image of the agent's container, under a name of its own."""
_IDLE = (["sleep", "infinity"], ["sh", "-c", "sleep infinity"], ["tail", "-f", "/dev/null"])
_PULLS = {"never": "never", "missing": "missing", "if_not_present": "missing", "build": "missing"}
_CONDITIONS = ("service_started", "service_healthy", "service_completed_successfully")
_RESTARTS = {"no": False, "always": True, "on-failure": True, "unless-stopped": True}
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
    """The services of a task: those beside the agent's container in the order of their start, and ``main``."""

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


def read_compose(task: Path, given: Mapping[str, str], without: Sequence[str] = ()) -> Compose:
    """Return the services of a task folder."""
    try:
        return _compose(task, given, without)
    except (AttributeError, OverflowError, RecursionError, TypeError, ValueError) as error:
        raise ComposeError(f"{COMPOSE} has a value of another kind than its key needs: {error}") from error


def _compose(task: Path, given: Mapping[str, str], without: Sequence[str]) -> Compose:
    top = _Keys("", _document(task))
    for name in ("version", "name", *(key for key in top.left if key.startswith("x-"))):
        top.take(name)  # without effect: Harbor names the project
    declared = {name: _volume(name, value) for name, value in top.table("volumes").items()}
    services, volumes = top.table("services"), frozenset(declared)
    top.end()
    read = {
        name: _Reader(task, given, volumes, without).service(name, value)
        for name, value in services.items()
        if name == MAIN or name not in without
    }
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


class _Keys:
    """The keys of one table, which must all be taken."""

    def __init__(self, place: str, value: object) -> None:
        if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
            raise ComposeError(f"{COMPOSE}: {place or 'the file'} must be a table of keys")
        self.place = place
        self.left: dict[str, Any] = dict(value)

    def take(self, key: str) -> Any:
        """Return a value, or None."""
        return self.left.pop(key, None)

    def table(self, key: str) -> dict[str, Any]:
        """Return a table, or an empty one."""
        value = self.take(key)
        return {} if value is None else _Keys(self.at(key), value).left

    def at(self, key: str) -> str:
        """Return the full name of a key."""
        return f"{self.place}.{key}".lstrip(".")

    def end(self) -> None:
        """Check that no key is left."""
        for key in self.left:
            raise ComposeError(f"{COMPOSE}: {self.at(key)} is not supported")


class _Reader:
    """Reads the services of one file."""

    def __init__(self, task: Path, given: Mapping[str, str], volumes: frozenset[str], without: Sequence[str]) -> None:
        self._task = task
        self._given = given
        self._volumes = volumes
        self._without = without

    def service(self, name: str, value: object) -> Service:
        place = f"services.{name}"
        keys = _Keys(place, self._filled(place, {} if value is None else value))
        limits = _Keys(keys.at("deploy"), keys.table("deploy"))
        resources = _Keys(limits.at("resources"), limits.table("resources"))
        deployed = _Keys(resources.at("limits"), resources.table("limits"))
        memory = keys.take("mem_limit") or deployed.take("memory") or None
        cpus = keys.take("cpus") or deployed.take("cpus") or None
        for each in (limits, resources, deployed):
            each.end()
        for port in _texts(keys.at("expose"), keys.take("expose")):
            _number(keys.at("expose"), port.partition("/")[0])  # containers of one network reach all ports
        found = Service(
            name=name,
            image=_text(keys.at("image"), keys.take("image")),
            build=self._build(keys.at("build"), keys.take("build")),
            is_pulled=_choice(keys.at("pull_policy"), keys.take("pull_policy"), _PULLS, "missing") != "never",
            command=_words(keys.at("command"), keys.take("command")),
            entrypoint=_words(keys.at("entrypoint"), keys.take("entrypoint")),
            user=_text(keys.at("user"), keys.take("user")),
            work_dir=_text(keys.at("working_dir"), keys.take("working_dir")),
            environment=_pairs(keys.at("environment"), keys.take("environment")),
            mounts=tuple(self._mounts(keys.at("volumes"), keys.take("volumes"))),
            healthcheck=_healthcheck(keys.at("healthcheck"), keys.take("healthcheck")),
            depends_on=self._depends_on(keys.at("depends_on"), keys.take("depends_on")),
            memory_mb=None if memory is None else _size_mb(keys.at("mem_limit"), memory),
            cpus=None if cpus is None else _number(keys.at("cpus"), cpus),
            shared_memory_mb=_size_mb(keys.at("shm_size"), keys.take("shm_size") or "64m"),
            restarts=_choice(keys.at("restart"), (keys.take("restart") or "no").partition(":")[0], _RESTARTS, "no"),
        )
        keys.end()
        if name == MAIN:
            self._check_main(found)
        elif not found.image and found.build is None:
            raise ComposeError(f"{COMPOSE}: {place} has neither image nor build")
        return found

    def _check_main(self, main: Service) -> None:
        """Check what the agent's container can have from this file."""
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
            "mem_limit": (main.memory_mb in (None, self._memory_mb()), "environment.memory_mb"),
            "cpus": (main.cpus in (None, float(self._given.get("CPUS") or 0)), "environment.cpus"),
        }
        for key, is_fine in own.items():
            if not is_fine:
                raise ComposeError(
                    f"{COMPOSE}: services.main.{key} is not supported: the agent's container waits for it"
                )
        for key, (is_fine, better) in elsewhere.items():
            if not is_fine:
                raise ComposeError(f"{COMPOSE}: services.main.{key} is not supported; write {better} into task.toml")

    def _memory_mb(self) -> int | None:
        return _size_mb("MEMORY", memory) if (memory := self._given.get("MEMORY")) else None

    def _build(self, place: str, value: object) -> Build | None:
        if value is None:
            return None
        keys = _Keys(place, {"context": value} if isinstance(value, str) else value)
        context = self._path(keys.at("context"), _text(place, keys.take("context")) or ".")
        build = Build(
            context=context,
            dockerfile=_text(place, keys.take("dockerfile")) or "Dockerfile",
            args=_pairs(keys.at("args"), keys.take("args")),
            target=_text(place, keys.take("target")),
        )
        keys.end()
        if not (context / build.dockerfile).is_file():
            raise ComposeError(f"{COMPOSE}: {place}: there is no {context / build.dockerfile}")
        return build

    def _mounts(self, place: str, value: object) -> Iterator[Mount]:
        for entry in _list(place, value):
            if isinstance(entry, str):
                source, target, *mode = entry.split(":") if ":" in entry else ("", entry)
                flags = set(mode[0].split(",")) if mode else set()
                if len(mode) > 1 or flags - {"ro", "rw", "z", "Z"}:
                    raise ComposeError(f"{COMPOSE}: {place}: {entry!r} is not supported; its flags can be ro or rw")
                yield self._mount(place, source, target, is_read_only="ro" in flags)
            else:
                keys = _Keys(place, entry)
                kind = _text(place, keys.take("type"))
                source, target = _text(place, keys.take("source")), _text(place, keys.take("target"))
                is_read_only = _choice(place, keys.take("read_only"), {"true": True, "false": False}, "false")
                keys.end()
                if kind not in ("bind", "volume") or (kind == "bind") != _is_path(source):
                    raise ComposeError(f"{COMPOSE}: {place}: type {kind!r} of {target} is not supported")
                yield self._mount(place, source, target, is_read_only=is_read_only)

    def _mount(self, place: str, source: str, target: str, *, is_read_only: bool) -> Mount:
        if not target.startswith("/"):
            raise ComposeError(f"{COMPOSE}: {place}: {target!r} must be an absolute path of the container")
        if not _is_path(source):
            if source and source not in self._volumes:
                raise ComposeError(f"{COMPOSE}: {place}: the volume {source!r} is not declared under volumes")
            return Mount(target=target, volume=source, is_read_only=is_read_only)
        path = self._path(place, source)
        if not path.exists():
            raise ComposeError(
                f"{COMPOSE}: {place}: there is no {path}; bring the whole dataset, or prepare it as it says"
            )
        if not is_read_only:
            raise ComposeError(
                f"{COMPOSE}: {place}: {source} would be writable, so that trials change each other's task; add :ro"
            )
        return Mount(target=target, path=path, is_read_only=True)

    def _path(self, place: str, source: str) -> Path:
        path, dataset = (self._task / "environment" / source).resolve(), self._task.resolve().parent
        if not path.is_relative_to(dataset):
            raise ComposeError(f"{COMPOSE}: {place}: {source} is outside of {dataset}, the folder of the dataset")
        return path

    def _depends_on(self, place: str, value: object) -> dict[str, str]:
        waits: dict[str, Any] = value if isinstance(value, dict) else {name: {} for name in _texts(place, value)}
        found = {}
        for name, wait in waits.items():
            keys = _Keys(f"{place}.{name}", wait or {})
            condition = _text(place, keys.take("condition")) or _CONDITIONS[0]
            if condition not in _CONDITIONS:
                raise ComposeError(
                    f"{COMPOSE}: {keys.at('condition')} is {condition!r}; known: {', '.join(_CONDITIONS)}"
                )
            for key, usual in (("required", "true"), ("restart", "false")):
                if keys.left.get(key) == usual:
                    keys.take(key)
            keys.end()
            if name not in self._without:
                found[name] = condition
        return found

    def _filled(self, place: str, value: Any) -> Any:
        """Return a value with its variables replaced, below all its keys."""
        if isinstance(value, dict):
            return {key: self._filled(f"{place}.{key}", each) for key, each in value.items()}
        if isinstance(value, list):
            return [self._filled(place, each) for each in value]
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
                f"{COMPOSE}: {place} asks for {name} of this machine, and no task gets secrets from here; leave the "
                "service out with benchmark.without_services (ask_user takes the place of a user), or set the variable "
                "in [environment.env]"
            )
        is_there = value is not None if operator in ("-", "+", None) else bool(value)
        if operator and operator.endswith("+"):
            return word if is_there else ""
        if not is_there and operator is None:
            raise ComposeError(f"{COMPOSE}: {place} asks for {name}; set it in [environment.env] of task.toml")
        return (value if is_there else word) or ""


def _in_order(services: Mapping[str, Service], main: Service) -> Iterator[Service]:
    """Yield services so that each comes after those that it waits for."""
    for each in (*services.values(), main):
        for name in each.depends_on:
            if name not in services:
                what = "main, which starts last" if name == MAIN else f"{name!r}, which is not there"
                raise ComposeError(f"{COMPOSE}: services.{each.name}.depends_on names {what}")
    left = dict(services)
    while left:
        ready = [each for each in left.values() if not set(each.depends_on) & set(left)]
        if not ready:
            raise ComposeError(f"{COMPOSE}: depends_on: {', '.join(left)} wait for each other")
        for each in ready:
            yield left.pop(each.name)


def _volume(name: str, value: object) -> str:
    _Keys(f"volumes.{name}", {} if value is None else value).end()
    return name


def _is_path(source: str) -> bool:
    return source.startswith(("/", ".", "~"))


def _text(place: str, value: object) -> str:
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ComposeError(f"{COMPOSE}: {place} must be a text")
    return value


def _list(place: str, value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ComposeError(f"{COMPOSE}: {place} must be a list")
    return value


def _texts(place: str, value: object) -> list[str]:
    return [_text(place, each) for each in _list(place, value)]


def _words(place: str, value: object) -> tuple[str, ...] | None:
    """Return a command, which is a list or a text in the shell's quotes."""
    if value is None:
        return None
    return tuple(shlex.split(value) if isinstance(value, str) else _texts(place, value))


def _pairs(place: str, value: object) -> dict[str, str]:
    """Return variables, which are a table or a list of NAME=VALUE."""
    pairs = value.items() if isinstance(value, dict) else [each.split("=", 1) for each in _texts(place, value)]
    found = {}
    for name, *rest in pairs:
        if not rest or rest[0] is None:
            raise ComposeError(f"{COMPOSE}: {place} asks for {name} of this machine; write its value")
        found[name] = _text(f"{place}.{name}", rest[0])
    return found


def _choice(place: str, value: Any, known: Mapping[str, Any], usual: str) -> Any:
    if (chosen := value if value is not None else usual) not in known:
        raise ComposeError(f"{COMPOSE}: {place} is {chosen!r}; supported: {', '.join(known)}")
    return known[chosen]


def _number(place: str, value: object) -> float:
    try:
        return float(_text(place, value))
    except ValueError as error:
        raise ComposeError(f"{COMPOSE}: {place} is {value!r}, not a number") from error


def _size_mb(place: str, value: object) -> int:
    size = _SIZE.fullmatch(_text(place, value).strip().lower())
    if size is None or not (found := int(size[1]) * _BYTES[size[2]] >> 20):
        raise ComposeError(f"{COMPOSE}: {place} is {value!r}; write a size such as 512m")
    return found


def _duration_ns(place: str, value: object) -> int:
    text = _text(place, value)
    parts = _DURATION.findall(text)
    if not parts or "".join(map("".join, parts)) != text:
        raise ComposeError(f"{COMPOSE}: {place} is {text!r}; write a time such as 10s or 1m30s")
    return round(sum(float(number) * _SECONDS[unit] for number, unit in parts) * 1e9)


def _healthcheck(place: str, value: object) -> dict[str, Any] | None:
    """Return a health check in the engine's format. What it leaves out is as in the image."""
    if value is None:
        return None
    keys = _Keys(place, value)
    test = keys.take("test")
    found: dict[str, Any] = {}
    if test is not None:
        found["Test"] = ["CMD-SHELL", test] if isinstance(test, str) else _texts(keys.at("test"), test)
    if _choice(keys.at("disable"), keys.take("disable"), {"true": True, "false": False}, "false"):
        found["Test"] = ["NONE"]
    read: dict[str, tuple[str, Callable[[str, object], int]]] = {
        "interval": ("Interval", _duration_ns),
        "timeout": ("Timeout", _duration_ns),
        "start_period": ("StartPeriod", _duration_ns),
        "start_interval": ("StartInterval", _duration_ns),
        "retries": ("Retries", lambda at, each: int(_number(at, each))),
    }
    for key, (name, reading) in read.items():
        if (given := keys.take(key)) is not None:
            found[name] = reading(keys.at(key), given)
    keys.end()
    if "Test" in found and found["Test"][:1] not in (["NONE"], ["CMD"], ["CMD-SHELL"]):
        raise ComposeError(f"{COMPOSE}: {keys.at('test')} must begin with CMD, CMD-SHELL or NONE")
    return found
