"""Own servers: a TOML file with their commands, for tools that are in no published row."""

import hashlib
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from lhaw_record.recorder.events.canonical_json import short_digest
from lhaw_record.runners.base.errors import ExperimentError
from lhaw_record.runners.environments.benchmarks.mcp_atlas.specs import (
    SYSTEM_FOLDERS,
    ServerCatalog,
    ServerSpec,
    is_file_of,
    runtime_roots,
)
from lhaw_record.runners.experiment.decoding import key_problem

_PAGE = "docs/benchmarks/mcp-atlas.md"
_Name = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9_-]*$")]


class OwnServer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One server, with the keys that MCP clients have for it, and what it may see.

    Args:
        command: Its program: a file beside this one, or a name on PATH.
        args: The program's arguments. Files are relative to this one's folder.
        env: Its environment. ``${NAME}`` takes a variable from the environment here.
        version: Part of a trial's identity, besides the command and the files that the command names.
        readable: Folders that it may read, relative to this one's.
        needs_network: Whether it needs the network, which ``allow_network`` gives it.
        protocol: The version of MCP in which it is spoken to, if not by a handshake.
    """

    command: Annotated[str, msgspec.Meta(min_length=1)]
    args: tuple[str, ...] = ()
    env: dict[str, str] = {}
    version: str = ""
    readable: tuple[str, ...] = ()
    needs_network: bool = False
    protocol: Literal["", "2026-07-28"] = ""


class OwnServers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    servers: dict[_Name, OwnServer]


def read_own_servers(path: Path) -> tuple[ServerSpec, ...]:
    """Return the servers of a file."""
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
        read = msgspec.convert(raw, OwnServers)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ExperimentError(f"key 'benchmark.own_servers': {path} cannot be read: {error}") from error
    except msgspec.ValidationError as error:
        raise ExperimentError(f"{path}: {key_problem(error, OwnServers, raw, _PAGE)}") from error
    return tuple(_spec(name, server, path) for name, server in read.servers.items())


def _spec(name: str, server: OwnServer, path: Path) -> ServerSpec:
    folder = path.resolve().parent
    readable = tuple((folder / each).resolve() for each in server.readable)
    for each in readable:
        if not each.exists():
            raise ExperimentError(f"{path}: key 'servers.{name}.readable': {each} does not exist")
    try:
        files = {word: _digest(folder / word) for word in (server.command, *server.args) if _is_hashed(folder, word)}
    except OSError as error:
        raise ExperimentError(f"{path}: server {name}: {error.filename} cannot be read: {error.strerror}") from error
    return ServerSpec(
        kind="own",
        name=name,
        package=server.command,
        version=f"{server.version or 'unversioned'}+{short_digest(files)[:12]}{server.protocol}",
        program=server.command,
        arguments=server.args,
        variables=server.env,
        needs_network=server.needs_network,
        protocol=server.protocol,
        folder=folder,
        readable=readable,
    )


def _is_hashed(folder: Path, word: str) -> bool:
    """Return whether a word of a command names a file that is part of the server's identity: all but the system's."""
    is_of_system = any((folder / word).resolve().is_relative_to(each) for each in SYSTEM_FOLDERS)
    return is_file_of(folder, word) or (Path(word).is_file() and Path(word).is_absolute() and not is_of_system)


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def with_own(known: ServerCatalog, own: Sequence[ServerSpec]) -> ServerCatalog:
    """Return a catalog with the user's own servers, which replace others of the same name."""
    return msgspec.structs.replace(known, servers={**known.servers, **{spec.name: spec for spec in own}})


def files_of(known: ServerCatalog) -> tuple[Path, ...]:
    """Return the files beside a file of servers that their commands name, and the folders that they may read."""
    found: set[Path] = set()
    for spec in known.servers.values():
        if spec.folder is not None:
            words = (spec.program, *spec.arguments)
            found.update(spec.readable, (spec.folder / word for word in words if is_file_of(spec.folder, word)))
    return tuple(sorted(found))


def refuse_shown_answers(known: ServerCatalog, rows: Sequence[Path]) -> None:
    """Refuse a server that may read a rows file: its tools could show an agent the claims."""
    for spec in (each for each in known.servers.values() if each.kind == "own"):
        for root in runtime_roots(spec, Path()):
            shown = next((path for path in rows if path.resolve().is_relative_to(root.resolve())), None)
            if shown:
                raise ExperimentError(
                    f"key 'benchmark.own_servers': server {spec.name} may read {root} (its program's installation, a "
                    f"file of its command, or 'readable'), and with it the answers in {shown}; move the rows away"
                )
