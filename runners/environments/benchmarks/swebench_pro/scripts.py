"""The published scripts that run an instance's tests, and the commands built from an instance."""

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
