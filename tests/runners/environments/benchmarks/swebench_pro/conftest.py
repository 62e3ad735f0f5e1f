"""What the tests of instances on a real engine share: the images, a benchmark of them, and settings to open it with."""

import pytest

from lhaw_record.runners.environments.benchmarks.protocol import EnvironmentSettings
from lhaw_record.runners.environments.benchmarks.swebench_pro import open_swebench_pro
from lhaw_record.runners.environments.sandboxes.protocol import SandboxLimits
from lhaw_record.runners.experiment.tables import GraderSpec
from tests.runners.environments.benchmarks.swebench_pro.acme import Acme, make, task_of
from tests.runners.environments.sandboxes.docker_fixtures import make_provider
from tests.support.docker import engine_address
from tests.support.once import made_once


@pytest.fixture(scope="session")
def acme(tmp_path_factory):
    """Return the instances; their images are on the engine."""
    return Acme(made_once(tmp_path_factory, "acme", make))


@pytest.fixture
def engine(monkeypatch):
    """Use the engine of the tests."""
    if engine_address():
        monkeypatch.setenv("DOCKER_HOST", engine_address())


@pytest.fixture
def benchmark(acme, engine, tmp_path):
    """Return the benchmark of the instances."""
    return open_swebench_pro(acme.options(), tmp_path, GraderSpec())


@pytest.fixture
def opened(benchmark, settings):
    """Return how to open the environment of an instance by its language, with keys of ``[benchmark]`` of its own."""

    def open_instance(language, acme=None, **options):
        source = open_swebench_pro(acme.options(**options), acme.folder, GraderSpec()) if acme else benchmark
        return source.open(task_of(source, language), settings)

    return open_instance


@pytest.fixture
def settings(engine):
    """Return how its environments are opened."""
    return EnvironmentSettings(sandbox=make_provider(), limits=SandboxLimits(memory_mb=256, command_seconds=30))
