"""Which kinds of task a scripted model knows: every module of ``recipes/`` that defines ``RECIPE``."""

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from runners.models.scripted import recipes as recipes_package
from runners.models.scripted.recipe import Recipe, bash

UNKNOWN_TASK = Recipe(
    name="unknown",
    recognise="",
    parameters=(),
    steps=(
        bash("look around", "find . -type f | sort | head -n 50"),
        bash("look into the files", "find . -type f | sort | head -n 3 | xargs -r head -n 5"),
    ),
    answer=lambda values, memory: "I do not know how to do this task.",
)


@cache
def recipes() -> tuple[Recipe, ...]:
    """Return every recipe, in the order of their names."""
    names = sorted(module.name for module in iter_modules(recipes_package.__path__))
    return tuple(import_module(f"{recipes_package.__name__}.{name}").RECIPE for name in names)
