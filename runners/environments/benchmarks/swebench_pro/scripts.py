"""The published scripts that run an instance's tests, the commands built from an instance, and how installers fail."""

import hashlib
import re
import shlex
from pathlib import Path

import msgspec

from lhaw_record.runners.environments.benchmarks.swebench_pro.instances import Instance

RUN_SCRIPT = "run_script.sh"
PARSER = "parser.py"


class Scripts(msgspec.Struct, frozen=True, kw_only=True):
    """The two scripts of an instance, byte for byte."""

    run_script: bytes
    parser: bytes

    @property
    def sha256(self) -> str:
        """One SHA-256 digest over both scripts."""
        parts = (self.run_script, self.parser)
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def read_scripts(folder: Path, instance_id: str) -> Scripts | str:
    """Return the scripts of an instance, or the reason why they cannot be used."""
    own = folder / instance_id
    if own.parent != folder or instance_id in (".", ".."):
        return f"its id {instance_id!r} cannot name a folder"
    contents = []
    for name in (RUN_SCRIPT, PARSER):
        try:
            contents.append((own / name).read_bytes())
        except OSError as error:
            return f"{own / name} cannot be read ({error.strerror or error}); get the published folder of run scripts"
    return Scripts(run_script=contents[0], parser=contents[1])


def command_before_tests(instance: Instance) -> str:
    """Return the last line of the command before the tests. The earlier lines would undo the patch."""
    return (instance.before_tests or "").strip().split("\n")[-1].strip()


def files_of_tests(instance: Instance) -> tuple[str, ...]:
    """Return the files that the command before the tests checks out from another commit, if any."""
    match = re.fullmatch(r"git\s+checkout\s+\S+\s+--\s+(.+)", command_before_tests(instance))
    if match is None:
        return ()
    try:
        return tuple(shlex.split(match[1]))
    except ValueError:
        return ()


def suite_command(instance: Instance) -> str:
    """Return the command that starts the run script.

    It is the evaluator's own command line. The published lists of tests were made with it, so file names are not quoted
    here either.
    """
    files = ",".join(instance.test_files or ())
    return f"bash /workspace/{RUN_SCRIPT} {files} > /workspace/stdout.log 2> /workspace/stderr.log"


# What a connection without a network ends with, in the words of Node.js, curl, Python and the C library.
_LOST = (
    "ENOTFOUND|EAI_AGAIN|E(SOCKET)?TIMEDOUT|ERR_SOCKET_TIMEOUT|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH"
    "|Could( not|n't) resolve|Temporary failure|Failed to connect|Connection timed out"
)
# By installer: what in a run script calls it, and the beginning of the lines in which it gives up. Tests may write of
# lost connections too, as to a database that they wait for, but not behind an installer's own prefix.
_INSTALLERS = (
    (r"\bnpx\b|\bnpm\b[^\n;&|]*\b(install|ci|i|add)\b", rf"npm (ERR!|error) (code E(429|5[0-9][0-9])$|.*({_LOST}))"),
    (
        r"\byarn\b[^\n;&|]*\b(install|add)\b|^\s*yarn\s*$",
        rf"(error .*|[^ ]* *YN[0-9]+: .*)({_LOST}|Request failed .*(429|5[0-9][0-9]) )",
    ),
    (r"\bpnpm\b[^\n;&|]*\b(install|i|add)\b", rf" *ERR_PNPM_.*({_LOST}|_FETCH_5[0-9][0-9])"),
    (
        r"\bpip[0-9.]*\b[^\n;&|]*\binstall\b",
        r" *(WARNING: Retrying .* after connection broken by|ERROR: .*HTTPS?Connect)",
    ),
    (
        r"\bgo (get|install|mod|test|list|build|run|vet)\b",
        r"(go: |[^ ]+\.go:[0-9]+:[0-9]+: ).*: Get \"?https?://.*: dial tcp",
    ),
    (r"\bcargo (install|fetch|add|build|test)\b", rf" *\[[0-9]+\] .*({_LOST})"),
    (r"\b(gem|bundle) install\b", r" *(Unable to download data from|Could not (reach host|fetch specs))"),
    (r"\bapt(-get)?\b[^\n;&|]*\b(install|update)\b", rf"[EW]: Failed to fetch .*({_LOST})"),
)


def lost_network_pattern(run_script: bytes) -> str:
    """Return an extended regular expression for the lines in which an installer of a run script lost the network.

    It is empty if the script calls no installer: then whatever the output says, the tests say it.
    """
    text = re.sub(r"(?m)^\s*#.*$", "", run_script.decode("utf-8", "replace"))
    said = [line for call, line in _INSTALLERS if re.search(call, text, re.MULTILINE)]
    return f"^({'|'.join(said)})" if said else ""
