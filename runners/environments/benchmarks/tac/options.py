"""The keys of ``[benchmark]`` in an experiment file that belong to tac."""

import hashlib
import re
from pathlib import Path
from typing import Annotated, Any

import msgspec

from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.refusals import decoded
from lhaw_record.runners.environments.benchmarks.tac.services_program import PORT as CONTROL_PORT
from lhaw_record.runners.environments.sandboxes.docker.config import WORK_DIR

_PAGE = "docs/benchmarks/tac.md"
_NAME = "{task}"
_LAST_PORT = 65_535
MEMORY_MB = 2048
_PORTS = r"^[0-9]{1,5}(:[0-9]{1,5})?$"
Seconds = Annotated[float, msgspec.Meta(gt=0)]


class CompanyContainer(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One container of a company that every trial has for itself. Other containers reach it under its name.

    Args:
        image: The image. Empty if the service runs on ``services_host``.
        ports: What the company's host name offers of it: ``"8092:80"`` is its port 80 at the company's port 8092, and
            ``"9980"`` the same port.
        environment: The environment variables that are added to the image's.
        files: Files of this machine that are put into it at its start, by their absolute path there.
        memory_mb: The memory limit in MiB, or None for the guess ``MEMORY_MB``.
        shared_memory_mb: The size of ``/dev/shm`` in MiB.
    """

    image: str = ""
    ports: tuple[Annotated[str, msgspec.Meta(pattern=_PORTS)], ...] = ()
    environment: dict[str, str] = {}
    files: dict[str, str] = {}
    memory_mb: Annotated[int, msgspec.Meta(ge=16)] | None = None
    shared_memory_mb: Annotated[int, msgspec.Meta(ge=1)] = 64

    @property
    def limit_mb(self) -> int:
        """The memory limit in MiB, guessed or not."""
        return self.memory_mb or MEMORY_MB

    @property
    def published_ports(self) -> dict[int, int]:
        """The company's ports, with the container's port that answers at each."""
        pairs = (text.partition(":") for text in self.ports)
        return {int(outside): int(inside or outside) for outside, _, inside in pairs}

    @property
    def identity(self) -> str | dict[str, Any]:
        """What of it is part of a trial's identity: its image, and all that changes what the image does or holds."""
        given = {name: value for name, value in self._beside_image().items() if value}
        return {"image": self.image, **given} if given else self.image

    def _beside_image(self) -> dict[str, Any]:
        return {
            "environment": self.environment,
            "files": {path: _sha256(file) for path, file in self.files.items()},
            "ports": self.ports,
        }


class CompanionSpec(CompanyContainer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A container that a service needs beside its own, such as its database.

    Args:
        is_job: Whether it does its work and ends with exit code 0 before the trial begins; after a failure it starts
            again.
    """

    is_job: bool = False

    def _beside_image(self) -> dict[str, Any]:
        return {**super()._beside_image(), "is_job": self.is_job}


class ServiceSpec(CompanyContainer, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One service of the company.

    Args:
        health: An address, as containers reach it, that answers with HTTP 2xx once the service is ready. If empty, the
            running company's control server is asked.
        login: How to log in, as told to agents.
        companions: Further containers, by name.
        prepare: Commands by the name of the container that runs them, once every service is healthy.
    """

    health: str = ""
    login: str = ""
    companions: dict[str, CompanionSpec] = {}
    prepare: dict[str, tuple[str, ...]] = {}

    @property
    def total_memory_mb(self) -> int:
        """The memory of its containers together, in MiB."""
        return self.limit_mb + sum(each.limit_mb for each in self.companions.values())

    def _beside_image(self) -> dict[str, Any]:
        companions = {name: each.identity for name, each in self.companions.items()}
        return {**super()._beside_image(), "companions": companions, "prepare": self.prepare}


class BrowserSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The browser of the agent, in a container of its own beside the agent's.

    Args:
        image: An image whose entrypoint is the Playwright MCP server on standard input and output.
        arguments: Further arguments of the server.
        memory_mb: The memory limit in MiB.
        screenshots: Whether to keep a picture of the page after every step, beside those that the agent takes.
        step_seconds: How long a step may take, after which the agent is told that there was no answer.
    """

    image: str = "mcr.microsoft.com/playwright/mcp:v0.0.79"
    arguments: tuple[str, ...] = ()
    memory_mb: Annotated[int, msgspec.Meta(ge=256)] = 2048
    screenshots: bool = False
    step_seconds: Seconds = 120.0  # the server's own limit for a page is 60 s

    @property
    def identity(self) -> dict[str, Any]:
        """What of it is part of a trial's identity."""
        own = {} if self.step_seconds == BrowserSpec().step_seconds else {"step_seconds": self.step_seconds}
        return {"image": self.image, "arguments": self.arguments, **own}


class TacOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The keys of ``[benchmark]`` that belong to tac. Paths are relative to the experiment file.

    The defaults fit the published images. With ``asks_directly`` evaluators get the address and the key of their model,
    as in the original, and their requests are not recorded. ``failure_words`` is a pattern for the output of evaluators
    that cannot reach their model. Such evaluators continue, and count the checkpoint as false.
    """

    folder: str
    image: str = "ghcr.io/theagentcompany/{task}-image:1.0.0"
    services: dict[str, ServiceSpec] = {}
    services_host: str = ""
    network: str = ""
    browser: BrowserSpec | None = None
    hostname: str = "the-agent-company.com"
    only_with: tuple[str, ...] | None = None
    checkpoints: dict[str, tuple[Annotated[float, msgspec.Meta(gt=0)], ...]] = {}
    references: str = ""
    instruction: str = "/instruction/task.md"
    work_dir: str = WORK_DIR
    init: tuple[str, ...] = ("bash", "/utils/init.sh")
    evaluator: tuple[str, ...] = ("python_default", "/utils/eval.py")
    outputs: str = "/outputs"
    hidden: tuple[str, ...] = ("/utils",)
    asks_directly: bool = False
    failure_words: str = r"\blitellm\.(exceptions\.)?(Timeout|\w+(Error|Exception))\b"
    decryption_key: str = "theagentcompany is all you need"
    init_seconds: Seconds = 900.0
    health_seconds: Seconds = 600.0
    grading_seconds: Annotated[float, msgspec.Meta(gt=0, le=540)] = 540.0

    def guessed_memory(self) -> list[str]:
        """Return the names of the containers whose memory limit is a guess, in the order of the file."""
        both = ({name: spec, **spec.companions} for name, spec in self.services.items())
        return [name for each in both for name, spec in each.items() if spec.image and spec.memory_mb is None]

    def paths(self) -> tuple[Path, ...]:
        """Return the files and folders that the options name."""
        both = (each for spec in self.services.values() for each in (spec, *spec.companions.values()))
        named = [self.folder, self.references, *(file for spec in both for file in spec.files.values())]
        return tuple(Path(each) for each in named if each)

    def image_of(self, task_id: str) -> str:
        return self.image.replace(_NAME, task_id)

    def health_of(self, service: str) -> str:
        """Return the address at which a service reports its health."""
        spec = self.services.get(service)
        return (spec.health if spec else "") or f"http://{self.services_host}:{CONTROL_PORT}/api/healthcheck/{service}"


def _sha256(file: str) -> str:
    try:
        with Path(file).open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError as error:
        raise ExperimentError(f"key 'benchmark.services': {file} cannot be read: {error.strerror or error}") from error


def read_options(options: dict[str, Any], base: Path) -> TacOptions:
    """Return the options of an experiment file, with absolute folders."""
    chosen = decoded(options, TacOptions, _PAGE)
    folder = (base / chosen.folder).resolve()
    if not folder.is_dir():
        raise ExperimentError(f"key 'benchmark.folder': {folder} is not a folder; name the folder of the task folders")
    _check_services(chosen)
    try:
        re.compile(chosen.failure_words)
    except re.error as error:
        raise ExperimentError(f"key 'benchmark.failure_words': not a regular expression: {error}") from error
    references = str((base / chosen.references).resolve()) if chosen.references else ""
    services = {name: _with_files(f"benchmark.services.{name}", spec, base) for name, spec in chosen.services.items()}
    return msgspec.structs.replace(chosen, folder=str(folder), references=references, services=services)


def _with_files(key: str, spec: ServiceSpec, base: Path) -> ServiceSpec:
    """Return a service with absolute paths of the files on this machine."""
    companions = {
        name: msgspec.structs.replace(each, files=_absolute(f"{key}.companions.{name}", each, base))
        for name, each in spec.companions.items()
    }
    return msgspec.structs.replace(spec, files=_absolute(key, spec, base), companions=companions)


def _absolute(key: str, spec: CompanyContainer, base: Path) -> dict[str, str]:
    for path, name in spec.files.items():
        if not path.startswith("/") or path.endswith("/"):
            raise ExperimentError(f"key '{key}.files': {path!r} is not the absolute path of a file in the container")
        if not (base / name).is_file():
            raise ExperimentError(f"key '{key}.files': {(base / name).resolve()} is not a file")
    return {path: str((base / name).resolve()) for path, name in spec.files.items()}


def _check_services(chosen: TacOptions) -> None:
    """Reject services that could be reached in two ways, or in none."""
    own = [name for name, spec in chosen.services.items() if spec.image]
    if chosen.services_host and own:
        raise ExperimentError(
            f"key 'benchmark.services.{own[0]}.image': a company runs on services_host, or in containers of each "
            "trial; remove one of the two keys"
        )
    if chosen.services_host and not chosen.network:
        raise ExperimentError(
            "key 'benchmark.network': name the engine's network from which services_host is reached, such as \"bridge\""
        )
    if chosen.network and not chosen.services_host:
        raise ExperimentError(
            "key 'benchmark.network': it is for services_host; otherwise every trial has its own network"
        )
    for name, spec in chosen.services.items():
        if spec.image and not spec.health:
            raise ExperimentError(
                f"key 'benchmark.services.{name}.health': name an address that answers with HTTP 2xx once it is ready"
            )
        if spec.image and not spec.ports:
            raise ExperimentError(
                f"key 'benchmark.services.{name}.ports': name the ports that the company's host offers, such as "
                'ports = ["8092:80"] for its port 80 at port 8092'
            )
        if not spec.image and not chosen.services_host:
            raise ExperimentError(
                f"key 'benchmark.services.{name}.image': name its image, or a running company's host in services_host"
            )
    _check_companions(chosen)


def _check_companions(chosen: TacOptions) -> None:
    """Reject containers without an image, under a name that is taken, or with commands for no container."""
    owners: dict[str, str] = {}
    ports: dict[int, str] = {}
    for service, spec in chosen.services.items():
        key = f"benchmark.services.{service}"
        known: dict[str, CompanyContainer] = {service: spec, **spec.companions}
        for name, each in known.items():
            if name in spec.companions and not each.image:
                raise ExperimentError(f"key '{key}.companions.{name}.image': name its image")
            if owners.setdefault(name, service) != service or (name in spec.companions and name == service):
                raise ExperimentError(f"key '{key}.companions.{name}': another container has that name; change it")
            _check_ports(key if name == service else f"{key}.companions.{name}", each)
            for port in each.published_ports:
                if ports.setdefault(port, name) != name:
                    raise ExperimentError(f"key '{key}': {ports[port]} and {name} both have the company's port {port}")
        unknown = sorted(set(spec.prepare) - set(known))
        if unknown:
            raise ExperimentError(f"key '{key}.prepare.{unknown[0]}': it has no container of that name")


def _check_ports(key: str, spec: CompanyContainer) -> None:
    """Reject ports that no host has, and the one at which the company's host itself answers."""
    for outside, inside in spec.published_ports.items():
        for port in (outside, inside):
            if not 1 <= port <= _LAST_PORT:
                raise ExperimentError(f"key '{key}.ports': {port} is not a port; ports are 1 to {_LAST_PORT}")
        if outside == CONTROL_PORT:
            raise ExperimentError(
                f"key '{key}.ports': the company's port {CONTROL_PORT} is used by its control server; use another, "
                f'such as "8092:{inside}"'
            )
