"""Which desk tasks there are: every module of ``tasks/`` that defines ``TASK``, in the order of their names."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from runners.benchmarks.desk import tasks
from runners.benchmarks.desk.template import DeskTask


@cache
def desk_tasks() -> tuple[DeskTask, ...]:
    """Return the published instance of every desk task."""
    names = sorted(module.name for module in iter_modules(tasks.__path__))
    return tuple(import_module(f"{tasks.__name__}.{name}").TASK for name in names)
