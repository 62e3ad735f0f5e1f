"""Write a new benchmark or a new Harbor task from its template: small, working, with tests."""

import keyword
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from lhaw_record.recorder.cli.output import write_file
from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError

_TEMPLATE = "my_benchmark"
_CLASS = "MyBenchmark"
_NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")


def write_benchmark(name: str, folder: Path) -> None:
    """Write the package of a new benchmark."""
    from lhaw_record.runners.environments.benchmarks import known_benchmarks

    if not _NAME.fullmatch(name) or keyword.iskeyword(name) or name == "tests":
        raise ExperimentError(
            f"{name!r} cannot name a benchmark; use lower-case letters, digits and single underscores (web_shop)"
        )
    if name in sys.stdlib_module_names or (find_spec(name) is not None and name not in known_benchmarks()):
        raise ExperimentError(f"{name!r} is the name of a Python module here, which it would hide; choose another name")
    if name in known_benchmarks():
        raise ExperimentError(f"there is already a benchmark {name!r}; use another name")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ExperimentError(f"{folder} already exists; name another folder with --to")
    template = data_path("new_benchmark")
    class_name = "".join(part.title() for part in name.split("_"))
    class_name = class_name if class_name.endswith("Benchmark") else f"{class_name}Benchmark"
    for source in sorted(template.rglob("*")):
        if source.is_file() and "__pycache__" not in source.parts:
            target = folder / str(source.relative_to(template)).replace(_TEMPLATE, name)
            text = source.read_text(encoding="utf-8").replace(_TEMPLATE, name).replace(_CLASS, class_name)
            write_file(target, text.encode())


_TASK_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
_EXPERIMENT = "experiment.toml"
_DOCKER = '\n[sandbox]\nkind = "docker"'
_NO_DOCKER = "without_docker = true  # in a sandbox on this machine's own system; leave it out to use the image"
_SCRIPTS = ("tests/test.sh", "solution/solve.sh")


def write_task(name: str, image: str, *, has_docker: bool) -> tuple[Path, Path]:
    """Write the folder of a task and an experiment beside it, and return both paths."""
    if not _TASK_NAME.fullmatch(name):
        raise ExperimentError(f"{name!r} is not a name of a task; use lower-case letters, digits and '-' (sort-guests)")
    folder, experiment = Path(name), Path(f"{name}.toml")
    for path in (folder, experiment):
        if path.exists():
            raise ExperimentError(f"{path} already exists; choose another name")
    template = data_path("new_task")
    for source in sorted(path for path in template.rglob("*") if path.is_file()):
        relative = source.relative_to(template).as_posix()
        target = experiment if relative == _EXPERIMENT else folder / relative
        text = source.read_text(encoding="utf-8")
        for mark, value in (("{name}", name), ("{image}", image), ("{sandbox}", _DOCKER if has_docker else _NO_DOCKER)):
            text = text.replace(mark, value)
        write_file(target, text.encode())
        if relative in _SCRIPTS:
            target.chmod(0o755)
    return folder, experiment
