"""The export ``harbor``: variants as task folders in Harbor's format, which run without this program.

A folder is a copy of its task's folder with another ``instruction.md`` (of the first step, if there are several).
The format is that of harbor 0.25.
"""

import json
import re
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path

import msgspec

from lhaw_record.analytics.errors import UnknownName
from lhaw_record.analytics.exports.dataset_rows import chosen_variants
from lhaw_record.recorder.events.values import Variant
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.recorder.reading.registrations import Registrations

BENCHMARK = "harbor"
INSTRUCTION, CONFIG, VARIANTS = "instruction.md", "task.toml", "variants.toml"
LISTING = "variants.json"
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_STRINGS = (r'"""(?:\\.|[^\\])*?"""', r"'''.*?'''", r'"(?:\\.|[^"\\\n])*"', r"'[^'\n]*'")
_STRING = re.compile("|".join(_STRINGS), re.DOTALL)


class HarborFolder(msgspec.Struct, frozen=True, kw_only=True):
    """One folder to write: a copy of ``source``, unchanged for a task, or with the prompt of ``variant``.

    ``name`` ends with ``suffix``, which a variant adds to the names of its task. ``instruction`` is the prompt file,
    relative to ``source``; ``prefix`` is the text before the prompt, for example canary lines.
    """

    name: str
    source: Path
    suffix: str = ""
    instruction: Path = Path(INSTRUCTION)
    variant: Variant | None = None
    prefix: str = ""


class HarborFolders(msgspec.Struct, frozen=True, kw_only=True):
    """The folders of an export, and why variants were left out."""

    folders: tuple[HarborFolder, ...]
    left_out: tuple[str, ...]


def harbor_folders(
    store: Path, tasks: Path, experiment: str | None = None, *, selection: str | None = None
) -> HarborFolders:
    """Return the folders of a dataset's tasks and of their variants in a store, each task before its variants."""
    sources = _tasks_in(tasks)
    if not sources:
        raise UnknownName(f"no folder in {tasks} has a {CONFIG}; name the dataset that the variants were made from")
    chosen = None if selection is None else chosen_variants(store, selection, BENCHMARK)
    registrations = Registrations.read(read_snapshot(store))
    latest: dict[str, tuple[str, Variant]] = {}
    for each in registrations.of_experiment(experiment):
        if each.event.variant.benchmark == BENCHMARK and (chosen is None or each.event.variant_digest in chosen):
            latest[each.event.variant.variant_id] = each.event.variant_digest, each.event.variant
    made: dict[str, list[HarborFolder]] = {}
    left_out: dict[str, int] = {}
    for digest, variant in latest.values():
        task, source = registrations.task_of(digest, experiment), sources.get(variant.task_id)
        place = _instruction_of(source) if source else Path(INSTRUCTION)
        instruction = _text(source / place).replace("\r\n", "\n").replace("\r", "\n") if source else ""
        if variant.follow_up is not None or variant.environment_change is not None:
            reason = "with a second request or another environment, which a plain folder cannot contain"
        elif source is None:
            reason = "whose task is not in the dataset"
        elif task is None or not task.prompt or not instruction.endswith(task.prompt):
            reason = f"made from another {INSTRUCTION} than the dataset has"
        else:
            base = _UNSAFE.sub("-", _place_of(source, tasks)).strip(".-")
            folders = made.setdefault(variant.task_id, [HarborFolder(name=base, source=source)])
            prefix = instruction.removesuffix(task.prompt)
            taken = {folder.name for folder in folders} | {path.name for path in sources.values()}
            suffix = _suffix_of(variant, base, taken)
            folders.append(
                HarborFolder(
                    name=base + suffix,
                    source=source,
                    suffix=suffix,
                    instruction=place,
                    variant=variant,
                    prefix=prefix,
                )
            )
            continue
        left_out[reason] = left_out.get(reason, 0) + 1
    return HarborFolders(
        folders=tuple(folder for _, folders in sorted(made.items()) for folder in folders),
        left_out=tuple(f"{n} variants {reason}" for reason, n in left_out.items()),
    )


def write_harbor_folders(folders: tuple[HarborFolder, ...], target: Path) -> None:
    """Write folders, and ``variants.json`` with what each lacks, into an empty folder.

    A variant's folder has no ``variants.toml``, which would reveal what is missing. It has its own name in
    ``task.toml``, because Harbor groups trials by that name.
    """
    for folder in folders:
        copied = target / folder.name
        shutil.copytree(folder.source, copied, symlinks=True)
        if folder.variant is not None:
            config = renamed(_text(folder.source / CONFIG), folder.suffix, str(folder.source / CONFIG))
            prompt = folder.prefix + folder.variant.prompt
            for name, text in ((folder.instruction, prompt), (CONFIG, config), (VARIANTS, "")):
                (copied / name).unlink(missing_ok=True)  # it may be a link to the dataset's own
                if text:
                    (copied / name).write_text(text, encoding="utf-8", newline="")
    listing = [_described(folder.name, folder.variant) for folder in folders if folder.variant]
    (target / LISTING).write_text(json.dumps(listing, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def renamed(config: str, suffix: str, place: str) -> str:
    """Return the text of a ``task.toml`` with a suffix on ``[task].name``; unchanged if it has no name.

    TOML allows many spellings of the key, so the suffix goes into the one string for which nothing else changes.
    """
    try:
        wanted = tomllib.loads(config)
    except tomllib.TOMLDecodeError as error:
        raise UnknownName(f"{place} is not TOML: {error}; correct it") from error
    table = wanted.get("task")
    name = table.get("name") if isinstance(table, dict) else None
    if not isinstance(name, str) or not name:
        return config
    wanted["task"]["name"] = name + suffix
    for start in (place for place, letter in enumerate(config) if letter in "\"'"):
        found = _STRING.match(config, start)
        if found is not None:
            end = found.end() - (3 if found[0][:3] in ('"""', "'''") else 1)
            text = f"{config[:end]}{suffix}{config[end:]}"
            if _is_toml_of(text, wanted):
                return text
    raise UnknownName(f"{place}: [task] name = {name!r} cannot be changed; write it as one plain string")


def _is_toml_of(text: str, wanted: Mapping[str, object]) -> bool:
    try:
        return tomllib.loads(text) == wanted
    except tomllib.TOMLDecodeError:
        return False


def _described(name: str, variant: Variant) -> Mapping[str, object]:
    return {
        "folder": name,
        "task_id": variant.task_id,
        "variant_id": variant.variant_id,
        "origin": variant.origin,
        "severity": variant.severity,
        "fault": variant.fault,
        "ambiguity_class": variant.ambiguity_class,
        "removed_segments": msgspec.to_builtins(variant.segments),
        "expected_questions": msgspec.to_builtins(variant.expected_questions),
    }


def _tasks_in(tasks: Path) -> dict[str, Path]:
    """Return the task folders of a dataset by their ids: a name, or else a place. If there are none, search deeper."""
    here = [tasks] if _is_task(tasks) else list(filter(_is_task, _entries(tasks)))
    found = here or [path.parent for path in tasks.rglob(CONFIG)]
    return {_own_name(path) or _place_of(path, tasks): path for path in sorted(found)}


def _place_of(task: Path, tasks: Path) -> str:
    return task.name if task == tasks else task.relative_to(tasks).as_posix()


def _own_name(task: Path) -> str | None:
    """Return a task's ``[task] name``, if it has one. A broken ``task.toml`` is reported by ``renamed``."""
    try:
        match tomllib.loads(_text(task / CONFIG)):
            case {"task": {"name": str(name)}}:
                return name
    except tomllib.TOMLDecodeError:
        pass
    return None


def _suffix_of(variant: Variant, base: str, taken: set[str]) -> str:
    """Return what makes the name of a task's folder a unique one that Harbor accepts."""
    own = _UNSAFE.sub("-", variant.variant_id.removeprefix(f"{variant.task_id}/")).strip(".-") or "variant"
    suffix, number = f"--{own}", 1
    while base + suffix in taken:
        number += 1
        suffix = f"--{own}-{number}"
    return suffix


def _is_task(path: Path) -> bool:
    return (path / CONFIG).is_file()


def _instruction_of(task: Path) -> Path:
    """Return the path of a task's prompt in its folder. A broken ``task.toml`` is reported by ``renamed``."""
    try:
        steps = tomllib.loads(_text(task / CONFIG)).get("steps")
    except tomllib.TOMLDecodeError:
        return Path(INSTRUCTION)
    match steps:
        case [{"name": str(first)}, *_]:
            return Path("steps", first, INSTRUCTION)
    return Path(INSTRUCTION)


def _entries(folder: Path) -> list[Path]:
    return list(folder.iterdir()) if folder.is_dir() else []


def _text(path: Path) -> str:
    """Return a file's text with unchanged line endings, empty if there is no such file."""
    return path.read_bytes().decode(errors="replace") if path.is_file() else ""
