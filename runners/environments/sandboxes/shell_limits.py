"""Check before a run that this process may open enough files and use enough address space."""

import resource

from lhaw_record.runners.base.errors import ExperimentError

_OWN_FILES, _TRIAL_FILES = 64, 16  # measured: 13 and 9 with scripted models; models and listeners need connections
_INSIDE_FILES = 256  # what a sandbox needs inside: its driver keeps clear of the descriptors that scripts use
_OWN_MB, _TRIAL_MB = 1536, 16  # of address space, most of it reserved by threads and never used


def check_shell_limits(concurrency: int) -> None:
    """Raise this process's soft limit of open files if it is too low; refuse to start if a hard limit is too low."""
    _check_files(concurrency)
    _check_address_space(concurrency)


def _check_files(concurrency: int) -> None:
    needed = max(_INSIDE_FILES, _OWN_FILES + _TRIAL_FILES * concurrency)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if _holds(soft, needed):
        return
    if not _holds(hard, needed):
        raise ExperimentError(
            f"this shell allows {hard} open files, and {concurrency} trials at a time need {needed}: run "
            f"`ulimit -n {needed}` first (as root where it is refused), or fewer at a time with --concurrency"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _check_address_space(concurrency: int) -> None:
    needed_mb = _OWN_MB + _TRIAL_MB * concurrency
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    if _holds(soft, needed_mb << 20):
        return
    if not _holds(hard, needed_mb << 20):
        raise ExperimentError(
            f"this shell allows {hard >> 20} MB of address space, and {concurrency} trials at a time need "
            f"{needed_mb}: start from a shell with `ulimit -v unlimited`; limits.memory_mb limits the agents"
        )
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def _holds(limit: int, needed: int) -> bool:
    return limit == resource.RLIM_INFINITY or limit >= needed
