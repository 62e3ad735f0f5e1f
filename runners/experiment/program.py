"""The entry of an external program that acts as an agent.

An entry has the command, environment and files as templates, and says how the program calls models and asks the user.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import Any, Literal

import msgspec

from lhaw_record.runners.experiment.values import ThreadRules

PLACEHOLDERS = (
    "prompt",
    "prompt_file",
    "model",
    "base_url",
    "base_url_v1",
    "token",
    "mcp_url",
    "mcp_config",
    "mcp_bridge",
    "workdir",
    "home",
    "bin",
)
"""The names that a template may have in braces. ``{{`` and ``}}`` are literal braces."""

ASKING = "{asking}"
"""The argument of a command that is replaced by the arguments of ``[asking]``. Without it, they are appended."""

GATEWAY_VARIABLES = {
    "OPENAI_BASE_URL": "{base_url_v1}",
    "OPENAI_API_KEY": "{token}",
    "ANTHROPIC_BASE_URL": "{base_url}",
    "ANTHROPIC_API_KEY": "{token}",
}
"""The variables by which most clients find the gateway, as templates."""

Host = Literal["process", "acp"]
ACP_HOST_VERSION = 1
"""Raise it when our ACP host sends or answers agents something else, which makes their trials different trials."""
AsksBy = Literal["built_in", "mcp", "prose", "none"]

FOUND = ("install_digest", "found_version", "found_content")
"""The keys of an entry that a file may not set, because planning an experiment fills them in."""

_OF_THE_PROMPT = frozenset({"prompt", "prompt_file"})


class _Table(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the tables of an entry. An unknown key is an error."""


class InstallSpec(_Table, frozen=True):
    """The pinned packages that ``lhaw-record agents install`` installs, and a script that it copies beside them.

    They get a folder of their own. The script's path is relative to the entry's file. ``python`` is the version of
    Python that the packages of ``pip`` and the script need, such as 3.12. Without it, they get the one that runs us.
    """

    pip: tuple[str, ...] = ()
    python: str = ""
    npm: tuple[str, ...] = ()
    script: str = ""


class AskingSpec(_Table, frozen=True):
    """What is added to a program's command, environment and files only where it gets tools over MCP.

    That is in conditions with ``ask_user``, and where the benchmark offers its own tools.
    """

    command: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    files: dict[str, str] = msgspec.field(default_factory=dict)


class BuiltInSpec(AskingSpec, frozen=True):
    """The program's own tool that asks its user, and what turns it on. It is added where the trial's user answers it.

    ``tool`` is the name that its model sees.
    """

    tool: str = ""


class AcpSpec(_Table, frozen=True):
    """The mode of an ACP session, in the agent's own words, and how its requests for approval are answered."""

    mode: str = ""
    approvals: Literal["allow", "reject"] = "allow"


class ProgramSpec(_Table, frozen=True):
    """The entry of an external program that acts as an agent.

    ``host`` says how it is run: as a process that gets a prompt and ends, or as an agent that speaks ACP on its
    standard input and output. ``asks_by`` says how it asks its user; an agent of an experiment may say otherwise.
    ``resume`` is the command that goes on with the session that ``command`` began, with the user's turn as its prompt.
    ``answer`` says where the final answer is: ``last_message``, ``stdout`` or ``file:PATH`` below the work directory.
    ``threads`` declares which requests belong together. ``name`` is the entry's name, and the name of its package
    folder begins with it. If ``leased`` is set, there is no command: the client that leases a trial from
    the daemon is the agent. Planning an experiment fills in three keys: ``install_digest`` over what is installed,
    ``found_version``, and ``found_content`` with the digests of what will run.
    """

    command: tuple[str, ...] = ()
    resume: tuple[str, ...] = ()
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    files: dict[str, str] = msgspec.field(default_factory=dict)
    asking: AskingSpec = AskingSpec()
    built_in: BuiltInSpec = BuiltInSpec()
    host: Host = "process"
    acp: AcpSpec = AcpSpec()
    answer: str = "last_message"
    wire: Literal["chat", "responses", "messages", "gemini"] | None = None
    asks_by: AsksBy = "none"
    ask_user_tool: str = ""
    mounts: tuple[str, ...] = ()
    install: InstallSpec = InstallSpec()
    threads: ThreadRules = ThreadRules()
    version: tuple[str, ...] = ()
    about: str = ""
    name: str = ""
    leased: bool = False
    install_digest: str | None = None
    found_version: str | None = None
    found_content: str | None = None

    @property
    def takes_prompt_on_stdin(self) -> bool:
        """Whether the program gets the prompt on standard input, because no template contains it."""
        return not any(_OF_THE_PROMPT & placeholders_in(text) for _, text in templates_of(self))

    @property
    def resumed(self) -> "ProgramSpec":
        """The program as it goes on with its session."""
        return msgspec.structs.replace(self, command=self.resume, resume=())

    @property
    def goes_on(self) -> bool:
        """Whether it can be given another turn of the user in the same session."""
        return self.host == "acp" or bool(self.resume)

    @property
    def takes_mcp(self) -> bool:
        """Whether it can get tools over MCP: as its entry says, or by ACP itself."""
        return self.asks_by == "mcp" or self.asking != AskingSpec() or self.host == "acp"

    @property
    def title(self) -> str:
        """The entry's name, or else the command's first word, followed by the version and content if they are known."""
        found = ", ".join(each for each in (self.found_version, self.found_content) if each)
        return f"{self.name or Path(next(iter(self.command), 'leased')).name} {found}".strip()

    @property
    def host_version(self) -> str:
        """What runs it: ``process``, or the name and version of our host."""
        return self.host if self.host == "process" else f"{self.host}/{ACP_HOST_VERSION}"

    def identity(self) -> dict[str, Any]:
        """Return what must be equal for trials to be comparable: command, version and content, without folders."""
        left_out = {"mounts", "install", "install_digest", "version", "about"}
        if not self.leased:
            left_out.add("name")  # nothing else is known of what runs elsewhere
        known = {name: value for name, value in msgspec.to_builtins(self).items() if name not in left_out}
        return {**known, "host": self.host_version}


class FilledProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program's templates with the values of one trial filled in. The paths in ``files`` are relative to HOME."""

    argv: tuple[str, ...]
    environment: dict[str, str]
    files: dict[str, str]


def filled(
    spec: ProgramSpec, values: Mapping[str, str], *, has_tools: bool, has_built_in: bool = False
) -> FilledProgram:
    """Fill in the templates: also ``[asking]`` with tools over MCP, ``[built_in]`` where its own tool is answered."""
    added = [part for part, is_needed in ((spec.asking, has_tools), (spec.built_in, has_built_in)) if is_needed]
    at = spec.command.index(ASKING) if ASKING in spec.command else len(spec.command)
    command = (*spec.command[:at], *(text for part in added for text in part.command), *spec.command[at + 1 :])
    environment, files = dict(spec.environment), dict(spec.files)
    for part in added:
        environment |= part.environment
        files |= part.files
    return FilledProgram(
        argv=tuple(text.format_map(values) for text in command),
        environment={name: text.format_map(values) for name, text in environment.items()},
        files={name: text.format_map(values) for name, text in files.items()},
    )


def mcp_config(url: str | None, token: str) -> str:
    """Return the text of a file that names the ``ask_user`` server to an MCP client. Without a URL, it names none."""
    headers = {"Authorization": f"Bearer {token}"}
    servers = {"user": {"type": "http", "url": url, "headers": headers}} if url else {}
    return json.dumps({"mcpServers": servers}, indent=1)


def parts_of(spec: ProgramSpec) -> tuple[tuple[str, ProgramSpec | AskingSpec], ...]:
    """Return an entry and its tables with a command, environment and files, each with the prefix of its keys."""
    return ("", spec), ("asking.", spec.asking), ("built_in.", spec.built_in)


def templates_of(spec: ProgramSpec) -> Iterator[tuple[str, str]]:
    """Yield every template of a program, each with its key."""
    for prefix, part in parts_of(spec):
        for index, text in enumerate(part.command):
            if text != ASKING or prefix:
                yield f"{prefix}command[{index}]", text
        for name, text in part.environment.items():
            yield f"{prefix}environment.{name}", text
        for name, text in part.files.items():
            yield f"{prefix}files.{name!r}", text


def placeholders_in(text: str) -> frozenset[str]:
    fields = [field for field in Formatter().parse(text) if field[1] is not None]
    return frozenset(f"{name}{'!' if how else ''}{':' if form else ''}" for _, name, form, how in fields)
