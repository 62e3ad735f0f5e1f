"""How a program of a grader ends at each limit of its machine: one ending for each field of the real result's type.

A field that is added to :class:`ExecResult` is a new case of every law that uses these, without an edit here.
"""

import msgspec

from lhaw_record.runners.environments.sandboxes.docker.execution import ExecResult

FLAGS = tuple(field.name for field in msgspec.structs.fields(ExecResult) if field.type is bool)
ENDINGS = {
    **{flag: {flag: True, "exit_code": None if flag == "is_timeout" else 1} for flag in FLAGS},
    "a signal": {"exit_code": 137},
    "file_too_large": {"exit_code": 153},  # 128 + SIGXFSZ, the signal of RLIMIT_FSIZE
}
"""Fields of a result by the limit that it met."""
GOES_ON = {flag: {flag: True, "exit_code": 0} for flag in FLAGS if flag != "is_timeout"}
"""The same where the program went on and ended well: what it says may still be wrong."""


def ended(**fields):
    """Return a result with these fields, else a good one without output."""
    return ExecResult(**{"exit_code": 0, "stdout": b"", "stderr": b"", **fields})
