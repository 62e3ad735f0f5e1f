"""Write a new Harbor task from the template: a folder with tests, a solution and two variants, and an experiment."""

import re
from pathlib import Path

from lhaw_record.recorder.resources import data_path
from lhaw_record.runners.base.errors import ExperimentError

_NAME = re.compile(r"[a-z0-9]+([._-][a-z0-9]+)*")
_EXPERIMENT = "experiment.toml"
_DOCKER = '\n[sandbox]\nkind = "docker"'
_NO_DOCKER = "without_docker = true  # in a sandbox on this machine's own system; leave it out to use the image"
_SCRIPTS = ("tests/test.sh", "solution/solve.sh")


def write_task(name: str, image: str, *, has_docker: bool) -> tuple[Path, Path]:
    """Write the folder of a task and an experiment beside it, and return both paths."""
    if not _NAME.fullmatch(name):
        raise ExperimentError(f"{name!r} cannot name a task; take lower-case letters, digits and '-' (sort-guests)")
    folder, experiment = Path(name), Path(f"{name}.toml")
    for path in (folder, experiment):
        if path.exists():
            raise ExperimentError(f"{path} is there already; take another name")
    template = data_path("new_task")
    for source in sorted(path for path in template.rglob("*") if path.is_file()):
        relative = source.relative_to(template).as_posix()
        target = experiment if relative == _EXPERIMENT else folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        text = source.read_text(encoding="utf-8")
        for mark, value in (("{name}", name), ("{image}", image), ("{sandbox}", _DOCKER if has_docker else _NO_DOCKER)):
            text = text.replace(mark, value)
        target.write_text(text, encoding="utf-8")
        if relative in _SCRIPTS:
            target.chmod(0o755)
    return folder, experiment
