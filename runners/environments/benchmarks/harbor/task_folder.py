"""Read one task folder in Harbor's format, and say which of its keys cannot be honoured here.

The format is that of harbor 0.25 (``models/task/config.py``); as there, unknown keys are ignored. A key that would
change what the agent finds or how it is graded, and that is not supported, refuses the task by name.
"""

import hashlib
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from pathspec import GitIgnoreSpec

from lhaw_record.recorder.events.canonical_json import digest
from lhaw_record.recorder.events.values import Checkpoint, Task, Variant
from lhaw_record.recorder.writing.redaction import given_secrets
from lhaw_record.runners.environments.benchmarks.harbor.compose import (
    COMPOSE,
    MAIN,
    MAIN_IMAGE,
    Compose,
    ComposeError,
    has_compose,
    read_compose,
    service_names,
)
from lhaw_record.runners.environments.benchmarks.harbor.rewards import ONLY_REWARD
from lhaw_record.runners.environments.benchmarks.published import PublishedError, decoded_file, read_text
from lhaw_record.runners.environments.benchmarks.variants_file import (
    VARIANTS,
    VariantEntry,
    VariantsFile,
    parameters_of,
    variant_of,
    variants_of,
)

BENCHMARK = "harbor"
VERSION = "1"
INSTRUCTION = "instruction.md"
CONFIG = "task.toml"
_OLD_CONFIG = "task.yaml"
CHECKPOINTS = "checkpoints.toml"
STEPS = "steps"
PUBLIC = "public"
NETWORKS = (PUBLIC, "no-network")
_ONLY_NETWORKS = "only public and no-network are supported"
NO_WORDS: Mapping[str, str] = {}
_IGNORE = ".harborignore"
_GRADED_BY = (CONFIG, "environment", "tests")
_CANARY = re.compile(r"^(<!--.*canary.*-->|#.*canary.*)$", re.IGNORECASE)
_VARIABLE = re.compile(r"\$\{(\w+)(?::-([^}]*))?\}")  # the whole value; elsewhere it is literal
_SIZE = re.compile(r"([0-9]{1,12}(?:\.[0-9]*)?)([KMG])")
_MB = {"K": 1 / 1024, "M": 1.0, "G": 1024.0}


class Healthcheck(msgspec.Struct, frozen=True, kw_only=True):
    """A command that must succeed before the agent begins. Times are in seconds."""

    command: str
    interval_sec: float = 5.0
    timeout_sec: float = 30.0
    start_period_sec: float = 0.0
    start_interval_sec: float = 5.0
    retries: int = 3


class McpServerTable(msgspec.Struct, frozen=True, kw_only=True):
    """One of ``[[environment.mcp_servers]]``: where a server of the task is. ``http`` is ``streamable-http``."""

    name: str
    transport: str = "sse"
    url: str | None = None
    headers: dict[str, str] = {}


class EnvironmentTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[environment]`` or ``[verifier.environment]``."""

    docker_image: str | None = None
    build_timeout_sec: float = 600.0
    workdir: str | None = None
    os: str = "linux"
    cpus: float | None = None
    memory_mb: int | None = None
    memory: str | None = None
    gpus: int | None = None
    tpu: Any = None
    skills_dir: str | None = None
    network_mode: str | None = None
    allow_internet: bool | None = None
    env: dict[str, str] = {}
    healthcheck: Healthcheck | None = None
    mcp_servers: list[McpServerTable] = []

    @property
    def network(self) -> str:
        """``public``, ``no-network`` or ``allowlist``."""
        return self.network_mode or ("no-network" if self.allow_internet is False else "public")

    @property
    def total_memory_mb(self) -> int | None:
        """The memory limit in MiB, also from the old key ``memory = "2G"``."""
        if self.memory_mb is not None or self.memory is None:
            return self.memory_mb
        size = _SIZE.fullmatch(self.memory.strip().upper())
        return int(float(size[1]) * _MB[size[2]]) if size else None


class AgentTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[agent]``. ``timeout_sec`` None is no limit of the task's own."""

    timeout_sec: float | None = None
    user: str | int | None = None
    network_mode: str | None = None


class CollectTable(msgspec.Struct, frozen=True, kw_only=True):
    """One of ``[[verifier.collect]]``: a command that runs between the agent and the tests."""

    command: str
    user: str | int | None = None
    service: str = MAIN
    timeout_sec: float = 60.0


class VerifierTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[verifier]``."""

    timeout_sec: float = 600.0
    user: str | int | None = None
    env: dict[str, str] = {}
    environment_mode: str | None = None
    environment: EnvironmentTable | None = None
    collect: list[CollectTable] = []
    network_mode: str | None = None

    @property
    def is_separate(self) -> bool:
        """Whether the tests run in a fresh container, where only the artifacts of the agent's are."""
        return (self.environment_mode or ("separate" if self.environment else "shared")) == "separate"


class SolutionTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[solution]``."""

    env: dict[str, str] = {}


class StepTable(msgspec.Struct, frozen=True, kw_only=True):
    """One of ``[[steps]]``. ``min_reward`` is for ``reward``, or for several rewards by name."""

    name: str
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    min_reward: float | dict[str, float] | None = None
    healthcheck: Healthcheck | None = None
    artifacts: list[str | dict[str, Any]] = []

    def is_passed(self, rewards: Mapping[str, float]) -> bool:
        """Return whether the trial goes on after this step with these rewards."""
        least = self.min_reward if isinstance(self.min_reward, dict) else {ONLY_REWARD: self.min_reward}
        return all(score is None or rewards.get(name, float("-inf")) >= score for name, score in least.items())


class PackageTable(msgspec.Struct, frozen=True, kw_only=True):
    """``[task]``."""

    name: str | None = None


class TaskTable(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of ``task.toml`` that matter here."""

    metadata: dict[str, Any] = {}
    task: PackageTable = PackageTable()
    agent: AgentTable = AgentTable()
    verifier: VerifierTable = VerifierTable()
    environment: EnvironmentTable = EnvironmentTable()
    solution: SolutionTable = SolutionTable()
    artifacts: list[str | dict[str, Any]] = []
    steps: list[StepTable] = []
    multi_step_reward_strategy: Literal["mean", "final"] = "mean"

    @property
    def artifact_paths(self) -> tuple[str, ...]:
        """The paths of ``artifacts`` in the agent's container."""
        return tuple(each if isinstance(each, str) else str(each.get("source", "")) for each in self.artifacts)


class RewardTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One reward of ``checkpoints.toml``: its name in the reward file, a label, and its highest value."""

    checkpoint_id: str
    label: str
    total: float = 1.0


class RewardsFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``checkpoints.toml`` beside ``task.toml``, for tasks with several rewards, or one that is not from 0 to 1."""

    checkpoints: tuple[RewardTable, ...] = ()
    domain: str | None = None


class HarborTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task folder, or one step of it.

    Its id is ``[task] name``, or the folder's path in the dataset. ``prompt`` is the instruction of the task or its
    first step; ``later`` has the other steps' instructions. ``paired`` is a variant from another folder, and
    ``ask_command`` a command of the image that asks the user.
    """

    folder: Path
    task_id: str
    prompt: str
    config: TaskTable
    rewards: RewardsFile
    variants: tuple[VariantEntry, ...] = ()
    later: tuple[str, ...] = ()
    step: StepTable | None = None
    paired: Variant | None = None
    ask_command: str | None = None

    @property
    def steps(self) -> tuple["HarborTask", ...]:
        """The steps in order, each as a task. A task without ``[[steps]]`` is its own only step."""
        if not self.config.steps:
            return (self,)
        prompts = (self.prompt, *self.later)
        return tuple(_step(self, table, prompt) for table, prompt in zip(self.config.steps, prompts, strict=True))

    def hand_written(self, task: Task) -> tuple[Variant, ...]:
        """Return the variants of the folder's ``variants.toml``, which was checked when it was read, and the paired."""
        written = (variant_of(each, task.benchmark, task.task_id, task.prompt) for each in self.variants)
        return (*written, *((self.paired,) if self.paired else ()))

    @property
    def checkpoints(self) -> tuple[Checkpoint, ...]:
        """The declared rewards, or the only one of ``reward.txt``, for every step."""
        if self.config.steps:
            return tuple(each for step in self.steps for each in step.checkpoints)
        if not self.rewards.checkpoints:
            whose = f"the step {self.step.name}" if self.step else "the task"
            return (Checkpoint(checkpoint_id=self.checkpoint_of(ONLY_REWARD), label=f"{whose}'s tests pass"),)
        return tuple(
            Checkpoint(checkpoint_id=each.checkpoint_id, label=each.label, total=each.total)
            for each in self.rewards.checkpoints
        )

    @property
    def tests_folder(self) -> Path | None:
        """The folder of the image that separate tests have, None if they have the task's own or a named one."""
        table = self.config.verifier.environment
        if not self.config.verifier.is_separate or (table and table.docker_image):
            return None
        return next((each for each in reversed(self.tests) if (each / "Dockerfile").is_file()), None)

    @property
    def has_tests_image(self) -> bool:
        """Whether separate tests have an image of their own, which brings them."""
        verifier = self.config.verifier
        is_named = verifier.environment is not None and verifier.environment.docker_image is not None
        return verifier.is_separate and (is_named or self.tests_folder is not None)

    @property
    def own_folder(self) -> Path:
        """The folder with the instruction."""
        return self.folder / STEPS / self.step.name if self.step else self.folder

    @property
    def tests(self) -> tuple[Path, ...]:
        """The folders that become ``/tests``; a later one replaces files of an earlier one."""
        folders = dict.fromkeys((self.folder / "tests", self.own_folder / "tests"))
        return tuple(each for each in folders if each.is_dir())

    @property
    def solution(self) -> Path:
        """The folder of the reference solution. A step without one has the task's."""
        own = self.own_folder / "solution"
        return own if own.is_dir() else self.folder / "solution"

    @property
    def has_solution(self) -> bool:
        """Whether there is a ``solve.sh`` for every step."""
        return all((step.solution / "solve.sh").is_file() for step in self.steps)

    @property
    def reward_names(self) -> list[str]:
        """The names of the rewards that the tests of a task or step must give."""
        step = self.step.name if self.step else None
        ids = [each.checkpoint_id for each in self.rewards.checkpoints]
        return [ONLY_REWARD if each == step else each.removeprefix(f"{step}/") for each in ids] or [ONLY_REWARD]

    def checkpoint_of(self, reward: str) -> str:
        """Return the id of the checkpoint that a reward of the tests is."""
        if self.step is None:
            return reward
        return self.step.name if reward == ONLY_REWARD else f"{self.step.name}/{reward}"


def _step(task: HarborTask, step: StepTable, prompt: str) -> HarborTask:
    """Return a step with what it inherits, as in Harbor: all of ``[agent]``, but not the time of ``[verifier]``.

    Its tests are separate if it says so, or else if the task does. Their image is its own, or else the task's.
    """
    agent, verifier, whole = step.agent, step.verifier, task.config
    is_told = verifier.environment_mode is not None or verifier.environment is not None
    is_separate = verifier.is_separate if is_told else whole.verifier.is_separate
    tests, shared = verifier.environment or whole.verifier.environment, whole.verifier.environment
    if tests is not None and (verifier.environment is None or not tests.docker_image):
        is_built = (task.folder / STEPS / step.name / "tests" / "Dockerfile").is_file()
        inherited = None if is_built or shared is None else shared.docker_image
        tests = msgspec.structs.replace(tests, docker_image=inherited)
    config = msgspec.structs.replace(
        whole,
        steps=[],
        artifacts=[*whole.artifacts, *step.artifacts],
        agent=AgentTable(
            timeout_sec=whole.agent.timeout_sec if agent.timeout_sec is None else agent.timeout_sec,
            user=whole.agent.user if agent.user is None else agent.user,
            network_mode=agent.network_mode or whole.agent.network_mode,
        ),
        verifier=msgspec.structs.replace(
            verifier,
            user=whole.verifier.user if verifier.user is None else verifier.user,
            env={**whole.verifier.env, **verifier.env},
            collect=[*whole.verifier.collect, *verifier.collect],
            environment_mode="separate" if is_separate else "shared",
            environment=tests,
            network_mode=verifier.network_mode or whole.verifier.network_mode,
        ),
    )
    own = [each for each in task.rewards.checkpoints if each.checkpoint_id.partition("/")[0] == step.name]
    rewards = msgspec.structs.replace(task.rewards, checkpoints=tuple(own))
    return msgspec.structs.replace(
        task, prompt=prompt, config=config, rewards=rewards, variants=(), later=(), step=step
    )


def is_task_folder(path: Path) -> bool:
    """Return whether a folder is a task: it has a ``task.toml``."""
    return (path / CONFIG).is_file()


def task_folders(folder: Path) -> list[Path]:
    """Return the task folders that a path means: itself, or those in it sorted by name, then those further down.

    Those that have only a prompt are among them, as are those of an older format; reading one says what is missing.
    """
    if is_task_folder(folder):
        return [folder]
    names = (CONFIG, INSTRUCTION, _OLD_CONFIG)
    found = sorted({path.parent for name in names for path in folder.glob(f"*/{name}")})
    deeper = sorted(path.parent for path in folder.glob(f"*/*/**/{CONFIG}"))
    found += [each for each in deeper if not any(map(is_task_folder, each.parents))]
    return found or ([folder] if any((folder / name).is_file() for name in names) else [])


def read_task(folder: Path, dataset: Path | None = None) -> HarborTask:
    """Read a task folder of a dataset, or one alone."""
    if not is_task_folder(folder) and (folder / _OLD_CONFIG).is_file():
        raise PublishedError(
            f"{_OLD_CONFIG} is the format of an older Terminal-Bench; 'harbor task migrate -i {folder} -o NEW_FOLDER' "
            "converts it"
        )
    if not is_task_folder(folder):
        raise PublishedError(f"it has {INSTRUCTION} but no {CONFIG}, which may be empty")
    config = decoded_file(folder / CONFIG, TaskTable)
    _check_names(folder, config.steps)
    places = [folder / STEPS / each.name / INSTRUCTION for each in config.steps] or [folder / INSTRUCTION]
    prompt, *later = [without_canary(_lines(read_text(place))) for place in places]
    for place, text in zip(places, (prompt, *later), strict=True):
        if not text.strip():
            raise PublishedError(f"{place} is empty; write the task's prompt into it")
    rewards = decoded_file(folder / CHECKPOINTS, RewardsFile) if (folder / CHECKPOINTS).is_file() else RewardsFile()
    for each in rewards.checkpoints:
        if each.total <= 0:
            raise PublishedError(f"{folder / CHECKPOINTS}: the reward {each.checkpoint_id!r} has total {each.total:g}")
        if config.steps and each.checkpoint_id.partition("/")[0] not in {step.name for step in config.steps}:
            raise PublishedError(
                f"{folder / CHECKPOINTS}: {each.checkpoint_id!r} belongs to no step; name a step, for its only "
                f"reward, or STEP/REWARD"
            )
    task = HarborTask(
        folder=folder,
        task_id=config.task.name or place_of(folder, dataset),
        prompt=prompt,
        config=config,
        rewards=rewards,
        later=tuple(later),
    )
    if not (folder / VARIANTS).is_file():
        return task
    entries = decoded_file(folder / VARIANTS, VariantsFile).variants
    _check_variants(folder, entries, task_of(task))
    return msgspec.structs.replace(task, variants=entries)


def place_of(folder: Path, dataset: Path | None) -> str:
    """Return the path of a task folder in its dataset, or its name if it is alone."""
    return folder.name if dataset in (None, folder) else folder.relative_to(dataset or "").as_posix()


def _lines(text: str) -> str:
    """Return a text as Python's text files give it, without a mark of the byte order."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _check_names(folder: Path, steps: Sequence[StepTable]) -> None:
    names = [each.name for each in steps]
    for name in names:
        if not name.strip() or name in (".", "..") or "/" in name or "\0" in name:
            raise PublishedError(f"{folder / CONFIG}: steps: {name!r} is not the name of a folder in {STEPS}/")
        if names.count(name) > 1:
            raise PublishedError(f"{folder / CONFIG}: steps: {names.count(name)} are named {name!r}; rename one")


def _check_variants(folder: Path, entries: Sequence[VariantEntry], task: Task) -> None:
    """Check that variants fit their task, and that the solution has what ``written`` says, or masking hides nothing."""
    place = folder / VARIANTS
    variants_of(entries, task, str(place), INSTRUCTION)
    try:
        tuple(parameters_of(entries))
    except PublishedError as error:
        raise PublishedError(f"{place}: {error}") from error
    spellings = {each.written.encode() for entry in entries for each in entry.segments if each.written}
    below = [folder / "solution", *folder.glob(f"{STEPS}/*/solution")]
    files = [path.read_bytes() for each in below for path in each.rglob("*") if path.is_file()]
    for spelling in sorted(spellings):
        if files and not any(spelling in content for content in files):
            raise PublishedError(f"{place}: written = {spelling.decode()!r} is in no file of solution/")


def task_of(harbor: HarborTask, network: str = "", without: Sequence[str] = ()) -> Task:
    """Return the task as trials know it.

    Its environment digest covers ``task.toml``, environment, tests, steps, and what services see outside of these.
    """
    beside = {"beside": beside_digests(harbor, without)} if has_compose(harbor.folder) else {}
    category = harbor.config.metadata.get("category")
    parts = (INSTRUCTION, "tests", "workdir")
    names = (*_GRADED_BY, *(f"{STEPS}/{step.name}/{part}" for step in harbor.config.steps for part in parts))
    return Task(
        benchmark=BENCHMARK,
        benchmark_version=VERSION,
        task_id=harbor.task_id,
        prompt=harbor.prompt,
        checkpoints=harbor.checkpoints,
        environment_digest=digest({"files": file_digests(harbor.folder, names), "network": network, **beside}),
        domain=harbor.rewards.domain or (category if isinstance(category, str) and category else None),
    )


def compose_of(task: HarborTask, without: Sequence[str] = ()) -> Compose | None:
    """Return the services of a task, or None if it has only the agent's container.

    As in Harbor, the file may use ``environment.env`` and six names (``TEST_DIR`` in migrated tasks). Unlike there,
    nothing of this machine.
    """
    if not has_compose(task.folder):
        return None
    table = task.config.environment
    given = {
        **resolved(table.env),
        "CONTEXT_DIR": str((task.folder / "environment").resolve()),
        "MAIN_IMAGE_NAME": MAIN_IMAGE,
        **({"PREBUILT_IMAGE_NAME": table.docker_image} if table.docker_image else {}),
        "CPUS": f"{table.cpus:g}" if table.cpus else "",
        "MEMORY": f"{table.total_memory_mb}M" if table.total_memory_mb else "",
        "TEST_DIR": "/tests",
    }
    return read_compose(task.folder, given, without)


def beside_digests(task: HarborTask, without: Sequence[str]) -> dict[str, Any]:
    """Return the services that are left out, and the digests of files that services see outside of ``environment/``."""
    try:
        compose = compose_of(task, without)
    except ComposeError:
        compose = None  # such a task cannot run
    folder = task.folder.resolve()
    outside = [path for path in (compose.paths if compose else ()) if not path.is_relative_to(folder / "environment")]
    names = tuple(path.relative_to(folder.parent).as_posix() for path in outside)
    left_out = sorted({*without} & service_names(task.folder))
    return {"without": left_out, "files": file_digests(folder.parent, names)}


def file_digests(folder: Path, names: tuple[str, ...]) -> dict[str, str]:
    """Return the SHA-256 of every file at or below some entries of a folder, with ``x`` if it is executable."""
    return {
        path.relative_to(folder).as_posix(): _sha256(path) + ("x" if os.access(path, os.X_OK) else "")
        for name in names
        for path in ([folder / name] if (folder / name).is_file() else sorted((folder / name).rglob("*")))
        if path.is_file()
    }


def has_dockerfile(task: HarborTask) -> bool:
    """Return whether the image of the agent's container is built from the task's own Dockerfile."""
    return (task.folder / "environment" / "Dockerfile").is_file()


def copied(source: Path, target: Path, words: Mapping[str, str]) -> None:
    """Copy a folder with links as they are, readable by all, its scripts executable, and some words replaced.

    What its ``.harborignore`` files exclude, by the rules of git, is left out.
    """

    def ignored(folder: str, names: list[str]) -> set[str]:
        place, found = Path(folder), {_IGNORE}
        above = [each for each in (*reversed(place.parents), place) if each.is_relative_to(source)]
        rules = [(each, read_text(each / _IGNORE)) for each in above if (each / _IGNORE).is_file()]
        specs = [(each, GitIgnoreSpec.from_lines(text.splitlines())) for each, text in rules]
        for path in (place / name for name in names):
            end = "/" if path.is_dir() else ""
            said = [spec.check_file(path.relative_to(at).as_posix() + end).include for at, spec in specs]
            if [each for each in said if each is not None][-1:] == [True]:
                found.add(path.name)
        return found

    shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True, ignore=ignored)
    for path in (target, *target.rglob("*")):
        if path.is_symlink():
            continue
        path.chmod(0o755 if path.is_dir() or path.suffix == ".sh" else path.stat().st_mode | 0o444)
        if path.is_file() and words:
            content = path.read_bytes()
            for old, new in words.items():
                content = content.replace(old.encode(), new.encode())
            path.write_bytes(content)


def refusal(task: HarborTask, without: Sequence[str] = ()) -> str | None:
    """Return why a task cannot run, naming the key of ``task.toml`` or the file; None if it can."""
    return next(_refusals(task, without), None)


def _refusals(task: HarborTask, without: Sequence[str]) -> Iterator[str]:
    config, folder = task.config, task.folder
    if (folder / "trajectory.json").is_file():
        yield "trajectory.json: a conversation before the first turn is not supported"
    yield from _unsupported("environment", config.environment)
    yield from _servers(task, without)
    for step in task.steps:
        tests = step.config.verifier.environment or config.environment
        yield from _unsupported("verifier.environment", tests)
        if step.config.verifier.network_mode not in (None, *NETWORKS):
            yield f"{CONFIG}: verifier.network_mode is {step.config.verifier.network_mode!r}; {_ONLY_NETWORKS}"
        yield from _other_containers(step.config)
        yield from _other_networks(step.config)
    if config.environment.docker_image is None and not has_dockerfile(task) and not has_compose(folder):
        yield "it has neither environment/Dockerfile nor environment.docker_image"
    for step in task.steps:
        is_brought = step.has_tests_image and step.tests_folder is None
        if not any((each / "test.sh").is_file() for each in step.tests) and not is_brought:
            yield f"it has no {(step.own_folder / 'tests' / 'test.sh').relative_to(folder)}"
    for place, variables in (
        ("environment.env", config.environment.env),
        *(("verifier.env", step.config.verifier.env) for step in task.steps),
        ("solution.env", config.solution.env),
    ):
        for name in missing_variables(variables):
            yield f"{CONFIG}: {place} needs the environment variable {name}"
    yield from _services(task, without)


def _services(task: HarborTask, without: Sequence[str]) -> Iterator[str]:
    """Yield why the services are not supported."""
    for folder in dict.fromkeys(each for step in task.steps for each in step.tests):
        place = folder / "docker-compose.yaml"
        if place.exists():
            yield f"{place.relative_to(task.folder)}: several containers for the tests are not supported"
    try:
        compose = compose_of(task, without)
    except ComposeError as error:
        yield str(error)
        return
    if compose is None:
        return
    config = task.config
    main = compose.main
    if not (config.environment.docker_image or has_dockerfile(task) or main.build or main.image):
        yield f"{COMPOSE}: services.main has neither image nor build, and there is no environment/Dockerfile"
    if any(step.config.verifier.is_separate and not step.has_tests_image for step in task.steps):
        yield f"{COMPOSE}: a separate verifier in the task's own image would need its own services"
    if config.environment.docker_image and (compose.main.build or compose.main.image == MAIN_IMAGE):
        yield f"{COMPOSE}: services.main is built, and environment.docker_image names another image; remove one"


def _servers(task: HarborTask, without: Sequence[str]) -> Iterator[str]:
    """Yield the MCP servers that cannot be reached."""
    tables = (step.config.verifier.environment for step in task.steps)
    if any(table is not None and table.mcp_servers for table in tables):
        yield f"{CONFIG}: verifier.environment.mcp_servers: tests have no MCP servers"
    names = Counter(each.name for each in task.config.environment.mcp_servers)
    for name, count in names.items():
        if count > 1:
            yield f"{CONFIG}: environment.mcp_servers: {count} servers of {task.task_id} are named {name!r}; rename one"
    for each in mcp_servers_of(task, without):
        place = f"{CONFIG}: environment.mcp_servers: {each.name}"
        if each.transport not in ("http", "streamable-http"):
            yield f"{place} has transport {each.transport!r}; only streamable-http is supported"
        elif each.headers:
            yield f"{place} has headers, which are not supported"
        elif _host(each) not in service_names(task.folder) - {MAIN}:
            yield f"{place}: {each.url} leads to no service of {COMPOSE}"


def mcp_servers_of(task: HarborTask, without: Sequence[str]) -> list[McpServerTable]:
    """Return the MCP servers of a task, but for those in services that are left out."""
    return [each for each in task.config.environment.mcp_servers if _host(each) not in without]


def _host(server: McpServerTable) -> str:
    try:
        return urlsplit(server.url or "").hostname or ""
    except ValueError:
        return ""


def _other_containers(config: TaskTable) -> Iterator[str]:
    """Yield the keys that name a service beside the agent's container."""
    for hook in config.verifier.collect:
        if hook.service != MAIN:
            yield f"{CONFIG}: verifier.collect: its service {hook.service!r} is another container"
    for each in config.artifacts:
        if isinstance(each, dict) and each.get("service", MAIN) != MAIN:
            yield f"{CONFIG}: artifacts: the service {each['service']!r} is another container"


def _other_networks(config: TaskTable) -> Iterator[str]:
    """Yield the phases whose network differs from that of their container."""
    phases = [("agent", config.agent.network_mode)]
    if not config.verifier.is_separate:
        phases.append(("verifier", config.verifier.network_mode))
    for place, mode in phases:
        if mode not in (None, config.environment.network):
            yield f"{CONFIG}: {place}.network_mode is {mode!r}: a network that changes between phases is not supported"


def _unsupported(place: str, table: EnvironmentTable) -> Iterator[str]:
    """Yield the keys of an environment that cannot be honoured."""
    if table.os.lower() != "linux":
        yield f"{CONFIG}: {place}.os is {table.os!r}; containers here are Linux"
    if table.gpus or table.tpu:
        yield f"{CONFIG}: {place}.{'gpus' if table.gpus else 'tpu'}: containers here have no accelerator"
    if table.memory is not None and table.total_memory_mb is None:
        yield f"{CONFIG}: {place}.memory is {table.memory!r}; write memory_mb with a number"
    if table.network not in NETWORKS:
        yield f"{CONFIG}: {place}.network_mode is {table.network!r}; {_ONLY_NETWORKS}"


def missing_variables(variables: Mapping[str, str]) -> list[str]:
    """Return the names of this process's environment variables that values ask for, have no default and are not set."""
    return [name for name, default in _asked(variables).values() if default is None and name not in os.environ]


def resolved(variables: Mapping[str, str]) -> dict[str, str]:
    """Return variables, with ``${NAME}`` and ``${NAME:-default}`` replaced from this process's environment."""
    return {
        **variables,
        **{key: os.environ.get(name, default or "") for key, (name, default) in _asked(variables).items()},
    }


def secrets_of_task(config: TaskTable) -> frozenset[str]:
    """Return the secrets among the values from this process's environment: by either name, or by their look."""
    steps = (each.verifier.env for each in config.steps)
    tables = (config.environment.env, config.verifier.env, config.solution.env, *steps)
    values = [
        {key: value, name: value}
        for table in tables
        for key, (name, _) in _asked(table).items()
        if (value := os.environ.get(name))
    ]
    return frozenset[str]().union(*map(given_secrets, values))


def _asked(variables: Mapping[str, str]) -> dict[str, tuple[str, str | None]]:
    """Return which variable of this process each value asks for, and the default."""
    matches = {key: _VARIABLE.fullmatch(value) for key, value in variables.items()}
    return {key: (match[1], match[2]) for key, match in matches.items() if match}


def without_canary(text: str) -> str:
    """Return an instruction without the canary comments at its beginning, and the empty lines after them."""
    lines = text.split("\n")
    start = 0
    while start < len(lines) and _CANARY.match(lines[start].strip()):
        start += 1
    while start < len(lines) and not lines[start].strip():
        start += 1
    return "\n".join(lines[start:])


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
