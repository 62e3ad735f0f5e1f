"""Decide from files, without starting a server, which rows can run on this machine and why the others cannot."""

import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

import msgspec

from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.environments.benchmarks.mcp_atlas.confinement import DATA_MOUNT
from lhaw_record.runners.environments.benchmarks.mcp_atlas.rows import Row
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
    ServerCatalog,
    ServerSpec,
    catalog,
    how_to_install,
    installed_version,
    missing_credentials,
    missing_in_container,
    unreadable_program,
)


class Needs(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The servers and data folder entries that a task needs.

    ``problem`` is a known reason why the task cannot be reproduced, or None.
    """

    servers: tuple[str, ...]
    data: tuple[str, ...] = ()
    problem: str | None = None


class Availability(msgspec.Struct, frozen=True, kw_only=True):
    """Whether one row can run.

    ``needed`` is None if it is unknown which of the enabled servers the row uses. Only one of ``servers`` (installed
    servers to start) and ``in_container`` (names of the container's servers) is set.
    """

    needed: tuple[str, ...] | None
    servers: tuple[ServerSpec, ...]
    reasons: tuple[str, ...]
    in_container: tuple[str, ...] = ()

    @property
    def is_runnable(self) -> bool:
        """Whether nothing prevents the row from running."""
        return not self.reasons


class AtlasInstallation(msgspec.Struct, frozen=True, kw_only=True):
    """The installation that rows run on.

    If ``is_container`` is true, ``data`` and ``servers`` are ignored: the container has its own.
    ``catalog`` includes the user's own servers. If ``is_confined`` is false, servers may read every program.
    """

    data: Path
    servers: Path
    is_container: bool = False
    has_network: bool = False
    is_confined: bool = True
    catalog: ServerCatalog = msgspec.field(default_factory=catalog)


@lru_cache(maxsize=1)
def known_needs() -> dict[str, Needs]:
    """Return the bundled table of what each task needs, keyed by task id."""
    text = data_path("mcp_atlas", "needs.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), dict[str, Needs])


def availability(row: Row, place: AtlasInstallation) -> Availability:
    """Return whether a row can run on an installation, which servers to start, and every reason why it cannot."""
    known = known_needs().get(row.task_id)
    needed = _needed(row, known, place.catalog)
    enabled = {split[0] for tool in row.enabled_tools if (split := place.catalog.split(tool))}
    servers, in_container = [], []
    reasons = [] if row.claims else ["it has no claims, so it cannot be graded"]
    if known and known.problem:
        reasons.append(known.problem)
    for name in sorted(enabled | set(needed or ())):
        spec = place.catalog.servers.get(name)
        problems = list(_problems_in_container(name, place) if place.is_container else problems_of(name, spec, place))
        is_needed = needed is None or name in needed
        if not problems and place.is_container:
            in_container.append(name)
        elif not problems and spec is not None:
            servers.append(spec)
        elif is_needed:
            reasons += problems
    unknown = sorted(tool for tool in row.enabled_tools if place.catalog.split(tool) is None)
    if unknown and needed is None:
        reasons.append(f"unknown server of tool {unknown[0]}; describe it in own_servers")
    if not place.is_container:
        reasons += [f"data missing: {entry}" for entry in _data(row, known) if not (place.data / entry).exists()]
    return Availability(needed=needed, servers=tuple(servers), in_container=tuple(in_container), reasons=tuple(reasons))


def _needed(row: Row, known: Needs | None, servers: ServerCatalog) -> tuple[str, ...] | None:
    """Return the servers that a task uses, from the bundled table, the row's own column, or its trajectory."""
    if known:
        return known.servers
    if row.required_servers:
        return row.required_servers
    if not row.trajectory:  # a row without calls does not say that the task needs none
        return None
    names = [servers.split(call.name) for call in row.trajectory]
    return tuple(dict.fromkeys(split[0] for split in names if split))


def problems_of(name: str, spec: ServerSpec | None, place: AtlasInstallation) -> Iterator[str]:
    """Yield every reason why a server cannot run on an installation. Each reason says how to fix it."""
    if spec is None:
        yield f"server {name} {place.catalog.unavailable.get(name, 'is unknown; describe it in own_servers')}"
        return
    if spec.needs_network and not place.has_network:
        yield f"server {name} needs the network; allow_network = true gives it to such servers"
    if installed_version(spec, place.servers) is None:
        yield f"server {name} is not installed; {how_to_install(spec)}"
    elif spec.kind == "own" and place.is_confined and (hidden := unreadable_program(spec)):
        yield f"server {name} cannot read its program {hidden}; add the folder of its installation to 'readable'"
    missing = missing_credentials(spec)
    if missing:
        yield f"server {name} needs credentials in the environment: set {', '.join(missing)}"


def _problems_in_container(name: str, place: AtlasInstallation) -> Iterator[str]:
    """Yield every reason why a server of the published container cannot run. Each reason says how to fix it."""
    if name not in catalog().container.servers:
        yield f"server {name} is not in the container"
        return
    spec = catalog().servers.get(name)
    if (spec is None or spec.needs_network) and not place.has_network:
        yield f"server {name} needs the network; allow_network = true gives it to the container"
    missing = missing_in_container(name)
    if missing:
        yield f"server {name} needs credentials in the environment: set {', '.join(missing)}"


def _data(row: Row, known: Needs | None) -> list[str]:
    """Return the data entries that a row needs, from the bundled table or from the paths in its trajectory."""
    if known:
        return list(known.data)
    prefix = DATA_MOUNT + "/"
    texts = [value for call in row.trajectory or () for value in call.arguments.values() if isinstance(value, str)]
    return sorted({text.removeprefix(prefix) for text in texts if text.startswith(prefix) and "\n" not in text})
