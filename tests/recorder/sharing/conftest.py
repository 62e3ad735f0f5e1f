"""Places that many hosts share: a bucket of a real S3-compatible server, and a directory."""

import subprocess
import sys

import pytest

from tests.recorder.sharing.hosts import KEYS, Host
from tests.recorder.sharing.proxy import Proxy

BUCKET = "team"


@pytest.fixture(scope="session")
def s3_port():
    """The port of a server that speaks S3, with an empty bucket."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.recorder.sharing.server"], stdout=subprocess.PIPE, text=True
    )
    line = ""
    while not line.strip().isdigit():
        line = process.stdout.readline()
        assert line, "the S3 server did not start"
    port = int(line)
    from pyarrow.fs import S3FileSystem

    S3FileSystem(
        access_key="key",
        secret_key="secret",
        endpoint_override=f"127.0.0.1:{port}",
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    ).create_dir(BUCKET)
    yield port
    process.kill()
    process.communicate()


@pytest.fixture(autouse=True)
def _keys(monkeypatch):
    """The keys of the test server, for what this process itself opens."""
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def bucket(s3_port, tmp_path):
    """An address in the bucket that no other test uses."""
    return s3_address(s3_port, tmp_path.name)


@pytest.fixture
def directory(tmp_path):
    """The address of a directory."""
    return f"shared:{tmp_path}/mounted"


@pytest.fixture(params=["bucket", "directory"])
def address(request):
    """An address of each kind."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def new_host(tmp_path):
    """Makes hosts: ``new_host(address)``, or ``new_host(address, mutation)``; their processes end with the test."""
    made = []

    def make(address, mutation=""):
        made.append(Host(tmp_path / f"host{len(made)}", address, mutation))
        return made[-1]

    yield make
    for host in made:
        host.die()


@pytest.fixture
def proxy(s3_port):
    """A way to the S3 server that can be cut."""
    made = Proxy(s3_port)
    yield made
    made.close()


@pytest.fixture
def cut_address(proxy, tmp_path):
    """The address of ``bucket``, by the way that can be cut."""
    return s3_address(proxy.port, tmp_path.name)


def s3_address(port, prefix):
    """The address of a prefix in the test's bucket."""
    return f"s3://{BUCKET}/{prefix}?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
