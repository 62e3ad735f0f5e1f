"""The catalog of MCP servers: packages and pins, installation folders, start commands, and credentials."""

import json
import os
import re
import shutil
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Literal

import msgspec

from lhaw_record.recorder.resources import data_path, home, installation_folder
from lhaw_record.runners.base.errors import ExperimentError

SERVERS_VARIABLE = "LHAW_RECORD_MCP_SERVERS"
COMPLETE_MARK = "complete"
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64")
"""The folders of this machine that every confined server can read."""
_LANGUAGE = re.compile(r"/bin/(python[0-9.]*t?|node(js)?)$")


class ServerSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One server: its package and pinned version, its program, and how to start it.

    ``environment`` names the virtual environment of a Python server. If ``program`` is empty, an npm package's own
    program is used, as npx would. ``is_core`` marks the servers that the live tasks and tests need, which are installed
    by default. Values of ``arguments`` and ``variables`` may refer to credentials in environment variables as
    ``${NAME}``. These are filled in when the server is started and are never part of a digest or a file. ``folder``,
    ``protocol`` and ``readable`` are only set for the user's own servers (:mod:`mcp_atlas.own_servers`).
    """

    kind: Literal["pip", "npm", "own"]
    package: str
    version: str
    program: str = ""
    arguments: tuple[str, ...] = ()
    variables: dict[str, str] = {}
    environment: str | None = None
    is_core: bool = False
    needs_network: bool = False
    name: str = ""
    protocol: str = ""
    folder: Path | None = None
    readable: tuple[Path, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The command line of a user's own server, as written."""
        return (self.program, *self.arguments)


class PythonEnvironment(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The requirements that all servers of one virtual environment share."""

    requirements: tuple[str, ...]


class ContainerServers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The servers of the published container, with the variables of servers that have no ``ServerSpec``."""

    servers: tuple[str, ...]
    variables: dict[str, tuple[str, ...]]


class ServerCatalog(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Every server name that rows may use: the servers that can run here, and the reasons why the others cannot."""

    environments: dict[str, PythonEnvironment]
    servers: dict[str, ServerSpec]
    unavailable: dict[str, str]
    container: ContainerServers

    def split(self, tool: str) -> tuple[str, str] | None:
        """Split ``<server>_<tool>`` at the longest known server name. Return None if no server name matches.

        Server names contain hyphens, tool names contain underscores, and some names repeat themselves, as in
        ``git_git_log``. Only a list of server names can therefore decide where to split.
        """
        fitting = [name for name in (*self.servers, *self.unavailable) if tool.startswith(name + "_")]
        if not fitting:
            return None
        server = max(fitting, key=len)
        return server, tool[len(server) + 1 :]


@lru_cache(maxsize=1)
def catalog() -> ServerCatalog:
    """Return the bundled catalog of servers."""
    raw = tomllib.loads(data_path("mcp_atlas", "servers.toml").read_text(encoding="utf-8"))
    for name, entry in raw["servers"].items():
        entry["name"] = name
    return msgspec.convert(raw, ServerCatalog)


def servers_directory() -> Path:
    """Return the folder in which servers are installed."""
    return installation_folder(SERVERS_VARIABLE, "mcp-servers")


def installed_version(spec: ServerSpec, directory: Path) -> str | None:
    if spec.kind == "own":
        return spec.version if own_program(spec) else None
    if spec.kind == "npm":
        manifest = npm_package(spec, directory) / "package.json"
        return str(json.loads(manifest.read_text(encoding="utf-8"))["version"]) if manifest.is_file() else None
    python = environment_python(spec, directory)
    if not (python.parent.parent / COMPLETE_MARK).is_file():  # an interrupted installation counts as none
        return None
    return distribution_version(python, spec.package)


def distribution_version(python: Path, package: str) -> str | None:
    """Return the version of a package in the virtual environment of ``python``, or None, without starting Python."""
    stem = package.replace("-", "_").lower()
    for found in python.parent.parent.glob("lib/python*/site-packages/*.dist-info"):
        name, _, version = found.name.removesuffix(".dist-info").partition("-")
        if name.lower() == stem and (found / "METADATA").is_file():
            return version
    return None


def command_of(spec: ServerSpec, directory: Path) -> list[str]:
    """Return the command line that starts an installed server. Every program is given by its absolute path."""
    if installed_version(spec, directory) is None:
        raise ExperimentError(
            f"MCP server {spec.name} ({spec.package} {spec.version}) is not installed in {directory}; "
            f"{how_to_install(spec)}, or set {SERVERS_VARIABLE} to the folder that holds it"
        )
    if spec.kind == "own":
        return [str(own_program(spec)), *(str(_own_file(spec, word) or word) for word in spec.arguments)]
    if spec.kind == "npm":
        return [_node(), str(_npm_program(spec, directory)), *spec.arguments]
    python = environment_python(spec, directory)
    return [str(python), str(python.parent / spec.program), *spec.arguments]


def how_to_install(spec: ServerSpec) -> str:
    """Return the command that installs a server, for messages."""
    if spec.kind == "own":
        return f"{spec.program} is neither a program on PATH nor a file in {spec.folder}: install it, or fix 'command'"
    own = f"python -m lhaw_record.runners.environments.benchmarks.mcp_atlas.install {spec.name}"
    return "run `make mcp-servers`" if spec.is_core else f"run `{own}`"


def environment_python(spec: ServerSpec, directory: Path) -> Path:
    """Return the Python interpreter of the virtual environment that contains a server."""
    return directory / f"python-{spec.environment}" / "bin" / "python"


def npm_package(spec: ServerSpec, directory: Path) -> Path:
    """Return the folder of an npm server's package."""
    return directory / "npm" / "node_modules" / spec.package


def runtime_roots(spec: ServerSpec, directory: Path) -> list[Path]:
    """Return the folders outside the system that a server must be able to read."""
    if spec.kind == "own":
        return [
            *_homes(own_program(spec)),
            *filter(None, (_own_file(spec, word) for word in spec.words)),
            *spec.readable,
        ]
    roots = [directory]
    if spec.kind == "npm":
        roots.append(Path(_node()).resolve().parent.parent)
    else:
        roots.append(environment_python(spec, directory).resolve().parent.parent)
    return roots


def own_program(spec: ServerSpec) -> Path | None:
    """Return the program of a user's own server, from the server's folder or else from PATH, or None."""
    found = _own_file(spec, spec.program) or shutil.which(spec.program)
    return Path(found).absolute() if found else None


def unreadable_program(spec: ServerSpec) -> Path | None:
    """Return the program of a user's own server if the server may not read it, else None."""
    program = own_program(spec)
    if program is None:
        return None
    roots = [*map(Path, SYSTEM_FOLDERS), *runtime_roots(spec, Path())]
    return None if any(program.is_relative_to(root) for root in roots) else program


def _homes(program: Path | None) -> Iterator[Path]:
    """Yield the virtual environment of a program, and the installation of its Python or Node.js."""
    if program is None:
        return
    environment = program.parent.parent
    if (environment / "pyvenv.cfg").is_file():
        yield environment
        program = environment / "bin" / "python"
    installation = program.resolve().parent.parent
    is_language = _LANGUAGE.search(str(program.resolve())) is not None
    if is_language and not home().is_relative_to(installation):  # never a home folder, or the root
        yield installation


def _own_file(spec: ServerSpec, word: str) -> Path | None:
    """Return the file in the server's folder that a word of its command names, or None."""
    assert spec.folder is not None
    return spec.folder / word if is_file_of(spec.folder, word) else None


def is_file_of(folder: Path, word: str) -> bool:
    """Return whether a word of a command is the relative path of a file in a folder."""
    return not Path(word).is_absolute() and (folder / word).is_file()


def _npm_program(spec: ServerSpec, directory: Path) -> Path:
    package = npm_package(spec, directory)
    programs = json.loads((package / "package.json").read_text(encoding="utf-8"))["bin"]
    if isinstance(programs, str):
        return package / programs
    named = spec.program or (next(iter(programs)) if len(programs) == 1 else spec.package.rpartition("/")[2])
    return package / str(programs[named])


def _node() -> str:
    node = shutil.which("node")
    if node is None:
        raise ExperimentError("node is not on PATH; install Node.js 18 or later to run the npm MCP servers")
    return node


_NAMED = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_SHORTEST_SECRET = 8  # redacting shorter values would hit ordinary words


def credentials_of(spec: ServerSpec) -> tuple[str, ...]:
    """Return the names of the environment variables that a server needs, in the order of the catalog."""
    texts = (*spec.arguments, *spec.variables.values())
    return tuple(dict.fromkeys(name for text in texts for name in _NAMED.findall(text)))


def missing_credentials(spec: ServerSpec) -> tuple[str, ...]:
    """Return the names of the environment variables that a server needs and that are unset or empty."""
    return _unset(credentials_of(spec))


def missing_in_container(name: str) -> tuple[str, ...]:
    """Return the names of the unset or empty environment variables that a server of the container needs."""
    return _unset(_needed_in_container(name))


def variables_in_container(names: Iterable[str]) -> dict[str, str]:
    """Return the environment variables that the named servers of the container need."""
    return {each: os.environ.get(each, "") for name in names for each in _needed_in_container(name)}


def _needed_in_container(name: str) -> tuple[str, ...]:
    spec = catalog().servers.get(name)
    return credentials_of(spec) if spec else catalog().container.variables.get(name, ())


def _unset(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name for name in names if not os.environ.get(name))


def with_credentials(text: str) -> str:
    """Return a text of the catalog with its environment variables filled in. Unset variables become empty."""
    return _NAMED.sub(lambda match: os.environ.get(match[1], ""), text)


def secrets_of_servers(known: ServerCatalog, environment: Mapping[str, str]) -> frozenset[str]:
    """Return the values of all servers' credentials, so that they can be redacted if a server repeats them."""
    of_container = (name for names in known.container.variables.values() for name in names)
    names = {name for spec in known.servers.values() for name in credentials_of(spec)} | set(of_container)
    return frozenset(value for name in names if len(value := environment.get(name, "")) >= _SHORTEST_SECRET)
