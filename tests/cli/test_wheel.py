"""The wheel: one package that carries SQL, data, the demo and its types, and runs outside the checkout."""

import email
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.cli.experiments import write_experiment
from tests.cli.program import environment
from tests.support.docker import BASE_IMAGE, docker
from tests.support.needs import needs

ROOT = Path(__file__).parents[2]
LAYERS = ("recorder", "runners", "analytics", "generators")
CODE = {layer: layer for layer in LAYERS}
SOURCES = (
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "lhaw_record",
    "sql",
    "data",
    "docs",
    "examples",
    "experiments",
    *LAYERS,
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of what it is built from."""
    for needed in ("hatchling", "hatch_fancy_pypi_readme"):
        pytest.importorskip(needed, reason=f"building a wheel without network needs {needed} in this environment")
    folder = tmp_path_factory.mktemp("wheel")
    copy = folder / "copy"
    copy.mkdir()
    for name in SOURCES:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, copy / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, copy / name)
    build = "import sys, hatchling.build as b; print(b.build_wheel(sys.argv[1]))"
    built = subprocess.run(
        [sys.executable, "-c", build, str(folder)], cwd=copy, capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.thorough
def test_the_wheel_carries_sql_and_data_and_no_stray_packages(wheel):
    """What layers read travels inside them, file for file; nothing but the package stands at the top."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    carried = {name: f"recorder/{name}" for name in ("data", "docs", "examples/agents", "experiments")}
    places = {"sql": "analytics/sql", **carried, **CODE}
    for source, inside in places.items():
        files = [path for path in (ROOT / source).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        assert files
        assert {f"lhaw_record/{inside}/{path.relative_to(ROOT / source)}" for path in files} <= names
    assert "lhaw_record/py.typed" in names
    tops = {name.partition("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"lhaw_record"}


@pytest.mark.thorough
def test_a_package_index_shows_no_link_that_leads_nowhere(wheel):
    """Neither to files nor to headings; addresses are whole, and the two papers are named."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        shown = email.message_from_bytes(archive.read(name))
    links = re.findall(r"\]\(([^)]*)\)", shown.get_payload())
    assert links
    assert all(link.startswith("https://") for link in links)
    addresses = [each.rpartition(", ")[2] for each in shown.get_all("Project-URL")]
    assert set(addresses) <= set(links)
    assert len(addresses) == 2


def test_the_version_is_one():
    """In the package, in the citation and at the top of the changes."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == version


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """A new environment, in a path with blanks, with the wheel put there by pip or uv; the dependencies are ours."""
    root = tmp_path_factory.mktemp("new") / "a new environment"
    venv.create(root, with_pip=False)
    python = root / "bin" / "python"
    install = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python), "install"]
    if find_spec("pip") is None:  # an environment that uv made has none
        install = ["uv", "pip", "install", "--python", str(python)]
    subprocess.run([*install, "--quiet", "--no-deps", "--no-index", str(wheel)], check=True)
    (site,) = root.glob("lib/python*/site-packages")
    # a plain path: the editable installation of this checkout, which is in .pth files there, is not followed
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    for name in LAYERS:  # packages of others, which own our folders' names
        (site / name).mkdir()
        (site / name / "__init__.py").write_text(f"raise AssertionError('{name} of somebody else was imported')\n")
    return root, site


def run(installed, *arguments, cwd):
    """Run a program of the new environment; PATH has it, PYTHONPATH has nothing."""
    root, _ = installed
    inherited = {name: value for name, value in environment().items() if name != "PYTHONPATH"}
    path = f"{root / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        arguments, cwd=cwd, env={**inherited, "PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.mark.thorough
def test_the_wheel_has_a_demo_of_its_own(installed, tmp_path):
    """`lhaw-record demo` runs the experiment inside, prints the headline and what to try next; again it runs nothing.

    Beside it are packages of others, in site-packages and in the folder, that own the names of our folders.
    """
    _, site = installed
    bundled = site / "lhaw_record" / "recorder" / "experiments" / "demo.toml"
    assert bundled.read_bytes() == (ROOT / "experiments" / "demo.toml").read_bytes()
    write_experiment(bundled, name="demo", conditions=["full", "underspecified"])  # the whole one takes a minute
    folder = tmp_path / "work here"
    folder.mkdir()
    for name in LAYERS:
        shutil.copytree(site / name, folder / name)
    first, again = (run(installed, "lhaw-record", "demo", cwd=folder) for _ in range(2))
    assert (first.returncode, again.returncode) == (0, 0), first.stderr
    assert "stores/demo: 2 trials finished now, 0 left" in first.stderr
    assert "stores/demo: all 2 trials are finished; nothing to run" in again.stderr
    tables, _, following = first.stdout.partition("\nThe store is stores/demo. Worth trying next:\n")
    assert "underspecified" in tables
    assert "What did missing information cost?" in tables
    assert first.stdout == again.stdout
    commands = [shlex.split(line) for line in following.splitlines()]
    assert {words[0] for words in commands} == {"lhaw-record"}
    last = run(installed, *commands[-1], cwd=folder)
    assert (last.returncode, "underspecified" in last.stdout) == (0, True)
    query = "import lhaw_record as l; print(l.__file__, l.open('stores/demo').sql('from trials').df().shape[0])"
    where = run(installed, "python", "-c", query, cwd=folder)
    assert where.stdout == f"{site}/lhaw_record/__init__.py 2\n", where.stderr


CONSUMER = """\
from pathlib import Path

from lhaw_record import analytics
from lhaw_record.recorder.reading.reader import read_snapshot
from lhaw_record.runners.experiment.tables import Experiment

name: str = analytics.TABLES[0]
wrong: int = read_snapshot(Path("stores/demo")).segments
trials: str = Experiment.trials
"""


@pytest.mark.thorough
def test_programs_of_others_see_our_types(installed, tmp_path):
    """mypy, outside of the checkout, takes annotations from the wheel: it finds two faults, and only these."""
    pytest.importorskip("mypy")
    (tmp_path / "consumer.py").write_text(CONSUMER)
    root, _ = installed
    words = ["-m", "mypy", "--strict", "--python-executable", str(root / "bin" / "python"), "consumer.py"]
    done = run(installed, sys.executable, *words, cwd=tmp_path)
    faults = [line for line in done.stdout.splitlines() if "error:" in line]
    assert [line.rpartition("[")[2] for line in faults] == ["assignment]", "assignment]"], done.stdout
    assert all(line.startswith("consumer.py:") for line in faults)


@needs("docker")
@pytest.mark.thorough
def test_the_container_runs_as_nobody_in_particular_and_says_what_it_needs(wheel, tmp_path):
    """Our Dockerfile, on Debian: without options trials are processes and a page is named; with them bubblewrap works.

    The dependencies are those of this environment, mounted, since installing them takes a minute.
    """
    if sys.version_info[:2] != (3, 11):
        pytest.skip("the base image has Python 3.11, and so must this environment")
    context, image = tmp_path / "context", "lhaw-record/container"
    (context / "dist").mkdir(parents=True)
    shutil.copy(wheel, context / "dist")
    shutil.copy(ROOT / "Dockerfile", context)
    arguments = {"BASE": BASE_IMAGE, "PACKAGES": "bubblewrap python3-venv", "PIP_OPTIONS": "--no-deps --no-index"}
    built = docker(
        *("build", "--network", "host", "--tag", image),
        *(word for name, value in arguments.items() for word in ("--build-arg", f"{name}={value}")),
        str(context),
    )
    assert built.returncode == 0, built.stdout + built.stderr
    demo = write_experiment(tmp_path / "demo.toml", name="demo")
    site = "/opt/lhaw-record/lib/python3.11/site-packages"
    data = tmp_path / "data"
    data.mkdir()
    data.chmod(0o777)  # the user in it is not this one
    mounts = (
        f"{sysconfig.get_path('purelib')}:/dependencies:ro",
        f"{demo}:{site}/lhaw_record/recorder/experiments/demo.toml:ro",
        f"{data}:/data",
    )
    mounted = ["--env", "PYTHONPATH=/dependencies", *(word for each in mounts for word in ("--volume", each))]
    options = ("seccomp=unconfined", "systempaths=unconfined", "apparmor=unconfined")

    def called(*words, options=()):
        allowed = (word for each in options for word in ("--security-opt", each))
        done = docker("run", "--rm", "--network", "none", *allowed, *mounted, image, *words)
        assert done.returncode == 0, done.stderr
        return done

    assert "docs/container.md" in called("demo", "--store", "plain").stderr
    assert "sandbox: bubblewrap" in called("demo", options=options).stderr
    assert "underspecified" in called("tables", "stores/demo", "overall").stdout
    assert {path.stat().st_uid for path in data.rglob("*")} == {1000}
