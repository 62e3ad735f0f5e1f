"""Where a daemon cannot listen: said in one sentence with what to change, and no store is made for it."""

import socket

import pytest

from lhaw_record.runners.base.errors import RunnerError
from lhaw_record.runners.runs.daemon.serve import bound
from tests.cli.program import called


@pytest.mark.parametrize("port", ["99999", "-1", "65536", "http"])
def test_what_is_not_a_port_is_refused_as_usage(tmp_path, monkeypatch, port):
    """A word or a number outside of TCP's ends with exit code 2, the option's name and the numbers that there are."""
    monkeypatch.chdir(tmp_path)
    done = called("serve", "--store", "store", "--port", port)
    assert (done.returncode, done.stdout) == (2, "")
    assert "argument --port: " in done.stderr
    assert "is not a TCP port; ports go from 1 to 65535" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_port_in_use_is_named(tmp_path):
    """Another program's port is refused by name, with the way to a free one."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        done = called("serve", "--store", tmp_path / "store", "--port", port)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}: another program listens there; choose another" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ("203.0.113.7", "is not an address of this machine"),
        ("no-such-host.invalid", "no address of the name"),
        ("a..b", "no address of the name"),
    ],
)
def test_a_host_that_is_not_here_is_named(tmp_path, host, words):
    """The option to change is the host, and another port is not recommended."""
    done = called("serve", "--store", tmp_path / "store", "--host", host, extra={"LHAW_RECORD_TOKEN": "a" * 32})
    assert done.returncode == 1
    assert words in done.stderr
    assert "--port" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_privileged_port_says_who_may_have_it(monkeypatch):
    """The kernel's refusal of a low port is told with the remedy; root would be given the port, so it is played."""

    def refuse(*_, **__):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refuse)
    with (
        pytest.raises(RunnerError, match="ports below 1024 are for root here; choose a higher one than 80"),
        bound("127.0.0.1", 80),
    ):
        pass
