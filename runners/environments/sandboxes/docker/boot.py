"""The program that turns a container into a sandbox: the driver's source, run by the image's own Python."""

import marshal
from functools import lru_cache
from pathlib import Path
from typing import Any

from lhaw_record.runners.environments.sandboxes.inside_programs import INSIDE, INSIDE_MODULES, READ_PROGRAM
from lhaw_record.runners.environments.sandboxes.python_home import current_python_home

OLDEST_PYTHON = (3, 9)

_BOOT = (
    f"""\
import sys
if sys.version_info < {OLDEST_PYTHON}:
    sys.exit("its python3 is %s, and the sandbox needs {".".join(map(str, OLDEST_PYTHON))}" % sys.version.split()[0])
"""
    + READ_PROGRAM.format(0)
    + """\
import __future__
sources, cell, config, packages = marshal.loads(take(int.from_bytes(take(4), "big")))
for name, source in sources:
    sys.modules[name] = module = type(sys)(name)
    exec(compile(source, name, "exec", __future__.annotations.compiler_flag, True, 2), module.__dict__)
module.main(config, cell, packages)
"""
)

COMMAND = ("python3", "-I", "-S", "-c", _BOOT)
"""The first process of the container: the image's Python, which reads its program from standard input."""


def program(config: dict[str, Any], *, has_packages: bool) -> bytes:
    """Return the program that the first process reads."""
    sources, cell = _sources()
    # Version 2 of the format is the same for every Python; what is in it are texts and bytes only, no code.
    return marshal.dumps((sources, cell, config, _packages() if has_packages else []), 2)


@lru_cache(maxsize=1)
def _sources() -> tuple[list[tuple[str, str]], str]:
    folder = Path(__file__).parents[1] / "inside"
    sources = [
        (f"{INSIDE}.{name}", (folder / f"{name}.py").read_text(encoding="utf-8"))
        for name in (*INSIDE_MODULES, "container")
    ]
    return sources, (folder / "cell.py").read_text(encoding="utf-8")


@lru_cache(maxsize=1)
def _packages() -> list[tuple[str, bytes, int]]:
    """Return the files of the agent's packages, including compiled ones.

    They save a second if the Python versions match.
    """
    found = []
    for name, path in current_python_home().packages:
        root = Path(path)
        for file in sorted(root.rglob("*")):
            if file.suffix in (".py", ".pyc", ".json") and file.is_file():
                changed_s = int(file.stat().st_mtime)
                found.append((f"{name}/{file.relative_to(root).as_posix()}", file.read_bytes(), changed_s))
    return found
