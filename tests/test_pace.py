"""No test fails because the machine is busy: laws have no deadline, and who waits for something waits for minutes."""

import ast
from pathlib import Path

import pytest

HERE = Path(__file__).parent
FILES = [path for path in sorted(HERE.rglob("*.py")) if not path.is_relative_to(HERE / "bench")]
LEAST_S = 300
CLIENTS = ("AsyncClient", "Client")


def problems(source):
    """Return each call in a test's source that gives a busy machine too little time, with its line."""
    return [
        f"line {call.lineno}: {ast.unparse(call)[:80]}"
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call) and _is_hasty(call)
    ]


def _is_hasty(call):
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", "")
    given = {each.arg: each.value for each in call.keywords}
    if name in ("settings", "register_profile"):
        return "deadline" in given
    if name == "fail_after":
        return _is_short(call.args[0])
    if name in CLIENTS and ast.unparse(call.func).startswith("httpx"):
        return ("transport" not in given and "timeout" not in given) or _is_short(given.get("timeout"))
    return name in ("communicate", "run", "urlopen", "wait") and _is_short(given.get("timeout"))


def _is_short(seconds):
    return isinstance(seconds, ast.Constant) and seconds.value is not None and seconds.value < LEAST_S


@pytest.mark.parametrize(
    "hasty",
    [
        "@settings(deadline=500)\ndef law(): pass",
        "with anyio.fail_after(20): pass",
        "process.communicate(timeout=60)",
        "httpx.AsyncClient(base_url=url)",
        "httpx.AsyncClient(base_url=url, timeout=5)",
    ],
)
def test_what_gives_too_little_time_is_seen(hasty):
    """The search below can find something."""
    assert problems(hasty)


@pytest.mark.thorough
def test_no_test_gives_a_busy_machine_too_little_time():
    """Deadlines of laws, short limits of waits, and clients with the limits that their library sets."""
    found = {str(path.relative_to(HERE)): problems(path.read_text(encoding="utf-8")) for path in FILES}
    assert {name: lines for name, lines in found.items() if lines} == {}
