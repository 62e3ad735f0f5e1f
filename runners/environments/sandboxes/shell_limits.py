"""Check before a run that this process may open enough files and use enough address space."""

import resource

from lhaw_record.runners.base.errors import ExperimentError

_OWN_FILES, _TRIAL_FILES = 64, 16  # measured: 13 and 9 with scripted models; models and listeners need connections
_INSIDE_FILES = 256  # needed inside a sandbox: its driver avoids the descriptors that scripts use
_OWN_MB, _TRIAL_MB = 1536, 16  # of address space, most of it reserved by threads and never used


def check_shell_limits(concurrency: int) -> None:
    """Raise this process's soft limit of open files if it is too low; refuse to start if a hard limit is too low."""
    files = max(_INSIDE_FILES, _OWN_FILES + _TRIAL_FILES * concurrency)
    _raise_limit(
        resource.RLIMIT_NOFILE,
        files,
        f"open files, and {concurrency} trials at a time need {files}: run `ulimit -n {files}` first (as root where it "
        "is refused), or fewer at a time with --concurrency",
    )
    needed_mb = _OWN_MB + _TRIAL_MB * concurrency
    _raise_limit(
        resource.RLIMIT_AS,
        needed_mb << 20,
        f"MB of address space, and {concurrency} trials at a time need {needed_mb}: start from a shell with "
        "`ulimit -v unlimited`; limits.memory_mb limits the agents",
        unit=1 << 20,
    )


def _raise_limit(kind: int, needed: int, problem: str, *, unit: int = 1) -> None:
    soft, hard = resource.getrlimit(kind)
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ExperimentError(f"this shell allows {hard // unit} {problem}")
        raised = hard if kind == resource.RLIMIT_AS else needed  # the memory requirement is a rough estimate
        resource.setrlimit(kind, (raised, hard))
