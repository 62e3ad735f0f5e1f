"""The agent's Python interpreter: run pieces of code in one namespace, like the cells of a notebook."""

import _ast
import os
import sys
from types import CodeType, ModuleType, TracebackType

_ONLY_AST = 0x400  # ast.PyCF_ONLY_AST; importing ast would cost milliseconds


def serve(request_descriptor: int, status_descriptor: int) -> None:
    """Run each piece of code that arrives, and write its number and exit code on a line, until the driver closes."""
    for descriptor in (request_descriptor, status_descriptor):
        os.set_inheritable(descriptor, False)
    module = ModuleType("__main__")
    sys.modules["__main__"] = module
    sys.argv = [""]
    owner = os.getpid()
    number = 0
    while True:
        size = int.from_bytes(_read(request_descriptor, 4), "big")
        code = _read(request_descriptor, size)
        number += 1
        exit_code = run_cell(code.decode("utf-8", "replace"), f"<cell {number}>", module.__dict__)
        if os.getpid() != owner:
            os._exit(exit_code)  # a child of os.fork reached the end of the code; it must not serve requests
        os.write(status_descriptor, b"%d %d\n" % (number, exit_code))


def run_cell(code: str, name: str, namespace: dict[str, object]) -> int:
    """Run one piece of code, print the value of a final expression or the traceback, and return an exit code."""
    try:
        for part in _compile(code, name):
            exec(part, namespace)  # noqa: S102  running the agent's code is the purpose of this file
    except SystemExit as ending:
        return _exit_code(ending.code)
    except BaseException as error:  # noqa: BLE001  the agent must see any exception
        _print_traceback(error, code, name)
        return 1
    finally:
        _flush()
    return 0


def _compile(code: str, name: str) -> list[CodeType]:
    tree = compile(code, name, "exec", _ONLY_AST)
    body = tree.body
    last = [body.pop()] if body and isinstance(body[-1], _ast.Expr) else []
    first: CodeType = compile(tree, name, "exec")
    # "single" hands the value to sys.displayhook, which prints it unless it is None.
    return [first, compile(_ast.Interactive(body=last), name, "single")] if last else [first]


def _exit_code(code: object) -> int:
    if code is None:
        return 0
    if isinstance(code, int):
        return code & 0xFF
    sys.stderr.write(f"{code}\n")
    return 1


def _print_traceback(error: BaseException, code: str, name: str) -> None:
    import linecache
    import traceback

    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    try:
        traceback.print_exception(type(error), error, _without_us(error.__traceback__))
    except BaseException:  # noqa: BLE001  an exception that fails to print must not end the interpreter
        os.write(2, f"{type(error).__name__}\n".encode())


def _without_us(frames: "TracebackType | None") -> "TracebackType | None":  # quoted: Python 3.9 cannot evaluate it
    while frames is not None and frames.tb_frame.f_globals is globals():
        frames = frames.tb_next
    return frames


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue  # the code has closed or replaced it


def _read(descriptor: int, size: int) -> bytes:
    data = b""
    while len(data) < size:
        more = os.read(descriptor, size - len(data))
        if not more:
            os._exit(0)
        data += more
    return data
