"""The programs that run inside a sandbox (``inside/``), as code that is sent there: nothing of ours is mounted."""

import marshal
from functools import lru_cache
from pathlib import Path
from typing import Any

from lhaw_record.runners.environments.sandboxes.inside.worker import REQUEST_DESCRIPTOR, STATUS_DESCRIPTOR

INSIDE = "lhaw_record.runners.environments.sandboxes.inside"
INSIDE_MODULES = (
    *("wire", "output", "processes", "confine", "worker"),
    *("files", "forwarder", "program", "driver"),
)
"""The modules that are sent into a sandbox, each after those that it imports."""
SERVER_MODULES = ("confine", "server")
"""The same for the supervisor of a tool server."""

# Both programs come as compiled code through a descriptor: nothing of ours is bound into the sandbox or compiled there.
READ_PROGRAM = """\
import marshal, os, sys
def take(size):
    data = b""
    while len(data) < size:
        more = os.read({0}, size - len(data))
        if not more:
            os._exit(1)
        data += more
    return data
"""
_DRIVER_BOOT = (
    READ_PROGRAM.format(0)
    + """\
modules, config, cell = marshal.loads(take(int.from_bytes(take(4), "big")))
for name, code in modules:
    sys.modules[name] = module = type(sys)(name)
    exec(code, module.__dict__)
module.main(config, cell)
"""
)
CELL_BOOT = (
    READ_PROGRAM.format(REQUEST_DESCRIPTOR)
    + f"""\
cell = {{"__name__": "cell"}}
exec(marshal.loads(take(int.from_bytes(take(4), "big"))), cell)
cell["serve"]({REQUEST_DESCRIPTOR}, {STATUS_DESCRIPTOR})
"""
)


def driver_command(python: str) -> list[str]:
    """Return the command that starts a driver: an interpreter without site packages, which starts in 10 ms."""
    return [python, "-I", "-S", "-c", _DRIVER_BOOT]


def driver_program(config: dict[str, Any], modules: tuple[str, ...] = INSIDE_MODULES) -> bytes:
    """Return the program that the interpreter of :func:`driver_command` reads first, after its length in 4 bytes."""
    return marshal.dumps((_inside_programs(modules), config, _cell_program()))


@lru_cache(maxsize=4)
def _inside_programs(modules: tuple[str, ...]) -> tuple[tuple[str, Any], ...]:
    return tuple((f"{INSIDE}.{name}", _compiled(name)) for name in modules)


@lru_cache(maxsize=1)
def _cell_program() -> bytes:
    return marshal.dumps(_compiled("cell"))


def _compiled(name: str) -> Any:
    path = Path(__file__).parent / "inside" / f"{name}.py"
    return compile(path.read_bytes(), f"<sandbox {name}>", "exec", dont_inherit=True, optimize=2)
