"""What is run for an instance's tests: its two published scripts, and the command that brings the tests along."""

import hashlib
import re
import shlex
from pathlib import Path

import msgspec

from runners.benchmarks.swebench_pro.instances import Instance

RUN_SCRIPT = "run_script.sh"
PARSER = "parser.py"


class Scripts(msgspec.Struct, frozen=True, kw_only=True):
    """The two scripts of an instance, to the byte."""

    run_script: bytes
    parser: bytes

    @property
    def sha256(self) -> str:
        """One digest of both."""
        parts = (self.run_script, self.parser)
        return hashlib.sha256(b"".join(hashlib.sha256(part).digest() for part in parts)).hexdigest()


def read_scripts(folder: Path, instance_id: str) -> Scripts | str:
    """Return the scripts of an instance, or why they cannot be used.

    Args:
        folder: It has a folder named like each instance, as published.
        instance_id: The instance's.
    """
    own = folder / instance_id
    if own.parent != folder or instance_id in (".", ".."):
        return f"its id {instance_id!r} is no name of a folder"
    contents = []
    for name in (RUN_SCRIPT, PARSER):
        try:
            contents.append((own / name).read_bytes())
        except OSError as error:
            return f"{own / name} cannot be read ({error.strerror or error}); get the published folder of run scripts"
    return Scripts(run_script=contents[0], parser=contents[1])


def command_before_tests(instance: Instance) -> str:
    """Return the last line of what an instance runs before its tests; the lines before it would undo the patch."""
    return (instance.before_tests or "").strip().split("\n")[-1].strip()


def files_of_tests(instance: Instance) -> tuple[str, ...]:
    """Return the files that the command before the tests takes from another commit; none where it does not."""
    match = re.fullmatch(r"git\s+checkout\s+\S+\s+--\s+(.+)", command_before_tests(instance))
    if match is None:
        return ()
    try:
        return tuple(shlex.split(match[1]))
    except ValueError:
        return ()


def suite_command(instance: Instance) -> str:
    """Return how the run script is started: as the evaluator writes it, with the names of files as they are.

    The lists of tests were made with exactly this line, so names are not quoted here either.
    """
    files = ",".join(instance.test_files or ())
    return f"bash /workspace/{RUN_SCRIPT} {files} > /workspace/stdout.log 2> /workspace/stderr.log"
