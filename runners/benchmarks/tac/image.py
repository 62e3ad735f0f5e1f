"""Which files of a published task folder its agent gets: those that the Dockerfile copies to the agent's directories.

The images keep three places apart: ``/instruction`` and ``/workspace`` are the agent's, ``/utils`` is the grader's and
``/npc`` that of the simulated colleagues, and an agent must not look there (base image of TheAgentCompany 1.0.0).
"""

import json
import posixpath
import re
import shlex
from collections.abc import Iterator

import msgspec

WORKSPACE = "/workspace"  # also the directory that a relative target starts from
_AGENTS = (WORKSPACE, "/instruction")
_COPY = ("COPY", "ADD")


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """One source of a ``COPY``, relative to the task's folder, and the absolute path in the image that it goes to.

    ``is_into`` says that a file keeps its name below that path; of a folder the contents always go below it.
    """

    source: str
    target: str
    is_into: bool


class AgentFiles(msgspec.Struct, frozen=True, kw_only=True):
    """What a Dockerfile gives the agent. ``reason`` says why nothing can be said of it, else it is None."""

    copied: tuple[Copied, ...] = ()
    reason: str | None = None


def agent_files(dockerfile: str) -> AgentFiles:
    """Return what a task's Dockerfile copies to the agent.

    Where a command of the build touches these directories, what was copied is not what the agent finds, and nothing
    is returned.
    """
    copied: list[Copied] = []
    for name, rest in _instructions(dockerfile):
        if name in _COPY:
            copied += [each for each in _copies(rest) if _is_agents(each.target)]
        elif name == "RUN" and copied and any(place in rest for place in _AGENTS):
            return AgentFiles(reason="a command of its Dockerfile changes the agent's directory after copying to it")
    return AgentFiles(copied=tuple(copied))


def _instructions(dockerfile: str) -> Iterator[tuple[str, str]]:
    """Every instruction with what follows it, lines that are continued joined, comments left out."""
    lines = (line for line in dockerfile.splitlines() if not line.lstrip().startswith("#"))
    for line in re.sub(r"\\\s*\n", " ", "\n".join(lines)).splitlines():
        name, _, rest = line.strip().partition(" ")
        if name:
            yield name.upper(), rest.strip()


def _copies(rest: str) -> Iterator[Copied]:
    """The sources of one instruction with their targets; those of another image or of the network left out."""
    try:
        words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    except ValueError:
        return
    if any(word.startswith("--from") for word in words):
        return
    *sources, target = [word for word in words if not word.startswith("--")] or [""]
    path = posixpath.normpath(posixpath.join(WORKSPACE, target))
    is_into = target.endswith("/") or len(sources) > 1 or path in _AGENTS
    for source in sources:
        if "://" not in source:
            yield Copied(source=source.strip("/"), target=path, is_into=is_into)


def _is_agents(path: str) -> bool:
    return any(path == place or path.startswith(f"{place}/") for place in _AGENTS)
